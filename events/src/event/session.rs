use serde::{Deserialize, Serialize};

use super::model::ModelRef;
use crate::id::{Seq, SessionId};
use crate::rules::Rule;
use crate::time::Time;

events! {
    /// The life of a session.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Session {
        fact Created {
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
        fact Titled { title: String } texts [title],
        /// A node continues a log that another node left. `close`: a new prompt follows, so the
        /// interrupted turn is ended and none of its calls is run again.
        fact Resumed { policy: u16, close: bool },
        /// First event of a fork; `at` is the last seq that is shared with `from`.
        fact Forked { from: SessionId, at: Seq },
        /// The deadline of the intent `of` has passed.
        fact DeadlinePassed {},
        /// A forked child works for the session `parent`, which is a fork of the child's own parent.
        /// This event comes after `Forked` and the events that it has closed.
        fact Adopted { parent: SessionId },
        /// The events up to and including `through` come from another agent's record: no node decided
        /// anything in them.
        fact Imported {
            /// The name of that agent.
            from: String,
            /// The agent's id of the session.
            id: String,
            /// Its version.
            version: String,
            through: Seq,
        },
        /// A client has chosen how later prompts are run. The choice replaces the previous one.
        fact Configured {
            choices: SessionChoices,
            /// The client that chose, and its machine.
            by: String,
        },
        /// The form of `Resumed` for a log that `leftfold import` has written. Its public name is that of
        /// `Resumed`; its field `imported` tells the two apart.
        #[serde(rename(serialize = "resumed", deserialize = "resumed_imported"))]
        fact ResumedImported {
            policy: u16,
            close: bool,
            /// The last imported event: nothing up to here grants a permission.
            imported: Seq,
        },
        /// A client has set the session's own permission rules. They replace the previous ones.
        fact RulesSet {
            /// In merge order: the last match wins. They make verdicts stricter and allow nothing.
            rules: Vec<Rule>,
            /// The client that set them, and its machine.
            by: String,
        } texts [rules],
        /// A model has written what the session was about, for lists; `of` is its request.
        fact Summarised { summary: String } texts [summary],
        /// A client has put the session away, or has taken it out again. Some lists leave it out; it works as before.
        fact Archived {
            /// The time that the client gives; `None`: the session is not archived any more.
            archived: Option<Time>,
            /// The client, and its machine.
            by: String,
        },
    }
}

impl Session {
    /// See [`Event::comes_from`](super::Event::comes_from).
    pub fn comes_from(&self) -> Option<SessionId> {
        if let Self::Created { parent, .. } = self {
            return *parent;
        }
        if let Self::Forked { from, .. } = self { Some(*from) } else { None }
    }
}

/// How the prompts of a session are run, unless a prompt says otherwise. Without a choice the
/// settings and the session's last prompt decide.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionChoices {
    pub agent: Option<String>,
    pub model: Option<ModelRef>,
    /// The variant of the model.
    pub variant: Option<String>,
}

impl SessionChoices {
    /// Whether no choice is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
