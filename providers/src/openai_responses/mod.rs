//! OpenAI Responses: `POST {baseURL}/responses`, without anything kept at the server.
//!
//! Written after OpenAI's public API reference, which other servers follow more or less.

mod calls;
mod content;
pub(crate) mod decode;
mod message;
mod options;
mod reasoning;
mod request;
mod texts;
mod usage;
mod wire;

use std::sync::Arc;

use futures::stream::BoxStream;
use leftfold_events::Request;

use crate::check::{self, Rules};
use crate::config::{Config, Error};
use crate::exchange::{self, Endpoint};
use crate::openai_chat::quirks::Quirks;
use crate::{Extra, Provider, StreamEvent, openai_chat};

#[derive(Debug)]
pub(crate) struct OpenaiResponses {
    endpoint: Arc<Endpoint>,
    /// Whoever speaks this wire has the same addresses, keys and models as on the other one.
    quirks: &'static Quirks,
}

impl OpenaiResponses {
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let (endpoint, quirks) = openai_chat::connect(config, &["responses"])?;
        Ok(Self { endpoint: Arc::new(endpoint), quirks })
    }
}

/// Reads one answer.
pub(crate) fn decoder(provider: &str) -> impl exchange::Decoder {
    decode::Decoder::new(provider)
}

impl Provider for OpenaiResponses {
    fn name(&self) -> &str {
        &self.endpoint.provider
    }

    fn body(&self, request: &Request) -> Vec<u8> {
        check::bytes(&request::body(&check::closed(request, self.endpoint.faulty), self.quirks))
    }

    fn stream(&self, request: Request) -> BoxStream<'static, StreamEvent> {
        let decoder = decoder(&self.endpoint.provider);
        let endpoint = Arc::clone(&self.endpoint);
        let faulty = endpoint.faulty;
        let body = request::body(&check::closed(&request, faulty), self.quirks);
        let rules = Rules::Responses(self.quirks);
        check::send(faulty, &rules, &body, |body| exchange::run(endpoint, body, decoder))
    }

    fn with(&self, extra: &Extra) -> Option<Arc<dyn Provider>> {
        let endpoint = Arc::new(self.endpoint.with(extra));
        Some(Arc::new(Self { endpoint, quirks: self.quirks }))
    }
}

#[cfg(test)]
mod tests;
