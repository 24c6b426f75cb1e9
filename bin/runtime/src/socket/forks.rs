//! Forks of sessions in a store that this node holds. The node makes them, since no other process
//! may write there.

use std::sync::Arc;

use leftfold_events::{Seq, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::peer::{Peer, blocking};
use super::sessions::{Holder, Sessions};
use crate::Usage;
use crate::fork::{self, FORK, ForkRequest, Forked};
use crate::project;
use crate::remote::Remote;
use crate::remote::wire::{self, RpcError};
use crate::session_paths::SessionPlace;

#[derive(Deserialize)]
struct Fork {
    session: SessionId,
    at: Option<Seq>,
    #[serde(default)]
    files: bool,
    /// The fork's id, from another node.
    id: Option<SessionId>,
}

/// Any session of the store can be forked, open or not.
pub(super) async fn fork(peer: &Peer, params: Value) -> Result<Value, RpcError> {
    let Fork { session, at, files, id } = wire::params(params.clone())?;
    peer.must_be_open(session)?;
    let (node, store, busy) =
        match peer.context.sessions.holder(session, peer.context.store.as_deref()).await? {
            Holder::Here { node, store, busy } => (node, store, busy),
            Holder::There(remote) => return pass_on(peer, &remote, params).await,
        };
    if files && busy {
        return Err(RpcError::params(
            "a turn is running, which may change files: wait for its end, or fork without --files",
        ));
    }
    let place = SessionPlace { store: store.dir().to_owned(), session };
    let read =
        move || store.read(session, 1, usize::MAX).map_err(|e| RpcError::from_error(e.into()));
    let events = blocking(read).await?;
    let made = fork::make(
        &node,
        &place,
        events,
        ForkRequest { at, files, id: id.filter(|_| peer.message.is_some()), settles: peer.message },
    )
    .await;
    let Forked { session, notice } = made.map_err(|error| match error.downcast::<Usage>() {
        Ok(Usage(why)) => RpcError::params(why),
        Err(error) => RpcError::from_error(error),
    })?;
    Ok(json!({ "session": session, "notice": notice }))
}

async fn pass_on(peer: &Peer, remote: &Remote, mut params: Value) -> Result<Value, RpcError> {
    if remote.inbox().is_none() {
        return remote.call(FORK, params).await.map_err(RpcError::from_error);
    }
    peer.must_be_first()?;
    // so it is known even if the answer is lost
    let id = project::new_id();
    params["id"] = json!(id);
    let mut made = remote.pass_on(FORK, params).await.map_err(RpcError::from_error)?;
    made["session"] = json!(id);
    Ok(made)
}

/// Forks a session for a client, and answers the fork's id.
pub async fn fork_as(
    sessions: Arc<dyn Sessions>,
    (name, pid): (&'static str, Option<i32>),
    session: SessionId,
    at: Option<Seq>,
) -> Result<SessionId, RpcError> {
    let peer = Peer::own(sessions, name, pid);
    peer.must_be_person("session/fork").await?;
    let forked = fork(&peer, json!({ "session": session, "at": at })).await?;
    let id = forked["session"].as_str().and_then(|id| id.parse().ok());
    id.ok_or_else(|| RpcError::internal(format!("the answer names no fork: {forked}")))
}
