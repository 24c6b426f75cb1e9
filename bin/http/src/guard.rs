//! Rejects unauthorised requests before any work is done.
//!
//! - The `Host` must be this server's, so that a page whose name leads here (DNS rebinding) gets
//!   nothing.
//! - An `Origin` must be allowed, so that a web page starts nothing, whether or not it could read the
//!   answer. So must a request that a browser marks as made by another site.
//! - With a password, every request but a preflight needs it.
//! - Without one, only processes of this user may connect, and none that a call has started.
//!
//! Everything here is a function of the request; [`crate::peer`] knows about processes.

use axum::http::{HeaderMap, Method, Uri, header};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Origins of the desktop app.
const APPS: [&str; 2] = ["tauri://localhost", "oc://renderer"];
/// The path that browsers ask for without credentials.
const WITHOUT_PASSWORD: &str = "/site.webmanifest";
const TOKEN: &str = "auth_token";

/// The rules of a server.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    /// Names of this server in `Host`, without a port, in lower case.
    hosts: Vec<String>,
    /// Whether any address counts as a name of this server, because it listens on several.
    any_address: bool,
    /// Allowed origins besides the server's own.
    origins: Vec<String>,
    /// `user:password`, hashed so that a comparison does not tell its length.
    credentials: Option<[u8; 32]>,
}

/// Why a request gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
    Unauthorized,
}

impl Guard {
    /// The rules of a server that listens on `hostname`. `origins` are those of `--cors`, whose
    /// hosts may also lead here.
    pub(crate) fn new(hostname: &str, origins: &[String], credentials: Option<[u8; 32]>) -> Self {
        let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        hosts.push(name(hostname).to_lowercase());
        let named = origins.iter().filter_map(|origin| origin.split_once("://"));
        hosts.extend(named.map(|(_, host)| name(host).to_lowercase()));
        let origins = origins.iter().map(|origin| origin.trim_end_matches('/').to_lowercase());
        Self {
            hosts,
            any_address: !is_loopback(hostname),
            origins: origins.chain(APPS.map(str::to_owned)).collect(),
            credentials,
        }
    }

    pub(crate) fn has_password(&self) -> bool {
        self.credentials.is_some()
    }

    /// # Errors
    /// The reason why the request is refused.
    pub(crate) fn check(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<(), Refusal> {
        let authority = uri.authority().map(ToString::to_string);
        let host = authority.or_else(|| text(headers, header::HOST.as_str()).map(str::to_owned));
        let host = host.filter(|host| self.is_ours(host)).ok_or(Refusal::Host)?;
        let is_allowed = match single(headers, header::ORIGIN.as_str())? {
            Some(origin) => self.allows(origin, &host),
            None => !is_of_another_site(headers)?,
        };
        if !is_allowed {
            return Err(Refusal::Origin);
        }
        if *method == Method::OPTIONS || uri.path() == WITHOUT_PASSWORD {
            return Ok(());
        }
        let Some(expected) = &self.credentials else { return Ok(()) };
        let given = text(headers, header::AUTHORIZATION.as_str())
            .and_then(|value| value.strip_prefix("Basic "))
            .map(str::to_owned)
            .or_else(|| token(uri));
        let given = given.and_then(|given| leftfold_tools::decode(&given));
        let is_right = given.is_some_and(|given| bool::from(digest(&given).ct_eq(expected)));
        if is_right { Ok(()) } else { Err(Refusal::Unauthorized) }
    }

    /// Whether pages of this origin may ask, and read the answers.
    pub(crate) fn allows(&self, origin: &str, host: &str) -> bool {
        let origin = origin.to_lowercase();
        let own = ["http://", "https://"].iter().any(|scheme| {
            origin.strip_prefix(scheme).is_some_and(|named| named == host.to_lowercase())
        });
        own || self.origins.contains(&origin)
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = name(host).to_lowercase();
        let is_address = name.parse::<std::net::IpAddr>().is_ok();
        self.hosts.contains(&name) || (self.any_address && is_address)
    }
}

/// Whether an address or name is only reachable from this machine.
pub(crate) fn is_loopback(hostname: &str) -> bool {
    let name = name(hostname);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A browser says which site has made a request, also where it sends no `Origin`. Links that a
/// person follows are fine: they change nothing.
fn is_of_another_site(headers: &HeaderMap) -> Result<bool, Refusal> {
    let site = single(headers, "sec-fetch-site")?;
    let is_followed = single(headers, "sec-fetch-mode")? == Some("navigate");
    Ok(!matches!(site, None | Some("same-origin" | "none")) && !is_followed)
}

/// A header that says where a request comes from.
///
/// # Errors
/// It is there twice, or is no ASCII text. No browser sends that.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        (Ok(_) | Err(_), _) => Err(Refusal::Origin),
    }
}

