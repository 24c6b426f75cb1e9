//! Keys that servers answer with, and the errors that they answer with instead.

use std::time::{Duration, SystemTime};

use leftfold_events::Time;
use leftfold_events::event::FailureClass;
use reqwest::{StatusCode, Url};

use super::credentials::Keys;
use crate::errors::{Failure, Mask, is_markup};
use crate::http;
use crate::short_lived::Lifetime;

/// The beginning of messages.
pub(super) const WHAT: &str = "no AWS keys";

/// How long a server of Amazon's is waited for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// How long keys are used that do not say when they end.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// The longest part of keys, in bytes. Real tokens have 2 KiB.
const LONGEST: usize = 16 * 1024;
/// Keys that end after some time.
#[derive(Clone)]
pub(super) struct Temporary {
    pub(super) keys: Keys,
    pub(super) expires: Option<Time>,
    /// The values that they were got with, and their names.
    pub(super) secrets: Vec<(String, String)>,
}

impl Temporary {
    pub(super) fn lifetime(&self) -> Lifetime {
        let now = SystemTime::now();
        let left = |expires: Time| expires.millis().saturating_sub(Time::from(now).millis());
        let length = self.expires.map(left).map(Duration::from_millis);
        Lifetime::new(now, length.unwrap_or(UNKNOWN_LIFETIME))
    }
}

/// The values of keys, with their names.
pub(super) fn named(keys: &Keys) -> Vec<(String, String)> {
    let token = keys.session_token.as_ref().map(|token| ("aws.sessionToken", token));
    let named = [
        ("aws.accessKeyId", &keys.access_key_id),
        ("aws.secretAccessKey", &keys.secret_access_key),
    ];
    let named = named.into_iter().chain(token);
    named.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

pub(super) fn auth(why: impl Into<String>) -> Failure {
    Failure::fatal(FailureClass::Auth, why)
}

/// An answer of a service of AWS: XML of STS, JSON of the others.
pub(super) struct Answer {
    text: String,
}

impl Answer {
    pub(super) fn from_body(body: &[u8]) -> Self {
        Self { text: String::from_utf8_lossy(body).into_owned() }
    }

    /// The text of the first element of this name.
    pub(super) fn element(&self, name: &str) -> Option<String> {
        let document = roxmltree::Document::parse(&self.text).ok()?;
        let mut elements = document.descendants().filter(roxmltree::Node::is_element);
        let found = elements.find(|element| element.tag_name().name() == name)?;
        found.text().map(|text| text.trim().to_owned())
    }

    /// The name of an error and its message.
    fn error(&self) -> (String, String) {
        let member = |names: &[&str]| {
            let json: serde_json::Value = serde_json::from_str(&self.text).ok()?;
            names.iter().find_map(|name| json.get(*name)?.as_str().map(str::to_owned))
        };
        let code = member(&["__type", "code", "Code", "error"]).or_else(|| self.element("Code"));
        let message = member(&["message", "Message", "error_description"]);
        let message = message.or_else(|| self.element("Message"));
        (code.unwrap_or_default(), message.unwrap_or_default())
    }
}

/// The failure of an answer that is an error.
pub(super) fn refused(url: &Url, status: StatusCode, answer: &Answer, mask: &Mask) -> Failure {
    let (code, message) = answer.error();
    let said = match (code.as_str(), message.as_str()) {
        ("", "") if is_markup(&answer.text) => "a web page".to_owned(),
        ("", "") => "no reason".to_owned(),
        (said, "") | ("", said) => said.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = said.chars().filter(|c| !c.is_control()).take(300).collect();
    let class = match status.as_u16() {
        _ if code.starts_with("Throttling") => FailureClass::RateLimit,
        429 => FailureClass::RateLimit,
        500.. => FailureClass::Overloaded,
        _ => FailureClass::Auth,
    };
    let (said, address) = (mask.hide(said), http::display_url(url));
    let message = format!("{WHAT}: {address} answered {status}: {said}");
    Failure { status: Some(status.as_u16()), ..Failure::new(class, message) }
}

/// Keys from an answer: id, secret, token.
pub(super) fn checked(
    parts: [Option<String>; 3],
    expires: Option<Time>,
    url: &Url,
) -> Result<Temporary, Failure> {
    let keys = usable(parts);
    let keys = keys.ok_or_else(|| {
        let address = http::display_url(url);
        auth(format!("{WHAT}: the answer of {address} has no keys that can be used"))
    })?;
    Ok(Temporary { keys, expires, secrets: Vec::new() })
}

pub(super) fn usable([id, secret, token]: [Option<String>; 3]) -> Option<Keys> {
    let is_fine = |part: &String| {
        !part.is_empty() && part.len() <= LONGEST && part.bytes().all(|it| it.is_ascii_graphic())
    };
    let token = token.filter(|token| !token.is_empty());
    if token.as_ref().is_some_and(|token| !is_fine(token)) {
        return None;
    }
    Some(Keys {
        access_key_id: id.filter(is_fine)?,
        secret_access_key: secret.filter(is_fine)?,
        session_token: token,
    })
}
