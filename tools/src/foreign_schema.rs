//! Schemas that other programs wrote for their tools. This module makes them what every model API accepts, and fits the
//! arguments of a call to them. It never refuses a schema or a call: the program itself checks its arguments.
//!
//! One tool with a schema that an API refuses would make every request of the session fail. The APIs want JSON Schema
//! 2020-12, a schema for the items of each list, and plain names of properties.

use std::collections::HashSet;

use leftfold_events::Sha256;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Number, Value, json};

/// Longest name of a property in bytes; Anthropic accepts no longer ones.
const LONGEST: usize = 64;

/// Digits of the hash that makes a name unique.
const DIGITS: usize = 8;

/// How many references and alternatives are followed within each other. Deeper ones usually contain themselves.
const DEEPEST: usize = 8;

const KINDS: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// Names that programs use for types of JSON Schema.
const SYNONYMS: [(&str, &str); 11] = [
    ("str", "string"),
    ("text", "string"),
    ("int", "integer"),
    ("long", "integer"),
    ("float", "number"),
    ("double", "number"),
    ("bool", "boolean"),
    ("dict", "object"),
    ("map", "object"),
    ("list", "array"),
    ("tuple", "array"),
];

/// The schema in the form that every API accepts. A valid schema of 2020-12 with plain names stays as it is.
pub(crate) fn mended(told: &Map<String, Value>) -> Map<String, Value> {
    node(&Value::Object(told.clone()), told)
}

/// The input of a call in the form that the schema `told` describes: properties have their own names again, and a value
/// that has only a wrong type gets the right one, such as `"10"` for an integer.
pub(crate) fn fitted(told: &Map<String, Value>, input: Value) -> Value {
    let root = Value::Object(told.clone());
    fit(&root, &root, input)
}

fn schema(root: &Value, told: &Value) -> Value {
    match told {
        Value::Object(members) => node(root, members).into(),
        Value::Bool(_) => told.clone(),
        // `"b": "string"` in the place of `"b": { "type": "string" }`
        Value::String(name) => kind(name).map_or_else(|| json!({}), |kind| json!({ "type": kind })),
        Value::Null | Value::Number(_) | Value::Array(_) => json!({}),
    }
}

fn node(root: &Value, told: &Map<String, Value>) -> Map<String, Value> {
    let mut made = Map::new();
    for (key, value) in told {
        if let Some(value) = member(root, told, key, value) {
            made.insert(key.clone(), value);
        }
    }
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        // in draft 4, the limit is a member of its own
        if told.get(flag) == Some(&Value::Bool(true))
            && let Some(limit) = made.shift_remove(limit)
        {
            made.insert(flag.to_owned(), limit);
        }
    }
    let is_list = made.get("type").is_some_and(|kind| {
        kind == "array" || kind.as_array().is_some_and(|all| all.iter().any(|kind| kind == "array"))
    });
    if is_list && !made.contains_key("items") {
        made.insert("items".to_owned(), json!({}));
    }
    made
}

/// The value of a schema's member; `None` if no API should see the member.
fn member(root: &Value, told: &Map<String, Value>, key: &str, value: &Value) -> Option<Value> {
    let keep = |is_good: bool| is_good.then(|| value.clone());
    let schemas = |all: &[Value]| -> Option<Value> {
        (!all.is_empty()).then(|| all.iter().map(|told| schema(root, told)).collect())
    };
    match key {
        "$schema" | "$id" | "dependencies" | "additionalItems" => None,
        "type" => types(value),
        "properties" => Some(properties(root, value.as_object()?)),
        "$defs" | "definitions" | "patternProperties" | "dependentSchemas" => {
            let all = value.as_object()?.iter();
            Some(all.map(|(name, told)| (name.clone(), schema(root, told))).collect())
        }
        "required" => Some(required(told, value.as_array()?)),
        // the places of a tuple, before 2020-12
        "items" if value.is_array() => match value.as_array()?.as_slice() {
            [] => None,
            [one] => Some(schema(root, one)),
            all => Some(json!({ "anyOf": schemas(all) })),
        },
        "items"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames" => (value.is_object() || value.is_boolean()).then(|| schema(root, value)),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => schemas(value.as_array()?),
        "$ref" => reference(root, value.as_str()?).map(Value::from),
        "enum" => keep(value.as_array().is_some_and(|all| !all.is_empty())),
        "description" | "title" | "format" | "pattern" | "$comment" => keep(value.is_string()),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => keep(value.is_number()),
        "multipleOf" => keep(value.as_f64().is_some_and(|step| step > 0.0)),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => keep(value.is_u64()),
        "uniqueItems" | "deprecated" | "readOnly" | "writeOnly" => keep(value.is_boolean()),
        "examples" => keep(value.is_array()),
        "dependentRequired" => keep(value.is_object()),
        _ => Some(value.clone()),
    }
}

