//! One session, written and read back.

use std::fs;
use std::sync::mpsc;

use crate::common::{configured, created, envelope, every_variant, id, text, texts};
use leftfold_events::event::{Session, Turn, TurnConfigPayloads};
use leftfold_events::{Envelope, Payload, SessionId};
use leftfold_store::{Error, Reader, Store, check, heads};
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    (dir, store)
}

/// Checks every way of reading.
fn assert_reads(dir: &TempDir, session: SessionId, expected: &[Envelope]) {
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.read(session, 1).unwrap(), expected);
    assert_eq!(reader.read_good(session), (expected.to_vec(), None));
    assert_eq!(check(dir.path()).unwrap().damage, []);
    let store = Store::open(dir.path()).unwrap();
    let log = store.log(session, None).unwrap();
    assert_eq!(log.read().unwrap(), expected);
    assert_eq!(log.head(), expected.last().map_or(0, |event| event.seq));
}

#[test]
fn every_variant_comes_back() {
    let (dir, store) = store();
    // this session names a parent, so `check` needs one
    let parent = id(1);
    let spawned = |child| {
        let (call, agent) = ("c".into(), "a".into());
        leftfold_events::event::Subagent::Spawned { call, session: child, agent, max_cost: None }
    };
    let begin = [envelope(parent, 1, created(None)), envelope(parent, 2, spawned(id(7)))];
    store.log(parent, None).unwrap().append_wait(&begin).unwrap();
    let events = every_variant(id(7));
    let mut log = store.log(id(7), None).unwrap();
    log.append_wait(&events[..9]).unwrap();
    for event in &events[9..] {
        log.append_wait(std::slice::from_ref(event)).unwrap();
    }
    assert_eq!(log.read().unwrap(), events);
    drop((log, store));
    assert_reads(&dir, id(7), &events);
}

#[test]
fn a_whole_log_is_imported_or_refused() {
    let (dir, store) = store();
    let events = texts(id(1), 1, 1_200, 100);
    store.import(id(1), &events).unwrap();
    assert_eq!(store.reader().read(id(1), 1, usize::MAX).unwrap(), events);
    let refused = |session, events: &[Envelope]| store.import(session, events).unwrap_err();
    // the session exists, so nothing is added to it
    let more = texts(id(1), 1_201, 1, 100);
    assert!(matches!(refused(id(1), &more), Error::Exists { session } if session == id(1)));
    // each of these errors is found before anything is written
    let gap = [texts(id(2), 1, 600, 10), texts(id(2), 602, 1, 10)].concat();
    assert!(matches!(refused(id(2), &gap), Error::Order { expected: 601, found: 602, .. }));
    assert!(matches!(refused(id(2), &texts(id(2), 2, 1, 10)), Error::Order { expected: 1, .. }));
    let other = [texts(id(2), 1, 1, 10), texts(id(3), 2, 1, 10)].concat();
    assert!(matches!(refused(id(2), &other), Error::Foreign { .. }));
    let fork = [envelope(id(2), 1_202, Session::Forked { from: id(1), at: 1_201 })];
    assert!(matches!(refused(id(2), &fork), Error::Unstorable { .. }));
    assert_eq!(store.log(id(2), None).unwrap().head(), 0);
    // a fork shares events of the session and continues after them
    let fork = [envelope(id(2), 8, Session::Forked { from: id(1), at: 7 })];
    store.import(id(2), &fork).unwrap();
    drop(store);
    assert_reads(&dir, id(1), &events);
    assert_reads(&dir, id(2), &[&events[..7], &fork].concat());
}

#[test]
fn events_of_every_size_come_back() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let sizes = [0, 1, 2_900, 3_000, 3_100, 6_100, 30_000, 65_400, 65_536, 70_000, 300_000];
    let events: Vec<Envelope> =
        (1..).zip(sizes).map(|(seq, size)| envelope(id(1), seq, text(seq, size))).collect();
    log.append_wait(&events[..5]).unwrap();
    log.append_wait(&events[5..]).unwrap();
    drop((log, store));
    assert_reads(&dir, id(1), &events);
    let files = fs::read_dir(dir.path().join("payloads")).unwrap().count();
    assert_eq!(files, 3, "only what is over 64 KiB is a file");
}

