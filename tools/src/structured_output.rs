//! `StructuredOutput`: a model gives the answer of a turn that asks for a JSON Schema. The session ends the turn with
//! the call's arguments.
//!
//! The schema comes from a client and the arguments from a model, so neither is trusted: nothing is loaded, expressions
//! take linear time, and a check that would take too long is refused before it begins.

use std::collections::HashMap;

use boon::{Compiler, Schemas, UrlLoader};
use futures::future::BoxFuture;
use leftfold_events::Json;
use leftfold_events::event::{CallKind, Class};
use leftfold_events::turn_config::{STRUCTURED_OUTPUT, ToolSpec};
use serde_json::{Map, Value, json};

use crate::tool::Tool;
use crate::{Context, Error, Output, Plan, Workspace, args, text};

/// The most bytes of a schema, as JSON.
const MAX_SCHEMA: usize = 64 << 10;
/// How often a check may apply a part of the schema to a part of the answer.
const MAX_VISITS: u64 = 1_000_000;
/// How many parts of a schema may apply to each other: by reference, or one inside the other.
const MAX_DEPTH: usize = 200;
/// The most bytes of an error: it quotes the answer.
const MAX_PROBLEM: usize = 4_000;
/// A name for the schema. Its domain never exists.
const LOCATION: &str = "https://schema.invalid/answer";

#[derive(Debug)]
pub(crate) struct StructuredOutput;

impl Tool for StructuredOutput {
    fn name(&self) -> &'static str {
        STRUCTURED_OUTPUT
    }

    fn description(&self) -> &'static str {
        include_str!("../../prompts/tools/structured_output.md").trim_ascii_end()
    }

    fn schema(&self) -> Json {
        Json::from_value(&json!({ "type": "object", "properties": {} }))
    }

    /// Only a turn that asks for an answer in this form has it.
    fn is_listed(&self) -> bool {
        false
    }

    fn plan(&self, input: &Json, cx: &Workspace) -> Result<Plan, Error> {
        let input = args::any(STRUCTURED_OUTPUT, input)?;
        // a call that runs has been checked when it was resolved
        if let Some(schema) = &cx.output {
            check(&schema.value(), &input.value()).map_err(|problem| Error::InvalidArguments {
                tool: STRUCTURED_OUTPUT,
                problem: text::clip(problem, MAX_PROBLEM),
            })?;
        }
        Ok(Plan { input, kind: CallKind::StructuredOutput, ..Plan::new(Class::Read) })
    }

    fn run(&self, _: Plan, _: Context) -> BoxFuture<'static, Output> {
        let output = Output {
            title: "Answer".to_owned(),
            output: "The answer is valid.".to_owned(),
            ..Output::default()
        };
        Box::pin(std::future::ready(output))
    }
}

/// The tool's definition for an answer that fits `schema`.
pub fn structured_output_tool(schema: &Json) -> ToolSpec {
    let mut schema = schema.value();
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("$schema");
        members.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    ToolSpec {
        name: STRUCTURED_OUTPUT.to_owned(),
        description: StructuredOutput.description().to_owned(),
        schema: Json::from_value(&schema),
    }
}

/// Whether answers can be checked against this schema.
///
/// # Errors
/// It is no valid JSON Schema, does not describe an object, is too large, or refers to other documents.
pub fn check_output_schema(schema: &Json) -> Result<(), String> {
    let bytes = schema.as_str().len();
    if bytes > MAX_SCHEMA {
        return Err(format!("the schema has {bytes} bytes, over the limit of {MAX_SCHEMA}"));
    }
    let schema = schema.value();
    if schema["type"] != "object" {
        return Err(
            "the schema must have `\"type\": \"object\"`, because models give their answer as \
                    the arguments of a call"
                .to_owned(),
        );
    }
    only_local(&schema, true)?;
    compile(&schema).map(drop)
}

