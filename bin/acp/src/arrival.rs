//! A client's pending request to load or resume a session.

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{LoadSessionResponse, ResumeSessionResponse};

use super::choices::AvailableChoices;

/// A request that waits until a session is opened.
pub(super) enum Arrival {
    /// The client wants all of its history.
    Load(Responder<LoadSessionResponse>),
    /// The client knows the history.
    Resume(Responder<ResumeSessionResponse>),
}

impl Arrival {
    pub(super) fn wants_history(&self) -> bool {
        matches!(self, Self::Load(_))
    }

    /// Answers the request: the session is open and has these choices.
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
