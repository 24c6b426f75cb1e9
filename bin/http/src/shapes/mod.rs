//! The types of the API, under the names that OpenCode's SDKs have for them. `/doc` is made from them.
//!
//! | module | types of |
//! |---|---|
//! | `session` | sessions, their status, questions, todos, changed files |
//! | `message` | messages, their parts, and the errors of replies |
//! | `event` | the feed |
//! | `catalog` | settings, agents, models, commands, projects, files, terminals |
//! | `failure` | answers to requests that were not done |
//!
//! Handlers fill in the types of `catalog`. The others are notes of the shape of JSON that the fold builds. The tests
//! check every answer and every frame against them, so a member that is missing here makes a test fail.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The schema of an object: `name: Type` is always there, `name?: Type` may be missing, and `name = "a" | "b"` has one of
/// these texts. `{ … }` in place of a type is an object without a name. `..` at the end: it has more members.
macro_rules! members {
    ($generator:ident; $($members:tt)*) => {{
        // an object without members needs none
        let _ = &$generator;
        let object = $crate::shapes::Members::default();
        members!(@next object, $generator; $($members)*);
        object.schema()
    }};
    (@next $object:ident, $generator:ident;) => {};
    (@next $object:ident, $generator:ident; ..) => {
        let $object = $object.open();
    };
    (@next $object:ident, $generator:ident; $name:tt ? $($rest:tt)*) => {
        members!(@member $object, $generator, $name, false; $($rest)*);
    };
    (@next $object:ident, $generator:ident; $name:tt $($rest:tt)*) => {
        members!(@member $object, $generator, $name, true; $($rest)*);
    };
    (@member $object:ident, $generator:ident, $name:tt, $always:literal;
        = $($text:literal)|+ $(, $($rest:tt)*)?) => {
        let schema = $crate::shapes::one_of(&[$($text),+]);
        let $object = $object.with(stringify!($name), $always, schema);
        members!(@next $object, $generator; $($($rest)*)?);
    };
    (@member $object:ident, $generator:ident, $name:tt, $always:literal;
        : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        let schema = members!($generator; $($inner)*);
        let $object = $object.with(stringify!($name), $always, schema);
        members!(@next $object, $generator; $($($rest)*)?);
    };
    (@member $object:ident, $generator:ident, $name:tt, $always:literal;
        : $kind:ty $(, $($rest:tt)*)?) => {
        let schema = $generator.subschema_for::<$kind>();
        let $object = $object.with(stringify!($name), $always, schema);
        members!(@next $object, $generator; $($($rest)*)?);
    };
}

/// Types of objects, which exist only as schemas.
macro_rules! shapes {
    ($($(#[doc = $doc:literal])* $name:ident { $($members:tt)* })*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let schema = members!(generator; $($members)*);
                $crate::shapes::described(schema, concat!($($doc),*))
            }
        }
    )*};
}

/// Types that are one of several.
macro_rules! unions {
    ($($(#[doc = $doc:literal])* $name:ident = $($one:ident)|+;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let all = [$(generator.subschema_for::<$one>()),+];
                $crate::shapes::described($crate::shapes::any_of(&all), concat!($($doc),*))
            }
        }
    )*};
}

pub(crate) mod catalog;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod message;
pub(crate) mod session;

/// Any object.
pub(crate) type Free = Map<String, Value>;
pub(crate) type MapOf<T> = BTreeMap<String, T>;

/// The members of an object's schema.
#[derive(Debug, Default)]
struct Members {
    properties: Map<String, Value>,
    required: Vec<Value>,
    is_open: bool,
}

impl Members {
    fn with(mut self, name: &str, is_always_there: bool, schema: Schema) -> Self {
        // names with other characters are written as texts
        let name = name.trim_matches('"');
        self.properties.insert(name.to_owned(), schema.to_value());
        if is_always_there {
            self.required.push(name.into());
        }
        self
    }

    fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    fn schema(self) -> Schema {
        let mut schema = Schema::default();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), self.properties.into());
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), self.required.into());
        }
        if self.is_open {
            schema.insert("additionalProperties".to_owned(), true.into());
        }
        schema
    }
}

