//! Events as people see them. Every front end folds a session and its subagents with a [`Transcript`] and
//! renders what that tells it.
//!
//! | module | is |
//! |---|---|
//! | `transcript` | a root session and the tree of its subagents |
//! | `session` | one session: messages with their parts, calls, questions, retries, usage, todos |
//! | `change` | what an event changes in a session, for front ends that print as it happens |
//! | `question` | the questions that a session asks people, and what a typed answer means |
//! | `text` | changes as plain text, for `run` and `observe`, and lines about subagents |
//! | `event_line`, `reason` | an event in one line, and why it was decided, for `replay` and others |
//! | `diff` | a unified diff as files, hunks and typed lines |
//! | `file_changes` | changed files in words |
//! | `clean` | text without anything that could drive a terminal |
//! | `words` | texts cut down to one line, without tokens |
//!
//! Invariant: nothing here does I/O, reads a clock or knows an actor.

mod change;
pub mod clean;
mod diff;
pub mod event_line;
pub mod file_changes;
pub mod question;
mod reason;
mod session;
#[cfg(test)]
mod tests;
pub mod text;
mod transcript;
pub mod words;

pub use change::{CallStep, Change, CompactionEnd, Outcome};
pub use diff::{DiffLine, FileDiff, LineKind};
pub use question::{Choice, OpenQuestion, Question, QuestionId};
pub use reason::reason;
pub use session::{Call, CallStatus, Message, Part, Prompt, Reply, Request, Retry, SessionView};
pub use transcript::{SubagentStatus, Transcript};
