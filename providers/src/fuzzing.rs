//! Properties that hold for any bytes that a server sends, for the targets in `fuzz/` and the tests
//! below.

use crate::config::Wire;
use crate::reading;
use crate::stream::StreamEvent;
use crate::vendors::GENERIC;
use leftfold_framing::sse::{Parser, SseEvent};

const NAME: &str = "p";

/// The events of a body that arrives in these pieces and then ends.
pub fn decode(wire: Wire, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    let Some(http) = wire.protocol().http() else { return Vec::new() };
    reading::decode(http.framing(), http.decoder(NAME, &GENERIC), pieces.iter().copied())
}

/// The pieces in which server-sent events arrive do not change their meaning.
///
/// # Errors
/// The property that does not hold.
pub fn sse(data: &[u8]) -> Result<(), String> {
    let events = |pieces: &[&[u8]]| {
        let (mut parser, mut events) = (Parser::new(), Vec::<String>::new());
        let mut take = |event: SseEvent<'_>| events.push(format!("{event:?}"));
        pieces.iter().for_each(|piece| parser.push(piece, &mut take));
        (events, parser.unfinished())
    };
    let (size, bytes) = pieces(data);
    let (whole, split) = (events(&[bytes]), events(&bytes.chunks(size).collect::<Vec<_>>()));
    if whole != split {
        return Err(format!("{whole:?} in one, {split:?} in pieces of {size}"));
    }
    Ok(())
}

/// The pieces in which bytes arrive do not change a wire's events, and no event follows the last.
///
/// # Errors
/// The property that does not hold.
pub fn wire(wire: Wire, data: &[u8]) -> Result<(), String> {
    let (size, bytes) = pieces(data);
    let whole = decode(wire, &[bytes]);
    let split = decode(wire, &bytes.chunks(size).collect::<Vec<_>>());
    if whole != split {
        return Err(format!("{whole:?} in one, {split:?} in pieces of {size}"));
    }
    match whole.iter().position(StreamEvent::is_last) {
        Some(last) if last + 1 < whole.len() => {
            Err(format!("something follows the end: {whole:?}"))
        }
        _ => Ok(()),
    }
}

/// The first byte decides into which pieces the others are cut.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    let (first, bytes) = data.split_first().unwrap_or((&0, &[]));
    (usize::from(*first) % 16 + 1, bytes)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Random bytes mixed with fragments of real answers.
    fn data() -> impl Strategy<Value = Vec<u8>> {
        const PIECES: &[&str] = &[
            "data: ",
            "data:",
            "event: ",
            ": c\n",
            "\n",
            "\n\n",
            "\r\n",
            "\r",
            "\u{feff}",
            "[DONE]",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "null",
            "1",
            "-1",
            "1e400",
            "true",
            "\\u00",
            "data: {\"type\":\"message_stop\"}\n\n",
            "data: {\"type\":\"message_start\",\"message\":{}}\n\n",
            "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"usage\":{\"prompt_tokens\":-1}}\n\n",
            "data: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":\"a\"}\n\n",
            "data: {\"type\":\"response.completed\",\"response\":{}}\n\n",
            "data: {\"error\":{}}\n\n",
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n\n",
            "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
            "data: []\n\n",
            "data: 7\n\n",
        ];
        let piece = prop_oneof![
            6 => select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
            1 => vec(any::<u8>(), 0..8),
        ];
        vec(piece, 0..16).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn of_events(data in data()) {
            prop_assert_eq!(sse(&data), Ok(()));
        }

        #[test]
        fn of_every_wire(data in data()) {
            for each in crate::WIRES {
                prop_assert_eq!(wire(each, &data), Ok(()), "{:?}", each);
            }
        }
    }
}
