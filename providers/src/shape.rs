//! What the vendors' request bodies want alike: names, schemas, arguments, media types, options.

use leftfold_events::Json;
use leftfold_events::event::PromptPart;
use serde_json::{Map, Value, json};

/// Stands where an API wants words and there are none.
pub(crate) const NO_TEXT: &str = "(empty)";

/// A tool's name as APIs take it: at most `longest` of `[A-Za-z0-9_-]`.
pub(crate) fn tool_name(name: &str, longest: usize) -> String {
    let name = restricted(name, longest);
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

pub(crate) fn restricted(text: &str, longest: usize) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    text.chars().take(longest).map(keep).collect()
}

/// APIs take objects only; what the model wrote is kept for it to see.
pub(crate) fn object(input: &Json) -> Value {
    let value = input.value();
    if value.is_object() { value } else { json!({ "input": value }) }
}

/// APIs want an object at the top and no alternatives there. A tool checks its input itself, so
/// what the model is not told of the schema does no harm.
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

/// Words in place of a file that can not be sent.
pub(crate) fn missing(name: &str, mime: &str, base64: &str) -> String {
    let name = if name.is_empty() { "a file" } else { name };
    if base64.is_empty() {
        return format!("[{name} is missing here: the file is empty]");
    }
    format!("[{name} is missing here: the model can not read files of type {mime}]")
}

/// Media type and name of a file in a prompt.
pub(crate) fn file_of(part: &PromptPart) -> (&str, &str) {
    let mime = part.mime.as_deref().unwrap_or("application/octet-stream");
    (mime, part.name.as_deref().unwrap_or_default())
}

/// A count of tokens, which some servers write as a fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
pub(crate) fn count(number: f64) -> u64 {
    number as u64
}

/// Lays `value` over what `into` has as `key`: objects member by member, `null` takes away.
/// `spellings` are other names of members, at every depth.
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
