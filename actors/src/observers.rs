//! Hands events to whoever watches. The hub says once what has happened; each sink has a task
//! (`serve`) that takes from there what its sink has not had yet. So a slow observer blocks
//! nobody, costs nothing, and still gets every event from its cursor on, once, in order.

mod feed;
mod serve;

use std::collections::HashMap;

use leftfold_events::{Seq, SessionId};
use leftfold_store::LiveReader;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus};

use crate::messages::{ObserversMessage, Watch, WatchScope};
use feed::Channel;

impl WatchScope {
    /// Where a child begins that the event just told has spawned, or (`first` is false) has gone on
    /// with. `None`: not because of that event.
    fn begins(&self, child: SessionId, first: bool) -> Option<Seq> {
        match self {
            Self::Alone => None,
            Self::Live => first.then_some(1),
            Self::Whole(named) => Some(named.get(&child).copied().unwrap_or(1)),
        }
    }
}

pub(crate) struct Observers;

#[derive(Default)]
pub(crate) struct Hub {
    /// The sessions that are being watched.
    sessions: HashMap<SessionId, Channel>,
    /// The watches that go on to the children of a session.
    families: HashMap<SessionId, Vec<Watch>>,
    /// Whose child a session is that is watched as one.
    parents: HashMap<SessionId, SessionId>,
}

impl Hub {
    fn watch(&mut self, hub: &ActorRef<ObserversMessage>, watch: Watch, store: LiveReader) {
        let (parent, family) = (watch.session, watch.family.clone());
        self.sessions.entry(parent).or_default().opened(store);
        let sink = watch.sink.clone();
        self.begin(hub, watch, false);
        if let WatchScope::Whole(named) = &family {
            for (session, from) in named.iter().map(|(session, from)| (*session, *from)) {
                let (sink, family) = (sink.clone(), family.clone());
                self.descend(hub, parent, Watch { session, from, sink, family });
            }
        }
    }

    /// From now on a sink is told of a session whose channel there is: of a child, what is its `own`.
    fn begin(&mut self, hub: &ActorRef<ObserversMessage>, watch: Watch, own: bool) {
        let Some(channel) = self.sessions.get_mut(&watch.session) else { return };
        if !matches!(watch.family, WatchScope::Alone) {
            let known = self.families.entry(watch.session).or_default();
            known.retain(|known| known.sink.get_status() < ActorStatus::Stopping);
            if known.iter().any(|known| known.sink.get_id() == watch.sink.get_id()) {
                // it is told of this session already
                return;
            }
            known.push(watch.clone());
        }
        tokio::spawn(serve::serve(channel.subscription(watch.from), watch, hub.clone(), own));
    }

    /// The same for a child, whose log is beside its parent's.
    fn descend(&mut self, hub: &ActorRef<ObserversMessage>, parent: SessionId, watch: Watch) {
        let Some(place) = self.sessions.get(&parent).map(Channel::place) else { return };
        self.parents.insert(watch.session, parent);
        self.sessions.entry(watch.session).or_default().placed(place);
        self.begin(hub, watch, true);
    }

    /// A child was begun or gone on with. Sinks that are told of the event which says so come to it
    /// by themselves.
    fn woken(
        &mut self,
        hub: &ActorRef<ObserversMessage>,
        (parent, spawned): (SessionId, Seq),
        (child, from): (SessionId, Seq),
        first: bool,
    ) {
        for known in self.families.get(&parent).cloned().unwrap_or_default() {
            let told = known.from <= spawned;
            if !told || known.family.begins(child, first).is_none() {
                self.descend(hub, parent, Watch { session: child, from, ..known });
            }
        }
    }

    /// The store of a session is let go, and with it that of its children.
    fn closed(&mut self, session: SessionId) {
        let parents = &self.parents;
        let descends = |child: &SessionId| {
            std::iter::successors(Some(child), |at| parents.get(at)).any(|at| *at == session)
        };
        let closed = self.sessions.iter_mut().filter(|(child, _)| descends(child));
        closed.for_each(|(_, channel)| channel.closed());
        self.sessions.retain(|_, channel| channel.is_watched());
        let sessions = &self.sessions;
        self.families.retain(|session, _| sessions.contains_key(session));
        self.parents.retain(|child, _| sessions.contains_key(child));
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
        myself: ActorRef<Self::Msg>,
        message: ObserversMessage,
        hub: &mut Hub,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ObserversMessage::Watch { watch, store } => hub.watch(&myself, watch, store),
            ObserversMessage::Descend { parent, watch } => hub.descend(&myself, parent, watch),
            ObserversMessage::Woken { parent, spawned, child, from, first } => {
                hub.woken(&myself, (parent, spawned), (child, from), first);
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
                hub.closed(session);
            }
        }
        Ok(())
    }
}
