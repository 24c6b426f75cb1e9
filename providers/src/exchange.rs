//! One exchange over HTTP: a body out, server-sent events in, through a wire format's decoder.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Sha256;
use leftfold_events::event::FailureClass;
use reqwest::{Response, StatusCode, Url};

use crate::endpoint::Endpoint;
use crate::errors::{Details, Failure, is_markup};
use crate::http;
use crate::stream::{Decoder, StreamEvent};
use leftfold_framing::sse::Parser;

/// Bytes of an error body that are read.
const LONGEST_ERROR: usize = 64 * 1024;

/// How long a connection is given to end a body whose answer is complete.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// Sends `body` to `url`, with the headers of `endpoint`, and decodes the answer. Dropping the stream closes the connection.
pub(crate) fn run(
    endpoint: Arc<Endpoint>,
    url: Url,
    body: Vec<u8>,
    decoder: Box<dyn Decoder>,
) -> BoxStream<'static, StreamEvent> {
    let start = StreamEvent::Start { body_sha256: Sha256::of(&body) };
    let exchange = Exchange {
        endpoint,
        url,
        out: VecDeque::from([start]),
        phase: Phase::Send(body),
        decoder,
        sse: Parser::new(),
        head: Some(Vec::new()),
    };
    stream::unfold(exchange, Exchange::next).boxed()
}

/// Decodes the body of an answer that is at hand, in the pieces in which it came. Without a last
/// event the answer was cut off.
pub(crate) fn decode<'a>(
    decoder: &mut dyn Decoder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<StreamEvent> {
    let (mut sse, mut out, mut any) = (Parser::new(), VecDeque::new(), false);
    for piece in pieces {
        sse.push(piece, |event| {
            any = true;
            if !is_over(&out) {
                decoder.event(&event, &mut out);
            }
        });
    }
    if any && !is_over(&out) {
        decoder.end(sse.unfinished().as_deref(), &mut out);
    }
    out.into()
}

fn is_over(out: &VecDeque<StreamEvent>) -> bool {
    out.back().is_some_and(StreamEvent::is_last)
}

enum Phase {
    Send(Vec<u8>),
    Read(Response),
    Over,
}

struct Exchange {
    endpoint: Arc<Endpoint>,
    url: Url,
    out: VecDeque<StreamEvent>,
    phase: Phase,
    decoder: Box<dyn Decoder>,
    sse: Parser,
    /// What came before the first event: if none ever comes it is not a stream but an error page.
    head: Option<Vec<u8>>,
}

impl Exchange {
    async fn next(mut self) -> Option<(StreamEvent, Self)> {
        loop {
            if let Some(event) = self.out.pop_front() {
                return Some((self.masked(event), self));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Send(body) => self.send(body).await,
                Phase::Read(response) => self.read(response).await,
                Phase::Over => return None,
            };
            if let Err(failure) = step {
                self.out.push_back(StreamEvent::Failed(failure));
            }
        }
    }

    /// Takes out what a server echoes of the secrets it was sent.
    fn masked(&self, mut event: StreamEvent) -> StreamEvent {
        if let StreamEvent::Failed(failure) = &mut event {
            failure.message = self.endpoint.mask.hide(std::mem::take(&mut failure.message));
        }
        event
    }

    async fn send(&mut self, body: Vec<u8>) -> Result<(), Failure> {
        let endpoint = Arc::clone(&self.endpoint);
        let request = http::client(&self.url)
            .await?
            .post(self.url.clone())
            .headers(endpoint.headers.clone())
            .body(body);
        // how long a model may think before its first byte is for the caller to say
        let response =
            request.send().await.map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        if response.status().is_success() {
            self.phase = Phase::Read(response);
            return Ok(());
        }
        Err(refused(&endpoint, response).await)
    }

    async fn read(&mut self, mut response: Response) -> Result<(), Failure> {
        let endpoint = Arc::clone(&self.endpoint);
        let chunk = within(endpoint.stall, response.chunk())
            .await?
            .map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        let Some(bytes) = chunk else {
            return self.end_of_body(response.status());
        };
        self.decode(&bytes);
        match self.out.back() {
            Some(StreamEvent::Finish { .. }) => drop(tokio::spawn(drain(response))),
            Some(last) if last.is_last() => {}
            Some(_) | None => self.phase = Phase::Read(response),
        }
        Ok(())
    }

    fn end_of_body(&mut self, status: StatusCode) -> Result<(), Failure> {
        if self.head.is_none() {
            self.decoder.end(self.sse.unfinished().as_deref(), &mut self.out);
        }
        if is_over(&self.out) {
            return Ok(());
        }
        Err(self.ended(status))
    }

    fn decode(&mut self, bytes: &[u8]) {
        let (decoder, out, head) = (&mut self.decoder, &mut self.out, &mut self.head);
        if let Some(head) = head {
            let room = LONGEST_ERROR - head.len();
            head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.sse.push(bytes, |event| {
            *head = None;
            if !is_over(out) {
                decoder.event(&event, out);
            }
        });
    }

    fn ended(&self, status: StatusCode) -> Failure {
        let Some(head) = &self.head else { return Failure::cut_off() };
        let text = String::from_utf8_lossy(head);
        let text = text.trim();
        if text.starts_with(['{', '[']) {
            let details = Details::read(head);
            if details.message.is_empty() {
                return self.no_stream("JSON that is no event stream", status);
            }
            let failure = Failure::in_stream(&self.endpoint.provider, &details);
            return Failure { status: Some(status.as_u16()), ..failure };
        }
        if is_markup(text) {
            return self.no_stream("an HTML page", status);
        }
        Failure::cut_off()
    }

    fn no_stream(&self, what: &str, status: StatusCode) -> Failure {
        let message = format!(
            "the server answered with {what} ({status}); check `provider.{}.options.baseURL`, which may lead to something else than the API",
            self.endpoint.provider
        );
        let failure = Failure::fatal(FailureClass::Invalid, message);
        Failure { status: Some(status.as_u16()), ..failure }
    }
}

/// Reads what follows the end of an answer, which is next to nothing: a connection of HTTP/1 can
/// only be used again once the whole body has been read.
async fn drain(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // a server that goes on loses its connection, as it would have without this
    let _ = tokio::time::timeout(LONGEST_DRAIN, rest).await;
}

/// An error's body may be slow or endless as well; its status has been seen, so that counts.
async fn refused(endpoint: &Endpoint, mut response: Response) -> Failure {
    let mut body = Vec::new();
    while body.len() < LONGEST_ERROR {
        match within(endpoint.stall, response.chunk()).await {
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let (status, headers) = (response.status(), response.headers());
    let failure =
        Failure::of_response(&endpoint.provider, status, headers, &body, SystemTime::now());
    let may_pass = endpoint.missing_may_pass
        && status == StatusCode::NOT_FOUND
        && failure.class == FailureClass::Invalid;
    Failure { retryable: failure.retryable || may_pass, ..failure }
}

/// Waits for the next byte, but not for ever.
async fn within<T>(stall: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(stall, work).await.map_err(|_| Failure::stalled(stall))
}
