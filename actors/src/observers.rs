//! Hands events to whoever watches. The hub says once what has happened; each sink has a task
//! (`serve`) that takes from there what its sink has not had yet. So a slow observer blocks
//! nobody, costs nothing, and still gets every event from its cursor on, once, in order.

mod feed;
mod recorded;
mod serve;

use std::collections::HashMap;
use std::sync::Arc;

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Store;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus, RpcReplyPort};

use feed::Channel;
pub use recorded::Recorded;

/// What an observer actor is told. It answers `done` when it is ready for the next, which is then
/// all that has happened meanwhile.
#[derive(Debug)]
pub struct Observation {
    pub events: Arc<[Recorded]>,
    pub done: RpcReplyPort<()>,
}

/// A sink and where it begins.
#[derive(Debug)]
pub struct Watch {
    pub session: SessionId,
    /// The first seq wanted.
    pub from: Seq,
    pub sink: ActorRef<Observation>,
    /// Whether it is told of the sessions that calls start from now on, too.
    pub family: bool,
}

pub(crate) enum ObserversMessage {
    Watch {
        watch: Watch,
        store: Store,
    },
    /// A call of `parent` has started or woken the session `child`, which has what is before
    /// `from` already.
    Follow {
        parent: SessionId,
        child: SessionId,
        from: Seq,
        store: Store,
    },
    Happened(Arc<[Envelope]>),
    /// The session's store is open, again or for the first time.
    Opened {
        session: SessionId,
        store: Store,
    },
    /// The store is let go: nothing happens in the session until it is opened again.
    Closed {
        session: SessionId,
    },
}

pub(crate) struct Observers;

#[derive(Default)]
pub(crate) struct Hub {
    /// The sessions that are being watched.
    sessions: HashMap<SessionId, Channel>,
    /// The sinks that are told of the children of a session, too.
    families: HashMap<SessionId, Vec<ActorRef<Observation>>>,
}

impl Hub {
    fn watch(&mut self, watch: Watch, store: Store) {
        let Watch { session, from, sink, family } = watch;
        if family {
            let sinks = self.families.entry(session).or_default();
            sinks.retain(|sink| sink.get_status() < ActorStatus::Stopping);
            if sinks.iter().any(|known| known.get_id() == sink.get_id()) {
                // it is told of this session already
                return;
            }
            sinks.push(sink.clone());
        }
        let channel = self.sessions.entry(session).or_default();
        channel.opened(store);
        tokio::spawn(serve::serve(channel.tap(from), session, sink));
    }

    fn follow(&mut self, parent: SessionId, child: SessionId, from: Seq, store: &Store) {
        for sink in self.families.get(&parent).cloned().unwrap_or_default() {
            let watch = Watch { session: child, from, sink, family: true };
            self.watch(watch, store.clone());
        }
    }
}

impl Actor for Observers {
    type Msg = ObserversMessage;
    type State = Hub;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<Hub, ActorProcessingErr> {
        Ok(Hub::default())
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: ObserversMessage,
        hub: &mut Hub,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ObserversMessage::Watch { watch, store } => hub.watch(watch, store),
            ObserversMessage::Follow { parent, child, from, store } => {
                hub.follow(parent, child, from, &store);
            }
            ObserversMessage::Happened(events) => {
                let Some(session) = events.first().map(|event| event.session) else {
                    return Ok(());
                };
                let watched =
                    hub.sessions.get_mut(&session).map(|channel| channel.happened(&events));
                if watched == Some(false) {
                    hub.sessions.remove(&session);
                }
            }
            ObserversMessage::Opened { session, store } => {
                hub.sessions.entry(session).and_modify(|channel| channel.opened(store));
            }
            ObserversMessage::Closed { session } => {
                hub.sessions.entry(session).and_modify(Channel::closed);
            }
        }
        Ok(())
    }
}