#[test]
fn equal_payloads_are_stored_once_and_shared() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let big = |n: u64| Payload::new("x".repeat(70_000) + &n.to_string());
    let configure = |n: u64| Turn::Configured(TurnConfigPayloads { tools: big(n), ..configured() });
    let mut events = vec![envelope(id(1), 1, created(None))];
    events.extend((2..=51).map(|seq| envelope(id(1), seq, configure(1))));
    events.push(envelope(id(1), 52, configure(2)));
    for event in &events {
        log.append_wait(std::slice::from_ref(event)).unwrap();
    }
    drop((log, store));
    assert_reads(&dir, id(1), &events);
    assert_eq!(fs::read_dir(dir.path().join("payloads")).unwrap().count(), 2);
    let read = Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap();
    let text = |n: usize| read[n].event.payloads()[1].text().clone();
    assert!(std::sync::Arc::ptr_eq(&text(1), &text(50)));
    // a session that is written later uses these contents too
    let store = Store::open(dir.path()).unwrap();
    let other = [envelope(id(2), 1, created(None)), envelope(id(2), 2, configure(2))];
    store.log(id(2), None).unwrap().append_wait(&other).unwrap();
    drop(store);
    assert_eq!(fs::read_dir(dir.path().join("payloads")).unwrap().count(), 2);
    assert_reads(&dir, id(2), &other);
}

#[test]
fn an_unset_payload_needs_no_contents_and_a_hash_alone_is_refused() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let unset = [envelope(id(1), 1, Turn::Configured(TurnConfigPayloads::default()))];
    log.append_wait(&unset).unwrap();
    let hash_only: Payload = serde_json::from_str(&format!("\"{}\"", "ab".repeat(32))).unwrap();
    let event = Turn::Configured(TurnConfigPayloads { rules: hash_only, ..configured() });
    let error = log.append_wait(&[envelope(id(1), 2, event)]).unwrap_err();
    assert!(matches!(error, Error::Unstorable { seq: 2, .. }), "{error}");
    drop((log, store));
    assert_reads(&dir, id(1), &unset);
}

#[test]
fn a_log_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for round in 0..5 {
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.log(id(1), None).unwrap();
        assert_eq!(log.head(), round * 3);
        let batch = texts(id(1), round * 3 + 1, 3, 1_000);
        log.append_wait(&batch).unwrap();
        all.extend(batch);
        // as after a crash between flush and head: the head is behind or missing
        if round == 2 {
            fs::remove_file(dir.path().join("heads").join(id(1).to_string())).unwrap();
        }
    }
    assert_reads(&dir, id(1), &all);
}

#[test]
fn seqs_without_a_gap_and_only_of_this_session() {
    let (_dir, store) = store();
    for (first, expected, found) in [(2, 1, 2), (0, 1, 0)] {
        let mut log = store.log(id(1), None).unwrap();
        let error = log.append_wait(&texts(id(1), first, 1, 5)).unwrap_err();
        assert!(
            matches!(error, Error::Order { expected: e, found: f, .. } if (e, f) == (expected, found)),
            "{error}"
        );
        // the log takes no more events
        let error = log.append_wait(&texts(id(1), 1, 1, 5)).unwrap_err();
        assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    }
    let mut log = store.log(id(1), None).unwrap();
    let error = log.append_wait(&texts(id(2), 1, 1, 5)).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    drop(log);
    let mut log = store.log(id(1), None).unwrap();
    log.append_wait(&texts(id(1), 1, 2, 5)).unwrap();
    log.append_wait(&[]).unwrap();
    assert_eq!(log.head(), 2);
}

#[test]
fn one_log_a_session_and_one_node_a_store() {
    let (dir, store) = store();
    let log = store.log(id(1), None).unwrap();
    assert!(
        matches!(store.log(id(1), None), Err(Error::Taken { session, .. }) if session == id(1))
    );
    assert!(store.clone().log(id(2), None).is_ok());
    drop(log);
    assert!(store.log(id(1), None).is_ok());
    let second = Store::open(dir.path()).unwrap_err();
    assert!(matches!(second, Error::Locked { .. }), "{second}");
    drop(store);
    Store::open(dir.path()).unwrap();
}

