//! Converts errors to the protocol's.

use agent_client_protocol::Error;
use leftfold_runtime::{Usage, client, redact_output};

/// A usage error is one that the client can correct.
pub(super) fn to_error(error: &anyhow::Error) -> Error {
    let standard = match error.is::<Usage>() || client::is_out_of_quota(error) {
        true => Error::invalid_params(),
        false => Error::internal_error(),
    };
    Error::new(standard.code, redact_output::clean(&format!("{error:#}")).into_owned())
}

/// Ignores the failure to send to a client that is gone.
pub(super) fn report(sent: Result<(), Error>) {
    if let Err(error) = sent {
        tracing::debug!("the client is gone: {error}");
    }
}
