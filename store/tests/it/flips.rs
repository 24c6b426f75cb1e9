//! Every single-byte flip of a session's folder is detected or harmless; none is silent.
//!
//! `LEFTFOLD_FLIPS` is how many bytes are flipped, `all` every one; `LEFTFOLD_SEED` chooses which.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::rich::{Logs, Random, copy, count, files, in_parallel, logs, memory, store};
use crate::tally::Tally;
use leftfold_store::{Error, Reader, Store, check};

struct Flip {
    file: PathBuf,
    offset: usize,
    /// The new value of the byte.
    byte: u8,
    as_node: bool,
}

/// Most of the nonzero bytes, and some of the zeros between them.
fn chosen(dir: &Path, random: &mut Random) -> Vec<Flip> {
    let most = count("LEFTFOLD_FLIPS", 200);
    let (mut telling, mut rest) = (Vec::new(), Vec::new());
    for (file, bytes) in files(dir) {
        // a content file is checked as a whole, by its hash
        let whole = file.starts_with("payloads");
        for (offset, byte) in bytes.iter().enumerate() {
            let to = if *byte == 0 || whole { &mut rest } else { &mut telling };
            to.push((file.clone(), offset, *byte));
        }
    }
    let mut cases = random.some(telling, most - most / 8);
    cases.extend(random.some(rest, if most == usize::MAX { most } else { most / 8 }));
    let flip = |(n, (file, offset, byte)): (usize, (PathBuf, usize, u8))| {
        let byte = match n % 3 {
            0 => byte ^ (1 << (n / 3 % 8)),
            1 => !byte,
            _ => {
                if byte == 0 {
                    0x5a
                } else {
                    0
                }
            }
        };
        Flip { file, offset, byte, as_node: n % 40 == 0 }
    };
    cases.into_iter().enumerate().map(flip).collect()
}

/// Whether the flip was detected. If not, every session was read as it was written.
fn detected(dir: &Path, logs: &Logs, case: &str) -> bool {
    let report = check(dir).unwrap_or_else(|error| panic!("{case}: {error}"));
    let named =
        report.damage.iter().all(|damage| !damage.file.is_empty() && !damage.what.is_empty());
    assert!(named, "{case}: {:?}", report.damage);
    let reader = Reader::open(dir);
    for (session, events) in logs {
        let read =
            reader.as_ref().map_err(Clone::clone).and_then(|reader| reader.read(*session, 1));
        match read {
            Ok(read) => assert_eq!(&read, events, "{case}: {session} reads as something else"),
            Err(_) => assert_ne!(report.damage, [], "{case}: check sees nothing, reading fails"),
        }
    }
    !report.damage.is_empty() || !report.spills.is_empty()
}

/// A node resumes exactly the written events, or does not open the store.
fn try_as_node(dir: &Path, logs: &Logs, case: &str) {
    let copied = memory();
    copy(dir, copied.path());
    let store = match Store::open(copied.path()) {
        Ok(store) => store,
        Err(Error::Locked { .. }) => panic!("{case}: nobody has it open"),
        Err(_) => return,
    };
    for (session, events) in logs {
        if let Ok(read) = store.log(*session, None).and_then(|log| log.read()) {
            assert_eq!(&read, events, "{case}: a node reads {session} as something else");
        }
    }
}

#[test]
fn every_flipped_byte_is_detected_or_harmless() {
    let sample = store();
    let logs = logs(sample.path());
    assert_eq!(logs.len(), 3);
    let flips = chosen(sample.path(), &mut Random::new());
    let tally =
        Tally::promise(15, "flips").counts(&["flips", "detected", "harmless"]).never(&["silent"]);
    in_parallel(&flips, |mine| {
        let dir = memory();
        copy(sample.path(), dir.path());
        for flip in mine {
            let path = dir.path().join(&flip.file);
            let file = File::options().read(true).write(true).open(&path).unwrap();
            let mut was = [0];
            file.read_exact_at(&mut was, flip.offset as u64).unwrap();
            file.write_all_at(&[flip.byte], flip.offset as u64).unwrap();
            let case =
                format!("{} at {}: {} to {}", flip.file.display(), flip.offset, was[0], flip.byte);
            let detected = tally.attempt("silent", &case, || {
                let detected = detected(dir.path(), &logs, &case);
                if flip.as_node {
                    try_as_node(dir.path(), &logs, &case);
                }
                detected
            });
            tally.add("flips", 1);
            match detected {
                Some(true) => tally.add("detected", 1),
                Some(false) => tally.add("harmless", 1),
                None => {}
            }
            // reading has changed nothing
            let mut now = [0];
            file.read_exact_at(&mut now, flip.offset as u64).unwrap();
            assert_eq!(now[0], flip.byte, "{case}");
            file.write_all_at(&was, flip.offset as u64).unwrap();
        }
        assert_eq!(files(dir.path()), files(sample.path()));
    });
    assert!(tally.get("detected") > tally.get("flips") / 4);
    tally.finish();
}
