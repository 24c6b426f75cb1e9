//! The HTTP clients, shared by the whole process, and messages for failures below HTTP.

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leftfold_events::event::FailureClass;
use leftfold_oauth::http::{builder, heeding_no_proxy};
use reqwest::{Client, RequestBuilder, StatusCode, Url, redirect};

use crate::errors::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest answer of [`ask`], in bytes.
const LARGEST_ANSWER: usize = 64 * 1024;

/// A client, or the reason why it cannot be built.
type Built = Result<Client, String>;

/// The client for plain HTTP. It is separate because it needs no certificates, and reading those of
/// the system takes as long as the rest of the program's start.
static PLAIN: OnceLock<Built> = OnceLock::new();
static TLS: OnceLock<Built> = OnceLock::new();

/// Builds the client for `https` addresses, which reads the system's certificates (some 10 to 100
/// ms), or the client for plain `http` (some 2 ms). Call it early on a thread of its own. Otherwise
/// the first request builds the client.
pub fn warm(encrypted: bool) {
    if encrypted {
        tls()
    } else {
        plain()
    };
}

fn tls() -> &'static Built {
    TLS.get_or_init(|| build(system_roots))
}

fn plain() -> &'static Built {
    PLAIN.get_or_init(|| build(no_roots))
}

/// The client for `url`. It uses the proxies of the environment.
pub(crate) async fn client(url: &Url) -> Result<Client, Failure> {
    let built = if url.scheme() == "http" && !proxy_speaks_tls() {
        plain()
    } else if let Some(built) = TLS.get() {
        built
    } else {
        // joining fails only if the runtime shuts down or the thread panicked: the client is then
        // built here
        let _ = tokio::task::spawn_blocking(tls).await;
        tls()
    };
    built.clone().map_err(|reason| Failure::fatal(FailureClass::Network, reason))
}

/// A client for plain HTTP that uses no proxy.
pub(crate) fn without_proxy() -> Result<Client, Failure> {
    let built = no_roots().and_then(|builder| finish(builder.no_proxy()));
    built.map_err(|reason| Failure::fatal(FailureClass::Network, reason))
}

/// The status and the body of a short answer, up to [`LARGEST_ANSWER`]. Failures begin with `what`, which did not work.
///
/// # Errors
/// There is no answer within `timeout`.
pub(crate) async fn ask(
    what: &str,
    request: RequestBuilder,
    url: &Url,
    timeout: Duration,
) -> Result<(StatusCode, Vec<u8>), Failure> {
    let address = display_url(url);
    let network = |why: String| Failure::new(FailureClass::Network, format!("{what}: {why}"));
    let unreachable =
        |error: reqwest::Error| network(format!("no connection to {address}: {}", chain(&error)));
    let answer = async {
        let mut response = request.send().await.map_err(unreachable)?;
        let mut body = Vec::new();
        while body.len() < LARGEST_ANSWER
            && let Some(bytes) = response.chunk().await.map_err(unreachable)?
        {
            body.extend_from_slice(&bytes);
        }
        Ok((response.status(), body))
    };
    tokio::time::timeout(timeout, answer)
        .await
        .map_err(|_| network(format!("{address} did not answer within {} s", timeout.as_secs())))?
}

/// Whether an address is one of this machine, by its number.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    address.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

fn build(tls: fn() -> Result<reqwest::ClientBuilder, String>) -> Built {
    finish(heeding_no_proxy(tls()?))
}

fn finish(builder: reqwest::ClientBuilder) -> Built {
    builder
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        // every request has its own intent in a log, so the client must not retry
        .retry(reqwest::retry::never())
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|e| {
            format!(
                "no HTTPS client: {}; install the system's CA certificates or set SSL_CERT_FILE",
                chain(&e)
            )
        })
}

fn system_roots() -> Result<reqwest::ClientBuilder, String> {
    Ok(builder())
}

fn no_roots() -> Result<reqwest::ClientBuilder, String> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(Client::builder().tls_backend_preconfigured(config))
}

