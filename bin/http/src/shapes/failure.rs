//! Answers to requests that were not done.

use axum::http::StatusCode;
use schemars::{Schema, SchemaGenerator};

use super::message::UnknownError;

shapes! {
    BadRequestError {
        name = "BadRequest",
        _tag = "BadRequest",
        data: { message: String, kind? = "Params" | "Headers" | "Query" | "Body" | "Payload" },
        message: String,
    }
    NotFoundError { name = "NotFoundError", data: { message: String } }
    PermissionNotFoundError { _tag = "PermissionNotFoundError", requestID: String, message: String }
    QuestionNotFoundError { _tag = "QuestionNotFoundError", requestID: String, message: String }
    PtyNotFoundError { _tag = "PtyNotFoundError", ptyID: String, message: String }
    McpServerNotFoundError { _tag = "McpServerNotFoundError", name: String, message: String }
    /// The MCP server has no sign-in, or cannot begin one.
    McpUnsupportedOAuthError { error: String }
    PtyForbiddenError { _tag = "PtyForbiddenError", message: String }
    /// A turn is running, or another process runs the session.
    SessionBusyError { _tag = "SessionBusyError", sessionID: String, message: String }
    /// A quota of the project is used up.
    QuotaReachedError { name = "QuotaReached", data: { message: String } }
    /// Leftfold does not offer this.
    NotSupportedError { name = "NotSupportedError", data: { message: String } }
    /// The server refuses the request whatever it asks for.
    ForbiddenError { name = "Forbidden", data: { message: String } }
}

unions! {
    /// Why a request was not done.
    RequestError = BadRequestError | NotFoundError | PermissionNotFoundError | QuestionNotFoundError | PtyNotFoundError
        | McpServerNotFoundError | McpUnsupportedOAuthError | PtyForbiddenError | SessionBusyError | QuotaReachedError | NotSupportedError
        | ForbiddenError | UnknownError;
}

/// A failure that a route has a status of its own for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    BadRequest,
    NotFound,
    NoPermission,
    NoQuestion,
    NoTerminal,
    NoServer,
    NoSignIn,
    TerminalForbidden,
    Busy,
    /// The page knows another run.
    Stale,
    QuotaReached,
    NotSupported,
}

impl Failure {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::NoSignIn => StatusCode::BAD_REQUEST,
            Self::NotFound
            | Self::NoPermission
            | Self::NoQuestion
            | Self::NoTerminal
            | Self::NoServer => StatusCode::NOT_FOUND,
            Self::TerminalForbidden => StatusCode::FORBIDDEN,
            Self::Busy | Self::Stale => StatusCode::CONFLICT,
            Self::QuotaReached => StatusCode::TOO_MANY_REQUESTS,
            Self::NotSupported => StatusCode::NOT_IMPLEMENTED,
        }
    }

    pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::BadRequest => generator.subschema_for::<BadRequestError>(),
            Self::NotFound => generator.subschema_for::<NotFoundError>(),
            Self::NoPermission => generator.subschema_for::<PermissionNotFoundError>(),
            Self::NoQuestion => generator.subschema_for::<QuestionNotFoundError>(),
            Self::NoTerminal => generator.subschema_for::<PtyNotFoundError>(),
            Self::NoServer => generator.subschema_for::<McpServerNotFoundError>(),
            Self::NoSignIn => generator.subschema_for::<McpUnsupportedOAuthError>(),
            Self::TerminalForbidden => generator.subschema_for::<PtyForbiddenError>(),
            Self::Busy => generator.subschema_for::<SessionBusyError>(),
            Self::Stale => generator.subschema_for::<ForbiddenError>(),
            Self::QuotaReached => generator.subschema_for::<QuotaReachedError>(),
            Self::NotSupported => generator.subschema_for::<NotSupportedError>(),
        }
    }
}
