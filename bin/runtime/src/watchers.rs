//! Plugins that watch: each is told of every event of the sessions that are opened here, and of their
//! children. They are observers like any other, so one that reads slowly holds up nobody else; one that
//! does not read at all is cut off.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use leftfold_actors::{Observation, Recorded};
use leftfold_events::{Seq, SessionId};
use leftfold_plugins::Plugins;
use ractor::ActorRef;
use tokio::sync::watch;

use crate::session_tree::{self, Follow};
use crate::warnings;

/// How long the end of a program waits for plugins to be told how it went.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far the watchers of each session have been told.
static TOLD: LazyLock<Mutex<HashMap<SessionId, watch::Receiver<Seq>>>> =
    LazyLock::new(Mutex::default);

/// Starts an observer for the plugins that want to be told of events; `None` if none does.
pub(crate) async fn start(
    session: SessionId,
    plugins: &Plugins,
) -> anyhow::Result<Option<ActorRef<Observation>>> {
    if plugins.watchers().is_empty() {
        return Ok(None);
    }
    let (sink, told) = session_tree::follow(session, Watchers(plugins.clone())).await?;
    TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(session, told);
    Ok(Some(sink))
}

/// Waits until plugins have been told of everything up to and with `head`.
pub(crate) async fn through(session: SessionId, head: Seq) {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner).get(&session).cloned();
    if let Some(mut told) = told {
        let told = tokio::time::timeout(PATIENCE, told.wait_for(|told| *told >= head));
        if !matches!(told.await, Ok(Ok(_))) {
            tracing::warn!("plugins were not told of everything");
        }
    }
}

struct Watchers(Plugins);

impl Follow for Watchers {
    async fn take(&mut self, events: &[Recorded]) {
        // one that was started again is told again
        for watcher in self.0.watchers() {
            for event in events {
                if !watcher.send(event.line()).await {
                    let why = format!("plugin `{}` is cut off: {}", watcher.name(), watcher.why());
                    warnings::tell(&[why]);
                    break;
                }
            }
        }
    }
}
