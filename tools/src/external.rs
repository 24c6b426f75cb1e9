//! Shared code of all [`ToolSource`](crate::ToolSource)s: names and schemas of their tools, and the
//! resolution of calls whose arguments only the source can check. Knows no particular source.

use std::time::Duration;

use leftfold_events::event::{Class, Resolution};
use leftfold_events::rules;
use leftfold_events::{Json, Sha256};
use serde_json::{Map, Value};

use crate::tool::{self, Plan, Workspace};
use crate::{Error, args, foreign_schema, registry};

/// Longest name in bytes; no API accepts longer ones.
const LONGEST: usize = 64;

/// Digits of the hash that makes a name unique.
const DIGITS: usize = 8;

/// The name by which models call `tool` of `owner`: `OWNER_TOOL`. If that name is
/// `taken`, belongs to a built-in tool or is too long, it ends in a hash of both.
pub fn tool_name(owner: &str, tool: &str, taken: impl Fn(&str) -> bool) -> String {
    let mut name = name_prefix(owner) + &plain(tool);
    let is_built_in = registry::find(&name.to_lowercase()).is_some();
    if name.len() <= LONGEST && !is_built_in && !taken(&name) {
        return name;
    }
    let hash = Sha256::digest(format!("{owner}\0{tool}").as_bytes()).to_string();
    name.truncate(LONGEST - DIGITS - 1);
    name.push('_');
    name.extend(hash.chars().take(DIGITS));
    name
}

/// Permissions that are not the name of a tool. A tool of this name would answer to rules that mean something else.
pub const PERMISSIONS: [&str; 12] = [
    "doom_loop",
    "edit",
    "external_directory",
    "list",
    "patch",
    rules::HOST,
    rules::LEFTFOLD,
    rules::NETWORK,
    rules::PROTECTED_FILE,
    rules::SECRET_IN_URL,
    rules::UNREADABLE,
    rules::UNSANDBOXED,
];

/// The name by which models call `tool` of `owner`: its own name, or [`tool_name`] if that one is not free.
pub fn plain_name(owner: &str, tool: &str, taken: impl Fn(&str) -> bool) -> String {
    let name = plain(tool);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let lower = name.to_lowercase();
    let is_known = registry::find(&lower).is_some() || PERMISSIONS.contains(&lower.as_str());
    match is_name && name.len() <= LONGEST && !is_known && !taken(&name) {
        true => name,
        false => tool_name(owner, tool, taken),
    }
}

/// Whether [`tool_name`] can give this name to a tool of `owner`.
pub fn may_belong(name: &str, owner: &str) -> bool {
    name.starts_with(&name_beginning(owner, ""))
}

/// The beginning of every name that [`tool_name`] can give to a tool of `owner` whose own name begins so.
pub fn name_beginning(owner: &str, tool: &str) -> String {
    let mut beginning = name_prefix(owner) + &plain(tool);
    beginning.truncate(LONGEST - DIGITS - 1);
    beginning
}

/// The prefix of the names of all tools of `owner`.
fn name_prefix(owner: &str) -> String {
    let mut name = plain(owner) + "_";
    // some APIs require a letter or an underscore first
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        name.insert(0, '_');
    }
    name
}

fn plain(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect()
}

/// The schema in the form that every API accepts: an object schema without alternatives at its top, and without
/// mistakes. The source itself checks the arguments.
pub fn object_schema(told: &Map<String, Value>) -> Json {
    let mut schema = foreign_schema::mended(told);
    for key in ["oneOf", "anyOf", "allOf", "not", "enum", "if", "then", "else"] {
        schema.shift_remove(key);
    }
    schema.insert("type".to_owned(), "object".into());
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Json::from_value(&Value::Object(schema))
}

/// The arguments of a call, with the values of their secrets, fitted to the schema that the source `told`.
///
/// # Errors
/// They are not an object, or name an unknown secret.
pub fn arguments(
    name: &str,
    input: &Json,
    workspace: &Workspace,
    told: &Map<String, Value>,
) -> Result<Json, Error> {
    let input = secret_arguments(name, input, workspace)?;
    Ok(Json::from_value(&foreign_schema::fitted(told, input.value())))
}

