//! The vendors and models that are tested, and checks of request bodies.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a harness fails by panicking")]

use std::sync::Arc;

use leftfold_providers::{Config, Fault, Provider, Request, Wire, build};
use serde_json::{Value, json};

/// A model at a vendor, on one of the wires.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) config: Config,
    provider: Arc<dyn Provider>,
    pub(crate) model: &'static str,
    pub(crate) options: Value,
}

impl Site {
    pub(crate) fn new(wire: Wire, vendor: &str, model: &'static str, options: Value) -> Self {
        let mut config = Config::new("p", wire);
        config.vendor = (!vendor.is_empty()).then(|| vendor.to_owned());
        config.base_url = Some("http://127.0.0.1/v1".into());
        config.api_key = Some("key".into());
        let provider = build(config.clone()).unwrap();
        Self { config, provider, model, options }
    }

    /// The body of the request for this site, in this site's names.
    pub(crate) fn body(&self, request: &Request) -> Value {
        let mut request = request.clone();
        self.model.clone_into(&mut request.model.id);
        if request.options.value().as_object().is_none_or(serde_json::Map::is_empty) {
            request.options = leftfold_events::Json::from_value(&self.options);
        }
        self.exact(&request)
    }

    /// The body of the request without changes.
    pub(crate) fn exact(&self, request: &Request) -> Value {
        serde_json::from_slice(&self.provider.body(request)).unwrap()
    }

    pub(crate) fn faults(&self, body: &Value) -> Vec<Fault> {
        self.config.faults(self.model, body)
    }

    pub(crate) fn name(&self) -> String {
        let vendor = self.config.vendor.as_deref().unwrap_or_default();
        format!("{} {vendor} {}", self.config.wire, self.model)
    }
}

/// Every wire, and every vendor with quirks of its own.
pub(crate) fn sites() -> Vec<Site> {
    let (anthropic, chat) = (Wire::ANTHROPIC, Wire::OPENAI_CHAT);
    let (responses, gemini, bedrock) = (Wire::OPENAI_RESPONSES, Wire::GEMINI, Wire::BEDROCK);
    let thinks = json!({"thinking":{"type":"enabled","budget_tokens":2_048}});
    let sonnet = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
    let mut sites = vec![
        Site::new(bedrock, "", sonnet, thinks.clone()),
        Site::new(bedrock, "", "anthropic.claude-opus-5", json!({"effort":"low"})),
        Site::new(bedrock, "", "amazon.nova-pro-v1:0", json!({})),
        Site::new(bedrock, "", "mistral.mistral-large-2407-v1:0", json!({"temperature":0.2})),
        Site::new(bedrock, "", "openai.gpt-oss-120b-1:0", json!({"effort":"high"})),
        Site::new(anthropic, "", "claude-sonnet-4-5", thinks.clone()),
        Site::new(anthropic, "", "claude-opus-5", json!({"thinking":{"type":"adaptive"}})),
        Site::new(anthropic, "", "claude-3-5-haiku-latest", json!({"temperature":0.2})),
        Site::new(anthropic, "google-vertex-anthropic", "claude-opus-4-5@20251101", thinks.clone()),
        Site::new(gemini, "google-vertex", "gemini-3.8-flash", json!({"effort":"low"})),
        Site::new(chat, "openrouter", "anthropic/claude-sonnet-4.5", json!({"effort":"high"})),
        Site::new(responses, "openai", "gpt-5.1", json!({"reasoningEffort":"high"})),
        Site::new(responses, "azure", "gpt-4.1", json!({})),
        Site::new(responses, "lmstudio", "qwen3", json!({})),
        Site::new(gemini, "", "gemini-2.5-flash", json!({"effort":"low"})),
        Site::new(gemini, "", "gemini-3-pro-preview", json!({"effort":"high"})),
    ];
    let vendors = [
        "openai", "azure", "groq", "xai", "deepseek", "mistral", "moonshot", "alibaba",
        "perplexity", "ollama", "generic",
    ];
    sites.extend(vendors.map(|vendor| Site::new(chat, vendor, "m", json!({}))));
    sites
}

/// The messages of the body, without cache marks.
pub(crate) fn conversation(mut body: Value) -> Vec<Value> {
    let lists = ["messages", "input", "contents"];
    let name = lists.iter().find(|name| body.get(**name).is_some()).unwrap();
    let mut list = std::mem::take(body[*name].as_array_mut().unwrap());
    list.iter_mut().for_each(unmark);
    list
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("cache_control");
            members.remove("copilot_cache_control");
            members.values_mut().for_each(unmark);
        }
        Value::Array(items) => {
            items.retain(|item| item.get("cachePoint").is_none());
            items.iter_mut().for_each(unmark);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether `after` begins with all of `before`. The last message of `before` may be extended: a
/// following message of the same role can be merged into it.
pub(crate) fn begins(after: &[Value], before: &[Value]) -> bool {
    let Some((last, whole)) = before.split_last() else { return true };
    if after.len() < before.len() || !after.starts_with(whole) {
        return false;
    }
    let (last, same) = (last.to_string(), after[whole.len()].to_string());
    same.starts_with(last.trim_end_matches([']', '}', '"']))
}
