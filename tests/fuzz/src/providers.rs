//! Properties of answers of models that hold for any bytes that a server sends.

use leftfold_framing::eventstream;
use leftfold_framing::sse::{Parser, SseEvent};
use leftfold_providers::{Config, StreamEvent, Wire};

fn decode(wire: Wire, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    leftfold_providers::decode(&Config::new("p", wire), pieces.iter().copied())
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

/// As [`wire`], for a wire of binary messages: each line of `data` becomes one, with its first word as the name of the event
/// and the others as its data. The first two bytes damage a byte of them, unless they are zero.
///
/// # Errors
/// The property that does not hold.
pub fn framed(each: Wire, data: &[u8]) -> Result<(), String> {
    let (damage, lines) = data.split_at_checked(2).unwrap_or((&[0, 0], &[]));
    let mut bytes = vec![lines.len() as u8];
    for line in lines.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        let name = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
        // the length of a text in a header has 16 bits
        let name: String = name.chars().take(1_000).collect();
        let headers = match name.strip_prefix('!') {
            Some(kind) => [(":message-type", "exception"), (":exception-type", kind)],
            None => [(":message-type", "event"), (":event-type", name.as_str())],
        };
        bytes.extend(eventstream::message(&headers, words.next().unwrap_or_default()));
    }
    let at = usize::from(damage[0]) * 7;
    if let Some(byte) = bytes.get_mut(at + 1) {
        *byte ^= damage[1];
    }
    wire(each, &bytes)
}

/// The pieces in which binary messages arrive do not change their meaning, and nothing is read after damage.
///
/// # Errors
/// The property that does not hold.
pub fn event_stream(data: &[u8]) -> Result<(), String> {
    let messages = |pieces: &[&[u8]]| {
        let (mut parser, mut messages) = (eventstream::Parser::new(), Vec::<String>::new());
        for piece in pieces {
            let known = parser.damage();
            let before = messages.len();
            let pushed = parser.push(piece, |message| messages.push(format!("{message:?}")));
            if known.is_some() && (pushed.err() != known || messages.len() != before) {
                return Err(format!("it reads on after {known:?}"));
            }
        }
        Ok((messages, parser.damage(), parser.pending()))
    };
    let (size, bytes) = pieces(data);
    let (whole, split) = (messages(&[bytes])?, messages(&bytes.chunks(size).collect::<Vec<_>>())?);
    if whole != split {
        return Err(format!("{whole:?} in one, {split:?} in pieces of {size}"));
    }
    Ok(())
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

    /// Lines of [`framed`], mostly those of real answers.
    fn framed_data() -> impl Strategy<Value = Vec<u8>> {
        const LINES: &[&str] = &[
            r#"messageStart {"role":"assistant"}"#,
            r#"contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#,
            r#"contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"a"}}"#,
            r#"contentBlockDelta {"contentBlockIndex":1,"delta":{"toolUse":{"input":"{"}}}"#,
            r#"contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}"#,
            r#"contentBlockStop {"contentBlockIndex":0}"#,
            r#"messageStop {"stopReason":"end_turn"}"#,
            r#"metadata {"usage":{"inputTokens":1,"outputTokens":-1}}"#,
            r#"!throttlingException {"message":"slow"}"#,
            "contentBlockDelta {",
            "metadata",
            "",
        ];
        let line = prop_oneof![
            6 => select(LINES).prop_map(|line| line.as_bytes().to_vec()),
            1 => vec(any::<u8>(), 0..12),
        ];
        let damage = prop_oneof![3 => Just([0, 0]), 1 => any::<[u8; 2]>()];
        (damage, vec(line, 0..10))
            .prop_map(|(damage, lines)| [damage.to_vec(), lines.join(&b'\n')].concat())
    }

    proptest! {
        #[test]
        fn of_events(data in data()) {
            prop_assert_eq!(sse(&data), Ok(()));
        }

        #[test]
        fn of_binary_messages(data in framed_data()) {
            prop_assert_eq!(framed(Wire::BEDROCK, &data), Ok(()));
            prop_assert_eq!(event_stream(&data), Ok(()));
        }

        #[test]
        fn of_every_wire(data in data()) {
            for each in leftfold_providers::WIRES {
                prop_assert_eq!(wire(each, &data), Ok(()), "{:?}", each);
            }
        }
    }
}