/// References are what a check's length depends on, so only those that are followed here are allowed.
fn only_local(schema: &Value, is_root: bool) -> Result<(), String> {
    match schema {
        Value::Object(members) => {
            for (key, value) in members {
                let is_local = match (key.as_str(), value.as_str()) {
                    ("$ref", Some(to)) => to == "#" || to.starts_with("#/"),
                    ("$id" | "id", Some(_)) => is_root,
                    ("$dynamicRef" | "$recursiveRef", Some(_)) => false,
                    _ => true,
                };
                if !is_local {
                    return Err(format!(
                        "the schema's `{key}` {value} is not supported: only `$ref` with `#` or `#/…` is"
                    ));
                }
                only_local(value, false)?;
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| only_local(item, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Loads nothing, neither from the network nor from files.
struct Nothing;

impl UrlLoader for Nothing {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url}: other documents are not loaded").into())
    }
}

fn compile(schema: &Value) -> Result<(Schemas, boon::SchemaIndex), String> {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        // references begin at the root
        members.shift_remove("$id");
        members.shift_remove("id");
    }
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    compiler.use_loader(Box::new(Nothing));
    let invalid = |error: boon::CompileError| {
        let why = format!("{error:#}").replace(LOCATION, "");
        format!("the schema is not valid: {}", text::clip(why, MAX_PROBLEM))
    };
    compiler.add_resource(LOCATION, schema).map_err(invalid)?;
    let index = compiler.compile(LOCATION, &mut schemas).map_err(invalid)?;
    Ok((schemas, index))
}

/// Checks an answer. The error says which part does not fit.
fn check(schema: &Value, answer: &Value) -> Result<(), String> {
    let mut visits = Visits { root: schema, known: HashMap::new() };
    let count = visits.count(schema, answer, 0)?;
    if count > MAX_VISITS {
        return Err("the check against the schema would take too long".to_owned());
    }
    let (schemas, index) = compile(schema)?;
    schemas.validate(answer, index).map_err(|error| {
        let why = error.to_string();
        // the first line names the schema
        why.split_once('\n').map_or(why.as_str(), |(_, rest)| rest).trim().to_owned()
    })
}

/// Counts, before a check, how often it applies a part of the schema to a part of the answer. Each pair is counted once
/// and then known, so counting is fast where the check itself would be exponential.
struct Visits<'a> {
    root: &'a Value,
    /// By the addresses of both parts; `None` while it is being counted.
    known: HashMap<(*const Value, *const Value), Option<u64>>,
}

impl<'a> Visits<'a> {
    fn count(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> Result<u64, String> {
        let Value::Object(members) = schema else { return Ok(1) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        match self.known.get(&pair) {
            Some(Some(count)) => return Ok(*count),
            Some(None) => return Err("the schema refers to itself without an end".to_owned()),
            None => {}
        }
        let size = u64::try_from(self.known.len()).unwrap_or(u64::MAX);
        if depth > MAX_DEPTH || size > MAX_VISITS {
            return Err("the schema or the answer is nested too deeply to be checked".to_owned());
        }
        self.known.insert(pair, None);
        let mut sum = 1_u64;
        for (key, part) in members {
            for (schema, value) in self.applied(key, part, value) {
                sum = sum.saturating_add(self.count(schema, value, depth + 1)?);
            }
        }
        self.known.insert(pair, Some(sum));
        Ok(sum)
    }

    /// The schemas that a keyword applies, and what to.
    fn applied(&self, key: &str, part: &'a Value, value: &'a Value) -> Vec<(&'a Value, &'a Value)> {
        let children = || -> Vec<&'a Value> {
            match value {
                Value::Object(members) => members.values().collect(),
                Value::Array(items) => items.iter().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            }
        };
        let each = |schema: &'a Value| children().into_iter().map(move |child| (schema, child));
        match (key, part) {
            ("$ref", Value::String(to)) => {
                let target = to.strip_prefix('#').and_then(|path| self.target(path));
                target.into_iter().map(|schema| (schema, value)).collect()
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter().map(|schema| (schema, value)).collect()
            }
            ("not" | "if" | "then" | "else", schema) => vec![(schema, value)],
            ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                schemas.values().map(|schema| (schema, value)).collect()
            }
            ("properties", Value::Object(schemas)) => {
                let known =
                    schemas.iter().filter_map(|(name, schema)| Some((schema, value.get(name)?)));
                known.collect()
            }
            ("patternProperties", Value::Object(schemas)) => {
                schemas.values().flat_map(each).collect()
            }
            ("items" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter().zip(children()).collect()
            }
            (
                "items"
                | "additionalItems"
                | "unevaluatedItems"
                | "contains"
                | "additionalProperties"
                | "unevaluatedProperties",
                schema,
            ) => each(schema).collect(),
            // names are texts, which have no parts
            _ => Vec::new(),
        }
    }

    /// The part that a reference within the schema names.
    fn target(&self, path: &str) -> Option<&'a Value> {
        let path = percent_encoding::percent_decode_str(path).decode_utf8().ok()?;
        self.root.pointer(&path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A schema whose check takes twice as long with each of `n` definitions.
    fn doubling(n: usize) -> Value {
        let mut parts = json!({ "a0": { "type": "object" } });
        for i in 1..=n {
            let part = json!({ "$ref": format!("#/$defs/a{}", i - 1) });
            parts[format!("a{i}")] = json!({ "allOf": [part, part] });
        }
        json!({ "type": "object", "$defs": parts, "$ref": format!("#/$defs/a{n}") })
    }

    #[test]
    fn a_hostile_schema_or_answer_ends_soon() {
        let mut deep = json!({});
        for _ in 0..60 {
            deep = json!({ "x": deep });
        }
        let twice = json!({ "$ref": "#" });
        let recursive =
            json!({ "type": "object", "properties": { "x": { "allOf": [twice, twice] } } });
        let endless = json!({ "type": "object", "$ref": "#" });
        for (schema, answer, said) in [
            (doubling(60), json!({}), "too long"),
            (recursive, deep, "too long"),
            (endless, json!({}), "without an end"),
            (doubling(2_000), json!({}), "too deeply"),
        ] {
            let error = check(&schema, &answer).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_recursive_schema_of_a_tree_is_checked() {
        let schema = json!({
            "type": "object",
            "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" }, "n": { "type": "integer" } },
            "required": ["n"],
        });
        check_output_schema(&Json::from_value(&schema)).unwrap();
        let mut tree = json!({ "n": 1 });
        for _ in 0..12 {
            tree = json!({ "n": 1, "left": tree, "right": tree });
        }
        check(&schema, &tree).unwrap();
        tree["left"]["right"]["n"] = json!("one");
        assert!(check(&schema, &tree).unwrap_err().contains("/left/right/n"));
    }

    #[test]
    fn schemas_that_need_other_documents_are_refused() {
        for schema in [
            json!({ "type": "object", "$ref": "https://example.com/a" }),
            json!({ "type": "object", "properties": { "a": { "$ref": "file:///etc/passwd" } } }),
            json!({ "type": "object", "$schema": "https://example.com/schema" }),
            json!({ "type": "object", "properties": { "a": { "$dynamicRef": "#a" } } }),
            json!({ "type": "object", "description": "x".repeat(MAX_SCHEMA) }),
        ] {
            check_output_schema(&Json::from_value(&schema)).unwrap_err();
        }
    }
}
