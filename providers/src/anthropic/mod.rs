//! Anthropic Messages: `POST {baseURL}/messages`, and at resellers `POST {baseURL}/{id}:streamRawPredict`.
//!
//! Written after the public documentation of the API, version 2023-06-01.

mod decode;
mod message;
mod options;
mod request;
mod wire;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use reqwest::Url;
use serde_json::{Map, Value, json};

use crate::config::{Config, Http, Protocol, Transport, Wire};
use crate::history::History;
use crate::stream::Decoder;
use crate::vendors::{self, CLAUDES, Model, Vendor};

/// Lets older models think between tool calls. Newer models do so anyway and ignore it.
const BETA: &str = "anthropic-beta";

#[derive(Debug)]
struct Anthropic;

impl Wire {
    /// Anthropic Messages.
    pub const ANTHROPIC: Self = Self::new(&Anthropic);
}

impl Protocol for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn npm(&self) -> Option<&'static str> {
        Some("@ai-sdk/anthropic")
    }

    fn vendor(&self, config: &Config) -> &'static Vendor {
        vendors::find_on(&vendors::ANTHROPIC, &config.name, config.vendor.as_deref())
    }

    /// Vertex AI, which names a version of the API in the body, has ids of its own.
    fn models(&self, vendor: &Vendor) -> &'static [Model] {
        if vendor.anthropic_version.is_some() { vendors::vertex_claudes() } else { CLAUDES }
    }

    fn model(&self, _vendor: &Vendor, id: &str) -> Option<&'static Model> {
        vendors::listed(CLAUDES, id)
    }

    fn effort(&self, effort: &str) -> Value {
        json!({ "thinking": { "type": "adaptive" }, "effort": effort })
    }

    fn leaves_out(&self, model: &str, option: &str, value: &Value) -> bool {
        options::leaves_out(model, option, value)
    }

    /// Anthropic's own clients expect `ANTHROPIC_BASE_URL` without the `/v1` that settings'
    /// `baseURL` includes. So `/v1` is appended unless it is there already.
    fn base_from_env(&self, value: &str) -> String {
        let value = value.trim().trim_end_matches('/');
        if value.ends_with("/v1") { value.to_owned() } else { format!("{value}/v1") }
    }

    fn transport(&self) -> Transport {
        Transport::Http(&Anthropic)
    }
}

impl Http for Anthropic {
    /// Empty at vendors where each model has its own address below the base.
    fn path(&self, vendor: &Vendor) -> &'static [&'static str] {
        if vendor.anthropic_version.is_some() { &[] } else { &["messages"] }
    }

    fn address(&self, vendor: &Vendor, endpoint: &Url, model: &str) -> Url {
        let mut url = endpoint.clone();
        // an address that cannot have a path was refused before
        if vendor.anthropic_version.is_some()
            && let Ok(mut segments) = url.path_segments_mut()
        {
            segments.pop_if_empty().push(&format!("{model}:streamRawPredict"));
        }
        url
    }

    /// Resellers take access tokens of their own.
    fn key_header(&self, vendor: &Vendor) -> (&'static str, &'static str) {
        if vendor.anthropic_version.is_some() {
            return ("authorization", "Bearer ");
        }
        ("x-api-key", "")
    }

    /// Older models accept sampling parameters only in this API version.
    fn headers(&self, vendor: &Vendor) -> &'static [(&'static str, &'static str)] {
        const BETAS: (&str, &str) = (BETA, "interleaved-thinking-2025-05-14");
        if vendor.anthropic_version.is_some() {
            return &[BETAS];
        }
        &[("anthropic-version", "2023-06-01"), BETAS]
    }

    fn joined_header(&self) -> Option<&'static str> {
        Some(BETA)
    }

    fn head(&self, vendor: &Vendor, request: &Request, lacks_thinking: bool) -> Map<String, Value> {
        request::head(vendor, request, lacks_thinking)
    }

    fn history(&self, _vendor: &'static Vendor, _request: &Request) -> Box<dyn History> {
        Box::new(message::Conversation::new())
    }

    fn decoder(&self, provider: &str, _vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider))
    }

    #[cfg(any(debug_assertions, test))]
    fn api(&self, vendor: &Vendor, _model: &str, _body: &Value) -> Api {
        Api::Anthropic { version: vendor.anthropic_version }
    }
}

#[cfg(test)]
mod tests;
