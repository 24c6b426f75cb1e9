//! Turns the results of servers into the output that a model sees.

use leftfold_events::event::Attachment;
use leftfold_framing::clip;
use leftfold_tools::{Error, Output, decode, recognise};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};

/// Bytes kept of the name or address of content that is not shown.
const MAX_NAME: usize = 300;

/// Parts of a result that are shown; the model is told how many more there were.
const MAX_PARTS: usize = 1_024;

/// The output of a call whose result has no content.
const NOTHING: &str = "(no output)";

/// The kind of a server's error in the metadata of tool results.
const KIND: &str = "mcp";

/// A server's error, worded for the model.
pub(super) fn error(message: impl Into<String>) -> Error {
    Error::External { kind: KIND, message: message.into() }
}

pub(super) fn output(title: String, result: CallToolResult) -> Output {
    let mut parts = Vec::new();
    let mut attachments = Vec::new();
    let left_out = result.content.len().saturating_sub(MAX_PARTS);
    for block in result.content.into_iter().take(MAX_PARTS) {
        match render(block) {
            Rendered::Text(text) => parts.push(text),
            Rendered::Media(media) => attachments.push(media),
        }
    }
    if left_out > 0 {
        parts.push(format!("[{left_out} more parts are left out: {MAX_PARTS} are shown at most]"));
    }
    if let (true, true, Some(structured)) =
        (parts.is_empty(), attachments.is_empty(), &result.structured_content)
    {
        parts.push(structured.to_string());
    }
    let said = match (parts.is_empty(), attachments.len()) {
        (true, 0) => NOTHING.to_owned(),
        (true, 1) => "The result is attached.".to_owned(),
        (true, count) => format!("The {count} results are attached."),
        (false, _) => parts.join("\n"),
    };
    let is_error = result.is_error.unwrap_or(false);
    let meta = if is_error { json!({ "error_kind": KIND }) } else { json!({}) };
    Output { is_error, attachments, ..Output::new(title, said, &meta) }
}

/// Reads a result that violates the protocol as far as possible.
pub(super) fn lenient(said: Value) -> CallToolResult {
    let is_error = said["isError"] == true;
    let content = match said {
        Value::Null => Vec::new(),
        Value::String(text) => vec![ContentBlock::text(text)],
        Value::Object(mut said) => match said.remove("content") {
            Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
            Some(Value::String(text)) => vec![ContentBlock::text(text)],
            Some(other) => vec![ContentBlock::text(other.to_string())],
            None => vec![ContentBlock::text(Value::Object(said).to_string())],
        },
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            vec![ContentBlock::text(other.to_string())]
        }
    };
    if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

fn block(said: Value) -> ContentBlock {
    serde_json::from_value(said).unwrap_or_else(|_| ContentBlock::text(UNKNOWN))
}

const UNKNOWN: &str = "[content of an unknown kind]";

pub(super) enum Rendered {
    Text(String),
    Media(Attachment),
}

pub(super) fn render(block: ContentBlock) -> Rendered {
    match block {
        ContentBlock::Text(text) => Rendered::Text(text.text),
        ContentBlock::Image(image) => media(image.data, &image.mime_type, "image"),
        ContentBlock::Audio(audio) => media(audio.data, &audio.mime_type, "audio"),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Rendered::Text(text),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                let name = uri.rsplit('/').next().unwrap_or_default();
                media(blob, &mime, if name.is_empty() { "resource" } else { name })
            }
            _ => unknown(),
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.map(|about| format!(": {about}")).unwrap_or_default();
            let name = clip(link.name, MAX_NAME);
            Rendered::Text(format!("[resource {name}, {}{about}]", clip(link.uri, MAX_NAME)))
        }
        _ => unknown(),
    }
}

fn unknown() -> Rendered {
    Rendered::Text(UNKNOWN.to_owned())
}

