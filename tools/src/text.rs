//! Distinguishes text from binary files, and loads text for a change.

use std::fs::Metadata;
use std::io::Read;
use std::path::Path;

pub(crate) use leftfold_framing::{clip, floor};

use crate::{Error, confined};

/// Bytes at the start of a file that decide its type.
pub(crate) const SAMPLE: usize = 8 * 1024;

/// Largest file in bytes that is loaded for a change.
const MAX_EDITABLE: u64 = 32 * 1024 * 1024;

pub(crate) const BOM: &str = "\u{feff}";

/// Formats that are binary even if their first bytes look like text.
const BINARY: &[&str] = &[
    "zip", "tar", "gz", "xz", "zst", "bz2", "7z", "rar", "jar", "war", "exe", "dll", "so", "dylib",
    "a", "o", "obj", "lib", "class", "pyc", "pyo", "wasm", "doc", "docx", "xls", "xlsx", "ppt",
    "pptx", "odt", "ods", "odp", "sqlite", "mp3", "mp4", "mkv", "avi", "mov", "flac", "ogg", "wav",
    "ttf", "otf", "woff", "woff2", "ico", "bmp", "tiff",
];

/// Refuses a file whose name or first bytes (`sample`) show that it is not text.
pub(crate) fn require(path: &Path, sample: &[u8]) -> Result<(), Error> {
    let shown = path.display();
    if sample.starts_with(&[0xff, 0xfe]) || sample.starts_with(&[0xfe, 0xff]) {
        return Err(Error::Binary(format!(
            "{shown} is UTF-16, not UTF-8. Convert it first, for example with iconv."
        )));
    }
    let known = path
        .extension()
        .and_then(|extension| extension.to_str())
        .is_some_and(|extension| BINARY.contains(&extension.to_lowercase().as_str()));
    if (known && !sample.is_empty()) || !looks_like_text(sample) {
        return Err(Error::Binary(format!("{shown} is a binary file, not text.")));
    }
    Ok(())
}

/// Whether the bytes look like text: no NUL, and at most three in ten characters that do not occur
/// in text (control characters, and bytes that are not UTF-8, of which text in an older encoding
/// has a few).
pub(crate) fn looks_like_text(sample: &[u8]) -> bool {
    if sample.contains(&0) {
        return false;
    }
    let text = String::from_utf8_lossy(sample);
    let odd = |c: &char| {
        *c == char::REPLACEMENT_CHARACTER
            || (c.is_control()
                && !matches!(c, '\n' | '\r' | '\t' | '\x0b' | '\x0c' | '\x1b' | '\x08'))
    };
    let count = text.chars().filter(odd).count();
    count * 10 <= text.chars().count() * 3
}

/// Loads a whole text file for a change. It must still be the file that was `found` at its path,
/// unchanged.
///
/// # Errors
/// It is binary, not UTF-8 (a change would garble it), or over 32 MiB; or it has changed since.
pub(crate) fn load(path: &Path, found: &Metadata) -> Result<String, Error> {
    confined::regular(path, found)?;
    let shown = path.display();
    if found.len() > MAX_EDITABLE {
        return Err(Error::TooLarge(format!(
            "{shown} has {} bytes; files over {MAX_EDITABLE} bytes cannot be edited with this tool.",
            found.len()
        )));
    }
    let (file, opened) = confined::open_found(path)?;
    if !confined::same(found, &opened) {
        return Err(Error::changed(path));
    }
    let mut bytes = Vec::new();
    file.take(MAX_EDITABLE)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::io("read", path, &error))?;
    require(path, &bytes[..bytes.len().min(SAMPLE)])?;
    match String::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => {
            Err(Error::Binary(format!("{shown} is a binary file, not text.")))
        }
        Ok(text) => Ok(text),
        Err(error) => Err(Error::Binary(format!(
            "{shown} is not UTF-8 (the byte at {} is the first that is not), so editing could garble it. Use a command that knows its encoding.",
            error.utf8_error().valid_up_to()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_binary() {
        for (name, sample, text) in [
            ("a.rs", &b"fn main() {}\n"[..], true),
            ("empty", b"", true),
            ("empty.zip", b"", true),
            ("a.log", b"\x1b[31mred\x1b[0m\r\n", true),
            ("latin1.txt", b"caf\xe9 und Stra\xdfe, sonst ganz normal", true),
            ("a.txt", b"one\0two", false),
            ("a.zip", b"not really", false),
            ("A.ZIP", b"not really", false),
            ("noise", b"\xf3\xe9\xff\x81\x80\x92\xc1abc", false),
            ("utf16.txt", b"\xff\xfeh\0i\0", false),
        ] {
            assert_eq!(require(Path::new(name), sample).is_ok(), text, "{name}");
        }
    }

    #[test]
    fn a_character_cut_by_the_end_of_the_sample_is_no_harm() {
        assert!(looks_like_text(&"ä".repeat(10).as_bytes()[..19]));
    }
}
