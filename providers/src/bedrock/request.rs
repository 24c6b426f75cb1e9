//! Encodes the members of a body of Converse except `messages`, which `message` encodes. `crate::encoded` joins both.
//! The model is named in the address.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::family;
use super::message::{LONGEST_NAME, cache_point};
use super::options;
use crate::shape;

/// The API accepts four marks in a request. The last messages of a conversation have the others.
const MARKED_SYSTEM_BLOCKS: usize = 2;

/// The members of a body but for its messages.
pub(super) fn head(request: &Request, lacks_thinking: bool) -> Map<String, Value> {
    let mut body = Map::new();
    let system = system(&request.system, family::caches(&request.model.id));
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    // the limit of an unlisted model is unknown here, but the server knows it
    if request.max_output > 0 {
        body.insert("inferenceConfig".into(), json!({ "maxTokens": request.max_output }));
    }
    let tools = tools(request);
    if !tools.is_empty() {
        body.insert("toolConfig".into(), json!({ "tools": tools }));
    }
    options::apply(&mut body, request, lacks_thinking);
    body
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

/// The tools on offer. The API refuses a history with calls if no tools are defined, even in a
/// request that offers none (such as a summary). In that case the tools of the history are defined;
/// calls of them are not carried out.
fn tools(request: &Request) -> Vec<Value> {
    if !request.tools.is_empty() {
        return request.tools.iter().map(tool).collect();
    }
    let schema = json!({ "json": { "type": "object" } });
    let define =
        |name: String| json!({ "toolSpec": { "name": name, "inputSchema": schema.clone() } });
    let names = shape::called(request, |name| shape::tool_name(name, LONGEST_NAME));
    names.into_iter().map(define).collect()
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
