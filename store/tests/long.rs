//! A log so long that it is read by two threads: what comes of it, and what is said of damage, is what
//! somebody finds who reads it from its beginning to its end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{id, texts};
use leftfold_store::{Error, Reader, Store};

const EVENTS: u64 = 4_300;
const FLIPS: u64 = 4;

fn compared(dir: &Path) -> bool {
    let Ok(reader) = Reader::open(dir) else { return false };
    let (good, damage) = reader.read_good(id(1));
    match (reader.read(id(1), 1), damage) {
        (Ok(events), None) => {
            assert_eq!(events, good);
            assert_eq!(events.len() as u64, EVENTS);
            true
        }
        (Err(Error::Damaged { damage, .. }), Some(found)) => {
            assert_eq!(*damage, found);
            false
        }
        (read, damage) => panic!("{:?}, but one after the other {damage:?}", read.map(|e| e.len())),
    }
}

#[test]
fn both_halves_are_read_as_the_whole_is() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.log(id(1)).unwrap();
        texts(id(1), 1, EVENTS, 40).chunks(100).for_each(|batch| log.append_wait(batch).unwrap());
    }
    assert!(compared(dir.path()));
    let events = Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap();
    assert_eq!(events, texts(id(1), 1, EVENTS, 40));
    let db = File::options().read(true).write(true).open(dir.path().join("db")).unwrap();
    let length = db.metadata().unwrap().len();
    let mut found = 0;
    for at in (1..=FLIPS).map(|n| length * n / (2 * FLIPS) + 13) {
        let mut byte = [0];
        db.read_exact_at(&mut byte, at).unwrap();
        db.write_all_at(&[byte[0] ^ 4], at).unwrap();
        found += u64::from(!compared(dir.path()));
        db.write_all_at(&byte, at).unwrap();
    }
    assert!(found > 0, "no flip was in an event");
    assert!(compared(dir.path()));
}
