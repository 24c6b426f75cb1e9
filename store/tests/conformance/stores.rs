//! Whole stores on an engine: what is above the seam works on every engine.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use leftfold_events::event::{Session, Turn, TurnConfigPayloads};
use leftfold_events::{Envelope, Payload, Seq, SessionId, Sha256};
use leftfold_store::engine::{EventsOf, Owner, ReadEngine, StoredEvent};
use leftfold_store::{ContentFault, Damage, Error, Head, Reader, Store};

use super::EnginePlace;
use crate::common::{configured, created, envelope, every_variant, id, texts};

fn open(place: &dyn EnginePlace) -> Store {
    Store::with(place.open().unwrap(), place.dir())
}

/// Checks every way of reading.
fn assert_reads(place: &dyn EnginePlace, session: SessionId, expected: &[Envelope]) {
    let reader = Reader::from_engine(place.read().into(), place.dir());
    assert_eq!(reader.read(session, 1).unwrap(), expected);
    assert_eq!(reader.read_good(session), (expected.to_vec(), None));
    let store = open(place);
    assert_eq!(store.reader().read(session, 1, usize::MAX).unwrap(), expected);
    let log = store.log(session, None).unwrap();
    assert_eq!(log.read().unwrap(), expected);
    assert_eq!(log.head(), expected.last().map_or(0, |event| event.seq));
}

pub fn a_log_is_written_verified_and_goes_on(place: &dyn EnginePlace) {
    let events = every_variant(id(1));
    for batch in events.chunks(40) {
        let store = open(place);
        let mut log = store.log(id(1), None).unwrap();
        assert!(matches!(store.log(id(1), None), Err(Error::Taken { .. })));
        let (first, rest) = batch.split_at(1);
        log.append_wait(first).unwrap();
        log.append_wait(rest).unwrap();
    }
    assert_reads(place, id(1), &events);
    let store = open(place);
    let imported = texts(id(2), 1, 1_200, 100);
    store.import(id(2), &imported).unwrap();
    let again = store.import(id(2), &imported).unwrap_err();
    assert!(matches!(again, Error::Exists { .. }), "{again}");
    store.forget(&[id(1)]).unwrap();
    drop(store);
    assert_reads(place, id(2), &imported);
    assert_reads(place, id(1), &[]);
}

pub fn forks_share_events_and_continue_the_chain(place: &dyn EnginePlace) {
    let store = open(place);
    let root = [vec![envelope(id(9), 1, created(None))], texts(id(9), 2, 9, 200)].concat();
    store.log(id(9), None).unwrap().append_wait(&root).unwrap();
    let forked = |session, at, from| envelope(session, at + 1, Session::Forked { from, at });
    let own = [vec![forked(id(1), 3, id(9))], texts(id(1), 5, 4, 200)].concat();
    store.log(id(1), None).unwrap().append_wait(&own).unwrap();
    // a fork of a fork, within what that one shares
    let second = [forked(id(2), 2, id(1))];
    store.log(id(2), None).unwrap().append_wait(&second).unwrap();
    let missing =
        store.log(id(3), None).unwrap().append_wait(&[forked(id(3), 70, id(9))]).unwrap_err();
    assert!(matches!(missing, Error::Unstorable { .. }), "{missing}");
    let numbers = [1, 2].map(|n| store.reader().head(id(n)).unwrap().summary.unwrap().fork_number);
    assert_eq!(numbers, [1, 2]);
    drop(store);
    let reader = Reader::from_engine(place.read().into(), place.dir());
    assert_eq!(reader.sessions().unwrap(), [id(9), id(1), id(2)]);
    assert_reads(place, id(9), &root);
    assert_reads(place, id(1), &[&root[..3], &own].concat());
    assert_reads(place, id(2), &[&root[..2], &second].concat());
}

pub fn payloads_are_filled_in(place: &dyn EnginePlace) {
    let big = |n: u64| Payload::new("x".repeat(70_000) + &n.to_string());
    let configure = |n: u64| Turn::Configured(TurnConfigPayloads { tools: big(n), ..configured() });
    let log = |session| -> Vec<Envelope> {
        let first = envelope(session, 1, created(None));
        let configured = (2..8).map(|seq| envelope(session, seq, configure(seq % 2)));
        std::iter::once(first).chain(configured).collect()
    };
    let store = open(place);
    for n in [1, 2] {
        let mut into = store.log(id(n), None).unwrap();
        log(id(n)).chunks(3).for_each(|batch| into.append_wait(batch).unwrap());
    }
    drop(store);
    assert_reads(place, id(1), &log(id(1)));
    assert_reads(place, id(2), &log(id(2)));
}

