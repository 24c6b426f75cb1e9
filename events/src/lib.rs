//! The pure core of the agent: its events, its state, its decisions, its permission rules and its requests to a model.
//! Past (events), present (the state that is their fold), future (the next intent).
//!
//! | to find | look in |
//! | --- | --- |
//! | the types of events: facts and intents | `event/`; one JSON object a line: `line.rs` |
//! | the agent's decisions: the agent loop, retries and back-off, limits, subagents, compaction | `next/`, from [`next`](next()) on |
//! | the fold of events into a state: messages, calls, questions, the doom loop | `state/`, from [`State::apply`] on |
//! | the two joined: a fact and the intents that follow from it | `settle.rs` |
//! | permission rules (allow, ask, deny), and the verdict about a call | `rules/`, `verdict.rs` |
//! | building requests to a model: the messages of the context, the prompts for titles and summaries | `request_builder/`; the type: `request.rs` |
//! | texts that the core itself writes for models | `state/words.rs` |
//! | the turn configuration: system prompt, tools, rules, model, options | `turn_config/` |
//! | masking: secrets in texts, tokens in output | `secrets/`, `mask/`, `rewrite.rs` |
//! | the comparison of a log with today's decisions | `verify.rs` |
//!
//! Invariant: nothing here does I/O, reads a clock or draws a random number.

// A new event or effect is considered everywhere in here.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod event;
pub mod form;
mod id;
mod json;
pub mod line;
mod macros;
pub mod mask;
pub mod media;
mod memo;
mod next;
mod payload;
pub mod providers;
mod reasons;
pub mod request;
pub mod request_builder;
pub mod rewrite;
pub mod rules;
pub mod sandbox;
pub mod secrets;
mod settle;
pub mod state;
mod time;
pub mod title;
pub mod turn_config;
mod verdict;
pub mod verify;

pub use event::{Envelope, Event, Fact, Notes};
pub use id::{MessageId, NotASessionId, Seq, SessionId};
pub use json::Json;
pub use next::{ApprovalRefused, Repeatable, admits, children, may_approve, next};
pub use payload::{Payload, Sha256};
pub use request::Request;
pub use secrets::Secrets;
pub use settle::{accept, fold, settle};
pub use state::State;
pub use time::Time;
pub use turn_config::TurnConfig;
pub use verdict::judge;
pub use verify::verify;

/// The version of [`next`](next()). It grows when decisions change on purpose. Old logs fold for
/// ever; they verify only under their own policy.
///
/// | policy | since then |
/// | --- | --- |
/// | 3 | a rejection with words closes the other questions of the reply |
/// | 4 | `tool.started` records the sandbox of a command; only a rule of that name allows `unsandboxed` |
/// | 5 | a turn goes on or ends as `incomplete` after a reply that was cut off; without compaction, only the provider says that a conversation is too long; each step that may change files begins with a snapshot; text of an interrupted reply stays in later requests |
/// | 6 | a summary that was cut off is requested once more, and never taken; white space at the end of a text is dropped; a reply that was cut off does not hide that the one before it filled the context |
/// | 7 | images that APIs refuse are not sent; a summary in the middle of a turn leaves its prompts as they were written; a turn does not end with a reply that is reasoning alone |
pub const POLICY: u16 = 7;