#[test]
fn a_would_be_node_waits_for_the_one_that_is_leaving() {
    let (dir, store) = store();
    let (ready, go) = mpsc::channel();
    let path = dir.path().to_owned();
    let second = std::thread::spawn(move || {
        ready.send(()).unwrap();
        Store::open(&path).map(|store| store.identity())
    });
    go.recv().unwrap();
    let identity = store.identity();
    drop(store);
    assert_eq!(second.join().unwrap().unwrap(), identity);
}

#[test]
fn appends_in_flight_are_acknowledged_in_order_and_seen_by_the_next_owner() {
    let (_dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let (sender, receiver) = mpsc::channel();
    for seq in 1..=50 {
        let sender = sender.clone();
        log.append(&texts(id(1), seq, 1, 100), move |result| {
            sender.send((seq, result.is_ok())).unwrap();
        });
    }
    assert_eq!(log.head(), 50);
    drop(log);
    let log = store.log(id(1), None).unwrap();
    assert_eq!(log.head(), 50);
    let acknowledged: Vec<_> = receiver.try_iter().collect();
    assert_eq!(acknowledged, (1..=50).map(|seq| (seq, true)).collect::<Vec<_>>());
}

#[test]
fn a_panicking_receiver_does_not_stop_the_writer() {
    let (_dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    log.append(&texts(id(1), 1, 1, 5), |_| std::panic::resume_unwind(Box::new("mine")));
    log.append_wait(&texts(id(1), 2, 1, 5)).unwrap();
}

#[test]
fn the_last_clone_may_go_in_a_callback() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let (sender, receiver) = mpsc::channel();
    let (gone, is_gone) = mpsc::channel::<()>();
    log.append(&texts(id(1), 1, 1, 5), move |_| {
        is_gone.recv().unwrap();
        drop(store);
        sender.send(()).unwrap();
    });
    drop(log);
    gone.send(()).unwrap();
    receiver.recv().unwrap();
    assert_reads(&dir, id(1), &texts(id(1), 1, 1, 5));
}

#[test]
fn a_failed_append_is_told_and_ends_the_log() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    // a folder in the place of the head makes the write fail
    fs::create_dir(dir.path().join("heads").join(id(1).to_string())).unwrap();
    let error = log.append_wait(&texts(id(1), 1, 1, 5)).unwrap_err();
    assert!(matches!(&error, Error::Io { what, .. } if what.contains("heads")), "{error}");
    let error = log.append_wait(&texts(id(1), 2, 1, 5)).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    // the next write is not acknowledged as safe to another session either
    let error = store.log(id(2), None).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
}

#[test]
fn heads_are_read_without_the_database() {
    let (dir, store) = store();
    let mut log = store.log(id(1), None).unwrap();
    let events = every_variant(id(1));
    log.append_wait(&events).unwrap();
    let found = heads(dir.path()).unwrap();
    assert_eq!(found.len(), 1);
    let (head, last) = (&found[0], events.last().unwrap());
    assert_eq!((head.session, head.seq, head.at), (id(1), last.seq, last.at));
    let summary = head.summary.clone().unwrap();
    assert_eq!(summary.title.as_deref(), Some("A title"));
    assert_eq!(summary.prompt.as_deref(), Some("Say hé"));
    assert_eq!(summary.worktree, "/home/someone/project");
    assert_eq!(summary.created, events[0].at);
    assert_eq!(summary.turns, 7);
    assert!((summary.cost - 10.5).abs() < 1e-9);
    // it continues counting after a restart, with and without the head's summary
    for remove in [false, true] {
        drop(log);
        if remove {
            fs::remove_file(dir.path().join("heads").join(id(1).to_string())).unwrap();
        }
        log = store.log(id(1), None).unwrap();
        let next = log.head() + 1;
        log.append_wait(&texts(id(1), next, 1, 500)).unwrap();
        let again = heads(dir.path()).unwrap()[0].summary.clone().unwrap();
        assert_eq!(again.title.map(|title| title.len()), Some(120));
        assert_eq!((again.turns, again.created), (summary.turns, summary.created));
    }
    assert_eq!(heads(&dir.path().join("nowhere")).unwrap(), []);
}

