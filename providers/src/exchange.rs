//! One HTTP exchange: sends a body and decodes the server-sent events of the answer with a wire
//! format's decoder.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Sha256;
use leftfold_events::event::FailureClass;
use reqwest::{Response, StatusCode, Url};

use crate::caps::Caps;
use crate::endpoint::Endpoint;
use crate::errors::{Details, Failure, is_markup};
use crate::http;
use crate::stream::{Decoder, StreamEvent};
use leftfold_framing::sse::Parser;

/// The number of bytes of an error body that are read.
const LONGEST_ERROR: usize = 64 * 1024;

/// How long a connection may take to end a body whose answer is complete.
const LONGEST_DRAIN: Duration = Duration::from_secs(1);

/// Sends `body` to `url` with the headers of `endpoint`, and decodes the answer. Dropping the
/// stream closes the connection.
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
        caps: Caps::default(),
    };
    stream::unfold(exchange, Exchange::next).boxed()
}

/// Decodes the body of an answer that is already there, in the pieces in which it arrived. Without
/// a last event the answer counts as cut off.
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
    /// The bytes before the first event. If no event ever comes, the body is an error page.
    head: Option<Vec<u8>>,
    caps: Caps,
}

impl Exchange {
    async fn next(mut self) -> Option<(StreamEvent, Self)> {
        loop {
            if let Some(event) = self.out.pop_front() {
                let event = match self.caps.count(&event) {
                    Ok(()) => event,
                    Err(failure) => {
                        (self.phase, self.out) = (Phase::Over, VecDeque::new());
                        StreamEvent::Failed(failure)
                    }
                };
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

    /// Hides secrets that the server repeats in an event.
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
        // no limit here: the caller decides how long a model may think before its first byte
        let response =
            request.send().await.map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        if response.status().is_success() {
            self.phase = Phase::Read(response);
            return Ok(());
        }
        Err(error_response(&endpoint, response).await)
    }

    async fn read(&mut self, mut response: Response) -> Result<(), Failure> {
        let endpoint = Arc::clone(&self.endpoint);
        let chunk = with_stall_limit(endpoint.stall, response.chunk())
            .await?
            .map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        let Some(bytes) = chunk else {
            return self.end_of_body(response.status());
        };
        self.caps.received(bytes.len())?;
        self.decode(&bytes);
        match self.out.back() {
            Some(StreamEvent::Finish { .. }) => drop(tokio::spawn(drain(response))),
            Some(last) if last.is_last() => {}
            Some(_) | None => {
                Caps::pending(&self.sse)?;
                self.phase = Phase::Read(response);
            }
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
                return self.no_stream("JSON", status);
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
            "the server answered with {what} ({status}) instead of an event stream; check `provider.{}.options.baseURL`, which may not be the address of the API",
            self.endpoint.provider
        );
        let failure = Failure::fatal(FailureClass::Invalid, message);
        Failure { status: Some(status.as_u16()), ..failure }
    }
}

/// Reads the few bytes that follow the end of an answer: an HTTP/1 connection can be reused only
/// after the whole body was read.
async fn drain(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // if the server continues to send, the connection is closed
    let _ = tokio::time::timeout(LONGEST_DRAIN, rest).await;
}

/// The failure of an error response. Its body may be slow or endless; the status counts even if the
/// body cannot be read.
async fn error_response(endpoint: &Endpoint, mut response: Response) -> Failure {
    let mut body = Vec::new();
    while body.len() < LONGEST_ERROR {
        match with_stall_limit(endpoint.stall, response.chunk()).await {
            Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let (status, headers) = (response.status(), response.headers());
    if endpoint.overflows_silently
        && matches!(status.as_u16(), 400 | 413)
        && body.trim_ascii().is_empty()
    {
        return Failure::silent_overflow(&endpoint.provider, status);
    }
    let failure =
        Failure::of_response(&endpoint.provider, status, headers, &body, SystemTime::now());
    let is_transient = endpoint.retries_not_found
        && status == StatusCode::NOT_FOUND
        && failure.class == FailureClass::Invalid;
    Failure { retryable: failure.retryable || is_transient, ..failure }
}

/// Waits for the next byte, up to a limit.
async fn with_stall_limit<T>(stall: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(stall, work).await.map_err(|_| Failure::stalled(stall))
}
