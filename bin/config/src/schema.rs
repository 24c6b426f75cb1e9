//! The JSON Schema of a settings file, for editors and for the valid keys at a path, and what fields say about
//! themselves.
//!
//! A field says in `#[schemars(extend(…))]` what people are shown and asked about it. The printed schema leaves these
//! members out.
//!
//! | member | meaning |
//! | --- | --- |
//! | `x-effect` | what a project's value does: the question to trust it says so. Fields without it need trust, too |
//! | `x-free` | a project's value needs no trust, unless it refers to variables or files |
//! | `x-secret` | the value is never shown; the type `Secret` has it |
//! | `x-name` | the value is a name and no secret, even if it comes from a variable |
//! | `x-named` | users choose the keys below, so these do not show that a value is a credential |
//! | `x-rules` | its rules are listed in the order in which they count |
//! | `x-default`, `x-note` | the default that `leftfold config` lists, and a remark on it |
//! | `x-option` | the option of a turn that it sets |

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::secrecy::is_credential;
use crate::settings::Settings;

/// The only headers whose values are shown.
const HARMLESS: [&str; 13] = [
    "accept", "accept-encoding", "accept-language", "anthropic-beta", "anthropic-version",
    "content-type", "http-referer", "openai-beta", "origin", "referer", "user-agent",
    "x-client-name", "x-title",
];

/// With what fields say about themselves.
static FIELDS: LazyLock<Value> = LazyLock::new(|| {
    let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<Settings>().to_value()
});

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = FIELDS.clone();
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

/// The field at each step of a path, as far as there are fields.
pub(crate) fn fields(path: &[impl AsRef<str>]) -> Vec<&'static Value> {
    let mut schema = &*FIELDS;
    let steps = path.iter().map(AsRef::as_ref);
    steps.map_while(|step| below(schema, step).inspect(|field| schema = field)).collect()
}

fn field(path: &[&str]) -> Option<&'static Value> {
    let fields = fields(path);
    fields.last().copied().filter(|_| fields.len() == path.len())
}

/// Whether a field has a mark, itself or in one of its types.
pub(crate) fn has(field: &'static Value, mark: &str) -> bool {
    field[mark] == true || alternatives(field).any(|one| has(one, mark))
}

/// Whether the field at a path has a mark.
pub(crate) fn is(path: &[&str], mark: &str) -> bool {
    field(path).is_some_and(|field| has(field, mark))
}

/// Whether the key at this path is accepted and has no effect.
pub(crate) fn is_idle(path: &[&str]) -> bool {
    is(path, "deprecated")
}

/// Says what the setting at a path does if a project sets it. `None`: its field does not say.
pub(crate) fn effect(path: &[&str]) -> Option<&'static str> {
    let field = field(path)?;
    field["x-effect"].as_str().or(is_idle(path).then_some("has no effect in this version"))
}

/// The fields with this member, and their paths, in the order of the documentation. Fields below keys that users choose
/// are left out.
pub(crate) fn with(member: &str) -> impl Iterator<Item = (Vec<&'static str>, &'static Value)> {
    let fields = fields_below(&FIELDS, &[]).into_iter();
    fields.filter(move |(_, field)| field.get(member).is_some())
}

fn fields_below(
    schema: &'static Value,
    path: &[&'static str],
) -> Vec<(Vec<&'static str>, &'static Value)> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    let with_members = |(key, field): (&'static String, &'static Value)| {
        let path = [path, &[key.as_str()]].concat();
        let below = fields_below(field, &path);
        [(path, field)].into_iter().chain(below)
    };
    fields.flat_map(with_members).collect()
}

/// The options of a turn that settings give, each with the path of its setting.
pub fn options_of_turns() -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
    with("x-option").filter_map(|(path, field)| Some((field["x-option"].as_str()?, path)))
}

/// Whether the path alone makes a value a secret.
pub(crate) fn hides(path: &[String]) -> bool {
    let known = fields(path);
    let is = |at: usize, mark| known.get(at).is_some_and(|field| has(field, mark));
    (1..path.len()).any(|at| {
        let key = &path[at];
        let holder = |name| at > 1 && path[at - 1] == name;
        let is_index = key.bytes().all(|byte| byte.is_ascii_digit());
        if holder("headers") {
            return !HARMLESS.iter().any(|harmless| harmless.eq_ignore_ascii_case(key));
        }
        if is(at, "x-secret") || holder("environment") || (holder("env") && !is_index) {
            return true;
        }
        !is(at - 1, "x-named") && is_credential(key)
    })
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

/// Simplifies a schema: drops what fields say about themselves; drops `null` beside the real type, because unset keys are
/// left out; drops formats and defaults that do not help people; and marks objects that accept no other keys.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with("x-"));
            leftfold_tools::simplify_members(map);
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

    /// A misspelt member would be ignored.
    #[test]
    fn what_fields_say_about_themselves_is_known() {
        let text = FIELDS.to_string();
        let said = text.split("\"x-").skip(1).filter_map(|rest| rest.split('"').next());
        let said: std::collections::BTreeSet<&str> = said.collect();
        let known =
            ["default", "effect", "free", "name", "named", "note", "option", "rules", "secret"];
        assert!(said.iter().eq(&known), "{said:?}");
    }

    #[test]
    fn places_of_secrets_are_known() {
        let hidden = |path: &str| hides(&path.split('/').map(str::to_owned).collect::<Vec<_>>());
        for path in [
            "secrets/anything",
            "provider/p/options/apiKey",
            "provider/p/options/headers/x-anything",
            "provider/p/models/m/headers/Authorization",
            "mcp/m/environment/PLAIN",
            "mcp/m/headers/x",
            "lsp/l/env/A",
            "mcp/m/oauth/clientSecret",
            "server/password",
            "experimental/auth/deep/inside",
        ] {
            assert!(hidden(path), "{path}");
        }
        for path in [
            "secrets",
            "model",
            "provider/p/env/0",
            "provider/p/options/headers/User-Agent",
            "provider/token-factory/options/timeout",
            "provider/p/models/secret-model/limit/context",
            "mcp/github-token/url",
            "keybinds/leader",
        ] {
            assert!(!hidden(path), "{path}");
        }
    }

    #[test]
    fn every_key_has_a_type_and_open_places_take_any() {
        let schema = schema();
        let properties = schema["properties"].as_object().unwrap();
        assert!(
            properties.keys().take(4).eq(["model", "small_model", "default_agent", "provider"])
        );
        assert!(properties.values().all(|key| key.as_object().is_some_and(|key| !key.is_empty())));
        let text = schema.to_string();
        assert!(!text.contains("@rest") && !text.contains("null"), "{text}");
        assert!(!text.contains("\"x-"), "{text}");
        let names =
            |path: &[&str]| at(&path.iter().map(|&step| step.to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["retry"]), ["attempts", "max_wait"]);
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
        assert!(is_idle(&["theme"]) && !is_idle(&["mcp"]) && !is_idle(&["$schema"]));
        assert!(is_idle(&["experimental", "hook"]) && !is_idle(&["experimental"]));
        assert!(!is_idle(&["experimental", "batch_tool"]));
    }
}
