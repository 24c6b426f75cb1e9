//! Classifies a response: web page, other text, image or PDF, and its encoding.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use reqwest::Url;

use crate::media::{self, Media};
use crate::text;

/// Bytes at the start of a page that are searched for its encoding. The standard says 1024, but
/// some pages have long comments before it.
const PRESCAN: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) url: Url,
    /// The value of `content-type`; empty if it is missing.
    pub(crate) declared: String,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Html(String),
    Text(String),
    Media(Media),
    Binary,
}

impl Page {
    /// The type that the server states, in lower case, without parameters.
    pub(crate) fn mime(&self) -> String {
        let mime = self.declared.split(';').next().unwrap_or_default();
        text::clip(mime.trim().to_ascii_lowercase(), 100)
    }

    /// The kind of the content. It is judged by the bytes, because servers state all kinds of types
    /// for text.
    pub(crate) fn shape(&self) -> Shape {
        if let Some(media) = media::recognise(&self.bytes) {
            return Shape::Media(media);
        }
        let text = self.encoding().decode(&self.bytes).0.into_owned();
        if !text::looks_like_text(&text.as_bytes()[..text::floor(&text, text::SAMPLE)]) {
            return Shape::Binary;
        }
        if self.is_html(&text) { Shape::Html(text) } else { Shape::Text(text) }
    }

    fn is_html(&self, text: &str) -> bool {
        match self.mime().as_str() {
            "text/html" | "application/xhtml+xml" => true,
            "" | "application/octet-stream" => {
                let start = &text[..text::floor(text, PRESCAN)];
                let start = start.trim_start().to_ascii_lowercase();
                start.starts_with("<!doctype html") || start.starts_with("<html")
            }
            _ => false,
        }
    }

    /// The encoding: by the byte order mark, the server's header, the page's own tag; else UTF-8 if
    /// the bytes are valid, or windows-1252.
    fn encoding(&self) -> &'static Encoding {
        if let Some((encoding, _)) = Encoding::for_bom(&self.bytes) {
            return encoding;
        }
        let start = &self.bytes[..self.bytes.len().min(PRESCAN)];
        let start = String::from_utf8_lossy(start);
        let by_page = || {
            labelled(&start, "<meta", "charset").or_else(|| labelled(&start, "<?xml", "encoding"))
        };
        let by_server = value(&self.declared, "charset");
        let guess = if std::str::from_utf8(&self.bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
        by_server.or_else(by_page).unwrap_or(guess)
    }
}

/// The encoding that a tag beginning with `tag` gives for `key`. It cannot be UTF-16, or the tag
/// would have been unreadable.
fn labelled(start: &str, tag: &str, key: &str) -> Option<&'static Encoding> {
    let lower = start.to_ascii_lowercase();
    let mut tags = lower.match_indices(tag).map(|(at, _)| &lower[at..]);
    let named = tags.find_map(|tag| value(tag.split('>').next()?, key))?;
    Some(if named == UTF_16BE || named == UTF_16LE { UTF_8 } else { named })
}

/// The encoding named by `key = label` in `text`, with or without quotes.
fn value(text: &str, key: &str) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    lower.match_indices(key).find_map(|(at, _)| {
        let rest = lower[at + key.len()..].trim_start().strip_prefix('=')?.trim_start();
        let rest = rest.trim_start_matches(['"', '\'']);
        let label = rest.split(|c: char| c.is_whitespace() || "\"';>/?".contains(c)).next()?;
        Encoding::for_label(label.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(declared: &str, bytes: &[u8]) -> Page {
        let url = Url::parse("https://example.com/").unwrap();
        Page { url, declared: declared.to_owned(), bytes: bytes.to_vec() }
    }

    #[test]
    fn encodings() {
        for (declared, bytes, text) in [
            ("text/plain", "grün".as_bytes(), "grün"),
            ("text/plain", b"gr\xfcn", "grün"),
            ("text/plain; charset=ISO-8859-1", b"gr\xfcn", "grün"),
            ("text/plain; charset=\"koi8-r\"", b"\xd0\xd2\xc9", "при"),
            ("text/plain;charset=shift_jis", b"\x93\xfa\x96\x7b", "日本"),
            ("text/plain; charset=utf-16le", b"a\0b\0", "ab"),
            ("text/plain; charset=nonsense", "ü".as_bytes(), "ü"),
            ("text/plain; charset=iso-8859-1", b"\xef\xbb\xbf\xc3\xbc", "ü"),
            ("", b"\xff\xfea\0b\0", "ab"),
            (
                "",
                b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1",
                "<?xml version='1.0' encoding='iso-8859-2'?>ą",
            ),
            ("text/plain", b"", ""),
        ] {
            assert_eq!(page(declared, bytes).shape(), Shape::Text(text.to_owned()), "{declared}");
        }
        for (declared, head) in [
            ("text/html", "<META CHARSET=windows-1251>"),
            ("text/html", "<meta name=x><meta charset = \"windows-1251\">"),
            (
                "text/html",
                "<meta http-equiv='Content-Type' content='text/html; charset=windows-1251'>",
            ),
            ("text/html; charset=windows-1251", "<meta charset=utf-8>"),
        ] {
            let bytes = [head.as_bytes(), b"\xe4\xe0"].concat();
            assert_eq!(page(declared, &bytes).shape(), Shape::Html(format!("{head}да")));
        }
        let utf16 = page("text/html", "<meta charset=utf-16>ü".as_bytes());
        assert_eq!(utf16.shape(), Shape::Html("<meta charset=utf-16>ü".to_owned()));
    }

    #[test]
    fn shapes() {
        for (declared, bytes, shape) in [
            ("application/json", &b"{}"[..], Shape::Text("{}".to_owned())),
            ("image/svg+xml", b"<svg/>", Shape::Text("<svg/>".to_owned())),
            ("", b"  <!DOCTYPE html><p>", Shape::Html("  <!DOCTYPE html><p>".to_owned())),
            ("text/plain", b"<html>", Shape::Text("<html>".to_owned())),
            ("Text/HTML ; a=b", b"x", Shape::Html("x".to_owned())),
            ("application/zip", b"PK\x03\x04\0\0", Shape::Binary),
            ("text/plain", b"a\0b", Shape::Binary),
            ("application/octet-stream", b"\x7fELF\x01\x01\0", Shape::Binary),
            ("text/html", b"%PDF-1.7", Shape::Media(media::recognise(b"%PDF-").unwrap())),
        ] {
            assert_eq!(page(declared, bytes).shape(), shape, "{declared}");
        }
    }
}
