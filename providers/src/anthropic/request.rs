//! Encodes a neutral request as a body of Anthropic Messages.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::message;
use super::options;
use crate::shape;
use crate::turns::Turns;
use crate::vendors::Vendor;

/// The most cache marks in one request.
const MOST_MARKS: usize = 4;
const MARKED_SYSTEM_BLOCKS: usize = 2;
const MARKED_MESSAGES: usize = 2;

/// The body of a request. A pure function: equal requests give equal bytes.
pub(super) fn body(vendor: &Vendor, request: &Request) -> Value {
    let mut body = Map::new();
    match vendor.anthropic_version {
        Some(version) => body.insert("anthropic_version".into(), version.into()),
        None => body.insert("model".into(), request.model.id.clone().into()),
    };
    body.insert("max_tokens".into(), request.max_output.max(1).into());
    body.insert("stream".into(), true.into());
    let mut system = system(&request.system);
    let mut turns = message::turns(&request.messages);
    mark(&mut system, &mut turns);
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    tools(&mut body, &request.tools, &turns);
    options::apply(&mut body, request);
    if options::thinks(&body) == Some("enabled") && turns.lacks_thinking() {
        body.remove("thinking");
    }
    body.insert("messages".into(), turns.into_value());
    Value::Object(body)
}

fn system(blocks: &[String]) -> Vec<Value> {
    let blocks = blocks.iter().filter(|text| !text.trim().is_empty());
    blocks.map(|text| json!({ "type": "text", "text": text })).collect()
}

/// Marks the parts of the prompt that the next request probably repeats: the system prompt, and the
/// last two messages (the last one for the next request, the one before it to read what the
/// previous request wrote to the cache).
fn mark(system: &mut [Value], turns: &mut Turns) {
    let mut left = MOST_MARKS;
    for block in system.iter_mut().take(MARKED_SYSTEM_BLOCKS) {
        block["cache_control"] = ephemeral();
        left -= 1;
    }
    for turn in turns.list.iter_mut().rev().take(MARKED_MESSAGES.min(left)) {
        if let Some(block) = turn.blocks.iter_mut().rev().find(|block| !message::is_thought(block))
        {
            block["cache_control"] = ephemeral();
        }
    }
}

fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

/// The tools on offer. The API refuses a history with calls if no tools are defined, even in a
/// request that offers none (such as a summary). In that case the tools of the history are defined
/// and forbidden.
fn tools(body: &mut Map<String, Value>, offered: &[ToolSpec], turns: &Turns) {
    if !offered.is_empty() {
        let tools: Vec<Value> = offered.iter().map(tool).collect();
        body.insert("tools".into(), tools.into());
        return;
    }
    let names = turns.called();
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
