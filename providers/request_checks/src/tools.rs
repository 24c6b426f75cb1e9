//! Rules for the offered tools that all wire formats share.

use std::collections::HashSet;

use serde_json::Value;

use super::body_value::{BodyValue, Faults, is_plain};

/// Each name has the form that the API accepts and is used once.
pub(crate) fn names<'a>(
    faults: &mut Faults,
    tools: &[BodyValue<'a>],
    fits: impl Fn(&str) -> bool,
) -> HashSet<&'a str> {
    let mut seen = HashSet::new();
    for tool in tools {
        let Some(name) = tool.text("name") else {
            faults.add("tool-name", &tool.member("name"), "a tool has no name");
            continue;
        };
        if !fits(name) {
            faults.add(
                "tool-name",
                &tool.member("name"),
                format!("`{name}` is not a valid tool name"),
            );
        }
        if !seen.insert(name) {
            let problem = format!("two tools are called `{name}`");
            faults.add("tool-name-twice", &tool.member("name"), problem);
        }
    }
    seen
}

/// Parameters are a schema of type `object`.
pub(crate) fn parameters(faults: &mut Faults, schema: &BodyValue<'_>) {
    if schema.value.is_null() {
        return;
    }
    if schema.text("type") != Some("object") {
        faults.add("tool-schema", schema, "parameters must have the type `object`");
    }
    for key in ["properties", "$defs"] {
        if schema.has(key) && !schema.member(key).value.is_object() {
            faults.add("tool-schema", &schema.member(key), "expected an object");
        }
    }
}

/// The API refuses alternatives at the top of a schema.
pub(crate) fn no_alternatives(faults: &mut Faults, schema: &BodyValue<'_>) {
    for key in ["oneOf", "anyOf", "allOf"] {
        if schema.has(key) {
            faults.add("tool-schema", &schema.member(key), "not allowed at the top of parameters");
        }
    }
}

/// Checks the tools of OpenAI's wire formats. `within` is the member of a tool that describes the
/// function, if any.
pub(crate) fn functions<'a>(faults: &mut Faults, body: &BodyValue<'a>, within: Option<&str>) {
    let list = body.member("tools");
    if list.value.as_array().is_some_and(Vec::is_empty) {
        faults.add("no-tools", &list, "a list of tools must not be empty");
    }
    let tools = list.items();
    for tool in tools.iter().filter(|tool| tool.kind() != "function") {
        faults.add("shape", &tool.member("type"), "expected the type `function`");
    }
    let tools: Vec<BodyValue<'a>> = tools
        .iter()
        .map(|tool| within.map_or_else(|| tool.clone(), |name| tool.member(name)))
        .collect();
    let names = names(faults, &tools, |name| is_plain(name, 64));
    for tool in &tools {
        let schema = tool.member("parameters");
        parameters(faults, &schema);
        if tool.value.get("strict") == Some(&Value::Bool(true)) {
            strict(faults, &schema);
        }
    }
    for key in ["tool_choice", "parallel_tool_calls"] {
        let choice = body.member(key);
        if !body.has("tools") && !choice.value.is_null() && choice.value != "none" {
            faults.add("choice-without-tools", &choice, "there are no tools");
        }
    }
    let choice = body.member("tool_choice");
    let named = within.map_or_else(|| choice.clone(), |name| choice.member(name)).text("name");
    if named.is_some_and(|name| !names.contains(name)) {
        faults.add("choice-unknown", &choice, "no tool has this name");
    }
}

/// A strict schema has no optional properties and allows no others.
fn strict(faults: &mut Faults, schema: &BodyValue<'_>) {
    let properties = schema.member("properties");
    if schema.text("type") == Some("object") || properties.value.is_object() {
        if schema.value.get("additionalProperties") != Some(&Value::Bool(false)) {
            faults.add("strict-schema", schema, "`additionalProperties` must be false");
        }
        let required = schema.value.get("required").and_then(Value::as_array);
        for name in properties.value.as_object().into_iter().flat_map(|all| all.keys()) {
            if !required.is_some_and(|all| all.iter().any(|known| known == name.as_str())) {
                faults.add("strict-schema", &properties.member(name), "it must be required");
            }
            strict(faults, &properties.member(name));
        }
    }
    if schema.has("items") {
        strict(faults, &schema.member("items"));
    }
    schema.member("anyOf").items().iter().for_each(|choice| strict(faults, choice));
}
