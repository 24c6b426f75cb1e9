//! The content of a message: a string where possible, since not every server accepts a list of
//! parts.

use serde_json::{Value, json};

use crate::shape::{self, missing_file};
use crate::vendors::Vendor;

const MARKED_SYSTEM_BLOCKS: usize = 2;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    parts: Vec<Value>,
    /// Whether the parts must stay separate, because they are more than text.
    apart: bool,
}

impl Content {
    pub(super) fn from_text(text: &str) -> Self {
        let mut content = Self::default();
        content.text(text);
        content
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds text. Blank texts are omitted, because some servers refuse them.
    pub(super) fn text(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.parts.push(json!({ "type": "text", "text": text }));
        }
    }

    /// Adds a file, or the text that replaces it.
    pub(super) fn media(&mut self, media: Result<Value, String>) {
        match media {
            Ok(part) => {
                self.parts.push(part);
                self.apart = true;
            }
            Err(words) => self.text(&words),
        }
    }

    pub(super) fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.apart |= other.apart;
    }

    pub(super) fn into_value(self) -> Value {
        if self.apart {
            return self.parts.into();
        }
        let texts: Vec<&str> = self.parts.iter().filter_map(|part| part["text"].as_str()).collect();
        texts.join("\n\n").into()
    }

    /// Keeps the parts separate.
    pub(super) fn set_apart(&mut self) {
        self.apart = true;
    }

    /// Puts a cache mark on the last text.
    pub(super) fn mark(&mut self) {
        if let Some(part) = self.parts.iter_mut().rev().find(|part| part["type"] == "text") {
            part["cache_control"] = ephemeral();
        }
    }
}

/// The system prompt as one message: templates of many models accept only one, and only at the
/// beginning. Its first blocks are marked if parts get marks.
pub(super) fn system(blocks: &[String], is_marked: bool) -> Option<Content> {
    let mut content = Content::default();
    blocks.iter().for_each(|block| content.text(block));
    if is_marked {
        content.apart = true;
        for block in content.parts.iter_mut().take(MARKED_SYSTEM_BLOCKS) {
            block["cache_control"] = ephemeral();
        }
    }
    (!content.is_empty()).then_some(content)
}

pub(super) fn ephemeral() -> Value {
    json!({ "type": "ephemeral" })
}

/// A file as a part of a user message, or a text that says why it is missing.
pub(super) fn media(
    vendor: &Vendor,
    mime: &str,
    name: &str,
    base64: &str,
) -> Result<Value, String> {
    Ok(match file(vendor, mime, name, base64)? {
        File::Image { url } => json!({ "type": "image_url", "image_url": { "url": url } }),
        File::Pdf { name, url } => {
            json!({ "type": "file", "file": { "filename": name, "file_data": url } })
        }
    })
}

/// A file of a type that a vendor accepts, with its content as a URL.
pub(crate) enum File<'a> {
    Image { url: String },
    Pdf { name: &'a str, url: String },
}

/// The file, or a text that says why it is missing.
pub(crate) fn file<'a>(
    vendor: &Vendor,
    mime: &str,
    name: &'a str,
    base64: &str,
) -> Result<File<'a>, String> {
    let mime = shape::mime(mime);
    let url = format!("data:{mime};base64,{base64}");
    match mime.as_str() {
        _ if base64.is_empty() => Err(missing_file(name, &mime, base64)),
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" if vendor.images => {
            Ok(File::Image { url })
        }
        "application/pdf" if vendor.files => {
            Ok(File::Pdf { name: if name.is_empty() { "file.pdf" } else { name }, url })
        }
        _ => Err(missing_file(name, &mime, base64)),
    }
}
