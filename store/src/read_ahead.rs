//! Reads the events of a log ahead on threads of their own, for a caller that verifies and decodes them.

use std::num::NonZero;
use std::sync::mpsc::{Receiver, SendError, SyncSender, sync_channel};
use std::thread::{self, Scope};

use leftfold_events::{Seq, SessionId, Sha256};

use crate::engine::{EventFault, EventsOf, Owner, ReadEngine, StoredEvent};
use crate::error::{ContentFault, Damage};
use crate::head::Head;

/// The most threads for one session.
const THREADS: usize = 4;
/// The threads take turns: each reads the events of so many seqs.
const TURN: usize = 1_024;
/// The most events and bytes that a thread hands over at a time, and how many such batches may wait.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
const BATCHES: usize = TURN / BATCH + 1;

type Read = Result<StoredEvent, EventFault>;

/// Events, and what follows them.
type Batch = (Vec<Read>, Next);

enum Next {
    /// More events of the turn.
    Batch,
    /// Another turn.
    Turn,
    /// No event.
    Nothing,
}

/// An engine whose events are read by threads of `scope`.
#[derive(Debug)]
pub(crate) struct ReadAhead<'scope, 'env> {
    pub(crate) engine: &'env dyn ReadEngine,
    pub(crate) scope: &'scope Scope<'scope, 'env>,
}

impl ReadEngine for ReadAhead<'_, '_> {
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_> {
        let engine = self.engine;
        let alone = || engine.events(session, from);
        // a fork's own events begin after the shared ones
        let Ok(Some(StoredEvent { seq: first, .. })) = engine.peek(session, from) else {
            return alone();
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS);
        let mut readers = Vec::new();
        for reader in 0..threads {
            let (sender, batches) = sync_channel(BATCHES);
            let read = move || {
                let mut turns = (reader as Seq..).step_by(threads).map(|turn| begin(first, turn));
                // the receiver is gone once it has enough
                while let Some(from) = turns.next()
                    && let Ok(true) = read_turn(engine.events(session, from), from, &sender)
                {
                }
            };
            match thread::Builder::new().spawn_scoped(self.scope, read) {
                Ok(_) => readers.push(batches),
                Err(_) => return alone(),
            }
        }
        let (turn, batch) = (0, Vec::new().into_iter());
        Box::new(Turns { engine, session, first, readers, turn, is_empty: true, batch, rest: None })
    }

    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
        self.engine.peek(session, from)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
        self.engine.sessions()
    }

    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
        self.engine.payload(sha256)
    }

    fn head(&self, session: SessionId) -> Result<Option<Head>, Damage> {
        self.engine.head(session)
    }

    fn heads(&self) -> Result<Vec<Head>, ContentFault> {
        self.engine.heads()
    }

    fn damage(&self) -> Vec<Damage> {
        self.engine.damage()
    }

    fn owner(&self, session: SessionId) -> Result<Owner, ContentFault> {
        self.engine.owner(session)
    }

    fn size(&self) -> Result<u64, ContentFault> {
        self.engine.size()
    }

    fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
        self.engine.import_notes()
    }
}

/// The first seq of a turn, if the first turn begins at `first`.
fn begin(first: Seq, turn: Seq) -> Seq {
    first.saturating_add(turn.saturating_mul(TURN as Seq))
}

/// Sends the events of the turn that begins at `from`. Answers whether others follow.
fn read_turn(
    mut events: EventsOf<'_>,
    from: Seq,
    to: &SyncSender<Batch>,
) -> Result<bool, SendError<Batch>> {
    let end = begin(from, 1);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let next = loop {
        let Some(event) = events.next() else { break Next::Nothing };
        if seq_of(&event).is_some_and(|seq| seq >= end) {
            break Next::Turn;
        }
        bytes += event.as_ref().map_or(0, |event| event.body.len());
        batch.push(event);
        if batch.len() >= BATCH || bytes >= BATCH_BYTES {
            bytes = 0;
            to.send((std::mem::take(&mut batch), Next::Batch))?;
        }
    };
    let others = matches!(next, Next::Turn);
    to.send((batch, next))?;
    Ok(others)
}

/// The events of all turns, in order.
struct Turns<'a> {
    engine: &'a dyn ReadEngine,
    session: SessionId,
    first: Seq,
    readers: Vec<Receiver<Batch>>,
    turn: usize,
    /// Whether the turn has had no event yet.
    is_empty: bool,
    batch: std::vec::IntoIter<Read>,
    /// The events from a gap on, which may be longer than all turns together.
    rest: Option<EventsOf<'a>>,
}

