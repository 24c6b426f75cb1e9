//! Judges images and documents by the limits of the APIs: their size, their type, their number. It
//! reads headers only, and decodes no picture.

use base64::Engine as _;
pub(crate) use leftfold_events::media::PDF;
use leftfold_events::media::{self, BASE64};

/// Limits of an API for the media of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of base64.
    bytes: usize,
    /// Pixels of a side.
    side: u32,
    /// Above this number of images, `many_side` is the limit of a side.
    pub(crate) many: usize,
    pub(crate) many_side: u32,
    /// Images.
    pub(crate) most: usize,
}

/// <https://docs.claude.com/en/docs/build-with-claude/vision>. The API measures the base64.
pub(crate) const ANTHROPIC: Limits =
    Limits { bytes: 5 << 20, side: 8_000, many: 20, many_side: 2_000, most: 100 };

/// <https://platform.openai.com/docs/guides/images-vision>.
pub(crate) const OPENAI: Limits =
    Limits { bytes: 50 << 20, side: u32::MAX, many: usize::MAX, many_side: u32::MAX, most: 500 };

/// Bytes of base64 of a document.
const LONGEST_DOCUMENT: usize = 32 << 20;

/// A fault of an image or a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is fine as this type.
    Type(&'static str),
    /// No type makes it acceptable: the reason.
    Unusable(String),
}

/// The fault of an image or a PDF, or else the image's longer side.
pub(crate) fn judge(mime: &str, base64: &str, limits: &Limits) -> Result<u32, Fault> {
    let unusable = |why: &str| Err(Fault::Unusable(why.to_owned()));
    if base64.is_empty() {
        return unusable("empty");
    }
    let Ok(head) = BASE64.decode(base64) else { return unusable("not base64") };
    let most = if head.starts_with(b"%PDF") { LONGEST_DOCUMENT } else { limits.bytes };
    if base64.len() > most {
        let size = format!("{} in base64, limit {}", mebibytes(base64.len()), mebibytes(most));
        return Err(Fault::Unusable(size));
    }
    let Some(is) = media::type_of(&head) else {
        return unusable("neither PNG, JPEG, GIF, WebP nor PDF");
    };
    let side = match is {
        PDF => 0,
        _ => match media::sides(base64) {
            Some((width, height)) if width > 0 && height > 0 => width.max(height),
            // metadata may come before a JPEG's frame header
            None if is == "image/jpeg" => 0,
            _ => return unusable("its header is cut off"),
        },
    };
    if side > limits.side {
        return Err(Fault::Unusable(format!("{side} pixels, limit {}", limits.side)));
    }
    if is == mime { Ok(side) } else { Err(Fault::Type(is)) }
}

/// Bytes for people.
fn mebibytes(bytes: usize) -> String {
    let tenths = (bytes * 10).div_ceil(1 << 20);
    match tenths % 10 {
        0 => format!("{} MiB", tenths / 10),
        rest => format!("{}.{rest} MiB", tenths / 10),
    }
}

/// Whether a text is base64 with its padding.
pub(crate) fn is_base64(text: &str) -> bool {
    BASE64.decode(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_read_from_each_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x1f\x41\0\0\0\x10rest";
        let gif = b"GIF89a\x10\0\x20\0rest";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\0\x09\0\x0arest";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\0\x06\0rest";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x40\x01\0rest";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x04\0\0\x06\0\0rest";
        let long = Err(Fault::Unusable("8001 pixels, limit 8000".to_owned()));
        for (mime, bytes, expected) in [
            ("image/png", &png[..], long),
            ("image/gif", gif, Ok(32)),
            ("image/jpeg", jpeg, Ok(10)),
            ("image/webp", lossy, Ok(6)),
            ("image/webp", lossless, Ok(6)),
            ("image/webp", extended, Ok(7)),
            ("image/png", gif, Err(Fault::Type("image/gif"))),
            ("application/pdf", b"%PDF-1.4", Ok(0)),
            ("image/png", &png[..20], Err(Fault::Unusable("its header is cut off".to_owned()))),
            (
                "image/png",
                b"hi",
                Err(Fault::Unusable("neither PNG, JPEG, GIF, WebP nor PDF".to_owned())),
            ),
            ("image/png", b"", Err(Fault::Unusable("empty".to_owned()))),
        ] {
            assert_eq!(
                judge(mime, &BASE64.encode(bytes), &ANTHROPIC),
                expected,
                "{mime} {bytes:?}"
            );
        }
        for text in ["aGk", "aG k", "a===", "aGk=aGk="] {
            assert!(!is_base64(text), "{text}");
        }
    }

    #[test]
    fn a_size_is_rounded_up() {
        let big = format!("iVBORw0K{}", "A".repeat(5 << 20));
        let Err(Fault::Unusable(why)) = judge("image/png", &big, &ANTHROPIC) else { panic!() };
        assert_eq!(why, "5.1 MiB in base64, limit 5 MiB");
    }
}
