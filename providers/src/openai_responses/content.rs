//! The content of a message or a result.

use serde_json::{Value, json};

use crate::openai_chat::{File, file};
use crate::shape::NO_TEXT;
use crate::vendors::Vendor;

/// Parts of a user message, or of a result.
#[derive(Debug, Default)]
pub(super) struct Content(Vec<Value>);

impl Content {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds text. Blank texts are omitted, because some servers refuse them.
    pub(super) fn text(&mut self, text: &str) {
        if !text.trim().is_empty() {
            self.0.push(json!({ "type": "input_text", "text": text }));
        }
    }

    /// Adds a file, or the text that replaces it.
    pub(super) fn media(&mut self, media: Result<Value, String>) {
        match media {
            Ok(part) => self.0.push(part),
            Err(words) => self.text(&words),
        }
    }

    /// As parts; at least one.
    pub(super) fn into_parts(mut self) -> Vec<Value> {
        if self.is_empty() {
            self.text(NO_TEXT);
        }
        self.0
    }

    /// As a string if it is only text, since not every server accepts parts in a result.
    pub(super) fn into_output(self) -> Value {
        let parts = self.into_parts();
        if parts.iter().any(|part| part["type"] != "input_text") {
            return parts.into();
        }
        let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
        texts.join("\n\n").into()
    }
}

/// A file as a part, or a text that says why it is missing.
pub(super) fn media(
    vendor: &Vendor,
    mime: &str,
    name: &str,
    base64: &str,
) -> Result<Value, String> {
    Ok(match file(vendor, mime, name, base64)? {
        File::Image { url } => {
            json!({ "type": "input_image", "image_url": url, "detail": "auto" })
        }
        File::Pdf { name, url } => {
            json!({ "type": "input_file", "filename": name, "file_data": url })
        }
    })
}

/// Whether results may hold files. OpenAI itself accepts them; other servers pass results on to
/// templates that accept only text.
pub(super) fn results_take_files(vendor: &Vendor) -> bool {
    vendor.is_openai()
}