/// Attaches an image that models can see. Any other content is replaced by a line that names it.
/// The bytes decide, not the MIME type that the server gives.
fn media(base64: String, mime: &str, name: &str) -> Rendered {
    let name = clip(name.to_owned(), MAX_NAME);
    let bytes = decode(&base64);
    let known = bytes.as_deref().and_then(recognise);
    match (bytes, known) {
        (Some(bytes), Some(known)) if bytes.len() as u64 <= known.max => {
            Rendered::Media(Attachment { mime: known.mime.to_owned(), name, base64 })
        }
        (bytes, _) => {
            let size =
                bytes.map_or_else(|| "not base64".to_owned(), |b| format!("{} bytes", b.len()));
            let mime = clip(mime.to_owned(), MAX_NAME);
            Rendered::Text(format!("[{name}: {mime}, {size}, cannot be shown]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_very_many_parts_is_cut_and_says_so() {
        let part = json!({ "type": "text", "text": "x" });
        let parts = |count| shown(json!({ "content": vec![part.clone(); count] })).output;
        assert_eq!(parts(MAX_PARTS).lines().count(), MAX_PARTS);
        let cut = parts(MAX_PARTS + 7);
        assert_eq!(cut.lines().count(), MAX_PARTS + 1);
        assert!(cut.ends_with("[7 more parts are left out: 1024 are shown at most]"), "{cut}");
    }

    fn shown(result: Value) -> Output {
        output("T".to_owned(), serde_json::from_value(result).unwrap())
    }

    #[test]
    fn each_kind_of_content_is_shown_or_named() {
        let image = "iVBORw0KGgo=";
        for (content, said, attached) in [
            (json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]), "a\nb", 0),
            (json!([]), "(no output)", 0),
            (
                json!([{ "type": "image", "data": image, "mimeType": "image/jpeg" }]),
                "The result is attached.",
                1,
            ),
            (
                json!([{ "type": "image", "data": "?", "mimeType": "image/png" }]),
                "[image: image/png, not base64, cannot be shown]",
                0,
            ),
            (
                json!([{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }]),
                "[audio: audio/wav, 3 bytes, cannot be shown]",
                0,
            ),
            (json!([{ "type": "resource", "resource": { "uri": "x:/a", "text": "t" } }]), "t", 0),
            (
                json!([{ "type": "resource", "resource": { "uri": "x:/a.png", "blob": image } }]),
                "The result is attached.",
                1,
            ),
            (
                json!([{ "type": "resource_link", "uri": "x:/a", "name": "n", "description": "d" }]),
                "[resource n, x:/a: d]",
                0,
            ),
        ] {
            let output = shown(json!({ "content": content }));
            assert_eq!((output.output.as_str(), output.attachments.len()), (said, attached));
            assert!(!output.is_error);
        }
    }

    #[test]
    fn the_bytes_of_an_image_tell_its_kind() {
        let block = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/jpeg" });
        let output = shown(json!({ "content": [block] }));
        assert_eq!(output.attachments[0].mime, "image/png");
    }

    #[test]
    fn structured_results_count_where_there_is_nothing_else() {
        let output = shown(json!({ "content": [], "structuredContent": { "n": 1 } }));
        assert_eq!(output.output, r#"{"n":1}"#);
        let text = json!([{ "type": "text", "text": "one" }]);
        let output = shown(json!({ "content": text, "structuredContent": { "n": 1 } }));
        assert_eq!(output.output, "one");
    }

    #[test]
    fn an_error_is_one() {
        let text = json!([{ "type": "text", "text": "no" }]);
        let output = shown(json!({ "content": text, "isError": true }));
        assert!(output.is_error);
        assert_eq!(output.meta()["error_kind"], "mcp");
    }

    #[test]
    fn answers_that_are_no_results_are_read_as_far_as_that_goes() {
        let strange = json!([{ "type": "hologram" }, { "type": "text", "text": "b" }]);
        for (said, text, is_error) in [
            (json!(null), "(no output)", false),
            (json!("plain"), "plain", false),
            (json!([1]), "[1]", false),
            (json!({ "n": 1 }), r#"{"n":1}"#, false),
            (json!({ "content": "plain", "isError": true }), "plain", true),
            (json!({ "content": strange }), "[content of an unknown kind]\nb", false),
        ] {
            let output = output("T".to_owned(), lenient(said));
            assert_eq!((output.output.as_str(), output.is_error), (text, is_error));
        }
    }
}
