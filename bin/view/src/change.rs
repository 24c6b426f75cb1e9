//! The changes that an event makes in a transcript, in the order in which people see them.

use std::sync::Arc;

use leftfold_events::event::{
    Answer, Ended, Finish, Finished, ModelRef, PartKind, PromptPart, Purpose, StreamedInput, Usage,
};
use leftfold_events::state::Figures;
use leftfold_events::{Seq, Time};

/// One change that people see. Calls and questions are named by their seqs; the
/// [`SessionView`](crate::SessionView) has their contents.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Prompted {
        by: String,
        parts: Vec<PromptPart>,
    },
    /// A message that starts no turn.
    Noted {
        by: String,
        parts: Vec<PromptPart>,
    },
    /// Another agent has taken over within the turn.
    AgentSwitched {
        agent: String,
        model: ModelRef,
    },
    Titled(String),
    /// A node has resumed the session; with `close` only to end the interrupted turn.
    Resumed {
        close: bool,
    },
    /// From here on the session is a fork. Calls and questions open before are not open in the
    /// fork.
    Forked,
    /// A model request has started. Requests for a title are left out, because people see nothing
    /// of them.
    Requested(Purpose),
    /// A text or reasoning of the reply to `request` begins. Its pieces follow as `Streamed`.
    PartStarted {
        request: Seq,
        kind: PartKind,
        id: String,
    },
    /// Nothing more of this text or reasoning follows.
    PartEnded {
        request: Seq,
        kind: PartKind,
        id: String,
    },
    /// The model is writing a call, which has this size now. The call follows, unless the request fails first.
    InputStreamed {
        request: Seq,
        input: StreamedInput,
    },
    /// The reply to `request` continues.
    Streamed {
        request: Seq,
        kind: PartKind,
        text: String,
        purpose: Purpose,
    },
    Replied {
        usage: Usage,
        purpose: Purpose,
    },
    RequestFailed,
    /// The request is made again at `until`. The output of the failed attempt is void.
    Retry {
        /// The number of the next attempt, at least 2.
        attempt: u32,
        error: String,
        until: Option<Time>,
        void_text: bool,
        void_reasoning: bool,
        purpose: Purpose,
    },
    Call {
        call: Seq,
        step: CallStep,
    },
    /// The question at this seq waits for its answer.
    Asked(Seq),
    /// The question at this seq, if it was one, is no longer open.
    QuestionClosed(Seq),
    Answered {
        question: Seq,
        reply: Answer,
        feedback: Option<String>,
        by: String,
    },
    /// A question of a running call was not answered in time; the call continues.
    QuestionTimedOut(Seq),
    /// A summary was requested.
    CompactionAsked {
        by: String,
    },
    CompactionStarted(Seq),
    CompactionEnded {
        /// The seq of the compaction, if the transcript has its start.
        compaction: Option<Seq>,
        end: CompactionEnd,
    },
    Todos,
    /// Files were restored; or the reason why not.
    Restored(Result<(), String>),
    /// A line for people about restored files, or about problems with files and plugins.
    Notice(String),
    TurnEnded {
        ended: Box<Ended>,
        /// How the model's last reply ended.
        finish: Option<Finish>,
        /// When the turn began, if the transcript has its start.
        since: Option<Time>,
        /// The files that the turn's calls have changed.
        changed: Figures,
    },
}

/// A step in the life of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStep {
    Called,
    /// The call's effects are known.
    Resolved,
    Running,
    /// The call's `tail` has changed.
    Progressed,
    /// A plugin has replaced the result's title or metadata.
    Revised {
        title: Option<String>,
        /// The complete metadata.
        metadata: Option<serde_json::Value>,
    },
    Ended {
        outcome: Outcome,
        /// False for a call that had timed out and is now stopped.
        first: bool,
    },
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Finished(Arc<Finished>),
    /// It cannot run; the model gets this message.
    Unresolved(String),
    /// The rules deny it.
    Denied,
    Rejected {
        by: String,
        feedback: Option<String>,
        /// Whether the rejected question was one of the `question` tool, not a permission.
        in_words: bool,
    },
    /// `asked`: nobody answered in time whether the call may run.
    TimedOut {
        asked: bool,
    },
    /// It is not known whether or how far it ran.
    Lost,
    Cancelled,
}

/// The outcome of a compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionEnd {
    Finished {
        summary: String,
    },
    Failed {
        message: String,
    },
    /// The turn ended first.
    Cancelled,
}
