//! The HTTP client for authorization servers and remote MCP servers.

use crate::trust;

/// Makes ring the TLS provider of this process.
pub fn use_ring() {
    // fails only if a provider is installed already
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Uses no proxy if `NO_PROXY=*` excepts every host. The HTTP library applies it to names but not to IP addresses.
pub fn heeding_no_proxy(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    let all = |name| {
        std::env::var(name).is_ok_and(|hosts| hosts.split(',').any(|host| host.trim() == "*"))
    };
    if all("no_proxy") || all("NO_PROXY") { builder.no_proxy() } else { builder }
}

/// A client with the TLS and the proxies of the environment. Building the client reads the system's certificates, which
/// may take 100 ms.
pub fn builder() -> reqwest::ClientBuilder {
    use_ring();
    let builder = heeding_no_proxy(reqwest::Client::builder());
    match trust::of_environment() {
        Some(config) => builder.tls_backend_preconfigured(config),
        None => builder.tls_backend_rustls(),
    }
}

/// Reads the system's certificates, which may take 100 ms. Redirects are not followed: the headers
/// may hold a key meant for the configured address alone.
pub fn client() -> Result<reqwest::Client, String> {
    builder()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("cannot create an HTTP client: {error}"))
}
