//! Connections are reused if the server allows it, and never kept beyond their time.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use leftfold_events::Json;
use leftfold_events::event::{FailureClass, Finish, ModelRef, PromptPart, Purpose};
use leftfold_events::request::{Memo, RequestMessage};
use leftfold_providers::{Config, Failure, Provider, Request, StreamEvent, Wire, build};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};

const CHAT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2,\"total_tokens\":5}}\n\n\
data: [DONE]\n\n";

const ANTHROPIC: &str = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n\
data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
data: {\"type\":\"message_stop\"}\n\n";

fn request() -> Request {
    Request {
        purpose: Purpose::Turn,
        model: ModelRef { provider: "p".into(), id: "m".into() },
        max_output: 100,
        options: Json::object(),
        cache_key: String::new(),
        system: vec![],
        tools: vec![],
        messages: vec![RequestMessage::User { parts: [PromptPart::text("Hello")].into() }],
        encoded: Memo::default(),
    }
}

fn provider(wire: Wire, vendor: &str, base: &str) -> Arc<dyn Provider> {
    let mut config = Config::new("p", wire);
    config.base_url = Some(base.to_owned());
    config.vendor = Some(vendor.to_owned());
    config.api_key = Some("sk-secret-1".into());
    build(config).unwrap()
}

async fn play(provider: &dyn Provider) -> Vec<StreamEvent> {
    let events: Vec<StreamEvent> = provider.stream(request()).collect().await;
    assert_eq!(events.iter().filter(|event| event.is_last()).count(), 1, "{events:?}");
    assert!(events.last().is_some_and(StreamEvent::is_last), "{events:?}");
    events
}

/// The next request on a connection; `None` once the client has closed it.
async fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return Some(text);
            }
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// A server that answers all requests with `events`, and ends each body only when a permit comes.
/// For each request it reports how many came before it on its connection.
async fn serve(events: &'static str) -> (String, Arc<Semaphore>, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let (requests, told) = mpsc::unbounded_channel();
    let ends = Arc::new(Semaphore::new(0));
    let may_end = Arc::clone(&ends);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let (requests, may_end) = (requests.clone(), Arc::clone(&may_end));
            tokio::spawn(async move {
                let mut before = 0;
                while read_request(&mut socket).await.is_some() {
                    let _ = requests.send(before);
                    before += 1;
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{events}\r\n",
                        events.len()
                    );
                    let _ = socket.write_all(answer.as_bytes()).await;
                    may_end.acquire().await.unwrap().forget();
                    let _ = socket.write_all(b"0\r\n\r\n").await;
                }
            });
        }
    });
    (base, ends, told)
}

/// The answer is complete before its body has ended; after the end the connection is used again.
/// The client's pool decides how soon, so a few more requests are allowed than the two that should
/// suffice.
#[tokio::test]
async fn a_connection_is_used_again() {
    for (wire, events) in [(Wire::ANTHROPIC, ANTHROPIC), (Wire::OPENAI_CHAT, CHAT)] {
        let (base, ends, mut told) = serve(events).await;
        let provider = provider(wire, "openai", &base);
        let mut before = Vec::new();
        while before.len() < 10 && before.last().is_none_or(|before| *before == 0) {
            let answer = play(&*provider).await;
            assert!(matches!(answer.last(), Some(StreamEvent::Finish { .. })), "{answer:?}");
            ends.add_permits(1);
            before.push(told.recv().await.unwrap());
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        assert_eq!(before.last(), Some(&1), "{wire}: {before:?}");
    }
}

/// A body that never ends costs its connection, and nothing else.
#[tokio::test]
async fn a_body_that_never_ends_holds_nobody_up() {
    let (base, _ends, mut told) = serve(CHAT).await;
    let provider = provider(Wire::OPENAI_CHAT, "openai", &base);
    for _ in 0..3 {
        play(&*provider).await;
        assert_eq!(told.recv().await, Some(0));
    }
}

/// The request and the events for an answer after which the server closes the connection.
async fn answered(vendor: &str, answer: String) -> (String, Vec<StreamEvent>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await.unwrap();
        let _ = socket.write_all(answer.as_bytes()).await;
        request
    });
    let provider = provider(Wire::OPENAI_CHAT, vendor, &base);
    let events = tokio::time::timeout(Duration::from_secs(20), play(&*provider)).await.unwrap();
    (server.await.unwrap(), events)
}

fn stream(events: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
    )
}

fn status(line: &str, body: &str) -> String {
    format!("HTTP/1.1 {line}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn failed(mut events: Vec<StreamEvent>) -> Failure {
    match events.pop() {
        Some(StreamEvent::Failed(failure)) => failure,
        other => panic!("expected a failure, found {other:?}"),
    }
}

#[tokio::test]
async fn a_good_exchange_of_chat_completions() {
    let (sent, events) = answered("openai", stream(CHAT)).await;
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    for header in ["authorization: Bearer sk-secret-1", "content-type: application/json"] {
        assert!(head.lines().any(|line| line == header), "{header} is missing in {head}");
    }
    assert!(body.contains("\"include_usage\":true"), "{body}");
    assert!(events.contains(&StreamEvent::TextDelta { id: "0".into(), text: "Hi".into() }));
    let Some(StreamEvent::Finish { finish, usage }) = events.last() else { panic!("{events:?}") };
    assert_eq!((*finish, usage.input, usage.output), (Finish::Stop, 3, 2));
}

#[tokio::test]
async fn a_stream_cut_at_every_event_is_a_failure() {
    for at in CHAT.match_indices("\n\n").map(|(at, _)| at + 2).filter(|at| *at < CHAT.len()) {
        let failure = failed(answered("openai", stream(&CHAT[..at])).await.1);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{at}");
    }
    let without_done = CHAT.strip_suffix("data: [DONE]\n\n").unwrap();
    let (_, events) = answered("generic", stream(without_done)).await;
    assert!(matches!(events.last(), Some(StreamEvent::Finish { .. })), "{events:?}");
    let failure = failed(answered("generic", stream(&CHAT[..100])).await.1);
    assert!(failure.retryable);
}

#[tokio::test]
async fn a_model_that_openai_denies_is_asked_for_again() {
    let body =
        "{\"error\":{\"message\":\"The model `m` does not exist\",\"code\":\"model_not_found\"}}";
    for (vendor, retryable) in [("openai", true), ("generic", false), ("azure", false)] {
        let failure = failed(answered(vendor, status("404 Not Found", body)).await.1);
        assert_eq!(
            (failure.class, failure.retryable),
            (FailureClass::Invalid, retryable),
            "{vendor}"
        );
    }
}
