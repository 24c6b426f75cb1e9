//! The neutral request as a body of Responses.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value};

use super::{message, options};
use crate::openai_chat::function;
use crate::vendors::Vendor;

/// A pure function of the request: the same bytes each time.
pub(super) fn body(request: &Request, vendor: &Vendor) -> Value {
    let mut body = Map::new();
    body.insert("model".into(), request.model.id.clone().into());
    // nothing is known of models that nobody has listed, but the server knows their limit
    if request.max_output > 0 {
        body.insert("max_output_tokens".into(), request.max_output.into());
    }
    body.insert("stream".into(), true.into());
    // the log has the conversation; nobody else needs to keep it
    body.insert("store".into(), false.into());
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), tools.into());
    }
    if vendor.cache_key && !request.cache_key.is_empty() {
        body.insert("prompt_cache_key".into(), request.cache_key.clone().into());
    }
    options::apply(&mut body, &request.options.value(), &request.model.id);
    // last, so that a body begins with the body before as far as the conversation does
    body.insert("input".into(), message::input(request, vendor).into());
    Value::Object(body)
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("type".into(), "function".into());
    tool.extend(function(spec));
    // the strict form knows no optional arguments, and is what the API takes for granted
    tool.insert("strict".into(), false.into());
    Value::Object(tool)
}
