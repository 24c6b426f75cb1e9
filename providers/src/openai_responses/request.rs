//! Encodes the members of a body of Responses except `input`, which `message` encodes. `crate::encoded` joins both.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value};

use super::{message, options};
use crate::openai_chat::{forbid_calls, function, tools};
use crate::vendors::Vendor;

/// The members of a body but for its input.
pub(super) fn head(request: &Request, vendor: &Vendor) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), request.model.id.clone().into());
    // the limit of an unlisted model is unknown here, but the server knows it
    if request.max_output > 0 && vendor.limits_output {
        body.insert("max_output_tokens".into(), request.max_output.into());
    }
    body.insert("stream".into(), true.into());
    // the log has the conversation, so the server need not keep it
    body.insert("store".into(), false.into());
    let tools: Vec<Value> = tools(request).iter().map(tool).collect();
    if !tools.is_empty() {
        body.insert("tools".into(), tools.into());
    }
    if vendor.cache_key && !request.cache_key.is_empty() {
        body.insert("prompt_cache_key".into(), request.cache_key.clone().into());
    }
    if vendor.instructions {
        body.insert("instructions".into(), message::instructions(request).into());
    }
    options::apply(&mut body, &request.options.value(), &request.model.id);
    forbid_calls(&mut body, request, vendor);
    if !vendor.limits_output {
        body.remove("max_output_tokens");
    }
    body
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("type".into(), "function".into());
    tool.extend(function(spec));
    // strict is the API's default and does not allow optional arguments
    tool.insert("strict".into(), false.into());
    Value::Object(tool)
}
