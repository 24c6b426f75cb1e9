//! Paths as URIs, and positions within a text.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Bytes of a path that stand for themselves in a URI.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

pub(crate) fn uri(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), PLAIN))
}

/// The path of a `file` URI of this machine, if it is absolute and leads through no `..`.
pub(crate) fn path(uri: &str) -> Option<PathBuf> {
    let bytes: Vec<u8> = percent_decode_str(uri.strip_prefix("file://")?).collect();
    let path = PathBuf::from(OsString::from_vec(bytes));
    let is_plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (path.is_absolute() && is_plain).then_some(path)
}

/// A position within `text`: one that lies after a line's end or the text's end is moved there. With the number of
/// characters before it in its line.
pub(crate) fn within(lines: &[&str], line: u32, units: u32) -> (u32, u32, u32) {
    let last = u32::try_from(lines.len().saturating_sub(1)).unwrap_or(u32::MAX);
    if line > last {
        let (length, characters) = length(lines.last().copied().unwrap_or_default());
        return (last, length, characters);
    }
    let text = lines.get(line as usize).copied().unwrap_or_default();
    let (mut passed, mut characters) = (0, 0);
    for c in text.chars() {
        if passed >= units {
            break;
        }
        passed += c.len_utf16() as u32;
        characters += 1;
    }
    (line, passed.min(units), characters)
}

fn length(line: &str) -> (u32, u32) {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    (count(line.encode_utf16().count()), count(line.chars().count()))
}

/// The UTF-16 unit in `line` at which a character of it begins.
pub(crate) fn unit(line: &str, character: u32) -> u32 {
    let before = line.chars().take(character as usize).map(char::len_utf16).sum::<usize>();
    u32::try_from(before).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_survive_as_uris_and_others_are_no_paths() {
        for (text, expected) in [
            ("/p/a b.rs", "file:///p/a%20b.rs"),
            ("/p/größe#?%.rs", "file:///p/gr%C3%B6%C3%9Fe%23%3F%25.rs"),
        ] {
            assert_eq!(uri(Path::new(text)), expected);
            assert_eq!(path(expected), Some(text.into()));
        }
        for other in ["untitled:1", "file://", "file://a", "file:///a/../b", "http:///a", ""] {
            assert_eq!(path(other), None, "{other}");
        }
        assert_eq!(path("file:///a%ff"), Some(OsString::from_vec(b"/a\xff".to_vec()).into()));
    }

    #[test]
    fn positions_out_of_bounds_are_moved_to_the_end() {
        let lines: Vec<&str> = "a😀b\nxyz".split('\n').collect();
        for ((line, units), expected) in [
            ((0, 0), (0, 0, 0)),
            ((0, 3), (0, 3, 2)),
            ((0, 2), (0, 2, 2)),
            ((0, 99), (0, 4, 3)),
            ((1, u32::MAX), (1, 3, 3)),
            ((u32::MAX, 0), (1, 3, 3)),
        ] {
            assert_eq!(within(&lines, line, units), expected, "{line} {units}");
        }
        assert_eq!(within(&[], 3, 3), (0, 0, 0));
        assert_eq!((unit("a😀b", 2), unit("a😀b", 99)), (3, 4));
    }
}
