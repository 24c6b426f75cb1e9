//! Bytes in odd pieces, streams that break off, chunks that make no sense.

use proptest::prelude::*;

use super::*;

#[test]
fn bytes_split_anywhere_and_every_line_end() {
    noisy_and_split(&whole(&rich()), |pieces, how| {
        assert_eq!(decode(pieces), rich_decoded(), "{how}");
    });
}

/// The vendor always sends `[DONE]`: without it no answer is finished.
#[test]
fn a_stream_cut_anywhere_never_finishes() {
    let bytes = whole(&rich()).into_bytes();
    let done = bytes.len() - 2;
    for at in 0..done {
        let events = decode(&[&bytes[..at]]);
        assert!(!events.iter().any(StreamEvent::is_last), "cut at {at}");
        assert!(rich_decoded().starts_with(&events), "cut at {at}");
    }
    // only the blank line after the end is missing
    for at in done..bytes.len() {
        assert_eq!(decode(&[&bytes[..at]]), rich_decoded(), "cut at {at}");
    }
}

/// An unknown server may close the connection instead of sending `[DONE]`, but only after its
/// finish reason, and between events.
#[test]
fn a_stream_may_end_without_saying_so() {
    let chunks = rich();
    let reason = wire(&chunks[..10]).len();
    let bytes = whole(&chunks).into_bytes();
    let boundaries: Vec<usize> =
        String::from_utf8_lossy(&bytes).match_indices("\n\n").map(|(at, _)| at + 2).collect();
    for at in 0..bytes.len() {
        let events = decode_of("generic", &[&bytes[..at]]);
        let ends = at >= reason && boundaries.contains(&at) || at >= bytes.len() - 2;
        assert_eq!(events.iter().any(StreamEvent::is_last), ends, "cut at {at}");
    }
    let events = decode_of("generic", &[wire(&chunks).as_bytes()]);
    assert_eq!(events, rich_decoded());
}

#[test]
fn nothing_but_the_end_is_no_answer() {
    let events = decode_all("openai", &[]);
    assert!(failure(&events).retryable);
    let events = decode_all("openai", &[delta(json!({"role":"assistant","content":""}))]);
    assert!(failure(&events).retryable);
    // only its reasoning is no answer either
    for reason in ["stop", "tool_calls", "invented"] {
        let chunks =
            [delta(json!({"reasoning":"so"})), delta(json!({"content":"\n"})), end(reason)];
        assert!(failure(&decode_all("generic", &chunks)).retryable, "{reason}");
    }
    let chunks = [delta(json!({"reasoning":"so"})), end("length")];
    assert_eq!(finished(&decode_all("generic", &chunks)).0, Finish::Length);
    // an answer may be empty if its server says so
    let events = decode_all("openai", &[end("stop")]);
    assert_eq!(finished(&events).0, Finish::Stop);
    let events = decode_all("openai", &[delta(json!({"content":"a"}))]);
    assert_eq!(finished(&events).0, Finish::Other);
}

#[test]
fn nothing_follows_the_end() {
    let text = whole(&[delta(json!({"content":"a"})), end("stop")]);
    let twice = format!("{text}{text}");
    let events = decode(&[twice.as_bytes()]);
    assert_eq!(events.iter().filter(|event| event.is_last()).count(), 1);
    assert!(events.last().is_some_and(StreamEvent::is_last));
}

#[test]
fn damaged_chunks_fail_and_foreign_events_do_not() {
    for text in [
        "data: {\"choices\":[{\"index\":0,\"del\n\n",
        "data: {\"choices\":\"x\"}\n\n",
        "data: {\"choices\":[{\"delta\":[]}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":{}}}]}\n\n",
    ] {
        let events = decode(&[text.as_bytes()]);
        let failure = failure(&events);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{text}");
    }
    for text in [
        "event: ping\ndata: {oops\n\n", "data: {\"a\":1}\n\n", "data: keep-alive\n\n",
        "data: 7\n\n", "data: null\n\n", "data: {\"choices\":[]}\n\n",
    ] {
        assert!(decode(&[text.as_bytes()]).is_empty(), "{text}");
    }
    let odd = decode(&[b"data: {\"choices\":7,\"error\":{\"message\":\"overloaded\"}}\n\n"]);
    assert_eq!(failure(&odd).class, FailureClass::Overloaded);
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(pieces in any_pieces()) {
        assert_grammar(&decode(&slices(&pieces)));
    }

    /// No event follows the last one in a stream with changed bytes.
    #[test]
    fn damaged_streams_do_no_harm(bytes in damaged(whole(&rich()))) {
        assert_grammar(&decode_of("generic", &[&bytes]));
    }
}
