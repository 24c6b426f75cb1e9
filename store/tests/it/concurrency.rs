//! Many sessions in one store, and readers beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::common::{envelope, id, text, texts};
use leftfold_events::Seq;
use leftfold_store::{Error, Reader, Store, check, heads};

#[test]
fn a_hundred_sessions_append_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    thread::scope(|scope| {
        for n in 1..=100 {
            let store = store.clone();
            scope.spawn(move || {
                let mut log = store.log(id(n), None).unwrap();
                for seq in [1, 4, 7] {
                    log.append_wait(&texts(id(n), seq, 3, 200)).unwrap();
                }
            });
        }
    });
    drop(store);
    let report = check(dir.path()).unwrap();
    assert_eq!((report.events, report.damage), (900, vec![]));
    assert!(heads(dir.path()).unwrap().iter().all(|head| head.seq == 9));
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.sessions().unwrap().len(), 100);
    for n in 1..=100 {
        assert_eq!(reader.read(id(n), 1).unwrap(), texts(id(n), 1, 9, 200));
    }
}

#[test]
fn the_same_log_is_handed_out_once_whoever_asks() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let logs: Vec<_> = thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| store.log(id(1), None))).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(logs.iter().filter(|log| log.is_ok()).count(), 1);
    let refused = |log: &Result<_, Error>| matches!(log, Err(Error::Taken { .. }));
    assert_eq!(logs.iter().filter(|log| refused(log)).count(), 7);
}

/// At any moment, readers see everything that was acknowledged before they started, in order, and
/// nothing wrong. The sizes keep sled busy: pages split, segments roll.
#[test]
fn readers_beside_a_writer_see_at_least_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let mut log = store.log(id(1), None).unwrap();
    let event = |seq: Seq| envelope(id(1), seq, text(seq, [100, 2_000, 9_000][(seq % 3) as usize]));
    log.append_wait(&[event(1)]).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 2..=600 {
                log.append_wait(&[event(seq)]).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let mut looks = 0;
        while !done.load(Ordering::Acquire) || looks == 0 {
            let acknowledged = heads(dir.path()).unwrap()[0].seq;
            let events = Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap();
            assert!(events.len() as u64 >= acknowledged, "{} < {acknowledged}", events.len());
            for (seq, found) in (1..).zip(&events) {
                assert_eq!(*found, event(seq));
            }
            looks += 1;
        }
    });
    assert_eq!(Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap().len(), 600);
}

#[test]
fn reading_changes_nothing_and_needs_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.log(id(1), None).unwrap().append_wait(&texts(id(1), 1, 5, 100)).unwrap();
    drop(store);
    let state = || {
        let mut files: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                (entry.file_name(), entry.metadata().unwrap().modified().unwrap(), bytes)
            })
            .collect();
        files.sort();
        files
    };
    let before = state();
    let reader = Reader::open(dir.path()).unwrap();
    assert_eq!(reader.read(id(1), 1).unwrap().len(), 5);
    assert_eq!(check(dir.path()).unwrap().damage, []);
    assert_eq!(state(), before);
    // a node opens and closes the store while the reader reads
    Store::open(dir.path()).unwrap();
    assert_eq!(reader.read(id(1), 1).unwrap().len(), 5);
}
