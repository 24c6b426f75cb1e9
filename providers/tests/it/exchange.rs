//! The exchange over HTTP, against a server that answers with given bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use leftfold_events::event::{FailureClass, Finish, ModelRef, PromptPart, Purpose};
use leftfold_events::request::{Memo, RequestMessage};
use leftfold_events::{Json, SessionId, Sha256};
use leftfold_providers::{
    Authorization, Authorize, Codec, Config, Credentials, End, Exchanged, Failure, Outgoing,
    Provider, Request, StreamEvent, Wire, build, read_record, write_record,
};
use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

const GOOD: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n\
event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}}\n\n\
event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n\
event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const PING: &str = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

fn request() -> Request {
    Request {
        purpose: Purpose::Turn,
        model: ModelRef { provider: "anthropic".into(), id: "m".into() },
        max_output: 100,
        options: Json::object(),
        cache_key: String::new(),
        system: vec![],
        tools: vec![],
        messages: vec![RequestMessage::User { parts: [PromptPart::text("Hello")].into() }],
        encoded: Memo::default(),
    }
}

fn provider(base: &str, stall: Duration) -> Arc<dyn Provider> {
    let mut config = Config::new("anthropic", Wire::ANTHROPIC);
    config.base_url = Some(base.to_owned());
    config.api_key = Some("sk-ant-secret-1".into());
    config.headers = vec![
        ("X-Team".into(), "blue".into()),
        ("anthropic-beta".into(), "another-beta".into()),
        ("authorization".into(), "Bearer hush-hush".into()),
    ];
    config.stall = stall;
    build(config).unwrap()
}

async fn read_request(socket: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
            if body.len() >= length.parse::<usize>().unwrap() {
                return text;
            }
        }
        let mut buffer = [0; 4096];
        let read = socket.read(&mut buffer).await.unwrap();
        assert_ne!(read, 0, "the request broke off");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// Serves one connection with `answer`.
async fn serve<F>(answer: impl FnOnce(TcpStream, String) -> F + Send + 'static) -> String
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let request = read_request(&mut socket).await;
        answer(socket, request).await;
    });
    base
}

async fn write(socket: &mut TcpStream, text: &str) {
    // the client may have closed already, as it should after an error
    let _ = socket.write_all(text.as_bytes()).await;
}

/// Asserts that the record of the exchange has the body, and gives the events again.
fn assert_replayed(exchanged: &Exchanged, events: &[StreamEvent]) {
    let session = SessionId::default();
    let read = read_record(&write_record(exchanged, session, 1)).unwrap();
    let codec = Codec::find(&read.wire, &read.vendor).unwrap().unwrap();
    assert_eq!(read.body, codec.body(&request()));
    assert_eq!(events[0], StreamEvent::Start { body_sha256: Sha256::digest(&read.body) });
    let Some(answer) = &read.answer else { return };
    let decoded = |event: &&StreamEvent| {
        !matches!(event, StreamEvent::Start { .. } | StreamEvent::RequestId(_))
    };
    let mut events: Vec<StreamEvent> = events.iter().filter(decoded).cloned().collect();
    match answer.end {
        End::Eof | End::Closed => {}
        // the failure is no part of the bytes
        End::Broken => drop(events.pop()),
        End::Dropped(_) => return,
    }
    assert_eq!(codec.replay("anthropic", answer), events);
}

async fn play(base: &str, stall: Duration) -> Vec<StreamEvent> {
    let mut events: Vec<StreamEvent> = provider(base, stall).recorded(request()).collect().await;
    let before_last = events.len() - 2;
    let StreamEvent::Exchanged(exchanged) = events.remove(before_last) else {
        panic!("{events:?}");
    };
    assert_replayed(&exchanged, &events);
    assert!(matches!(events.first(), Some(StreamEvent::Start { .. })), "{events:?}");
    assert_eq!(events.iter().filter(|event| event.is_last()).count(), 1, "{events:?}");
    assert!(events.last().is_some_and(StreamEvent::is_last), "{events:?}");
    events
}