/// The schema of a text that is one of these.
fn one_of(texts: &[&str]) -> Schema {
    match texts {
        [only] => schemars::json_schema!({ "type": "string", "const": only }),
        all => schemars::json_schema!({ "type": "string", "enum": all }),
    }
}

/// The schema of values that fit one of several.
pub(crate) fn any_of(schemas: &[Schema]) -> Schema {
    match schemas {
        [only] => only.clone(),
        all => schemars::json_schema!({ "anyOf": all }),
    }
}

/// The schema of a number, in whose place `null` means something else than a missing member.
pub(crate) fn number_or_null(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "oneOf": [{ "type": "integer", "minimum": 0 }, { "type": "null" }] })
}

/// A schema with the text of a doc comment.
fn described(mut schema: Schema, text: &str) -> Schema {
    if !text.is_empty() {
        schema.insert("description".to_owned(), text.trim().into());
    }
    schema
}

/// JSON that has the shape of a `T`.
pub(crate) struct Shaped<T> {
    value: Value,
    shape: PhantomData<fn() -> T>,
}

/// An answer of JSON that has the shape of a `T`.
pub(crate) fn shaped<T>(value: Value) -> axum::Json<Shaped<T>> {
    axum::Json(Shaped { value, shape: PhantomData })
}

impl<T> Serialize for Shaped<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for Shaped<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// Simplifies all schemas of a document for generators of clients: members that may be missing are never `null` and have no
/// objects as defaults, numbers have no widths, and a schema that allows everything is an object.
pub(crate) fn simplify(value: &mut Value) {
    match value {
        Value::Object(object) => {
            if object.get("format").is_some_and(is_width) {
                object.remove("format");
            }
            for name in ["items", "schema"] {
                object.entry(name).and_modify(allow_all_as_object);
            }
            let required = object.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| {
                required.as_array().is_some_and(|all| all.iter().any(|one| one == name))
            };
            let properties = object.get_mut("properties").and_then(Value::as_object_mut);
            for (name, schema) in properties.into_iter().flatten() {
                allow_all_as_object(schema);
                if !is_required(name) {
                    without_null(schema);
                }
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_width(format: &Value) -> bool {
    let text = format.as_str().unwrap_or_default();
    ["uint", "int", "float", "double"].iter().any(|kind| text.starts_with(kind))
}

fn allow_all_as_object(schema: &mut Value) {
    if *schema == true {
        *schema = json!({});
    }
}

/// Removes `null` from the values that a schema allows.
fn without_null(schema: &mut Value) {
    if let Some(kinds) = schema["type"].as_array() {
        let others: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
        schema["type"] = match others.as_slice() {
            [only] => only.clone(),
            _ => others.into(),
        };
    }
    if let Some(choices) = schema.get_mut("anyOf").and_then(Value::as_array_mut) {
        choices.retain(|choice| choice["type"] != "null");
        if let [only] = choices.as_slice() {
            *schema = only.clone();
        }
    }
    if matches!(schema.get("default"), Some(Value::Null | Value::Object(_)))
        && let Some(schema) = schema.as_object_mut()
    {
        schema.remove("default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_may_be_missing_are_not_null() {
        let mut schema = json!({
            "properties": {
                "a": { "type": ["string", "null"], "default": null },
                "b": { "anyOf": [{ "$ref": "#/x" }, { "type": "null" }] },
                "c": { "type": ["integer", "null"], "format": "uint64" },
                "d": true,
                "e": { "$ref": "#/x", "default": { "a": 1 } },
                "f": { "oneOf": [{ "type": "integer" }, { "type": "null" }] },
            },
            "required": ["c"],
        });
        simplify(&mut schema);
        let expected = json!({
            "a": { "type": "string" },
            "b": { "$ref": "#/x" },
            "c": { "type": ["integer", "null"] },
            "d": {},
            "e": { "$ref": "#/x" },
            "f": { "oneOf": [{ "type": "integer" }, { "type": "null" }] },
        });
        assert_eq!(schema["properties"], expected);
    }
}
