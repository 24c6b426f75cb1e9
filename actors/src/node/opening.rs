//! Opens a session in its store, which the node may already hold.

use std::path::Path;

use leftfold_events::event::{Event, Session as SessionEvent, Turn};
use leftfold_events::{SessionId, TurnConfig};
use leftfold_store::Store;
use ractor::{Actor, ActorRef, RpcReplyPort};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Entry, LOG_RELEASE_TIMEOUT, LOST, Sessions};
use crate::children::ChildResult;
use crate::messages::{
    Error, NodeMessage, ObserversMessage, OpenSession, Opened, SessionMessage, SpawnChild, Started,
    StartedSession, Watch,
};
use crate::session::{Arguments, OpenLog, Session};
use crate::tasks::{Tasks, blocking};
use crate::world::World;

/// A session that waits for its store, and the reason for opening it.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) open: Box<OpenSession>,
    pub(super) then: Then,
}

/// A session that is being started, in a task beside the node: in a store that nodes share, the lease of its last owner
/// may have to end first, and the database may be away.
#[derive(Debug)]
pub(super) struct Starting {
    store: Store,
    waiting: Vec<Then>,
}

/// The next step once a session is open.
#[derive(Debug)]
pub(super) enum Then {
    Describe(RpcReplyPort<Result<Opened, Error>>),
    Tell(SessionMessage),
    Watch(Watch),
    Close(RpcReplyPort<()>),
    /// A call waits for it.
    Child {
        spawn: Box<SpawnChild>,
        config: Box<TurnConfig>,
        world: Box<World>,
        /// Whether it is a fork that has not begun.
        forks: bool,
    },
}

impl Sessions {
    /// Opens a session and then performs the next step. All clients of an open session share it.
    pub(super) async fn open(&mut self, node: &ActorRef<NodeMessage>, waiting: Waiting) {
        let OpenSession { session, store, .. } = waiting.open.as_ref();
        if let Some(starting) = self.starting.get_mut(session) {
            starting.waiting.push(waiting.then);
        } else if self.is_open(*session) {
            self.proceed(node, *session, waiting.then);
        } else if let Some(others) = self.opening.get_mut(store) {
            others.push(waiting);
        } else if let Some(store) = self.held(store) {
            self.begin_and(node, waiting, store).await;
        } else {
            self.admit(node, waiting);
        }
    }

    pub(super) fn is_open(&self, session: SessionId) -> bool {
        self.open.get(&session).is_some_and(|entry| entry.closed.borrow().is_none())
    }

    /// Keeps the next step for a session that is being started. Gives it back if it is not.
    pub(super) fn defer(&mut self, session: SessionId, then: Then) -> Option<Then> {
        match self.starting.get_mut(&session) {
            Some(starting) => starting.waiting.push(then),
            None => return Some(then),
        }
        None
    }

    /// The stores that sessions of this node are in.
    pub(super) fn stores(&self) -> impl Iterator<Item = &Store> {
        let open = self.open.values().map(|entry| &entry.store);
        open.chain(self.starting.values().map(|starting| &starting.store))
    }

    /// The store in `folder`, if this node keeps it or a session of this node is in it.
    pub(super) fn held(&self, folder: &Path) -> Option<Store> {
        self.kept.iter().chain(self.stores()).find(|store| store.dir() == folder).cloned()
    }

    /// Opens a store in a task beside the node, because that can take seconds. It first ends the
    /// processes that a dead node left running in it.
    pub(super) fn open_store(&mut self, node: &ActorRef<NodeMessage>, waiting: Waiting) {
        let (node, folder) = (node.clone(), waiting.open.store.clone());
        self.opening.insert(folder.clone(), vec![waiting]);
        let place = folder.clone();
        let open = move || {
            let used = leftfold_store::exists(&folder);
            let outcome = Store::open(&folder).map_err(Error::from);
            // in a shared store the processes of other nodes live on
            let is_ours = |store: &&Store| used && !store.is_shared();
            if let Some(store) = outcome.as_ref().ok().filter(is_ours) {
                let ended = leftfold_process::end_strays(&store.identity())
                    + leftfold_process::end_orphans();
                if ended > 0 {
                    tracing::info!("{ended} processes of a dead node were ended");
                }
            }
            outcome
        };
        self.tasks.spawn_blocking(open, move |outcome| {
            let failed = || Err(Error::Gone("opening its store failed unexpectedly".to_owned()));
            let outcome = outcome.unwrap_or_else(failed);
            // a node that is gone opens nothing
            let _ = node.cast(NodeMessage::StoreOpened { store: place, outcome });
        });
    }

