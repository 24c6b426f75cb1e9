//! The root of the tree: opens sessions, starts them again when they die, and is what clients
//! talk to.

use std::collections::HashMap;
use std::path::PathBuf;
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
    /// The store of an open session, for reading.
    Reading {
        session: SessionId,
        reply: RpcReplyPort<Option<Store>>,
    },
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
            NodeMessage::Reading { session, reply } => {
                // the client may have gone
                let _ = reply.send(sessions.open.get(&session).map(|entry| entry.store.clone()));
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
        let store = Store::open(&store)?;
        let (closed, closing) = watch::channel(None);
        let (actor, opened) =
            start(node, &self.observers, &store, session, &world, Some(birth)).await?;
        let entry = Entry { store, world, actor, deaths: Vec::new(), closed };
        self.open.insert(session, entry);
        let (head, unfinished, ended) = opened;
        Ok(Opened { head, unfinished, ended, closed: closing })
    }

    fn tell(&self, session: SessionId, message: SessionMessage) {
        let told = self.open.get(&session).map(|entry| entry.actor.cast(message));
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
    if state.seq > 0 {
        let name = name.clone();
        let hunt = move || leftfold_tools::processes::end_strays(&name);
        // it waits until they are gone
        let ended = tokio::task::spawn_blocking(hunt).await.unwrap_or_default();
        if ended > 0 {
            tracing::info!(%session, "{ended} processes of a dead node were ended");
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
