//! A client that waits for a session that it loads or resumes.

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{LoadSessionResponse, ResumeSessionResponse};

use super::choices::AvailableChoices;

/// A client's request that waits for a session to be opened.
pub(super) enum Arrival {
    /// To be told all of it.
    Load(Responder<LoadSessionResponse>),
    /// Knows it already.
    Resume(Responder<ResumeSessionResponse>),
}

impl Arrival {
    pub(super) fn wants_history(&self) -> bool {
        matches!(self, Self::Load(_))
    }

    /// The session is there, with what can be chosen in it.
    pub(super) fn arrived(self, available: Option<&AvailableChoices>) -> Result<(), Error> {
        let (modes, options) =
            (available.map(AvailableChoices::modes), available.map(AvailableChoices::options));
        match self {
            Self::Load(responder) => {
                responder.respond(LoadSessionResponse::new().modes(modes).config_options(options))
            }
            Self::Resume(responder) => {
                responder.respond(ResumeSessionResponse::new().modes(modes).config_options(options))
            }
        }
    }

    pub(super) fn failed(self, error: Error) -> Result<(), Error> {
        match self {
            Self::Load(responder) => responder.respond_with_error(error),
            Self::Resume(responder) => responder.respond_with_error(error),
        }
    }
}
