//! Damage that `check` finds beyond damaged bytes.

use std::fs;
use std::path::Path;

use crate::common::{created, envelope, finished, id, text, texts};
use leftfold_events::event::{Finished, Session, Spill, Subagent, Tool};
use leftfold_events::{Envelope, SessionId, Sha256};
use leftfold_store::{Error, Reader, Store, check};

fn write(dir: &Path, sessions: &[Vec<Envelope>]) {
    let store = Store::open(dir).unwrap();
    for events in sessions {
        store.log(events[0].session, None).unwrap().append_wait(events).unwrap();
    }
}

/// Opens sled directly, to make changes that this crate never makes.
fn tamper(dir: &Path, change: impl FnOnce(&sled::Db)) {
    let config = sled::Config::default().path(dir).segment_size(256 << 10).flush_every_ms(None);
    let db = config.open().unwrap();
    change(&db);
    db.flush().unwrap();
}

fn key(session: SessionId, seq: u64) -> Vec<u8> {
    let mut key = session.to_bytes().to_vec();
    key.extend(seq.to_be_bytes());
    key.push(0);
    key
}

/// Seqs and texts of the reported damage.
fn found(dir: &Path) -> Vec<(Option<u64>, String)> {
    check(dir).unwrap().damage.into_iter().map(|damage| (damage.seq, damage.what)).collect()
}

#[test]
fn a_removed_event_is_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[texts(id(1), 1, 6, 50)]);
    tamper(dir.path(), |db| drop(db.remove(key(id(1), 3)).unwrap()));
    assert_eq!(found(dir.path()), [(Some(3), "events 3 to 3 are missing".to_owned())]);
    let (good, damage) = Reader::open(dir.path()).unwrap().read_good(id(1));
    assert_eq!((good, damage.unwrap().seq), (texts(id(1), 1, 2, 50), Some(3)));
}

#[test]
fn the_first_events_missing_are_a_gap_too() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[texts(id(1), 1, 4, 50)]);
    tamper(dir.path(), |db| drop(db.remove(key(id(1), 1)).unwrap()));
    assert_eq!(found(dir.path()), [(Some(1), "events 1 to 1 are missing".to_owned())]);
}

#[test]
fn an_event_of_another_history_breaks_the_chain() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), &[texts(id(1), 1, 4, 50)]);
    let mut changed = texts(id(1), 1, 4, 50);
    changed[1] = envelope(id(1), 2, text(99, 50));
    write(other.path(), &[changed]);
    // each record is in order by itself: checksums, seqs, even the last link of its own
    let mut record = None;
    tamper(other.path(), |db| record = db.get(key(id(1), 2)).unwrap());
    tamper(dir.path(), |db| drop(db.insert(key(id(1), 2), record.unwrap()).unwrap()));
    let found = found(dir.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Some(3));
    assert!(found[0].1.contains("chain"), "{found:?}");
}

#[test]
fn a_whole_other_history_is_not_what_was_acknowledged() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write(dir.path(), &[texts(id(1), 1, 3, 50)]);
    let rewritten: Vec<_> = (1..=3).map(|seq| envelope(id(1), seq, text(seq + 50, 50))).collect();
    write(other.path(), &[rewritten]);
    fs::copy(other.path().join("db"), dir.path().join("db")).unwrap();
    let found = found(dir.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("acknowledged"), "{found:?}");
    assert!(matches!(Store::open(dir.path()), Err(Error::Damaged { .. })));
}

#[test]
fn a_log_of_another_schema_says_which_leftfold_reads_it() {
    for (schema, advice) in [
        (4, "(log schema 4, this leftfold reads schemas 2 to 3): use a newer leftfold"),
        (1, "(log schema 1, this leftfold reads schemas 2 to 3): export the session"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &[texts(id(1), 1, 3, 50)]);
        tamper(dir.path(), |db| {
            let mut value = db.get(key(id(1), 2)).unwrap().unwrap().to_vec();
            value[0] = schema;
            db.insert(key(id(1), 2), value).unwrap();
        });
        let other = |error: &Error| matches!(error, Error::OtherSchema { seq: 2, found, .. } if *found == schema);
        let reader = Reader::open(dir.path()).unwrap();
        let error = reader.read(id(1), 1).unwrap_err();
        assert!(other(&error) && error.to_string().contains(advice), "{error}");
        let damage = found(dir.path());
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(damage[0].1.contains(advice), "{damage:?}");
        let store = Store::open(dir.path()).unwrap();
        let error = store.log(id(1), None).unwrap().read().unwrap_err();
        assert!(other(&error), "{error}");
    }
}

#[test]
fn payloads_that_are_missing_or_wrong_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let big = envelope(id(1), 2, text(2, 100_000));
    let configure = leftfold_events::event::Turn::Configured(crate::common::configured());
    write(
        dir.path(),
        &[vec![envelope(id(1), 1, created(None)), big, envelope(id(1), 3, configure)]],
    );
    let file = fs::read_dir(dir.path().join("payloads")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&file).unwrap();
    let mut wrong = bytes.clone();
    wrong[5] ^= 1;
    fs::write(&file, &wrong).unwrap();
    assert!(found(dir.path())[0].1.contains("SHA-256 differs"));
    fs::write(&file, &bytes[1..]).unwrap();
    assert!(
        found(dir.path())[0].1.contains("99999 were") || found(dir.path())[0].1.contains("has")
    );
    fs::remove_file(&file).unwrap();
    let report = check(dir.path()).unwrap();
    assert_eq!(report.damage.len(), 1, "{report:?}");
    assert!(report.damage[0].file.starts_with("payloads/"));
    fs::write(&file, bytes).unwrap();
    let mut payload = vec![0xff; 16];
    payload.extend(Sha256::digest(b"{}").as_bytes());
    payload.push(0);
    tamper(dir.path(), |db| drop(db.remove(payload).unwrap().unwrap()));
    let found = found(dir.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("it is missing"), "{found:?}");
}

