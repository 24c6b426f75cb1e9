//! Anthropic Messages: `POST {baseURL}/messages`.
//!
//! Written after the public documentation of the API, version 2023-06-01.

mod decode;
mod message;
mod options;
mod request;
mod wire;

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{Config, Error};
use crate::errors::Mask;
use crate::exchange::{self, Endpoint};
use crate::{Provider, StreamEvent};

const BASE_URL: &str = "https://api.anthropic.com/v1";
/// The last version with sampling parameters, which older models take.
const VERSION: &str = "2023-06-01";
/// Lets older models think between tool calls; newer ones do anyway and ignore it.
const BETA: &str = "interleaved-thinking-2025-05-14";

/// The base URL that a value of `ANTHROPIC_BASE_URL` means.
///
/// Anthropic's own clients take that variable without the `/v1`, which settings' `baseURL` has.
/// So `/v1` is appended unless it is there already.
pub fn base_from_env(value: &str) -> String {
    let value = value.trim().trim_end_matches('/');
    if value.ends_with("/v1") { value.to_owned() } else { format!("{value}/v1") }
}

#[derive(Debug)]
pub(crate) struct Anthropic {
    endpoint: Arc<Endpoint>,
}

impl Anthropic {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let url = url(&config)?;
        let key = config.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let headers = headers(&config, key)?;
        let authorised = headers.contains_key("x-api-key") || headers.contains_key("authorization");
        if config.base_url.is_none() && !authorised {
            let variable = variable(&config.name);
            return Err(Error::MissingKey { provider: config.name, variable });
        }
        let mask = Mask::new(key.into_iter().chain(secret_headers(&config)));
        let Config { name: provider, stall, .. } = config;
        Ok(Self { endpoint: Arc::new(Endpoint { provider, url, headers, stall, mask }) })
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        request::body(request)
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let decoder = decode::Decoder::new(&self.endpoint.provider);
        exchange::run(Arc::clone(&self.endpoint), request::body(&request), decoder)
    }
}

fn url(config: &Config) -> Result<Url, Error> {
    let base = config.base_url.as_deref().map_or(BASE_URL, str::trim);
    let bad = |reason: &str| Error::BadBaseUrl {
        provider: config.name.clone(),
        url: base.to_owned(),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base).map_err(|e| bad(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it begins neither with http:// nor with https://"));
    }
    match url.path_segments_mut() {
        Ok(mut path) => drop(path.pop_if_empty().push("messages")),
        Err(()) => return Err(bad("it has no path")),
    }
    Ok(url)
}

/// The environment variable in which the key of a provider is expected.
fn variable(provider: &str) -> String {
    let upper = provider.to_uppercase();
    let name: String =
        upper.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    format!("{name}_API_KEY")
}

fn headers(config: &Config, key: Option<&str>) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
    headers.insert("anthropic-beta", HeaderValue::from_static(BETA));
    if let Some(key) = key {
        let mut value = HeaderValue::from_str(key)
            .map_err(|_| Error::BadKey { provider: config.name.clone() })?;
        value.set_sensitive(true);
        headers.insert("x-api-key", value);
    }
    for (name, value) in &config.headers {
        let bad = || Error::BadHeader { provider: config.name.clone(), header: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        // betas add up, everything else is replaced
        let text = if key == "anthropic-beta" { format!("{BETA},{value}") } else { value.clone() };
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| bad())?;
        value.set_sensitive(is_secret(name));
        headers.insert(key, value);
    }
    Ok(headers)
}

fn is_secret(header: &str) -> bool {
    let name = header.to_lowercase();
    ["auth", "key", "token", "secret", "cookie"].iter().any(|part| name.contains(part))
}

fn secret_headers(config: &Config) -> impl Iterator<Item = &str> {
    config.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests;
