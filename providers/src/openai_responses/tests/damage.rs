//! Bytes in odd pieces, streams that break off, events that make no sense.

use proptest::prelude::*;

use super::*;

/// A short reply with every kind of item.
fn short() -> Vec<Value> {
    let delta =
        |text: &str| json!({"type":"response.output_text.delta","output_index":1,"delta":text});
    let reasoning = json!({"id":"r","type":"reasoning","encrypted_content":"g","summary":[]});
    let call = json!({"type":"function_call","call_id":"c","name":"read","arguments":"{}"});
    let end = json!({"type":"response.completed","response":{"usage":{"input_tokens":1}}});
    vec![done(0, reasoning), delta("Hé"), delta("世🎉"), done(2, call), end]
}

#[test]
fn bytes_split_anywhere_and_every_line_end() {
    let whole = decode_all(&short());
    noisy_and_split(&wire(&short()), |pieces, how| assert_eq!(decode(pieces), whole, "{how}"));
    for size in [1, 2, 3, 7, 64] {
        let text = wire(&rich());
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        assert_eq!(decode(&pieces), rich_decoded(), "{size}");
    }
}

#[test]
fn a_stream_cut_anywhere_never_finishes() {
    let (bytes, whole) = (wire(&short()).into_bytes(), decode_all(&short()));
    for at in 0..bytes.len() {
        let events = decode(&[&bytes[..at]]);
        assert!(!events.iter().any(StreamEvent::is_last), "cut at {at}");
        assert!(whole.starts_with(&events), "cut at {at}");
    }
    for at in 0..rich().len() {
        let events = decode_all(&rich()[..at]);
        assert!(!events.iter().any(StreamEvent::is_last), "cut before {at}");
        assert!(rich_decoded().starts_with(&events), "cut before {at}");
    }
}

/// Framing events may be missing, since the whole item repeats the text, and the pieces replace an
/// item that is not repeated.
#[test]
fn a_stream_without_any_one_event_that_is_no_piece() {
    for at in 0..rich().len() {
        let mut stream = rich();
        let gone = stream.remove(at);
        if gone.get("delta").is_some() {
            continue;
        }
        let events = decode_all(&stream);
        let ends = events.iter().filter(|event| event.is_last()).count();
        assert_eq!(ends, usize::from(gone["type"] != "response.completed"), "{gone}");
        assert_eq!(texts(&events), ("hm 世 🎉so".into(), "Héllo".into()), "{gone}");
        assert_eq!(calls(&events), [call("call_a", "read", r#"{"path":"ä"}"#)], "{gone}");
    }
}

#[test]
fn nothing_follows_the_end() {
    let text = wire(&rich());
    let events = decode(&[format!("{text}{text}data: [DONE]\n\n").as_bytes()]);
    assert_eq!(events, rich_decoded());
}

#[test]
fn damaged_events_fail_and_foreign_ones_do_not() {
    for text in [
        "data: {\"type\":\"response.output_text.del\n\n",
        "event: response.output_text.delta\ndata: {oops\n\n",
        "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":7}\n\n",
        "data: {\"type\":\"response.completed\"}\n\n",
    ] {
        let events = decode(&[text.as_bytes()]);
        let failure = failure(&events);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{text}");
    }
    for text in [
        "event: ping\ndata: {oops\n\n",
        "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n",
        "data: {\"type\":\"response.audio.delta\",\"delta\":{\"a\":1}}\n\n",
        "data: {\"a\":1}\n\n",
        "data: {\"type\":7}\n\n",
        "data: keep-alive\n\n",
        "data: [DONE]\n\n",
        "data: null\n\n",
        "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"invented\",\"content\":\"x\"}}\n\n",
        "data: {\"type\":\"response.output_item.added\",\"item\":null}\n\n",
        "data: {\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{\"}\n\n",
    ] {
        assert!(decode(&[text.as_bytes()]).is_empty(), "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_do_no_harm(pieces in any_pieces()) {
        assert_grammar(&decode(&slices(&pieces)));
    }

    /// No event follows the last one in a stream with changed bytes.
    #[test]
    fn damaged_streams_do_no_harm(bytes in damaged(wire(&rich()))) {
        assert_grammar(&decode(&[&bytes]));
    }

    /// Events in any order: parts are opened once and closed once.
    #[test]
    fn events_in_any_order_keep_their_grammar(order in Just(rich()).prop_shuffle()) {
        assert_grammar(&decode_all(&order));
    }
}