fn kind(name: &str) -> Option<&'static str> {
    let name = name.trim().to_lowercase();
    let other = || SYNONYMS.iter().find(|(from, _)| *from == name).map(|(_, kind)| *kind);
    KINDS.into_iter().find(|kind| *kind == name).or_else(other)
}

fn types(value: &Value) -> Option<Value> {
    match value {
        Value::String(name) => kind(name).map(Value::from),
        Value::Array(names) => {
            let mut kinds: Vec<&str> = Vec::new();
            for name in names.iter().filter_map(Value::as_str) {
                // a type that is unknown may be any
                let kind = kind(name)?;
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            (!kinds.is_empty()).then(|| json!(kinds))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn properties(root: &Value, told: &Map<String, Value>) -> Value {
    let names = sent_names(told);
    names.into_iter().zip(told.values()).map(|(name, told)| (name, schema(root, told))).collect()
}

fn required(told: &Map<String, Value>, names: &[Value]) -> Value {
    let known = told.get("properties").and_then(Value::as_object);
    let sent = known.map(sent_names).unwrap_or_default();
    let mut required: Vec<&str> = Vec::new();
    for name in names.iter().filter_map(Value::as_str) {
        let at = known.and_then(|known| known.keys().position(|key| key == name));
        let name = at.and_then(|at| sent.get(at)).map_or(name, String::as_str);
        if !required.contains(&name) {
            required.push(name);
        }
    }
    json!(required)
}

/// The names of properties as they are sent, in their order. Names that are plain already stay.
fn sent_names(properties: &Map<String, Value>) -> Vec<String> {
    let mut used: HashSet<String> =
        properties.keys().filter(|name| is_plain(name)).cloned().collect();
    let mut sent_name = |name: &String| {
        if is_plain(name) {
            return name.clone();
        }
        let mut sent: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        if sent.is_empty() || sent.len() > LONGEST || used.contains(&sent) {
            let hash = Sha256::digest(name.as_bytes()).to_string();
            sent.truncate(LONGEST - DIGITS - 1);
            sent.push('_');
            sent.extend(hash.chars().take(DIGITS));
        }
        used.insert(sent.clone());
        sent
    };
    properties.keys().map(&mut sent_name).collect()
}

fn is_plain(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.chars().all(fits)
}

fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A reference as it is sent; `None` if it leads nowhere or out of the schema.
fn reference(root: &Value, text: &str) -> Option<String> {
    let path = text.strip_prefix('#')?;
    if !path.is_empty() && !path.starts_with('/') {
        return None;
    }
    let mut at = root;
    let mut sent = "#".to_owned();
    let mut is_of_properties = false;
    let mut is_renamed = false;
    for step in path.split('/').skip(1) {
        let plain =
            percent_decode_str(step).decode_utf8_lossy().replace("~1", "/").replace("~0", "~");
        let mut name = step.to_owned();
        at = match at {
            Value::Object(members) => {
                let place = members.keys().position(|key| *key == plain)?;
                if is_of_properties && !is_plain(&plain) {
                    name = sent_names(members).swap_remove(place);
                    is_renamed = true;
                }
                members.get(&plain)?
            }
            Value::Array(items) => items.get(plain.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        is_of_properties = !is_of_properties && plain == "properties";
        sent.push('/');
        sent.push_str(&name);
    }
    let is_schema = at.is_object() || at.is_boolean();
    is_schema.then(|| if is_renamed { sent } else { text.to_owned() })
}

/// The schemas that describe one value: this one, what it refers to, and its alternatives.
fn alternatives<'a>(
    root: &'a Value,
    schema: &'a Value,
    depth: usize,
    all: &mut Vec<&'a Map<String, Value>>,
) {
    let Some(members) = schema.as_object().filter(|_| depth < DEEPEST) else { return };
    all.push(members);
    let target = members.get("$ref").and_then(Value::as_str).and_then(|text| {
        let path = percent_decode_str(text.strip_prefix('#')?).decode_utf8_lossy();
        root.pointer(&path)
    });
    if let Some(target) = target {
        alternatives(root, target, depth + 1, all);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for schema in members.get(key).and_then(Value::as_array).into_iter().flatten() {
            alternatives(root, schema, depth + 1, all);
        }
    }
}

fn fit(root: &Value, schema: &Value, value: Value) -> Value {
    let mut all = Vec::new();
    alternatives(root, schema, 0, &mut all);
    match converted(&all, value) {
        Value::Object(members) => {
            let fitted = members.into_iter().map(|(name, value)| match property(&all, &name) {
                Some((name, schema)) => (name.to_owned(), fit(root, schema, value)),
                None => (name, value),
            });
            fitted.collect()
        }
        Value::Array(items) => {
            let of_items = |at: usize| {
                all.iter().find_map(|schema| match schema.get("items") {
                    Some(Value::Array(places)) => places.get(at),
                    items => schema.get("prefixItems").and_then(|all| all.get(at)).or(items),
                })
            };
            let fitted = items.into_iter().enumerate().map(|(at, value)| match of_items(at) {
                Some(schema) => fit(root, schema, value),
                None => value,
            });
            fitted.collect()
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => value,
    }
}

/// The property that a call names, under its own name.
fn property<'a>(all: &[&'a Map<String, Value>], sent: &str) -> Option<(&'a str, &'a Value)> {
    let mut known = all.iter().filter_map(|schema| schema.get("properties")?.as_object());
    let named = |properties: &'a Map<String, Value>| {
        let found = properties.get_key_value(sent).or_else(|| {
            let at = sent_names(properties).iter().position(|name| name == sent)?;
            properties.iter().nth(at)
        })?;
        Some((found.0.as_str(), found.1))
    };
    known.find_map(named)
}

/// The value with the only type that the schemas allow, if it has another one.
fn converted(all: &[&Map<String, Value>], value: Value) -> Value {
    let Some(kinds) = allowed(all) else { return value };
    let is_text_only =
        kinds.contains(&"string") && kinds.iter().all(|kind| matches!(*kind, "string" | "null"));
    match &value {
        Value::String(text) if !kinds.contains(&"string") => {
            let parsed = serde_json::from_str(text.trim()).ok().map(whole_number);
            parsed.filter(|parsed| is_of(parsed, &kinds)).unwrap_or(value)
        }
        Value::Number(_) if !is_of(&value, &kinds) && kinds.contains(&"integer") => {
            whole_number(value)
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) if is_text_only => {
            value.to_string().into()
        }
        _ => value,
    }
}

/// The types that the schemas allow together; `None`: any, or it is not clear.
fn allowed<'a>(all: &[&'a Map<String, Value>]) -> Option<Vec<&'static str>> {
    let own = |schema: &'a Map<String, Value>| -> Option<Vec<&'static str>> {
        match (schema.get("type"), schema.get("enum")) {
            (Some(Value::String(name)), _) => Some(vec![kind(name)?]),
            (Some(Value::Array(names)), _) => {
                names.iter().map(|name| kind(name.as_str()?)).collect()
            }
            (_, Some(Value::Array(values))) => Some(values.iter().map(kind_of).collect()),
            _ => None,
        }
    };
    let first = *all.first()?;
    if first.contains_key("type") || first.contains_key("enum") {
        return own(first);
    }
    let is_group = |schema: &Map<String, Value>| {
        ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|key| schema.contains_key(*key))
    };
    let mut kinds = Vec::new();
    for schema in all.iter().copied() {
        match own(schema) {
            Some(more) => kinds.extend(more),
            None if is_group(schema) => {}
            // this alternative takes anything
            None => return None,
        }
    }
    (!kinds.is_empty()).then_some(kinds)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of(value: &Value, kinds: &[&str]) -> bool {
    kinds.contains(&kind_of(value))
        || kinds.contains(&"integer") && (value.is_i64() || value.is_u64())
}

