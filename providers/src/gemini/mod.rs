//! Gemini: `POST {baseURL}/models/{id}:streamGenerateContent?alt=sse`.
//!
//! Written after Google's public documentation of the Gemini API, version v1beta.

mod calls;
mod content;
pub(crate) mod decode;
mod media;
mod options;
mod paths;
mod plain;
mod request;
mod schema;
mod sign;
mod usage;

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;
use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::check::{self, Rules};
use crate::config::{Config, Error};
use crate::exchange::{self, Endpoint};
use crate::{Extra, Provider, StreamEvent, endpoint};

const BASE_URL: &str = "https://generativelanguage.googleapis.com/v1beta";
const VERSION: &str = "v1beta";
/// The header of the key.
const KEY: &str = "x-goog-api-key";

/// The base URL that a value of `GEMINI_BASE_URL` means.
///
/// Google's own clients take addresses without the version, which settings' `baseURL` has. So it
/// is appended unless there is one.
pub(crate) fn base_from_env(value: &str) -> String {
    let value = value.trim().trim_end_matches('/');
    let last = value.rsplit('/').next().unwrap_or_default();
    let version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(char::is_numeric));
    if version { value.to_owned() } else { format!("{value}/{VERSION}") }
}

#[derive(Debug)]
pub(crate) struct Gemini {
    /// Its address is the base, below which each model has its own.
    endpoint: Endpoint,
}

impl Gemini {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let base = config.base_url.as_deref().unwrap_or(BASE_URL);
        let url = endpoint::url(&config, base, &[])?;
        let headers = headers(&config)?;
        let authorised = headers.contains_key(KEY) || headers.contains_key("authorization");
        if config.base_url.is_none() && !authorised {
            return Err(endpoint::missing_key(&config));
        }
        Ok(Self { endpoint: endpoint::endpoint(config, url, headers, (KEY, "")) })
    }
}

/// Reads one answer.
pub(crate) fn decoder(provider: &str) -> impl exchange::Decoder {
    decode::Decoder::new(provider)
}

impl Provider for Gemini {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        check::bytes(&request::body(&check::closed(request, self.endpoint.faulty)))
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let url = address(self.endpoint.url.clone(), &request.model.id);
        let endpoint = Arc::new(Endpoint { url, ..self.endpoint.clone() });
        let decoder = decoder(&self.endpoint.provider);
        let faulty = endpoint.faulty;
        let body = request::body(&check::closed(&request, faulty));
        let rules = Rules::Gemini(request.model.id);
        check::send(faulty, &rules, &body, |body| exchange::run(endpoint, body, decoder))
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = self.endpoint.with(extra);
        Some(Arc::new(Self { endpoint }))
    }
}

/// Where a model is spoken to. An id with slashes is a path of its own (`tunedModels/mine`).
fn address(mut url: Url, model: &str) -> Url {
    let path = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
    // an address that can not have a path was refused before
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(format!("{path}:streamGenerateContent").split('/'));
    }
    if !url.query_pairs().any(|(name, _)| name == "alt") {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    url
}

fn headers(config: &Config) -> Result<HeaderMap, Error> {
    let mut headers = endpoint::headers();
    if let Some(key) = endpoint::key(config) {
        headers.insert(KEY, endpoint::key_value(config, "", key)?);
    }
    endpoint::overlay(&mut headers, config, None)?;
    Ok(headers)
}

/// Whether `model` is a Gemini of generation `first` (`2.5`, say) or a later one. What is not known
/// is neither: a tuned model, or another family.
pub(crate) fn is_from(model: &str, first: f32) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix("gemini-") else { return false };
    let version = rest.split('-').next().unwrap_or_default();
    version.parse::<f32>().is_ok_and(|version| version >= first)
}

#[cfg(test)]
mod tests;
