//! Repairs JSON strings that contain a lone surrogate: one UTF-16 surrogate without its other half.
//! Programs whose strings are UTF-16 send them after cutting a text in the middle of an emoji. The
//! grammar of JSON allows them, but a Rust string cannot hold them.

use std::borrow::Cow;

/// Bytes of one escape: the backslash, `u`, and four digits.
const ESCAPE: usize = 6;

/// The replacement for a lone surrogate: U+FFFD.
const REPLACEMENT: &str = "\\ufffd";

/// Returns the JSON with every lone surrogate replaced.
pub fn repair(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let (mut text, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(found) = json[at..].find('\\') {
        let start = at + found;
        at = match unit(json, start) {
            None => start + 1 + json[start + 1..].chars().next().map_or(0, char::len_utf8),
            Some(0xd800..=0xdbff) if is_low(json, start + ESCAPE) => start + 2 * ESCAPE,
            Some(0xd800..=0xdfff) => {
                text.push_str(&json[kept..start]);
                text.push_str(REPLACEMENT);
                kept = start + ESCAPE;
                kept
            }
            Some(_) => start + ESCAPE,
        };
    }
    if kept == 0 {
        return Cow::Borrowed(json);
    }
    text.push_str(&json[kept..]);
    Cow::Owned(text)
}

fn is_low(json: &str, at: usize) -> bool {
    matches!(unit(json, at), Some(0xdc00..=0xdfff))
}

/// The UTF-16 unit that the escape at `at` names. `None` if there is no escape at `at`.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn halves_are_replaced_and_nothing_else() {
        for (json, text) in [
            (r#""a\ud83db""#, "a\u{fffd}b"),
            (r#""\uDE00""#, "\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83d\n\u0041""#, "\u{fffd}\nA"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\\\ud83d""#, "\\\u{fffd}"),
            (r#""ß\ud83dß""#, "ß\u{fffd}ß"),
            (r#""\ud7ff\ue000""#, "\u{d7ff}\u{e000}"),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&repair(json)).unwrap(), text, "{json}");
        }
    }

    #[test]
    fn what_is_no_json_stays_as_it_is() {
        for text in ["\\ud8", "\\", "\\ud83g", "\\ud\\", "\\ud+12", "\\ß\\ud"] {
            assert_eq!(repair(text), text);
        }
    }
}
