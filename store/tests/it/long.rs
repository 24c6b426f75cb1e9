//! A log so long that several threads read it. The events and
//! the reported damage must equal those that one thread finds.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{id, texts};
use leftfold_store::{Error, Reader, Store, check, read, visit};

const EVENTS: u64 = 4_300;
const SIZE: usize = 1_000;
/// Smaller databases are read by one thread.
const LARGE: u64 = 4 << 20;
const FLIPS: u64 = 4;

/// Whether the store is sound, by both ways of reading. Damage in bytes that belong to no event may
/// keep sled from opening the database; the events are then readable nevertheless.
fn compared(dir: &Path) -> bool {
    let straight = read(dir, id(1), u64::MAX);
    let Ok(reader) = Reader::open(dir) else {
        return straight.is_ok_and(|events| events == texts(id(1), 1, EVENTS, SIZE));
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
            assert!(check(dir).unwrap().damage.contains(&found), "{found:?}");
            assert_eq!(good, texts(id(1), 1, good.len() as u64, SIZE));
            false
        }
        (read, damage) => panic!("{:?}, but sled says {damage:?}", read.map(|e| e.len())),
    }
}

#[test]
fn two_threads_find_what_one_finds() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.log(id(1), None).unwrap();
        texts(id(1), 1, EVENTS, SIZE).chunks(100).for_each(|batch| log.append_wait(batch).unwrap());
    }
    assert!(compared(dir.path()));
    let events = Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap();
    assert_eq!(events, texts(id(1), 1, EVENTS, SIZE));
    let db = File::options().read(true).write(true).open(dir.path().join("db")).unwrap();
    let length = db.metadata().unwrap().len();
    assert!(length > LARGE, "{length}");
    for to in [0, 1, 255, 256, 257, EVENTS - 1, EVENTS, u64::MAX] {
        let mut seqs = Vec::new();
        visit(dir.path(), id(1), to, |event| seqs.push(event.seq)).unwrap();
        assert!(seqs.iter().copied().eq(1..=to.min(EVENTS)), "to {to}");
    }
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