/// The host without its port and without the brackets of an address.
fn name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
            name
        }
        Some(_) | None => host,
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The query's token, for clients that cannot set headers.
fn token(uri: &Uri) -> Option<String> {
    let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let mut tokens = pairs.filter(|(name, _)| *name == TOKEN).map(|(_, value)| value);
    Some(tokens.next()?.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/"))
}

/// The hash of a user and a password, as [`Guard::new`] takes it.
pub(crate) fn credentials(user: &str, password: &str) -> [u8; 32] {
    digest(format!("{user}:{password}").as_bytes())
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        guard: &Guard,
        method: &str,
        uri: &str,
        headers: &[(&str, &str)],
    ) -> Result<(), Refusal> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: axum::http::HeaderName = name.parse().unwrap();
            map.append(name, axum::http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        guard.check(&method.parse().unwrap(), &uri.parse().unwrap(), &map)
    }

    #[test]
    fn only_this_server_and_allowed_pages_are_answered() {
        let cors = ["https://app.example".to_owned(), "http://localhost:3000/".to_owned()];
        let (plain, open) =
            (Guard::new("127.0.0.1", &[], None), Guard::new("127.0.0.1", &cors, None));
        let (ok, host, origin) = (Ok(()), Err(Refusal::Host), Err(Refusal::Origin));
        for (headers, expected) in [
            (vec![("host", "127.0.0.1:4096")], [ok, ok]),
            (vec![("host", "localhost:4096")], [ok, ok]),
            (vec![("host", "LOCALHOST")], [ok, ok]),
            (vec![("host", "[::1]:4096")], [ok, ok]),
            (vec![], [host, host]),
            (vec![("host", "evil.example")], [host, host]),
            (vec![("host", "localhost.evil.example:4096")], [host, host]),
            (vec![("host", "192.168.1.5:4096")], [host, host]),
            (vec![("host", "app.example")], [host, ok]),
            (vec![("host", "localhost:4096"), ("origin", "http://localhost:4096")], [ok, ok]),
            (
                vec![("host", "localhost:4096"), ("origin", "http://127.0.0.1:4096")],
                [origin, origin],
            ),
            (vec![("host", "localhost:4096"), ("origin", "http://localhost:3000")], [origin, ok]),
            (vec![("host", "localhost:4096"), ("origin", "https://app.example")], [origin, ok]),
            (
                vec![("host", "localhost:4096"), ("origin", "https://app.example.evil")],
                [origin, origin],
            ),
            (vec![("host", "localhost:4096"), ("origin", "null")], [origin, origin]),
            (vec![("host", "localhost:4096"), ("origin", "tauri://localhost")], [ok, ok]),
            (vec![("host", "localhost:4096"), ("origin", "oc://renderer")], [ok, ok]),
            (vec![("host", "localhost:4096"), ("sec-fetch-site", "cross-site")], [origin, origin]),
            (
                vec![
                    ("host", "localhost:4096"),
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                ],
                [ok, ok],
            ),
            (vec![("host", "localhost:4096"), ("sec-fetch-site", "same-origin")], [ok, ok]),
            (vec![("host", "localhost:4096"), ("sec-fetch-site", "none")], [ok, ok]),
            // no browser sends these
            (vec![("host", "localhost:4096"), ("origin", "http://ü.example")], [origin, origin]),
            (vec![("host", "localhost:4096"), ("origin", "")], [origin, origin]),
            (
                vec![
                    ("host", "localhost:4096"),
                    ("origin", "http://localhost:4096"),
                    ("origin", "https://evil.example"),
                ],
                [origin, origin],
            ),
            (vec![("host", "localhost:4096"), ("sec-fetch-site", "cross-sité")], [origin, origin]),
            (vec![("host", "localhost:4096"), ("sec-fetch-site", "Cross-Site")], [origin, origin]),
            (
                vec![
                    ("host", "localhost:4096"),
                    ("sec-fetch-site", "same-origin"),
                    ("sec-fetch-site", "cross-site"),
                ],
                [origin, origin],
            ),
            (
                vec![
                    ("host", "localhost:4096"),
                    ("sec-fetch-site", "cross-site"),
                    ("sec-fetch-mode", "navigate"),
                    ("sec-fetch-mode", "cors"),
                ],
                [origin, origin],
            ),
        ] {
            for (guard, expected) in [&plain, &open].into_iter().zip(expected) {
                assert_eq!(check(guard, "POST", "/session", &headers), expected, "{headers:?}");
            }
        }
    }

    #[test]
    fn a_password_is_needed_for_everything_but_preflights() {
        let guard = Guard::new("0.0.0.0", &[], Some(credentials("opencode", "secret")));
        let host = ("host", "192.168.1.5:4096");
        // opencode:secret, opencode:Secret, opencode:
        let right = "Basic b3BlbmNvZGU6c2VjcmV0";
        let (ok, no) = (Ok(()), Err(Refusal::Unauthorized));
        for (method, uri, authorization, expected) in [
            ("GET", "/session", Some(right), ok),
            ("GET", "/session", None, no),
            ("GET", "/session", Some("Basic b3BlbmNvZGU6U2VjcmV0"), no),
            ("GET", "/session", Some("Basic b3BlbmNvZGU6"), no),
            ("GET", "/session", Some("Basic ?"), no),
            ("GET", "/session", Some("Bearer b3BlbmNvZGU6c2VjcmV0"), no),
            ("GET", "/event?x=1&auth_token=b3BlbmNvZGU6c2VjcmV0", None, ok),
            ("GET", "/event?auth_token=b3BlbmNvZGU6c2VjcmV1", None, no),
            ("OPTIONS", "/session", None, ok),
            ("GET", "/site.webmanifest", None, ok),
            ("GET", "/global/health", None, no),
        ] {
            let mut headers = vec![host];
            headers.extend(authorization.map(|value| ("authorization", value)));
            assert_eq!(
                check(&guard, method, uri, &headers),
                expected,
                "{method} {uri} {authorization:?}"
            );
        }
        assert_eq!(
            check(&guard, "GET", "/x", &[("host", "evil.example"), ("authorization", right)]),
            Err(Refusal::Host)
        );
    }
}
