//! Hands events to whoever watches. A sink has at most one batch in flight and pays for it with
//! an acknowledgement; what it misses meanwhile it is given from the log. So a slow observer
//! blocks nobody, costs nothing, and still gets every event from its cursor on, once, in order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Store;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

/// Events at most in one observation read from the log.
const CHUNK: usize = 512;
/// Batches of each session that are kept for sinks a little behind, so that many of them do not
/// each read the same from the log.
const RECENT: usize = 16;

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
    recent: HashMap<SessionId, Recent>,
}

/// The last batches of a session.
#[derive(Default)]
struct Recent(VecDeque<Arc<[Envelope]>>);

impl Recent {
    fn push(&mut self, batch: Arc<[Envelope]>) {
        if self.0.len() == RECENT {
            self.0.pop_front();
        }
        self.0.push_back(batch);
    }

    /// The batch that begins with this event.
    fn from(&self, seq: Seq) -> Option<Arc<[Envelope]>> {
        let begins = |batch: &&Arc<[Envelope]>| batch.first().is_some_and(|e| e.seq == seq);
        self.0.iter().find(begins).cloned()
    }
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
                let recent = hub.recent.entry(sink.watch.session).or_default();
                sink.catch_up(&myself, hub.last, recent);
                hub.sinks.insert(hub.last, sink);
            }
            ObserversMessage::Happened(events) => hub.happened(&myself, &events),
            ObserversMessage::Opened { session, store } => hub.opened(&myself, session, &store),
            ObserversMessage::Closed { session } => {
                hub.of(session).for_each(|(_, sink)| sink.store = None);
            }
            ObserversMessage::Acknowledged { sink, alive } => {
                hub.acknowledged(&myself, sink, alive);
            }
        }
        Ok(())
    }
}

impl Hub {
    fn of(&mut self, session: SessionId) -> impl Iterator<Item = (&u64, &mut Sink)> {
        self.sinks.iter_mut().filter(move |(_, sink)| sink.watch.session == session)
    }

    /// The session's store can be read again.
    fn opened(&mut self, myself: &ActorRef<ObserversMessage>, session: SessionId, store: &Store) {
        let recent = self.recent.entry(session).or_default();
        let sinks = self.sinks.iter_mut();
        for (id, sink) in sinks.filter(|(_, sink)| sink.watch.session == session) {
            (sink.store, sink.head) = (Some(store.clone()), Seq::MAX);
            sink.catch_up(myself, *id, recent);
        }
        self.tidy(session);
    }

    fn happened(&mut self, myself: &ActorRef<ObserversMessage>, events: &Arc<[Envelope]>) {
        let Some(session) = events.first().map(|event| event.session) else { return };
        let recent = self.recent.entry(session).or_default();
        recent.push(Arc::clone(events));
        for (id, sink) in &mut self.sinks {
            sink.happened(myself, *id, events, recent);
        }
        self.tidy(session);
    }

    fn acknowledged(&mut self, myself: &ActorRef<ObserversMessage>, id: u64, alive: bool) {
        let Some(sink) = self.sinks.get_mut(&id) else { return };
        let session = sink.watch.session;
        sink.busy = false;
        if alive {
            sink.catch_up(myself, id, self.recent.entry(session).or_default());
        } else {
            self.sinks.remove(&id);
        }
        self.tidy(session);
    }

    /// Keeps nothing of a session whose sinks have all there is.
    fn tidy(&mut self, session: SessionId) {
        if !self.sinks.values().any(|sink| sink.busy && sink.watch.session == session) {
            self.recent.remove(&session);
        }
    }
}

impl Sink {
    fn happened(
        &mut self,
        hub: &ActorRef<ObserversMessage>,
        id: u64,
        events: &Arc<[Envelope]>,
        recent: &Recent,
    ) {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
        if first.session != self.watch.session {
            return;
        }
        self.head = last.seq;
        if !self.busy && first.seq == self.watch.from {
            self.send(hub, id, Arc::clone(events));
        } else {
            self.catch_up(hub, id, recent);
        }
    }

    /// Gives the sink what it has missed, if it is ready for more.
    fn catch_up(&mut self, hub: &ActorRef<ObserversMessage>, id: u64, recent: &Recent) {
        if self.busy || self.watch.from > self.head {
            return;
        }
        if let Some(events) = recent.from(self.watch.from) {
            return self.send(hub, id, events);
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
