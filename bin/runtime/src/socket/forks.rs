//! Forks of sessions whose store a node holds: it makes them, as nobody else may write there.

use leftfold_events::{Seq, SessionId};
use leftfold_store::Store;
use serde::Deserialize;
use serde_json::{Value, json};

use super::connection::Peer;
use super::methods::blocking;
use super::server::Door;
use crate::Usage;
use crate::forking::{self, Forked, Wanted};
use crate::home::Place;
use crate::remote::Remote;
use crate::remote::client;
use crate::remote::wire::{self, RpcError};

pub(super) const FORK: &str = "_leftfold/fork";

#[derive(Deserialize)]
struct Fork {
    session: SessionId,
    at: Option<Seq>,
    #[serde(default)]
    files: bool,
}

/// Who can write to a session's store.
#[derive(Debug)]
pub enum Holder {
    /// This node; `busy` while a turn is under way there.
    Here {
        store: Store,
        busy: bool,
    },
    There(Remote),
}

/// Any session of the store can be forked, open or not.
pub(super) async fn fork(peer: &Peer, params: Value) -> Result<Value, RpcError> {
    let Fork { session, at, files } = wire::params(params.clone())?;
    if peer.house.door() != Door::Open {
        let why = format!("the node lets go of session {session}: ask again");
        return Err(RpcError::leaving(why));
    }
    let (store, busy) =
        match peer.house.sessions.holder(session, peer.house.store.as_deref()).await? {
            Holder::Here { store, busy } => (store, busy),
            Holder::There(remote) => return remote.call(FORK, params).await.map_err(RpcError::of),
        };
    if files && busy {
        return Err(RpcError::params(
            "a turn is under way, which may change files: without --files they are left as they are",
        ));
    }
    let made = blocking(move || {
        forking::make(&store, session, Wanted { at, files }).map_err(|error| {
            match error.downcast::<Usage>() {
                Ok(Usage(why)) => RpcError::params(why),
                Err(error) => RpcError::of(error),
            }
        })
    });
    let Forked { session, told } = made.await?;
    Ok(json!({ "session": session, "told": told }))
}

/// Why a store's node has made no fork.
#[derive(Debug)]
pub enum Fault {
    /// There is no node.
    Nobody,
    /// It lets go of the store; nothing was done.
    Leaving,
    Refused(anyhow::Error),
}

/// Has the node of the store make a fork.
///
/// # Errors
/// There is none, or it does not.
pub fn ask(place: &Place, Wanted { at, files }: Wanted) -> Result<Forked, Fault> {
    let Ok(mut node) = client::connect(&place.store) else { return Err(Fault::Nobody) };
    let params = json!({ "session": place.session, "at": at, "files": files });
    let made = node.call(FORK, &params).map_err(|error| match error.downcast::<RpcError>() {
        Ok(error) if error.is_leaving() => Fault::Leaving,
        Ok(error) if error.is_params() => Fault::Refused(Usage(error.message).into()),
        Ok(error) => Fault::Refused(error.into()),
        Err(error) => Fault::Refused(error),
    })?;
    let session = made["session"].as_str().and_then(|id| id.parse().ok());
    let unknown = || Fault::Refused(anyhow::anyhow!("the node's answer names no fork: {made}"));
    let told = made["told"].as_str().map(str::to_owned);
    Ok(Forked { session: session.ok_or_else(unknown)?, told })
}
