//! Checks the answers of hooks field by field before they become facts.

use leftfold_events::Json;
use leftfold_events::event::{HookOutcome, HookPoint};
use leftfold_framing::clip;
use serde_json::{Map, Value};

use super::keyed_hash;
use super::spec::HookAnswer;

#[derive(Clone, Copy, Debug)]
enum MemberKind {
    Text,
    Number,
    Object,
    Texts,
    Parts,
    OneOf(&'static [&'static str]),
}

/// The field whose value is a secret itself.
const KEY: &str = "apiKey";
/// Limits, in bytes, of a title and of metadata: both stand in the log beside the values that they
/// replace.
const MAX_TITLE: usize = 500;
pub(super) const MAX_METADATA: usize = 64 * 1_024;

/// The fields that an answer to `hook` may have.
const fn fields(hook: HookPoint) -> &'static [(&'static str, MemberKind)] {
    match hook {
        HookPoint::ChatMessage => &[("parts", MemberKind::Parts), ("append", MemberKind::Text)],
        HookPoint::ChatParams => &[
            ("temperature", MemberKind::Number),
            ("topP", MemberKind::Number),
            ("topK", MemberKind::Number),
            ("maxOutputTokens", MemberKind::Number),
            ("options", MemberKind::Object),
        ],
        HookPoint::ChatHeaders => &[("headers", MemberKind::Object)],
        HookPoint::Auth => &[("headers", MemberKind::Object), (KEY, MemberKind::Text)],
        HookPoint::ShellEnv => &[("env", MemberKind::Object)],
        HookPoint::ToolBefore => &[("args", MemberKind::Object), ("deny", MemberKind::Text)],
        HookPoint::ToolAfter => &[
            ("output", MemberKind::Text),
            ("title", MemberKind::Text),
            ("metadata", MemberKind::Object),
        ],
        HookPoint::ToolDefinition => &[("tools", MemberKind::Object)],
        HookPoint::PermissionAsk => &[
            ("status", MemberKind::OneOf(&["allow", "deny", "ask"])),
            ("reason", MemberKind::Text),
        ],
        HookPoint::System => &[("system", MemberKind::Texts)],
        HookPoint::Compacting => &[("prompt", MemberKind::Text), ("context", MemberKind::Texts)],
    }
}

/// Checks an answer. `null` and an empty object mean that the plugin changes nothing.
pub(super) fn read(hook: HookPoint, answer: Value) -> HookAnswer {
    match check(hook, answer) {
        Ok(Checked { output, values, key }) => {
            let (outcome, output) = (HookOutcome::Returned, Json::from_value(&output.into()));
            HookAnswer { outcome, output, message: None, values, key }
        }
        Err(why) => HookAnswer::without_output(
            HookOutcome::Failed,
            format!("its answer to {} is wrong: {why}", hook.name()),
        ),
    }
}

#[derive(Default)]
struct Checked {
    output: Map<String, Value>,
    values: Vec<(String, String)>,
    key: Option<String>,
}

fn check(hook: HookPoint, answer: Value) -> Result<Checked, String> {
    let answer = if answer.is_null() { Value::Object(Map::new()) } else { answer };
    let Value::Object(answer) = answer else {
        return Err(format!("expected an object, found {}", kind(&answer)));
    };
    let known = fields(hook);
    for (field, value) in &answer {
        let Some((_, wanted)) = known.iter().find(|(name, _)| name == field) else {
            let names: Vec<String> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
            return Err(format!("unknown field `{field}`; known are {}", names.join(", ")));
        };
        if let Some(expected) = wanted.misses(value) {
            return Err(format!("`{field}`: expected {expected}, found {}", kind(value)));
        }
    }
    if hook.is_secret() { replace_secrets(hook, answer) } else { within_limits(answer) }
}

/// Cuts the title to its limit, and checks the size of the metadata.
fn within_limits(mut output: Map<String, Value>) -> Result<Checked, String> {
    if let Some(Value::String(title)) = output.get_mut("title") {
        *title = clip(std::mem::take(title), MAX_TITLE);
    }
    if output.get("metadata").is_some_and(|metadata| metadata.to_string().len() > MAX_METADATA) {
        return Err(format!("`metadata` has more than {MAX_METADATA} bytes"));
    }
    Ok(Checked { output, ..Checked::default() })
}

/// Replaces the values of secrets by their hashes.
fn replace_secrets(hook: HookPoint, mut answer: Map<String, Value>) -> Result<Checked, String> {
    let (mut values, mut key) = (Vec::new(), None);
    for (field, entries) in &mut answer {
        if let Value::String(text) = entries {
            if text.trim().is_empty() || !is_header("key", text.trim()) {
                return Err(format!("`{field}` is empty, or contains characters that no key has"));
            }
            key = Some(text.trim().to_owned());
            *text = keyed_hash::hash(text.trim());
        }
        for (name, value) in entries.as_object_mut().into_iter().flatten() {
            let Some(text) = value.as_str() else {
                return Err(format!("`{field}.{name}`: expected a string, found {}", kind(value)));
            };
            let fits = if hook == HookPoint::ShellEnv {
                !name.is_empty() && !name.contains(['=', '\0']) && !text.contains('\0')
            } else {
                is_header(name, text)
            };
            if !fits {
                return Err(format!(
                    "`{field}.{name}` contains characters that cannot be passed on"
                ));
            }
            values.push((name.clone(), text.to_owned()));
            *value = keyed_hash::hash(text).into();
        }
    }
    Ok(Checked { output: answer, values, key })
}