/// Whether even plain HTTP may go through a proxy that is reached by TLS.
fn proxy_speaks_tls() -> bool {
    ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .filter_map(|name| std::env::var(name).ok())
        .any(|proxy| proxy.starts_with("https:"))
}

/// `url` without user, password and query, for messages.
pub(crate) fn display_url(url: &Url) -> String {
    let mut url = url.clone();
    // these fail only for addresses that can have neither
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// The failure of a request without an answer, or of an answer that broke off.
pub(crate) fn failure(provider: &str, url: &Url, error: &reqwest::Error) -> Failure {
    let address = display_url(url);
    let text = chain(error);
    let lower = text.to_lowercase();
    let setting = format!("`provider.{provider}.options.baseURL`");
    let class = FailureClass::Network;
    if error.is_builder() || error.is_request() && lower.contains("invalid uri") {
        return Failure::fatal(FailureClass::Invalid, format!("no request to {address}: {text}"));
    }
    if lower.contains("certificate") || lower.contains("invalid peer") {
        return Failure::fatal(
            class,
            format!(
                "no secure connection to {address}: {text}; check the system's clock and CA certificates (SSL_CERT_FILE names others)"
            ),
        );
    }
    if !error.is_connect() {
        return Failure::new(class, format!("the connection to {address} broke: {text}"));
    }
    let advice = if lower.contains("dns") || lower.contains("lookup") {
        format!("its name is not known; check {setting} and the network")
    } else if error.is_timeout() {
        format!("it did not answer within {} s; check the network", CONNECT_TIMEOUT.as_secs())
    } else if kind(error) == Some(io::ErrorKind::ConnectionRefused) {
        format!("no server listens there; check that the server runs and that {setting} is right")
    } else {
        format!("{text}; check the network and {setting}")
    };
    let way = proxy_variable(url.scheme()).map(|name| format!(" (by the proxy of {name})"));
    let way = way.unwrap_or_default();
    Failure::new(class, format!("no connection to {address}{way}: {advice}"))
}

/// The environment variable that names a proxy for this scheme. `NO_PROXY` may make exceptions.
fn proxy_variable(scheme: &str) -> Option<&'static str> {
    const PLAIN: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
    const TLS: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    let names = if scheme == "http" { PLAIN } else { TLS };
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    names
        .into_iter()
        .find(|name| is_set(name))
        .filter(|_| !["no_proxy", "NO_PROXY"].iter().any(|name| is_set(name)))
}

/// The kind of the innermost I/O error.
fn kind(error: &dyn StdError) -> Option<io::ErrorKind> {
    let mut found = None;
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            found = Some(io.kind());
        }
        next = error.source();
    }
    found
}

/// The causes of an error, outermost last, without the address that reqwest adds.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    texts.pop().unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_secrets() {
        let url = Url::parse("https://user:pass@host:8443/v1/messages?key=secret#x").unwrap();
        assert_eq!(display_url(&url), "https://host:8443/v1/messages");
    }

    /// A server that accepts connections but never starts TLS. The test's clock skips idle time, so
    /// the real limit applies and the test does not wait for it.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_does_not_come_about_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/v1/messages", listener.local_addr().unwrap());
        let url = Url::parse(&url).unwrap();
        // the client's certificates do not matter: the server sends none
        let client = plain().clone().unwrap();
        let before = tokio::time::Instant::now();
        let error = client.post(url.clone()).body("{}").send().await.unwrap_err();
        let waited = before.elapsed();
        assert!(waited >= CONNECT_TIMEOUT && waited < CONNECT_TIMEOUT * 2, "{waited:?}");
        let failure = failure("p", &url, &error);
        assert_eq!((failure.class, failure.retryable), (FailureClass::Network, true));
        let expected = format!("no connection to {url}: it did not answer within 10 s");
        assert!(failure.message.starts_with(&expected), "{}", failure.message);
    }

    #[tokio::test]
    async fn plain_http_needs_no_certificates() {
        let url = Url::parse("http://127.0.0.1:1/").unwrap();
        assert!(client(&url).await.is_ok());
        assert!(PLAIN.get().is_some());
    }
}
