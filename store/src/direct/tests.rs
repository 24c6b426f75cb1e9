use std::fs::File;
use std::os::unix::fs::FileExt;

use leftfold_events::Time;
use leftfold_events::event::{Event, Session, Turn};
use leftfold_events::kit::Kit;
use tempfile::TempDir;

use super::*;
use crate::{Reader, Store};

const EVENTS: Seq = LONG + 60;

fn id(n: u64) -> SessionId {
    SessionId::default().child(n, Time::from_millis(1_700_000_000_000 + n))
}

/// Texts of many sizes, some in several records, some in a file, and payloads now and then.
fn event(seq: Seq) -> Event {
    let title = "lorem ".repeat(match seq % 97 {
        0 => 2_000,
        1 => 700,
        _ => usize::try_from(seq % 13).unwrap(),
    });
    match seq % 500 {
        0 => Turn::Equipped(Kit { system: vec![title], ..Kit::default() }.equipped()).into(),
        7 => Session::Titled { title: "x".repeat(70_000) }.into(),
        _ => Session::Titled { title }.into(),
    }
}

fn events(session: SessionId, from: Seq, to: Seq) -> Vec<Envelope> {
    let envelope = |seq| Envelope {
        session,
        seq,
        at: Time::from_millis(1_700_000_000_000 + seq),
        of: None,
        until: None,
        event: event(seq),
    };
    (from..=to).map(envelope).collect()
}

/// A store of three sessions whose appends alternate.
fn family() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut logs = [1, 2, 3].map(|n| (id(n), store.log(id(n)).unwrap()));
    for from in (1..=EVENTS).step_by(32) {
        for (session, log) in &mut logs {
            log.append_wait(&events(*session, from, EVENTS.min(from + 31))).unwrap();
        }
    }
    dir
}

fn change(dir: &Path, at: u64, with: impl Fn(u8) -> u8) {
    let db = File::options().read(true).write(true).open(dir.join("db")).unwrap();
    let mut byte = [0];
    db.read_exact_at(&mut byte, at).unwrap();
    db.write_all_at(&[with(byte[0])], at).unwrap();
}

#[test]
fn every_session_of_a_family_is_what_sled_says_it_is() {
    let dir = family();
    let reader = Reader::open(dir.path()).unwrap();
    for session in [1, 2, 3].map(id) {
        let direct = read(dir.path(), session, Seq::MAX).expect("nothing is missing");
        assert_eq!(direct, reader.read(session, 1).unwrap());
        assert_eq!(direct, events(session, 1, EVENTS));
        assert_eq!(read(dir.path(), session, 17).unwrap(), direct[..17]);
    }
    assert_eq!(read(dir.path(), id(4), Seq::MAX), None);
}

#[test]
fn a_store_that_was_opened_again_and_again_is_read_too() {
    let dir = tempfile::tempdir().unwrap();
    for from in (1..=EVENTS).step_by(520) {
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.log(id(1)).unwrap();
        log.append_wait(&events(id(1), from, EVENTS.min(from + 519))).unwrap();
    }
    assert_eq!(read(dir.path(), id(1), Seq::MAX).unwrap(), events(id(1), 1, EVENTS));
}

#[test]
fn what_is_not_as_written_is_left_to_sled() {
    let dir = family();
    let whole = read(dir.path(), id(2), Seq::MAX).unwrap();
    let length = std::fs::metadata(dir.path().join("db")).unwrap().len();
    let mut left = 0;
    for at in (1..40).map(|n| length * n / 40 + n) {
        change(dir.path(), at, |byte| byte ^ 4);
        match read(dir.path(), id(2), Seq::MAX) {
            // it was another session's, or an older copy of a page
            Some(events) => assert_eq!(events, whole, "byte {at}"),
            None => left += 1,
        }
        change(dir.path(), at, |byte| byte ^ 4);
    }
    assert!(left > 0, "no flip was in an event");
    assert_eq!(read(dir.path(), id(2), Seq::MAX), Some(whole));
}

#[test]
fn only_what_leads_to_the_head_counts() {
    let dir = family();
    let (heads, _) = head::read_all(dir.path());
    let own = heads.iter().find(|head| head.session == id(1)).unwrap();
    let path = dir.path().join(head::FOLDER).join(id(1).to_string());
    let as_if = |head: Head| {
        std::fs::write(&path, head::encode(&head)).unwrap();
        read(dir.path(), id(1), Seq::MAX)
    };
    assert!(as_if(own.clone()).is_some());
    assert_eq!(as_if(Head { chain: [7; 16], ..own.clone() }), None, "another event");
    assert_eq!(as_if(Head { seq: EVENTS + 1, ..own.clone() }), None, "one is missing");
    assert_eq!(as_if(Head { seq: EVENTS - 1, ..own.clone() }), None, "one is behind the head");
}
