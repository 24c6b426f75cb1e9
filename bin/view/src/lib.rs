//! Events as people see them. Every front end folds a session and its subagents with this crate and
//! renders what it finds.
//!
//! | module | is |
//! |---|---|
//! | `changes` | what files a session has changed |
//! | `clean` | text without anything that could drive a terminal |
//! | `consulted` | what plugins were asked and have answered |
//! | `text` | the plain-text form of events |
//! | `question` | the questions that a session asks people, and what a typed answer means |
//! | `session_tree` | a session and its subagents, with a line for each thing that a subagent does |
//! | `title_request` | the model request for a title, which is no part of the conversation |
//! | `words` | texts cut down to one line, without tokens |
//!
//! Invariant: nothing here does I/O, reads a clock or knows an actor.

pub mod changes;
pub mod clean;
pub mod consulted;
pub mod question;
mod session_tree;
pub mod text;
mod title_request;
pub mod words;

pub use question::{Choice, OpenQuestions, Question, QuestionId};
pub use session_tree::{SessionTree, SubagentStatus};
pub use title_request::TitleRequest;
