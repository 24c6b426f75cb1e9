//! OpenAI Responses: `POST {baseURL}/responses`, without state at the server.
//!
//! Written after OpenAI's public API reference, which other servers follow more or less.

mod calls;
mod content;
mod decode;
mod message;
mod options;
mod reasoning;
mod request;
mod texts;
mod usage;
mod wire;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use serde_json::{Map, Value};

use crate::config::{Config, Http, Protocol, Transport, Wire};
use crate::history::History;
use crate::openai_chat;
use crate::stream::Decoder;
use crate::vendors::{GPTS, Model, Vendor};

#[derive(Debug)]
struct OpenaiResponses;

impl Wire {
    /// OpenAI Responses.
    pub const OPENAI_RESPONSES: Self = Self::new(&OpenaiResponses);
}

impl Protocol for OpenaiResponses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn npm(&self) -> Option<&'static str> {
        Some("@ai-sdk/openai")
    }

    fn vendor(&self, config: &Config) -> &'static Vendor {
        openai_chat::vendor(config)
    }

    /// A vendor without a list of its own most likely resells OpenAI's models. A subscription to models of several vendors
    /// has other limits, and no prices.
    fn models(&self, vendor: &Vendor) -> &'static [Model] {
        let has_other_wires = vendor.builtin.is_some_and(|builtin| !builtin.wires.is_empty());
        if vendor.models.is_empty() && !has_other_wires { GPTS } else { vendor.models }
    }

    fn unlisted_efforts(&self, model: &str) -> &'static [&'static str] {
        openai_chat::unlisted_efforts(model)
    }

    fn leaves_out(&self, _model: &str, option: &str, _value: &Value) -> bool {
        options::leaves_out(option)
    }

    fn transport(&self) -> Transport {
        Transport::Http(&OpenaiResponses)
    }
}

impl Http for OpenaiResponses {
    fn path(&self, _vendor: &Vendor) -> &'static [&'static str] {
        &["responses"]
    }

    fn key_header(&self, vendor: &Vendor) -> (&'static str, &'static str) {
        openai_chat::key_header(vendor)
    }

    fn conversation(&self) -> &'static str {
        "input"
    }

    fn head(
        &self,
        vendor: &Vendor,
        request: &Request,
        _lacks_thinking: bool,
    ) -> Map<String, Value> {
        request::head(request, vendor)
    }

    fn history(&self, vendor: &'static Vendor, request: &Request) -> Box<dyn History> {
        Box::new(message::Items::new(vendor, request))
    }

    fn decoder(&self, provider: &str, _vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider))
    }

    #[cfg(any(debug_assertions, test))]
    fn api(&self, vendor: &Vendor, _model: &str, body: &Value) -> Api {
        Api::OpenAiResponses(vendor.compatible(body))
    }
}

#[cfg(test)]
mod tests;
