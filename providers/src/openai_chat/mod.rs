//! OpenAI Chat Completions: `POST {baseURL}/chat/completions`, as OpenAI and many others speak it.
//!
//! Written after the public API references of the vendors in `quirks.rs`.

mod calls;
mod content;
pub(crate) mod decode;
mod message;
mod options;
pub(crate) mod quirks;
mod request;
mod usage;
mod wire;

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;
use reqwest::header::HeaderMap;

use crate::check::{self, Rules};
use crate::config::{Config, Error};
use crate::exchange::{self, Endpoint};
use crate::{Extra, Provider, StreamEvent, endpoint};
pub(crate) use decode::REASONING;
use quirks::Quirks;

#[derive(Debug)]
pub(crate) struct OpenaiChat {
    endpoint: Arc<Endpoint>,
    quirks: &'static Quirks,
}

impl OpenaiChat {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let (endpoint, quirks) = connect(config, &["chat", "completions"])?;
        Ok(Self { endpoint: Arc::new(endpoint), quirks })
    }
}

/// Where to find `path` at whoever speaks as OpenAI does, and who that is.
pub(crate) fn connect(config: Config, path: &[&str]) -> Result<(Endpoint, &'static Quirks), Error> {
    let quirks = quirks::of(&config);
    let Some(base) = config.base_url.as_deref().or(quirks.base) else {
        return Err(Error::MissingBaseUrl { provider: config.name });
    };
    let url = endpoint::url(&config, base, path)?;
    let headers = headers(&config, quirks)?;
    let authorised = ["authorization", "api-key"].iter().any(|key| headers.contains_key(*key));
    if config.base_url.is_none() && quirks.needs_key && !authorised {
        return Err(endpoint::missing_key(&config));
    }
    let mut endpoint = endpoint::endpoint(config, url, headers, key_header(quirks));
    endpoint.missing_may_pass = quirks.missing_may_pass;
    Ok((endpoint, quirks))
}

/// Reads one answer.
pub(crate) fn decoder(config: &Config) -> impl exchange::Decoder {
    decode::Decoder::new(&config.name, quirks::of(config))
}

impl Provider for OpenaiChat {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        check::bytes(&request::body(&check::closed(request, self.endpoint.faulty), self.quirks))
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let decoder = decode::Decoder::new(&self.endpoint.provider, self.quirks);
        let endpoint = Arc::clone(&self.endpoint);
        let faulty = endpoint.faulty;
        let body = request::body(&check::closed(&request, faulty), self.quirks);
        let rules = Rules::Chat(self.quirks);
        check::send(faulty, &rules, &body, |body| exchange::run(endpoint, body, decoder))
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = Arc::new(self.endpoint.with(extra));
        Some(Arc::new(Self { endpoint, quirks: self.quirks }))
    }
}

/// The header of the key, and what stands before it there.
fn key_header(quirks: &Quirks) -> (&'static str, &'static str) {
    quirks.key_header.map_or(("authorization", "Bearer "), |name| (name, ""))
}

fn headers(config: &Config, quirks: &Quirks) -> Result<HeaderMap, Error> {
    let mut headers = endpoint::headers();
    if let Some(key) = endpoint::key(config) {
        let (name, scheme) = key_header(quirks);
        headers.insert(name, endpoint::key_value(config, scheme, key)?);
    }
    endpoint::overlay(&mut headers, config, None)?;
    Ok(headers)
}

#[cfg(test)]
mod tests;
