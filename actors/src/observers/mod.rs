//! Sends events to observers. The hub announces new events once. Each sink has a task (`serve`)
//! that takes the events that its sink does not have yet: from the hub's last 256 KiB or from the
//! log. So a slow observer blocks no one, and still gets every event from its cursor on, once, in
//! order. One observation at a time is in flight, and where a session has many sinks, some time is
//! between two observations of each: events share wake-ups. An event's line is written once for all
//! observers.

mod feed;
mod serve;

use std::collections::HashMap;

use leftfold_events::{Seq, SessionId};
use leftfold_store::LiveReader;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus};

use crate::messages::{ObserversMessage, Watch, WatchScope};
use crate::tasks::Tasks;
use feed::Channel;

impl WatchScope {
    /// The seq at which a child begins for a sink that has just received the event that spawned it,
    /// or (if `first` is false) continued it. `None`: the event does not begin the child for the
    /// sink.
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
    /// The watches that include the children of a session.
    families: HashMap<SessionId, Vec<Watch>>,
    /// The parents of sessions that are watched as children.
    parents: HashMap<SessionId, SessionId>,
    /// One for each sink.
    tasks: Tasks,
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

    /// Starts a sink on a session that has a channel. For a child, `own` omits the shared events.
    fn begin(&mut self, hub: &ActorRef<ObserversMessage>, watch: Watch, own: bool) {
        let Some(channel) = self.sessions.get_mut(&watch.session) else { return };
        if !matches!(watch.family, WatchScope::Alone) {
            let known = self.families.entry(watch.session).or_default();
            known.retain(|known| known.sink.get_status() < ActorStatus::Stopping);
            if known.iter().any(|known| known.sink.get_id() == watch.sink.get_id()) {
                // the sink already watches this session
                return;
            }
            known.push(watch.clone());
        }
        let sink = watch.sink.clone();
        let serving = serve::serve(channel.subscription(watch.from), watch, hub.clone(), own);
        self.tasks.spawn(serving, move |served| {
            if served.is_none() {
                serve::give_up(&sink, "serving it failed unexpectedly");
            }
        });
    }

    /// Starts a sink on a child, whose log is in its parent's store.
    fn descend(&mut self, hub: &ActorRef<ObserversMessage>, parent: SessionId, watch: Watch) {
        let Some(place) = self.sessions.get(&parent).map(Channel::place) else { return };
        self.parents.insert(watch.session, parent);
        self.sessions.entry(watch.session).or_default().placed(place);
        self.begin(hub, watch, true);
    }

    /// A child was begun or continued. Sinks that get the event about it start watching the child
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

    /// A session was closed, and its store is released unless the node keeps it. That also affects its children.
    fn closed(&mut self, session: SessionId, is_kept: bool) {
        let parents = &self.parents;
        let closed =
            self.sessions.iter_mut().filter(|(child, _)| is_below(parents, **child, session));
        closed.for_each(|(session, channel)| channel.closed(*session, is_kept));
        self.sessions.retain(|_, channel| {
            channel.forget();
            channel.is_watched()
        });
        let sessions = &self.sessions;
        self.families.retain(|session, _| sessions.contains_key(session));
        self.parents.retain(|child, _| sessions.contains_key(child));
    }
}

/// Whether `session` is `child` or one of its ancestors. Clients name the children that they watch,
/// so parents may go round in a circle.
fn is_below(parents: &HashMap<SessionId, SessionId>, child: SessionId, session: SessionId) -> bool {
    let mut ancestors = std::iter::successors(Some(child), |at| parents.get(at).copied());
    ancestors.by_ref().take(parents.len() + 1).any(|at| at == session)
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
            ObserversMessage::Closed { session, is_kept } => {
                hub.closed(session, is_kept);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_that_go_round_in_a_circle_have_an_end() {
        let id = |number: u8| SessionId::from_bytes([number; 16]);
        let parents = [(1, 1), (2, 3), (3, 2), (5, 4)].map(|(child, of)| (id(child), id(of)));
        let parents = HashMap::from(parents);
        for (child, session, expected) in
            [(1, 1, true), (1, 2, false), (2, 3, true), (2, 1, false), (5, 4, true), (4, 5, false)]
        {
            assert_eq!(is_below(&parents, id(child), id(session)), expected, "{child} {session}");
        }
    }
}
