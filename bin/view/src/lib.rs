//! Turns events into what people see: the transcript of a session, its questions, costs and findings. Every front end folds a session and its subagents with a
//! [`Transcript`] and renders the changes that the fold returns.
//!
//! | module | purpose |
//! |---|---|
//! | `transcript` | a root session and the tree of its subagents |
//! | `session` | one session: messages with their parts, calls, questions, retries, usage, todos |
//! | `status` | idle, busy or retrying, for clients |
//! | `derived` | notifications that follow from events: status, changed files, removed messages |
//! | `call_result` | what people see of a call's result |
//! | `change` | the changes that an event makes in a session, for front ends that print live |
//! | `answer_gate` | which keys answer a question on a terminal |
//! | `question` | the questions that a session asks people, and the parsing of typed answers |
//! | `turn_rules` | the permission rule that asks a question |
//! | `text` | changes as plain text, for `run` and `observe`, and lines about subagents |
//! | `event_line`, `reason` | an event in one line, and the reason for it, for `replay` and others |
//! | `findings` | what was out of the ordinary in a turn |
//! | `explain` | why an event happened, and what a request was made of |
//! | `configuration` | where the parts of a turn configuration come from |
//! | `compare` | where two sessions part, and their events side by side |
//! | `context_use` | what fills the model's context |
//! | `diff` | a unified diff as files, hunks and typed lines |
//! | `file_changes` | changed files in words |
//! | `clean` | removes control sequences from text |
//! | `words` | shortens texts to one line, with tokens masked |
//!
//! Invariant: nothing here does I/O, reads a clock or knows an actor.

mod answer_gate;
mod call_result;
mod change;
pub mod clean;
pub mod compare;
pub mod configuration;
mod context_use;
mod derived;
mod diff;
pub mod event_line;
pub mod explain;
pub mod file_changes;
mod findings;
pub mod question;
mod reason;
mod session;
pub mod status;
#[cfg(test)]
mod tests;
pub mod text;
mod transcript;
mod turn_rules;
pub mod words;

pub use answer_gate::{
    AnswerGate, CTRL_D, CTRL_U, ESCAPE, GateKind, GateOutcome, GateRow, QUIET_DELAY,
};
pub use call_result::{CallResult, ResultBody, changed_todos, excerpt};
pub use change::{CallStep, Change, CompactionEnd, Outcome};
pub use context_use::{ContextUse, MessageBytes};
pub use derived::{Derived, Notification, changed_files};
pub use diff::{DiffLine, FileDiff, LineKind};
pub use findings::{Finding, Findings, ParallelWrites};
pub use question::{Choice, OpenQuestion, Question, QuestionId};
pub use reason::reason;
pub use session::{
    Call, CallStatus, Failure, FilesJob, Message, PartText, Prompt, Reply, ReplyPart, Request,
    Retry, SessionView, TurnStart,
};
pub use status::Status;
pub use transcript::{SubagentStatus, Transcript};
pub use turn_rules::AskingRule;
