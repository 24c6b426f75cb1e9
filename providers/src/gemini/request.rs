//! The neutral request as a body of Gemini. The model is named in the address.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::{content, options, schema};

/// A pure function of the request: the same bytes each time.
pub(super) fn body(request: &Request) -> Value {
    let mut body = Map::new();
    let system: Vec<Value> = request
        .system
        .iter()
        .filter(|text| !text.trim().is_empty())
        .map(|text| json!({ "text": text }))
        .collect();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({ "parts": system }));
    }
    if !request.tools.is_empty() {
        let tools: Vec<Value> = request.tools.iter().map(tool).collect();
        body.insert("tools".into(), json!([{ "functionDeclarations": tools }]));
    }
    // nothing is known of models that nobody has listed, but the server knows their limit
    if request.max_output > 0 {
        body.insert("generationConfig".into(), json!({ "maxOutputTokens": request.max_output }));
    }
    options::apply(&mut body, &request.options.value(), &request.model.id);
    // last, so that a body begins with the body before as far as the conversation does
    body.insert("contents".into(), content::contents(request).into());
    Value::Object(body)
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), content::tool_name(&spec.name).into());
    if !spec.description.trim().is_empty() {
        tool.insert("description".into(), spec.description.clone().into());
    }
    // a function without parameters has no schema: an object without properties is refused
    if let Some(parameters) = schema::parameters(&spec.schema.value()) {
        tool.insert("parameters".into(), parameters);
    }
    Value::Object(tool)
}
