//! The older HTTP+SSE transport: the server sends messages in one stream of events, and receives
//! messages at an address that the stream names first.

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use futures::StreamExt;
use futures::future::Either;
use leftfold_framing::sse::{Parser, SseEvent};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::auth::AuthClient;
use tokio::sync::mpsc;

use super::stdio;
use super::streamable_http::RepairingClient;

/// How long the stream may take to name the address.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest event in bytes.
const LONGEST: usize = 16 * 1_024 * 1_024;

/// Capacity of the queue of received events.
const QUEUE: usize = 16;

/// The HTTP client and headers for requests to such a server.
#[derive(Clone)]
pub(super) struct Requests {
    client: reqwest::Client,
    signed_in: Option<AuthClient<RepairingClient>>,
    headers: HashMap<HeaderName, HeaderValue>,
}

pub(super) struct Sse {
    requests: Requests,
    /// The address for messages to the server.
    address: Url,
    events: mpsc::Receiver<Event>,
}

struct Event {
    name: String,
    data: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("{0}")]
    SignIn(#[from] rmcp::transport::auth::AuthError),
}

impl Requests {
    pub(super) fn new(
        client: &reqwest::Client,
        signed_in: Option<AuthClient<RepairingClient>>,
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

    /// Connects. `None` if no server of this kind answers at this address.
    pub(super) async fn open(self, url: &str) -> Option<Sse> {
        let base = Url::parse(url).ok()?;
        let get = self.client.get(base.clone()).header(ACCEPT, "text/event-stream");
        let response = tokio::time::timeout(ADDRESS_TIMEOUT, self.send(get)).await.ok()?.ok()?;
        let kind = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
        if !kind.starts_with("text/event-stream") {
            return None;
        }
        let (sender, mut events) = mpsc::channel(QUEUE);
        tokio::spawn(read(response, sender));
        let first = tokio::time::timeout(ADDRESS_TIMEOUT, events.recv()).await.ok()??;
        let address = base.join(first.data.trim()).ok()?;
        // the headers may hold a key that is meant for this server alone
        let ours = first.name == "endpoint" && address.origin() == base.origin();
        ours.then_some(Sse { requests: self, address, events })
    }
}

/// Reads the stream until it ends or the receiver is dropped.
async fn read(response: reqwest::Response, sender: mpsc::Sender<Event>) {
    let mut bytes = response.bytes_stream();
    let mut parser = Parser::new();
    loop {
        let next = std::pin::pin!(bytes.next());
        let closed = std::pin::pin!(sender.closed());
        let Either::Left((Some(Ok(piece)), _)) = futures::future::select(next, closed).await else {
            return;
        };
        let mut events = Vec::new();
        parser.push(&piece, |SseEvent { name, data }| {
            events.push(Event { name: name.into_owned(), data: data.into_owned() });
        });
        for event in events {
            if sender.send(event).await.is_err() {
                return;
            }
        }
        if parser.pending() > LONGEST {
            return;
        }
    }
}

impl Transport<RoleClient> for Sse {
    type Error = Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let (requests, address) = (self.requests.clone(), self.address.clone());
        async move {
            // rmcp's messages always are JSON
            let body = serde_json::to_string(&item).unwrap_or_default();
            let post = requests.client.post(address).header(CONTENT_TYPE, "application/json");
            requests.send(post.body(body)).await.map(|_| ())
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

/// Whether the server answered at all, though not as Streamable HTTP requires.
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