    pub(super) async fn store_opened(
        &mut self,
        node: &ActorRef<NodeMessage>,
        folder: &Path,
        outcome: Result<Store, Error>,
    ) {
        let mut waiting = self.opening.remove(folder).unwrap_or_default().into_iter();
        match outcome {
            Ok(store) => {
                for waiting in waiting {
                    self.begin_and(node, waiting, store.clone()).await;
                }
            }
            Err(error) => {
                // only the first waiting session gets the error: the others try again
                if let Some(first) = waiting.next() {
                    self.refuse(first.open.session, first.then, error);
                }
                for waiting in waiting {
                    Box::pin(self.open(node, waiting)).await;
                }
            }
        }
    }

    async fn begin_and(&mut self, node: &ActorRef<NodeMessage>, waiting: Waiting, store: Store) {
        let Waiting { open, then } = waiting;
        let session = open.session;
        let Some(then) = self.defer(session, then) else { return };
        if self.is_open(session) {
            self.proceed(node, session, then);
            return;
        }
        if let Some(closed) = self.open.remove(&session) {
            // a session that was closed permanently may still have the log
            let _ = closed.actor.stop_and_wait(None, Some(LOG_RELEASE_TIMEOUT)).await;
        }
        self.begin(node, open, store, vec![then]);
    }

    fn proceed(&mut self, node: &ActorRef<NodeMessage>, session: SessionId, then: Then) {
        match then {
            Then::Describe(reply) => {
                if let Some(entry) = self.open.get_mut(&session) {
                    entry.used = Instant::now();
                    entry.describe(&mut self.tasks, reply);
                }
            }
            Then::Tell(message) => self.tell(node, session, message),
            Then::Watch(watch) => self.watch(node, watch),
            Then::Close(reply) => {
                // the node may be gone
                let _ = node.cast(NodeMessage::Close { session, reply });
            }
            Then::Child { spawn, config, world, forks } => {
                self.prompt_child(node, spawn, (config, world), forks);
            }
        }
    }

    /// Reports to a waiting client why the session cannot be opened.
    pub(super) fn refuse(&mut self, session: SessionId, then: Then, error: Error) {
        match then {
            Then::Describe(reply) => {
                // the client may be gone
                let _ = reply.send(Err(error));
            }
            Then::Close(reply) => {
                // the client may be gone
                let _ = reply.send(());
            }
            Then::Child { spawn, .. } => {
                let sent = ChildResult::failed(session, error.to_string());
                let (parent, message) = sent.message(spawn.parent);
                if let Some(entry) = self.open.get(&parent) {
                    // a parent that is gone asks again
                    let _ = entry.actor.cast(message);
                }
            }
            Then::Tell(_) | Then::Watch(_) => {
                tracing::error!(%session, "it cannot be opened again: {error}");
                if let Some(resting) = self.resting.get(&session) {
                    resting.closed.send_replace(Some(error.to_string()));
                }
            }
        }
    }

    fn begin(
        &mut self,
        node: &ActorRef<NodeMessage>,
        open: Box<OpenSession>,
        store: Store,
        waiting: Vec<Then>,
    ) {
        let woken = ObserversMessage::Opened { session: open.session, store: store.reader() };
        if self.observers.cast(woken).is_err() {
            tracing::warn!("the observer hub is gone: observers get no events");
        }
        self.starting.insert(open.session, Starting { store: store.clone(), waiting });
        self.start(node, open, store, None);
    }

    /// Starts a session in a task, which ends the processes of `died` first. [`Self::started`] comes next.
    fn start(
        &mut self,
        node: &ActorRef<NodeMessage>,
        open: Box<OpenSession>,
        store: Store,
        died: Option<String>,
    ) {
        let first = match (&died, open.fork_of) {
            (Some(_), _) => None,
            (None, Some((from, at))) => Some(SessionEvent::Forked { from, at }),
            (None, None) => Some(open.created_event.clone()),
        };
        let (starting, observers) = (node.clone(), self.observers.clone());
        let (on, session, world) = (store.clone(), open.session, open.world.clone());
        let begin = async move {
            if let Some(mark) = died {
                // only its own processes: other sessions use this store too
                end_strays(mark).await;
            }
            start(&starting, &observers, &on, session, &world, first).await
        };
        let node = node.clone();
        self.tasks.spawn(begin, move |outcome| {
            let failed = || Err(Error::Gone("starting it failed unexpectedly".to_owned()));
            let outcome = outcome.unwrap_or_else(failed);
            // the node may be gone
            let _ =
                node.cast(NodeMessage::Started(Box::new(StartedSession { open, store, outcome })));
        });
    }

