//! Copies a log from one store to another as it is: nothing is encoded again.

use std::collections::HashMap;
use std::sync::{Arc, mpsc};

use leftfold_events::{Envelope, Seq, SessionId, Sha256};

use crate::chain::{self, Link};
use crate::engine::{Append, Epoch, EventFault, ReadEngine, StoredEvent};
use crate::error::{Damage, Error};
use crate::head::Head;
use crate::open_store::OpenStore;
use crate::payloads;
use crate::reader::Reader;

/// Events that are written at once.
const BATCH: usize = 500;

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// This many events were added.
    Added(usize),
    /// The whole log was there.
    Known,
}

/// Gives the right to the log back.
struct Claim<'a> {
    store: &'a OpenStore,
    session: SessionId,
    epoch: Epoch,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.store.engine.release(self.session, self.epoch);
    }
}

pub(crate) fn copy(store: &OpenStore, from: &Reader, session: SessionId) -> Result<Copied, Error> {
    // checksums, chain, contents and head of the whole log, with what it shares
    let events = from.read(session, 1)?;
    let contents = contents(&events);
    let stored =
        own(from.engine(), session).map_err(|damage| Error::damaged(from.dir(), damage))?;
    let first = events.iter().find(|event| event.session == session);
    let origin = first.and_then(|first| first.event.comes_from());
    let claim = Claim { store, session, epoch: store.engine.claim(session, origin)? };
    let known = store.head(session)?.map(|head| (head.seq, head.chain));
    let rest = match known {
        None => stored.as_slice(),
        Some(known) => {
            let is_known = |event: &StoredEvent| (event.seq, event.link) == known;
            match stored.iter().position(is_known) {
                Some(at) => &stored[at + 1..],
                None => return Err(Error::Exists { session }),
            }
        }
    };
    if rest.is_empty() {
        return Ok(Copied::Known);
    }
    let heads = Heads { of: session, events: &events, last: from.head(session)? };
    let mut expected = known.map(|(seq, _)| seq);
    for batch in rest.chunks(BATCH) {
        expected = Some(append(&claim, expected, batch, &contents, &heads)?);
    }
    let written = own(store.engine.reader(), session);
    if written.map_err(|damage| Error::damaged(store.dir(), damage))? != stored {
        let damage = Damage::event(session, 1, "the log is not as it was copied");
        return Err(Error::damaged(store.dir(), damage));
    }
    Ok(Copied::Added(rest.len()))
}

/// Writes a batch, and answers its last seq.
fn append(
    claim: &Claim<'_>,
    expected: Option<Seq>,
    batch: &[StoredEvent],
    contents: &HashMap<Seq, Vec<(Sha256, Arc<str>)>>,
    heads: &Heads<'_>,
) -> Result<Seq, Error> {
    let last = &batch[batch.len() - 1];
    let named = batch.iter().filter_map(|event| contents.get(&event.seq)).flatten();
    let mut payloads: Vec<(Sha256, Arc<str>)> = Vec::new();
    for (sha256, text) in named {
        if payloads.iter().all(|(known, _)| known != sha256) {
            payloads.push((*sha256, Arc::clone(text)));
        }
    }
    let head = heads.at(last.seq, last.link);
    let (sender, result) = mpsc::channel();
    claim.store.engine.append(Append {
        session: claim.session,
        epoch: claim.epoch,
        expected,
        events: batch.to_vec(),
        payloads,
        usage: claim.store.usage(&head),
        head: head.encode(),
        // nobody has asked this store's nodes to go on with it
        wants: false,
        settles: Vec::new(),
        // the receiver lives until the result has come
        done: Box::new(move |result| drop(sender.send(result))),
    });
    let gone = |_| Err(Error::Database { what: "the writer has ended".into() });
    result.recv().unwrap_or_else(gone)?;
    claim.store.heads.put(head);
    Ok(last.seq)
}

/// The heads that go with the events of a log.
struct Heads<'a> {
    of: SessionId,
    events: &'a [Envelope],
    last: Option<Head>,
}

