//! Conversions that many vendors' request bodies need: names, schemas, arguments, media types,
//! options.

use leftfold_events::event::PromptPart;
use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::{Json, Request};
use serde_json::{Map, Value, json};

/// Replaces an empty text, for APIs that require one.
pub(crate) const NO_TEXT: &str = "(empty)";

/// An object of these members. It takes over their values, while `json!` copies each of them: a conversation would be
/// copied once for each level of its messages.
pub(crate) fn members<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A tool's name in the form that APIs accept: at most `longest` of `[A-Za-z0-9_-]`.
pub(crate) fn tool_name(name: &str, longest: usize) -> String {
    let name = restricted(name, longest);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

/// The names of the tools that are called in a conversation, in the form of `tool_name`, each once.
pub(crate) fn called(request: &Request, tool_name: impl Fn(&str) -> String) -> Vec<String> {
    let parts = request.messages.iter().flat_map(|message| match message {
        RequestMessage::Assistant { parts } => &**parts,
        RequestMessage::User { .. } | RequestMessage::Tool { .. } => [].as_slice(),
    });
    let name = |part: &AssistantPart| match part {
        AssistantPart::Call { name, .. } => Some(tool_name(name)),
        AssistantPart::Text { .. } | AssistantPart::Reasoning { .. } => None,
    };
    let mut names: Vec<String> = parts.filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

pub(crate) fn restricted(text: &str, longest: usize) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().take(longest).map(keep).collect()
}

/// A call's input as an object, which APIs require. Other input is kept in a member, for the model
/// to see.
pub(crate) fn object(input: &Json) -> Value {
    let value = input.value();
    if value.is_object() { value } else { json!({ "input": value }) }
}

/// The schema as an object without alternatives at the top, which APIs require. Details may be
/// lost, because each tool checks its input itself.
pub(crate) fn schema(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else { return json!({ "type": "object" }) };
    for key in ["oneOf", "anyOf", "allOf"] {
        schema.remove(key);
    }
    schema.insert("type".into(), "object".into());
    Value::Object(schema)
}

/// A media type without parameters, in its usual spelling.
pub(crate) fn mime(mime: &str) -> String {
    let mime = mime.split(';').next().unwrap_or_default().trim().to_lowercase();
    if mime == "image/jpg" { "image/jpeg".to_owned() } else { mime }
}

/// The text that replaces a file that cannot be sent.
pub(crate) fn missing_file(name: &str, mime: &str, base64: &str) -> String {
    let name = if name.is_empty() { "a file" } else { name };
    if base64.is_empty() {
        return format!("[{name} is missing here: the file is empty]");
    }
    format!("[{name} is missing here: the model cannot read files of type {mime}]")
}

/// Media type and name of a file in a prompt.
pub(crate) fn file_of(part: &PromptPart) -> (&str, &str) {
    let mime = part.mime.as_deref().unwrap_or("application/octet-stream");
    (mime, part.name.as_deref().unwrap_or_default())
}

/// A token count. Some servers write it as a fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
pub(crate) fn count(number: f64) -> u64 {
    number as u64
}

/// Merges `value` into the member `key` of `into`: objects member by member; `null` removes a
/// member. `spellings` are other names of members, at every depth.
pub(crate) fn merge(
    into: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    spellings: &[(&str, &str)],
) {
    let key = spellings.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| to);
    let Value::Object(members) = value else {
        if value.is_null() {
            into.remove(key);
        } else {
            into.insert(key.to_owned(), value.clone());
        }
        return;
    };
    let slot = into.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    if let Value::Object(slot) = slot {
        for (key, value) in members {
            merge(slot, key, value, spellings);
        }
    }
}
