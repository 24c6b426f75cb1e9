//! Reads the logs of a session and of its children from a store.

use std::collections::{BTreeSet, HashSet};

use leftfold_events::{Envelope, SessionId};
use leftfold_store::{Damage, Reader};

use crate::session_paths::SessionPlace;

/// The logs of a session and of its children, each in its own order, parents before children.
#[derive(Debug, Default)]
pub struct History {
    logs: Vec<(SessionId, Vec<Envelope>)>,
}

impl History {
    /// # Errors
    /// A log is damaged, or cannot be read.
    pub fn read(place: &SessionPlace) -> anyhow::Result<Self> {
        let (history, damage) = Self::good(place)?;
        match damage {
            None => Ok(history),
            Some(damage) => {
                let (dir, damage) = (place.store.clone(), Box::new(damage));
                Err(leftfold_store::Error::Damaged { dir, damage }.into())
            }
        }
    }

    /// The undamaged part of each log, and the first damage.
    ///
    /// # Errors
    /// The store cannot be read at all, or its database is away.
    pub fn good(place: &SessionPlace) -> anyhow::Result<(Self, Option<Damage>)> {
        let reader = Reader::open(&place.store)?;
        let (mut history, mut damage, mut known) = (Self::default(), None, HashSet::new());
        // A loop instead of recursion, since subagents may be nested deeper than a thread's stack
        // allows.
        let mut next = vec![place.session];
        while let Some(session) = next.pop() {
            // A child is spawned again when its parent continues it.
            if !known.insert(session) {
                continue;
            }
            let (events, wrong) = reader.read_good(session);
            if let Some(away) = wrong.as_ref().filter(|wrong| wrong.is_away) {
                return Err(leftfold_store::Error::Engine { what: away.what.clone() }.into());
            }
            damage = damage.or(wrong);
            let children: BTreeSet<SessionId> =
                events.iter().filter_map(Envelope::spawned).collect();
            next.extend(children.into_iter().rev());
            history.logs.push((session, events));
        }
        Ok((history, damage))
    }

    /// The events of the requested session.
    pub fn root(&self) -> &[Envelope] {
        self.logs.first().map_or(&[], |(_, events)| events)
    }

    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &[Envelope])> {
        self.logs.iter().map(|(session, events)| (*session, events.as_slice()))
    }

    /// All events by time, each once; events of one session keep their order.
    pub fn by_time(self) -> Vec<Envelope> {
        let mut known = HashSet::new();
        let mut events: Vec<Envelope> =
            self.logs.into_iter().flat_map(|(_, events)| events).collect();
        // Logs of forked children repeat events of the logs they were forked from.
        events.retain(|event| known.insert((event.session, event.seq)));
        events.sort_by_key(|event| event.at);
        events
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::{Session, Subagent};
    use leftfold_events::{Notes, Time};
    use leftfold_store::Store;

    use super::*;
    use crate::session_list;

    /// More than a recursive walk could take on the stack of the thread below.
    const NESTED: u128 = 2_000;
    const STACK: usize = 512 << 10;

    fn id(at: u128) -> SessionId {
        SessionId::from_ulid(ulid::Ulid::from(at))
    }

    /// A session that the previous one spawned, and that spawns the next one.
    fn events(at: u128) -> Vec<Envelope> {
        let created = Session::Created {
            directory: "/p".to_owned(),
            worktree: "/p".to_owned(),
            parent: (at > 1).then(|| id(at - 1)),
            agent: "general".to_owned(),
            version: String::new(),
            policy: 1,
        };
        let (call, agent) = (String::new(), "general".to_owned());
        let spawned = Subagent::Spawned { call, session: id(at + 1), agent, max_cost: None };
        let event = |seq, event| Envelope {
            session: id(at),
            seq,
            at: Time::default(),
            of: None,
            until: None,
            event,
            notes: Notes::default(),
        };
        let mut events = vec![event(1, created.into()), event(2, spawned.into())];
        events.truncate(if at == NESTED { 1 } else { 2 });
        events
    }

    #[test]
    fn sessions_may_be_nested_deeper_than_a_stack() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for at in 1..=NESTED {
            store.import(id(at), &events(at)).unwrap();
        }
        drop(store);
        let place = SessionPlace { store: folder.path().to_owned(), session: id(1) };
        let looked = move || {
            let (history, damage) = History::good(&place).unwrap();
            assert_eq!(damage, None);
            let nested: Vec<SessionId> = history.sessions().map(|(session, _)| session).collect();
            assert_eq!(nested, (1..=NESTED).map(id).collect::<Vec<_>>());
            assert_eq!(leftfold_store::check(&place.store).unwrap().damage, []);
            let heads = leftfold_store::heads(&place.store).unwrap();
            assert!(session_list::cost(&heads, &heads[0]).abs() < f64::EPSILON);
            session_list::remove(&place).unwrap();
        };
        std::thread::Builder::new().stack_size(STACK).spawn(looked).unwrap().join().unwrap();
    }
}
