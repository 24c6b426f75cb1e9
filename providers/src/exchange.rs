//! One HTTP exchange: sends a body and reads the answer, which a codec decodes.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::{Sha256, Time};
use reqwest::header::HeaderMap;
use reqwest::{Response, Url};

use crate::authorization::{Credentials, Outgoing};
use crate::codec::Codec;
use crate::endpoint::Endpoint;
use crate::errors::{self, Failure, LONGEST_ERROR, Mask};
use crate::exchanged::{Answer, End, Exchanged, KEPT_HEADERS, LARGEST_RECORD};
use crate::http;
use crate::reading::Reading;
use crate::stream::StreamEvent;

/// How long a connection may take to end a body whose answer is complete.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The headers with the server's id of a request, and the longest id that is kept.
const REQUEST_IDS: [&str; 3] = ["request-id", "x-request-id", "x-amzn-requestid"];
const LONGEST_ID: usize = 200;

/// Authorises and sends `request`, and decodes the answer. `body_sha256` is the hash of its body. Dropping the stream closes
/// the connection.
pub(crate) fn run(
    endpoint: Arc<Endpoint>,
    codec: Codec,
    request: Outgoing,
    body_sha256: Sha256,
    recorder: Option<Recorder>,
) -> BoxStream<'static, StreamEvent> {
    let reading = codec.reading(&endpoint.provider);
    let exchange = Exchange {
        next: vec![StreamEvent::Start { body_sha256 }],
        mask: endpoint.mask.clone(),
        credentials: Credentials::default(),
        url: request.url.clone(),
        phase: Phase::Authorize(request),
        endpoint,
        codec,
        reading,
        recorder,
    };
    stream::unfold(exchange, Exchange::next).boxed()
}

enum Phase {
    Authorize(Outgoing),
    Send(Outgoing),
    Read(Response),
    Over,
}

struct Exchange {
    endpoint: Arc<Endpoint>,
    codec: Codec,
    url: Url,
    /// Replaces key, secret headers and credentials in everything that the server sends.
    mask: Mask,
    /// The credentials of this request, if they are not fixed.
    credentials: Credentials,
    phase: Phase,
    reading: Reading,
    recorder: Option<Recorder>,
    /// Events that come before the next decoded one, in reverse order.
    next: Vec<StreamEvent>,
}

impl Exchange {
    async fn next(mut self) -> Option<(StreamEvent, Self)> {
        loop {
            if let Some(event) = self.next.pop() {
                return Some((event, self));
            }
            if let Some(event) = self.reading.pop() {
                let event = self.masked(event);
                if event.is_last() {
                    if matches!(self.phase, Phase::Read(_)) {
                        // the reply has passed a limit
                        self.recorded(End::Closed);
                    }
                    self.phase = Phase::Over;
                    if let Some(recorder) = self.recorder.take() {
                        self.next.push(event);
                        let exchanged = recorder.finish(&self.mask);
                        return Some((StreamEvent::Exchanged(Box::new(exchanged)), self));
                    }
                }
                return Some((event, self));
            }
            let step = match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Authorize(request) => self.authorize(request).await,
                Phase::Send(request) => self.send(request).await,
                Phase::Read(response) => self.read(response).await,
                Phase::Over => return None,
            };
            if let Err(failure) = step {
                self.reading.fail(failure);
            }
        }
    }

    /// Hides secrets that the server repeats in an event.
    fn masked(&self, mut event: StreamEvent) -> StreamEvent {
        if let StreamEvent::Failed(failure) = &mut event {
            failure.message = self.mask.hide(std::mem::take(&mut failure.message));
        }
        event
    }

    async fn authorize(&mut self, mut request: Outgoing) -> Result<(), Failure> {
        if let Some(authorization) = &self.endpoint.authorization {
            let credentials = authorization.authorize(&mut request).await?;
            self.mask.add(credentials.0.iter().map(|(_, value)| value.as_str()));
            self.next.push(StreamEvent::Credentials(credentials.clone()));
            self.credentials = credentials;
            self.url = request.url.clone();
        }
        self.phase = Phase::Send(request);
        Ok(())
    }

    async fn send(&mut self, request: Outgoing) -> Result<(), Failure> {
        let endpoint = Arc::clone(&self.endpoint);
        let Outgoing { url, headers, body } = request;
        let request = http::client(&url).await?.post(url).headers(headers).body(body);
        // no limit here: the caller decides how long a model may think before its first byte
        let response =
            request.send().await.map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        // whole milliseconds, as in a record
        let at = Time::from(SystemTime::now());
        if let Some(id) = request_id(response.headers()) {
            self.next.push(StreamEvent::RequestId(self.mask.hide(id)));
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.head(&response, at);
        }
        if response.status().is_success() {
            self.phase = Phase::Read(response);
            return Ok(());
        }
        Err(self.error_response(response, at).await)
    }

    async fn read(&mut self, mut response: Response) -> Result<(), Failure> {
        let endpoint = Arc::clone(&self.endpoint);
        let chunk = with_stall_limit(endpoint.stall, response.chunk())
            .await?
            .map_err(|e| http::failure(&endpoint.provider, &self.url, &e))?;
        let Some(bytes) = chunk else {
            self.recorded(End::Eof);
            return self.reading.end(response.status());
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.chunk(&bytes);
        }
        let pushed = self.reading.push(&bytes);
        if pushed.is_err() || self.reading.is_over() {
            self.recorded(End::Closed);
        }
        pushed?;
        if self.reading.is_finished() {
            drop(tokio::spawn(drain(response)));
        } else if !self.reading.is_over() {
            self.phase = Phase::Read(response);
        }
        Ok(())
    }

    fn recorded(&mut self, end: End) {
        if let Some(recorder) = &mut self.recorder {
            recorder.end(end);
        }
    }

    /// The failure of an error response. Its body may be slow or endless; the status counts even if
    /// the body cannot be read.
    async fn error_response(&mut self, mut response: Response, at: Time) -> Failure {
        let mut body = Vec::new();
        while body.len() < LONGEST_ERROR {
            match with_stall_limit(self.endpoint.stall, response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.chunk(&body);
            recorder.end(End::Eof);
        }
        let (status, headers) = (response.status(), response.headers());
        let mut failure = self.codec.refused(&self.endpoint.provider, status, headers, &body, at);
        if let Some(authorization) = &self.endpoint.authorization
            && errors::refuses_credentials(status, headers)
        {
            failure.retryable |= authorization.refused(&self.credentials);
        }
        failure
    }
}

fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = REQUEST_IDS.iter().find_map(|name| headers.get(*name)?.to_str().ok())?.trim();
    (!id.is_empty() && id.len() <= LONGEST_ID).then(|| id.to_owned())
}

/// Keeps an exchange in memory while it happens.
pub(crate) struct Recorder {
    exchanged: Exchanged,
    bytes: usize,
}

impl Recorder {
    pub(crate) fn new(codec: Codec, provider: &str, path: String, body: Vec<u8>) -> Self {
        let bytes = body.len();
        let (wire, vendor) = (codec.wire().to_owned(), codec.vendor().to_owned());
        let provider = provider.to_owned();
        let exchanged = Exchanged { wire, vendor, provider, path, body, answer: None };
        Self { exchanged, bytes }
    }

    fn head(&mut self, response: &Response, at: Time) {
        let kept = |name: &&str| {
            let value = response.headers().get(*name)?.to_str().ok()?;
            Some(((*name).to_owned(), value.to_owned()))
        };
        let headers: BTreeMap<String, String> = KEPT_HEADERS.iter().filter_map(kept).collect();
        let (status, chunks) = (response.status().as_u16(), Vec::new());
        self.exchanged.answer = Some(Answer { status, headers, at, chunks, end: End::Broken });
    }

    fn chunk(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        match &mut self.exchanged.answer {
            Some(answer) if self.bytes <= LARGEST_RECORD => answer.chunks.push(bytes.to_vec()),
            Some(answer) => answer.chunks.clear(),
            None => {}
        }
    }

    fn end(&mut self, end: End) {
        if let Some(answer) = &mut self.exchanged.answer {
            answer.end = end;
        }
    }

    /// The exchange. An answer that repeats the provider's key is not kept.
    fn finish(mut self, mask: &Mask) -> Exchanged {
        let headers = self.exchanged.answer.as_ref().map(|answer| &answer.headers);
        let in_headers =
            headers.is_some_and(|headers| headers.values().any(|text| mask.finds(text)));
        if self.bytes > LARGEST_RECORD {
            let mib = LARGEST_RECORD >> 20;
            self.exchanged.drop_answer(&format!("the exchange has more than {mib} MiB"));
        } else if in_headers || mask.finds(&self.exchanged.answer_text()) {
            self.exchanged.drop_answer("the provider's key is in the answer");
        }
        self.exchanged
    }
}

/// Reads the few bytes that follow the end of an answer: an HTTP/1 connection can be reused only
/// after the whole body was read.
async fn drain(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // if the server continues to send, the connection is closed
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// Waits for the next byte, up to a limit.
async fn with_stall_limit<T>(stall: Duration, work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(stall, work).await.map_err(|_| Failure::stalled(stall))
}
