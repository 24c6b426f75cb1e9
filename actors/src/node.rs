//! The root of the tree: opens sessions, starts them again when they die, and is what clients
//! talk to.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use leftfold_events::event::{Access, Ended, Session as SessionEvent};
use leftfold_events::{Kit, Seq, SessionId, State, fold};
use leftfold_store::{Log, Store};
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
const LOST: &str =
    "the session died before anything that was asked of it was durable: nothing was done";

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
    /// Questions that still wait for an answer: the intents that asked, and what about.
    pub questions: Vec<(Seq, Access)>,
    /// Becomes `Some` with the reason when the session is closed for good.
    pub closed: watch::Receiver<Option<String>>,
}

#[derive(Debug)]
pub struct Node;

#[derive(Debug)]
pub struct Sessions {
    observers: ActorRef<ObserversMessage>,
    open: HashMap<SessionId, Entry>,
}

#[derive(Debug)]
struct Entry {
    store: Store,
    world: World,
    actor: ActorRef<SessionMessage>,
    /// Where the log ended when the session was opened.
    head: Seq,
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
        Ok(Sessions { observers, open: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: NodeMessage,
        sessions: &mut Sessions,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            NodeMessage::Open { open, reply } => {
                // the client may have gone
                let _ = reply.send(sessions.open(&myself, *open).await);
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
}

impl Sessions {
    async fn open(&mut self, node: &ActorRef<NodeMessage>, open: Open) -> Result<Opened, Error> {
        let Open { store, session, world, birth } = open;
        let found = blocking(move || {
            let known = store.join("db").exists();
            let store = Store::open(&store)?;
            if known {
                leftfold_tools::processes::end_strays(&store.identity());
            }
            find(&store, session)
        })
        .await?;
        let (head, store) = (found.state.seq, found.store.clone());
        let unfinished = found.state.turn.is_some();
        let ended = found.state.ended.clone();
        let questions = found.state.questions();
        let birth = (head == 0).then_some(birth);
        let actor = start(node, &self.observers, found, &world, birth).await?;
        let (closed, closing) = watch::channel(None);
        let entry = Entry { store, world, actor, head, deaths: Vec::new(), closed };
        self.open.insert(session, entry);
        Ok(Opened { head, unfinished, ended, questions, closed: closing })
    }

    fn tell(&self, session: SessionId, message: SessionMessage) {
        let told = self.open.get(&session).is_some_and(|entry| entry.actor.cast(message).is_ok());
        if !told {
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
        let Some(entry) = self.open.get(&session) else { return };
        let (store, world) = (entry.store.clone(), entry.world.clone());
        let found = blocking(move || {
            leftfold_tools::processes::end_strays(&format!("{}:{session}", store.identity()));
            find(&store, session)
        });
        let restarted = match found.await {
            Ok(found) => {
                let (kit, head) = (Box::new(found.state.kit.clone()), found.state.seq);
                let unfinished = found.state.turn.is_some();
                let actor = start(node, &self.observers, found, &world, None).await;
                actor.map(|actor| (actor, kit, head, unfinished))
            }
            Err(error) => Err(error),
        };
        let Some(entry) = self.open.get_mut(&session) else { return };
        match restarted {
            Ok((actor, kit, head, unfinished)) => {
                entry.actor = actor;
                if unfinished && head > entry.head {
                    resume(&entry.actor, kit);
                } else {
                    // what was asked of it went down with it
                    entry.closed.send_replace(Some(LOST.to_owned()));
                }
            }
            Err(error) => {
                let who = entry.actor.get_id();
                self.died(node, who, &error.to_string());
            }
        }
    }
}

/// A session as its log shows it.
struct Found {
    store: Store,
    log: Log,
    state: State,
}

fn find(store: &Store, session: SessionId) -> Result<Found, Error> {
    let log = store.log(session)?;
    let state = fold(&log.read()?);
    Ok(Found { store: store.clone(), log, state })
}

/// Waits for disks and dying processes away from the threads that everybody shares.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await?
}

async fn start(
    node: &ActorRef<NodeMessage>,
    observers: &ActorRef<ObserversMessage>,
    found: Found,
    world: &World,
    birth: Option<SessionEvent>,
) -> Result<ActorRef<SessionMessage>, Error> {
    let Found { store, log, state } = found;
    let arguments = Arguments {
        log,
        state,
        birth,
        world: world.clone(),
        store: store.identity(),
        observers: observers.clone(),
    };
    Ok(Actor::spawn_linked(None, Session, arguments, node.get_cell()).await?.0)
}

fn resume(actor: &ActorRef<SessionMessage>, kit: Box<Kit>) {
    if actor.cast(SessionMessage::Resume { kit, close: false }).is_err() {
        tracing::warn!("a session died as soon as it was started");
    }
}
