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

/// The failures, each with its status and the type of its body.
macro_rules! failures {
    ($($(#[doc = $doc:literal])* $name:ident $status:ident $body:ident;)*) => {
        /// A failure that a route has a status of its own for.
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Failure { $($(#[doc = $doc])* $name,)* }

        impl Failure {
            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)* }
            }

            pub(crate) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
                match self { $(Self::$name => generator.subschema_for::<$body>(),)* }
            }
        }
    };
}

failures! {
    BadRequest BAD_REQUEST BadRequestError;
    NotFound NOT_FOUND NotFoundError;
    NoPermission NOT_FOUND PermissionNotFoundError;
    NoQuestion NOT_FOUND QuestionNotFoundError;
    NoTerminal NOT_FOUND PtyNotFoundError;
    NoServer NOT_FOUND McpServerNotFoundError;
    NoSignIn BAD_REQUEST McpUnsupportedOAuthError;
    TerminalForbidden FORBIDDEN PtyForbiddenError;
    Busy CONFLICT SessionBusyError;
    /// The page knows another run.
    Stale CONFLICT ForbiddenError;
    QuotaReached TOO_MANY_REQUESTS QuotaReachedError;
    NotSupported NOT_IMPLEMENTED NotSupportedError;
}
