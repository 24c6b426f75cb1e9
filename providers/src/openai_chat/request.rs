//! Encodes the members of a body of Chat Completions except `messages`, which `message` encodes. `crate::encoded` joins both.

use std::borrow::Cow;

use leftfold_events::turn_config::ToolSpec;
use leftfold_events::{Json, Request};
use serde_json::{Map, Value, json};

use super::message;
use super::options;
use crate::shape;
use crate::vendors::{GENERIC, Vendor};

/// The description of a tool that is defined only because the history has calls of it.
const NOT_NOW: &str = "Not available now. Answer with text.";

/// The members of a body but for its messages.
pub(super) fn head(request: &Request, vendor: &Vendor) -> Map<String, Value> {
    let model = &request.model.id;
    let mut body = Map::new();
    body.insert("model".into(), model.clone().into());
    body.insert(vendor.limit_name(model).into(), request.max_output.max(1).into());
    body.insert("stream".into(), true.into());
    if vendor.stream_options {
        body.insert("stream_options".into(), json!({ "include_usage": true }));
    }
    if vendor.cache_key && !request.cache_key.is_empty() {
        body.insert("prompt_cache_key".into(), request.cache_key.clone().into());
    }
    let tools: Vec<Value> = tools(request).iter().map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    options::apply(&mut body, &request.options.value(), vendor, model);
    forbid_calls(&mut body, request, vendor);
    body
}

/// The tools on offer. If there are none, those that the history has calls of: Anthropic, Bedrock and the gateways to
/// them refuse a history of tools that are not defined, and only a gateway's owner knows what is behind a model's name.
pub(crate) fn tools(request: &Request) -> Cow<'_, [ToolSpec]> {
    if !request.tools.is_empty() {
        return Cow::Borrowed(&request.tools);
    }
    let define = |name: String| ToolSpec {
        name,
        description: NOT_NOW.to_owned(),
        schema: Json::from_value(&json!({ "type": "object", "properties": {} })),
    };
    shape::called(request, message::tool_name).into_iter().map(define).collect()
}

/// Forbids calls of tools that are defined but not on offer.
pub(crate) fn forbid_calls(body: &mut Map<String, Value>, request: &Request, vendor: &Vendor) {
    if !request.tools.is_empty() || !body.contains_key("tools") {
        return;
    }
    body.remove("parallel_tool_calls");
    if *vendor == GENERIC {
        // Bedrock has no such choice, and LiteLLM refuses it for models there
        body.remove("tool_choice");
    } else {
        body.insert("tool_choice".into(), "none".into());
    }
}

fn tool(spec: &ToolSpec) -> Value {
    json!({ "type": "function", "function": function(spec) })
}

/// A tool's name, description and parameters.
pub(crate) fn function(spec: &ToolSpec) -> Map<String, Value> {
    let mut function = Map::new();
    function.insert("name".into(), message::tool_name(&spec.name).into());
    if !spec.description.trim().is_empty() {
        function.insert("description".into(), spec.description.clone().into());
    }
    let mut parameters = shape::schema(spec.schema.value());
    if let Value::Object(parameters) = &mut parameters {
        // servers refuse an object schema without `properties`, but accept an empty one
        parameters.entry("properties").or_insert_with(|| json!({}));
    }
    function.insert("parameters".into(), parameters);
    function
}
