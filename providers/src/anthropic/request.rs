//! Encodes the members of a body of Anthropic Messages except `messages`, which `message` encodes. `crate::encoded` joins both.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::message::{self, ephemeral};
use super::options;
use crate::shape;
use crate::vendors::Vendor;

/// The API accepts four marks in a request. The last messages of a conversation have the others.
const MARKED_SYSTEM_BLOCKS: usize = 2;

/// The members of a body but for its messages.
pub(super) fn head(vendor: &Vendor, request: &Request, lacks_thinking: bool) -> Map<String, Value> {
    let mut body = Map::new();
    match vendor.anthropic_version {
        Some(version) => body.insert("anthropic_version".into(), version.into()),
        None => body.insert("model".into(), request.model.id.clone().into()),
    };
    body.insert("max_tokens".into(), request.max_output.max(1).into());
    body.insert("stream".into(), true.into());
    let system = system(&request.system);
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    tools(&mut body, request);
    options::apply(&mut body, request);
    if options::thinks(&body) == Some("enabled") && lacks_thinking {
        body.remove("thinking");
    }
    body
}

/// The system prompt, with marks because the next request probably repeats it.
fn system(blocks: &[String]) -> Vec<Value> {
    let blocks = blocks.iter().filter(|text| !text.trim().is_empty());
    let mut system: Vec<Value> =
        blocks.map(|text| json!({ "type": "text", "text": text })).collect();
    for block in system.iter_mut().take(MARKED_SYSTEM_BLOCKS) {
        block["cache_control"] = ephemeral();
    }
    system
}

/// The tools on offer. The API refuses a history with calls if no tools are defined, even in a
/// request that offers none (such as a summary). In that case the tools of the history are defined
/// and forbidden.
fn tools(body: &mut Map<String, Value>, request: &Request) {
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), tools.into());
        return;
    }
    let names = shape::called(request, message::tool_name);
    if names.is_empty() {
        return;
    }
    let define = |name| json!({ "name": name, "input_schema": { "type": "object" } });
    let tools: Vec<Value> = names.into_iter().map(define).collect();
    body.insert("tools".into(), tools.into());
    body.insert("tool_choice".into(), json!({ "type": "none" }));
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), message::tool_name(&spec.name).into());
    if !spec.description.trim().is_empty() {
        tool.insert("description".into(), spec.description.clone().into());
    }
    tool.insert("input_schema".into(), shape::schema(spec.schema.value()));
    Value::Object(tool)
}
