use serde::{Deserialize, Serialize};

use super::model::ModelRef;
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
    DeadlinePassed {},
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
    /// A client has chosen how the prompts after this one are taken. It replaces the choice before.
    Configured {
        choices: SessionChoices,
        /// Who chose, and where from.
        by: String,
    },
}

/// How the prompts of a session are taken, unless a prompt says otherwise itself. Where nothing is
/// chosen, it is as settings and the session's last prompt say.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionChoices {
    pub agent: Option<String>,
    pub model: Option<ModelRef>,
    /// Of the model.
    pub variant: Option<String>,
}

impl SessionChoices {
    /// Whether nothing is chosen.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