impl Heads<'_> {
    /// Only the head of the last event has a summary. Without one, it is made when the log is opened.
    fn at(&self, seq: Seq, chain: Link) -> Head {
        if let Some(last) = self.last.as_ref().filter(|last| (last.seq, last.chain) == (seq, chain))
        {
            return last.clone();
        }
        let event = self.events.iter().rev().find(|event| event.seq == seq);
        let at = event.map(|event| event.at).unwrap_or_default();
        Head { session: self.of, seq, chain, at, summary: None }
    }
}

/// The contents that each event names.
fn contents(events: &[Envelope]) -> HashMap<Seq, Vec<(Sha256, Arc<str>)>> {
    let mut contents: HashMap<Seq, Vec<_>> = HashMap::new();
    for event in events {
        let set = event.event.payloads().into_iter().filter(|payload| !payloads::is_unset(payload));
        for payload in set {
            let named = (payload.sha256(), Arc::clone(payload.text()));
            contents.entry(event.seq).or_default().push(named);
        }
    }
    contents
}

/// A session's own events as they are stored.
fn own(engine: &dyn ReadEngine, session: SessionId) -> Result<Vec<StoredEvent>, Damage> {
    let found = engine.events(session, 0).map(|event| {
        event.map_err(|fault| match fault {
            EventFault::Damage { seq, what, .. } => what.into_damage(session, seq),
            EventFault::OtherSchema { seq, found } => {
                Damage::event(session, seq, chain::other_schema(found))
            }
            EventFault::Unplaced(what) => what.into_damage(session, 1),
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use leftfold_events::event::Session;
    use leftfold_events::{Event, Notes, Time};

    use super::*;
    use crate::store::Store;

    fn id(n: u64) -> SessionId {
        SessionId::default().child(n, Time::from_millis(n))
    }

    fn events(session: SessionId, first: Seq, last: Seq) -> Vec<Envelope> {
        let event = |seq| Envelope {
            session,
            seq,
            at: Time::from_millis(seq),
            of: None,
            until: None,
            event: Event::from(Session::Titled { title: seq.to_string() }),
            notes: Notes::default(),
        };
        (first..=last).map(event).collect()
    }

    #[test]
    fn a_copy_is_the_same_bytes_and_goes_on_where_it_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("a"), folder.path().join("b"));
        let store = Store::open(&from).unwrap();
        store.import(id(1), &events(id(1), 1, 1200)).unwrap();
        drop(store);
        let reader = Reader::open(&from).unwrap();
        let copy = Store::open(&to).unwrap();
        // the beginning is there already
        copy.import(id(1), &events(id(1), 1, 700)).unwrap();
        assert_eq!(copy.copy_log(&reader, id(1)).unwrap(), Copied::Added(500));
        assert_eq!(copy.copy_log(&reader, id(1)).unwrap(), Copied::Known);
        copy.import(id(2), &events(id(2), 1, 3)).unwrap();
        assert!(matches!(copy.copy_log(&reader, id(3)), Ok(Copied::Known)));
        drop(copy);
        let copied = Reader::open(&to).unwrap();
        assert_eq!(copied.head(id(1)).unwrap(), reader.head(id(1)).unwrap());
        assert_eq!(own(copied.engine(), id(1)).unwrap(), own(reader.engine(), id(1)).unwrap());
        // another log of that id
        let copy = Store::open(&to).unwrap();
        let other = folder.path().join("c");
        let store = Store::open(&other).unwrap();
        store.import(id(2), &events(id(2), 1, 4)).unwrap();
        store.import(id(1), &events(id(1), 1, 1)[..1]).unwrap();
        drop(store);
        let other = Reader::open(&other).unwrap();
        assert_eq!(copy.copy_log(&other, id(2)).unwrap(), Copied::Added(1));
        assert!(matches!(copy.copy_log(&other, id(1)), Err(Error::Exists { .. })));
    }
}
