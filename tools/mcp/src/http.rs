//! The HTTP client that remote servers are reached with.

/// TLS is on ring, for whoever makes a client in this process.
pub(crate) fn use_ring() {
    // fails if one has been installed already, which is just as well
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Reads the system's certificates, which may take 100 ms. Redirects are not followed: headers may
/// hold a key that is for this address alone.
pub(crate) fn client() -> Result<reqwest::Client, String> {
    use_ring();
    reqwest::Client::builder()
        .tls_backend_rustls()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("leftfold/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| format!("no HTTP client could be made: {error}"))
}