pub fn summaries_are_in_the_heads(place: &dyn EnginePlace) {
    let events = every_variant(id(1));
    let store = open(place);
    store.log(id(1), None).unwrap().append_wait(&events).unwrap();
    let last = events.last().unwrap();
    let live = store.reader().heads().unwrap();
    assert_eq!(live, place.read().heads().unwrap());
    let [head] = live.try_into().unwrap();
    assert_eq!((head.session, head.seq, head.at), (id(1), last.seq, last.at));
    let summary = head.summary.unwrap();
    assert_eq!(summary.title.as_deref(), Some("A title"));
    // an append updates what the store holds
    store.log(id(1), None).unwrap().append_wait(&texts(id(1), last.seq + 1, 1, 50)).unwrap();
    let later = store.reader().heads().unwrap().remove(0);
    assert_eq!(later.seq, last.seq + 1);
    assert_ne!(later.summary.unwrap().title, summary.title);
}

/// A deadlock hangs threads that nobody waits for.
pub fn heads_are_read_while_events_are_acknowledged(place: &dyn EnginePlace) {
    const EVENTS: Seq = 300;
    let store = open(place);
    let reader = store.reader();
    let mut log = store.log(id(1), None).unwrap();
    let (sender, ended) = mpsc::channel();
    let written = sender.clone();
    thread::spawn(move || {
        let events = texts(id(1), 1, EVENTS, 50);
        events.chunks(1).for_each(|event| log.append_wait(event).unwrap());
        drop(log);
        written.send(()).unwrap();
    });
    thread::spawn(move || {
        while reader.head(id(1)).is_none_or(|head| head.seq < EVENTS) {}
        drop(reader);
        sender.send(()).unwrap();
    });
    for _ in 0..2 {
        if ended.recv_timeout(Duration::from_secs(60)).is_err() {
            // its end would hang too
            std::mem::forget(store);
            panic!("writing and reading wait for each other");
        }
    }
}

/// An engine below which one event of a log was changed.
#[derive(Debug)]
struct Changed {
    engine: Box<dyn ReadEngine>,
    at: Seq,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Body,
    Link,
    Schema,
    Lost,
    Repeated,
    /// It and all later ones are lost.
    Cut,
}

impl Changed {
    fn change(&self, mut event: StoredEvent) -> Vec<StoredEvent> {
        if event.seq != self.at && !matches!(self.change, Change::Cut if event.seq > self.at) {
            return vec![event];
        }
        match self.change {
            Change::Body => event.body[20] ^= 4,
            Change::Link => event.link[3] ^= 4,
            Change::Schema => event.schema += 1,
            Change::Lost | Change::Cut => return Vec::new(),
            Change::Repeated => return vec![event.clone(), event],
        }
        vec![event]
    }
}

impl ReadEngine for Changed {
    fn events(&self, session: SessionId, from: Seq) -> EventsOf<'_> {
        let events = self.engine.events(session, from);
        Box::new(events.flat_map(|event| self.change(event.unwrap())).map(Ok))
    }

    fn peek(&self, session: SessionId, from: Seq) -> Result<Option<StoredEvent>, ContentFault> {
        self.engine.peek(session, from)
    }

    fn sessions(&self) -> Result<Vec<SessionId>, ContentFault> {
        self.engine.sessions()
    }

    fn payload(&self, sha256: Sha256) -> Result<Option<Vec<u8>>, ContentFault> {
        let skipped = usize::from(matches!(self.change, Change::Body));
        Ok(self.engine.payload(sha256)?.map(|bytes| bytes[skipped..].to_vec()))
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

/// Verification needs no help from an engine.
pub fn changes_below_the_seam_are_found(place: &dyn EnginePlace) {
    const LAST: Seq = 9;
    let store = open(place);
    store.log(id(1), None).unwrap().append_wait(&texts(id(1), 1, LAST, 100)).unwrap();
    let configured = envelope(id(2), 1, Turn::Configured(configured()));
    store.log(id(2), None).unwrap().append_wait(&[configured]).unwrap();
    drop(store);
    use Change::{Body, Cut, Link, Lost, Repeated, Schema};
    for change in [Body, Link, Schema, Lost, Repeated, Cut] {
        for at in 1..=LAST {
            let changed = Changed { engine: place.read(), at, change };
            let reader = Reader::from_engine(Arc::new(changed), place.dir());
            let error = reader.read(id(1), 1).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{change:?} at {at}: {error}");
        }
    }
    let changed = Changed { engine: place.read(), at: 0, change: Body };
    let reader = Reader::from_engine(Arc::new(changed), place.dir());
    let error = reader.read(id(2), 1).unwrap_err().to_string();
    assert!(error.contains("the contents have another hash"), "{error}");
}
