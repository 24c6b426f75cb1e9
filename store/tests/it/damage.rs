//! Any change to the bytes of a store is detected or harmless. Harmless means that every
//! acknowledged event is read back as it was. A log never becomes shorter silently, and nothing
//! panics.
//!
//! `LEFTFOLD_FLIPS=all` flips each byte of a small store. By default it is one in four, and `LEFTFOLD_SEED` chooses which.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;

use crate::common::rich::count;
use crate::common::{configured, created, envelope, id, prompted, text, texts};
use leftfold_events::Envelope;
use leftfold_events::event::Turn;
use leftfold_store::{Error, Reader, Store, check, heads};
use tempfile::TempDir;

/// A small store that was closed, opened and written to again, so that it has a snapshot and a log
/// after it.
struct Sample {
    dir: TempDir,
    events: Vec<Envelope>,
}

/// Few bytes, so that each can be flipped.
fn small() -> Sample {
    let events = [text(1, 20), text(2, 30), text(3, 10)];
    written((1..).zip(events).map(|(seq, event)| envelope(id(1), seq, event)).collect(), &[2, 1])
}

/// With payloads, an event of several parts and one in a file.
fn large() -> Sample {
    let events = vec![
        envelope(id(1), 1, created(None)),
        envelope(id(1), 2, Turn::Configured(configured())),
        envelope(id(1), 3, prompted()),
        envelope(id(1), 4, text(4, 70_000)),
        envelope(id(1), 5, text(5, 3_500)),
        envelope(id(1), 6, text(6, 40)),
    ];
    written(events, &[4, 1, 1])
}

fn written(events: Vec<Envelope>, batches: &[usize]) -> Sample {
    let dir = memory();
    let mut rest = events.as_slice();
    for count in batches {
        let (batch, left) = rest.split_at(*count);
        let store = Store::open(dir.path()).unwrap();
        store.log(id(1), None).unwrap().append_wait(batch).unwrap();
        rest = left;
    }
    Sample { dir, events }
}

fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Paths of all files, relative to the store.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// True if the damage was detected, false if it is harmless.
fn found_or_harmless(dir: &Path, events: &[Envelope], as_node: bool, case: &str) -> bool {
    let report = check(dir).unwrap_or_else(|error| panic!("{case}: {error}"));
    let read = Reader::open(dir).and_then(|reader| reader.read(id(1), 1));
    if let Ok(read) = &read {
        assert_eq!(read, events, "{case}: it reads, and it is not what was written");
    }
    if read.is_err() {
        assert_ne!(report.damage, [], "{case}: check sees nothing where reading fails");
    }
    if as_node {
        let log = Store::open(dir).and_then(|store| store.log(id(1), None)?.read());
        assert!(log.as_ref().is_ok_and(|log| log == events) || log.is_err(), "{case}: {log:?}");
    }
    read.is_err()
}

fn in_parallel<T: Sync>(cases: &[T], run: impl Fn(&T) -> bool + Sync) -> usize {
    let threads = thread::available_parallelism().map_or(2, Into::into);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (mine, run) = (cases.iter().skip(n).step_by(threads), &run);
                scope.spawn(move || mine.filter(|case| run(case)).count())
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// Offsets to flip: every nonzero byte, and a few of the zeros between.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let says = |n: usize| bytes[n.saturating_sub(1)..].iter().take(3).any(|byte| *byte != 0);
    (0..bytes.len()).filter(|n| says(*n) || n % 8_192 == 0).collect()
}

fn flips(store: &Path, step: usize) -> Vec<(PathBuf, usize)> {
    let seed = count("LEFTFOLD_SEED", 1);
    let mut cases = Vec::new();
    for file in files(store) {
        let bytes = fs::read(&file).unwrap();
        // a payload file is checked as a whole, by one hash
        let is_payload = file.parent().unwrap().ends_with("payloads");
        let (first, step) = if is_payload { (0, 20_011) } else { (seed % step, step) };
        let name = file.strip_prefix(store).unwrap().to_owned();
        let chosen = offsets(&bytes).into_iter().skip(first).step_by(step);
        cases.extend(chosen.map(|n| (name.clone(), n)));
    }
    cases
}

