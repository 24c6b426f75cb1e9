//! The HTTP clients of `webfetch`. They connect only to allowed addresses.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::OnceLock;

use leftfold_oauth::http::builder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url, redirect};

use crate::Error;
use crate::address::{self, AddressKind};

/// A client, or the reason why it could not be built.
type ClientResult = Result<Client, String>;

static PUBLIC: OnceLock<ClientResult> = OnceLock::new();
static ANY: OnceLock<ClientResult> = OnceLock::new();

/// The client for public addresses, or for all addresses. Building it on first use reads the
/// system's certificates, which may take 100 ms.
///
/// # Errors
/// The client cannot be built.
pub(crate) async fn client(private: bool) -> Result<&'static Client, Error> {
    let cell = if private { &ANY } else { &PUBLIC };
    if cell.get().is_none() {
        // joining fails only when the runtime shuts down or the thread panicked: build it here then
        let building = move || _ = cell.get_or_init(|| build(private));
        let _ = tokio::task::spawn_blocking(building).await;
    }
    let built = cell.get_or_init(|| build(private));
    built.as_ref().map_err(|reason| Error::Network(reason.clone()))
}

fn build(private: bool) -> ClientResult {
    builder()
        .dns_resolver(AddressFilter { private, proxies: proxies() })
        // the caller checks each redirect before it follows it
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        // no pooling: fetches are rare, and a connection belongs to the runtime that made it
        .pool_max_idle_per_host(0)
        .referer(false)
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("Cannot create an HTTP client: {}.", innermost(&error)))
}

/// Resolves names to allowed addresses only. A connection is made to one of these, so a name that
/// resolves differently at every lookup gains nothing.
struct AddressFilter {
    private: bool,
    /// Hosts of the proxies in the environment. The user has chosen them, wherever they are.
    proxies: Vec<String>,
}

impl Resolve for AddressFilter {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let private = self.private;
        let trusted = self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(&name));
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let found = if trusted { found } else { reachable(found, private)? };
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The allowed addresses. An error if there are addresses and none is allowed.
fn reachable(found: Vec<SocketAddr>, private: bool) -> Result<Vec<SocketAddr>, Refused> {
    let (good, bad): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| AddressKind::from_address(found.ip()).allowed(private));
    match bad.first() {
        Some(bad) if good.is_empty() => Err(Refused(*bad)),
        _ => Ok(good),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it resolves to {}; {}", .0.ip(), address::reason(AddressKind::from_address(.0.ip())))]
struct Refused(SocketAddr);

/// Environment variables for proxies; the client reads these too.
const PROXIES: [&str; 6] =
    ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

fn proxies() -> Vec<String> {
    let host = |name| {
        let value: String = std::env::var(name).ok()?;
        proxy_host(&value)
    };
    PROXIES.into_iter().filter_map(host).collect()
}

/// The host of `http://me:pw@proxy:3128`, `proxy:3128` and similar values.
fn proxy_host(value: &str) -> Option<String> {
    let full = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    Some(Url::parse(&full).ok()?.host_str()?.to_owned())
}

/// Refuses to fetch from a proxy itself, because its name is resolved without a check.
pub(crate) fn check_proxies(url: &Url, private: bool) -> Result<(), Error> {
    let host = url.host_str().unwrap_or_default();
    if !private && proxies().iter().any(|proxy| proxy.eq_ignore_ascii_case(host)) {
        let text = format!("{}: it is the proxy itself.", address::shown(url));
        return Err(Error::AddressRefused(text));
    }
    Ok(())
}

/// The error for a request without an answer, or with an answer that broke off.
pub(crate) fn failure(url: &Url, error: &reqwest::Error) -> Error {
    let address = address::shown(url);
    if let Some(refused) = cause::<Refused>(error) {
        return Error::AddressRefused(format!("{address}: {refused}"));
    }
    let text = innermost(error);
    if error.is_connect() {
        return Error::Network(format!("No connection to {address}: {text}."));
    }
    Error::Network(format!("The answer of {address} broke off: {text}."))
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        error.source()
    })
}

/// The first cause of type `E`.
fn cause<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    causes(error).find_map(|error| error.downcast_ref::<E>())
}

/// The innermost cause: the outer ones only say "error sending request".
fn innermost(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_may_be_reached_are_given_out() {
        let public: SocketAddr = "1.1.1.1:0".parse().unwrap();
        let own: SocketAddr = "[::1]:0".parse().unwrap();
        let metadata: SocketAddr = "169.254.169.254:0".parse().unwrap();
        assert_eq!(reachable(vec![own, public], false).unwrap(), [public]);
        assert_eq!(reachable(vec![own, public, metadata], true).unwrap(), [own, public]);
        assert_eq!(reachable(vec![], false).unwrap(), []);
        let error = reachable(vec![own], false).unwrap_err();
        assert!(error.to_string().starts_with("it resolves to ::1; it is not a public"), "{error}");
        assert!(reachable(vec![metadata], true).is_err());
    }

    #[test]
    fn the_host_of_a_proxy() {
        for (value, host) in [
            ("http://proxy:3128", Some("proxy")),
            ("proxy.example:3128", Some("proxy.example")),
            ("https://me:pw@proxy/", Some("proxy")),
            ("socks5://[::1]:1080", Some("[::1]")),
            ("", None),
        ] {
            assert_eq!(proxy_host(value).as_deref(), host, "{value}");
        }
    }

    #[tokio::test]
    async fn a_name_is_judged_by_where_it_leads() {
        for (private, name, allowed) in
            [(false, "localhost", false), (true, "localhost", true), (false, "LOCALHOST", false)]
        {
            let guard = AddressFilter { private, proxies: Vec::new() };
            assert_eq!(guard.resolve(name.parse().unwrap()).await.is_ok(), allowed, "{name}");
        }
        let guard = AddressFilter { private: false, proxies: vec!["Localhost".to_owned()] };
        assert!(guard.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
