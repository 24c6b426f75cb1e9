//! Types of images and documents, and images that APIs refuse. Their headers are read; no picture is decoded.

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

/// Standard base64 with padding (RFC 4648, section 4). It ignores bits after the last byte, which some clients do not clear.
pub const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Most bytes of an image in base64, of all APIs that name a limit
/// (<https://docs.claude.com/en/docs/build-with-claude/vision>).
pub const MAX_IMAGE_BASE64: usize = 5 << 20;

/// Most pixels of a side of an image.
pub const MAX_SIDE: u32 = 8_000;

/// With more images than this in a request, a side has at most [`MAX_SIDE_OF_MANY`] pixels.
pub const MANY: usize = 20;
pub const MAX_SIDE_OF_MANY: u32 = 2_000;

/// Bytes of a JPEG in which its frame header is looked for: metadata comes before it.
const JPEG_HEAD: usize = 1 << 20;

/// Bytes of a GIF's header.
const GIF_HEAD: usize = 13;

/// Bytes that hold the header of any other image.
const HEAD: usize = 64;

pub const PDF: &str = "application/pdf";

/// The media type of a file that models can see, by its first bytes. `None` for other files.
pub fn type_of(head: &[u8]) -> Option<&'static str> {
    Some(match head {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', b'-', ..] => PDF,
        _ => return None,
    })
}

/// Why an API would refuse the image. `None` if it would not, if nothing is known about it, or if it is no image.
pub fn unfit(mime: &str, base64: &str, max_side: u32) -> Option<String> {
    if !mime.starts_with("image/") {
        return None;
    }
    if base64.len() > MAX_IMAGE_BASE64 {
        let (size, most) = (base64.len() / 4 * 3, MAX_IMAGE_BASE64 / 4 * 3);
        return Some(format!("it has {size} bytes, and at most {most} can be sent"));
    }
    let (width, height) = sides(base64)?;
    (width.max(height) > max_side).then(|| {
        format!("it is {width} × {height} pixels, and a side of at most {max_side} can be sent")
    })
}

/// Width and height of a PNG, JPEG, GIF or WebP image in base64. `None` if its header does not say them.
pub fn sides(base64: &str) -> Option<(u32, u32)> {
    let start = head(base64, HEAD);
    if start.starts_with(&[0xff, 0xd8, 0xff]) {
        return jpeg(&head(base64, JPEG_HEAD));
    }
    of_header(&start)
}

/// The first bytes, at most `most`.
fn head(base64: &str, most: usize) -> Vec<u8> {
    let start = base64.get(..most.div_ceil(3) * 4).unwrap_or(base64);
    BASE64.decode(start).unwrap_or_default()
}

/// Width and height of a PNG, GIF or WebP.
fn of_header(bytes: &[u8]) -> Option<(u32, u32)> {
    let byte = |at: usize| bytes.get(at).copied().map(u32::from);
    let little = |at: usize| Some(byte(at)? | byte(at + 1)? << 8);
    let big = |at: usize| {
        Some(byte(at)? << 24 | byte(at + 1)? << 16 | byte(at + 2)? << 8 | byte(at + 3)?)
    };
    match (bytes, bytes.get(12..16)) {
        ([0x89, b'P', b'N', b'G', ..], _) => Some((big(16)?, big(20)?)),
        ([b'G', b'I', b'F', b'8', ..], _) if bytes.len() >= GIF_HEAD => {
            Some((little(6)?, little(8)?))
        }
        ([b'R', b'I', b'F', b'F', ..], Some(b"VP8 ")) => {
            Some((little(26)? & 0x3fff, little(28)? & 0x3fff))
        }
        ([b'R', b'I', b'F', b'F', ..], Some(b"VP8L")) => {
            let bits = little(21)? | little(23)? << 16;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        ([b'R', b'I', b'F', b'F', ..], Some(b"VP8X")) => {
            let three = |at: usize| Some((little(at)? | byte(at + 2)? << 16) + 1);
            Some((three(24)?, three(27)?))
        }
        _ => None,
    }
}

/// Width and height from the first frame header of a JPEG.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let pair = |at: usize| Some(u32::from(*bytes.get(at)?) << 8 | u32::from(*bytes.get(at + 1)?));
    let mut at = 2;
    loop {
        let marker = pair(at)?;
        match marker {
            0xffc0..=0xffc3 | 0xffc5..=0xffc7 | 0xffc9..=0xffcb | 0xffcd..=0xffcf => {
                return Some((pair(at + 7)?, pair(at + 5)?));
            }
            // a fill byte
            0xffff => at += 1,
            0xff00.. => at += 2 + usize::try_from(pair(at + 2)?).ok()?,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_refused_by_its_longer_side() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x1f\x41\0\0\0\x10rest";
        let gif = b"GIF89a\x10\0\x20\0rest";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\x10\x09\x20\x0arest";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\0\x06\x20rest";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\xff\xff\xff\x0frest";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x04\0\0\x06\x20\0rest";
        for (bytes, fits, longer) in [
            (&png[..], 8_001, "8001 × 16"),
            (gif, 32, "16 × 32"),
            (jpeg, 8_202, "8202 × 4105"),
            (lossy, 8_198, "5 × 8198"),
            (lossless, 16_384, "16384 × 16384"),
            (extended, 8_199, "5 × 8199"),
        ] {
            let base64 = BASE64.encode(bytes);
            assert_eq!(unfit("image/x", &base64, fits), None, "{longer}");
            assert!(unfit("image/x", &base64, fits - 1).unwrap().contains(longer), "{longer}");
            assert_eq!(unfit("application/pdf", &base64, 1), None);
        }
        // nothing is known about these
        for base64 in ["", "iVBORw0K", "/9j/", "no base64", "ä"] {
            assert_eq!(unfit("image/png", base64, 1), None, "{base64}");
        }
    }

    #[test]
    fn an_image_is_refused_by_its_size_in_base64() {
        let most = "A".repeat(MAX_IMAGE_BASE64);
        assert_eq!(unfit("image/png", &most, 1), None);
        let why = unfit("image/png", &(most + "AAAA"), 1).unwrap();
        assert_eq!(why, "it has 3932163 bytes, and at most 3932160 can be sent");
    }
}
