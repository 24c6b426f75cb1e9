//! Bytes in and bytes out: engines know nothing of their meaning.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use leftfold_events::{Seq, SessionId, Sha256, Time};
use leftfold_store::engine::{Append, Engine, Epoch, ReadEngine, StoredEvent};
use leftfold_store::{Error, Head};

use super::EnginePlace;
use crate::common::id;

fn event(session: SessionId, seq: Seq, size: usize) -> StoredEvent {
    let byte = |n: usize| u8::try_from((n as u64).wrapping_add(seq) % 251).unwrap();
    let mut link = session.to_bytes();
    link[..8].copy_from_slice(&seq.to_be_bytes());
    StoredEvent { seq, schema: 3, link, body: (0..size).map(byte).collect() }
}

fn events(session: SessionId, first: Seq, count: u64) -> Vec<StoredEvent> {
    (first..first + count).map(|seq| event(session, seq, 500)).collect()
}

fn head(session: SessionId, last: &StoredEvent) -> Head {
    let at = Time::from_millis(1_000 + last.seq);
    Head { session, seq: last.seq, chain: last.link, at, summary: None }
}

/// Sends a batch, and answers where its result will come.
fn send(
    engine: &dyn Engine,
    (session, epoch): (SessionId, Epoch),
    expected: Option<Seq>,
    events: Vec<StoredEvent>,
) -> Receiver<Result<(), Error>> {
    let (sender, receiver) = mpsc::channel();
    let head = head(session, events.last().unwrap()).encode();
    let done = Box::new(move |result| drop(sender.send(result)));
    let payloads = Vec::new();
    let (wants, settles) = (false, Vec::new());
    engine.append(Append {
        session,
        epoch,
        expected,
        events,
        payloads,
        head,
        usage: None,
        wants,
        settles,
        done,
    });
    receiver
}

fn append(
    engine: &dyn Engine,
    owner: (SessionId, Epoch),
    expected: Option<Seq>,
    events: Vec<StoredEvent>,
) -> Result<(), Error> {
    send(engine, owner, expected, events).recv().unwrap()
}

fn claim(engine: &dyn Engine, session: SessionId) -> (SessionId, Epoch) {
    (session, engine.claim(session, None).unwrap())
}

fn read(reader: &dyn ReadEngine, session: SessionId, from: Seq) -> Vec<StoredEvent> {
    reader.events(session, from).map(|event| event.expect("an event")).collect()
}

fn assert_fenced(result: &Result<(), Error>) {
    assert!(matches!(result, Err(Error::Fenced { .. })), "{result:?}");
}

pub fn batches_are_acknowledged_and_read_in_order(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let (sender, receiver) = mpsc::channel();
    let owners = [1, 2].map(|n| claim(&*engine, id(n)));
    for seq in 1..=40 {
        for (session, epoch) in owners {
            let sender = sender.clone();
            let events = events(session, seq, 1);
            engine.append(Append {
                session,
                epoch,
                expected: (seq > 1).then(|| seq - 1),
                head: head(session, &events[0]).encode(),
                usage: None,
                events,
                payloads: Vec::new(),
                wants: false,
                settles: Vec::new(),
                done: Box::new(move |result| sender.send((session, seq, result.is_ok())).unwrap()),
            });
        }
    }
    drop(sender);
    let acknowledged: Vec<_> = receiver.iter().collect();
    for (session, _) in owners {
        let own: Vec<_> = acknowledged.iter().filter(|(of, ..)| *of == session).collect();
        let expected: Vec<_> = (1..=40).map(|seq| (session, seq, true)).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
        assert_eq!(read(engine.reader(), session, 0), events(session, 1, 40));
        assert_eq!(read(engine.reader(), session, 31), events(session, 31, 10));
        assert_eq!(read(engine.reader(), session, 41), []);
    }
    assert_eq!(engine.reader().sessions().unwrap(), [id(1), id(2)]);
    assert_eq!(read(engine.reader(), id(3), 0), []);
}

