//! The root of the tree: opens sessions, starts them again when they die, and is what clients
//! talk to.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leftfold_events::event::{Ended, Session as SessionEvent};
use leftfold_events::{Kit, Seq, SessionId, fold};
use leftfold_store::Store;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};
use tokio::sync::watch;

use crate::observers::{Observers, ObserversMessage, Watch};
use crate::session::{Arguments, Session, SessionMessage};
use crate::{Error, World};

/// A session that dies more often than this within a minute stays closed.
const DEATHS: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);
/// How long a session that died is given to let go of its log.
const LET_GO: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub enum NodeMessage {
    Open {
        open: Box<Open>,
        reply: RpcReplyPort<Result<Opened, Error>>,
    },
    /// Passes a message on to an open session.
    Tell {
        session: SessionId,
        message: SessionMessage,
    },
    Watch(Watch),
    /// A session that died is to be started again.
    Reopen {
        session: SessionId,
    },
    /// A store has been opened (or not) for the sessions that wait for it.
    StoreOpened {
        store: PathBuf,
        outcome: Result<Store, Error>,
    },
}

/// A session to open.
#[derive(Debug)]
pub struct Open {
    /// The folder of its store; made if there is none.
    pub store: PathBuf,
    pub session: SessionId,
    pub world: World,
    /// What begins the log if it is new.
    pub birth: SessionEvent,
}

/// What a client learns of a session that it has opened.
#[derive(Debug)]
pub struct Opened {
    /// The last seq in its log.
    pub head: Seq,
    /// Whether a turn was cut off in it.
    pub unfinished: bool,
    /// How its last turn ended.
    pub ended: Option<Box<Ended>>,
    /// Becomes `Some` with the reason when the session is closed for good.
    pub closed: watch::Receiver<Option<String>>,
}

#[derive(Debug)]
pub struct Node;

#[derive(Debug)]
pub struct Sessions {
    observers: ActorRef<ObserversMessage>,
    open: HashMap<SessionId, Entry>,
    /// Stores on their way, and the sessions that are to be opened in them.
    opening: HashMap<PathBuf, Vec<Waiting>>,
}

type Waiting = (Box<Open>, RpcReplyPort<Result<Opened, Error>>);