/// Whether HTTP accepts the header (RFC 9110, 5.1 and 5.5). Values are limited to ASCII.
fn is_header(name: &str, value: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let shown = |c: char| c == '\t' || c == ' ' || c.is_ascii_graphic();
    !name.is_empty() && name.chars().all(token) && value.chars().all(shown)
}

impl MemberKind {
    /// A description of the expected value, if `value` does not match.
    fn misses(self, value: &Value) -> Option<String> {
        let texts =
            |value: &Value| value.as_array().is_some_and(|a| a.iter().all(Value::is_string));
        let parts = |value: &Value| {
            value.as_array().is_some_and(|all| all.iter().all(|part| part["text"].is_string()))
        };
        let (fits, expected) = match self {
            Self::Text => (value.is_string(), "a string".to_owned()),
            Self::Number => (value.is_number(), "a number".to_owned()),
            Self::Object => (value.is_object(), "an object".to_owned()),
            Self::Texts => (texts(value), "a list of strings".to_owned()),
            Self::Parts => (parts(value), "a list of objects with a `text` each".to_owned()),
            Self::OneOf(names) => {
                let fits = value.as_str().is_some_and(|text| names.contains(&text));
                (fits, names.join(" or "))
            }
        };
        (!fits).then_some(expected)
    }
}

pub(super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(text) if text.len() <= 40 => format!("{text:?}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_checked_by_field() {
        for (hook, answer, told) in [
            (HookPoint::ToolBefore, json!(null), None),
            (HookPoint::ToolBefore, json!({ "args": {} }), None),
            (HookPoint::ToolBefore, json!([]), Some("expected an object, found a list")),
            (HookPoint::ToolBefore, json!({ "denny": "x" }), Some("unknown field `denny`")),
            (HookPoint::ToolBefore, json!({ "args": 1 }), Some("`args`: expected an object")),
            (HookPoint::PermissionAsk, json!({ "status": "allow" }), None),
            (HookPoint::PermissionAsk, json!({ "status": "yes" }), Some("allow or deny or ask")),
            (HookPoint::System, json!({ "system": ["a", 1] }), Some("a list of strings")),
            (HookPoint::ChatMessage, json!({ "parts": [{ "text": "a" }] }), None),
            (HookPoint::ChatMessage, json!({ "parts": ["a"] }), Some("a list of objects")),
            (
                HookPoint::ShellEnv,
                json!({ "env": { "A=B": "c" } }),
                Some("`env.A=B` contains characters"),
            ),
            (HookPoint::ShellEnv, json!({ "env": { "A": 1 } }), Some("`env.A`: expected a string")),
            (HookPoint::ChatHeaders, json!({ "headers": { "a b": "c" } }), Some("`headers.a b`")),
            (HookPoint::ChatHeaders, json!({ "headers": { "a": "c\nd: e" } }), Some("`headers.a`")),
            (HookPoint::ChatHeaders, json!({ "apiKey": "k" }), Some("unknown field `apiKey`")),
            (HookPoint::Auth, json!({ "apiKey": "k", "headers": {} }), None),
            (HookPoint::Auth, json!({ "apiKey": " " }), Some("`apiKey` is empty")),
            (HookPoint::Auth, json!({ "apiKey": ["k"] }), Some("`apiKey`: expected a string")),
            (HookPoint::ToolAfter, json!({ "title": "t", "metadata": { "a": 1 } }), None),
            (
                HookPoint::ToolAfter,
                json!({ "metadata": [] }),
                Some("`metadata`: expected an object"),
            ),
            (
                HookPoint::ToolAfter,
                json!({ "metadata": { "a": "x".repeat(MAX_METADATA) } }),
                Some("`metadata` has more than 65536 bytes"),
            ),
        ] {
            let said = read(hook, answer.clone());
            match (told, &said.message) {
                (None, None) => assert_eq!(said.outcome, HookOutcome::Returned, "{answer}"),
                (Some(told), Some(why)) => assert!(why.contains(told), "{answer}: {why}"),
                other => panic!("{answer}: {other:?}"),
            }
        }
    }

    #[test]
    fn values_of_headers_and_variables_are_kept_apart() {
        let said = read(HookPoint::ShellEnv, json!({ "env": { "TOKEN": "very-secret" } }));
        assert_eq!(said.values, [("TOKEN".to_owned(), "very-secret".to_owned())]);
        let shown = said.output.as_str();
        assert!(shown.contains("TOKEN") && shown.contains("hmac-sha256:"), "{shown}");
        assert!(!shown.contains("very-secret"), "{shown}");
        assert!(!format!("{said:?}").contains("very-secret"));
        let said = read(HookPoint::Auth, json!({ "apiKey": " very-secret\n" }));
        assert_eq!((said.key.as_deref(), said.values.len()), (Some("very-secret"), 0));
        let shown = said.output.as_str();
        assert!(shown.starts_with(r#"{"apiKey":"hmac-sha256:"#), "{shown}");
        assert!(!shown.contains("very-secret"), "{shown}");
    }
}