    pub(super) async fn started(&mut self, node: &ActorRef<NodeMessage>, started: StartedSession) {
        let actor = started.outcome.as_ref().ok().map(|started| started.actor.get_id());
        if self.open.contains_key(&started.open.session) {
            self.restarted(node, started).await;
        } else {
            self.opened(node, started);
        }
        if let Some(actor) = actor
            && let Some(why) = self.died_early.remove(&actor)
        {
            self.died(node, actor, &why);
        }
        if self.starting.is_empty() {
            self.died_early.clear();
        }
    }

    fn opened(&mut self, node: &ActorRef<NodeMessage>, started: StartedSession) {
        let StartedSession { open, store, outcome } = started;
        let session = open.session;
        let waiting = self.starting.remove(&session).map(|starting| starting.waiting);
        let mut waiting = waiting.unwrap_or_default();
        if waiting.is_empty() {
            // it was closed meanwhile
            if let Ok(started) = outcome {
                started.actor.stop(None);
            }
            return;
        }
        let Started { actor, mark, head, unfinished, .. } = match outcome {
            Ok(started) => started,
            Err(error) => {
                // only the first client gets the error: for the others it is tried again
                self.refuse(session, waiting.remove(0), error);
                if !waiting.is_empty() {
                    self.begin(node, open, store, waiting);
                }
                return;
            }
        };
        let OpenSession { world, created_event, .. } = *open;
        // clients that opened it before it was closed still listen on this channel
        let closed = self.resting.remove(&session).map(|resting| resting.closed);
        let closed = closed.filter(|closed| closed.borrow().is_none());
        self.holds.add(store.dir());
        let entry = Entry {
            store,
            world,
            created_event,
            actor,
            mark,
            head,
            cut_off: unfinished,
            sent: 0,
            used: Instant::now(),
            asked: Instant::now(),
            deaths: Vec::new(),
            parent: None,
            closed: closed.unwrap_or_else(|| watch::channel(None).0),
        };
        self.open.insert(session, entry);
        self.sweep_later(node);
        self.rest_if_many(node);
        for then in waiting {
            self.proceed(node, session, then);
        }
    }

    /// Ends the processes that a dead session left, folds its log and continues at its end.
    pub(super) fn reopen(&mut self, node: &ActorRef<NodeMessage>, session: SessionId) {
        let Some(entry) = self.open.get(&session) else { return };
        let (store, mark) = (entry.store.clone(), entry.mark.clone());
        let open = Box::new(OpenSession {
            store: store.dir().to_owned(),
            session,
            world: entry.world.clone(),
            created_event: entry.created_event.clone(),
            fork_of: None,
        });
        let starting = || Starting { store: store.clone(), waiting: Vec::new() };
        self.starting.entry(session).or_insert_with(starting);
        self.start(node, open, store, Some(mark));
    }

    async fn restarted(&mut self, node: &ActorRef<NodeMessage>, started: StartedSession) {
        let StartedSession { open, outcome, .. } = started;
        let session = open.session;
        let Some(entry) = self.open.get_mut(&session) else { return };
        match outcome {
            Ok(Started { actor, mark, head, unfinished, config }) => {
                (entry.actor, entry.mark) = (actor, mark);
                if let Some(parent) = entry.parent.clone() {
                    // it may already have died again
                    let _ = entry.actor.cast(SessionMessage::Adopt(parent));
                }
                if unfinished && head > entry.head {
                    resume(&entry.actor, config);
                } else {
                    // requests to it are lost with it; the next request opens it again
                    entry.cut_off = unfinished;
                    entry.closed.send_replace(Some(LOST.to_owned()));
                }
            }
            Err(error) => {
                let who = entry.actor.get_id();
                self.died(node, who, &error.to_string());
                if self.is_open(session) {
                    // it is tried again
                    return;
                }
            }
        }
        let waiting = self.starting.remove(&session).map(|starting| starting.waiting);
        for then in waiting.unwrap_or_default() {
            match then {
                // whoever opens a session that stays closed gets a new one
                Then::Describe(_) | Then::Child { .. } => {
                    Box::pin(self.open(node, Waiting { open: open.clone(), then })).await;
                }
                Then::Tell(_) | Then::Watch(_) | Then::Close(_) => {
                    self.proceed(node, session, then);
                }
            }
        }
    }
}

