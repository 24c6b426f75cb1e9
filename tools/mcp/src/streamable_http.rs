//! The requests of the Streamable HTTP transport, with answers whose JSON is repaired before rmcp reads it: servers send
//! halves of characters, which rmcp's own client refuses together with the whole answer.
//!
//! It reads statuses and content types as the transport's specification says, like rmcp's own client.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use leftfold_framing::surrogates;
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
    StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

/// Largest answer, and largest event of a stream, in bytes.
const LONGEST: usize = 16 * 1_024 * 1_024;

/// Largest body of an error in bytes.
const LONGEST_ERROR: usize = 64 * 1_024;

const SESSION: &str = "mcp-session-id";

type Error = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

#[derive(Clone)]
pub(super) struct RepairingClient(pub(super) Client);

impl StreamableHttpClient for RepairingClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        // rmcp's messages always are JSON
        let body = serde_json::to_string(&message).unwrap_or_default();
        let mut request = self
            .0
            .post(uri.as_ref())
            .header(ACCEPT, "text/event-stream, application/json")
            .header(CONTENT_TYPE, "application/json")
            .headers(headers.into_iter().collect());
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        if let Some(session) = &session {
            request = request.header(SESSION, session.as_ref());
        }
        let response = request.body(body).send().await?;
        answer(response, &message, session.is_some()).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Error> {
        self.0.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Error> {
        let events = self.0.get_stream(uri, session, last_event, token, headers).await?;
        Ok(events.map_ok(repaired).boxed())
    }
}

/// Reads the answer to `message`.
async fn answer(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let headers = response.headers().clone();
    if let Some(challenge) = text(&headers, &WWW_AUTHENTICATE) {
        if status == StatusCode::UNAUTHORIZED {
            return Err(Error::AuthRequired(AuthRequiredError::new(challenge)));
        }
        if status == StatusCode::FORBIDDEN {
            let scope = scope(&challenge);
            return Err(Error::InsufficientScope(InsufficientScopeError::new(challenge, scope)));
        }
    }
    let session = headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    let kind = text(&headers, &CONTENT_TYPE);
    let is_kind = |name: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(name));
    if status == StatusCode::NOT_FOUND && has_session {
        return Err(Error::SessionExpired);
    }
    if !status.is_success() {
        let is_json = is_kind("application/json");
        return refused(response, message, has_session, is_json, session).await;
    }
    let is_request = matches!(message, JsonRpcMessage::Request(_));
    let is_empty = response.content_length() == Some(0) && !is_request;
    if is_empty || matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if is_kind("text/event-stream") {
        return Ok(StreamableHttpPostResponse::Sse(events(response), session));
    }
    if !is_kind("application/json") {
        return Err(Error::UnexpectedContentType(kind));
    }
    let body = body(response, LONGEST).await?;
    match serde_json::from_str(&surrogates::repair(&body)) {
        Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
        // nobody waits for a reply to any other message
        Err(_) if !is_request => Ok(StreamableHttpPostResponse::Accepted),
        Err(error) => {
            Err(Error::UnexpectedServerResponse(format!("it is no message: {error}").into()))
        }
    }
}

/// Reads an answer with the status of an error, which may have an error of the protocol in its body.
async fn refused(
    response: Response,
    message: &ClientJsonRpcMessage,
    has_session: bool,
    is_json: bool,
    session: Option<String>,
) -> Result<StreamableHttpPostResponse, Error> {
    let status = response.status();
    let wait = text(response.headers(), &RETRY_AFTER);
    let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    if is_busy && (!is_json || status == StatusCode::TOO_MANY_REQUESTS) {
        return Err(HttpStatusError::new(status.as_u16(), wait).into());
    }
    let body = body(response, LONGEST_ERROR).await.unwrap_or_default();
    let said: Option<ServerJsonRpcMessage> = serde_json::from_str(&surrogates::repair(&body)).ok();
    let said = said.filter(|said| matches!(said, ServerJsonRpcMessage::Error(_)));
    let is_about_keys = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // an older server does not know this request; rmcp goes on with an older one after an error of its id
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !has_session
        && status.is_client_error()
        && !is_about_keys
    {
        let error = match said {
            Some(ServerJsonRpcMessage::Error(said)) => said.error,
            _ => ErrorData::invalid_request(format!("HTTP {status}: {body}"), None),
        };
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match said.filter(|_| is_json && !is_about_keys) {
        Some(said) => Ok(StreamableHttpPostResponse::Json(said, session)),
        None if is_busy => Err(HttpStatusError::new(status.as_u16(), wait).into()),
        None => Err(Error::UnexpectedServerResponse(format!("HTTP {status}: {body}").into())),
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned())
}

/// The scope that a challenge names.
fn scope(challenge: &str) -> Option<String> {
    let at = challenge.to_ascii_lowercase().find("scope=")? + "scope=".len();
    let value = challenge.get(at..)?;
    let scope = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split([',', ' ', ';']).next(),
    };
    scope.filter(|scope| !scope.is_empty()).map(str::to_owned)
}

