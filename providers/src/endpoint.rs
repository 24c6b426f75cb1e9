//! Address, key and headers of a provider, from its settings.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::address;
use crate::authorization::Authorization;
use crate::aws;
use crate::codec::Codec;
use crate::config::{Config, Error, Http};
use crate::errors::Mask;
use crate::google_cloud;
use crate::stream::Extra;
use crate::vendors::{BEDROCK, Vendor, key_variable};

/// The target of a provider's requests. Its debug form has no secrets.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) provider: String,
    pub(crate) url: Url,
    /// The address in settings, and the parts of the vendor's own: see [`Config`].
    base_url: Option<String>,
    parameters: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// The header of the key, and the prefix of the key in it.
    key: (&'static str, &'static str),
    /// Completes each request before it is sent.
    pub(crate) authorization: Option<Authorization>,
    pub(crate) stall: Duration,
    /// Replaces key and secret headers in everything that the server sends.
    pub(crate) mask: Mask,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("provider", &self.provider)
            .field("url", &crate::http::display_url(&self.url))
            .field("stall", &self.stall)
            .finish_non_exhaustive()
    }
}

/// The endpoint of a provider on its wire.
///
/// # Errors
/// Address, key or headers that cannot be used, or a missing key if the vendor is used at its own
/// address.
pub(crate) fn endpoint(
    config: Config,
    http: &dyn Http,
    vendor: &Vendor,
) -> Result<Endpoint, Error> {
    let url = match &config.base_url {
        Some(base) => url(&config, base, http.path(vendor))?,
        None => url(&config, &address::own(vendor, &config)?, http.path(vendor))?,
    };
    let key_header = http.key_header(vendor);
    let headers = headers(&config, http, vendor, key_header)?;
    let authorised = ["authorization", "api-key", key_header.0];
    let has_header = authorised.iter().any(|name| headers.contains_key(*name));
    let finds = vendor.builtin.is_some_and(|builtin| builtin.finds_credentials);
    let own = || own_authorization(&config, vendor);
    let authorization = config.authorization.clone().or_else(|| (finds && !has_header).then(own));
    let is_authorised = has_header || authorization.is_some();
    if config.base_url.is_none() && vendor.needs_key && !is_authorised {
        return Err(missing_key(&config));
    }
    let mask = Mask::new(config.key().into_iter().chain(secret_headers(&config)));
    Ok(Endpoint {
        provider: config.name,
        url,
        base_url: config.base_url,
        parameters: config.parameters,
        headers,
        key: key_header,
        authorization,
        stall: config.stall,
        mask,
    })
}

/// The way to authorise requests with the vendor's credentials on this machine.
fn own_authorization(config: &Config, vendor: &Vendor) -> Authorization {
    // a server of the user's own may need none
    let required = config.base_url.is_none();
    if vendor.wire == BEDROCK.wire {
        aws::authorization(&config.parameters, required)
    } else {
        google_cloud::authorization(required)
    }
}

/// `base` with `path` appended; a query of `base` is kept.
fn url(config: &Config, base: &str, path: &[&str]) -> Result<Url, Error> {
    let base = base.trim();
    let bad = |reason: &str| Error::BadBaseUrl {
        provider: config.name.clone(),
        url: base.to_owned(),
        reason: reason.to_owned(),
    };
    let mut url = Url::parse(base).map_err(|e| bad(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it does not begin with http:// or https://"));
    }
    match url.path_segments_mut() {
        Ok(mut segments) => drop(segments.pop_if_empty().extend(path)),
        Err(()) => return Err(bad("it cannot have a path")),
    }
    Ok(url)
}

/// The error of a vendor's own address without any key.
fn missing_key(config: &Config) -> Error {
    let provider = config.name.clone();
    let variable = key_variable(&provider).map(|variable| format!("set {variable}, or "));
    Error::MissingKey { variable: variable.unwrap_or_default(), provider }
}

/// The headers of every request, in this order: those of all wires, those of this wire, the key,
/// and the settings' headers.
fn headers(
    config: &Config,
    http: &dyn Http,
    vendor: &Vendor,
    (key_header, scheme): (&'static str, &'static str),
) -> Result<HeaderMap, Error> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("accept", HeaderValue::from_static("text/event-stream"));
    for (name, value) in http.headers(vendor) {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    if let Some(key) = config.key() {
        headers.insert(key_header, key_value(config, scheme, key)?);
    }
    overlay(&mut headers, config, http.joined_header())?;
    Ok(headers)
}

/// The key as the value of a header, after `scheme` (which includes its space).
fn key_value(config: &Config, scheme: &str, key: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("{scheme}{key}"))
        .map_err(|_| Error::BadKey { provider: config.name.clone() })?;
    value.set_sensitive(true);
    Ok(value)
}

/// Adds the headers of settings to `headers`. They replace those of the same name; only the values
/// of the header `adds_up` are joined.
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
    /// The id by which the model `id` is called here.
    pub(crate) fn called<'a>(&self, codec: Codec, id: &'a str) -> Cow<'a, str> {
        codec.called(&self.parameters, self.base_url.as_deref(), id)
    }

    /// The headers of a request: the endpoint's own, and those of `more` that it does not have.
    pub(crate) fn headers(
        &self,
        more: impl Iterator<Item = (&'static str, &'static str)>,
    ) -> HeaderMap {
        let mut headers = self.headers.clone();
        for (name, value) in more {
            headers.entry(name).or_insert(HeaderValue::from_static(value));
        }
        headers
    }

    /// This endpoint with another key and other headers. Their values are hidden too. A key replaces the endpoint's own
    /// way to authorise requests.
    pub(crate) fn with(&self, extra: &Extra) -> Self {
        let mut endpoint = self.clone();
        let (header, scheme) = self.key;
        let key = extra.key.as_deref().map(str::trim).filter(|key| !key.is_empty());
        if key.is_some() {
            endpoint.authorization = None;
        }
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
