//! The forms that a value takes inside other texts.

use std::fmt::Write;

use super::SHORTEST;

pub(super) const BEGIN: &str = "{{secret:";
pub(super) const END: &str = "}}";

/// The minimum length of a line or part of a longer value that counts as a secret, in bytes.
const LINE: usize = 16;

/// Longer values are written as numbers in pieces of so many bytes, so that a search never looks back far.
const PIECE: usize = 64;

/// Of longer values the numbers are not searched for: they would fill memory.
const MAX_NUMBERED: usize = 4 << 10;

/// The ASCII characters that JSON libraries escape although they need not: none, Go's, and those of .NET and PHP.
const JSON_ESCAPED: [&str; 4] = ["", "<>&", "<>&'\"+`", "/"];

/// The characters that percent-encoding leaves besides letters and digits: of RFC 3986, of JavaScript's
/// `encodeURIComponent` and `encodeURI`, and of forms, which also write `+` for a space.
const URL_KEPT: [&str; 4] = ["-._~", "-._~!*'()", "-._~!*'();/?:@&=+$,#", "-._*"];
const FORM: &str = URL_KEPT[3];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

crate::named! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Form {
        Plain = "",
        Json = "json",
        Url = "url",
        /// Inside base64 text, at a position that depends on the text before it.
        Base64 = "base64",
        Line = "line",
        /// The greater part of a value, which every kind of quoting leaves unchanged.
        Part = "part",
        /// Up to [`PIECE`] bytes of a value, each byte or character written as a number.
        Bytes = "bytes",
    }
}

impl Form {
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// `{{secret:NAME}}`, with a suffix if the form is not the plain one.
pub(super) fn placeholder(name: &str, form: Form) -> String {
    let colon = if form == Form::Plain { "" } else { ":" };
    format!("{BEGIN}{name}{colon}{}{END}", form.name())
}

/// The characters that a name may contain.
pub(super) fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A name reduced to the characters of placeholders.
pub(super) fn plain(name: &str) -> String {
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.is_empty() { "SECRET".to_owned() } else { name }
}

/// Every form of `value`, the plain one first. A form that equals an earlier one is omitted.
pub(super) fn for_value(value: &str) -> Vec<(Form, String)> {
    let mut forms = vec![(Form::Plain, value.to_owned())];
    forms.push((Form::Json, json(value)));
    forms.extend(JSON_ESCAPED.map(|escaped| (Form::Json, ascii_json(value, escaped))));
    for kept in URL_KEPT {
        forms.extend([false, true].map(|lower| (Form::Url, url(value, kept, lower))));
    }
    for skip in 0..3 {
        let standard = base64(value.as_bytes(), skip);
        forms.push((Form::Base64, standard.replace('+', "-").replace('/', "_")));
        forms.push((Form::Base64, standard));
    }
    if value.len() <= MAX_NUMBERED {
        forms.extend(pieces(value).flat_map(numbers).map(|found| (Form::Bytes, found)));
    }
    // tools number lines and put signs in front of them
    let lines = value.lines().map(str::trim).filter(|line| line.len() >= LINE);
    if value.contains('\n') {
        let told = lines.filter(|line| !line.starts_with("-----"));
        forms.extend(told.map(|line| (Form::Line, line.to_owned())));
    }
    // shells and other programs have several ways of quoting
    let runs = value.split(|c| !is_plain(c));
    let most = runs.filter(|run| run.len() >= LINE && run.len() * 2 >= value.len());
    forms.extend(most.map(|run| (Form::Part, run.to_owned())));
    forms.retain(|(_, found)| found.len() >= SHORTEST);
    forms
}

/// The value in pieces that together are the whole value. The last one has at least [`SHORTEST`] bytes, as the value
/// has.
fn pieces(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let mut end = PIECE;
        while !rest.is_char_boundary(end.min(rest.len())) {
            end += 1;
        }
        let piece = match rest.len().checked_sub(end) {
            Some(left) if left >= SHORTEST => &rest[..end],
            Some(_) | None => rest,
        };
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}

/// A text with each byte or each UTF-16 unit as a number, in the ways that programs have.
fn numbers(text: &str) -> Vec<String> {
    let bytes = |before: &str, between: &str| {
        let each: Vec<String> = text.bytes().map(|byte| format!("{before}{byte:02x}")).collect();
        each.join(between)
    };
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let lower =
        [bytes("", ""), bytes("", " "), bytes("", ":"), bytes("\\x", ""), bytes("%", ""), units];
    let upper = |text: &String| {
        // the letters that say what follows stay small
        text.to_ascii_uppercase().replace("\\U", "\\u").replace("\\X", "\\x")
    };
    let upper: Vec<String> = lower.iter().map(upper).collect();
    [lower.to_vec(), upper].concat()
}

/// The value as it appears within a JSON string.
pub(super) fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The value as JSON libraries write it that escape everything but ASCII, and the ASCII characters in `escaped`.
fn ascii_json(value: &str, escaped: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '/' if escaped == "/" => text.push_str("\\/"),
            _ if c.is_ascii() && !escaped.contains(c) => {
                text.push_str(&json(c.encode_utf8(&mut [0; 4])));
            }
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // writing to a string cannot fail
                let _ = write!(text, "\\u{unit:04x}");
            }),
        }
    }
    text
}

/// Percent-encoded, for a call that names the form.
pub(super) fn strict_url(value: &str) -> String {
    url(value, URL_KEPT[0], false)
}

/// Percent-encoded but for the characters in `kept`; some programs use lower case.
fn url(value: &str, kept: &str, lower: bool) -> String {
    let mut url = String::new();
    for byte in value.bytes() {
        let c = char::from(byte);
        // writing to a string cannot fail
        let _ = match byte {
            b' ' if kept == FORM => write!(url, "+"),
            _ if c.is_ascii_alphanumeric() || c.is_ascii() && kept.contains(c) => {
                write!(url, "{c}")
            }
            _ if lower => write!(url, "%{byte:02x}"),
            _ => write!(url, "%{byte:02X}"),
        };
    }
    url
}

/// The characters of a base64 text that `bytes` alone determine, if they begin `skip` (below 3)
/// bytes after the start of a group.
fn base64(bytes: &[u8], skip: usize) -> String {
    let bit = |at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    // the first character that depends on no other byte: 0, 8 or 16 bits come from bytes before
    let start = [0, 4, 2][skip];
    (start..bytes.len() * 8)
        .step_by(6)
        .filter(|at| at + 6 <= bytes.len() * 8)
        .map(|at| (at..at + 6).fold(0u8, |sextet, at| sextet << 1 | bit(at)))
        .map(|sextet| char::from(ALPHABET[usize::from(sextet)]))
        .collect()
}
