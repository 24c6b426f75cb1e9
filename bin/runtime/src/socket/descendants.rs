//! The sessions that descend from one, as clients of that one reach them.

use leftfold_events::{Seq, SessionId};

use super::question::Which;
use crate::client::Client;
use crate::remote::wire::RpcError;
use leftfold_view::QuestionId;

/// Ancestors at most between a session and the one that it is reached by.
const DEPTH: usize = 64;

/// The way to `wanted`, if it descends from the session of `root`.
pub(super) async fn descendant(root: &Client, wanted: SessionId) -> Option<Client> {
    family(root).await.contains(&wanted).then(|| root.of(wanted))
}

/// The session of `root` and those that descend from it, parents before children: as far as they are
/// open in the node, or were spawned by one that is.
pub(super) async fn family(root: &Client) -> Vec<SessionId> {
    let (mut family, mut looked) = (vec![root.session], 0);
    while let Some(session) = family.get(looked).copied() {
        looked += 1;
        // one that is not open has nothing under way
        let Ok(state) = root.of(session).view().await else { continue };
        for child in &state.children {
            if !family.contains(&child.session) {
                family.push(child.session);
            }
        }
    }
    family
}

/// The open question that is meant: by its seq only in the session of `root`, by its call in those
/// that descend from it, too.
///
/// # Errors
/// Several are meant.
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
            let Ok(state) = root.of(session).view().await else { continue };
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
                "several subagents have asked there: name the one that is meant with its question, as in \
                 {}",
                names.join(" or ")
            );
            Err(RpcError::params(why))
        }
    }
}
