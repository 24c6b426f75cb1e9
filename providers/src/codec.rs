//! Encodes requests and decodes answers of one wire format and vendor. It knows no address, no key
//! and no network, so a log is enough to make a body again.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use leftfold_events::event::FailureClass;
use leftfold_events::{Request, Sha256, Time};
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Fault;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
#[cfg(any(debug_assertions, test))]
use serde_json::Value;

use crate::closing;
use crate::config::{Config, Error, Http, Wire};
use crate::encoded::Encoded;
use crate::errors::Failure;
use crate::exchanged::{Answer, End};
use crate::reading::Reading;
use crate::spans::{self, Span};
use crate::stream::StreamEvent;
use crate::vendors::{self, Header, Vendor};

/// One wire format with the quirks of one vendor.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    wire: Wire,
    http: &'static dyn Http,
    vendor: &'static Vendor,
}

impl Config {
    /// All rules of this provider that `body` breaks. `model` is the requested model, which not
    /// every wire names in its body. A scripted provider has no rules.
    ///
    /// Release builds contain neither the rules nor this function.
    #[cfg(any(debug_assertions, test))]
    pub fn faults(&self, model: &str, body: &Value) -> Vec<Fault> {
        let http = self.wire.protocol().http();
        http.map_or_else(Vec::new, |http| Codec::new(self, http).faults(model, body))
    }
}

impl Codec {
    /// The codec for the names that a log has. `None`: the wire format is `scripted`, which sends
    /// nothing.
    ///
    /// # Errors
    /// This version does not have the wire format, or the vendor on it.
    pub fn find(wire: &str, vendor: &str) -> Result<Option<Self>, Error> {
        let wire: Wire = wire.parse()?;
        let Some(http) = wire.protocol().http() else { return Ok(None) };
        let unknown =
            || Error::UnknownVendor { vendor: vendor.to_owned(), wire: wire.name().to_owned() };
        let named = vendors::named(vendor).ok_or_else(unknown)?;
        let mut config = Config::new("", wire);
        config.vendor = Some(vendor.to_owned());
        let codec = Self::new(&config, http);
        if codec.vendor == named { Ok(Some(codec)) } else { Err(unknown()) }
    }

    /// The codec of a provider whose wire is `http`.
    pub(crate) fn new(config: &Config, http: &'static dyn Http) -> Self {
        Self { wire: config.wire, http, vendor: config.wire.protocol().vendor(config) }
    }

    /// The name of the wire format.
    pub fn wire(&self) -> &'static str {
        self.wire.name()
    }

    /// The name of the vendor.
    pub fn vendor(&self) -> &'static str {
        self.vendor.names[0]
    }

    /// The bytes that go over the wire for `request`. Calls without results are answered first.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        self.encoding(request).body(&closing::closed(request)).0
    }

    /// The [`body`](Self::body) of `request` and its hash. It continues the body of the session's last request as far as that is
    /// kept in the request, and is kept in its place.
    pub(crate) fn next_body(&self, request: &Request) -> (Vec<u8>, Sha256) {
        let known = request.encoded.take().filter(|(wire, known): &(Wire, Encoded)| {
            *wire == self.wire && known.begins(self.vendor, request)
        });
        let known = known.map(|(_, known)| known);
        let read = known.as_ref().map_or(0, Encoded::read);
        // without tools, the calls of the conversation define them
        let is_kept = !request.tools.is_empty() && closing::is_closed(&request.messages[read..]);
        if !is_kept {
            return self.encoding(request).body(&closing::closed(request));
        }
        let mut encoded = known.unwrap_or_else(|| self.encoding(request));
        let made = encoded.body(request);
        request.encoded.keep((self.wire, encoded));
        debug_assert!(made == self.encoding(request).body(request), "a kept body differs");
        made
    }

    /// The encoding of a conversation, before its first message.
    fn encoding(&self, request: &Request) -> Encoded {
        Encoded::new(self.http, self.vendor, request)
    }

    /// The vendor's headers for `request`.
    pub(crate) fn headers(
        &self,
        request: &Request,
        is_by_user: bool,
    ) -> impl Iterator<Item = (&'static str, &'static str)> {
        let applies = move |header: &&Header| header.when.applies(request, is_by_user);
        self.vendor.headers.iter().filter(applies).map(|header| (header.name, header.value))
    }

    /// Where the bytes of [`body`](Self::body) come from. The spans follow each other without a gap.
    pub fn spans(&self, request: &Request) -> Vec<Span> {
        spans::spans(&closing::closed(request), |request| self.body(request))
    }

    /// The id by which the model `id` is called at an endpoint with these settings.
    pub(crate) fn called<'a>(
        &self,
        parameters: &[(String, String)],
        base_url: Option<&str>,
        id: &'a str,
    ) -> Cow<'a, str> {
        self.wire.protocol().model_id(parameters, base_url, id)
    }

    /// The path and query below the base URL, for a request to `model`.
    pub fn path(&self, model: &str) -> String {
        // a fixed and valid address
        let Ok(mut url) = reqwest::Url::parse("http://base") else { return String::new() };
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(self.http.path(self.vendor));
        }
        let url = self.http.address(self.vendor, &url, model);
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        format!("{}{query}", url.path())
    }

    /// The events of a recorded answer, without [`StreamEvent::Start`]. An answer that broke off has
    /// no last event: its failure is no part of its bytes.
    pub fn replay(&self, provider: &str, answer: &Answer) -> Vec<StreamEvent> {
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        if !status.is_success() {
            let headers = header_map(answer);
            let body = answer.chunks.concat();
            let failure = self.refused(provider, status, &headers, &body, answer.at);
            return vec![StreamEvent::Failed(failure)];
        }
        let mut reading = self.reading(provider);
        let mut events = Vec::new();
        for chunk in &answer.chunks {
            if let Err(failure) = reading.push(chunk) {
                reading.fail(failure);
            }
            events.extend(std::iter::from_fn(|| reading.pop()));
            if events.last().is_some_and(StreamEvent::is_last) {
                return events;
            }
        }
        if answer.end == End::Eof {
            if let Err(failure) = reading.end(status) {
                reading.fail(failure);
            }
            events.extend(std::iter::from_fn(|| reading.pop()));
        }
        events
    }

    /// All rules of the vendor that the body of a request breaks. `model` is the requested model,
    /// which not every wire names in its body.
    ///
    /// Release builds contain neither the rules nor this function.
    #[cfg(any(debug_assertions, test))]
    pub fn faults(&self, model: &str, body: &Value) -> Vec<Fault> {
        leftfold_request_checks::faults(&self.http.api(self.vendor, model, body), body)
    }

    /// The first rule that `request` breaks as it is, before open calls are answered.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn fault(&self, request: &Request) -> Option<Fault> {
        let body = self.encoding(request).body(request).0;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        self.faults(&request.model.id, &body).into_iter().next()
    }

    pub(crate) fn http(&self) -> &'static dyn Http {
        self.http
    }

    pub(crate) fn quirks(&self) -> &'static Vendor {
        self.vendor
    }

    /// The decoding of a new answer.
    pub(crate) fn reading(&self, provider: &str) -> Reading {
        let decoder = self.http.decoder(provider, self.vendor);
        Reading::new(provider, self.http.framing(), decoder)
    }

    /// The failure of a response with an HTTP error status, which came at `at`.
    pub(crate) fn refused(
        &self,
        provider: &str,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        at: Time,
    ) -> Failure {
        if self.vendor.overflows_silently
            && matches!(status.as_u16(), 400 | 413)
            && body.trim_ascii().is_empty()
        {
            return Failure::silent_overflow(provider, status);
        }
        let at = UNIX_EPOCH + Duration::from_millis(at.millis());
        let failure = Failure::of_response(provider, status, headers, body, at);
        let is_transient = self.vendor.retries_not_found
            && status == StatusCode::NOT_FOUND
            && failure.class == FailureClass::Invalid;
        Failure { retryable: failure.retryable || is_transient, ..failure }
    }
}

