//! Requests with unanswered calls: a debug build refuses to send them, a release build answers the
//! calls. Both are tested in either build.
#![cfg(debug_assertions)]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use futures::StreamExt;
use leftfold_events::Sha256;
use leftfold_events::event::FailureClass;
use leftfold_framing::eventstream;
use leftfold_providers::{Config, OnFault, Request, StreamEvent, Wire, build};
use serde_json::{Value, json};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Each wire, with a model and the shortest good answer. Lines of Bedrock's are messages.
const WIRES: [(Wire, &str, &str); 5] = [
    (
        Wire::ANTHROPIC,
        "claude-sonnet-4-5",
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n\
         data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
         data: {\"type\":\"message_stop\"}\n\n",
    ),
    (
        Wire::OPENAI_CHAT,
        "gpt-4.1",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    ),
    (
        Wire::OPENAI_RESPONSES,
        "gpt-5.1",
        "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n",
    ),
    (
        Wire::GEMINI,
        "gemini-2.5-flash",
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi\"}]},\"finishReason\":\"STOP\"}]}\n\n",
    ),
    (
        Wire::BEDROCK,
        "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "messageStart {\"role\":\"assistant\"}\n\
         contentBlockDelta {\"contentBlockIndex\":0,\"delta\":{\"text\":\"Hi\"}}\n\
         messageStop {\"stopReason\":\"end_turn\"}\n\
         metadata {\"usage\":{\"inputTokens\":3,\"outputTokens\":2}}",
    ),
];

/// The bytes of an answer.
fn bytes(wire: Wire, answer: &str) -> Vec<u8> {
    if wire != Wire::BEDROCK {
        return answer.as_bytes().to_vec();
    }
    let message = |line: &str| {
        let (name, data) = line.split_once(' ').unwrap();
        eventstream::message(&[(":message-type", "event"), (":event-type", name)], data.as_bytes())
    };
    answer.lines().flat_map(message).collect()
}

/// Two calls, of which `answered` have results, and then a user message.
fn request(model: &str, answered: &[&str]) -> Request {
    let call = |id: &str| json!({"type":"call","id":id,"name":"read","input":{"path":id}});
    let result = |id: &&str| json!({"call":id,"name":"read","output":"text","is_error":false,"attachments":[]});
    let user = |text: &str| json!({"role":"user","parts":[{"type":"text","text":text,"mime":null,"name":null}]});
    let mut messages =
        vec![user("Look"), json!({"role":"assistant","parts":[call("a"), call("b")]})];
    let results: Vec<Value> = answered.iter().map(result).collect();
    if !results.is_empty() {
        messages.push(json!({"role":"tool","results":results}));
    }
    messages.push(user("Go on"));
    let schema = json!({"type":"object","properties":{"path":{"type":"string"}}});
    let tools = json!([{"name":"read","description":"Reads a file.","schema":schema}]);
    serde_json::from_value(json!({
        "model": {"provider":"p","id":model}, "max_output": 100, "options": {}, "system": [],
        "tools": tools, "messages": messages,
    }))
    .unwrap()
}

fn config(wire: Wire, base: &str, on_fault: OnFault) -> Config {
    let mut config = Config::new("p", wire);
    config.base_url = Some(base.to_owned());
    config.api_key = Some("key".into());
    config.on_fault = on_fault;
    config
}

/// A server that answers one request with `answer`, and returns the body.
fn serve(answer: Vec<u8>) -> (String, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(socket);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let answer = [head.as_bytes(), &answer].concat();
        reader.into_inner().write_all(&answer).unwrap();
        body
    });
    (base, server)
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The body that a server gets, and the number of warnings.
async fn sent(
    wire: Wire,
    answer: &'static str,
    request: Request,
    on_fault: OnFault,
) -> (Value, usize) {
    let (base, server) = serve(bytes(wire, answer));
    let config = config(wire, &base, on_fault);
    let (model, provider) = (request.model.id.clone(), build(config.clone()).unwrap());
    let announced = provider.body(&request);
    let warnings = Warnings::default();
    let stream = tracing::subscriber::with_default(warnings.clone(), || provider.stream(request));
    let events: Vec<StreamEvent> = stream.collect().await;
    assert!(matches!(events.last(), Some(StreamEvent::Finish { .. })), "{wire}: {events:?}");
    let bytes = server.join().unwrap();
    assert_eq!(events[0], StreamEvent::Start { body_sha256: Sha256::digest(&bytes) }, "{wire}");
    assert_eq!(bytes, announced, "{wire}: the log's hash would be of another body");
    let body: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(config.faults(&model, &body), vec![], "{wire}: {body}");
    (body, warnings.0.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_release_build_answers_open_calls_and_says_so() {
    for (wire, model, answer) in WIRES {
        for (answered, lost) in [(&["b"][..], 1), (&[], 2)] {
            let request = request(model, answered);
            let (body, warnings) = sent(wire, answer, request, OnFault::Mend).await;
            let text = body.to_string();
            assert_eq!(text.matches("it was lost").count(), lost, "{wire}: {text}");
            assert_eq!(warnings, 1, "{wire}");
        }
    }
}

#[tokio::test]
async fn a_debug_build_does_not_send_a_body_with_a_fault() {
    for (wire, model, _) in WIRES {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let provider = build(config(wire, &base, OnFault::Refuse)).unwrap();
        let events: Vec<StreamEvent> = provider.stream(request(model, &["b"])).collect().await;
        let [StreamEvent::Failed(failure)] = &events[..] else { panic!("{wire}: {events:?}") };
        assert_eq!((failure.class, failure.retryable), (FailureClass::Invalid, false), "{wire}");
        assert!(failure.message.contains("the request was not sent"), "{}", failure.message);
        let nobody = listener.accept().unwrap_err();
        assert_eq!(nobody.kind(), ErrorKind::WouldBlock, "{wire}");
    }
}

#[tokio::test]
async fn a_whole_history_is_sent_as_it_is_by_both() {
    for (wire, model, answer) in WIRES {
        let whole = || request(model, &["a", "b"]);
        let mended = sent(wire, answer, whole(), OnFault::Mend).await;
        let refused = sent(wire, answer, whole(), OnFault::Refuse).await;
        assert_eq!(mended, refused, "{wire}");
        assert_eq!(mended.1, 0, "{wire}");
    }
}

#[test]
fn the_build_decides_unless_somebody_else_does() {
    let expected = if cfg!(debug_assertions) { OnFault::Refuse } else { OnFault::Mend };
    assert_eq!(Config::new("p", Wire::ANTHROPIC).on_fault, expected);
}
