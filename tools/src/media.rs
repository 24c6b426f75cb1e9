//! Recognises images and PDFs, which models see as attachments, and their largest sizes. `read`, `webfetch` and prompts
//! (`bin/runtime/src/prompt/attach.rs`) refuse larger ones.

use base64::Engine as _;
use leftfold_events::media::{self, BASE64, MAX_IMAGE_BASE64};

/// Largest image file in bytes; the APIs accept no more base64.
const MAX_IMAGE: u64 = (MAX_IMAGE_BASE64 / 4 * 3) as u64;

/// Largest PDF file in bytes.
const MAX_PDF: u64 = 10 * 1024 * 1024;

/// The media type of a file, judged by its first bytes and not by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Media {
    pub mime: &'static str,
    /// Largest size of the file in bytes.
    pub max: u64,
}

/// Recognises the type. `None` for files that models cannot see.
pub fn recognise(sample: &[u8]) -> Option<Media> {
    let mime = media::type_of(sample)?;
    let max = if mime == media::PDF { MAX_PDF } else { MAX_IMAGE };
    Some(Media { mime, max })
}

/// Standard base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Decodes standard base64 with padding. `None` if it is invalid.
pub fn decode(base64: &str) -> Option<Vec<u8>> {
    BASE64.decode(base64).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded);
            assert_eq!(decode(coded).unwrap(), plain.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
        assert_eq!(decode("+//+").unwrap(), [0xfb, 0xff, 0xfe]);
        assert_eq!(decode("Zh==").unwrap(), b"f");
        for wrong in ["A", "AA", "A===", "AA=A", "A-==", "Zg= ", "?"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
