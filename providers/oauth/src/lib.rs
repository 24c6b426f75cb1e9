//! Signs people in (login) with OAuth 2: in a browser with a redirect to this machine, or with a code that they type into a page.
//!
//! Everything that differs between vendors is data: [`SignIn`]. The requests and the polling are those of the crate
//! `oauth2`. Nothing here stores tokens, knows settings, or decides when to refresh; no error and no debug output has
//! a token, a code or a verifier.

mod answer;
mod callback;
mod claims;
mod consent;
mod device;
mod flow;
pub mod http;
mod row;
mod server;
pub mod trust;

pub use callback::{Callback, Redirect, query};
pub use consent::{AutoConsent, CONSENT_TIMEOUT, Consent, answer};
pub use flow::{Method, Started};
pub use row::{Account, Browser, DeviceCode, Enterprise, SignIn};
pub use server::{Error, Server, Tokens};