/// The failure for an answer after which the server closes the connection.
async fn failure(answer: impl Into<String>) -> Failure {
    let answer = answer.into();
    let base = serve(async move |mut socket, _| write(&mut socket, &answer).await).await;
    failed(play(&base, Duration::from_secs(20)).await)
}

fn failed(mut events: Vec<StreamEvent>) -> Failure {
    match events.pop() {
        Some(StreamEvent::Failed(failure)) => failure,
        other => panic!("expected a failure, found {other:?}"),
    }
}

fn status(line: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {line}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_good_exchange() {
    let (seen, was_seen) = oneshot::channel();
    let base = serve(async move |mut socket, request| {
        seen.send(request).unwrap();
        write(&mut socket, &format!("{STREAM}{GOOD}")).await;
    })
    .await;
    let events = play(&base, Duration::from_secs(20)).await;
    let sent = was_seen.await.unwrap();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    for header in [
        "x-api-key: sk-ant-secret-1",
        "anthropic-version: 2023-06-01",
        "anthropic-beta: interleaved-thinking-2025-05-14,another-beta",
        "content-type: application/json",
        "accept: text/event-stream",
        "x-team: blue",
        "authorization: Bearer hush-hush",
    ] {
        assert!(head.lines().any(|line| line == header), "{header} is missing in {head}");
    }
    assert_eq!(events[0], StreamEvent::Start { body_sha256: Sha256::digest(body.as_bytes()) });
    assert!(events.contains(&StreamEvent::TextDelta { id: "0".into(), text: "Hi".into() }));
    let Some(StreamEvent::Finish { finish, usage }) = events.last() else { panic!("{events:?}") };
    assert_eq!((*finish, usage.input, usage.output), (Finish::Stop, 3, 2));
}

#[tokio::test]
async fn the_end_does_not_wait_for_the_connection_to_close() {
    let (done, is_done) = oneshot::channel::<()>();
    let base = serve(async move |mut socket, _| {
        write(&mut socket, &format!("{STREAM}{GOOD}")).await;
        let _ = is_done.await;
    })
    .await;
    let events = play(&base, Duration::from_secs(3_600)).await;
    assert!(matches!(events.last(), Some(StreamEvent::Finish { .. })));
    drop(done);
}

#[tokio::test]
async fn a_stream_cut_at_every_event_is_a_failure() {
    for at in GOOD.match_indices("\n\n").map(|(at, _)| at + 2).filter(|at| *at < GOOD.len()) {
        let failure = failure(format!("{STREAM}{}", &GOOD[..at])).await;
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{at}");
        assert!(failure.message.contains("middle of the answer"), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_failure() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n: hi\n\r\n";
    for answer in ["", "HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n: hi\n", chunked] {
        let failure = failure(answer).await;
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true), "{answer}");
        assert!(failure.message.contains("http://127.0.0.1:"), "{}", failure.message);
    }
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let base = format!("http://user:hush@{address}/v1");
    let failure = failed(play(&base, Duration::from_secs(20)).await);
    assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true));
    assert!(failure.message.contains(&format!("http://{address}/v1/messages")));
    assert!(failure.message.contains("baseURL"), "{}", failure.message);
    assert!(!failure.message.contains("hush"), "{}", failure.message);
}

#[tokio::test]
async fn statuses_become_failures() {
    let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let overloaded = failure(status("529 x", "Retry-After: 3\r\n", body)).await;
    assert_eq!(overloaded.class, FailureClass::Overloaded);
    assert_eq!((overloaded.status, overloaded.retryable), (Some(529), true));
    assert_eq!(overloaded.retry_after, Some(3_000));
    let page = failure(status("502 Bad Gateway", "", "<html>nginx</html>")).await;
    assert!(page.message.contains("an HTML page (502 Bad Gateway)"), "{}", page.message);
    let moved = failure(status("302 Found", "location: http://127.0.0.1:1/\r\n", "")).await;
    assert_eq!((moved.class, moved.retryable), (FailureClass::Invalid, false));
}

