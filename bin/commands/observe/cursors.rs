//! The positions up to which a session and its children have been printed.

use std::collections::{HashMap, VecDeque};

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Reader;

use crate::cli::From;

/// The next event wanted of each session: the root first, then children in the order of their
/// spawning.
#[derive(Debug)]
pub(super) struct Cursors {
    order: Vec<SessionId>,
    next: HashMap<SessionId, Seq>,
}

impl Cursors {
    /// Starts at `given`. Children that were still running there start at their first event, unless
    /// `given` names them too.
    pub(super) fn new(root: SessionId, given: &[From], reader: Option<&Reader>) -> Self {
        let mut cursors = Self { order: vec![root], next: HashMap::from([(root, 1)]) };
        for from in given {
            match *from {
                From::Now => cursors.skip_all(reader),
                From::Seq(seq) => cursors.set(root, seq),
                From::Session(session, seq) => cursors.set(session, seq),
            }
        }
        let mut looked = 0;
        while let Some(session) = cursors.order.get(looked).copied() {
            looked += 1;
            let before = cursors.for_session(session);
            let log = reader.filter(|_| before > 1).map(|reader| reader.read_good(session).0);
            for child in at_work(&log.unwrap_or_default(), before) {
                if !cursors.next.contains_key(&child) {
                    cursors.set(child, 1);
                }
            }
        }
        cursors
    }

    /// Starts the root and its descendants after their last events.
    fn skip_all(&mut self, reader: Option<&Reader>) {
        let Some(reader) = reader else { return };
        let mut looked = 0;
        while let Some(session) = self.order.get(looked).copied() {
            looked += 1;
            let events = reader.read_good(session).0;
            self.set(session, events.last().map_or(1, |event| event.seq + 1));
            events.iter().for_each(|event| self.learn(event));
        }
    }

    fn set(&mut self, session: SessionId, seq: Seq) {
        if self.next.insert(session, seq).is_none() {
            self.order.push(session);
        }
    }

    pub(super) fn for_session(&self, session: SessionId) -> Seq {
        self.next.get(&session).copied().unwrap_or(1)
    }

    pub(super) fn sessions(&self) -> &[SessionId] {
        &self.order
    }

    /// The positions of the children, which come after the root.
    pub(super) fn children(&self) -> HashMap<SessionId, Seq> {
        let children = self.order.iter().skip(1);
        children.map(|child| (*child, self.for_session(*child))).collect()
    }

    /// Whether an event is still wanted. Marks it as printed.
    pub(super) fn take(&mut self, session: SessionId, seq: Seq) -> bool {
        let wanted = seq >= self.for_session(session);
        if wanted {
            self.set(session, seq + 1);
        }
        wanted
    }

    /// Notes a printed event: if it spawns a child, the child is wanted from its first event on.
    pub(super) fn learn(&mut self, event: &Envelope) {
        if let Some(child) = event.spawned()
            && !self.next.contains_key(&child)
        {
            self.set(child, 1);
        }
    }

    /// Reads everything from here on: a child's events after its `subagent.spawned`, otherwise in
    /// the order of time. Also answers the first problem in reading.
    pub(super) fn read(&self, reader: &Reader) -> (Vec<Envelope>, Option<String>) {
        let mut trouble = None;
        let mut read = |session: SessionId| {
            let from = self.for_session(session);
            let events = reader.read(session, from).unwrap_or_else(|error| {
                trouble.get_or_insert(error.to_string());
                let good = reader.read_good(session).0;
                good.into_iter().filter(|event| event.seq >= from).collect()
            });
            // A forked child shares events of its parent, which are printed with the parent.
            let own = |event: &Envelope| session == self.order[0] || event.session == session;
            VecDeque::from_iter(events.into_iter().filter(own))
        };
        let mut queues: Vec<_> = self.order.iter().map(|session| read(*session)).collect();
        let (mut known, mut events) = (self.order.clone(), Vec::new());
        loop {
            queues.retain(|queue| !queue.is_empty());
            let first = queues.iter_mut().min_by_key(|queue| queue.front().map(|event| event.at));
            let Some(event) = first.and_then(VecDeque::pop_front) else { break };
            if let Some(child) = event.spawned()
                && !known.contains(&child)
            {
                known.push(child);
                queues.push(read(child));
            }
            events.push(event);
        }
        (events, trouble)
    }
}

/// The children that were spawned before the event at `before` and had not ended there.
fn at_work(log: &[Envelope], before: Seq) -> Vec<SessionId> {
    let mut state = leftfold_events::State::default();
    log.iter().filter(|event| event.seq < before).for_each(|event| state.apply(event));
    state.open_children().map(|child| child.session).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_a_seq_of_the_root_or_of_another_session_or_now() {
        let child = SessionId::default();
        for (text, from) in [
            ("1", From::Seq(1)),
            (&format!("{child}:7"), From::Session(child, 7)),
            ("now", From::Now),
        ] {
            assert_eq!(text.parse::<From>(), Ok(from), "{text}");
        }
        for wrong in ["0", "", "x", "01J:1", ":3", &format!("{child}:0"), &format!("{child}:now")] {
            assert!(wrong.parse::<From>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_event_is_taken_once() {
        let (root, child) = (SessionId::default(), SessionId::from_bytes([1; 16]));
        let given = [From::Session(child, 3), From::Seq(2)];
        let mut cursors = Cursors::new(root, &given, None);
        let taken = [(root, 1), (root, 2), (root, 2), (child, 2), (child, 3), (child, 4)];
        let taken = taken.map(|(session, seq)| cursors.take(session, seq));
        assert_eq!(taken, [false, true, false, false, true, true]);
        assert_eq!(cursors.children(), HashMap::from([(child, 5)]));
    }
}
