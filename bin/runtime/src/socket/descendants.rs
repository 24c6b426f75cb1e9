//! Finds the descendants of a session for its clients.

use leftfold_events::{Seq, SessionId};

use super::question::Which;
use crate::client::Client;
use crate::remote::wire::RpcError;
use leftfold_view::QuestionId;

/// The most ancestors between a session and the one that it is reached by.
const DEPTH: usize = 64;

/// A client of `wanted`, if it descends from the session of `root`.
pub(super) async fn descendant(root: &Client, wanted: SessionId) -> Option<Client> {
    subtree(root).await.contains(&wanted).then(|| root.for_session(wanted))
}

/// The session of `root` and its descendants, parents before children: those that are open in the
/// node, or were spawned by an open one.
pub(super) async fn subtree(root: &Client) -> Vec<SessionId> {
    let (mut subtree, mut looked) = (vec![root.session], 0);
    while let Some(session) = subtree.get(looked).copied() {
        looked += 1;
        // A session that is not open has nothing running.
        let Ok(state) = root.for_session(session).view().await else { continue };
        for child in &state.children {
            if !subtree.contains(&child.session) {
                subtree.push(child.session);
            }
        }
    }
    subtree
}

/// The open question that `which` names: by its seq only in the session of `root`, by its call also
/// in its descendants.
///
/// # Errors
/// Several questions match.
pub(super) async fn question(root: &Client, which: &Which) -> Result<Option<QuestionId>, RpcError> {
    let state = root.view().await.map_err(RpcError::internal)?;
    let own = which.open(&state).map(|of| (root.session, of));
    if own.is_some() || matches!(which, Which::Of(_)) {
        return Ok(own);
    }
    let mut found: Vec<(SessionId, Seq)> = Vec::new();
    let children = |state: &leftfold_events::State| -> Vec<SessionId> {
        state.open_children().map(|child| child.session).collect()
    };
    let mut level = children(&state);
    for _ in 0..DEPTH {
        let mut below = Vec::new();
        for session in std::mem::take(&mut level) {
            let Ok(state) = root.for_session(session).view().await else { continue };
            found.extend(which.open(&state).map(|of| (session, of)));
            below.extend(children(&state));
        }
        level = below;
    }
    match found.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        several => {
            let names: Vec<String> = several.iter().map(|(s, of)| format!("{s} {of}")).collect();
            let why = format!(
                "several subagents have open questions on this call: name one with its seq, as in {}",
                names.join(" or ")
            );
            Err(RpcError::params(why))
        }
    }
}