#[tokio::test]
async fn no_secret_is_echoed() {
    let body = "{\"error\":{\"message\":\"bad key sk-ant-secret-1 and Bearer hush-hush\"}}";
    let failure = failure(status("401 Unauthorized", "", body)).await;
    assert_eq!(failure.class, FailureClass::Auth);
    assert!(failure.message.contains("bad key [hidden]"), "{}", failure.message);
    for secret in ["sk-ant-secret-1", "hush-hush"] {
        assert!(!failure.message.contains(secret), "{}", failure.message);
    }
    let provider = provider("http://u:hush-hush@127.0.0.1/v1", Duration::from_secs(1));
    let debug = format!("{provider:?}");
    assert!(!debug.contains("hush") && !debug.contains("secret"), "{debug}");
}

#[tokio::test]
async fn an_answer_that_is_no_stream() {
    let page = failure(status("200 OK", "content-type: text/html\r\n", "<!doctype html>hi")).await;
    assert_eq!((page.class, page.retryable), (FailureClass::Invalid, false));
    assert!(page.message.contains("HTML page (200 OK)"), "{}", page.message);
    let error = r#"{"type":"error","error":{"type":"api_error","message":"Internal"}}"#;
    let error = failure(status("200 OK", "", error)).await;
    assert_eq!((error.message.as_str(), error.retryable), ("Internal", true));
    let other = failure(status("200 OK", "", r#"{"models":[]}"#)).await;
    assert!(
        other.message.contains("JSON (200 OK) instead of an event stream"),
        "{}",
        other.message
    );
    let nothing = failure(status("200 OK", "", "")).await;
    assert_eq!((nothing.class, nothing.retryable), (FailureClass::Network, true));
}

#[tokio::test]
async fn silence_is_a_failure() {
    let stall = Duration::from_millis(150);
    for answer in [STREAM, &format!("{STREAM}{PING}")] {
        let answer = answer.to_owned();
        let (done, is_done) = oneshot::channel::<()>();
        let base = serve(async move |mut socket, _| {
            write(&mut socket, &answer).await;
            let _ = is_done.await;
        })
        .await;
        let failure = failed(play(&base, stall).await);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Stalled, true));
        drop(done);
    }
}

#[tokio::test]
async fn pings_keep_a_stream_alive() {
    let stall = Duration::from_millis(1_000);
    let base = serve(async move |mut socket, _| {
        write(&mut socket, STREAM).await;
        for _ in 0..6 {
            tokio::time::sleep(stall / 4).await;
            write(&mut socket, PING).await;
        }
        write(&mut socket, GOOD).await;
    })
    .await;
    let events = play(&base, stall).await;
    assert!(matches!(events.last(), Some(StreamEvent::Finish { .. })), "{events:?}");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let (closed, is_closed) = oneshot::channel();
    let base = serve(async move |mut socket, _| {
        write(&mut socket, &format!("{STREAM}{}", &GOOD[..300])).await;
        let end = socket.read(&mut [0; 16]).await;
        closed.send(matches!(end, Ok(0) | Err(_))).unwrap();
    })
    .await;
    let mut stream = provider(&base, Duration::from_secs(3_600)).stream(request());
    while let Some(event) = stream.next().await {
        if matches!(event, StreamEvent::TextStart { .. }) {
            break;
        }
    }
    drop(stream);
    let closed = tokio::time::timeout(Duration::from_secs(20), is_closed).await;
    assert!(closed.unwrap().unwrap());
}

