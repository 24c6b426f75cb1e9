//! Each way of writing makes the required syncs in the required order. Removing one of these syncs
//! would lose events in a power cut.
//!
//! These tests are a program of their own, because syncs are counted for a whole process.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is tested")]
#![allow(clippy::print_stdout, reason = "a failed case names its seed")]

#[cfg(debug_assertions)]
#[path = "it/common/mod.rs"]
mod common;
#[cfg(debug_assertions)]
#[path = "../../tests/common/tally.rs"]
mod tally;

#[cfg(debug_assertions)]
use std::path::Path;

#[cfg(debug_assertions)]
use common::{envelope, id, text};
#[cfg(debug_assertions)]
use leftfold_store::{Store, synced};

/// The synced paths, relative to the store's parent; content files without their names.
#[cfg(debug_assertions)]
fn taken(parent: &Path) -> Vec<String> {
    let name = |path: std::path::PathBuf| {
        let name = path.strip_prefix(parent).unwrap().display().to_string();
        let payload = name.strip_prefix("store/payloads/").is_some();
        if payload { "store/payloads/*".to_owned() } else { name }
    };
    synced::take().into_iter().map(name).collect()
}

#[cfg(debug_assertions)]
#[test]
fn everything_is_synced_before_it_counts() {
    let parent = tempfile::tempdir().unwrap();
    let parent = parent.path();
    let dir = parent.join("store");
    let tally = tally::Tally::promise(1, "syncs")
        .counts(&["ways of writing", "syncs"])
        .never(&["ways with another order of syncs"]);
    let look = |way: &str, expected: &[&str]| {
        let taken = taken(parent);
        tally.add("ways of writing", 1);
        tally.add("syncs", taken.len());
        let expected: Vec<String> = expected.iter().map(|path| (*path).to_owned()).collect();
        tally.equal("ways with another order of syncs", &taken, &expected, way);
    };
    synced::take();
    let store = Store::open(&dir).unwrap();
    look("the names of a new store's files, and its own", &["store/conf", "store", ""]);
    let mut log = store.log(id(1), None).unwrap();
    log.append_wait(&[envelope(id(1), 1, text(1, 100))]).unwrap();
    look("a record", &["store/db"]);
    log.append_wait(&[envelope(id(1), 2, text(2, 100)), envelope(id(1), 3, text(3, 9_000))])
        .unwrap();
    look("a batch of records, and one whose contents are split over some", &["store/db"]);
    log.append_wait(&[envelope(id(1), 4, text(4, 200_000))]).unwrap();
    let expected = ["store/payloads/*", "store/payloads", "store", "store/db"];
    look("a content file and its name, then the record that names it", &expected);
    tally.finish();
}

#[cfg(not(debug_assertions))]
#[test]
fn everything_is_synced_before_it_counts() {
    use std::io::Write;
    writeln!(
        std::io::stderr(),
        "SKIPPED everything_is_synced_before_it_counts: only debug builds count syncs"
    )
    .unwrap();
}
