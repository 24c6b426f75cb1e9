//! Reports on a session's log that its node makes for clients: `verify` and `why`.

use leftfold_events::SessionId;
use serde::Deserialize;
use serde_json::{Value, json};

use super::peer::{Peer, blocking};
use crate::divergence::divergences;
use crate::remote::wire::{self, RpcError};
use crate::why;

pub(super) const VERIFY: &str = "_leftfold/verify";
pub(super) const WHY: &str = "_leftfold/why";

#[derive(Deserialize)]
struct Verify {
    session: SessionId,
    #[serde(default)]
    all: bool,
}

/// Compares the log with the decisions of this node's code. Answers the first divergence, or all.
pub(super) async fn verify(peer: &Peer, params: Value) -> Result<Value, RpcError> {
    let Verify { session, all } = wire::params(params)?;
    let store = peer.open(session).await?.reading().await.map_err(RpcError::internal)?;
    blocking(move || {
        let events = store.read(session, 1, usize::MAX).map_err(RpcError::internal)?;
        let found = divergences(&events, all).map_err(RpcError::from_error)?;
        Ok(json!({ "session": session, "events": events.len(), "divergences": found }))
    })
    .await
}

#[derive(Deserialize)]
struct Why {
    session: SessionId,
}

/// Reports what the session waits for.
pub(super) async fn why(peer: &Peer, params: Value) -> Result<Value, RpcError> {
    let Why { session } = wire::params(params)?;
    let store = peer.open(session).await?.reading().await.map_err(RpcError::internal)?;
    let place = crate::session_paths::SessionPlace { store: store.dir().to_owned(), session };
    blocking(move || {
        let holder = || i32::try_from(std::process::id()).ok();
        why::report(&place, holder).map_err(RpcError::from_error)
    })
    .await
}
