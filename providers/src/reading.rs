//! Decodes the body of one answer, as it arrives or from a record. It does no I/O and knows no clock.

use std::borrow::Cow;
use std::collections::VecDeque;

use leftfold_events::event::FailureClass;
use leftfold_framing::{eventstream, sse, surrogates};
use reqwest::StatusCode;
use serde_json::Value;

use crate::caps::{Caps, LARGEST_EVENT};
use crate::config::Framing;
use crate::errors::{Details, Failure, LONGEST_ERROR, is_markup};
use crate::gzip::{self, Inflater};
use crate::stream::{Decoder, EventQueue, StreamEvent};

/// The decoding of one answer.
pub(crate) struct Reading {
    /// The provider's name in settings, for errors.
    provider: String,
    decoder: Box<dyn Decoder>,
    parser: Parser,
    /// Inflates the body, if it is compressed.
    inflater: Option<Inflater>,
    /// The bytes before the first event. If no event ever comes, the body is a whole answer or an error page.
    head: Option<Vec<u8>>,
    caps: Caps,
    out: EventQueue,
}

/// The parser of a stream.
enum Parser {
    Sse(sse::Parser),
    EventStream(eventstream::Parser),
}

impl Reading {
    pub(crate) fn new(provider: &str, framing: Framing, decoder: Box<dyn Decoder>) -> Self {
        let parser = match framing {
            Framing::Sse => Parser::Sse(sse::Parser::new()),
            Framing::EventStream => Parser::EventStream(eventstream::Parser::new()),
        };
        Self {
            provider: provider.to_owned(),
            decoder,
            parser,
            inflater: None,
            head: Some(Vec::new()),
            caps: Caps::default(),
            out: VecDeque::new(),
        }
    }

