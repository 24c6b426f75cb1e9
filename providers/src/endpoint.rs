//! Address, key and headers of a provider, from its settings.

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{Config, Error};
use crate::errors::Mask;
use crate::exchange::Endpoint;
use crate::stream::Extra;

/// `base` with `path` below it; a query stays.
pub(crate) fn url(config: &Config, base: &str, path: &[&str]) -> Result<Url, Error> {
    let base = base.trim();
    let bad = |reason: &str| Error::BadBaseUrl {
        provider: config.name.clone(),
        url: base.to_owned(),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base).map_err(|e| bad(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it begins neither with http:// nor with https://"));
    }
    match url.path_segments_mut() {
        Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
        Err(()) => return Err(bad("it has no path")),
    }
    Ok(url)
}

pub(crate) fn key(config: &Config) -> Option<&str> {
    config.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty())
}

/// What is missing if a vendor's own address is used without any key.
pub(crate) fn missing_key(config: &Config) -> Error {
    let provider = config.name.clone();
    let variable = variable(&provider).map(|variable| format!("set {variable}, or "));
    Error::MissingKey { variable: variable.unwrap_or_default(), provider }
}

/// The environment variable in which the key of a well-known provider is expected.
pub(crate) fn variable(provider: &str) -> Option<&'static str> {
    const VARIABLES: [(&str, &str); 10] = [
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("openai", "OPENAI_API_KEY"),
        ("google", "GEMINI_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("moonshotai", "MOONSHOT_API_KEY"),
        ("alibaba", "DASHSCOPE_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
    ];
    VARIABLES.iter().find(|(name, _)| *name == provider).map(|(_, variable)| *variable)
}

/// The headers that every wire sends.
pub(crate) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    headers
}

/// The key as the value of a header, after `scheme` (with its space).
pub(crate) fn key_value(config: &Config, scheme: &str, key: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("{scheme}{key}"))
        .map_err(|_| Error::BadKey { provider: config.name.clone() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Lays the headers of settings over `headers`. They replace those of the same name; only the
/// values of the one called `adds_up` are joined.
pub(crate) fn overlay(
    headers: &mut HeaderMap,
    config: &Config,
    adds_up: Option<&str>,
) -> Result<(), Error> {
    for (name, value) in &config.headers {
        let bad = || Error::BadHeader { provider: config.name.clone(), header: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let before = headers.get(&key).filter(|_| adds_up == Some(key.as_str()));
        let text = match before.and_then(|before| before.to_str().ok()) {
            Some(before) => format!("{before},{value}"),
            None => value.clone(),
        };
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| bad())?;
        value.set_sensitive(is_secret(name));
        headers.insert(key, value);
    }
    Ok(())
}

/// Puts the parts together; key and secret headers are hidden in whatever the server says.
pub(crate) fn endpoint(
    config: Config,
    url: Url,
    headers: HeaderMap,
    key_header: (&'static str, &'static str),
) -> Endpoint {
    let mask = Mask::new(key(&config).into_iter().chain(secret_headers(&config)));
    let Config { name: provider, stall, faulty, .. } = config;
    let (key, missing_may_pass) = (key_header, false);
    Endpoint { provider, url, headers, key, stall, faulty, mask, missing_may_pass }
}

impl Endpoint {
    /// With this key and these headers in place of its own, whose values are hidden likewise.
    pub(crate) fn with(&self, extra: &Extra) -> Self {
        let mut endpoint = self.clone();
        let (header, scheme) = self.key;
        let key = extra.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        let key_header = key.map(|key| (header.to_owned(), format!("{scheme}{key}")));
        for (name, value) in key_header.iter().chain(&extra.headers) {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_str(value.trim())) {
                value.set_sensitive(true);
                endpoint.headers.insert(name, value);
            }
        }
        let secret = extra.headers.iter().filter(|(name, _)| is_secret(name));
        endpoint.mask.add(key.into_iter().chain(secret.map(|(_, value)| value.as_str())));
        endpoint
    }
}

fn is_secret(header: &str) -> bool {
    let name = header.to_lowercase();
    ["auth", "key", "token", "secret", "cookie"].iter().any(|part| name.contains(part))
}

fn secret_headers(config: &Config) -> impl Iterator<Item = &str> {
    config.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.as_str())
}