/// `10` for `10.0`.
#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
fn whole_number(value: Value) -> Value {
    match value.as_f64() {
        Some(number) if value.is_f64() && number.fract() == 0.0 && number.abs() < 9e15 => {
            Value::Number(Number::from(number as i64))
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use boon::{Compiler, Draft, Schemas};

    use super::*;

    fn object(value: &Value) -> &Map<String, Value> {
        value.as_object().unwrap()
    }

    fn property_of(told: &Value) -> Value {
        mended(object(&json!({ "properties": { "p": told } })))["properties"]["p"].take()
    }

    #[test]
    fn what_an_api_refuses_is_mended() {
        for (told, expected) in [
            (json!({ "type": "array" }), json!({ "type": "array", "items": {} })),
            (
                json!({ "type": ["array", "null"], "items": null }),
                json!({ "type": ["array", "null"], "items": {} }),
            ),
            (
                json!({ "type": "array", "items": [{ "type": "string" }] }),
                json!({ "type": "array", "items": { "type": "string" } }),
            ),
            (
                json!({ "items": [{ "type": "string" }, { "type": "int" }], "additionalItems": false }),
                json!({ "items": { "anyOf": [{ "type": "string" }, { "type": "integer" }] } }),
            ),
            (
                json!({ "type": "integer", "minimum": 0, "exclusiveMinimum": true }),
                json!({ "type": "integer", "exclusiveMinimum": 0 }),
            ),
            (json!({ "maximum": 9, "exclusiveMaximum": false }), json!({ "maximum": 9 })),
            (json!({ "type": "any", "description": ["a"] }), json!({})),
            (json!({ "type": "String" }), json!({ "type": "string" })),
            (json!("string"), json!({ "type": "string" })),
            (json!(null), json!({})),
            (json!({ "type": "string", "enum": [] }), json!({ "type": "string" })),
            (json!({ "enum": null, "anyOf": [], "allOf": "x" }), json!({})),
            (json!({ "required": null, "properties": 7 }), json!({})),
            (json!({ "required": true }), json!({})),
            (json!({ "required": ["a", 1, "a"] }), json!({ "required": ["a"] })),
            (json!({ "additionalProperties": "no" }), json!({})),
            (json!({ "minLength": "3", "uniqueItems": "yes", "multipleOf": 0 }), json!({})),
            (json!({ "$ref": "#/$defs/Nope", "title": "t" }), json!({ "title": "t" })),
            (json!({ "$ref": "https://example.com/s.json" }), json!({})),
            (json!({ "$ref": "#/properties/p" }), json!({ "$ref": "#/properties/p" })),
        ] {
            assert_eq!(property_of(&told), expected, "{told}");
            // at every depth
            let deep = property_of(&json!({ "items": { "properties": { "x": told.clone() } } }));
            let within = &deep["items"]["properties"]["x"];
            assert_eq!(*within, expected, "{told}");
        }
    }

    #[test]
    fn a_good_schema_stays_as_it_is() {
        let good = json!({
            "type": "object",
            "properties": {
                "a": { "type": ["string", "null"], "enum": ["x", null], "default": null },
                "b": { "type": "array", "prefixItems": [true], "items": false },
            },
            "required": ["a"], "additionalProperties": { "type": "number", "exclusiveMinimum": 0 },
            "$defs": { "any[thing]": {} }, "x-own": { "type": "any" },
        });
        let made = Value::Object(mended(object(&good)));
        assert_eq!(made.to_string(), good.to_string());
    }

    /// Names that no API accepts get others, and a call with those has the right ones again.
    #[test]
    fn names_of_properties_come_back() {
        let long = "x".repeat(65);
        let told = json!({
            "properties": {
                "$top": { "type": "integer" }, "_top": {}, "filter[id]": {}, "": {}, &long: {},
                "in": { "items": { "properties": { "a b": { "$ref": "#/properties/$top" } }, "required": ["a b"] } },
            },
            "required": ["$top", "in"],
        });
        let made = Value::Object(mended(object(&told)));
        let names: Vec<&String> = made["properties"].as_object().unwrap().keys().collect();
        assert!(names.iter().all(|name| is_plain(name)), "{names:?}");
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 6, "{names:?}");
        let top = names[0];
        assert_eq!(made["required"], json!([top, "in"]));
        let within = &made["properties"]["in"]["items"];
        let a = json!({ "a_b": { "$ref": format!("#/properties/{top}") } });
        assert_eq!((&within["properties"], &within["required"]), (&a, &json!(["a_b"])));
        let call = json!({
            top: 1, names[1]: 2, names[2]: 3, names[3]: 4, names[4]: 5, "in": [{ "a_b": "6" }], "more": 7,
        });
        let expected = json!({
            "$top": 1, "_top": 2, "filter[id]": 3, "": 4, long: 5, "in": [{ "a b": 6 }], "more": 7,
        });
        assert_eq!(fitted(object(&told), call), expected);
    }

    #[test]
    fn a_wrong_type_is_converted_where_only_another_one_is_allowed() {
        let text = json!({ "type": "string" });
        let either = json!({ "type": ["string", "integer"] });
        let list = json!({ "type": "array", "items": { "type": "integer" } });
        for (told, given, expected) in [
            (json!({ "type": "integer" }), json!("10"), json!(10)),
            (json!({ "type": "integer" }), json!(10.0), json!(10)),
            (json!({ "type": "integer" }), json!("10.0"), json!(10)),
            (json!({ "type": "integer" }), json!("1.5"), json!("1.5")),
            (json!({ "type": "integer" }), json!("ten"), json!("ten")),
            (json!({ "type": "number" }), json!("1.5"), json!(1.5)),
            (json!({ "type": "boolean" }), json!("true"), json!(true)),
            (json!({ "type": ["integer", "null"] }), json!("null"), json!(null)),
            (json!({ "enum": [1, 2] }), json!("1"), json!(1)),
            (json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }] }), json!("7"), json!(7)),
            (json!({ "$ref": "#/$defs/n" }), json!("7"), json!(7)),
            (list.clone(), json!("[1, 2]"), json!([1, 2])),
            (list.clone(), json!(["1", 2]), json!([1, 2])),
            (
                json!({ "type": "object", "properties": { "l": list } }),
                json!("{\"l\":\"[1]\"}"),
                json!({ "l": [1] }),
            ),
            (text.clone(), json!(10), json!("10")),
            (text.clone(), json!({ "a": 1 }), json!("{\"a\":1}")),
            (text.clone(), json!("10"), json!("10")),
            (text.clone(), json!(null), json!(null)),
            (either.clone(), json!("10"), json!("10")),
            (either, json!(10), json!(10)),
            (json!({}), json!("10"), json!("10")),
            (json!({ "anyOf": [text, {}] }), json!(10), json!(10)),
        ] {
            let root = json!({ "properties": { "p": told.clone() }, "$defs": { "n": { "type": "integer" } } });
            let fitted = fitted(object(&root), json!({ "p": given.clone() }));
            assert_eq!(fitted["p"], expected, "{told} {given}");
        }
    }

    /// Values of any kind in the place of each member.
    #[test]
    fn every_mended_schema_is_one_of_2020_12() {
        let odd = [
            json!(null),
            json!(true),
            json!(-1),
            json!(0.5),
            json!("x"),
            json!([]),
            json!([1, 1]),
            json!({}),
            json!({ "$a": null }),
            json!(["string", "string"]),
            json!([{ "type": 7 }]),
        ];
        for key in [
            "type", "properties", "required", "items", "prefixItems", "additionalProperties",
            "enum", "description", "title", "format", "minimum", "exclusiveMinimum", "multipleOf",
            "minLength", "uniqueItems", "anyOf", "allOf", "oneOf", "not", "if", "then", "else",
            "contains", "propertyNames", "patternProperties", "$defs", "definitions",
            "dependencies", "dependentSchemas", "$ref", "$id", "$schema", "examples", "readOnly",
        ] {
            for value in &odd {
                let told = json!({ "properties": { "p": { key: value } } });
                let made = Value::Object(mended(object(&told)));
                let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
                compiler.set_default_draft(Draft::V2020_12);
                compiler.add_resource("s.json", made.clone()).unwrap();
                let compiled = compiler.compile("s.json", &mut schemas);
                assert!(compiled.is_ok(), "{told} {made}: {:?}", compiled.err());
            }
        }
    }
}