/// A reader of the same engine never has a head in the middle of a batch, or a head without its events.
pub fn a_batch_is_there_entirely_or_not_at_all(place: &dyn EnginePlace) {
    const BATCH: u64 = 7;
    let engine = place.open().unwrap();
    let owner = claim(&*engine, id(1));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for first in (0..30).map(|n| n * BATCH + 1) {
                let expected = (first > 1).then(|| first - 1);
                append(&*engine, owner, expected, events(id(1), first, BATCH)).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let head = engine.reader().head(id(1)).unwrap().map_or(0, |head| head.seq);
            assert_eq!(head % BATCH, 0);
            let found = read(engine.reader(), id(1), 0);
            assert!(found.len() as u64 >= head, "{} < {head}", found.len());
        }
    });
    drop(engine);
    assert_eq!(read(&*place.read(), id(1), 0), events(id(1), 1, 30 * BATCH));
}

pub fn a_batch_that_does_not_follow_the_last_event_is_refused(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let mut last = None;
    for wrong in [Some(1), None, Some(2), Some(4), Some(77)] {
        // the first round is in a new session
        let next = last.map_or(1, |last: Seq| last + 1);
        let owner = claim(&*engine, id(1));
        let batch = vec![event(id(1), wrong.unwrap_or(0) + 1, 10)];
        assert_fenced(&append(&*engine, owner, wrong, batch));
        // its later batches would leave a gap, even those that follow
        append(&*engine, owner, last, events(id(1), next, 1)).unwrap_err();
        engine.release(owner.0, owner.1);
        let owner = claim(&*engine, id(1));
        append(&*engine, owner, last, events(id(1), next, 1)).unwrap();
        // and after what this epoch has sent itself
        append(&*engine, owner, Some(next), events(id(1), next + 1, 2)).unwrap();
        assert_fenced(&append(&*engine, owner, Some(next), events(id(1), next + 1, 2)));
        engine.release(owner.0, owner.1);
        last = Some(next + 2);
    }
    assert_eq!(read(engine.reader(), id(1), 0), events(id(1), 1, last.unwrap()));
    let head = engine.reader().head(id(1)).unwrap().unwrap();
    assert_eq!(Some(head.seq), last);
}

pub fn a_session_has_one_owner(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let (session, epoch) = claim(&*engine, id(1));
    let taken = engine.claim(session, None);
    assert!(matches!(taken, Err(Error::Taken { session, .. }) if session == id(1)), "{taken:?}");
    let other = claim(&*engine, id(2));
    engine.release(session, epoch);
    let (_, later) = claim(&*engine, session);
    assert!(later > epoch, "{later} is not after {epoch}");
    // an epoch that is over releases nothing
    engine.release(session, epoch);
    assert!(engine.claim(session, None).is_err());
    append(&*engine, other, None, events(id(2), 1, 1)).unwrap();
}

