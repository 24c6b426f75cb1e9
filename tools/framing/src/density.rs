//! Refuses JSON that is small as text and huge as values.
//!
//! A parsed value takes up some hundred bytes, so a message of 16 MiB of `{},` would take up gigabytes. This
//! looks at the text before anything is parsed.

/// Values in one message. The largest real ones, lists of tools and of resources, have some thousands.
pub const MAX_VALUES: usize = 1 << 18;

/// Whether `json` has more than [`MAX_VALUES`] values. It counts brackets, braces and commas outside of
/// strings. For text that is not JSON the answer means nothing.
pub fn is_too_dense(json: &[u8]) -> bool {
    // most messages end here
    if json.len() <= MAX_VALUES {
        return false;
    }
    let (mut count, mut rest) = (0, json);
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b',' | b'{' | b'[')) {
        let found = rest[at];
        rest = &rest[at + 1..];
        if found == b'"' {
            rest = after_string(rest);
            continue;
        }
        count += 1;
        if count > MAX_VALUES {
            return true;
        }
    }
    false
}

/// The bytes after the end of the string that `rest` begins in.
fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let escapes = rest[at] == b'\\';
        rest = rest.get(at + if escapes { 2 } else { 1 }..).unwrap_or_default();
        if !escapes {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(piece: &str, count: usize) -> Vec<u8> {
        format!("[{}0]", piece.repeat(count)).into_bytes()
    }

    #[test]
    fn values_count_and_what_is_in_strings_does_not() {
        let most = MAX_VALUES - 1;
        for (piece, each) in [("0,", 1), ("{},", 2), ("{\"a\":[1]},", 3), ("\"x\\\"{[,\",", 1)] {
            assert!(!is_too_dense(&json(piece, most / each)), "{piece}");
            assert!(is_too_dense(&json(piece, most / each + 2)), "{piece}");
        }
        let text = "{[,".repeat(1_000_000);
        assert!(!is_too_dense(format!("{{\"text\":\"{text}\"}}").as_bytes()));
        for unfinished in ["[\"", "[\"\\"] {
            let text = format!("{}{unfinished}", " ".repeat(MAX_VALUES));
            assert!(!is_too_dense(text.as_bytes()), "{unfinished}");
        }
    }
}
