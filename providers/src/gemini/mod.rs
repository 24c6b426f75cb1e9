//! Gemini: `POST {baseURL}/models/{id}:streamGenerateContent?alt=sse`.
//!
//! Written after Google's public documentation of the Gemini API, version v1beta.

mod calls;
mod content;
mod decode;
mod media;
mod options;
mod paths;
mod plain;
mod request;
mod schema;
mod sign;
mod usage;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use reqwest::Url;
use serde_json::{Map, Value};

use crate::config::{Config, Http, Protocol, Transport, Wire};
use crate::history::History;
use crate::stream::Decoder;
use crate::vendors::{self, GEMINIS, Model, Vendor};

const VERSION: &str = "v1beta";

#[derive(Debug)]
struct Gemini;

impl Wire {
    /// Google's Gemini.
    pub const GEMINI: Self = Self::new(&Gemini);
}

impl Protocol for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn npm(&self) -> Option<&'static str> {
        Some("@ai-sdk/google")
    }

    fn vendor(&self, config: &Config) -> &'static Vendor {
        vendors::find_on(&vendors::GOOGLE, &config.name, config.vendor.as_deref())
    }

    fn models(&self, _vendor: &Vendor) -> &'static [Model] {
        GEMINIS
    }

    /// Google's own clients expect addresses without the version that settings' `baseURL` includes.
    /// So the version is appended unless the address has one.
    fn base_from_env(&self, value: &str) -> String {
        let value = value.trim().trim_end_matches('/');
        let last = value.rsplit('/').next().unwrap_or_default();
        let version = last.strip_prefix('v').is_some_and(|rest| rest.starts_with(char::is_numeric));
        if version { value.to_owned() } else { format!("{value}/{VERSION}") }
    }

    fn leaves_out(&self, _model: &str, option: &str, value: &Value) -> bool {
        options::leaves_out(option, value)
    }

    fn transport(&self) -> Transport {
        Transport::Http(&Gemini)
    }
}

impl Http for Gemini {
    /// The address of a model. An id with slashes is a path of its own (`tunedModels/mine`). Tuned models of Vertex AI
    /// (`endpoints/7`) belong to the project, not to the publisher.
    fn address(&self, _vendor: &Vendor, endpoint: &Url, model: &str) -> Url {
        let mut url = endpoint.clone();
        let path = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
        // an address that cannot have a path was refused before
        let is_of_publisher = url.path().trim_end_matches('/').ends_with("/publishers/google");
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty();
            if is_of_publisher && model.starts_with("endpoints/") {
                segments.pop().pop();
            }
            segments.extend(format!("{path}:streamGenerateContent").split('/'));
        }
        if !url.query_pairs().any(|(name, _)| name == "alt") {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn key_header(&self, _vendor: &Vendor) -> (&'static str, &'static str) {
        ("x-goog-api-key", "")
    }

    fn conversation(&self) -> &'static str {
        "contents"
    }

    fn head(
        &self,
        _vendor: &Vendor,
        request: &Request,
        _lacks_thinking: bool,
    ) -> Map<String, Value> {
        request::head(request)
    }

    fn history(&self, _vendor: &'static Vendor, request: &Request) -> Box<dyn History> {
        Box::new(content::Contents::new(&request.model.id))
    }

    fn decoder(&self, provider: &str, _vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider))
    }

    #[cfg(any(debug_assertions, test))]
    fn api(&self, _vendor: &Vendor, model: &str, _body: &Value) -> Api {
        Api::Gemini { signs_calls: is_from(model, content::SIGNS_CALLS) }
    }
}

/// Whether `model` is a Gemini of generation `first` (such as `2.5`) or later. False for a tuned
/// model or another family, whose generation is unknown.
pub(crate) fn is_from(model: &str, first: f32) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    let Some(rest) = name.strip_prefix("gemini-") else { return false };
    let version = rest.split('-').next().unwrap_or_default();
    version.parse::<f32>().is_ok_and(|version| version >= first)
}

#[cfg(test)]
mod tests;
