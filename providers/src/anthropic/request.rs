//! Encodes a neutral request as a body of Anthropic Messages.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::message::{self, Turn};
use super::options;
use crate::shape;
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
    if options::thinks(&body) == Some("enabled") && lacks_thinking(&turns) {
        body.remove("thinking");
    }
    let messages: Vec<Value> = turns.into_iter().map(Turn::into_value).collect();
    body.insert("messages".into(), messages.into());
    Value::Object(body)
}

fn system(blocks: &[String]) -> Vec<Value> {
    let blocks = blocks.iter().filter(|text| !text.trim().is_empty());
    blocks.map(|text| json!({ "type": "text", "text": text })).collect()
}

/// Marks the parts of the prompt that the next request probably repeats: the system prompt, and the
/// last two messages (the last one for the next request, the one before it to read what the
/// previous request wrote to the cache).
fn mark(system: &mut [Value], turns: &mut [Turn]) {
    let mut left = MOST_MARKS;
    for block in system.iter_mut().take(MARKED_SYSTEM_BLOCKS) {
        block["cache_control"] = ephemeral();
        left -= 1;
    }
    for turn in turns.iter_mut().rev().take(MARKED_MESSAGES.min(left)) {
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
fn tools(body: &mut Map<String, Value>, offered: &[ToolSpec], turns: &[Turn]) {
    if !offered.is_empty() {
        let tools: Vec<Value> = offered.iter().map(tool).collect();
        body.insert("tools".into(), tools.into());
        return;
    }
    let mut names: Vec<&str> = turns.iter().flat_map(Turn::called).collect();
    names.sort_unstable();
    names.dedup();
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

/// Whether the model is in a tool loop that it entered without thinking, for example because its
/// reply was cut off or written by another model. The API then refuses to enable thinking.
fn lacks_thinking(turns: &[Turn]) -> bool {
    let [.., assistant, user] = turns else { return false };
    let in_loop = user.blocks.first().is_some_and(|block| block["type"] == "tool_result");
    in_loop && !assistant.blocks.first().is_some_and(message::is_thought)
}
