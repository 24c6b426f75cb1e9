//! The node: the root of the tree of actors, and the supervisor of sessions. It opens sessions, restarts them when they die, and receives the messages
//! of clients.

mod admission;
mod children;
mod opening;
mod rest;
mod store_guards;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::event::Session as SessionEvent;
use leftfold_events::{Seq, SessionId};
use leftfold_store::Store;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::messages::{
    Error, ListedSession, NodeMessage, ObserversMessage, ParentCall, SessionMessage, Watch,
};
use crate::observers::Observers;
use crate::tasks::Tasks;
use crate::world::World;
use admission::Admission;
use opening::{Starting, Then, Waiting};
use store_guards::Holds;

/// A session that dies more often than this within a minute stays closed.
const DEATHS: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a session that died has to release its log.
const LOG_RELEASE_TIMEOUT: Duration = Duration::from_millis(20);
const LOST: &str = "the session died before the request to it was durable: nothing was done";

#[derive(Debug)]
pub struct Node;

#[derive(Debug)]
pub struct Sessions {
    /// The first field, so that it is dropped before the stores are.
    holds: Holds,
    /// Stores that stay open without an open session.
    kept: Vec<Store>,
    observers: ActorRef<ObserversMessage>,
    open: HashMap<SessionId, Entry>,
    /// Closed sessions that are opened again when they are next used.
    resting: HashMap<SessionId, rest::Resting>,
    starting: HashMap<SessionId, Starting>,
    /// While sessions are starting: the actors that have died and are not those of open sessions, and why. One of them may
    /// be the actor of a session whose start this node has not heard of yet.
    died_early: HashMap<ActorId, String>,
    /// Stores that are being opened, and the sessions that wait for them.
    opening: HashMap<PathBuf, Vec<Waiting>>,
    admission: Admission,
    /// Whether a sweep is running or scheduled.
    sweeping: bool,
    tasks: Tasks,
}

#[derive(Debug)]
struct Entry {
    store: Store,
    world: World,
    created_event: SessionEvent,
    actor: ActorRef<SessionMessage>,
    /// The beginning of the marks of its processes.
    mark: String,
    /// The end of the log when the session was opened.
    head: Seq,
    /// Whether it has an interrupted turn that was not resumed yet.
    cut_off: bool,
    /// The number of messages passed on to it, and the time of the last one.
    sent: u64,
    used: Instant,
    /// When it was last asked whether it is at rest.
    asked: Instant,
    deaths: Vec<Instant>,
    /// The call that waits for the end of its turn.
    parent: Option<ParentCall>,
    closed: watch::Sender<Option<String>>,
}

