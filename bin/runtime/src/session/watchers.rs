//! Sends the events of opened sessions and their children to the plugins that observe them. They
//! are observers like any other, so a slow plugin delays nobody else; one that does not read at all
//! is cut off.

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

/// How long the end of a program waits for plugins to receive the last events.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(2);

/// For each session, the last event that its plugins have received.
static RECEIVED: LazyLock<Mutex<HashMap<SessionId, watch::Receiver<Seq>>>> =
    LazyLock::new(Mutex::default);

/// Starts an observer for the plugins that observe events; `None` if none does.
pub(crate) async fn start(
    session: SessionId,
    plugins: &Plugins,
) -> anyhow::Result<Option<ActorRef<Observation>>> {
    if plugins.watchers().is_empty() {
        return Ok(None);
    }
    let (sink, received) = session_tree::follow(session, Watchers(plugins.clone())).await?;
    RECEIVED.lock().unwrap_or_else(PoisonError::into_inner).insert(session, received);
    Ok(Some(sink))
}

/// Waits until plugins have received everything up to and including `head`.
pub(crate) async fn through(session: SessionId, head: Seq) {
    let received = RECEIVED.lock().unwrap_or_else(PoisonError::into_inner).get(&session).cloned();
    if let Some(mut received) = received {
        let received =
            tokio::time::timeout(PLUGIN_TIMEOUT, received.wait_for(|received| *received >= head));
        if !matches!(received.await, Ok(Ok(_))) {
            tracing::warn!("plugins did not receive the last events");
        }
    }
}

struct Watchers(Plugins);

impl Follow for Watchers {
    async fn take(&mut self, events: &[Recorded]) {
        // A plugin that was restarted receives the problem again.
        for watcher in self.0.watchers() {
            for event in events {
                if !watcher.send(event.line()).await {
                    let why = format!(
                        "plugin `{}` gets no more events: {}",
                        watcher.name(),
                        watcher.why()
                    );
                    warnings::print_once(&[why]);
                    break;
                }
            }
        }
    }
}