fn flip_all(sample: &Sample, step: usize) {
    let cases: Vec<_> = flips(sample.dir.path(), step).into_iter().enumerate().collect();
    let found = in_parallel(&cases, |(number, (file, offset))| {
        let dir = memory();
        copy(sample.dir.path(), dir.path());
        let file = dir.path().join(file);
        let damaged = fs::File::options().read(true).write(true).open(&file).unwrap();
        let mut byte = [0];
        damaged.read_exact_at(&mut byte, *offset as u64).unwrap();
        damaged.write_all_at(&[byte[0] ^ (1 << (number % 8))], *offset as u64).unwrap();
        let case = format!("{} at {offset}", file.display());
        found_or_harmless(dir.path(), &sample.events, number % 20 == 0, &case)
    });
    assert!(found > cases.len() / 4, "{found} of {}", cases.len());
}

#[test]
fn flipped_bytes_of_a_small_store_are_found_or_harmless() {
    let all = count("LEFTFOLD_FLIPS", 0) == usize::MAX;
    flip_all(&small(), if all { 1 } else { 4 });
}

#[test]
fn flipped_bytes_of_parts_and_payloads_are_found_or_harmless() {
    flip_all(&large(), 37);
}

#[test]
fn every_cut_is_found_or_harmless() {
    let sample = large();
    let mut cases = Vec::new();
    for file in files(sample.dir.path()) {
        let bytes = fs::read(&file).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let name = file.strip_prefix(sample.dir.path()).unwrap().to_owned();
        let step = if used > 20_000 { 1_021 } else { 61 };
        cases.extend((0..used).step_by(step).map(|length| (name.clone(), length)));
    }
    let found = in_parallel(&cases, |(file, length)| {
        let dir = memory();
        copy(sample.dir.path(), dir.path());
        let damaged = fs::File::options().write(true).open(dir.path().join(file)).unwrap();
        damaged.set_len(*length as u64).unwrap();
        let case = format!("{} cut to {length}", file.display());
        found_or_harmless(dir.path(), &sample.events, length % 3 == 0, &case)
    });
    assert!(found > cases.len() / 4, "{found} of {}", cases.len());
}

#[test]
fn an_older_database_under_newer_heads_is_found_and_not_opened() {
    let dir = memory();
    let old = memory();
    {
        let store = Store::open(dir.path()).unwrap();
        store.log(id(1), None).unwrap().append_wait(&texts(id(1), 1, 10, 300)).unwrap();
    }
    copy(dir.path(), old.path());
    {
        let store = Store::open(dir.path()).unwrap();
        store.log(id(1), None).unwrap().append_wait(&texts(id(1), 11, 10, 300)).unwrap();
    }
    fs::remove_dir_all(old.path().join("heads")).unwrap();
    copy(&dir.path().join("heads"), &old.path().join("heads"));
    let report = check(old.path()).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert_eq!((report.damage[0].session, report.damage[0].seq), (Some(id(1)), Some(11)));
    assert!(report.damage[0].what.contains("up to 20 were acknowledged"), "{report:?}");
    let reader = Reader::open(old.path()).unwrap();
    assert!(matches!(reader.read(id(1), 1), Err(Error::Damaged { .. })));
    assert_eq!(reader.read_good(id(1)).0, texts(id(1), 1, 10, 300));
    let error = Store::open(old.path()).and_then(|store| store.log(id(1), None)).unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { damage, .. } if damage.session == Some(id(1))),
        "{error}"
    );
    // the heads still name the last acknowledged event
    assert_eq!(heads(old.path()).unwrap()[0].seq, 20);
}

#[test]
fn a_session_that_is_gone_altogether_is_found() {
    let dir = memory();
    {
        let store = Store::open(dir.path()).unwrap();
        store.log(id(1), None).unwrap().append_wait(&texts(id(1), 1, 1, 30)).unwrap();
    }
    let head = dir.path().join("heads");
    // a renamed head of another session is refused
    fs::copy(head.join(id(1).to_string()), head.join(id(2).to_string())).unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert_eq!(report.damage[0].file, format!("heads/{}", id(2)).into());
    fs::remove_file(head.join(id(2).to_string())).unwrap();
    for file in ["db", "conf"] {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    assert!(matches!(check(dir.path()), Err(Error::NotAStore { .. })));
    // no node starts a new database under the old heads
    assert!(matches!(Store::open(dir.path()), Err(Error::NotAStore { .. })));
    // an empty database is damaged: it has lost every acknowledged event
    fs::write(dir.path().join("db"), b"").unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert!(matches!(Store::open(dir.path()), Err(Error::Damaged { .. })));
}
