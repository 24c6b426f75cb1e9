//! Arguments of tools: generates their JSON Schemas and parses the model's JSON.
//!
//! Parsing is lenient only where the meaning is clear: no input at all is an empty object, an
//! object written as a string is that object, `"10"` in place of a number is 10.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use leftfold_events::Json;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::{Error, text};

/// Most bytes of an error about arguments: the error quotes them.
const MAX_PROBLEM: usize = 2_000;

/// The schemas that were made already. Every prompt asks for all of them.
static SCHEMAS: Mutex<BTreeMap<TypeId, Json>> = Mutex::new(BTreeMap::new());

/// The schema of `T`, without the parts that models and their APIs do not use.
pub(crate) fn schema<T: JsonSchema + 'static>() -> Json {
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    schemas.entry(TypeId::of::<T>()).or_insert_with(make_schema::<T>).clone()
}

fn make_schema<T: JsonSchema>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Value::Object(root) = &mut schema {
        root.remove("$schema");
        root.remove("title");
        root.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    }
    simplify(&mut schema);
    Json::from_value(&schema)
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            simplify_members(members);
            members.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Drops members of a schema that several APIs refuse: number formats, and `null` beside the real type (an optional argument
/// can be left out instead).
pub fn simplify_members(schema: &mut Map<String, Value>) {
    if schema.get("format").is_some_and(Value::is_string) {
        schema.remove("format");
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
}

/// Reads the arguments of the tool named `tool`.
///
/// # Errors
/// [`Error::InvalidArguments`] naming the field and what was expected there.
pub(crate) fn parse<T: DeserializeOwned>(tool: &'static str, input: &Json) -> Result<T, Error> {
    let invalid =
        |problem| Error::InvalidArguments { tool, problem: text::clip(problem, MAX_PROBLEM) };
    let value = object(input.value()).map_err(invalid)?;
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        let problem = error.into_inner().to_string();
        invalid(if field == "." { problem } else { format!("`{field}`: {problem}") })
    })
}

/// Parses arguments of an unknown type. They must be an object.
///
/// # Errors
/// [`Error::InvalidInput`]
pub(crate) fn any(tool: &str, input: &Json) -> Result<Json, Error> {
    let invalid = |problem| Error::InvalidInput {
        tool: tool.to_owned(),
        problem: text::clip(problem, MAX_PROBLEM),
    };
    object(input.value()).map(|value| Json::from_value(&value)).map_err(invalid)
}

/// The object that the model meant.
fn object(input: Value) -> Result<Value, String> {
    match input {
        Value::Object(_) => Ok(input),
        Value::Null => Ok(Value::Object(Map::new())),
        Value::String(text) if text.trim().is_empty() => Ok(Value::Object(Map::new())),
        Value::String(text) => match serde_json::from_str::<Value>(&text) {
            Ok(value @ Value::Object(_)) => Ok(value),
            Ok(_) => Err("expected a JSON object, got another JSON value in a string".to_owned()),
            Err(error) => Err(format!("they are not valid JSON ({error})")),
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err("expected a JSON object".to_owned())
        }
    }
}

/// The arguments as they are logged: under their own names, without those that were left out.
pub(crate) fn normal<T: Serialize>(args: &T) -> Json {
    serde_json::to_value(args).map_or_else(|_| Json::object(), |value| Json::from_value(&value))
}

/// A whole number from 0 up, or the strings and floats that stand for one: `"10"`, `10.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct WholeNumber(pub(crate) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = match &value {
            Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(integral)),
            Value::String(text) => text.trim().parse().ok(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let wrong = || D::Error::custom(format!("expected a whole number from 0 up, got {value}"));
        number.map(Self).ok_or_else(wrong)
    }
}

/// The schema is that of a number: the other forms are mistakes.
impl JsonSchema for WholeNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        u64::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        u64::json_schema(generator)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn integral(number: f64) -> Option<u64> {
    let fits = number.fract() == 0.0 && (0.0..=9e15).contains(&number);
    fits.then_some(number as u64)
}

/// `true` or `false`, or either as a string.
pub(crate) fn boolean<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match &value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(text) if text == "true" => Ok(Some(true)),
        Value::String(text) if text == "false" => Ok(Some(false)),
        Value::String(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(D::Error::custom(format!("expected true or false, got {value}")))
        }
    }
}