    /// The next decoded event. It is the last one if the reply passes a limit with it.
    pub(crate) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.out.pop_front()?;
        match self.caps.count(&event) {
            Ok(()) => Some(event),
            Err(failure) => {
                self.out.clear();
                Some(StreamEvent::Failed(failure))
            }
        }
    }

    /// Decodes the next bytes. Bytes after the last event are ignored.
    ///
    /// # Errors
    /// The answer is damaged, or it or one event of it is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if gzip::is_gzip(bytes) && self.head.as_ref().is_some_and(Vec::is_empty) {
            self.inflater = Some(Inflater::new());
        }
        let Some(mut inflater) = self.inflater.take() else { return self.read(bytes) };
        let read = inflater.push(bytes, Failure::damaged, |bytes| self.read(bytes));
        self.inflater = Some(inflater);
        read
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.caps.received(bytes.len())?;
        if let Some(head) = &mut self.head {
            // a page of text is an error, but JSON may be a whole answer
            let is_json = head.iter().chain(bytes).find(|byte| !byte.is_ascii_whitespace());
            let most = match is_json {
                Some(b'{' | b'[') => LARGEST_EVENT,
                Some(_) | None => LONGEST_ERROR,
            };
            let room = most.saturating_sub(head.len());
            head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        match self.parse(bytes) {
            _ if self.is_over() => Ok(()),
            Ok(pending) => Caps::pending(pending),
            // perhaps this is an error page, which is known at its end
            Err(_) if self.head.as_ref().is_some_and(|head| head.len() < LONGEST_ERROR) => Ok(()),
            Err(damage) => Err(Failure::damaged(damage)),
        }
    }

    /// Gives the events that these bytes complete to the decoder. Returns the number of bytes that are kept for an
    /// incomplete event.
    fn parse(&mut self, bytes: &[u8]) -> Result<usize, eventstream::Damage> {
        let (decoder, out, head) = (&mut self.decoder, &mut self.out, &mut self.head);
        match &mut self.parser {
            Parser::Sse(parser) => {
                parser.push(bytes, |event| {
                    *head = None;
                    if !ends(out) {
                        give(&mut **decoder, event, out);
                    }
                });
                Ok(parser.pending())
            }
            Parser::EventStream(parser) => {
                let provider = &self.provider;
                parser.push(bytes, |message| {
                    *head = None;
                    if ends(out) {
                        return;
                    }
                    match event(&message) {
                        Ok(event) => give(&mut **decoder, event, out),
                        Err(details) => {
                            let failure = Failure::in_stream(provider, &details);
                            out.push_back(StreamEvent::Failed(failure));
                        }
                    }
                })?;
                Ok(parser.pending())
            }
        }
    }

    /// Ends the reply: its body has ended.
    ///
    /// # Errors
    /// The reply is not complete.
    pub(crate) fn end(&mut self, status: StatusCode) -> Result<(), Failure> {
        self.finish();
        if self.is_over() { Ok(()) } else { Err(self.incomplete(status)) }
    }

    /// Lets the decoder see the end of the body.
    fn finish(&mut self) {
        if self.take_whole() {
            return;
        }
        if self.head.is_none() && !self.is_over() {
            let rest = match &self.parser {
                Parser::Sse(parser) => parser.unfinished(),
                // the content of half a message cannot be trusted
                Parser::EventStream(parser) => (parser.pending() > 0).then(String::new),
            };
            let rest = rest.as_deref().map(surrogates::repair);
            self.decoder.end(rest.as_deref(), &mut self.out);
        }
    }

    /// Decodes the body of a server that answers with a whole answer instead of a stream. Returns whether it is one.
    fn take_whole(&mut self) -> bool {
        let Some(head) = &self.head else { return false };
        let text = String::from_utf8_lossy(head);
        let Ok(answer) = serde_json::from_str::<Value>(&surrogates::repair(&text)) else {
            return false;
        };
        let Some(events) = self.decoder.unstreamed(&answer) else { return false };
        self.head = None;
        for data in events {
            if !ends(&self.out) {
                let event = sse::SseEvent { name: "".into(), data: data.into() };
                self.decoder.event(&event, &mut self.out);
            }
        }
        if !ends(&self.out) {
            self.decoder.end(None, &mut self.out);
        }
        true
    }

    /// Ends the reply with a failure.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.out.push_back(StreamEvent::Failed(failure));
    }

    /// Whether the last event of the reply was decoded and not popped yet.
    pub(crate) fn is_over(&self) -> bool {
        ends(&self.out)
    }

    /// Whether the reply is complete and was not popped yet.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.out.back(), Some(StreamEvent::Finish { .. }))
    }

    fn incomplete(&self, status: StatusCode) -> Failure {
        let Some(head) = &self.head else { return Failure::cut_off() };
        let text = String::from_utf8_lossy(head);
        let text = text.trim();
        if text.starts_with(['{', '[']) {
            let details = Details::read(head);
            if details.message.is_empty() {
                return self.no_stream("JSON", status);
            }
            let failure = Failure::in_stream(&self.provider, &details);
            return Failure { status: Some(status.as_u16()), ..failure };
        }
        if is_markup(text) {
            return self.no_stream("an HTML page", status);
        }
        match &self.parser {
            Parser::EventStream(parser) => {
                parser.damage().map_or_else(Failure::cut_off, Failure::damaged)
            }
            Parser::Sse(_) => Failure::cut_off(),
        }
    }

    fn no_stream(&self, what: &str, status: StatusCode) -> Failure {
        let message = format!(
            "the server answered with {what} ({status}) instead of an event stream; check `provider.{}.options.baseURL`, which may not be the address of the API",
            self.provider
        );
        let failure = Failure::fatal(FailureClass::Invalid, message);
        Failure { status: Some(status.as_u16()), ..failure }
    }
}

/// A message as an event, which has a name and a text, or the error that it reports.
fn event<'a>(message: &eventstream::Message<'a>) -> Result<sse::SseEvent<'a>, Details> {
    let header = |name: &str| message.header(name).unwrap_or_default();
    if matches!(header(":message-type"), "exception" | "error") {
        let details = Details::read(message.payload);
        let names = [header(":exception-type"), header(":error-code")];
        return Err(details.with(names).or_message(header(":error-message")));
    }
    let data = String::from_utf8_lossy(message.payload);
    Ok(sse::SseEvent { name: header(":event-type").into(), data })
}

