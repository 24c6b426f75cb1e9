//! The HTTP client for authorization servers and remote MCP servers.

/// Makes ring the TLS provider of this process.
pub fn use_ring() {
    // fails only if a provider is installed already
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Reads the system's certificates, which may take 100 ms. Redirects are not followed: the headers
/// may hold a key meant for the configured address alone.
pub fn client() -> Result<reqwest::Client, String> {
    use_ring();
    reqwest::Client::builder()
        .tls_backend_rustls()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("cannot create an HTTP client: {error}"))
}
