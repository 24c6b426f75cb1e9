//! Encodes the members of a body of Gemini except `contents`, which `content` encodes. `crate::encoded` joins both.
//! The model is named in the address.

use leftfold_events::Request;
use leftfold_events::turn_config::ToolSpec;
use serde_json::{Map, Value, json};

use super::{content, options, schema};

/// The members of a body but for its contents.
pub(super) fn head(request: &Request) -> Map<String, Value> {
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
    // the limit of an unlisted model is unknown here, but the server knows it
    if request.max_output > 0 {
        body.insert("generationConfig".into(), json!({ "maxOutputTokens": request.max_output }));
    }
    options::apply(&mut body, &request.options.value(), &request.model.id);
    body
}

fn tool(spec: &ToolSpec) -> Value {
    let mut tool = Map::new();
    tool.insert("name".into(), content::tool_name(&spec.name).into());
    if !spec.description.trim().is_empty() {
        tool.insert("description".into(), spec.description.clone().into());
    }
    // a function without parameters has no schema: the API refuses an object without properties
    if let Some(parameters) = schema::parameters(&spec.schema.value()) {
        tool.insert("parameters".into(), parameters);
    }
    Value::Object(tool)
}
