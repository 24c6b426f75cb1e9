//! Plugins that watch: each is told of every event of the sessions that are opened here, and of their
//! children. They are observers like any other, so one that reads slowly holds up nobody else; one that
//! does not read at all is cut off.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use leftfold_actors::Observation;
use leftfold_events::{Seq, SessionId};
use leftfold_plugins::Plugins;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;

use crate::family;
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
    let (through, told) = watch::channel(0);
    let family = family::Family::new(session);
    let (sink, _) = Actor::spawn(None, Teller, (plugins.clone(), family, through)).await?;
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

struct Teller;

struct Telling {
    plugins: Plugins,
    family: family::Family,
    through: watch::Sender<Seq>,
}

impl Actor for Teller {
    type Msg = Observation;
    type State = Telling;
    type Arguments = (Plugins, family::Family, watch::Sender<Seq>);

    async fn pre_start(
        &self,
        _: ractor::ActorRef<Observation>,
        (plugins, family, through): Self::Arguments,
    ) -> Result<Telling, ActorProcessingErr> {
        Ok(Telling { plugins, family, through })
    }

    async fn handle(
        &self,
        _: ractor::ActorRef<Observation>,
        observation: Observation,
        telling: &mut Telling,
    ) -> Result<(), ActorProcessingErr> {
        let Observation { events, done } = observation;
        // one that was started again is told again
        for watcher in telling.plugins.watchers() {
            for event in events.iter() {
                if !watcher.tell(event.line()).await {
                    let why = format!("plugin `{}` is cut off: {}", watcher.name(), watcher.why());
                    warnings::tell(&[why]);
                    break;
                }
            }
        }
        let told = telling.family.take(&events);
        if let Some(last) = told.iter().rfind(|event| telling.family.is_root(event)) {
            telling.through.send_replace(last.seq);
        }
        // the hub may have gone with the node
        let _ = done.send(());
        Ok(())
    }
}
