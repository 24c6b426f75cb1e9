//! What a client answers to a question, as the session is told it.

use agent_client_protocol::v1::schema::{RequestPermissionOutcome, RequestPermissionResponse};
use agent_client_protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use leftfold_actors::Reply;
use leftfold_events::event::Answer;

use super::shared::BY;
use super::{inquiry, view};

/// What the client's answer is to the session; none if the connection is gone, so that the question
/// stays open.
pub(super) fn told<T>(response: Result<T, Error>, reply: impl FnOnce(T) -> Reply) -> Option<Reply> {
    match response {
        Ok(response) => Some(reply(response)),
        Err(error) if is_incoming_transport_closed(&error) || is_connection_terminated(&error) => {
            None
        }
        Err(error) => {
            let why = format!("The client could not be asked: {}", error.message);
            Some(Reply { answer: Answer::Reject, feedback: Some(why), by: BY.to_owned() })
        }
    }
}

/// The answer that the chosen option stands for.
pub(super) fn chosen(response: &RequestPermissionResponse, answers: &[String]) -> Reply {
    let chosen = match &response.outcome {
        RequestPermissionOutcome::Selected(selected) => &*selected.option_id.0,
        RequestPermissionOutcome::Cancelled | _ => view::REJECT,
    };
    let (answer, feedback) = match chosen {
        id if let Some(answer) = inquiry::chosen(id, answers) => {
            (Answer::Once, Some(answer.clone()))
        }
        view::ONCE => (Answer::Once, None),
        view::ALWAYS => (Answer::Always, None),
        _ => (Answer::Reject, None),
    };
    Reply { answer, feedback, by: BY.to_owned() }
}
