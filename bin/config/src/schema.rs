//! The JSON Schema of a settings file, for editors and for the valid keys at a path.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::settings::Settings;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<Settings>().to_value();
    simplify(&mut schema);
    schema
});

/// The schema of a settings file.
pub fn schema() -> &'static Value {
    &SCHEMA
}

/// Every top-level key, in the order of the documentation.
pub(crate) fn top() -> Vec<&'static str> {
    keys(&SCHEMA)
}

/// Whether a top-level key is accepted and has no effect.
pub(crate) fn is_idle(key: &str) -> bool {
    is_idle_at(&[key])
}

/// Whether the key at this path is accepted and has no effect.
pub(crate) fn is_idle_at(path: &[&str]) -> bool {
    let found = path.iter().try_fold(&*SCHEMA, |schema, step| schema["properties"].get(step));
    found.is_some_and(|schema| schema["deprecated"] == true)
}

/// The keys that settings define at a path.
pub(crate) fn at(path: &[String]) -> Vec<&'static str> {
    let found = path.iter().try_fold(&*SCHEMA, |schema, step| below(schema, step));
    found.map(keys).unwrap_or_default()
}

fn keys(schema: &'static Value) -> Vec<&'static str> {
    let own = schema["properties"].as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    own.chain(alternatives(schema).flat_map(keys)).collect()
}

fn below(schema: &'static Value, step: &str) -> Option<&'static Value> {
    let own = ["properties", "patternProperties"].iter().find_map(|of| schema[of].get(step));
    let any = || schema.get("additionalProperties").or_else(|| schema.get("items"));
    own.or_else(any).or_else(|| alternatives(schema).find_map(|schema| below(schema, step)))
}

fn alternatives(schema: &'static Value) -> impl Iterator<Item = &'static Value> {
    schema["anyOf"].as_array().into_iter().flatten()
}

/// Simplifies a schema: drops `null` beside the real type, because unset keys are left out; drops
/// formats and defaults that do not help people; and marks objects that accept no other keys.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.remove("format");
            if map.get("default").is_some_and(|default| default.is_null()) {
                map.remove("default");
            }
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    map.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(values)) = map.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(any)) = map.get_mut("anyOf") {
                any.retain(|schema| schema["type"] != "null");
            }
            if map.contains_key("properties") && map.get("type").is_some_and(|of| of == "object") {
                map.entry("additionalProperties").or_insert(Value::Bool(false));
            }
            map.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_type_and_open_places_take_any() {
        let schema = schema();
        let properties = schema["properties"].as_object().unwrap();
        assert!(properties.keys().take(4).eq([
            "model",
            "small_model",
            "default_agent",
            "provider"
        ]));
        assert!(properties.values().all(|key| key.as_object().is_some_and(|key| !key.is_empty())));
        let text = schema.to_string();
        assert!(!text.contains("@rest") && !text.contains("null"), "{text}");
        let names =
            |path: &[&str]| at(&path.iter().map(|&step| step.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["retry"]), ["attempts"]);
        assert_eq!(names(&["mcp", "any", "oauth"]).len(), 5);
        assert_eq!(
            names(&["provider", "any", "models", "any", "limit"]),
            ["context", "input", "output"]
        );
        assert_eq!(names(&["provider", "any", "options"]).len(), 6);
        assert_eq!(names(&["skills"]), ["paths", "urls"]);
        assert_eq!(schema["properties"]["retry"]["additionalProperties"], false);
        assert_eq!(
            schema["properties"]["agent"]["additionalProperties"]["additionalProperties"],
            true
        );
        assert!(is_idle("theme") && !is_idle("mcp") && !is_idle("$schema"));
        assert!(is_idle_at(&["experimental", "hook"]) && !is_idle("experimental"));
        assert!(!is_idle_at(&["experimental", "batch_tool"]));
    }
}
