//! Errors in the shapes of OpenCode's API.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leftfold_runtime::Usage;
use leftfold_runtime::client::{self, InAnotherNode};
use leftfold_runtime::redact_output;
use leftfold_runtime::socket::RpcError;
use serde_json::{Value, json};

use crate::opencode::ids;

/// An answer that says why a request was not done.
#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    body: Value,
}

impl ApiError {
    /// There is no such session, message or file.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        let body = json!({ "name": "NotFoundError", "data": { "message": message.into() } });
        Self { status: StatusCode::NOT_FOUND, body }
    }

    /// There is no such request for a permission or an answer any more. `by`: the party that has answered it.
    pub(crate) fn no_request(tag: &str, request: &str, by: Option<&str>) -> Self {
        let message = match by {
            Some(by) => format!("the request `{request}` was already answered by {by}"),
            None => format!("there is no open request `{request}`"),
        };
        let body = json!({ "_tag": tag, "requestID": request, "message": message });
        Self { status: StatusCode::NOT_FOUND, body }
    }

    /// There is no such terminal, or its program has ended.
    pub(crate) fn no_terminal(terminal: &str) -> Self {
        let message = format!("there is no terminal `{terminal}`");
        let body = json!({ "_tag": "PtyNotFoundError", "ptyID": terminal, "message": message });
        Self { status: StatusCode::NOT_FOUND, body }
    }

    /// There is no such MCP server.
    pub(crate) fn no_server(server: &str) -> Self {
        let message = format!("the settings have no MCP server `{server}`, and none was added");
        let body = json!({ "_tag": "McpServerNotFoundError", "name": server, "message": message });
        Self { status: StatusCode::NOT_FOUND, body }
    }

    /// An MCP server has no sign-in, or cannot begin one.
    pub(crate) fn no_sign_in(why: &str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, body: json!({ "error": why }) }
    }

    pub(crate) fn terminal_forbidden(message: &str) -> Self {
        let body = json!({ "_tag": "PtyForbiddenError", "message": message });
        Self { status: StatusCode::FORBIDDEN, body }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        let message = message.into();
        let body = json!({
            "name": "BadRequest",
            "_tag": "BadRequest",
            "data": { "message": message, "kind": "Body" },
            "message": message,
        });
        Self { status: StatusCode::BAD_REQUEST, body }
    }

    /// A turn is running in the session.
    pub(crate) fn busy(session: &str) -> Self {
        let message =
            format!("a turn is running in session {session}: abort it, or wait for its end");
        Self::session_busy(session, &message)
    }

    fn session_busy(session: &str, message: &str) -> Self {
        let body = json!({ "_tag": "SessionBusyError", "sessionID": session, "message": message });
        Self { status: StatusCode::CONFLICT, body }
    }

    /// OpenCode offers this; Leftfold does not.
    pub(crate) fn not_supported(message: &str) -> Self {
        let body = json!({ "name": "NotSupportedError", "data": { "message": message } });
        Self { status: StatusCode::NOT_IMPLEMENTED, body }
    }

    pub(crate) fn refused(status: StatusCode, message: &str) -> Self {
        let body = json!({ "name": "Forbidden", "data": { "message": message } });
        Self { status, body }
    }

    /// An error of the program: the user's input was fine.
    pub(crate) fn internal(error: &anyhow::Error) -> Self {
        let text = format!("{error:#}");
        let message = redact_output::clean(&text);
        let body = json!({ "name": "UnknownError", "data": { "message": message } });
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, body }
    }
}

impl From<anyhow::Error> for ApiError {
    fn from(error: anyhow::Error) -> Self {
        if let Some(InAnotherNode(session)) = error.downcast_ref() {
            let session = ids::of_session(*session);
            let message = format!(
                "another process (`leftfold run` or a terminal) runs session {session}: prompt it there, or send this \
                 again when its turn has ended or was aborted"
            );
            return Self::session_busy(&session, &message);
        }
        if client::is_out_of_quota(&error) {
            let text = format!("{error:#}");
            let message = redact_output::clean(&text);
            let body = json!({ "name": "QuotaReached", "data": { "message": message } });
            return Self { status: StatusCode::TOO_MANY_REQUESTS, body };
        }
        let is_params = error.downcast_ref::<RpcError>().is_some_and(RpcError::is_params);
        if error.is::<Usage>() || is_params {
            return Self::bad_request(redact_output::clean(&format!("{error:#}")));
        }
        Self::internal(&error)
    }
}

impl From<RpcError> for ApiError {
    fn from(error: RpcError) -> Self {
        Self::from(anyhow::Error::from(error))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, axum::Json(self.body)).into_response()
    }
}
