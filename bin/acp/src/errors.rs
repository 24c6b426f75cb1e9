//! Errors as the client is told them.

use agent_client_protocol::Error;
use leftfold_runtime::{Usage, redact_output};

/// A usage error is the client's to repair.
pub(super) fn to_error(error: &anyhow::Error) -> Error {
    let standard =
        if error.is::<Usage>() { Error::invalid_params() } else { Error::internal_error() };
    Error::new(standard.code, redact_output::clean(&format!("{error:#}")).into_owned())
}

/// A client that has gone needs nothing more.
pub(super) fn report(sent: Result<(), Error>) {
    if let Err(error) = sent {
        tracing::debug!("the client is gone: {error}");
    }
}