impl Entry {
    /// Keeps the world that comes with a prompt, for the session's children and its next opening.
    pub(super) fn renew(&mut self, message: &mut SessionMessage) {
        if let SessionMessage::Prompt { world: Some(world), joins: false, .. }
        | SessionMessage::Resume { world: Some(world), .. } = message
        {
            self.world = World::clone(world).after(&self.world);
            **world = self.world.clone();
        }
    }

    /// Whether the message still has a meaning for a turn that may be interrupted. A prompt first
    /// ends such a turn. The first client that asks resumes it.
    pub(super) fn go_on(&mut self, message: &SessionMessage) -> bool {
        if let SessionMessage::Prompt { config, prompted, .. } = message
            && !matches!(prompted.event, Event::Turn(Turn::Noted { .. }))
            && std::mem::take(&mut self.cut_off)
        {
            let config = config.clone();
            // the prompt brings its world
            let resume = SessionMessage::Resume { config, world: None, close: true };
            // a session that is gone does not get the prompt either
            return self.actor.cast(resume).is_ok();
        }
        let resumes = matches!(message, SessionMessage::Resume { .. });
        !resumes || std::mem::take(&mut self.cut_off)
    }

    /// Sends a client the session's status.
    fn describe(&self, tasks: &mut Tasks, reply: RpcReplyPort<Result<Opened, Error>>) {
        let (actor, cut_off, closed) = (self.actor.clone(), self.cut_off, self.closed.subscribe());
        let asked = async move {
            match ractor::call!(actor, SessionMessage::View) {
                Ok(state) => Ok(Opened {
                    head: state.seq,
                    // a pending restore waits for the next use of the session
                    unfinished: cut_off && state.turn.is_some(),
                    questions: state.questions(),
                    ended: state.ended,
                    closed,
                }),
                Err(gone) => Err(Error::Gone(gone.to_string())),
            }
        };
        tasks.spawn(asked, move |opened| {
            let failed = || Err(Error::Gone("asking it failed unexpectedly".to_owned()));
            // the client may have gone
            let _ = reply.send(opened.unwrap_or_else(failed));
        });
    }
}

/// Starts a session on its log.
async fn start(
    node: &ActorRef<NodeMessage>,
    observers: &ActorRef<ObserversMessage>,
    store: &Store,
    session: SessionId,
    world: &World,
    created_event: Option<SessionEvent>,
) -> Result<Started, Error> {
    let opened = store.clone();
    let open = move || {
        let log = OpenLog::open(&opened, session, created_event)?;
        // the family is this node's now, so what still runs for it here is of owners that are gone
        note_ended(log.end_strays(&opened));
        Ok::<_, Error>(log)
    };
    let mut log = blocking(open).await??;
    log.fence(world, store).await?;
    if let Some(remote) = world.workspace.remote.as_ref().filter(|_| store.is_shared()) {
        let executor = remote.name().to_owned();
        log = blocking(move || log.bind(&executor)).await??;
    }
    let (head, unfinished) = (log.head(), log.is_cut_off());
    let config = Box::new(log.state().config.clone());
    let (mark, owner) = (log.mark(store), log.owner(store));
    let arguments = Arguments {
        log,
        world: world.clone(),
        mark: mark.clone(),
        owner,
        observers: observers.clone(),
        node: node.clone(),
    };
    let (actor, _) = Actor::spawn_linked(None, Session, arguments, node.get_cell()).await?;
    Ok(Started { actor, mark, head, unfinished, config })
}

/// Ends the processes of calls whose mark begins with `mark`, and waits until they have ended.
async fn end_strays(mark: String) {
    let hunt = move || leftfold_process::end_strays(&mark);
    note_ended(blocking(hunt).await.unwrap_or_default());
}

fn note_ended(ended: usize) {
    if ended > 0 {
        tracing::info!("{ended} processes of a dead session were ended");
    }
}

pub(super) fn resume(actor: &ActorRef<SessionMessage>, config: Box<TurnConfig>) {
    if actor.cast(SessionMessage::Resume { config, world: None, close: false }).is_err() {
        tracing::warn!("a session died as soon as it was started");
    }
}
