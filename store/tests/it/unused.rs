//! `tidy` removes what nothing in a store refers to, and nothing else.

use std::fs;
use std::path::Path;

use crate::common::rich::{files, logs, store};
use crate::common::{configured, envelope, finished, id, text};
use leftfold_events::event::{Finished, Spill, Tool, Turn, TurnConfigPayloads};
use leftfold_events::{Envelope, Payload, Sha256};
use leftfold_store::{Error, Store, Tidied, check, forget, tidy};

fn configure(seq: u64, text: &str) -> Envelope {
    let system = Payload::new(text.repeat(10_000));
    envelope(id(3), seq, Turn::Configured(TurnConfigPayloads { system, ..configured() }))
}

/// Adds large contents, a large event and a full text that belong to the fork.
fn grow(dir: &Path) {
    let spill =
        Some(Spill { path: "/moved/spill/c2.txt".into(), sha256: Sha256::digest(b"x"), bytes: 1 });
    let finished = Tool::Finished(Box::new(Finished { spill, ..finished() }));
    fs::write(dir.join("spill/c2.txt"), b"x").unwrap();
    let events = [
        configure(10, "of a fork "),
        envelope(id(3), 11, text(5, 70_000)),
        envelope(id(3), 12, finished),
    ];
    Store::open(dir).unwrap().log(id(3), None).unwrap().append_wait(&events).unwrap();
}

fn counts(tidied: &Tidied) -> (usize, usize, usize) {
    (tidied.payloads, tidied.spills, tidied.temporary)
}

#[test]
fn nothing_that_a_session_of_the_family_needs_is_removed() {
    let sample = store();
    grow(sample.path());
    let (before, events) = (files(sample.path()), logs(sample.path()));
    let tidied = tidy(sample.path(), false).unwrap();
    assert!(tidied.is_empty() && tidied.bytes == 0, "{tidied:?}");
    assert_eq!(logs(sample.path()), events);
    let names = |files: &std::collections::BTreeMap<_, _>| {
        files.keys().cloned().collect::<Vec<std::path::PathBuf>>()
    };
    let kept = |name: &std::path::PathBuf| !name.to_string_lossy().starts_with("snap.");
    let stays = |all: Vec<_>| all.into_iter().filter(kept).collect::<Vec<_>>();
    assert_eq!(stays(names(&files(sample.path()))), stays(names(&before)));
}

#[test]
fn what_a_removed_fork_had_for_itself_goes() {
    let sample = store();
    grow(sample.path());
    forget(sample.path(), &[id(3)]).unwrap();
    fs::write(sample.path().join("payloads/.tmpAbCdEf"), b"half").unwrap();
    fs::write(sample.path().join("snap.0000000000000FFF.generating"), b"half").unwrap();
    fs::write(sample.path().join("payloads/notes"), b"not ours").unwrap();
    let counted = tidy(sample.path(), true).unwrap();
    assert_eq!(counts(&counted), (2, 1, 2));
    assert!(sample.path().join("payloads/.tmpAbCdEf").exists(), "it was only counted");
    let events = logs(sample.path());
    fs::write(sample.path().join("snap.0000000000000FFF.generating"), b"half").unwrap();
    let tidied = tidy(sample.path(), false).unwrap();
    assert_eq!((tidied.payloads, tidied.spills), (2, 1));
    assert!(tidied.bytes > 100_000);
    let left: Vec<_> =
        files(sample.path()).into_keys().map(|p| p.to_string_lossy().into_owned()).collect();
    assert!(
        !left.iter().any(|name| name.contains(".tmp") || name.contains("generating")),
        "{left:?}"
    );
    assert!(
        left.contains(&"payloads/notes".to_owned()) && left.contains(&"spill/c1.txt".to_owned())
    );
    assert_eq!(logs(sample.path()), events);
    assert_eq!(check(sample.path()).unwrap().damage, []);
    assert!(tidy(sample.path(), false).unwrap().is_empty());
    // contents that were removed are written again when they are needed again
    let again = Envelope { session: id(1), seq: 10, ..configure(10, "of a fork ") };
    Store::open(sample.path()).unwrap().log(id(1), None).unwrap().append_wait(&[again]).unwrap();
    assert_eq!(check(sample.path()).unwrap().damage, []);
    let spills = check(sample.path()).unwrap().spills;
    assert!(spills.iter().all(|spill| spill.session != id(3)));
}

#[test]
fn of_a_damaged_or_running_store_nothing_is_removed() {
    let sample = store();
    fs::write(sample.path().join("payloads/.tmpAbCdEf"), b"half").unwrap();
    let store = Store::open(sample.path()).unwrap();
    assert!(matches!(tidy(sample.path(), false), Err(Error::Locked { .. })));
    drop(store);
    let head = sample.path().join("heads").join(id(1).to_string());
    fs::write(&head, b"broken").unwrap();
    assert!(matches!(tidy(sample.path(), false), Err(Error::Damaged { .. })));
    assert!(sample.path().join("payloads/.tmpAbCdEf").exists());
}

/// sled takes a truncated snapshot for its newest one, and then does not open.
#[test]
fn half_a_snapshot_keeps_nobody_from_opening_the_store() {
    let sample = store();
    let events = logs(sample.path());
    fs::write(sample.path().join("snap.7FFFFFFFFFFFFFFF.generating"), b"half").unwrap();
    let store = Store::open(sample.path()).unwrap();
    for (session, written) in &events {
        assert_eq!(&store.log(*session, None).unwrap().read().unwrap(), written);
    }
    assert!(!sample.path().join("snap.7FFFFFFFFFFFFFFF.generating").exists());
}