/// Gives an event to the decoder. Its JSON may have halves of characters: models write them, and servers split them.
fn give(decoder: &mut dyn Decoder, mut event: sse::SseEvent<'_>, out: &mut EventQueue) {
    let repaired = match surrogates::repair(&event.data) {
        Cow::Owned(repaired) => Some(repaired),
        Cow::Borrowed(_) => None,
    };
    if let Some(repaired) = repaired {
        event.data = repaired.into();
    }
    decoder.event(&event, out);
}

fn ends(out: &EventQueue) -> bool {
    out.back().is_some_and(StreamEvent::is_last)
}

/// Decodes the body of an answer that is already there, in the pieces in which it arrived. No limits
/// apply, and an answer that is cut off has no last event.
pub(crate) fn decode<'a>(
    framing: Framing,
    decoder: Box<dyn Decoder>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<StreamEvent> {
    let mut reading = Reading::new("", framing, decoder);
    for piece in pieces {
        // limits are for live answers
        let _ = reading.push(piece);
    }
    reading.finish();
    reading.out.into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use leftfold_events::event::Finish;
    use serde_json::json;

    use super::*;
    use crate::testing::{calls, failure, finished, texts};
    use crate::{Config, Wire};

    fn decode(wire: Wire, body: &[u8]) -> Vec<StreamEvent> {
        // in two pieces, as from a network
        let (first, second) = body.split_at(body.len() / 2);
        crate::decode(&Config::new("generic", wire), [first, second])
    }

    /// A stream with this text and reasoning, as JSON without their quotes.
    fn stream(wire: Wire, text: &str, reasoning: &str) -> String {
        let events = match wire.name() {
            "anthropic" => vec![
                r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}"#
                    .to_owned(),
                format!(
                    r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"{reasoning}"}}}}"#
                ),
                r#"{"type":"content_block_start","index":1,"content_block":{"type":"text"}}"#
                    .to_owned(),
                format!(
                    r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
                ),
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#.to_owned(),
                r#"{"type":"message_stop"}"#.to_owned(),
            ],
            "openai-chat" => vec![
                format!(r#"{{"choices":[{{"index":0,"delta":{{"reasoning":"{reasoning}"}}}}]}}"#),
                format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}}}}]}}"#),
                r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#.to_owned(),
                "[DONE]".to_owned(),
            ],
            "openai-responses" => vec![
                format!(
                    r#"{{"type":"response.reasoning_text.delta","output_index":0,"delta":"{reasoning}"}}"#
                ),
                format!(
                    r#"{{"type":"response.output_text.delta","output_index":1,"delta":"{text}"}}"#
                ),
                r#"{"type":"response.completed","response":{"status":"completed"}}"#.to_owned(),
            ],
            _ => vec![
                format!(
                    r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{reasoning}","thought":true}},{{"text":"{text}"}}]}}}}]}}"#
                ),
                r#"{"candidates":[{"finishReason":"STOP"}]}"#.to_owned(),
            ],
        };
        events.iter().map(|event| format!("data: {event}\n\n")).collect()
    }

    const WIRES: [Wire; 4] =
        [Wire::ANTHROPIC, Wire::OPENAI_CHAT, Wire::OPENAI_RESPONSES, Wire::GEMINI];

    #[test]
    fn halves_of_characters_end_no_reply() {
        for wire in WIRES {
            for (json, text) in
                [(r"a \ud83d", "a \u{fffd}"), (r"\ude00 b", "\u{fffd} b"), (r"\ud83d\ude00", "😀")]
            {
                let events = decode(wire, stream(wire, json, json).as_bytes());
                assert_eq!(texts(&events), (text.to_owned(), text.to_owned()), "{wire} {json}");
                assert_eq!(finished(&events).0, Finish::Stop, "{wire} {json}");
                let error = format!(r#"{{"type":"error","error":{{"message":"{json}"}}}}"#);
                assert!(Details::read(error.as_bytes()).message.contains(text.trim()), "{error}");
                let events = decode(wire, format!("data: {error}\n\n").as_bytes());
                let message = &failure(&events).message;
                assert!(message.contains(text.trim()), "{wire} {error}: {message}");
            }
        }
    }

    #[test]
    fn a_body_that_nobody_wanted_compressed_is_inflated() {
        for wire in WIRES {
            let mut packed = GzEncoder::new(Vec::new(), Compression::default());
            packed.write_all(stream(wire, &"Hello ".repeat(9_000), "so").as_bytes()).unwrap();
            let events = decode(wire, &packed.finish().unwrap());
            assert_eq!(texts(&events).1.len(), 54_000, "{wire}");
            assert_eq!(finished(&events).0, Finish::Stop, "{wire}");
        }
    }

    /// Some servers ignore that a stream was asked for.
    #[test]
    fn a_whole_answer_is_read_as_a_stream() {
        let long = "Hello ".repeat(20_000);
        for (wire, answer) in [
            (
                Wire::ANTHROPIC,
                json!({ "type": "message", "stop_reason": "tool_use", "content": [
                    { "type": "thinking", "thinking": "so", "signature": "s" }, { "type": "text", "text": long },
                    { "type": "tool_use", "id": "c", "name": "read", "input": { "a": 1 } } ],
                    "usage": { "input_tokens": 5, "output_tokens": 2 } }),
            ),
            (
                Wire::OPENAI_CHAT,
                json!({ "object": "chat.completion", "choices": [{ "index": 0, "finish_reason": "tool_calls",
                    "message": { "role": "assistant", "reasoning": "so", "content": long, "tool_calls": [
                        { "id": "c", "type": "function", "function": { "name": "read", "arguments": "{\"a\":1}" } } ] } }],
                    "usage": { "prompt_tokens": 5, "completion_tokens": 2 } }),
            ),
            (
                Wire::OPENAI_RESPONSES,
                json!({ "object": "response", "status": "completed", "output": [
                    { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "so" }] },
                    { "type": "message", "content": [{ "type": "output_text", "text": long }] },
                    { "type": "function_call", "call_id": "c", "name": "read", "arguments": "{\"a\":1}" } ],
                    "usage": { "input_tokens": 5, "output_tokens": 2 } }),
            ),
            (
                Wire::GEMINI,
                json!({ "candidates": [{ "finishReason": "STOP", "content": { "parts": [
                    { "text": "so", "thought": true }, { "text": long },
                    { "functionCall": { "id": "c", "name": "read", "args": { "a": 1 } } } ] } }],
                    "usageMetadata": { "promptTokenCount": 5, "candidatesTokenCount": 2 } }),
            ),
        ] {
            for body in [answer.to_string(), serde_json::to_string_pretty(&answer).unwrap()] {
                let events = decode(wire, body.as_bytes());
                assert_eq!(texts(&events), ("so".to_owned(), long.clone()), "{wire}");
                let (finish, usage) = finished(&events);
                assert_eq!((finish, usage.input), (Finish::ToolCalls, 5), "{wire}");
                let call = ("c".to_owned(), "read".to_owned(), r#"{"a":1}"#.to_owned());
                assert_eq!(calls(&events), [call], "{wire}");
            }
        }
    }

    /// Gateways report errors in forms of their own, in the place of an event.
    #[test]
    fn an_error_of_another_form_keeps_its_message() {
        for wire in WIRES {
            for (data, message, retryable) in [
                (r#"{"detail":"no such team"}"#, "no such team", false),
                (r#"{"message":"it broke","status":500}"#, "it broke", true),
                (
                    r#"{"error":"Stream error: internal network failure"}"#,
                    "internal network failure",
                    true,
                ),
            ] {
                for head in ["", "event: error\n"] {
                    let events = decode(wire, format!("{head}data: {data}\n\n").as_bytes());
                    let failure = failure(&events);
                    assert!(failure.message.contains(message), "{wire} {data}: {failure:?}");
                    assert_eq!(failure.retryable, retryable, "{wire} {head}{data}: {failure:?}");
                }
            }
        }
    }
}
