//! Recognises images and PDFs, which models see as attachments.

use leftfold_events::media::MAX_IMAGE_BASE64;

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
    let mime = match sample {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
        _ => return None,
    };
    let max = if mime == "application/pdf" { MAX_PDF } else { MAX_IMAGE };
    Some(Media { mime, max })
}

/// Standard base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| group.get(i).copied().map_or(0, u32::from);
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            text.push(if place > group.len() { '=' } else { char::from(DIGITS[digit as usize]) });
        }
    }
    text
}

/// Decodes standard base64 with padding. `None` if it is invalid.
pub fn decode(base64: &str) -> Option<Vec<u8>> {
    let digits = base64.trim_end_matches('=');
    if !base64.len().is_multiple_of(4) || base64.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(base64.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        bits = bits << 6 | digit_value(digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

fn digit_value(digit: u8) -> Option<u32> {
    Some(match digit {
        b'A'..=b'Z' => u32::from(digit - b'A'),
        b'a'..=b'z' => u32::from(digit - b'a') + 26,
        b'0'..=b'9' => u32::from(digit - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
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
        for wrong in ["A", "AA", "A===", "AA=A", "A-==", "Zg= ", "?"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
    }
}
