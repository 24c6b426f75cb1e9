//! What an event changes in a transcript, in the order in which people see it.

use std::sync::Arc;

use leftfold_events::event::{
    Answer, Ended, Finish, Finished, ModelRef, PartKind, PromptPart, Purpose, Usage,
};
use leftfold_events::state::Figures;
use leftfold_events::{Seq, Time};

/// One step of what people see. Calls and questions are named by their seqs and looked up in the
/// [`SessionView`](crate::SessionView).
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Prompted {
        by: String,
        parts: Vec<PromptPart>,
    },
    /// Another agent has taken over within the turn.
    AgentSwitched {
        agent: String,
        model: ModelRef,
    },
    Titled(String),
    /// A node goes on with the session. `close`: only to end the turn that was cut off.
    Resumed {
        close: bool,
    },
    /// From here on the session is a fork: whatever was open before is not open here.
    Forked,
    /// The model is asked. Requests for a title change nothing that people see.
    Requested(Purpose),
    /// The reply to `request` goes on.
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
    /// The request is made again at `until`. What the failed attempt has shown is void.
    Retry {
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
    /// The question at this seq, if it was one, is open no longer.
    QuestionClosed(Seq),
    Answered {
        question: Seq,
        reply: Answer,
        feedback: Option<String>,
        by: String,
    },
    /// Nobody answered a question that a running call had asked; the call goes on.
    QuestionTimedOut(Seq),
    /// Somebody wants a summary now.
    CompactionAsked {
        by: String,
    },
    CompactionStarted(Seq),
    CompactionEnded {
        /// The seq of the compaction, if its start was seen.
        compaction: Option<Seq>,
        end: CompactionEnd,
    },
    Todos,
    /// Files were put back; or why they were not.
    Restored(Result<(), String>),
    /// A line for people about files that were put back, or about trouble with files and plugins.
    Notice(String),
    TurnEnded {
        ended: Box<Ended>,
        /// How the model's last reply ended.
        finish: Option<Finish>,
        /// When the turn began, if that was seen.
        since: Option<Time>,
        /// Files that its calls have changed.
        changed: Figures,
    },
}

/// A step in the life of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallStep {
    Called,
    /// It is known what the call would do.
    Resolved,
    Running,
    /// The call's `tail` is another one.
    Progressed,
    /// A plugin has replaced the result's title or metadata.
    Revised {
        title: Option<String>,
        /// The whole metadata.
        metadata: Option<serde_json::Value>,
    },
    Ended {
        outcome: Outcome,
        /// False for a call that had run into its time limit and is now stopped.
        first: bool,
    },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Finished(Arc<Finished>),
    /// It can not run; the model is told this.
    Unresolved(String),
    /// The rules forbid it.
    Denied,
    Rejected {
        by: String,
        feedback: Option<String>,
        /// What was rejected is a question in words, and no permission.
        in_words: bool,
    },
    /// `asked`: nobody answered the question whether it may run.
    TimedOut {
        asked: bool,
    },
    /// Nobody knows whether or how far it ran.
    Lost,
    Cancelled,
}

/// How a compaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompactionEnd {
    Finished {
        summary: String,
    },
    Failed {
        message: String,
    },
    /// The turn ended before it.
    Cancelled,
}