fn secret_arguments(name: &str, input: &Json, workspace: &Workspace) -> Result<Json, Error> {
    args::any(name, &workspace.secrets.put_back(input)?)
}

/// The resolution of a call of the tool `name`. It has no paths: permission rules see only its
/// name. Without a `timeout` it gets the usual limit of tools.
pub fn resolve(
    name: &str,
    input: &Json,
    workspace: &Workspace,
    is_read_only: bool,
    timeout: Option<Duration>,
) -> Resolution {
    let input = match secret_arguments(name, input, workspace) {
        Ok(input) => input,
        Err(error) => return refuse(name, input, &error),
    };
    let class = if is_read_only { Class::Read } else { Class::Command };
    let mut plan = Plan { input, ..Plan::new(class) }.allowed_by(name);
    if let Some(timeout) = timeout {
        plan.timeout = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    }
    plan.resolution(name)
}

/// The resolution of a call that cannot be run.
pub fn refuse(name: &str, input: &Json, error: &Error) -> Resolution {
    tool::refused(name, input, error)
}

/// Checks that the call's tool still is what was judged.
///
/// # Errors
/// The call was resolved to an error, or was judged as read-only and may change things now.
pub fn check_judged(resolved: &Resolution, is_read_only: bool) -> Result<(), Error> {
    if let Some(error) = &resolved.error {
        return Err(Error::Refused(error.clone()));
    }
    if resolved.class == Class::Read && !is_read_only {
        return Err(Error::Refused(format!(
            "The tool {} may change things by now, which was not so when the call was judged; nothing \
             was done. Try again.",
            resolved.name
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_are_what_every_api_takes() {
        for (server, tool, name) in [
            ("files", "read_file", "files_read_file"),
            ("my files", "list/all", "my_files_list_all"),
            ("a.b", "größe", "a_b_gr__e"),
            ("2nd", "x", "_2nd_x"),
            ("s", "x-y", "s_x-y"),
            ("", "", "_"),
        ] {
            assert_eq!(tool_name(server, tool, |_| false), name);
        }
        for (tool, name) in [
            ("math_add", "math_add"),
            ("größe", "gr__e"),
            ("bash", "p_bash"),
            ("Edit", "p_Edit"),
            ("doom_loop", "p_doom_loop"),
            ("taken", "p_taken"),
            ("2nd", "p_2nd"),
        ] {
            assert_eq!(plain_name("p", tool, |name| name == "taken"), name);
        }
        let long = tool_name("server", &"x".repeat(100), |_| false);
        assert_eq!(long.len(), LONGEST);
        let owner = "s".repeat(100);
        let of_long_owner = tool_name(&owner, "x", |_| false);
        assert_eq!(of_long_owner.len(), LONGEST);
        assert!(may_belong(&of_long_owner, &owner) && !may_belong(&of_long_owner, "server"));
        assert_ne!(long, tool_name("server", &"x".repeat(101), |_| false));
    }

    #[test]
    fn what_is_taken_is_told_apart_by_a_hash_that_stays_the_same() {
        let first = tool_name("plan", "enter", |name| name == "plan_enter");
        assert!(first.starts_with("plan_enter_") && first.len() == 19, "{first}");
        assert_eq!(first, tool_name("plan", "enter", |name| name == "plan_enter"));
        assert_ne!(first, tool_name("plan", "enter!", |_| true));
    }

    #[test]
    fn no_built_in_tool_loses_its_name() {
        for (owner, tool) in [("plan", "enter"), ("Plan", "Exit"), ("apply", "patch")] {
            let name = tool_name(owner, tool, |_| false);
            assert!(name.len() > owner.len() + tool.len() + 2, "{name}");
        }
    }

    #[test]
    fn schemas_are_of_objects() {
        for (told, expected) in [
            (json!({}), json!({ "type": "object", "properties": {} })),
            (
                json!({ "$schema": "x", "type": "object", "properties": { "a": {} }, "required": ["a"] }),
                json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] }),
            ),
            (
                json!({ "anyOf": [{}], "properties": null }),
                json!({ "properties": {}, "type": "object" }),
            ),
        ] {
            let Value::Object(told) = told else { panic!("{told}") };
            assert_eq!(object_schema(&told).value(), expected);
        }
    }
}
