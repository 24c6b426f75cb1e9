//! The forms that a value takes inside other texts.

use std::fmt::Write;

use super::SHORTEST;

pub(super) const BEGIN: &str = "{{secret:";
pub(super) const END: &str = "}}";

/// The minimum length of a line or part of a longer value that counts as a secret, in bytes.
const LINE: usize = 16;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Json,
    Url,
    /// Inside base64 text, at a position that depends on the text before it.
    Base64,
    Line,
    /// The greater part of a value, which every kind of quoting leaves unchanged.
    Part,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Json => "json",
            Self::Url => "url",
            Self::Base64 => "base64",
            Self::Line => "line",
            Self::Part => "part",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        let all = [Self::Plain, Self::Json, Self::Url, Self::Base64, Self::Line, Self::Part];
        all.into_iter().find(|form| form.name() == name)
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
pub(super) fn of(value: &str) -> Vec<(Form, String)> {
    let mut forms = vec![(Form::Plain, value.to_owned())];
    forms.push((Form::Json, json(value)));
    forms.push((Form::Url, url(value, false)));
    forms.push((Form::Url, url(value, true)));
    for skip in 0..3 {
        let standard = base64(value.as_bytes(), skip);
        forms.push((Form::Base64, standard.replace('+', "-").replace('/', "_")));
        forms.push((Form::Base64, standard));
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

/// The value as it appears within a JSON string.
pub(super) fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Percent-encoded; some programs use lower case.
pub(super) fn url(value: &str, lower: bool) -> String {
    let mut url = String::new();
    for byte in value.bytes() {
        // writing to a string cannot fail
        let _ = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                url.push(char::from(byte));
                Ok(())
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
