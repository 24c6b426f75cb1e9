//! A session in the shapes of OpenCode's server API, as a fold of its log.
//!
//! | module | purpose |
//! |---|---|
//! | `frame` | one event of the feed |
//! | `projection` | a root session with its subagents: applies events, returns the frames of the feed |
//! | `message` | messages: prompts, replies, summaries |
//! | `part` | parts of messages, and the states of calls |
//! | `changed_files` | files that calls and reverts have changed |
//! | `proposal` | the change that a call waits to make, as a diff |
//! | `session` | the session itself, its status and its questions |
//! | `ids` | ids in the form that clients sort by |
//!
//! Everything here is a function of events: the same log gives the same ids, messages and frames.
//! Another form of the API can stand beside this module.

mod changed_files;
mod frame;
pub(crate) mod ids;
mod message;
mod part;
mod projection;
mod proposal;
mod session;

pub(crate) use frame::{EventPlace, Frame, project_id};
pub(crate) use projection::Projection;
pub(crate) use session::{ProjectedMessage, SessionProjection, untitled};
