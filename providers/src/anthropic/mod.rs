//! Anthropic Messages: `POST {baseURL}/messages`.
//!
//! Written after the public documentation of the API, version 2023-06-01.

#[cfg(any(debug_assertions, test))]
mod check;
mod decode;
mod message;
mod options;
mod request;
mod wire;

use std::sync::Arc;

use leftfold_events::Request;
use serde_json::{Value, json};

#[cfg(any(debug_assertions, test))]
use crate::check::{Faults, Place};
use crate::client::Client;
use crate::config::{Config, Error, Http, Protocol, Wire};
use crate::stream::{Decoder, Provider};
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

    fn vendor(&self, _config: &Config) -> &'static Vendor {
        &vendors::ANTHROPIC
    }

    fn models(&self, _vendor: &Vendor) -> &'static [Model] {
        CLAUDES
    }

    fn effort(&self, effort: &str) -> Value {
        json!({ "thinking": { "type": "adaptive" }, "effort": effort })
    }

    /// Anthropic's own clients expect `ANTHROPIC_BASE_URL` without the `/v1` that settings'
    /// `baseURL` includes. So `/v1` is appended unless it is there already.
    fn base_from_env(&self, value: &str) -> String {
        let value = value.trim().trim_end_matches('/');
        if value.ends_with("/v1") { value.to_owned() } else { format!("{value}/v1") }
    }

    fn build(&self, config: Config) -> Result<Arc<dyn Provider>, Error> {
        Ok(Arc::new(Client::new(config, &Anthropic)?))
    }

    fn http(&self) -> Option<&'static dyn Http> {
        Some(&Anthropic)
    }
}

impl Http for Anthropic {
    fn path(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn key_header(&self, _vendor: &Vendor) -> (&'static str, &'static str) {
        ("x-api-key", "")
    }

    /// Older models accept sampling parameters only in this API version.
    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01"), (BETA, "interleaved-thinking-2025-05-14")]
    }

    fn joined_header(&self) -> Option<&'static str> {
        Some(BETA)
    }

    fn body(&self, _vendor: &Vendor, request: &Request) -> Value {
        request::body(request)
    }

    fn decoder(&self, provider: &str, _vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider))
    }

    #[cfg(any(debug_assertions, test))]
    fn check(&self, _vendor: &Vendor, _model: &str, body: &Place<'_>, faults: &mut Faults) {
        check::check(body, faults);
    }
}

#[cfg(test)]
mod tests;
