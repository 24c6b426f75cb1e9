//! A log so long that it is read without sled where that is possible. The events and the reported
//! damage must equal those of a reading by sled from beginning to end.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{id, texts};
use leftfold_store::{Error, Reader, Store, read};

const EVENTS: u64 = 4_300;
const FLIPS: u64 = 4;

/// Whether the store is sound, by both ways of reading. Damage in bytes that belong to no event may
/// keep sled from opening the database; the events are then readable nevertheless.
fn compared(dir: &Path) -> bool {
    let straight = read(dir, id(1), u64::MAX);
    let Ok(reader) = Reader::open(dir) else {
        return straight.is_ok_and(|events| events == texts(id(1), 1, EVENTS, 40));
    };
    let (good, damage) = reader.read_good(id(1));
    match (straight, damage) {
        (Ok(events), None) => {
            assert_eq!(events, good);
            assert_eq!(events.len() as u64, EVENTS);
            true
        }
        (Err(Error::Damaged { damage, .. }), Some(found)) => {
            assert_eq!(*damage, found);
            false
        }
        (read, damage) => panic!("{:?}, but sled says {damage:?}", read.map(|e| e.len())),
    }
}

#[test]
fn both_ways_of_reading_agree() {
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