impl Iterator for Turns<'_> {
    type Item = Read;

    fn next(&mut self) -> Option<Read> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            if let Some(rest) = &mut self.rest {
                return rest.next();
            }
            let reader = self.readers.get(self.turn.checked_rem(self.readers.len())?)?;
            let (events, next) = reader.recv().ok()?;
            self.is_empty &= events.is_empty();
            self.batch = events.into_iter();
            match next {
                Next::Batch => {}
                Next::Turn if self.is_empty => {
                    self.readers.clear();
                    let from = begin(self.first, self.turn as Seq);
                    self.rest = Some(self.engine.events(self.session, from));
                }
                Next::Turn => (self.turn, self.is_empty) = (self.turn + 1, true),
                Next::Nothing => self.readers.clear(),
            }
        }
    }
}

fn seq_of(event: &Read) -> Option<Seq> {
    match event {
        Ok(event) => Some(event.seq),
        Err(EventFault::Damage { seq, .. } | EventFault::OtherSchema { seq, .. }) => Some(*seq),
        Err(EventFault::Unplaced(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has small events at these seqs.
    #[derive(Debug)]
    struct At(Vec<Seq>);

    impl ReadEngine for At {
        fn events(&self, _: SessionId, from: Seq) -> EventsOf<'_> {
            let seqs = self.0.iter().filter(move |seq| **seq >= from);
            Box::new(seqs.map(|seq| match seq % 700 {
                1 => Err(EventFault::OtherSchema { seq: *seq, found: 1 }),
                _ => Ok(event(*seq)),
            }))
        }

        fn peek(&self, _: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
            Ok(self.0.iter().find(|seq| **seq >= from).map(|seq| event(*seq)))
        }

        fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
            Ok(Vec::new())
        }

        fn payload(&self, _: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
            Ok(None)
        }

        fn head(&self, _: SessionId) -> Result<Option<Head>, Damage> {
            Ok(None)
        }

        fn heads(&self) -> Result<Vec<Head>, ContentFault> {
            Ok(Vec::new())
        }

        fn damage(&self) -> Vec<Damage> {
            Vec::new()
        }

        fn owner(&self, _: SessionId) -> Result<Owner, ContentFault> {
            Ok(Owner::default())
        }

        fn size(&self) -> Result<u64, ContentFault> {
            Ok(0)
        }

        fn import_notes(&self) -> Result<Vec<u8>, ContentFault> {
            Ok(Vec::new())
        }
    }

    fn event(seq: Seq) -> StoredEvent {
        StoredEvent { seq, schema: 3, link: [0; 16], body: vec![0; 100] }
    }

    #[test]
    fn threads_read_what_one_thread_reads() {
        let turn = TURN as Seq;
        for seqs in [
            Vec::new(),
            (1..=3).collect(),
            (1..=turn).collect(),
            (1..=10 * turn + 7).collect(),
            (50_000..=60_000).collect(),
            // gaps: within a turn, of whole turns, and longer than anybody can count
            (1..=900).chain(1_000..=3_000).collect(),
            (1..=turn).chain(5 * turn..=9 * turn).collect(),
            (1..=2_000).chain([Seq::MAX / 2, Seq::MAX - 1, Seq::MAX]).collect(),
        ] {
            let engine = At(seqs.clone());
            for from in [0, 1, 777, 2 * turn, 55_000] {
                let read = thread::scope(|scope| {
                    let ahead = ReadAhead { engine: &engine, scope };
                    let events = ahead.events(SessionId::default(), from);
                    events.map(|event| seq_of(&event)).collect::<Vec<_>>()
                });
                let expected = seqs.iter().filter(|seq| **seq >= from).map(|seq| Some(*seq));
                assert!(read.iter().copied().eq(expected), "{} from {from}", seqs.len());
            }
        }
    }

    #[test]
    fn a_caller_that_has_enough_ends_the_threads() {
        let engine = At((1..=50 * TURN as Seq).collect());
        thread::scope(|scope| {
            let ahead = ReadAhead { engine: &engine, scope };
            assert_eq!(ahead.events(SessionId::default(), 1).take(5_000).count(), 5_000);
        });
    }
}
