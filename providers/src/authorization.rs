//! How requests are authorised if a fixed key is not enough: a token that expires and is refreshed, a token that a
//! service account gets, or a signature of the complete request.
//!
//! A fixed key is a header of [`Endpoint`](crate::endpoint) and needs nothing from here. Everything else implements
//! [`Authorize`] and goes into [`Config::authorization`](crate::Config::authorization). It is called for every
//! request directly before it is sent, so that no credential is part of a turn's configuration or of a log.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use leftfold_events::event::FailureClass;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::errors::Failure;

/// Authorises the requests of one provider.
pub trait Authorize: fmt::Debug + Send + Sync {
    /// A name without secrets. Two with the same identity may stand for each other.
    fn identity(&self) -> &str;

    /// Adds headers to the request, or changes its address or its headers. The body is final. It may wait for a token,
    /// and should give up by itself after some time.
    ///
    /// Returns the credentials that the request now carries and those that it was made with. They are kept out of
    /// the log and of errors from here on.
    ///
    /// # Errors
    /// There is no credential. The failure says what the user can do, and is retryable if waiting may help.
    fn authorize<'a>(
        &'a self,
        request: &'a mut Outgoing,
    ) -> BoxFuture<'a, Result<Credentials, Failure>>;

    /// The server did not accept these credentials (status 401). Returns whether the next request will have others, so
    /// that repeating this one makes sense.
    fn refused(&self, _used: &Credentials) -> bool {
        false
    }
}

/// A request as it is about to be sent, by POST.
pub struct Outgoing {
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Outgoing {
    /// Sets a header, which replaces one of the same name. Its value is treated as a secret.
    ///
    /// # Errors
    /// Name or value are not valid in HTTP.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let bad = || {
            let message = format!("the header `{name}` cannot be sent: it is not valid in HTTP");
            Failure::fatal(FailureClass::Auth, message)
        };
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }
}

/// Shows no query, no header and no body.
impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = crate::http::display_url(&self.url);
        f.debug_struct("Outgoing").field("url", &url).finish_non_exhaustive()
    }
}

/// Values that must not become known, with their names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(pub Vec<(String, String)>);

/// Shows names but no values.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// The way in which a provider's requests are authorised. Equal if the identities are.
#[derive(Clone)]
pub struct Authorization(Arc<dyn Authorize>);

impl Authorization {
    pub fn new(authorize: impl Authorize + 'static) -> Self {
        Self(Arc::new(authorize))
    }
}

impl std::ops::Deref for Authorization {
    type Target = dyn Authorize;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Authorization {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Authorization {}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorization").field(&self.identity()).finish()
    }
}
