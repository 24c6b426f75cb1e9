//! Anthropic Messages: `POST {baseURL}/messages`.
//!
//! Written after the public documentation of the API, version 2023-06-01.

pub(crate) mod decode;
mod message;
mod options;
mod request;
mod wire;

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::check::{self, Rules};
use crate::config::{Config, Error};
use crate::exchange::{self, Endpoint};
use crate::{Extra, Provider, StreamEvent, endpoint};

const BASE_URL: &str = "https://api.anthropic.com/v1";
/// The header of the key.
const KEY: &str = "x-api-key";
/// The last version with sampling parameters, which older models take.
const VERSION: &str = "2023-06-01";
/// Lets older models think between tool calls; newer ones do anyway and ignore it.
const BETA: &str = "interleaved-thinking-2025-05-14";

/// The base URL that a value of `ANTHROPIC_BASE_URL` means.
///
/// Anthropic's own clients take that variable without the `/v1`, which settings' `baseURL` has.
/// So `/v1` is appended unless it is there already.
pub(crate) fn base_from_env(value: &str) -> String {
    let value = value.trim().trim_end_matches('/');
    if value.ends_with("/v1") { value.to_owned() } else { format!("{value}/v1") }
}

#[derive(Debug)]
pub(crate) struct Anthropic {
    endpoint: Arc<Endpoint>,
}

impl Anthropic {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let base = config.base_url.as_deref().unwrap_or(BASE_URL);
        let url = endpoint::url(&config, base, &["messages"])?;
        let headers = headers(&config)?;
        let authorised = headers.contains_key(KEY) || headers.contains_key("authorization");
        if config.base_url.is_none() && !authorised {
            return Err(endpoint::missing_key(&config));
        }
        Ok(Self { endpoint: Arc::new(endpoint::endpoint(config, url, headers, (KEY, ""))) })
    }
}

/// Reads one answer.
pub(crate) fn decoder(provider: &str) -> impl exchange::Decoder {
    decode::Decoder::new(provider)
}

impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        check::bytes(&request::body(&check::closed(request, self.endpoint.faulty)))
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let decoder = decoder(&self.endpoint.provider);
        let endpoint = Arc::clone(&self.endpoint);
        let faulty = endpoint.faulty;
        let body = request::body(&check::closed(&request, faulty));
        check::send(faulty, &Rules::Anthropic, &body, |body| exchange::run(endpoint, body, decoder))
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = Arc::new(self.endpoint.with(extra));
        Some(Arc::new(Self { endpoint }))
    }
}

fn headers(config: &Config) -> Result<HeaderMap, Error> {
    let mut headers = endpoint::headers();
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    headers.insert("anthropic-beta", HeaderValue::from_static(BETA));
    if let Some(key) = endpoint::key(config) {
        headers.insert(KEY, endpoint::key_value(config, "", key)?);
    }
    endpoint::overlay(&mut headers, config, Some("anthropic-beta"))?;
    Ok(headers)
}

#[cfg(test)]
mod tests;
