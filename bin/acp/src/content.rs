//! Converts the content of a client's prompt to prompt parts.

use std::borrow::Cow;

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
/// `invalid params` if the prompt is empty, or for content that is not supported; the error names
/// it.
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
        ContentBlock::ResourceLink(link) => Ok(PromptPart::quoted(link_text(&link))),
        ContentBlock::Resource(EmbeddedResource { resource, .. }) => resource_part(resource),
        ContentBlock::Audio(_) => Err("audio is not supported".into()),
        _ => Err("this kind of content is not supported".into()),
    }
}

fn image_part(image: ImageContent) -> Result<PromptPart, String> {
    media(image.data, image.uri.as_deref().map(name_of))
}

/// Refuses media that no model accepts, because in the log it would fail every later request too.
/// The type follows from the bytes, not from the client.
fn media(base64: String, name: Option<String>) -> Result<PromptPart, String> {
    let bytes = leftfold_tools::decode(&base64).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or("its data is not base64")?;
    let known = leftfold_tools::recognise(&bytes);
    let known = known.ok_or("it is neither a PNG, JPEG, GIF or WebP image nor a PDF")?;
    if bytes.len() as u64 > known.max {
        let (kind, most) = (known.mime, known.max);
        return Err(format!(
            "it has {} bytes; models accept {kind} of at most {most}",
            bytes.len()
        ));
    }
    let mime = Some(known.mime.to_owned());
    Ok(PromptPart { kind: PromptKind::Media, text: base64, mime, name })
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
            Ok(PromptPart { name: Some(place.into_owned()), ..PromptPart::text(text) })
        }
        EmbeddedResourceResource::BlobResourceContents(BlobResourceContents {
            blob, uri, ..
        }) => media(blob, Some(name_of(&uri))),
        _ => Err("this kind of resource is not supported".into()),
    }
}

/// A file's path, which the tools understand, or the URI unchanged.
fn path_of(uri: &str) -> Cow<'_, str> {
    uri.strip_prefix("file://").map_or(Cow::Borrowed(uri), decoded)
}

fn name_of(uri: &str) -> String {
    let path = path_of(uri);
    path.rsplit('/').next().unwrap_or(&path).to_owned()
}

/// Editors percent-encode spaces and non-ASCII characters in paths.
fn decoded(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(path.len()), path.as_bytes());
    while let [first, more @ ..] = rest {
        let digits = more.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let coded = digits.filter(|_| *first == b'%');
        let coded = coded.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = coded.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    // Bytes that are not UTF-8 were meant literally.
    String::from_utf8(bytes).map_or(Cow::Borrowed(path), Cow::Owned)
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
    fn paths_are_what_the_tools_take() {
        for (uri, path) in [
            ("file:///p/a%20b.rs", "/p/a b.rs"),
            ("file:///p/gr%C3%B6%C3%9Fe.rs", "/p/größe.rs"),
            ("file:///p/50%25.rs", "/p/50%.rs"),
            ("file:///p/50%.rs", "/p/50%.rs"),
            ("file:///p/%+1%zz%2", "/p/%+1%zz%2"),
            ("file:///p/%ff.rs", "/p/%ff.rs"),
            ("https://host/a%20b", "https://host/a%20b"),
        ] {
            assert_eq!(path_of(uri), path);
        }
        let link =
            json!({ "type": "resource_link", "name": "a b.rs", "uri": "file:///p/a%20b.rs" });
        assert_eq!(read(json!([link])).unwrap()[0].text, "[a b.rs](/p/a b.rs)");
    }

    /// The first bytes of a PNG image.
    const PNG: &str = "iVBORw0KGgo=";

    #[test]
    fn pictures_become_media() {
        let image = json!({ "type": "image", "data": PNG, "mimeType": "image/jpeg", "uri": "file:///x/y%20z.png" });
        let parts = read(json!([image])).unwrap();
        assert_eq!(
            (parts[0].kind, parts[0].mime.as_deref()),
            (PromptKind::Media, Some("image/png"))
        );
        assert_eq!(parts[0].name.as_deref(), Some("y z.png"));
        let blob = json!({ "uri": "file:///x/z.png", "blob": PNG });
        let parts = read(json!([{ "type": "resource", "resource": blob }])).unwrap();
        assert_eq!(parts[0].mime.as_deref(), Some("image/png"));
    }

    #[test]
    fn what_models_can_not_be_shown_is_refused() {
        for (data, why) in [
            ("AAAA".to_owned(), "neither a PNG"),
            ("====".to_owned(), "base64"),
            (String::new(), "base64"),
            ("iVBORw0KGgoA".to_owned() + &"AAAA".repeat(2 << 20), "at most 3932160"),
        ] {
            let image = json!({ "type": "image", "data": data, "mimeType": "image/png" });
            let error = read(json!([image])).unwrap_err();
            assert!(error.contains("prompt[0]") && error.contains(why), "{error}");
        }
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
