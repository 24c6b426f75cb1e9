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
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

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
}

pub(crate) enum ObserversMessage {
    Watch {
        watch: Watch,
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

/// The sessions that are being watched.
#[derive(Default)]
pub(crate) struct Hub(HashMap<SessionId, Channel>);

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
        Hub(sessions): &mut Hub,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ObserversMessage::Watch { watch, store } => {
                let channel = sessions.entry(watch.session).or_default();
                channel.opened(store);
                tokio::spawn(serve::serve(channel.tap(watch.from), watch.session, watch.sink));
            }
            ObserversMessage::Happened(events) => {
                let Some(session) = events.first().map(|event| event.session) else {
                    return Ok(());
                };
                let watched = sessions.get_mut(&session).map(|channel| channel.happened(&events));
                if watched == Some(false) {
                    sessions.remove(&session);
                }
            }
            ObserversMessage::Opened { session, store } => {
                sessions.entry(session).and_modify(|channel| channel.opened(store));
            }
            ObserversMessage::Closed { session } => {
                sessions.entry(session).and_modify(Channel::closed);
            }
        }
        Ok(())
    }
}
