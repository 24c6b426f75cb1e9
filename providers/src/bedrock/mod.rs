//! Amazon Bedrock's Converse API: `POST {baseURL}/model/{ID}/converse-stream`.
//!
//! It is one form for the models of all vendors that Bedrock has. Written after the public
//! documentation of the API. Answers come as Amazon's event stream instead of server-sent events.

mod decode;
mod family;
mod message;
mod options;
mod request;

use leftfold_events::Request;
#[cfg(any(debug_assertions, test))]
use leftfold_request_checks::Api;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

use crate::aws;
use crate::config::{Config, Framing, Http, Protocol, Transport, Wire};
use crate::history::History;
use crate::regions;
use crate::stream::Decoder;
use crate::vendors::{self, Model, Vendor};

/// The characters of a model's id that are percent-encoded in a URL.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug)]
struct Bedrock;

impl Wire {
    /// Amazon Bedrock's Converse.
    pub const BEDROCK: Self = Self::new(&Bedrock);
}

impl Protocol for Bedrock {
    fn name(&self) -> &'static str {
        "bedrock"
    }

    fn npm(&self) -> Option<&'static str> {
        Some("@ai-sdk/amazon-bedrock")
    }

    fn vendor(&self, _config: &Config) -> &'static Vendor {
        &vendors::BEDROCK
    }

    fn models(&self, _vendor: &Vendor) -> &'static [Model] {
        vendors::bedrock_models()
    }

    fn model(&self, _vendor: &Vendor, id: &str) -> Option<&'static Model> {
        vendors::bedrock_model(id)
    }

    fn effort(&self, effort: &str) -> Value {
        json!({ "reasoningConfig": { "type": "adaptive", "maxReasoningEffort": effort } })
    }

    /// A model that several regions share has a prefix, which depends on the region.
    fn model_id<'a>(
        &self,
        parameters: &[(String, String)],
        base_url: Option<&str>,
        id: &'a str,
    ) -> Cow<'a, str> {
        let in_address = base_url.and_then(regions::of_address).map(str::to_owned);
        match in_address.or_else(|| aws::region(parameters)) {
            Some(region) => regions::shared_id(&region, id),
            None => Cow::Borrowed(id),
        }
    }

    fn leaves_out(&self, _model: &str, option: &str, _value: &Value) -> bool {
        options::leaves_out(option)
    }

    fn transport(&self) -> Transport {
        Transport::Http(&Bedrock)
    }
}

impl Http for Bedrock {
    /// The address of a model. Colons and slashes of its id are encoded, as Amazon's own clients do.
    fn address(&self, _vendor: &Vendor, endpoint: &Url, model: &str) -> Url {
        let mut url = endpoint.clone();
        let base = endpoint.path().trim_end_matches('/');
        let model = utf8_percent_encode(model, RESERVED);
        url.set_path(&format!("{base}/model/{model}/converse-stream"));
        url
    }

    fn key_header(&self, _vendor: &Vendor) -> (&'static str, &'static str) {
        ("authorization", "Bearer ")
    }

    fn headers(&self, _vendor: &Vendor) -> &'static [(&'static str, &'static str)] {
        &[("accept", "application/vnd.amazon.eventstream")]
    }

    fn framing(&self) -> Framing {
        Framing::EventStream
    }

    fn head(
        &self,
        _vendor: &Vendor,
        request: &Request,
        lacks_thinking: bool,
    ) -> Map<String, Value> {
        request::head(request, lacks_thinking)
    }

    fn history(&self, _vendor: &'static Vendor, request: &Request) -> Box<dyn History> {
        Box::new(message::Conversation::new(&request.model.id))
    }

    fn decoder(&self, provider: &str, _vendor: &'static Vendor) -> Box<dyn Decoder> {
        Box::new(decode::Decoder::new(provider))
    }

    #[cfg(any(debug_assertions, test))]
    fn api(&self, _vendor: &Vendor, model: &str, _body: &Value) -> Api {
        Api::Bedrock(family::rules(model))
    }
}

#[cfg(test)]
mod tests;
