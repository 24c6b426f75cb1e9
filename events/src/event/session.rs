use serde::{Deserialize, Serialize};

use crate::id::{Seq, SessionId};

/// The life of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Session {
    Created {
        /// Where the session works: an absolute path.
        directory: String,
        /// The project's root, at or above `directory`.
        worktree: String,
        parent: Option<SessionId>,
        agent: String,
        /// The version of Leftfold that wrote this.
        version: String,
        policy: u16,
    },
    Titled {
        title: String,
    },
    /// A node goes on with a log that another one left. `close`: a new prompt follows, so the
    /// turn that was cut off is brought to its end and nothing of it is run again.
    Resumed {
        policy: u16,
        close: bool,
    },
    /// First event of a fork; `at` is the last seq shared with `from`.
    Forked {
        from: SessionId,
        at: Seq,
    },
    /// The wait of the intent `of` is over.
    Elapsed {},
    /// A fork of a child works for the session `parent`, which is a fork of the child's own parent. It
    /// follows on `Forked`, and what that has closed.
    Adopted {
        parent: SessionId,
    },
    /// The events up to and with `through` tell what another agent has kept: nothing in them was decided
    /// here.
    Imported {
        /// The name of that agent.
        from: String,
        /// What it calls the session.
        id: String,
        /// Its version.
        version: String,
        through: Seq,
    },
}