#[derive(Debug)]
struct Entry {
    store: Store,
    world: World,
    actor: ActorRef<SessionMessage>,
    /// Whether a turn was cut off in it with which nobody has gone on yet.
    cut_off: bool,
    deaths: Vec<Instant>,
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
        if let Err(error) = leftfold_tools::processes::become_subreaper() {
            tracing::warn!("what commands leave behind can not be adopted: {error}");
        }
        let (observers, _) = Actor::spawn_linked(None, Observers, (), myself.get_cell()).await?;
        Ok(Sessions { observers, open: HashMap::new(), opening: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: NodeMessage,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Open { open, reply } => sessions.open(&myself, open, reply).await,
            NodeMessage::StoreOpened { store, outcome } => {
                sessions.store_opened(&myself, &store, outcome).await;
            }
            NodeMessage::Tell { session, message } => sessions.tell(session, message),
            NodeMessage::Watch(watch) => {
                if let Some(entry) = sessions.open.get(&watch.session) {
                    let store = entry.store.clone();
                    sessions.observers.cast(ObserversMessage::Watch { watch, store })?;
                }
            }
            NodeMessage::Reopen { session } => sessions.reopen(&myself, session).await,
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

    /// Lets go of the stores before the process does: turns under way stay cut off in their logs.
    async fn post_stop(
        &self,
        _: ActorRef<Self::Msg>,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        let open: Vec<Entry> = sessions.open.drain().map(|(_, entry)| entry).collect();
        for entry in &open {
            entry.actor.kill();
        }
        for entry in open {
            // one that does not end in time is cut off by the end of the process
            let _ = entry.actor.wait(Some(LET_GO)).await;
        }
        Ok(())
    }
}

impl Sessions {
    /// Opens a session in its store, which the node may hold already; a session that is open is
    /// the same for all its clients.
    async fn open(
        &mut self,
        node: &ActorRef<NodeMessage>,
        open: Box<Open>,
        reply: RpcReplyPort<Result<Opened, Error>>,
    ) {
        if let Some(entry) = self.open.get(&open.session)
            && entry.closed.borrow().is_none()
        {
            entry.describe(reply);
        } else if let Some(waiting) = self.opening.get_mut(&open.store) {
            waiting.push((open, reply));
        } else if let Some(store) = self.held(&open.store) {
            // the client may have gone
            let _ = reply.send(self.begin(node, *open, store).await);
        } else {
            self.open_store(node, open, reply);
        }
    }

    /// The store in `folder`, if a session of this node is in it.
    fn held(&self, folder: &Path) -> Option<Store> {
        let entry = self.open.values().find(|entry| entry.store.dir() == folder)?;
        Some(entry.store.clone())
    }

    /// Opens a store beside the node, because that can take seconds. What a dead node left running
    /// in it is ended first.
    fn open_store(
        &mut self,
        node: &ActorRef<NodeMessage>,
        open: Box<Open>,
        reply: RpcReplyPort<Result<Opened, Error>>,
    ) {
        let (node, folder) = (node.clone(), open.store.clone());
        self.opening.insert(folder.clone(), vec![(open, reply)]);
        tokio::task::spawn_blocking(move || {
            let used = folder.join("db").exists();
            let outcome = Store::open(&folder).map_err(Error::from);
            if let Some(store) = outcome.as_ref().ok().filter(|_| used) {
                let ended = leftfold_tools::processes::end_strays(&store.identity());
                if ended > 0 {
                    tracing::info!("{ended} processes of a dead node were ended");
                }
            }
            // a node that is gone opens nothing
            let _ = node.cast(NodeMessage::StoreOpened { store: folder, outcome });
        });
    }

    async fn store_opened(
        &mut self,
        node: &ActorRef<NodeMessage>,
        folder: &Path,
        outcome: Result<Store, Error>,
    ) {
        let waiting = self.opening.remove(folder).unwrap_or_default();
        match outcome {
            Ok(store) => {
                for (open, reply) in waiting {
                    // the client may have gone
                    let _ = reply.send(self.begin(node, *open, store.clone()).await);
                }
            }
            Err(error) => {
                // an error has one reader: the others try for themselves
                let mut waiting = waiting.into_iter();
                if let Some((_, reply)) = waiting.next() {
                    let _ = reply.send(Err(error));
                }
                for (open, reply) in waiting {
                    let _ = node.cast(NodeMessage::Open { open, reply });
                }
            }
        }
    }

    async fn begin(
        &mut self,
        node: &ActorRef<NodeMessage>,
        open: Open,
        store: Store,
    ) -> Result<Opened, Error> {
        let Open { session, world, birth, .. } = open;
        let (closed, closing) = watch::channel(None);
        let (actor, opened) =
            start(node, &self.observers, &store, session, &world, Some(birth)).await?;
        let (head, unfinished, ended) = opened;
        let entry = Entry { store, world, actor, cut_off: unfinished, deaths: Vec::new(), closed };
        self.open.insert(session, entry);
        Ok(Opened { head, unfinished, ended, closed: closing })
    }

    fn tell(&mut self, session: SessionId, message: SessionMessage) {
        let told = self.open.get_mut(&session).map(|entry| {
            if matches!(message, SessionMessage::Resume { .. }) {
                entry.cut_off = false;
            }
            entry.actor.cast(message)
        });
        if !matches!(told, Some(Ok(()))) {
            tracing::warn!("{}", Error::NotOpen(session));
        }
    }

    /// A session has died: it is started again, unless that has not helped before.
    fn died(&mut self, node: &ActorRef<NodeMessage>, who: ActorId, why: &str) {
        let Some((session, entry)) = self.open.iter_mut().find(|(_, e)| e.actor.get_id() == who)
        else {
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
        tokio::spawn(async move {
            tokio::time::sleep(LET_GO).await;
            let _ = node.cast(NodeMessage::Reopen { session });
        });
    }

    /// Ends what the dead session left running, folds its log and goes on where that ends.
    async fn reopen(&mut self, node: &ActorRef<NodeMessage>, session: SessionId) {
        let Some(entry) = self.open.get_mut(&session) else { return };
        let started = start(node, &self.observers, &entry.store, session, &entry.world, None).await;
        match started {
            Ok((actor, _)) => entry.actor = actor,
            Err(error) => {
                let who = entry.actor.get_id();
                self.died(node, who, &error.to_string());
            }
        }
    }
}

impl Entry {
    /// Tells a client how a session stands that is open already.
    fn describe(&self, reply: RpcReplyPort<Result<Opened, Error>>) {
        let (actor, cut_off, closed) = (self.actor.clone(), self.cut_off, self.closed.subscribe());
        tokio::spawn(async move {
            let opened = match ractor::call!(actor, SessionMessage::View) {
                Ok(state) => {
                    Ok(Opened { head: state.seq, unfinished: cut_off, ended: state.ended, closed })
                }
                Err(gone) => Err(Error::Gone(gone.to_string())),
            };
            // the client may have gone
            let _ = reply.send(opened);
        });
    }
}

type Known = (Seq, bool, Option<Box<Ended>>);

/// Starts a session on its log. Without a birth it goes on at once with what it finds.
async fn start(
    node: &ActorRef<NodeMessage>,
    observers: &ActorRef<ObserversMessage>,
    store: &Store,
    session: SessionId,
    world: &World,
    birth: Option<SessionEvent>,
) -> Result<(ActorRef<SessionMessage>, Known), Error> {
    let log = store.log(session)?;
    let state = fold(&log.read()?);
    let known = (state.seq, state.turn.is_some(), state.ended.clone());
    let name = store.identity();
    if birth.is_none() {
        // its own only: others live in the same store
        let name = format!("{name}:{session}");
        let hunt = move || leftfold_tools::processes::end_strays(&name);
        // it waits until they are gone
        let ended = tokio::task::spawn_blocking(hunt).await.unwrap_or_default();
        if ended > 0 {
            tracing::info!(%session, "{ended} processes of the dead session were ended");
        }
    }
    let go_on = (birth.is_none() && state.turn.is_some()).then(|| Box::new(state.kit.clone()));
    let arguments = Arguments {
        birth: birth.filter(|_| state.seq == 0),
        log,
        state,
        world: world.clone(),
        store: name,
        observers: observers.clone(),
    };
    let (actor, _) = Actor::spawn_linked(None, Session, arguments, node.get_cell()).await?;
    if let Some(kit) = go_on {
        resume(&actor, kit);
    }
    Ok((actor, known))
}

fn resume(actor: &ActorRef<SessionMessage>, kit: Box<Kit>) {
    if actor.cast(SessionMessage::Resume { kit, close: false }).is_err() {
        tracing::warn!("a session died as soon as it was started");
    }
}
