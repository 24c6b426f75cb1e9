//! What a store holds of a session and of the children that it started.

use std::collections::{BTreeSet, HashSet};

use leftfold_events::event::{Event, Subagent};
use leftfold_events::{Envelope, SessionId};
use leftfold_store::{Damage, Reader};

use crate::home::Place;

/// The logs of a session and of its children, each in its own order, parents before children.
#[derive(Debug, Default)]
pub struct History {
    logs: Vec<(SessionId, Vec<Envelope>)>,
}

impl History {
    /// # Errors
    /// A log is damaged, or can not be read.
    pub fn read(place: &Place) -> anyhow::Result<Self> {
        let (history, damage) = Self::good(place)?;
        match damage {
            None => Ok(history),
            Some(damage) => {
                let (dir, damage) = (place.store.clone(), Box::new(damage));
                Err(leftfold_store::Error::Damaged { dir, damage }.into())
            }
        }
    }

    /// The good part of each log, and the first thing that is wrong.
    ///
    /// # Errors
    /// The store can not be read at all.
    pub fn good(place: &Place) -> anyhow::Result<(Self, Option<Damage>)> {
        let reader = Reader::open(&place.store)?;
        let mut history = Self::default();
        let damage = history.take(&reader, place.session);
        Ok((history, damage))
    }

    fn take(&mut self, reader: &Reader, session: SessionId) -> Option<Damage> {
        let (events, mut damage) = reader.read_good(session);
        let children: BTreeSet<SessionId> = events.iter().filter_map(spawned).collect();
        self.logs.push((session, events));
        for child in children {
            // one that is here already was gone on with
            if !self.logs.iter().any(|(known, _)| *known == child) {
                damage = damage.or(self.take(reader, child));
            }
        }
        damage
    }

    /// The events of the session that was asked for.
    pub fn root(&self) -> &[Envelope] {
        self.logs.first().map_or(&[], |(_, events)| events)
    }

    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &[Envelope])> {
        self.logs.iter().map(|(session, events)| (*session, events.as_slice()))
    }

    /// All events by time, each once; those of one session in their own order.
    pub fn by_time(self) -> Vec<Envelope> {
        let mut known = HashSet::new();
        let mut events: Vec<Envelope> =
            self.logs.into_iter().flat_map(|(_, events)| events).collect();
        // of a child that was forked the log has been read too
        events.retain(|event| known.insert((event.session, event.seq)));
        events.sort_by_key(|event| event.at);
        events
    }
}

/// The session that this event starts or goes on with.
pub fn spawned(event: &Envelope) -> Option<SessionId> {
    let Event::Subagent(Subagent::Spawned { session, .. }) = &event.event else { return None };
    Some(*session)
}