pub fn rivals_for_a_session_have_one_winner(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    for n in 1..=20 {
        let claims: Vec<_> = thread::scope(|scope| {
            let rivals: Vec<_> =
                (0..4).map(|_| scope.spawn(|| engine.claim(id(n), None))).collect();
            rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
    }
}

pub fn an_epoch_that_is_over_is_refused(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let zombie = claim(&*engine, id(1));
    append(&*engine, zombie, None, events(id(1), 1, 1)).unwrap();
    engine.release(zombie.0, zombie.1);
    assert_fenced(&append(&*engine, zombie, Some(1), events(id(1), 2, 1)));
    let owner = claim(&*engine, id(1));
    // it knows what comes next, and may still not write it
    assert_fenced(&append(&*engine, zombie, Some(1), events(id(1), 2, 1)));
    let own = vec![event(id(1), 2, 900)];
    append(&*engine, owner, Some(1), own.clone()).unwrap();
    assert_fenced(&append(&*engine, zombie, Some(2), events(id(1), 3, 1)));
    assert_eq!(read(engine.reader(), id(1), 2), own);
    // nobody has ever had this epoch
    assert_fenced(&append(&*engine, (id(2), zombie.1), None, events(id(2), 1, 1)));
    assert_eq!(read(engine.reader(), id(2), 0), []);
}

pub fn a_second_node_gets_no_session_of_the_first(place: &dyn EnginePlace) {
    let first = place.open().unwrap();
    let owner = claim(&*first, id(1));
    append(&*first, owner, None, events(id(1), 1, 1)).unwrap();
    match place.open() {
        Ok(second) => {
            let taken = second.claim(id(1), None);
            assert!(matches!(taken, Err(Error::Taken { .. })), "{taken:?}");
            assert_fenced(&append(&*second, owner, Some(1), events(id(1), 2, 1)));
        }
        Err(locked) => assert!(matches!(locked, Error::Locked { .. }), "{locked}"),
    }
    append(&*first, owner, Some(1), events(id(1), 2, 1)).unwrap();
    let identity = first.identity();
    drop(first);
    let second = place.open().unwrap();
    assert_eq!(second.identity(), identity);
    let owner = claim(&*second, id(1));
    append(&*second, owner, Some(2), events(id(1), 3, 1)).unwrap();
    assert_eq!(read(second.reader(), id(1), 0), events(id(1), 1, 3));
}

pub fn readers_see_what_was_acknowledged(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owner = claim(&*engine, id(1));
    for seq in 1..=12 {
        append(&*engine, owner, (seq > 1).then(|| seq - 1), events(id(1), seq, 1)).unwrap();
        let reader = place.read();
        let head = reader.head(id(1)).unwrap().expect("a head");
        assert_eq!(head, head_of(seq));
        assert_eq!(reader.heads().unwrap(), [head_of(seq)]);
        assert_eq!(read(&*reader, id(1), 0), events(id(1), 1, seq));
        assert_eq!(reader.sessions().unwrap(), [id(1)]);
        assert!(reader.damage().is_empty());
    }
}

fn head_of(seq: Seq) -> Head {
    head(id(1), &event(id(1), seq, 500))
}

pub fn an_event_is_looked_up(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owner = claim(&*engine, id(2));
    // a fork begins after what it shares
    append(&*engine, owner, None, events(id(2), 8, 3)).unwrap();
    let peek = |session, from| engine.reader().peek(session, from).unwrap();
    for (from, seq) in [(0, 8), (1, 8), (8, 8), (9, 9), (10, 10)] {
        assert_eq!(peek(id(2), from), Some(event(id(2), seq, 500)), "{from}");
    }
    assert_eq!(peek(id(2), 11), None);
    assert_eq!(peek(id(1), 0), None);
    assert_eq!(peek(id(3), 0), None);
    let big = vec![event(id(2), 11, 100_000)];
    append(&*engine, owner, Some(10), big.clone()).unwrap();
    let found = peek(id(2), 11).expect("an event");
    assert_eq!((found.seq, found.link, found.schema), (11, big[0].link, 3));
}

pub fn events_of_every_size_come_back(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owner = claim(&*engine, id(1));
    let sizes = [0, 1, 3_000, 3_024, 3_025, 3_026, 9_000, 65_535, 65_536, 65_537, 1_000_000];
    let all: Vec<_> = (1..).zip(sizes).map(|(seq, size)| event(id(1), seq, size)).collect();
    append(&*engine, owner, None, all[..4].to_vec()).unwrap();
    append(&*engine, owner, Some(4), all[4..].to_vec()).unwrap();
    assert_eq!(read(engine.reader(), id(1), 0), all);
    drop(engine);
    assert_eq!(read(&*place.read(), id(1), 0), all);
}

pub fn contents_are_kept_under_their_hash(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let long = "long ".repeat(30_000);
    let texts = ["", "short", &long].map(|text| (Sha256::digest(text.as_bytes()), text));
    for session in [1, 2].map(id) {
        let epoch = engine.claim(session, None).unwrap();
        let events = events(session, 1, 1);
        let (sender, receiver) = mpsc::channel();
        engine.append(Append {
            session,
            epoch,
            expected: None,
            head: head(session, &events[0]).encode(),
            usage: None,
            events,
            payloads: texts.map(|(sha256, text)| (sha256, text.into())).to_vec(),
            wants: false,
            settles: Vec::new(),
            done: Box::new(move |result| sender.send(result).unwrap()),
        });
        receiver.recv().unwrap().unwrap();
    }
    let check = |reader: &dyn ReadEngine| {
        for (sha256, text) in texts {
            let found = reader.payload(sha256).expect("contents");
            assert_eq!(found.as_deref(), Some(text.as_bytes()));
        }
        assert!(matches!(reader.payload(Sha256::digest(b"other")), Ok(None)));
    };
    check(engine.reader());
    // removing sessions leaves the contents that others may name
    engine.remove(&[id(2)]).unwrap();
    check(engine.reader());
    drop(engine);
    check(&*place.read());
}

pub fn heads_come_back_as_they_were_given(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    assert_eq!(engine.reader().head(id(1)).unwrap(), None);
    assert_eq!(engine.reader().heads().unwrap(), []);
    let mut expected = Vec::new();
    for n in [3, 1, 2] {
        let owner = claim(&*engine, id(n));
        append(&*engine, owner, None, events(id(n), 1, n)).unwrap();
        expected.push(head(id(n), &event(id(n), n, 500)));
    }
    expected.sort_by_key(|head| head.session);
    assert_eq!(engine.reader().heads().unwrap(), expected);
    assert_eq!(engine.reader().head(id(2)).unwrap().as_ref(), expected.get(1));
    drop(engine);
    assert_eq!(place.read().heads().unwrap(), expected);
}

pub fn everything_is_there_after_opening_again(place: &dyn EnginePlace) {
    for round in 0..4 {
        let engine = place.open().unwrap();
        for n in 1..=3 {
            let owner = claim(&*engine, id(n));
            assert_eq!(read(engine.reader(), id(n), 0), events(id(n), 1, round * 5));
            let expected = (round > 0).then_some(round * 5);
            append(&*engine, owner, expected, events(id(n), round * 5 + 1, 5)).unwrap();
        }
    }
    let reader = place.read();
    assert_eq!(reader.sessions().unwrap(), [1, 2, 3].map(id));
    for n in 1..=3 {
        assert_eq!(read(&*reader, id(n), 0), events(id(n), 1, 20));
    }
}

pub fn closing_waits_for_what_is_under_way(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owner = claim(&*engine, id(1));
    let results: Vec<_> = (1..=30)
        .map(|seq| send(&*engine, owner, (seq > 1).then(|| seq - 1), events(id(1), seq, 1)))
        .collect();
    // the next owner finds what its predecessor has sent
    engine.release(owner.0, owner.1);
    let next = claim(&*engine, id(1));
    assert_eq!(read(engine.reader(), id(1), 0).len(), 30);
    let last = send(&*engine, next, Some(30), events(id(1), 31, 1));
    drop(engine);
    for result in results.iter().chain([&last]) {
        result.try_recv().expect("an answer").unwrap();
    }
    assert_eq!(read(&*place.read(), id(1), 0), events(id(1), 1, 31));
}

pub fn removed_sessions_are_gone_and_may_begin_again(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owners = [1, 2, 3].map(|n| {
        let owner = claim(&*engine, id(n));
        append(&*engine, owner, None, events(id(n), 1, 4)).unwrap();
        owner
    });
    engine.remove(&[id(1), id(3), id(9)]).unwrap();
    owners.iter().for_each(|(session, epoch)| engine.release(*session, *epoch));
    let again = claim(&*engine, id(1));
    append(&*engine, again, None, events(id(1), 1, 1)).unwrap();
    drop(engine);
    let reader = place.read();
    assert_eq!(reader.sessions().unwrap(), [id(1), id(2)]);
    let lengths = [1, 2, 3].map(|n| read(&*reader, id(n), 0).len());
    assert_eq!(lengths, [1, 4, 0]);
    let seqs: Vec<Seq> = reader.heads().unwrap().iter().map(|head| head.seq).collect();
    assert_eq!(seqs, [1, 4]);
}

pub fn hints_come_after_the_events(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let owners = [1, 2].map(|n| claim(&*engine, id(n)));
    let (sender, hints) = mpsc::sync_channel(100);
    engine.hints(sender);
    // a receiver that is gone, and one that does not listen, disturb nobody
    engine.hints(mpsc::sync_channel(1).0);
    let (full, _deaf) = mpsc::sync_channel(0);
    engine.hints(full);
    for owner in owners {
        append(&*engine, owner, None, events(owner.0, 1, 1)).unwrap();
    }
    let mut missing: BTreeSet<SessionId> = owners.iter().map(|(session, _)| *session).collect();
    while !missing.is_empty() {
        let session = hints.recv().expect("a hint for each session");
        assert_eq!(read(engine.reader(), session, 0).len(), 1);
        missing.remove(&session);
    }
}

pub fn a_panicking_receiver_stops_nobody(place: &dyn EnginePlace) {
    let engine = place.open().unwrap();
    let (session, epoch) = claim(&*engine, id(1));
    let first = events(session, 1, 1);
    engine.append(Append {
        session,
        epoch,
        expected: None,
        head: head(session, &first[0]).encode(),
        usage: None,
        events: first,
        payloads: Vec::new(),
        wants: false,
        settles: Vec::new(),
        done: Box::new(|_| std::panic::resume_unwind(Box::new("mine"))),
    });
    append(&*engine, (session, epoch), Some(1), events(session, 2, 1)).unwrap();
}
