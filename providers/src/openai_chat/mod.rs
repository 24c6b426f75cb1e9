//! OpenAI Chat Completions: `POST {baseURL}/chat/completions`, as OpenAI and many other vendors
//! implement it.
//!
//! Written after the public API references of the vendors in `vendors/table.rs`.

mod calls;
mod content;
mod decode;
mod message;
mod options;
mod request;
mod returned;
mod usage;
mod wire;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use serde_json::{Map, Value};

use crate::config::{Config, Http, Protocol, Transport, Wire};
use crate::history::History;
use crate::stream::Decoder;
use crate::vendors::{self, Vendor, is_openai_reasoner};
pub(crate) use content::{File, file};
pub(crate) use message::tool_name;
pub(crate) use request::{forbid_calls, function, tools};
pub(crate) use returned::REASONING;

/// The efforts that all of OpenAI's reasoning models accept.
const EFFORTS: &[&str] = &["low", "medium", "high"];

#[derive(Debug)]
struct OpenaiChat;

impl Wire {
    /// OpenAI Chat Completions, for OpenAI and compatible vendors.
    pub const OPENAI_CHAT: Self = Self::new(&OpenaiChat);
}

impl Protocol for OpenaiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn npm(&self) -> Option<&'static str> {
        Some("@ai-sdk/openai-compatible")
    }

    fn vendor(&self, config: &Config) -> &'static Vendor {
        vendor(config)
    }

    fn unlisted_efforts(&self, model: &str) -> &'static [&'static str] {
        unlisted_efforts(model)
    }

    fn leaves_out(&self, _model: &str, option: &str, _value: &Value) -> bool {
        options::leaves_out(option)
    }

    fn transport(&self) -> Transport {
        Transport::Http(&OpenaiChat)
    }
}

impl Http for OpenaiChat {
    fn path(&self, _vendor: &Vendor) -> &'static [&'static str] {
        &["chat", "completions"]
    }

    fn key_header(&self, vendor: &Vendor) -> (&'static str, &'static str) {
        key_header(vendor)
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
        Box::new(message::Conversation::new(vendor, request))
    }

    fn decoder(&self, provider: &str, vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider, vendor))
    }

    #[cfg(any(debug_assertions, test))]
    fn api(&self, vendor: &Vendor, _model: &str, body: &Value) -> Api {
        Api::OpenAiChat(vendor.compatible(body))
    }
}

/// The vendor. Vendors with an API like OpenAI's have one address, key and list of models for both
/// of OpenAI's wire formats.
pub(crate) fn vendor(config: &Config) -> &'static Vendor {
    vendors::find_compatible(&config.name, config.vendor.as_deref(), config.base_url.as_deref())
}

/// The header of the key, and the prefix of the key in it.
pub(crate) fn key_header(vendor: &Vendor) -> (&'static str, &'static str) {
    vendor.key_header.map_or(("authorization", "Bearer "), |name| (name, ""))
}

pub(crate) fn unlisted_efforts(model: &str) -> &'static [&'static str] {
    if is_openai_reasoner(model) { EFFORTS } else { &[] }
}

#[cfg(test)]
mod tests;
