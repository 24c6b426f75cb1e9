//! A client's pending request to load or resume a session.

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{LoadSessionResponse, ResumeSessionResponse};

use super::choices::AvailableChoices;
use leftfold_events::Seq;

/// A request that waits until a session is opened.
pub(super) enum Arrival {
    /// The client wants all of its history.
    Load(Responder<LoadSessionResponse>),
    /// The client knows the history, or that up to an event.
    Resume(Responder<ResumeSessionResponse>, Option<Seq>),
}

impl Arrival {
    /// Whether the client wants the updates of this event of the history.
    pub(super) fn wants(&self, seq: Seq) -> bool {
        match self {
            Self::Load(_) => true,
            Self::Resume(_, after) => after.is_some_and(|after| seq > after),
        }
    }

    /// Whether the client goes on where another node had ended.
    pub(super) fn goes_on(&self) -> bool {
        matches!(self, Self::Resume(_, Some(_)))
    }

    /// Answers the request: the session is open and has these choices.
    pub(super) fn arrived(self, available: Option<&AvailableChoices>) -> Result<(), Error> {
        let (modes, options) =
            (available.map(AvailableChoices::modes), available.map(AvailableChoices::options));
        match self {
            Self::Load(responder) => {
                responder.respond(LoadSessionResponse::new().modes(modes).config_options(options))
            }
            Self::Resume(responder, _) => {
                responder.respond(ResumeSessionResponse::new().modes(modes).config_options(options))
            }
        }
    }

    pub(super) fn failed(self, error: Error) -> Result<(), Error> {
        match self {
            Self::Load(responder) => responder.respond_with_error(error),
            Self::Resume(responder, _) => responder.respond_with_error(error),
        }
    }
}
