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