#[test]
fn a_fork_goes_on_behind_what_it_shares() {
    let (dir, store) = store();
    let mut parent = store.log(id(1), None).unwrap();
    parent.append_wait(&[envelope(id(1), 1, created(None))]).unwrap();
    parent.append_wait(&texts(id(1), 2, 5, 200)).unwrap();
    let forked = |session, seq, from| envelope(session, seq, Session::Forked { from, at: seq - 1 });
    let mut fork = store.log(id(2), None).unwrap();
    fork.append_wait(&[forked(id(2), 4, id(1))]).unwrap();
    fork.append_wait(&texts(id(2), 5, 2, 200)).unwrap();
    // a fork of a fork, after the shared events and within them
    let mut second = store.log(id(3), None).unwrap();
    second.append_wait(&[forked(id(3), 6, id(2))]).unwrap();
    let mut third = store.log(id(4), None).unwrap();
    third.append_wait(&[forked(id(4), 3, id(3))]).unwrap();
    let mut missing = store.log(id(5), None).unwrap();
    let error = missing.append_wait(&[forked(id(5), 70, id(1))]).unwrap_err();
    assert!(matches!(error, Error::Unstorable { .. }), "{error}");
    let read = fork.read().unwrap();
    let places = |events: &[Envelope]| -> Vec<_> {
        events.iter().map(|event| (event.session, event.seq)).collect()
    };
    let [a, b, c, d] = [1, 2, 3, 4].map(id);
    assert_eq!(places(&read), [(a, 1), (a, 2), (a, 3), (b, 4), (b, 5), (b, 6)]);
    let shared = places(&second.read().unwrap());
    assert_eq!(shared, [(a, 1), (a, 2), (a, 3), (b, 4), (b, 5), (c, 6)]);
    assert_eq!(places(&third.read().unwrap()), [(a, 1), (a, 2), (d, 3)]);
    for from in 1..=7 {
        let part = store.reader().read(b, from, 2).unwrap();
        assert_eq!(part, read[read.len().min(from as usize - 1)..][..part.len()], "{from}");
        assert_eq!(part.len(), 2.min(7 - from as usize), "{from}");
    }
    drop((parent, fork, second, third, missing, store));
    assert_eq!(check(dir.path()).unwrap().damage, []);
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.sessions().unwrap(), [id(1), id(2), id(3), id(4)]);
    assert_eq!(reader.read(id(2), 1).unwrap(), read);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.log(id(3), None).unwrap().head(), 6);
}

#[test]
fn reading_from_the_middle() {
    let (dir, store) = store();
    store.log(id(1), None).unwrap().append_wait(&texts(id(1), 1, 20, 100)).unwrap();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.read(id(1), 15).unwrap(), texts(id(1), 15, 6, 100));
    assert_eq!(reader.read(id(1), 21).unwrap(), []);
    assert_eq!(reader.read(id(9), 1).unwrap(), []);
}

#[test]
fn the_root_comes_first() {
    let root = id(9);
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join(root.to_string());
    let store = Store::open(&dir).unwrap();
    for (session, of) in [(id(3), Some(root)), (root, None), (id(2), None), (id(1), Some(root))] {
        let first = envelope(session, 1, created(of));
        store.log(session, None).unwrap().append_wait(&[first]).unwrap();
    }
    let sessions = Reader::open(&dir).unwrap().sessions().unwrap();
    assert_eq!(sessions, [root, id(2), id(1), id(3)]);
}

#[test]
fn a_folder_that_is_no_store_is_said_to_be_none() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("missing")] {
        let error = Reader::open(&path).unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert!(matches!(check(&path), Err(Error::NotAStore { .. })));
        assert!(fs::read_dir(&path).map_or(0, Iterator::count) == 0, "reading creates nothing");
    }
}
