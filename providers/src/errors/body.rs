use std::borrow::Cow;

use leftfold_framing::surrogates;
use reqwest::StatusCode;
use serde_json::Value;

use super::{google, tables};
use crate::gzip;

/// The number of bytes of an error body that are read.
pub(crate) const LONGEST_ERROR: usize = 64 * 1024;

/// The number of characters of a server's message that are kept.
const LONGEST_MESSAGE: usize = 1_000;

/// The content of an error body, in any of the usual shapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// One line without control characters; empty if the body has no message.
    pub(crate) message: String,
    /// The error's type, code and status, in lower case.
    pub(crate) kinds: Vec<String>,
    /// Whether the body is a web page, which is not shown.
    pub(crate) markup: bool,
    /// The wait that the body asks for, in milliseconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether a limit passes soon, if the body says so by other means than its message.
    pub(crate) passes_soon: Option<bool>,
    /// Where a limit of free use can be lifted. Never taken from the body.
    pub(crate) link: Option<&'static str>,
    /// Advice for the user, if the body shows the cause. Its words are never taken from the body.
    pub(crate) advice: Option<&'static str>,
}

impl Details {
    pub(crate) fn read(body: &[u8]) -> Self {
        let inflated;
        let body = if gzip::is_gzip(body) {
            inflated = gzip::inflate(body, LONGEST_ERROR as u64);
            &inflated
        } else {
            body
        };
        let text = String::from_utf8_lossy(body);
        let text = text.trim_start_matches('\u{feff}').trim();
        if is_markup(text) {
            return Self { markup: true, ..Self::default() };
        }
        match serde_json::from_str::<Value>(&surrogates::repair(text)) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self { message: one_line(text), ..Self::default() },
        }
    }

    /// Reads `{"error": {...}}`, `{"error": "..."}`, a list of such objects, or a bare error
    /// object.
    pub(crate) fn from_value(value: &Value) -> Self {
        let value = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let message = error.as_str().map(Cow::Borrowed).or_else(|| message_of(error));
        let message = message.or_else(|| message_of(value)).unwrap_or_default();
        let message = match passed_on(error) {
            Some(inner) => Cow::Owned(format!("{message}: {inner}")),
            None => message,
        };
        let mut kinds = Vec::new();
        for object in [error, value] {
            for key in ["type", "code", "status", "__type"] {
                if let Some(kind) = object.get(key) {
                    kinds.push(kind.as_str().map_or_else(|| kind.to_string(), str::to_lowercase));
                }
            }
        }
        kinds.retain(|kind| kind != "error" && kind != "null");
        kinds.dedup();
        if google::lacks_billing(error) {
            kinds.push("billing_not_active".to_owned());
        }
        let markup = is_markup(&message);
        let message = if markup { String::new() } else { one_line(&message) };
        let retry_after = google::retry_after(error);
        let passes_soon = google::passes_soon(error, &message);
        let advice = google::advice(error, &message);
        let link = free_use(&message, kinds.iter().cloned().chain(google::quotas(error)));
        Self { message, kinds, markup, retry_after, passes_soon, link, advice }
    }

    /// These details, with names of the error that came beside the body.
    pub(crate) fn with<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names = names.into_iter().map(str::to_lowercase).filter(|name| !name.is_empty());
        self.kinds.extend(names);
        let known =
            tables::AWS_ADVICE.iter().find(|(code, _)| tables::has_code(&self.kinds, &[code]));
        self.advice = self.advice.or(known.map(|(_, advice)| *advice));
        self
    }

    /// These details, with this message if the body has none.
    pub(crate) fn or_message(mut self, message: &str) -> Self {
        if self.message.is_empty() {
            self.message = one_line(message);
        }
        self
    }

    /// The HTTP status, if a gateway passes it on as the error's code or the error's name tells it.
    pub(crate) fn status(&self) -> Option<StatusCode> {
        let codes = self.kinds.iter().filter_map(|kind| kind.parse::<u16>().ok());
        let mut errors = codes.filter(|code| (400..600).contains(code));
        let code = errors.next().or_else(|| tables::status_of(&self.kinds))?;
        StatusCode::from_u16(code).ok()
    }

    /// Whether the message alone says that the server failed, and not the request.
    pub(crate) fn names_server_fault(&self) -> bool {
        self.kinds.is_empty() && tables::has_phrase(&self.message.to_lowercase(), tables::SERVER)
    }

    pub(crate) fn is_server_error(&self) -> bool {
        tables::has_code(&self.kinds, tables::SERVER_CODES)
    }
}

/// The page for a limit of free use that the message or one of the names says.
fn free_use(message: &str, names: impl Iterator<Item = String>) -> Option<&'static str> {
    let said: Vec<String> = names.chain([message.to_lowercase()]).collect();
    let says = |sign: &str| said.iter().any(|text| text.contains(sign));
    tables::FREE_USE.iter().find(|(sign, _)| says(sign)).map(|(_, link)| *link)
}

fn message_of(object: &Value) -> Option<Cow<'_, str>> {
    let found = ["message", "Message", "detail", "error_description", "msg", "title"]
        .iter()
        .find_map(|key| object.get(key).filter(|value| !value.is_null()))
        .or_else(|| {
            object.get("errors")?.get(0).map(|first| first.get("message").unwrap_or(first))
        })?;
    Some(found.as_str().map_or_else(|| Cow::Owned(found.to_string()), Cow::Borrowed))
}

/// The message of the server behind a gateway, if the gateway passes it on (OpenRouter's
/// `metadata.raw`).
fn passed_on(error: &Value) -> Option<String> {
    let raw = error.get("metadata")?.get("raw")?.as_str()?;
    let message = Details::read(raw.as_bytes()).message;
    (!message.is_empty()).then_some(message)
}

/// Whether `text` is HTML or XML rather than an answer.
pub(crate) fn is_markup(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut chars = text.chars();
    chars.next() == Some('<')
        && chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '!' || c == '?')
}

fn one_line(text: &str) -> String {
    let clean: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let mut line = String::new();
    for word in clean.into_iter().filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

/// `502 Bad Gateway`, or only the number if the status has no name.
pub(super) fn status_text(status: StatusCode) -> String {
    match (status.as_u16(), status.canonical_reason()) {
        (529, _) => "529 Overloaded".to_owned(),
        (code, Some(reason)) => format!("{code} {reason}"),
        (code, None) => format!("HTTP status {code}"),
    }
}
