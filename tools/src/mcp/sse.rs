//! Servers of an older kind: what they say comes as one stream of events, what they are told goes to an
//! address that the stream names first (SPEC X4).

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use futures::StreamExt;
use futures::future::Either;
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::auth::AuthClient;
use tokio::sync::mpsc;

use super::stdio;

/// How long the stream may take to begin with the address.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of one event.
const LONGEST: usize = 16 * 1_024 * 1_024;

/// Events that wait to be taken.
const QUEUE: usize = 16;

/// What is said to such a server.
#[derive(Clone)]
pub(super) struct Teller {
    client: reqwest::Client,
    signed_in: Option<AuthClient<reqwest::Client>>,
    headers: HashMap<HeaderName, HeaderValue>,
}

pub(super) struct Sse {
    teller: Teller,
    /// Where messages go.
    address: Url,
    events: mpsc::Receiver<Event>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    kind: String,
    data: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("{0}")]
    SignIn(#[from] rmcp::transport::auth::AuthError),
}

impl Teller {
    pub(super) fn new(
        client: &reqwest::Client,
        signed_in: Option<AuthClient<reqwest::Client>>,
        headers: &HashMap<HeaderName, HeaderValue>,
    ) -> Self {
        Self { client: client.clone(), signed_in, headers: headers.clone() }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Error> {
        let mut request = request;
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if let Some(signed_in) = &self.signed_in {
            request = request.bearer_auth(signed_in.get_access_token().await?);
        }
        Ok(request.send().await?.error_for_status()?)
    }

    /// Connects, if there is such a server at this address.
    pub(super) async fn open(self, url: &str) -> Option<Sse> {
        let base = Url::parse(url).ok()?;
        let get = self.client.get(base.clone()).header(ACCEPT, "text/event-stream");
        let response = tokio::time::timeout(PATIENCE, self.send(get)).await.ok()?.ok()?;
        let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        if !kind.starts_with("text/event-stream") {
            return None;
        }
        let (sender, mut events) = mpsc::channel(QUEUE);
        tokio::spawn(read(response, sender));
        let first = tokio::time::timeout(PATIENCE, events.recv()).await.ok()??;
        let address = base.join(first.data.trim()).ok()?;
        // headers may hold a key that is for this server alone
        let ours = first.kind == "endpoint" && address.origin() == base.origin();
        ours.then_some(Sse { teller: self, address, events })
    }
}

/// Reads the stream to its end, or until nobody takes what it brings.
async fn read(response: reqwest::Response, sender: mpsc::Sender<Event>) {
    let mut bytes = response.bytes_stream();
    let mut parser = Parser::default();
    loop {
        let next = std::pin::pin!(bytes.next());
        let closed = std::pin::pin!(sender.closed());
        let Either::Left((Some(Ok(piece)), _)) = futures::future::select(next, closed).await else {
            return;
        };
        for event in parser.take(&piece) {
            if sender.send(event).await.is_err() {
                return;
            }
        }
        if parser.line.len() + parser.event.data.len() > LONGEST {
            return;
        }
    }
}

/// Puts lines together to events.
#[derive(Default)]
struct Parser {
    line: Vec<u8>,
    event: Event,
    /// Whether the event has any data so far.
    some: bool,
}

impl Parser {
    fn take(&mut self, piece: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for byte in piece {
            if *byte != b'\n' {
                self.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
            events.extend(self.end_of(line.trim_end_matches('\r')));
        }
        events
    }

    fn end_of(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.some).then_some(event);
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event.kind),
            "data" => {
                if std::mem::replace(&mut self.some, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

impl Transport<RoleClient> for Sse {
    type Error = Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (teller, address) = (self.teller.clone(), self.address.clone());
        async move {
            // rmcp's messages always are JSON
            let body = serde_json::to_string(&item).unwrap_or_default();
            let post = teller.client.post(address).header(CONTENT_TYPE, "application/json");
            teller.send(post.body(body)).await.map(|_| ())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let event = self.events.recv().await?;
            if let Some(message) = stdio::message(event.data.as_bytes()) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Error> {
        self.events.close();
        Ok(())
    }
}

/// Whether a server has answered at all, in another manner than was expected.
pub(super) fn has_answered(error: &ClientInitializeError) -> bool {
    let mut inner = error.source();
    while let Some(error) = inner {
        let http = error.downcast_ref::<reqwest::Error>();
        if http.is_some_and(|http| http.is_connect() || http.is_timeout()) {
            return false;
        }
        inner = error.source();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_however_they_come() {
        let stream = "event: endpoint\ndata: /message?id=1\n\n: a comment\r\nid: 7\r\n\r\n\
                      data:{\"a\":\ndata: 1}\n\nevent: message\ndata: ß\n\n";
        let event = |kind: &str, data: &str| Event { kind: kind.into(), data: data.into() };
        let expected =
            [event("endpoint", "/message?id=1"), event("", "{\"a\":\n1}"), event("message", "ß")];
        for size in [1, 2, 7, stream.len()] {
            let mut parser = Parser::default();
            let pieces = stream.as_bytes().chunks(size);
            let events: Vec<Event> = pieces.flat_map(|piece| parser.take(piece)).collect();
            assert_eq!(events, expected, "pieces of {size}");
        }
    }
}
