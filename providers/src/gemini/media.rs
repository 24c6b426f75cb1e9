//! Encodes files as parts.

use serde_json::{Value, json};

use crate::shape::{self, missing_file};

/// A file of a prompt as a part, or a text that says why it is missing.
pub(super) fn prompt(mime: &str, name: &str, base64: &str) -> Value {
    let mime = shape::mime(mime);
    let moves = mime.starts_with("audio/") || mime.starts_with("video/");
    let reads = moves || is_image(&mime) || matches!(mime.as_str(), "image/heic" | "image/heif");
    if base64.is_empty() || !(reads || mime == "application/pdf") {
        return json!({ "text": missing_file(name, &mime, base64) });
    }
    json!({ "inlineData": { "mimeType": mime, "data": base64 } })
}

/// A file as a part of the result itself, if the model accepts its type there.
pub(super) fn within_result(mime: &str, name: &str, base64: &str) -> Option<Value> {
    let mime = shape::mime(mime);
    if base64.is_empty() || !(is_image(&mime) || mime == "application/pdf") {
        return None;
    }
    let mut data = json!({ "mimeType": mime, "data": base64 });
    if !name.is_empty() {
        data["displayName"] = name.into();
    }
    Some(json!({ "inlineData": data }))
}

/// Whether a file of a result can be sent at all.
pub(super) fn is_readable(mime: &str, base64: &str) -> bool {
    within_result(mime, "", base64).is_some()
}

fn is_image(mime: &str) -> bool {
    matches!(mime, "image/png" | "image/jpeg" | "image/webp")
}