impl Actor for Node {
    type Msg = NodeMessage;
    type State = Sessions;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Sessions, ActorProcessingErr> {
        leftfold_process::hide_memory();
        if let Err(error) = leftfold_process::become_subreaper() {
            tracing::warn!("processes that commands leave behind cannot be ended: {error}");
        }
        let (observers, _) = Actor::spawn_linked(None, Observers, (), myself.get_cell()).await?;
        Ok(Sessions {
            holds: Holds::default(),
            kept: Vec::new(),
            observers,
            open: HashMap::new(),
            resting: HashMap::new(),
            starting: HashMap::new(),
            died_early: HashMap::new(),
            opening: HashMap::new(),
            admission: Admission::for_files(leftfold_process::open_files()),
            sweeping: false,
            tasks: Tasks::default(),
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: NodeMessage,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Open { open, reply } => {
                let then = Then::Describe(reply);
                sessions.open(&myself, Waiting { open, then }).await;
            }
            NodeMessage::StoreOpened { store, outcome } => {
                sessions.store_opened(&myself, &store, outcome).await;
            }
            NodeMessage::Tell { session, message } => sessions.tell(&myself, session, message),
            NodeMessage::Watch(watch) => sessions.watch(&myself, watch),
            NodeMessage::Sweep { idle } => sessions.sweep(&myself, idle),
            NodeMessage::Started(started) => sessions.started(&myself, *started).await,
            NodeMessage::Close { session, reply }
                if sessions.starting.contains_key(&session)
                    && !sessions.open.contains_key(&session) =>
            {
                sessions.defer(session, Then::Close(reply));
            }
            NodeMessage::Close { session, reply } => {
                sessions.close(session).await;
                sessions.admit_waiting(&myself).await;
                // the client may be gone
                let _ = reply.send(());
            }
            NodeMessage::Rest { session, sent } => {
                sessions.rest(session, sent).await;
                sessions.admit_waiting(&myself).await;
            }
            NodeMessage::Reading { session, reply } => {
                // the client may be gone
                let open = sessions.open.get(&session).filter(|_| sessions.is_open(session));
                let _ = reply.send(open.map(|entry| entry.store.reader()));
            }
            NodeMessage::ListOpen { reply } => {
                // the client may be gone
                let open = sessions.open.iter().map(|(session, entry)| ListedSession {
                    session: *session,
                    is_at_work: !entry.cut_off && entry.closed.borrow().is_none(),
                });
                let _ = reply.send(open.collect());
            }
            NodeMessage::Keep(listener) => {
                let open = sessions.open.values().map(|entry| entry.store.dir());
                let stores = open.chain(sessions.kept.iter().map(Store::dir));
                sessions.holds.keep(listener, stores);
            }
            NodeMessage::Hold(store) => {
                sessions.holds.add(store.dir());
                sessions.kept.push(store);
            }
            NodeMessage::Spawn(spawn) => sessions.spawn(&myself, spawn),
            NodeMessage::OpenChild(ready) => sessions.open_child(&myself, *ready).await,
            NodeMessage::Admit => sessions.look_for_room(&myself).await,
            NodeMessage::Reopen { session } => sessions.reopen(&myself, session),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        let (who, why) = match &event {
            SupervisionEvent::ActorFailed(who, why) => (who, why.to_string()),
            SupervisionEvent::ActorTerminated(who, ..) => (who, "it stopped".to_owned()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {
                return Ok(());
            }
        };
        if who.get_id() == sessions.observers.get_id() {
            return Err(format!("the observer hub died: {why}").into());
        }
        sessions.died(&myself, who.get_id(), &why);
        Ok(())
    }

    /// Releases the stores before the process ends. Turns in progress stay interrupted in their
    /// logs.
    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        sessions.holds = Holds::default();
        sessions.kept.clear();
        let open: Vec<Entry> = sessions.open.drain().map(|(_, entry)| entry).collect();
        for entry in &open {
            entry.actor.kill();
        }
        for entry in open {
            // the end of the process stops an actor that does not end in time
            let _ = entry.actor.wait(Some(LOG_RELEASE_TIMEOUT)).await;
        }
        Ok(())
    }
}

impl Sessions {
    /// Passes a message on. A resting session gets it as soon as it is open again.
    fn tell(
        &mut self,
        node: &ActorRef<NodeMessage>,
        session: SessionId,
        mut message: SessionMessage,
    ) {
        if self.starting.contains_key(&session) {
            self.defer(session, Then::Tell(message));
            return;
        }
        let Some(entry) = self.open.get_mut(&session) else {
            self.wake(node, session, Then::Tell(message));
            return;
        };
        entry.sent += 1;
        if let SessionMessage::Adopt(parent) = &message {
            entry.parent = Some(parent.clone());
        }
        entry.used = Instant::now();
        entry.renew(&mut message);
        if entry.go_on(&message) && entry.actor.cast(message).is_err() {
            tracing::warn!("{}", Error::NotOpen(session));
        }
    }

    fn watch(&mut self, node: &ActorRef<NodeMessage>, watch: Watch) {
        if self.starting.contains_key(&watch.session) {
            self.defer(watch.session, Then::Watch(watch));
            return;
        }
        let Some(entry) = self.open.get(&watch.session) else {
            self.wake(node, watch.session, Then::Watch(watch));
            return;
        };
        let store = entry.store.reader();
        if self.observers.cast(ObserversMessage::Watch { watch, store }).is_err() {
            tracing::warn!("the observer hub is gone: observers get no events");
        }
    }

    /// Restarts a session that has died, unless it has died too often.
    fn died(&mut self, node: &ActorRef<NodeMessage>, who: ActorId, why: &str) {
        let Some((session, entry)) = self.open.iter_mut().find(|(_, e)| e.actor.get_id() == who)
        else {
            if !self.starting.is_empty() {
                self.died_early.insert(who, why.to_owned());
            }
            return;
        };
        tracing::warn!(%session, "a session died: {why}");
        entry.deaths.retain(|death| death.elapsed() < MINUTE);
        entry.deaths.push(Instant::now());
        if entry.deaths.len() > DEATHS {
            entry.closed.send_replace(Some(why.to_owned()));
            return;
        }
        let (node, session) = (node.clone(), *session);
        self.tasks.spawn(tokio::time::sleep(LOG_RELEASE_TIMEOUT), move |_| {
            let _ = node.cast(NodeMessage::Reopen { session });
        });
    }
}