async fn body(response: Response, most: usize) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.try_next().await? {
        if piece.len() > most - bytes.len() {
            return Err(Error::ResponseBodyTooLarge { max_size: most });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn events(response: Response) -> Events {
    let mut limit = EventLimit::default();
    let pieces = response.bytes_stream().map(move |piece| {
        let piece = piece.map_err(io::Error::other)?;
        limit.take(&piece)?;
        Ok::<_, io::Error>(piece)
    });
    SseStream::from_bytes_stream(pieces).map_ok(repaired).boxed()
}

fn repaired(mut event: Sse) -> Sse {
    event.data = event.data.map(|data| surrogates::repair(&data).into_owned());
    event
}

/// Refuses an event of more than [`LONGEST`] bytes.
#[derive(Default)]
struct EventLimit {
    event: usize,
    line: usize,
}

impl EventLimit {
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            self.event += 1;
            match byte {
                b'\n' if self.line == 0 => self.event = 0,
                b'\n' => self.line = 0,
                b'\r' => {}
                _ => self.line += 1,
            }
        }
        if self.event > LONGEST {
            return Err(io::Error::other(format!("an event of more than {LONGEST} bytes")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Serves one request, with a body of this type.
    fn serve(kind: &'static str, body: String) -> Arc<str> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 4_096]);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
            );
            let _ = socket.write_all((head + &body).as_bytes());
        });
        format!("http://{address}/mcp").into()
    }

    #[tokio::test]
    async fn half_a_character_spoils_no_answer() {
        let answer =
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a \ud83d"}]}}"#;
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let client = RepairingClient(leftfold_oauth::http::client().unwrap());
        for (kind, body) in [
            ("application/json", answer.to_owned()),
            ("text/event-stream", format!("id: 7\ndata: {answer}\n\n")),
        ] {
            let request = serde_json::from_str(request).unwrap();
            let answer =
                client.post_message(serve(kind, body), request, None, None, HashMap::new());
            let told = match answer.await.unwrap() {
                StreamableHttpPostResponse::Json(answer, _) => {
                    serde_json::to_string(&answer).unwrap()
                }
                StreamableHttpPostResponse::Sse(mut events, _) => {
                    let event = events.next().await.unwrap().unwrap();
                    assert_eq!(event.id.as_deref(), Some("7"));
                    event.data.unwrap()
                }
                other => panic!("{other:?}"),
            };
            let read: serde_json::Value = serde_json::from_str(&told).unwrap();
            assert_eq!(read["result"]["content"][0]["text"], "a \u{fffd}", "{kind}");
        }
    }

    #[test]
    fn only_an_event_has_a_limit() {
        let mut limit = EventLimit::default();
        let event = [b"data: ", "x".repeat(LONGEST / 2).as_bytes(), b"\r\n\r\n"].concat();
        assert!((0..4).all(|_| limit.take(&event).is_ok()));
        let line = [b"data: ", "x".repeat(LONGEST / 2).as_bytes(), b"\n"].concat();
        assert!(limit.take(&line).is_ok() && limit.take(&line).is_err());
    }

    #[test]
    fn a_challenge_names_its_scope() {
        for (challenge, expected) in [
            (r#"Bearer error="insufficient_scope", scope="a b", x="y""#, Some("a b")),
            ("Bearer scope=a, x=y", Some("a")),
            (r#"Bearer realm="x""#, None),
            (r#"Bearer scope="""#, None),
        ] {
            assert_eq!(scope(challenge).as_deref(), expected, "{challenge}");
        }
    }
}
