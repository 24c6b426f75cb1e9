//! Converts tools' schemas into the form that Gemini accepts: a subset of OpenAPI's, without
//! references.
//!
//! Details may be lost, because each tool checks its input itself.

use serde_json::{Map, Value, json};

/// The greatest depth of a schema. Deeper ones usually contain themselves.
const DEEPEST: usize = 12;
/// The most schemas in one tool, because references can multiply a few lines.
const MAX_SCHEMAS: usize = 2_000;

/// The parameters of a function; `None` if it takes none.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let mut walk = Checker { root: schema, left: MAX_SCHEMAS };
    let schema = walk.flat(schema, 0);
    let object = walk.object(&schema, 0);
    object.contains_key("properties").then_some(Value::Object(object))
}

struct Checker<'a> {
    root: &'a Value,
    left: usize,
}

impl Checker<'_> {
    /// The schema with references resolved and `allOf` merged.
    fn flat(&self, schema: &Value, depth: usize) -> Map<String, Value> {
        let Value::Object(schema) = schema else { return Map::new() };
        let mut flat = schema.clone();
        if depth > DEEPEST {
            return flat;
        }
        if let Some(Value::String(path)) = flat.remove("$ref") {
            let target = path.strip_prefix('#').and_then(|path| self.root.pointer(path));
            let target = target.map(|target| self.flat(target, depth + 1)).unwrap_or_default();
            join(&mut flat, target);
        }
        if let Some(Value::Array(all)) = flat.remove("allOf") {
            for schema in &all {
                let part = self.flat(schema, depth + 1);
                join(&mut flat, part);
            }
        }
        flat
    }

    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let schema = self.flat(schema, depth);
        if depth > DEEPEST || self.left == 0 {
            return described(&schema, json!({ "type": "STRING" }));
        }
        self.left -= 1;
        let (kinds, mut nullable) = kinds(&schema);
        if let [one] = kinds.as_slice() {
            let made = self.of_kind(one, &schema, depth);
            return finished(&schema, made, nullable);
        }
        let mut choices: Vec<Value> = Vec::new();
        if kinds.is_empty() {
            for choice in
                ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten()
            {
                if is_null(choice) {
                    nullable = true;
                } else {
                    choices.push(self.schema(choice, depth + 1));
                }
            }
        } else {
            choices.extend(kinds.iter().map(|kind| self.of_kind(kind, &schema, depth)));
        }
        match choices.len() {
            0 => finished(&schema, json!({ "type": "STRING" }), nullable),
            1 => finished(&schema, choices.remove(0), nullable),
            _ => {
                // an alternative stands alone, so members outside `anyOf` are copied into each one
                let each = choices.into_iter().map(|choice| finished(&schema, choice, nullable));
                json!({ "anyOf": each.collect::<Vec<_>>() })
            }
        }
    }

    fn of_kind(&mut self, kind: &str, schema: &Map<String, Value>, depth: usize) -> Value {
        if let Some(values) = choices(schema) {
            return json!({ "type": "STRING", "enum": values });
        }
        let mut made = Map::new();
        match kind {
            "object" => made = self.object(schema, depth),
            "array" => {
                made.insert("type".into(), "ARRAY".into());
                made.insert("items".into(), self.items(schema, depth));
                keep(schema, &mut made, &["minItems", "maxItems"]);
            }
            "integer" | "number" => {
                made.insert("type".into(), kind.to_uppercase().into());
                keep(schema, &mut made, &["minimum", "maximum"]);
            }
            "boolean" => drop(made.insert("type".into(), "BOOLEAN".into())),
            _ => {
                made.insert("type".into(), "STRING".into());
                if schema.get("format").is_some_and(|format| format == "date-time") {
                    keep(schema, &mut made, &["format"]);
                }
            }
        }
        Value::Object(made)
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Map<String, Value> {
        let mut made = Map::new();
        made.insert("type".into(), "OBJECT".into());
        let mut properties = Map::new();
        for (name, schema) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            properties.insert(name.clone(), self.schema(schema, depth + 1));
        }
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        let mut names: Vec<&str> = Vec::new();
        for name in required.filter_map(Value::as_str) {
            if properties.contains_key(name) && !names.contains(&name) {
                names.push(name);
            }
        }
        let required = json!(names);
        if !properties.is_empty() {
            made.insert("properties".into(), properties.into());
        }
        if required.as_array().is_some_and(|names| !names.is_empty()) {
            made.insert("required".into(), required);
        }
        made
    }

    /// The schema of a list's items, which the API requires. The places of a tuple become
    /// alternatives.
    fn items(&mut self, schema: &Map<String, Value>, depth: usize) -> Value {
        let items = schema.get("items").filter(|items| items.is_object() || items.is_array());
        match items.or_else(|| schema.get("prefixItems")) {
            Some(Value::Array(places)) => self.schema(&json!({ "anyOf": places }), depth + 1),
            Some(items) => self.schema(items, depth + 1),
            None => json!({ "type": "STRING" }),
        }
    }
}

/// Adds the members of `more` that `schema` does not have.
fn join(schema: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (schema.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(value)) if key == "properties" => {
                for (name, value) in value {
                    known.entry(name).or_insert(value);
                }
            }
            (Some(Value::Array(known)), Value::Array(value)) if key == "required" => {
                known.extend(value);
            }
            (Some(_), _) => {}
            (None, value) => drop(schema.insert(key, value)),
        }
    }
}

/// The types of a value, and whether it may be null.
fn kinds(schema: &Map<String, Value>) -> (Vec<&str>, bool) {
    let said: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(_) | None => Vec::new(),
    };
    let mut nullable = schema.get("nullable") == Some(&Value::Bool(true));
    nullable |= said.contains(&"null");
    nullable |=
        schema.get("enum").and_then(Value::as_array).is_some_and(|e| e.contains(&Value::Null));
    let kinds: Vec<&str> = said.into_iter().filter(|kind| *kind != "null").collect();
    if !kinds.is_empty() {
        return (kinds, nullable);
    }
    let implied =
        [("properties", "object"), ("items", "array"), ("enum", "string"), ("const", "string")];
    let implied = implied.iter().find(|(key, _)| schema.contains_key(*key));
    (implied.map(|(_, kind)| *kind).into_iter().collect(), nullable)
}

fn is_null(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "null")
}

/// The values of an enumeration as strings, the only kind that the API accepts.
fn choices(schema: &Map<String, Value>) -> Option<Vec<String>> {
    let one;
    let values = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values,
        (_, Some(value)) => {
            one = vec![value.clone()];
            &one
        }
        (_, None) => return None,
    };
    let mut texts: Vec<String> = Vec::new();
    for value in values.iter().filter(|value| !value.is_null()) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    (!texts.is_empty()).then_some(texts)
}

fn keep(schema: &Map<String, Value>, made: &mut Map<String, Value>, keys: &[&str]) {
    for key in keys {
        if let Some(value) = schema.get(*key).filter(|value| value.is_number() || value.is_string())
        {
            made.insert((*key).to_owned(), value.clone());
        }
    }
}

fn finished(schema: &Map<String, Value>, mut made: Value, nullable: bool) -> Value {
    if nullable && made.get("anyOf").is_none() {
        made["nullable"] = true.into();
    }
    described(schema, made)
}

/// Adds a description if there is none.
fn described(schema: &Map<String, Value>, mut made: Value) -> Value {
    let words = schema.get("description").filter(|words| words.is_string());
    if let Some(words) = words
        && made.get("description").is_none()
        && made.get("anyOf").is_none()
    {
        made["description"] = words.clone();
    }
    made
}
