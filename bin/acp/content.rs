//! What a client sends as a prompt, as parts of one.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent,
    ResourceLink, TextResourceContents,
};
use leftfold_events::event::{PromptKind, PromptPart};
use serde_json::json;

/// The parts of a prompt.
///
/// # Errors
/// `invalid params` for a prompt that is empty, or for content that is not understood; it names
/// which.
pub(super) fn parts(blocks: Vec<ContentBlock>) -> Result<Vec<PromptPart>, Error> {
    let mut parts = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.into_iter().enumerate() {
        let part = part(block).map_err(|what| invalid(&format!("prompt[{index}]: {what}")))?;
        parts.push(part);
    }
    let says_something =
        |part: &PromptPart| part.kind == PromptKind::Media || !part.text.trim().is_empty();
    if !parts.iter().any(says_something) {
        return Err(invalid("the prompt is empty"));
    }
    Ok(parts)
}

pub(super) fn invalid(what: &str) -> Error {
    Error::invalid_params().data(json!(what))
}

fn part(block: ContentBlock) -> Result<PromptPart, String> {
    match block {
        ContentBlock::Text(text) => Ok(PromptPart::text(text.text)),
        ContentBlock::Image(image) => image_part(image),
        ContentBlock::ResourceLink(link) => Ok(PromptPart::text(link_text(&link))),
        ContentBlock::Resource(EmbeddedResource { resource, .. }) => resource_part(resource),
        ContentBlock::Audio(_) => Err("audio is not understood".into()),
        _ => Err("this kind of content is not understood".into()),
    }
}

fn image_part(image: ImageContent) -> Result<PromptPart, String> {
    media(image.data, image.mime_type, image.uri.as_deref().map(name_of))
}

fn media(base64: String, mime: String, name: Option<String>) -> Result<PromptPart, String> {
    let known = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    if base64.is_empty() || !base64.len().is_multiple_of(4) || !base64.as_bytes().iter().all(known)
    {
        return Err("its data is not base64".into());
    }
    Ok(PromptPart { kind: PromptKind::Media, text: base64, mime: Some(mime), name })
}

fn link_text(link: &ResourceLink) -> String {
    let place = path_of(&link.uri);
    match &link.description {
        Some(description) => format!("[{}]({place}) {description}", link.name),
        None => format!("[{}]({place})", link.name),
    }
}

fn resource_part(resource: EmbeddedResourceResource) -> Result<PromptPart, String> {
    match resource {
        EmbeddedResourceResource::TextResourceContents(TextResourceContents {
            text, uri, ..
        }) => {
            let place = path_of(&uri);
            let text = format!("<resource uri=\"{place}\">\n{text}\n</resource>");
            Ok(PromptPart { name: Some(place.to_owned()), ..PromptPart::text(text) })
        }
        EmbeddedResourceResource::BlobResourceContents(BlobResourceContents {
            blob,
            mime_type,
            uri,
            ..
        }) => {
            let mime = mime_type.ok_or("a resource of bytes needs a mimeType")?;
            media(blob, mime, Some(name_of(&uri)))
        }
        _ => Err("this kind of resource is not understood".into()),
    }
}

/// A file's path, which the tools understand, or the URI as it is.
fn path_of(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

fn name_of(uri: &str) -> String {
    uri.rsplit('/').next().unwrap_or(uri).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(blocks: serde_json::Value) -> Result<Vec<PromptPart>, String> {
        let blocks = serde_json::from_value(blocks).unwrap();
        parts(blocks).map_err(|error| error.data.unwrap().to_string())
    }

    #[test]
    fn text_links_and_resources_become_text() {
        let parts = read(json!([
            { "type": "text", "text": "Look at" },
            { "type": "resource_link", "name": "a.rs", "uri": "file:///p/a.rs" },
            { "type": "resource", "resource": { "uri": "file:///p/b.rs", "text": "fn b() {}" } },
        ]))
        .unwrap();
        let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
        let resource = "<resource uri=\"/p/b.rs\">\nfn b() {}\n</resource>";
        assert_eq!(texts, ["Look at", "[a.rs](/p/a.rs)", resource]);
        assert!(parts.iter().all(|part| part.kind == PromptKind::Text));
    }

    #[test]
    fn pictures_become_media() {
        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png", "uri": "file:///x/y.png" });
        let parts = read(json!([image])).unwrap();
        assert_eq!(
            (parts[0].kind, parts[0].mime.as_deref()),
            (PromptKind::Media, Some("image/png"))
        );
        assert_eq!(parts[0].name.as_deref(), Some("y.png"));
        let blob = json!({ "uri": "file:///x/z.gif", "blob": "AAAA", "mimeType": "image/gif" });
        let parts = read(json!([{ "type": "resource", "resource": blob }])).unwrap();
        assert_eq!(parts[0].mime.as_deref(), Some("image/gif"));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let text = json!({ "type": "text", "text": "a" });
        let audio = json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" });
        let error = read(json!([text, audio])).unwrap_err();
        assert!(error.contains("prompt[1]") && error.contains("audio"), "{error}");
        let broken = json!({ "type": "image", "data": "no base64", "mimeType": "image/png" });
        assert!(read(json!([broken])).unwrap_err().contains("base64"));
        for empty in [json!([]), json!([{ "type": "text", "text": " \n" }])] {
            assert!(read(empty).unwrap_err().contains("empty"));
        }
    }
}
