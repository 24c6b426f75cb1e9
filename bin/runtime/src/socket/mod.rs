//! The way into a node from outside: a Unix socket in its store's folder, one JSON-RPC 2.0 object
//! a line. `leftfold node` has the same methods on its standard input and output.
//!
//! | method | params | result |
//! |---|---|---|
//! | `_leftfold/read` | `session, from, to?` | `{lines, next}`: events as the lines of an export |
//! | `_leftfold/watch` | `session, from, children?, status?, derived?` | `{}`, and then a `_leftfold/event` for each line |
//! | `_leftfold/prompt` | `session, text` or `parts`, `by?, message_id?, no_reply?, agent?, model?, variant?, system?, tools?, max_steps?, max_cost?, timeout?` | `{}`, once it is in the log; mentions in `text` are attached. `{repeated, seq}`: the log has the `message_id` at `seq`, and nothing was done |
//! | `_leftfold/answer` | `session, of` or `call`, `reply, feedback?, always?, by?` | `{accepted, session, of, by}` or `{accepted, session, of, refused}` |
//! | `_leftfold/cancel` | `session, by?` | `{}` |
//! | `_leftfold/compact` | `session, instructions?, by?` | `{accepted}` |
//! | `_leftfold/configure` | `session, choices?, rules?, by?` | `{accepted}`, once it is in the log |
//! | `_leftfold/dispose` | `directory` | `{disposed}`: how many sets of MCP servers and plugins of that directory ended |
//! | `_leftfold/revert` | `session, to, by?` | `{accepted, refused}`: why not, or null |
//! | `_leftfold/unrevert` | `session, by?` | `{accepted, refused}` |
//! | `_leftfold/verify` | `session, all?` | `{session, events, divergences}`: as `leftfold verify` has them |
//! | `_leftfold/why` | `session` | as `leftfold why` has it |
//! | `_leftfold/fork` | `session, at?, files?` | `{session, notice}`: the fork, and what became of files |
//! | `_leftfold/speak` | `protocol`: `acp` or `http`, `options?`: the protocol's own | `{}`, and then the connection carries that protocol's bytes. Only at the socket |
//! | `_leftfold/remove` | `session` | `{}`: the session is gone, with its subagents. Only from a store that the node keeps |
//!
//! With `children`, an object from ids of sessions to seqs, a watch is of the session's children too:
//! of those that it names from there on, and of others from their first event on, once the event
//! that spawned them was told. The question on a `call` may be a child's; children have no prompts of
//! their own here, and everything else by their own ids.
//!
//! With `derived: true`, a watch also sends notifications that follow from the events of the session
//! itself, right after the event. Each has `session` and `seq`. A client that begins to watch gets the
//! status, and the changed files if there are any. With `status: true` it gets the status only.
//!
//! | notification | other members |
//! |---|---|
//! | `_leftfold/status` | `status`: `idle`, `busy` or `retry`; see below |
//! | `_leftfold/diff` | `additions`, `deletions` and `files`: what the session has changed and not reverted, each with `path`, `change`, `additions`, `deletions` |
//! | `_leftfold/removed` | `messages`: a revert hides them, or their request is made again. A message is named by the seq of its `turn.prompted` or `model.requested` |
//! | `_leftfold/returned` | `messages`: an unrevert shows them again |
//!
//! | `status` | other members of `_leftfold/status` |
//! |---|---|
//! | `idle` | none |
//! | `busy` | `since`: when the turn began |
//! | `retry` | `since`; `attempt`: the number of the next attempt, at least 2; `message`: why the last one failed; `next`: when the next one begins |
//!
//! Only people may call the methods that change something: a client that descends from a call gets
//! the error -32003. It may `read`, `watch`, `verify` and ask `why`. A prompt that a quota refuses gets the error
//! -32005, and nothing was done.
//!
//! A node that lets go of a store in good order, because all in it is at rest or done, says
//! `_leftfold/rested` and ends the connection, and has taken nothing that it did not answer: whoever
//! wants more opens the session, or asks its next node.
//!
//! Invariant: a socket is made, moved and removed only by whoever holds the store's lock.
//!
//! Invariant: a client that is slow, wrong or gone costs the node nothing but its own connection.

mod connection;
mod derived;
mod descendants;
mod forks;
mod inbox;
mod methods;
mod peer;
pub mod question;
mod reports;
mod server;
mod sessions;
mod speak;
mod takeover;

pub use crate::remote::{RpcError, name_of, nullable};
pub use connection::{QUEUE, serve_lines};
pub use forks::fork_as;
pub use inbox::{take_messages_of, take_messages_of_one};
pub use methods::{METHODS, answered_by, check_rules, is_leftfold_method, rules};
pub use server::{Bound, Sockets, bind, start_node};
pub use sessions::{
    Hosting, Register, SessionRegistry, Sessions, SingleSession, Speaker, SpeakingGuard,
    UpgradedConnection,
};
pub use speak::{Joined, RETRY_DELAY, is_refused, join, speak};
pub use takeover::take_over_unowned;
