//! One life of a session in a rerun: a store of its own, the real session with its workers, and
//! stand-ins for node and observers.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leftfold_events::event::{Event, Model, Session as SessionEvent};
use leftfold_events::{Envelope, SessionId};
use leftfold_plugins::Plugins;
use leftfold_providers::Provider;
use leftfold_store::Store;
use leftfold_tools::Workspace;
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::mpsc;

use super::recording::{Came, Effect, RecordedLog, RecordedProvider};
use crate::listener::Listener;
use crate::messages::{Error, NodeMessage, ObserversMessage, SessionMessage};
use crate::session::{Arguments, OpenLog, Session};
use crate::tasks::blocking;
use crate::world::{Models, Recording, World};

/// How long a released outcome may take to have an effect: far more than it needs.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) struct Life {
    pub(super) recording: Arc<RecordedLog>,
    store: Store,
    actor: ActorRef<SessionMessage>,
    node: ActorRef<NodeMessage>,
    observers: ActorRef<ObserversMessage>,
    came: mpsc::UnboundedReceiver<Came>,
    /// Events that are not compared yet.
    pub(super) events: VecDeque<Envelope>,
    /// Effects that were handed in and are not matched with their intents yet.
    pub(super) effects: Vec<Effect>,
}

impl Life {
    /// Begins after the first `given` events of `log`, which are imported into a new store in
    /// `folder`.
    #[expect(clippy::disallowed_methods, reason = "it is the root of the tree here")]
    pub(super) async fn begin(
        session: SessionId,
        log: &Arc<[Envelope]>,
        given: usize,
        folder: &Path,
    ) -> Result<Self, Error> {
        let (sender, came) = mpsc::unbounded_channel();
        let recording = Arc::new(RecordedLog::new(Arc::clone(log), sender.clone()));
        let created_event = log.get(given).and_then(|first| {
            let Event::Session(
                created_event @ (SessionEvent::Created { .. } | SessionEvent::Forked { .. }),
            ) = &first.event
            else {
                return None;
            };
            Some(created_event.clone())
        });
        let (events, place) = (Arc::clone(log), folder.to_owned());
        let copy = move || -> Result<_, Error> {
            let store = Store::open(&place)?;
            for part in events[..given].chunk_by(|a, b| a.session == b.session) {
                store.import(part[0].session, part)?;
            }
            let log = OpenLog::open(&store, session, created_event)?;
            Ok((store, log))
        };
        let (store, own) = blocking(copy).await??;
        let (node, _) = Actor::spawn(None, Stage, sender.clone()).await?;
        let observers = Listener::start(move |message| {
            if let ObserversMessage::Happened(events) = message {
                let _ = sender.send(Came::Events(events));
            }
        });
        let observers = observers.await?;
        let (mark, owner) = (own.mark(&store), own.owner(&store));
        let arguments = Arguments {
            log: own,
            world: world(log, &recording, folder),
            mark,
            owner,
            observers: observers.clone(),
            node: node.clone(),
        };
        let (actor, _) = Actor::spawn_linked(None, Session, arguments, node.get_cell()).await?;
        let (events, effects) = (VecDeque::new(), Vec::new());
        Ok(Self { recording, store, actor, node, observers, came, events, effects })
    }

    pub(super) fn tell(&self, message: SessionMessage) {
        // a dead actor is noticed when nothing more comes
        let _ = self.actor.cast(message);
    }

    pub(super) fn actor(&self) -> &ActorRef<SessionMessage> {
        &self.actor
    }

    /// Receives the next event or effect. False: there is none.
    pub(super) async fn listen(&mut self) -> Result<bool, Error> {
        let Ok(Some(came)) = tokio::time::timeout(RELEASE_TIMEOUT, self.came.recv()).await else {
            return Ok(false);
        };
        self.take(came)?;
        Ok(true)
    }

    /// Receives everything that has already come.
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
            Came::Died(why) => return Err(Error::Gone(why)),
        }
        Ok(())
    }

    /// Ends the session as a crash would, and returns the events in its store.
    pub(super) async fn end(self, session: SessionId) -> Result<Vec<Envelope>, Error> {
        let Self { actor, node, observers, store, .. } = self;
        actor.kill();
        // an actor that is already dead has also released the store
        let _ = actor.wait(None).await;
        node.stop(None);
        observers.stop(None);
        let read = move || store.reader().read(session, 1, usize::MAX);
        Ok(blocking(read).await??)
    }
}

/// A world without real access to anything.
fn world(log: &[Envelope], recording: &Arc<RecordedLog>, folder: &Path) -> World {
    let provider = Arc::new(RecordedProvider(Arc::clone(recording)));
    let asked = |event: &Envelope| {
        let Event::Model(Model::Requested { model, .. }) = &event.event else { return None };
        Some(model.provider.clone())
    };
    let models = log.iter().filter_map(asked);
    let models = models.map(|name| (name, Arc::clone(&provider) as Arc<dyn Provider>));
    let nowhere = || folder.join("nowhere");
    World {
        models: Models::new(models),
        workspace: Arc::new(Workspace::new(nowhere(), nowhere(), nowhere())),
        plugins: Plugins::default(),
        turn_configs: None,
        recording: Some(Arc::clone(recording) as Arc<dyn Recording>),
    }
}

/// Stands in for the node.
struct Stage;

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
        }
        // messages to other sessions are in those sessions' own logs
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
