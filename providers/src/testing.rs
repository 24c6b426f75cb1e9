//! Helpers for the tests of all decoders.

use leftfold_events::event::{Finish, Usage};
use proptest::prelude::*;

use crate::client::Client;
use crate::config::{Config, Error, Framing};
use crate::errors::Failure;
use crate::reading;
use crate::stream::{Decoder, StreamEvent};

/// The provider of these settings, which must name a wire over HTTP.
pub(crate) fn client(config: Config) -> Result<Client, Error> {
    let http = config.wire.protocol().http().expect("a wire over HTTP");
    Client::new(config, http)
}

/// The events decoded from these bytes, after which the body ends.
pub(crate) fn decode(decoder: impl Decoder + 'static, pieces: &[&[u8]]) -> Vec<StreamEvent> {
    reading::decode(Framing::Sse, Box::new(decoder), pieces.iter().copied())
}

/// Calls `look` with variants of the text, whose lines end in LF: with a BOM, comments and unknown
/// events, with every kind of line end, and split in two at every byte.
pub(crate) fn noisy_and_split(text: &str, look: impl Fn(&[&[u8]], &str)) {
    let unknown = "event: invented\ndata: {\"type\":\"invented\",\"object\":7}\n\n";
    let commented = text.replace("\n\n", "\n: noise\n\n");
    let noisy = format!("\u{feff}: hello\n\n{unknown}{commented}{unknown}");
    for line_end in ["\n", "\r\n", "\r"] {
        let bytes = noisy.replace('\n', line_end).into_bytes();
        for at in 0..bytes.len() {
            look(&[&bytes[..at], &bytes[at..]], &format!("{line_end:?} {at}"));
        }
        for size in [1, 2, 3, 7, 64] {
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            look(&pieces, &format!("{line_end:?} in pieces of {size}"));
        }
    }
}

/// Id, name and input of each call.
pub(crate) fn calls(events: &[StreamEvent]) -> Vec<(String, String, String)> {
    let call = |e: &StreamEvent| match e {
        StreamEvent::ToolCall(call) => {
            Some((call.id.clone(), call.name.clone(), call.input.as_str().to_owned()))
        }
        _ => None,
    };
    events.iter().filter_map(call).collect()
}

pub(crate) fn call(id: &str, name: &str, input: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), input.to_owned())
}

pub(crate) fn inputs(events: &[StreamEvent]) -> Vec<String> {
    calls(events).into_iter().map(|(_, _, input)| input).collect()
}

/// All reasoning and all text.
pub(crate) fn texts(events: &[StreamEvent]) -> (String, String) {
    let (mut reasoning, mut text) = (String::new(), String::new());
    for event in events {
        match event {
            StreamEvent::ReasoningDelta { text, .. } => reasoning.push_str(text),
            StreamEvent::TextDelta { text: words, .. } => text.push_str(words),
            _ => {}
        }
    }
    (reasoning, text)
}

/// Signatures of reasoning, in order.
pub(crate) fn signatures(events: &[StreamEvent]) -> Vec<Option<String>> {
    let signature = |e: &StreamEvent| match e {
        StreamEvent::ReasoningEnd { signature, .. } => Some(signature.clone()),
        _ => None,
    };
    events.iter().filter_map(signature).collect()
}

pub(crate) fn finished(events: &[StreamEvent]) -> (Finish, Usage) {
    match events.last() {
        Some(StreamEvent::Finish { finish, usage }) => (*finish, *usage),
        other => panic!("expected the end, found {other:?}"),
    }
}

pub(crate) fn failure(events: &[StreamEvent]) -> &Failure {
    match events.last() {
        Some(StreamEvent::Failed(failure)) => failure,
        other => panic!("expected a failure, found {other:?}"),
    }
}

/// Pieces of arbitrary bytes.
pub(crate) fn any_pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(any::<Vec<u8>>(), 0..8)
}

pub(crate) fn slices(pieces: &[Vec<u8>]) -> Vec<&[u8]> {
    pieces.iter().map(Vec::as_slice).collect()
}

/// The bytes of a valid stream, some of them changed.
pub(crate) fn damaged(good: String) -> impl Strategy<Value = Vec<u8>> {
    let hits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    hits.prop_map(move |hits| {
        let mut bytes = good.clone().into_bytes();
        for (at, byte) in hits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

/// Asserts that parts are opened once and closed once, text comes only in open parts, and no event
/// follows the last.
pub(crate) fn assert_grammar(events: &[StreamEvent]) {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    for (at, event) in events.iter().enumerate() {
        assert!(!event.is_last() || at + 1 == events.len(), "something follows the end");
        match event {
            StreamEvent::TextStart { id } | StreamEvent::ReasoningStart { id } => {
                assert!(!seen.contains(&id), "{id} is opened twice");
                seen.push(id);
                open.push(id);
            }
            StreamEvent::TextDelta { id, text } | StreamEvent::ReasoningDelta { id, text } => {
                assert!(open.contains(&id) && !text.is_empty(), "{id}: {text:?}");
            }
            StreamEvent::TextEnd { id } | StreamEvent::ReasoningEnd { id, .. } => {
                assert!(open.contains(&id), "{id} is closed twice");
                open.retain(|other| *other != id);
            }
            StreamEvent::Finish { .. } => assert!(open.is_empty(), "{open:?} stay open"),
            _ => {}
        }
    }
}
