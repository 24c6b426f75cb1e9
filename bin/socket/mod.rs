//! The way into a node from outside: a Unix socket in its store's folder, one JSON-RPC 2.0 object
//! a line.
//!
//! | method | params | result |
//! |---|---|---|
//! | `_leftfold/read` | `session, from, to?` | `{lines, next}`: events as the lines of an export |
//! | `_leftfold/watch` | `session, from` | `{}`, and then a `_leftfold/event` for each line |
//! | `_leftfold/prompt` | `session, text, by?` | `{}` |
//! | `_leftfold/answer` | `session, of` or `call`, `reply, feedback?, by?` | `{accepted, of, by}` |
//! | `_leftfold/cancel` | `session, by?` | `{}` |
//!
//! Invariant: a client that is slow, wrong or gone costs the node nothing but its own connection.

pub(crate) mod client;
mod connection;
mod lines;
mod methods;
mod pace;
mod path;
pub(crate) mod question;
mod server;
mod tap;
mod wire;

pub(crate) use server::{Served, serve};
pub(crate) use wire::RpcError;

use std::sync::Arc;

use leftfold_events::SessionId;

use crate::client::{Client, Equipment};

/// The sessions of a node, as its socket reaches them.
pub(crate) trait Sessions: Send + Sync + 'static {
    /// A session that is open.
    fn client(&self, session: SessionId) -> Option<Client>;

    /// What goes with a prompt to an open session.
    ///
    /// # Errors
    /// The settings are wrong.
    fn equipment(&self, session: SessionId) -> anyhow::Result<Equipment>;
}

/// The one session of a node that drives a single turn.
pub(crate) struct One {
    client: Client,
    equipment: Equipment,
}

impl One {
    pub(crate) fn new(client: Client, equipment: Equipment) -> Arc<Self> {
        Arc::new(Self { client, equipment })
    }
}

impl Sessions for One {
    fn client(&self, session: SessionId) -> Option<Client> {
        (self.client.session == session).then(|| self.client.clone())
    }

    fn equipment(&self, _: SessionId) -> anyhow::Result<Equipment> {
        Ok(self.equipment.clone())
    }
}