#[test]
fn children_and_forks_need_those_that_they_name() {
    let spawned = |seq, child| {
        let (call, agent) = ("c".to_owned(), "a".to_owned());
        envelope(id(1), seq, Subagent::Spawned { call, session: child, agent, max_cost: None })
    };
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[
            // id(5) was announced, and a crash came before it began
            vec![envelope(id(1), 1, created(None)), spawned(2, id(2)), spawned(3, id(5))],
            vec![envelope(id(2), 1, created(Some(id(1))))],
            vec![envelope(id(3), 1, created(Some(id(1))))],
            vec![envelope(id(4), 1, created(Some(id(99))))],
            vec![envelope(id(6), 3, Session::Forked { from: id(1), at: 2 })],
        ],
    );
    let damage = check(dir.path()).unwrap().damage;
    let sessions: Vec<_> = damage.iter().map(|damage| damage.session.unwrap()).collect();
    assert_eq!(sessions, [id(3), id(4)], "{damage:?}");
    assert!(damage[0].what.contains("no subagent.spawned"));
    assert!(damage[1].what.contains("is not in the store"));
    tamper(dir.path(), |db| drop(db.remove(key(id(1), 2)).unwrap().unwrap()));
    let damage = check(dir.path()).unwrap().damage;
    let fork = damage.iter().find(|damage| damage.session == Some(id(6))).unwrap();
    assert!(fork.what.contains("is a fork of"), "{fork}");
}

#[test]
fn pruned_spill_files_are_reported_apart() {
    let dir = tempfile::tempdir().unwrap();
    let spill = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name).to_string_lossy().into_owned();
        let spill = Some(Spill { path, sha256: Sha256::digest(bytes), bytes: bytes.len() as u64 });
        Tool::Finished(Box::new(Finished { spill, ..finished() }))
    };
    let events = vec![
        envelope(id(1), 1, spill("there", b"full text")),
        envelope(id(1), 2, spill("gone", b"full text")),
        envelope(id(1), 3, spill("other", b"full text")),
    ];
    fs::write(dir.path().join("there"), b"full text").unwrap();
    fs::write(dir.path().join("other"), b"other text").unwrap();
    let store = dir.path().join("store");
    write(&store, &[events]);
    let report = check(&store).unwrap();
    assert_eq!((report.events, report.damage), (3, vec![]));
    let spills: Vec<_> = report.spills.iter().map(|spill| (spill.seq, &*spill.what)).collect();
    assert_eq!(spills, [(2, "pruned"), (3, "changed")]);
}

#[test]
fn pruned_records_of_requests_are_reported_apart() {
    use leftfold_events::Notes;
    use leftfold_events::event::{Exchange, FailureClass, Model, Record};
    let dir = tempfile::tempdir().unwrap();
    let answered = |seq: u64| {
        let failed = Model::Failed {
            class: FailureClass::Invalid,
            message: "no".into(),
            status: Some(400),
            retryable: false,
            retry_after: None,
        };
        let record = Some(Record { sha256: Sha256::digest(b"exchange"), bytes: 8 });
        let notes = Notes::of_exchange(Exchange { record, ..Exchange::default() });
        Envelope { of: Some(seq - 1), notes, ..envelope(id(1), seq, failed) }
    };
    write(
        dir.path(),
        &[vec![envelope(id(1), 1, created(None)), answered(2), answered(3), answered(4)]],
    );
    let record = |of: u64, bytes: &[u8]| {
        let path = leftfold_store::wire_record(dir.path(), id(1), of);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    record(1, b"exchange");
    record(3, b"something else");
    let report = check(dir.path()).unwrap();
    assert_eq!(report.damage, []);
    let found: Vec<_> =
        report.spills.iter().map(|fault| (fault.seq, &*fault.what, fault.is_record)).collect();
    assert_eq!(found, [(3, "pruned", true), (4, "changed", true)]);
}

#[test]
fn a_broken_snapshot_of_sleds_costs_no_event() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[texts(id(1), 1, 5, 50)]);
    drop(Store::open(dir.path()).unwrap());
    let is_snapshot = |path: &std::path::PathBuf| path.to_string_lossy().contains("snap.");
    let mut files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let snapshot = files.find(is_snapshot).unwrap();
    fs::write(&snapshot, b"this is not a snapshot at all").unwrap();
    let found = found(dir.path());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("without sled's snapshot"), "{found:?}");
    assert_eq!(Reader::open(dir.path()).unwrap().read(id(1), 1).unwrap(), texts(id(1), 1, 5, 50));
}

#[test]
fn damage_has_its_public_form() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[texts(id(1), 1, 2, 50)]);
    tamper(dir.path(), |db| drop(db.remove(key(id(1), 2)).unwrap()));
    let damage = &check(dir.path()).unwrap().damage[0];
    let json = serde_json::to_string(damage).unwrap();
    let expected = format!(
        r#"{{"file":"db","offset":null,"session":"{}","seq":2,"what":"{}"}}"#,
        id(1),
        damage.what
    );
    assert_eq!(json, expected);
}
