//! Appends and reads as tests want them.

use std::sync::mpsc;
use std::time::Duration;

use leftfold_events::{SessionId, Time};
use leftfold_postgres::{Append, Claim, End, Error, Options, Postgres, PostgresReader};
use leftfold_store::engine::StoredEvent;

/// A session's id of this month or another.
pub(crate) fn id(number: u64) -> SessionId {
    SessionId::default().child(number, Time::from_millis(1_700_000_000_000))
}

/// The link of an event in tests; with another `fork` the same event has another link.
pub(crate) fn link(seq: u64, fork: u8) -> [u8; 16] {
    let mut link = [fork; 16];
    link[..8].copy_from_slice(&seq.to_be_bytes());
    link
}

pub(crate) fn end(seq: u64) -> End {
    if seq == 0 { End::default() } else { End { seq, link: link(seq, 1) } }
}

pub(crate) fn event(seq: u64) -> StoredEvent {
    StoredEvent { seq, schema: 3, link: link(seq, 1), body: format!("event {seq}").into_bytes() }
}

/// The events `first..=last`.
pub(crate) fn append(claim: &Claim, session: SessionId, first: u64, last: u64) -> Append {
    Append {
        session,
        epoch: claim.epoch,
        expected: end(first - 1),
        events: (first..=last).map(event).collect(),
        payloads: Vec::new(),
        head: format!("head {last}").into_bytes(),
        usage: None,
        wants: false,
        settles: Vec::new(),
        done: Box::new(|_| {}),
    }
}

/// Where the result of the append comes.
pub(crate) fn send(engine: &Postgres, append: Append) -> mpsc::Receiver<Result<(), Error>> {
    let (sender, receiver) = mpsc::channel();
    let done = Box::new(move |result| drop(sender.send(result)));
    engine.append(Append { done, ..append });
    receiver
}

pub(crate) fn wait(result: &mpsc::Receiver<Result<(), Error>>) -> Result<(), Error> {
    result.recv_timeout(Duration::from_secs(60)).unwrap()
}

pub(crate) fn put(engine: &Postgres, append: Append) -> Result<(), Error> {
    wait(&send(engine, append))
}

/// The seqs of a session's events, all of which are whole.
pub(crate) fn seqs(reader: &PostgresReader, session: SessionId) -> Vec<u64> {
    let (mut seqs, mut from) = (Vec::new(), 1);
    loop {
        let page = reader.events(session, from, 1_000_000).unwrap();
        for found in page.events {
            let found = found.unwrap();
            assert_eq!(found.body, format!("event {}", found.seq).into_bytes());
            seqs.push(found.seq);
        }
        let Some(next) = page.next else { return seqs };
        from = next;
    }
}

/// A node whose lease runs out quickly.
pub(crate) fn quick() -> Options {
    Options { lease: Duration::from_millis(1_500), ..Options::default() }
}
