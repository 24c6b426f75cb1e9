use serde::{Deserialize, Serialize};

/// The means by which commands are confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// Leftfold's own namespaces, Landlock and seccomp.
    Namespaces,
    /// The program `bwrap`, Landlock and seccomp.
    Bwrap,
    /// Landlock and seccomp. Sockets of other programs and the metadata of files stay reachable.
    Landlock,
    /// The container around Leftfold is the sandbox, as the user says.
    External,
    /// The user wants none.
    Off,
    /// The user wants one, and this machine has none.
    #[default]
    None,
    /// `sandbox-exec` of macOS. Processes that leave their process group do not end with the command.
    Seatbelt,
}

impl Backend {
    /// Whether Leftfold confines commands.
    pub fn confines(self) -> bool {
        match self {
            Self::Namespaces | Self::Bwrap | Self::Landlock | Self::Seatbelt => true,
            Self::External | Self::Off | Self::None => false,
        }
    }

    /// Whether a confined command reaches nothing but its profile, so that it may run without a question.
    pub(crate) fn is_tight(self) -> bool {
        match self {
            Self::Namespaces | Self::Bwrap => true,
            Self::Landlock | Self::External | Self::Off | Self::None | Self::Seatbelt => false,
        }
    }
}

/// Whether a command may change the worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeAccess {
    #[default]
    Write,
    Read,
}

impl WorktreeAccess {
    pub(crate) fn is_write(&self) -> bool {
        *self == Self::Write
    }
}

/// The confinement of one call, which `tool.started` records. Paths are absolute. The settings' own paths
/// (`hide`, `show`) stay in the turn configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// [`Backend::Off`] if a permission lets the call run outside the sandbox.
    pub backend: Backend,
    /// Whether the call reaches more than the addresses of its own sandbox.
    pub network: bool,
    pub worktree: WorktreeAccess,
    /// Files and folders that the call may change besides the worktree. Hidden paths below them stay hidden.
    pub write: Vec<String>,
    /// Files and folders that the call may read although a hidden folder contains them, or they are hidden
    /// themselves. Hidden paths below them stay hidden.
    pub shown: Vec<String>,
}
