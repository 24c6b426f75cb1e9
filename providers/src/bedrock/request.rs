//! Encodes a neutral request as a body of Converse. The model is named in the address.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::family::{self, Family};
use super::message::{self, LONGEST_NAME};
use super::options;
use crate::shape;
use crate::turns::Turns;

const MARKED_SYSTEM_BLOCKS: usize = 2;
const MARKED_MESSAGES: usize = 2;

/// The body of a request. A pure function: equal requests give equal bytes.
pub(super) fn body(request: &Request) -> Value {
    let model = &request.model.id;
    let mut body = Map::new();
    let mut turns = message::turns(&request.messages, Family::of(model));
    let caches = family::caches(model);
    let system = system(&request.system, caches);
    if caches {
        mark(&mut turns);
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    // the limit of an unlisted model is unknown here, but the server knows it
    if request.max_output > 0 {
        body.insert("inferenceConfig".into(), json!({ "maxTokens": request.max_output }));
    }
    let tools = tools(&request.tools, &turns);
    if !tools.is_empty() {
        body.insert("toolConfig".into(), json!({ "tools": tools }));
    }
    options::apply(&mut body, request, turns.lacks_thinking());
    body.insert("messages".into(), turns.into_value());
    Value::Object(body)
}

/// The system prompt. A mark follows each block that the next request probably repeats.
fn system(blocks: &[String], caches: bool) -> Vec<Value> {
    let filled = blocks.iter().filter(|text| !text.trim().is_empty());
    let mut system = Vec::new();
    for (at, text) in filled.enumerate() {
        system.push(json!({ "text": text }));
        if caches && at < MARKED_SYSTEM_BLOCKS {
            system.push(cache_point());
        }
    }
    system
}

/// Marks the last two messages: the last one for the next request, the one before it to read what the
/// previous request wrote to the cache. With two blocks of the system prompt that makes four marks, and
/// the API accepts no more.
fn mark(turns: &mut Turns) {
    for turn in turns.list.iter_mut().rev().take(MARKED_MESSAGES) {
        turn.blocks.push(cache_point());
    }
}

fn cache_point() -> Value {
    json!({ "cachePoint": { "type": "default" } })
}

/// The tools on offer. The API refuses a history with calls if no tools are defined, even in a
/// request that offers none (such as a summary). In that case the tools of the history are defined;
/// calls of them are not carried out.
fn tools(offered: &[ToolSpec], turns: &Turns) -> Vec<Value> {
    if !offered.is_empty() {
        return offered.iter().map(tool).collect();
    }
    let schema = json!({ "json": { "type": "object" } });
    let define = |name| json!({ "toolSpec": { "name": name, "inputSchema": schema.clone() } });
    turns.called().into_iter().map(define).collect()
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), shape::tool_name(&spec.name, LONGEST_NAME).into());
    if !spec.description.trim().is_empty() {
        tool.insert("description".into(), spec.description.clone().into());
    }
    tool.insert("inputSchema".into(), json!({ "json": shape::schema(spec.schema.value()) }));
    json!({ "toolSpec": tool })
}
