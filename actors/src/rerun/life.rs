//! One life of a session that is run again: a store of its own, the real session with its workers,
//! and who takes the places of node and observers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{Event, Model, Session as SessionEvent};
use leftfold_events::{Envelope, SessionId, fold};
use leftfold_providers::Provider;
use leftfold_store::Store;
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc;

use super::tape::{Effect, Recorded, Tape};
use crate::listener::Listener;
use crate::node::NodeMessage;
use crate::observers::ObserversMessage;
use crate::session::{Arguments, Session, SessionMessage};
use crate::{Error, Models, World};

/// How long nothing may come of what was released: far more than it takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the actors have come forward with.
pub(super) enum Came {
    Events(Arc<[Envelope]>),
    Effect(Effect),
    /// For the session, from what the node would have waited for.
    Message(SessionMessage),
    Died(String),
}

pub(super) struct Life {
    pub(super) tape: Arc<Tape>,
    store: Store,
    actor: ActorRef<SessionMessage>,
    node: ActorRef<NodeMessage>,
    observers: ActorRef<ObserversMessage>,
    came: mpsc::UnboundedReceiver<Came>,
    /// Not compared yet.
    pub(super) events: VecDeque<Envelope>,
    /// Handed in, and not matched with their intents yet.
    pub(super) effects: Vec<Effect>,
}

impl Life {
    /// Begins behind the first `given` events of `log`, which are appended as they are to a new store
    /// in `folder`.
    pub(super) async fn begin(
        session: SessionId,
        log: &Arc<[Envelope]>,
        given: usize,
        folder: &Path,
    ) -> Result<Self, Error> {
        let (sender, came) = mpsc::unbounded_channel();
        let tape = Arc::new(Tape::new(Arc::clone(log), sender.clone()));
        let (events, place) = (Arc::clone(log), folder.to_owned());
        let copy = move || -> Result<_, Error> {
            let store = Store::open(&place)?;
            for part in events[..given].chunk_by(|a, b| a.session == b.session) {
                store.log(part[0].session)?.append_wait(part)?;
            }
            let log = store.log(session)?;
            let state = fold(&log.read()?);
            Ok((store, log, state))
        };
        let (store, own, state) = tokio::task::spawn_blocking(copy).await??;
        let birth = log.first().filter(|_| given == 0).and_then(|first| {
            let Event::Session(birth @ SessionEvent::Created { .. }) = &first.event else {
                return None;
            };
            Some(birth.clone())
        });
        let (node, _) = Actor::spawn(None, Stage(session), sender.clone()).await?;
        let observers = Listener::start(move |message| {
            if let ObserversMessage::Happened(events) = message {
                let _ = sender.send(Came::Events(events));
            }
        });
        let observers = observers.await?;
        let arguments = Arguments {
            log: own,
            state,
            birth,
            world: world(log, &tape, folder),
            store: store.identity(),
            observers: observers.clone(),
            node: node.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, Session, arguments, node.get_cell()).await?;
        let (events, effects) = (VecDeque::new(), Vec::new());
        Ok(Self { tape, store, actor, node, observers, came, events, effects })
    }

    pub(super) fn tell(&self, message: SessionMessage) {
        // that it died is noticed when nothing comes
        let _ = self.actor.cast(message);
    }

    pub(super) fn actor(&self) -> &ActorRef<SessionMessage> {
        &self.actor
    }

    /// Takes in what comes next. False: nothing does.
    pub(super) async fn listen(&mut self) -> Result<bool, Error> {
        let Ok(Some(came)) = tokio::time::timeout(PATIENCE, self.came.recv()).await else {
            return Ok(false);
        };
        self.take(came)?;
        Ok(true)
    }

    /// Takes in what has come already.
    pub(super) fn drain(&mut self) -> Result<(), Error> {
        while let Ok(came) = self.came.try_recv() {
            self.take(came)?;
        }
        Ok(())
    }

    fn take(&mut self, came: Came) -> Result<(), Error> {
        match came {
            Came::Events(events) => self.events.extend(events.iter().cloned()),
            Came::Effect(effect) => self.effects.push(effect),
            Came::Message(message) => self.tell(message),
            Came::Died(why) => return Err(Error::Gone(why)),
        }
        Ok(())
    }

    /// As a crash ends it; gives what stands in its store.
    pub(super) async fn end(self, session: SessionId) -> Result<Vec<Envelope>, Error> {
        let Self { actor, node, observers, store, .. } = self;
        actor.kill();
        // one that is dead already has let go too
        let _ = actor.wait(None).await;
        node.stop(None);
        observers.stop(None);
        let read = move || store.read(session, 1, usize::MAX);
        Ok(tokio::task::spawn_blocking(read).await??)
    }
}

/// A world of which nothing is real.
fn world(log: &[Envelope], tape: &Arc<Tape>, folder: &Path) -> World {
    let recorded = Arc::new(Recorded(Arc::clone(tape)));
    let provider = |event: &Envelope| {
        let Event::Model(Model::Requested { model, .. }) = &event.event else { return None };
        Some(model.provider.clone())
    };
    let models = log.iter().filter_map(provider);
    let models = models.map(|name| (name, Arc::clone(&recorded) as Arc<dyn Provider>));
    let nowhere = || folder.join("nowhere");
    World {
        models: Models::new(models),
        workspace: Arc::new(Workspace::new(nowhere(), nowhere(), nowhere())),
        turn_configs: Some(recorded),
        tape: Some(Arc::clone(tape)),
    }
}

/// Takes the place of the node.
struct Stage(SessionId);

impl Actor for Stage {
    type Msg = NodeMessage;
    type State = mpsc::UnboundedSender<Came>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<NodeMessage>,
        came: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(came)
    }

    async fn handle(
        &self,
        _: ActorRef<NodeMessage>,
        message: NodeMessage,
        came: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let NodeMessage::Spawn(spawn) = message {
            let _ = came.send(Came::Effect(Effect::Child(Box::new(spawn.parent))));
        } else if let NodeMessage::Tell { session, message } = message
            && session == self.0
        {
            // what others are told has its place in their own logs
            let _ = came.send(Came::Message(message));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMessage>,
        event: SupervisionEvent,
        came: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(_, why) = event {
            let _ = came.send(Came::Died(why.to_string()));
        }
        Ok(())
    }
}
