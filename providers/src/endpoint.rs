//! Address, key and headers of a provider, from its settings.

use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::config::{Config, Error, Http};
use crate::errors::Mask;
use crate::stream::Extra;
use crate::vendors::{Vendor, key_variable};

/// Where a provider's requests go. Its debug form has no secrets.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: String,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// Where a key goes: the name of its header, and what stands before it there.
    key: (&'static str, &'static str),
    pub(crate) stall: Duration,
    /// Hides key and secret headers in whatever the server says.
    pub(crate) mask: Mask,
    /// Whether the vendor at times denies what it has: then even 404 is worth another attempt.
    pub(crate) missing_may_pass: bool,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("url", &crate::http::shown(&self.url))
            .field("stall", &self.stall)
            .finish_non_exhaustive()
    }
}

/// The endpoint of a provider on its wire.
///
/// # Errors
/// Address, key or headers that can not be used, or a key that is missing where the vendor is used
/// at its own address.
pub(crate) fn endpoint(
    config: Config,
    http: &dyn Http,
    vendor: &Vendor,
) -> Result<Endpoint, Error> {
    let Some(base) = config.base_url.as_deref().or(vendor.base) else {
        return Err(Error::MissingBaseUrl { provider: config.name });
    };
    let url = url(&config, base, http.path())?;
    let key_header = http.key_header(vendor);
    let headers = headers(&config, http, key_header)?;
    let authorised = ["authorization", "api-key", key_header.0];
    let is_authorised = authorised.iter().any(|name| headers.contains_key(*name));
    if config.base_url.is_none() && vendor.needs_key && !is_authorised {
        return Err(missing_key(&config));
    }
    let mask = Mask::new(key(&config).into_iter().chain(secret_headers(&config)));
    Ok(Endpoint {
        provider: config.name,
        url,
        headers,
        key: key_header,
        stall: config.stall,
        mask,
        missing_may_pass: vendor.missing_may_pass,
    })
}

/// `base` with `path` below it; a query stays.
fn url(config: &Config, base: &str, path: &[&str]) -> Result<Url, Error> {
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

fn key(config: &Config) -> Option<&str> {
    config.api_key.as_deref().map(str::trim).filter(|key| !key.is_empty())
}

/// What is missing if a vendor's own address is used without any key.
fn missing_key(config: &Config) -> Error {
    let provider = config.name.clone();
    let variable = key_variable(&provider).map(|variable| format!("set {variable}, or "));
    Error::MissingKey { variable: variable.unwrap_or_default(), provider }
}

/// The headers of every request: those of all wires, those of this wire, the key, and then what
/// settings add or replace.
fn headers(
    config: &Config,
    http: &dyn Http,
    (key_header, scheme): (&'static str, &'static str),
) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    for (name, value) in http.headers() {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(key) = key(config) {
        headers.insert(key_header, key_value(config, scheme, key)?);
    }
    overlay(&mut headers, config, http.joined_header())?;
    Ok(headers)
}

/// The key as the value of a header, after `scheme` (with its space).
fn key_value(config: &Config, scheme: &str, key: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("{scheme}{key}"))
        .map_err(|_| Error::BadKey { provider: config.name.clone() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Lays the headers of settings over `headers`. They replace those of the same name; only the
/// values of the one called `adds_up` are joined.
fn overlay(headers: &mut HeaderMap, config: &Config, adds_up: Option<&str>) -> Result<(), Error> {
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
