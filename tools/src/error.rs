//! The errors of tools. Each message is written for the model that made the call.

use std::io;
use std::path::Path;

use rustix::io::Errno;

/// A tool's failure. `Display` is what the model reads; [`Error::kind`] is for programs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "The {tool} tool was called with invalid arguments: {problem}. Rewrite the input so it satisfies the expected schema."
    )]
    InvalidArguments { tool: &'static str, problem: String },
    /// Invalid arguments for a tool of a server or plugin.
    #[error(
        "The {tool} tool was called with invalid arguments: {problem}. Rewrite the input so it satisfies the expected schema."
    )]
    InvalidInput { tool: String, problem: String },
    #[error("{0}")]
    UnknownTool(String),
    #[error(transparent)]
    UnknownSecret(#[from] leftfold_events::secrets::UnknownSecret),
    /// The call had been resolved to an error and was started nevertheless.
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    IsDirectory(String),
    #[error("{0}")]
    NotDirectory(String),
    /// A pipe, socket or device.
    #[error("{0}")]
    SpecialFile(String),
    #[error("{0}")]
    Binary(String),
    /// Text in another encoding, which `charset` names.
    #[error("{message}")]
    NotUtf8 { charset: &'static str, message: String },
    #[error("{0}")]
    TooLarge(String),
    #[error("{0}")]
    OffsetPastEnd(String),
    #[error("oldString and newString are identical, so there is nothing to change.")]
    Identical,
    #[error("{0}")]
    EmptyOldString(String),
    #[error("{0}")]
    NoMatch(String),
    #[error("{0}")]
    MultipleMatches(String),
    /// A patch that cannot be read or contradicts itself.
    #[error("{0}")]
    InvalidPatch(String),
    /// Something exists at the path of a new file.
    #[error("{0}")]
    AlreadyExists(String),
    /// Writing several files failed, and every file is unchanged.
    #[error("{0}")]
    NotWritten(String),
    /// Writing several files failed, and so did restoring those already written.
    #[error("{0}")]
    HalfWritten(String),
    #[error("{0}")]
    MatchTooLarge(String),
    #[error("{0}")]
    ChangedOnDisk(String),
    /// A command was not run, because its sandbox could not be set up.
    #[error("{0}")]
    Sandbox(String),
    /// One of several edits, counted from 1.
    #[error("Edit {number} of {of} failed, and none of them was made: {reason}")]
    Edit { number: usize, of: usize, reason: Box<Error> },
    #[error("{0}")]
    SymlinkLoop(String),
    #[error("{0}")]
    OutsideWorkspace(String),
    #[error(
        "The paths of this call changed between the permission check and its start ({judged} became {found}); nothing was done. Try again."
    )]
    PathsChanged { judged: String, found: String },
    #[error("{0}")]
    PermissionDenied(String),
    /// Settings lack what the tool needs.
    #[error("{0}")]
    NotConfigured(String),
    /// An address that the tool may not reach.
    #[error("{0}")]
    AddressRefused(String),
    /// No answer over the network, or an answer that broke off.
    #[error("{0}")]
    Network(String),
    /// An HTTP answer with an error status.
    #[error("{0}")]
    HttpStatus(String),
    /// An error that a [`ToolSource`](crate::ToolSource) reports about a call.
    #[error("{message}")]
    External {
        /// The word for [`Error::kind`].
        kind: &'static str,
        message: String,
    },
    /// The client (an editor) was asked to do it, and it is unknown whether it did.
    #[error("{0}")]
    Client(String),
    /// A process could not be started, or its output could not be read.
    #[error("{0}")]
    Process(String),
    #[error("The call was cancelled before it had any effect.")]
    Cancelled,
    #[error("The call did not end within {0} ms.")]
    Timeout(u64),
    #[error("{0}")]
    Io(String),
}

impl Error {
    /// A stable word for this kind of failure, for `metadata.error_kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::InvalidArguments { .. } | Self::InvalidInput { .. } => "invalid_arguments",
            Self::UnknownTool(_) => "unknown_tool",
            Self::UnknownSecret(_) => "unknown_secret",
            Self::Refused(_) => "refused",
            Self::NotFound(_) => "not_found",
            Self::IsDirectory(_) => "is_directory",
            Self::NotDirectory(_) => "not_directory",
            Self::SpecialFile(_) => "special_file",
            Self::Binary(_) => "binary",
            Self::NotUtf8 { .. } => "not_utf8",
            Self::TooLarge(_) => "too_large",
            Self::OffsetPastEnd(_) => "offset_past_end",
            Self::Identical => "identical",
            Self::EmptyOldString(_) => "empty_old_string",
            Self::NoMatch(_) => "no_match",
            Self::MultipleMatches(_) => "multiple_matches",
            Self::InvalidPatch(_) => "invalid_patch",
            Self::AlreadyExists(_) => "already_exists",
            Self::NotWritten(_) => "not_written",
            Self::HalfWritten(_) => "half_written",
            Self::MatchTooLarge(_) => "match_too_large",
            Self::ChangedOnDisk(_) => "changed_on_disk",
            Self::Sandbox(_) => leftfold_events::sandbox::FAILED,
            Self::Edit { reason, .. } => reason.kind(),
            Self::SymlinkLoop(_) => "symlink_loop",
            Self::OutsideWorkspace(_) => "outside_workspace",
            Self::PathsChanged { .. } => "paths_changed",
            Self::PermissionDenied(_) => "permission_denied",
            Self::NotConfigured(_) => "not_configured",
            Self::AddressRefused(_) => "address_refused",
            Self::Network(_) => "network",
            Self::Client(_) => "client_silent",
            Self::HttpStatus(_) => "http_status",
            Self::External { kind, .. } => kind,
            Self::Process(_) => "process",
            Self::Cancelled => "cancelled",
            Self::Timeout(_) => "timeout",
            Self::Io(_) => "io",
        }
    }

    /// The file at `path` has changed since the model last saw it.
    pub(crate) fn changed(path: &Path) -> Self {
        Self::ChangedOnDisk(format!(
            "{} has changed on disk since you read it: read it again. Nothing was written.",
            path.display()
        ))
    }

    /// The operating system's error when it was asked to `act` ("read", "write") on `path`.
    pub(crate) fn io(act: &str, path: &Path, error: &io::Error) -> Self {
        let path = path.display();
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => Self::NotFound(format!("{path} does not exist.")),
            Some(Errno::ACCESS | Errno::PERM) => Self::PermissionDenied(format!(
                "Cannot {act} {path}: the operating system denies permission."
            )),
            Some(Errno::ISDIR) => Self::IsDirectory(format!("{path} is a directory.")),
            Some(Errno::NOTDIR) => Self::NotDirectory(format!(
                "Cannot {act} {path}: a part of the path is a file, not a directory."
            )),
            Some(Errno::NAMETOOLONG) => {
                Self::NotFound(format!("{path} cannot be a path: a name in it is too long."))
            }
            Some(Errno::LOOP) => {
                Self::PathsChanged { judged: path.to_string(), found: "a symbolic link".to_owned() }
            }
            _ => Self::Io(format!("Cannot {act} {path}: {error}.")),
        }
    }
}