/// The failure of a stream that begins with `GOOD`'s first event and repeats `piece` for ever.
async fn endless(piece: String) -> Failure {
    let (gone, is_gone) = oneshot::channel();
    let base = serve(async move |mut socket, _| {
        write(&mut socket, &format!("{STREAM}{}", &GOOD[..GOOD.find("\n\n").unwrap() + 2])).await;
        let pieces = piece.repeat(256 * 1_024 / piece.len() + 1);
        while socket.write_all(pieces.as_bytes()).await.is_ok() {}
        gone.send(()).unwrap();
    })
    .await;
    let failure = failed(play(&base, Duration::from_secs(20)).await);
    // the connection is closed at once
    tokio::time::timeout(Duration::from_secs(20), is_gone).await.unwrap().unwrap();
    failure
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let text = "x".repeat(16 * 1_024);
    let delta = format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
    );
    let block = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n";
    for (piece, words) in [
        (text.clone(), "a line or an event of more than 16 MiB"),
        (format!("data: {text}\n"), "a line or an event of more than 16 MiB"),
        (format!(": {text}\n\n"), "more than 256 MiB in one answer"),
        (format!("{block}{delta}"), "a reply of more than 8 MiB"),
        (block.to_owned(), "more than 4096 parts in one reply"),
    ] {
        let failure = endless(piece).await;
        assert_eq!((failure.class, failure.retryable), (FailureClass::Invalid, false), "{words}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

/// Authorises with a token, at another address.
#[derive(Debug)]
struct Token {
    address: Option<Url>,
    refusals: AtomicUsize,
}

impl Authorize for Token {
    fn identity(&self) -> &str {
        "token"
    }

    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>> {
        let work = async {
            let Some(address) = &self.address else {
                return Err(Failure::fatal(FailureClass::Auth, "sign in again"));
            };
            request.url = address.clone();
            request.set("authorization", "Bearer token-of-today")?;
            request.set("x-body", &request.body.len().to_string())?;
            Ok(Credentials(vec![("auth.p".to_owned(), "token-of-today".to_owned())]))
        };
        work.boxed()
    }

    fn refused(&self, used: &Credentials) -> bool {
        assert_eq!(used.0[0].1, "token-of-today");
        self.refusals.fetch_add(1, Ordering::Relaxed) == 0
    }
}

fn authorised(address: Option<&str>) -> Arc<dyn Provider> {
    let address = address.map(|base| Url::parse(&format!("{base}/other")).unwrap());
    let mut config = Config::new("anthropic", Wire::ANTHROPIC);
    config.base_url = Some("http://127.0.0.1:1/v1".into());
    config.authorization =
        Some(Authorization::new(Token { address, refusals: AtomicUsize::new(0) }));
    assert!(!format!("{config:?}").contains("today"));
    build(config).unwrap()
}

#[tokio::test]
async fn a_request_is_authorised_directly_before_it_is_sent() {
    let base = serve(async move |mut socket, request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/other "), "{head}");
        assert!(head.contains("authorization: Bearer token-of-today"), "{head}");
        assert!(head.contains(&format!("x-body: {}", body.len())), "{head}");
        write(&mut socket, &format!("{STREAM}{GOOD}")).await;
    });
    let provider = authorised(Some(&base.await));
    let events: Vec<StreamEvent> = provider.recorded(request()).collect().await;
    assert!(matches!(events[0], StreamEvent::Start { .. }), "{events:?}");
    assert!(matches!(events[1], StreamEvent::Credentials(_)), "{events:?}");
    assert!(matches!(events.last(), Some(StreamEvent::Finish { .. })), "{events:?}");
    assert!(!format!("{events:?}{provider:?}").contains("today"));
}

#[tokio::test]
async fn a_refused_token_is_worth_a_retry_if_the_next_one_is_another() {
    let answer = status("401 Unauthorized", "", r#"{"error":{"message":"no token-of-today"}}"#);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            write(&mut socket, &answer).await;
        }
    });
    let provider = authorised(Some(&base));
    for is_worth_it in [true, false] {
        let failure = failed(provider.recorded(request()).collect().await);
        assert!(!failure.message.contains("token-of-today"), "{failure:?}");
        assert_eq!((failure.status, failure.retryable), (Some(401), is_worth_it));
    }
}

#[tokio::test]
async fn nothing_is_sent_without_a_credential() {
    let failure = failed(authorised(None).recorded(request()).collect().await);
    assert_eq!((failure.class, failure.message.as_str()), (FailureClass::Auth, "sign in again"));
}
