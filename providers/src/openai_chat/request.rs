//! Encodes a neutral request as a body of Chat Completions.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::message;
use super::options;
use crate::shape;
use crate::vendors::{Vendor, is_claude};

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
    tools(&mut body, request);
    options::apply(&mut body, &request.options.value(), vendor, model);
    body
}

/// The tools on offer. Anthropic's models need tool definitions if there are calls in the history,
/// even if no tool may be called: then the tools of the history are defined and forbidden.
fn tools(body: &mut Map<String, Value>, request: &Request) {
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), tools.into());
        return;
    }
    let names = shape::called(request, message::tool_name);
    if names.is_empty() || !is_claude(&request.model.id) {
        return;
    }
    let define = |name: String| {
        let parameters = json!({ "type": "object", "properties": {} });
        json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
    };
    let tools: Vec<Value> = names.into_iter().map(define).collect();
    body.insert("tools".into(), tools.into());
    body.insert("tool_choice".into(), "none".into());
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