fn header_map(answer: &Answer) -> HeaderMap {
    let header = |(name, value): (&String, &String)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value).ok()?))
    };
    answer.headers.iter().filter_map(header).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use leftfold_events::event::PromptPart;
    use leftfold_events::request::RequestMessage;

    use super::*;
    use crate::closing::is_closed;

    const FOLDERS: [(&str, Wire); 5] = [
        ("anthropic_bodies", Wire::ANTHROPIC),
        ("chat_bodies", Wire::OPENAI_CHAT),
        ("responses_bodies", Wire::OPENAI_RESPONSES),
        ("gemini_bodies", Wire::GEMINI),
        ("bedrock_bodies", Wire::BEDROCK),
    ];

    /// Each case, as the last request of a session whose prompts were extended after a request.
    #[test]
    fn a_body_that_continues_another_one_is_the_body_of_its_request() {
        for (folder, wire) in FOLDERS {
            let mut continued = 0;
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
            for file in std::fs::read_dir(folder).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                let case: Value = serde_json::from_str(&text).unwrap();
                let whole: Request = serde_json::from_value(case["request"].clone()).unwrap();
                let mut config = Config::new("p", wire);
                config.vendor = case["vendor"].as_str().map(str::to_owned);
                let codec = Codec::new(&config, wire.protocol().http().unwrap());
                for end in 1..=whole.messages.len() {
                    let messages = whole.messages[..end].to_vec();
                    let mut request = Request { messages, ..whole.clone() };
                    if !is_closed(&request.messages) {
                        continue;
                    }
                    if let Some(RequestMessage::User { parts }) = request.messages.last_mut() {
                        let asked = std::mem::replace(parts, [PromptPart::text("Wait.")].into());
                        assert!(codec.next_body(&request).0 == codec.body(&request));
                        if let Some(RequestMessage::User { parts }) = request.messages.last_mut() {
                            *parts = asked;
                        }
                    }
                    let (body, sha256) = codec.next_body(&request);
                    assert!(body == codec.body(&request), "{text}\n{end}");
                    assert_eq!(sha256, Sha256::digest(&body));
                    let kept: Option<(Wire, Encoded)> = request.encoded.take();
                    continued += kept.as_ref().map_or(0, |(_, kept)| kept.read());
                    kept.into_iter().for_each(|kept| request.encoded.keep(kept));
                }
            }
            assert!(continued > 0, "{wire}: nothing was kept");
        }
    }
}
