//! The way into a node from outside: a Unix socket in its store's folder, one JSON-RPC 2.0 object
//! a line. `leftfold node` has the same methods on its standard input and output.
//!
//! | method | params | result |
//! |---|---|---|
//! | `_leftfold/read` | `session, from, to?` | `{lines, next}`: events as the lines of an export |
//! | `_leftfold/watch` | `session, from, children?, status?` | `{}`, and then a `_leftfold/event` for each line |
//! | `_leftfold/prompt` | `session, text` or `parts`, `by?, message_id?, no_reply?, agent?, model?, variant?, system?, tools?, max_steps?, max_cost?, timeout?` | `{}`, once it is in the log; mentions in `text` are attached. `{repeated, seq}`: the log has the `message_id` at `seq`, and nothing was done |
//! | `_leftfold/answer` | `session, of` or `call`, `reply, feedback?, by?` | `{accepted, session, of, by}` |
//! | `_leftfold/cancel` | `session, by?` | `{}` |
//! | `_leftfold/compact` | `session, by?` | `{accepted}` |
//! | `_leftfold/configure` | `session, choices?, rules?, by?` | `{accepted}`, once it is in the log |
//! | `_leftfold/revert` | `session, to, by?` | `{accepted, refused}`: why not, or null |
//! | `_leftfold/unrevert` | `session, by?` | `{accepted, refused}` |
//! | `_leftfold/verify` | `session, all?` | `{session, events, divergences}`: as `leftfold verify` has them |
//! | `_leftfold/why` | `session` | as `leftfold why` has it |
//! | `_leftfold/fork` | `session, at?, files?` | `{session, notice}`: the fork, and what became of files |
//!
//! With `children`, an object from ids of sessions to seqs, a watch is of the session's children too:
//! of those that it names from there on, and of others from their first event on, once the event
//! that spawned them was told. The question on a `call` may be a child's; children have no prompts of
//! their own here, and everything else by their own ids.
//!
//! With `status: true`, a watch also sends `_leftfold/status` at its start and whenever the status of
//! the session itself changes, right after the event that changed it:
//!
//! | `status` | other members, with `session` and `seq` in each |
//! |---|---|
//! | `idle` | none |
//! | `busy` | `since`: when the turn began |
//! | `retry` | `since`; `attempt`: the number of the next attempt, at least 2; `message`: why the last one failed; `next`: when the next one begins |
//!
//! Only people may call the methods that change something: a client that descends from a call gets
//! the error -32003. It may `read`, `watch`, `verify` and ask `why`.
//!
//! A node that lets go of a store in good order, because all in it is at rest or done, says
//! `_leftfold/rested` and ends the connection, and has taken nothing that it did not answer: whoever
//! wants more opens the session, or asks its next node.
//!
//! Invariant: a socket is made, moved and removed only by whoever holds the store's lock.
//!
//! Invariant: a client that is slow, wrong or gone costs the node nothing but its own connection.

mod connection;
mod descendants;
mod forks;
mod methods;
mod peer;
pub mod question;
mod reports;
mod server;
mod sessions;
mod status;

pub use crate::remote::{RpcError, name_of};
pub use connection::{QUEUE, serve_lines};
pub use forks::fork_as;
pub use methods::{METHODS, is_leftfold_method, rules};
pub use server::{Bound, Sockets, bind};
pub use sessions::{SessionRegistry, Sessions, SingleSession};
