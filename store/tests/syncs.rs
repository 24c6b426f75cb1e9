//! Each way of writing makes the required syncs in the required order. Removing one of these syncs
//! would lose events in a power cut.
//!
//! These tests are a program of their own, because syncs are counted for a whole process.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is tested")]
#![allow(clippy::print_stdout, reason = "what was tried is to be seen")]

#[cfg(debug_assertions)]
#[path = "it/common/mod.rs"]
mod common;

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
    synced::take();
    let store = Store::open(&dir).unwrap();
    // the names of a new store's files, and its own name
    assert_eq!(taken(parent), ["store/conf", "store", ""]);
    let mut log = store.log(id(1)).unwrap();
    log.append_wait(&[envelope(id(1), 1, text(1, 100))]).unwrap();
    assert_eq!(taken(parent), ["store/db"]);
    // a batch of several records, and one whose contents are split over some
    log.append_wait(&[envelope(id(1), 2, text(2, 100)), envelope(id(1), 3, text(3, 9_000))])
        .unwrap();
    assert_eq!(taken(parent), ["store/db"]);
    // a content file and its name come before the record that names it
    log.append_wait(&[envelope(id(1), 4, text(4, 200_000))]).unwrap();
    assert_eq!(taken(parent), ["store/payloads/*", "store/payloads", "store", "store/db"]);
    println!("promise 1c: 4 ways of writing, each synced before it counts");
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
