//! Hands events to whoever watches. A sink has at most one batch in flight and pays for it with
//! an acknowledgement; what it misses meanwhile it is given from the log. So a slow observer
//! blocks nobody, costs nothing, and still gets every event from its cursor on, once, in order.

use std::collections::HashMap;
use std::sync::Arc;

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Store;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

/// Events at most in one observation read from the log.
const CHUNK: usize = 512;

/// What an observer actor is told. It answers `done` when it is ready for the next.
#[derive(Debug)]
pub struct Observation {
    pub events: Arc<[Envelope]>,
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
    Acknowledged {
        sink: u64,
        alive: bool,
    },
}

pub(crate) struct Observers;

#[derive(Default)]
pub(crate) struct Hub {
    sinks: HashMap<u64, Sink>,
    last: u64,
}

struct Sink {
    watch: Watch,
    /// `None` while the session is closed.
    store: Option<Store>,
    /// Whether an observation is in flight.
    busy: bool,
    /// The last seq known to be in the log.
    head: Seq,
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
        myself: ActorRef<Self::Msg>,
        message: ObserversMessage,
        hub: &mut Hub,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ObserversMessage::Watch { watch, store } => {
                hub.last += 1;
                let store = Some(store);
                let mut sink = Sink { watch, store, busy: false, head: Seq::MAX };
                sink.catch_up(&myself, hub.last);
                hub.sinks.insert(hub.last, sink);
            }
            ObserversMessage::Happened(events) => {
                for (id, sink) in &mut hub.sinks {
                    sink.happened(&myself, *id, &events);
                }
            }
            ObserversMessage::Opened { session, store } => {
                for (id, sink) in hub.of(session) {
                    (sink.store, sink.head) = (Some(store.clone()), Seq::MAX);
                    sink.catch_up(&myself, *id);
                }
            }
            ObserversMessage::Closed { session } => {
                hub.of(session).for_each(|(_, sink)| sink.store = None);
            }
            ObserversMessage::Acknowledged { sink, alive: true } => {
                if let Some(known) = hub.sinks.get_mut(&sink) {
                    known.busy = false;
                    known.catch_up(&myself, sink);
                }
            }
            ObserversMessage::Acknowledged { sink, alive: false } => {
                hub.sinks.remove(&sink);
            }
        }
        Ok(())
    }
}

impl Hub {
    fn of(&mut self, session: SessionId) -> impl Iterator<Item = (&u64, &mut Sink)> {
        self.sinks.iter_mut().filter(move |(_, sink)| sink.watch.session == session)
    }
}

impl Sink {
    fn happened(&mut self, hub: &ActorRef<ObserversMessage>, id: u64, events: &Arc<[Envelope]>) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        if first.session != self.watch.session {
            return;
        }
        self.head = last.seq;
        if !self.busy && first.seq == self.watch.from {
            self.send(hub, id, Arc::clone(events));
        } else {
            self.catch_up(hub, id);
        }
    }

    /// Reads what the sink has missed, if it is ready for more.
    fn catch_up(&mut self, hub: &ActorRef<ObserversMessage>, id: u64) {
        if self.busy || self.watch.from > self.head {
            return;
        }
        let Some(store) = &self.store else { return };
        match store.read(self.watch.session, self.watch.from, CHUNK) {
            Ok(events) if !events.is_empty() => self.send(hub, id, events.into()),
            // nothing was promised yet
            Ok(_) if self.head == Seq::MAX => self.head = self.watch.from.saturating_sub(1),
            Ok(_) => self.give_up("the log ends before what was announced"),
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// A sink that can not be served is stopped, so that whoever waits behind it hears of it.
    fn give_up(&mut self, why: &str) {
        tracing::error!("an observer can not be served from the log: {why}");
        self.busy = true;
        self.watch.sink.stop(Some(why.to_owned()));
    }

    fn send(&mut self, hub: &ActorRef<ObserversMessage>, id: u64, events: Arc<[Envelope]>) {
        if let Some(last) = events.last() {
            self.watch.from = last.seq + 1;
        }
        self.busy = true;
        let (done, acknowledged) = ractor::concurrency::oneshot();
        // a dead sink drops its port, which is an answer too
        let _ = self.watch.sink.cast(Observation { events, done: done.into() });
        let hub = hub.clone();
        tokio::spawn(async move {
            let alive = acknowledged.await.is_ok();
            let _ = hub.cast(ObserversMessage::Acknowledged { sink: id, alive });
        });
    }
}
