//! Salvage: everything that can still be read of a damaged store is kept, and every loss is named.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::rich::{Logs, Random, copy, count, files, in_parallel, logs, memory, store};
use crate::common::{envelope, id, prompted, text, texts};
use crate::tally::Tally;
use leftfold_events::event::{Session, Subagent};
use leftfold_events::{Envelope, SessionId};
use leftfold_store::{Error, Reader, Rescued, Salvaged, Store, check, in_use, salvage};

/// Opens sled directly, to make changes that this crate never makes.
fn tamper(dir: &Path, change: impl FnOnce(&sled::Db)) {
    let config = sled::Config::default().path(dir).segment_size(256 << 10).flush_every_ms(None);
    let db = config.open().unwrap();
    change(&db);
    db.flush().unwrap();
}

fn key(session: SessionId, seq: u64, part: u8) -> Vec<u8> {
    let mut key = session.to_bytes().to_vec();
    key.extend(seq.to_be_bytes());
    key.push(part);
    key
}

fn of(salvaged: &Salvaged, session: SessionId) -> &Rescued {
    salvaged.sessions.iter().find(|rescued| rescued.session == session).unwrap()
}

fn seqs(events: &[Envelope]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// sled's threads release a database a moment after it was dropped.
fn wait_until_free(dir: &Path) {
    let start = Instant::now();
    while in_use(dir) {
        assert!(start.elapsed() < Duration::from_secs(60), "nobody closes {}", dir.display());
        std::thread::yield_now();
    }
}

/// Salvages the store and checks what always holds: the old store is unchanged, the new one is
/// sound, its logs are beginnings of the old ones and can be continued, and no event is returned
/// twice.
fn saved(dir: &Path, logs: &Logs, case: &str) -> Option<Salvaged> {
    wait_until_free(dir);
    let before = files(dir);
    let to = memory();
    let result = salvage(dir, to.path());
    assert!(files(dir) == before, "{case}: the old store has changed");
    let salvaged = match result {
        Ok(salvaged) => salvaged,
        Err(Error::Damaged { .. }) => return None,
        Err(error) => panic!("{case}: {error}"),
    };
    assert_eq!(check(to.path()).unwrap().damage, [], "{case}: the new store");
    let reader = Reader::open(to.path()).unwrap();
    for rescued in &salvaged.sessions {
        let (_, whole) = logs.iter().find(|(session, _)| *session == rescued.session).unwrap();
        let found = reader.read(rescued.session, 1).unwrap();
        assert!(whole.starts_with(&found), "{case}: {rescued:?}");
        assert!(
            rescued.beside.iter().all(|event| bare(whole).contains(&bare_one(event))),
            "{case}"
        );
        let own = whole.iter().filter(|event| event.session == rescued.session);
        let kept = found.iter().filter(|event| event.session == rescued.session).count();
        let lost: u64 = rescued.lost().iter().map(|(first, last)| last - first + 1).sum();
        // if a fork's first event is lost, its beginning is unknown
        let known = rescued.kept.is_some() || rescued.session != id(3);
        let sum = kept + rescued.beside.len() + usize::try_from(lost).unwrap();
        assert!(!known || sum >= own.count().min(sum + 1), "{case}: {rescued:?}");
        assert_eq!(
            rescued.why.is_none(),
            rescued.beside.is_empty() && lost == 0,
            "{case}: {rescued:?}"
        );
    }
    go_on(to.path(), &salvaged, case);
    Some(salvaged)
}

/// Lost contents are empty in an event that was read by itself.
fn bare(events: &[Envelope]) -> Vec<String> {
    events.iter().map(bare_one).collect()
}

fn bare_one(event: &Envelope) -> String {
    leftfold_events::line::write(event)
}

fn go_on(dir: &Path, salvaged: &Salvaged, case: &str) {
    let store = Store::open(dir).unwrap();
    for rescued in &salvaged.sessions {
        let Some((_, last)) = rescued.kept else { continue };
        let mut log = store.log(rescued.session, None).unwrap();
        assert_eq!(log.head(), last, "{case}");
        log.append_wait(&[envelope(rescued.session, last + 1, text(last, 30))]).unwrap();
    }
}

#[test]
fn of_a_sound_store_everything_is_kept() {
    let sample = store();
    let logs = logs(sample.path());
    let salvaged = saved(sample.path(), &logs, "sound").unwrap();
    assert!(salvaged.sessions.iter().all(|s| s.beside.is_empty() && s.lost().is_empty()));
    assert_eq!(salvaged.sessions.len(), 3);
    assert_eq!(
        (salvaged.fragments.len(), salvaged.payloads.len(), salvaged.files.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_lost_record_costs_one_event_and_what_is_behind_it_is_kept_beside_the_log() {
    let sample = store();
    let logs = logs(sample.path());
    tamper(sample.path(), |db| drop(db.remove(key(id(1), 4, 0)).unwrap().unwrap()));
    let salvaged = saved(sample.path(), &logs, "gap").unwrap();
    let root = of(&salvaged, id(1));
    assert_eq!((root.kept, seqs(&root.beside)), (Some((1, 3)), vec![5, 6, 7, 8, 9]));
    assert_eq!(root.lost(), [(4, 4)]);
    // the fork shares events after the gap, and the child is named there
    assert_eq!((of(&salvaged, id(3)).kept, of(&salvaged, id(2)).kept), (None, None));
    assert_eq!(seqs(&of(&salvaged, id(3)).beside), [7, 8, 9]);
    assert_eq!(seqs(&of(&salvaged, id(2)).beside), [1, 2, 3]);
    assert!(of(&salvaged, id(3)).why.as_ref().unwrap().what.contains("shares"));
}

#[test]
fn a_fork_and_a_child_before_the_gap_are_whole() {
    let sample = store();
    let logs = logs(sample.path());
    tamper(sample.path(), |db| drop(db.remove(key(id(1), 8, 0)).unwrap().unwrap()));
    let salvaged = saved(sample.path(), &logs, "gap").unwrap();
    assert_eq!(of(&salvaged, id(1)).kept, Some((1, 7)));
    assert_eq!(of(&salvaged, id(3)).kept, Some((7, 9)));
    assert_eq!(of(&salvaged, id(2)).kept, Some((1, 3)));
}

#[test]
fn parts_of_an_event_that_is_not_whole_are_kept_as_they_are() {
    let sample = store();
    let logs = logs(sample.path());
    tamper(sample.path(), |db| drop(db.remove(key(id(2), 3, 1)).unwrap().unwrap()));
    let salvaged = saved(sample.path(), &logs, "part").unwrap();
    let child = of(&salvaged, id(2));
    assert_eq!((child.kept, child.lost()), (Some((1, 2)), vec![(3, 3)]));
    assert!(child.why.as_ref().unwrap().what.contains("it has 1 parts where 2 were written"));
    let keys: Vec<_> = salvaged.fragments.iter().map(|f| (f.session, f.seq)).collect();
    assert_eq!(keys, [(Some(id(2)), Some(3))]);
}

#[test]
fn a_file_with_contents_is_named_when_it_is_lost_and_found_when_its_record_is() {
    let sample = store();
    let logs = logs(sample.path());
    let damaged = memory();
    copy(sample.path(), damaged.path());
    let file =
        fs::read_dir(damaged.path().join("payloads")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&file).unwrap();
    let salvaged = saved(damaged.path(), &logs, "file").unwrap();
    let root = of(&salvaged, id(1));
    assert_eq!(
        (root.kept, root.lost(), seqs(&root.beside)),
        (Some((1, 6)), vec![(7, 7)], vec![8, 9])
    );
    assert!(root.why.as_ref().unwrap().file.starts_with("payloads/"));
    // the event is in the file: without its record it is found by the file's name
    tamper(sample.path(), |db| drop(db.remove(key(id(1), 7, 0)).unwrap().unwrap()));
    let salvaged = saved(sample.path(), &logs, "record").unwrap();
    let root = of(&salvaged, id(1));
    assert_eq!((root.kept, root.lost(), seqs(&root.beside)), (Some((1, 6)), vec![], vec![7, 8, 9]));
}

#[test]
fn a_database_that_cannot_be_opened_at_all_is_said_to_be() {
    let dir = memory();
    Store::open(dir.path())
        .unwrap()
        .log(id(1), None)
        .unwrap()
        .append_wait(&texts(id(1), 1, 3, 40))
        .unwrap();
    fs::write(dir.path().join("db"), vec![0xa5; 300_000]).unwrap();
    let to = memory();
    wait_until_free(dir.path());
    let error = salvage(dir.path(), to.path()).unwrap_err();
    assert!(error.to_string().contains("nothing to salvage"), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0, "nothing was made");
    let _node = Store::open(to.path()).unwrap();
    assert!(matches!(salvage(to.path(), dir.path()), Err(Error::Locked { .. })));
}

/// In a log that was never closed, sled reads nothing after a torn message; salvage does.
#[test]
fn a_flipped_byte_costs_one_event_and_its_place_is_told() {
    let dir = memory();
    let open = memory();
    let events = texts(id(1), 1, 30, 200);
    {
        let store = Store::open(dir.path()).unwrap();
        let mut log = store.log(id(1), None).unwrap();
        events.iter().for_each(|event| log.append_wait(std::slice::from_ref(event)).unwrap());
        copy(dir.path(), open.path());
    }
    let bytes = fs::read(open.path().join("db")).unwrap();
    let Envelope { event, .. } = &events[14];
    let title = format!("{event:?}").split('"').nth(1).unwrap().to_owned();
    let at = bytes.windows(title.len()).position(|window| window == title.as_bytes()).unwrap();
    let db = File::options().write(true).open(open.path().join("db")).unwrap();
    db.write_all_at(b"#", at as u64 + 9).unwrap();
    let report = check(open.path()).unwrap();
    let place = report.damage.iter().find_map(|damage| damage.offset).unwrap();
    assert!((1..400).contains(&(at as u64 - place)), "{at}: {report:?}");
    assert_eq!(Reader::open(open.path()).unwrap().read_good(id(1)).0.len(), 14);
    let salvaged = saved(open.path(), &vec![(id(1), events)], "torn").unwrap();
    let rescued = of(&salvaged, id(1));
    // sled rewrites whole pages from time to time, so the event itself may have a second copy
    let lost: u64 = rescued.lost().iter().map(|(first, last)| last - first + 1).sum();
    assert!(lost <= 1, "{rescued:?}");
}

#[test]
fn whatever_byte_is_flipped_what_can_be_read_is_kept() {
    let sample = store();
    let logs = logs(sample.path());
    let total: usize = logs.iter().map(|(session, events)| own(*session, events)).sum();
    let mut cases = Vec::new();
    for (file, bytes) in files(sample.path()) {
        let telling = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        cases.extend(telling.map(|(offset, _)| (file.clone(), offset)));
    }
    let cases = Random::new().some(cases, count("LEFTFOLD_SALVAGES", 30));
    let tally = Tally::promise(15, "salvage")
        .counts(&["flips", "events", "readable before", "kept"])
        .never(&["flips that lost a readable event"]);
    in_parallel(&cases, |mine| {
        let dir = memory();
        copy(sample.path(), dir.path());
        for (file, offset) in mine {
            let case = format!("{} at {offset}", file.display());
            let path = dir.path().join(file);
            let whole = fs::read(&path).unwrap();
            let mut bytes = whole.clone();
            bytes[*offset] ^= 0x24;
            fs::write(&path, bytes).unwrap();
            // each flip is applied to a fresh store
            let good = |reader: Reader| -> usize {
                logs.iter().map(|(session, _)| own(*session, &reader.read_good(*session).0)).sum()
            };
            let before = Reader::open(dir.path()).map_or(0, good);
            let after = saved(dir.path(), &logs, &case).map_or(0, |salvaged| {
                let of = |s: &Rescued| s.beside.len() as u64 + s.kept.map_or(0, |(a, b)| b - a + 1);
                usize::try_from(salvaged.sessions.iter().map(of).sum::<u64>()).unwrap()
            });
            tally.check("flips that lost a readable event", after >= before, || {
                format!("{case}: {after} of {before} readable events")
            });
            tally.add("flips", 1);
            tally.add("events", total);
            tally.add("readable before", before);
            tally.add("kept", after);
            fs::write(&path, whole).unwrap();
        }
    });
    assert!(tally.get("kept") > tally.get("readable before"));
    tally.finish();
}

fn own(session: SessionId, events: &[Envelope]) -> usize {
    events.iter().filter(|event| event.session == session).count()
}

/// A forked child shares events of one session and belongs to another. It is kept only with both.
#[test]
fn a_forked_child_is_kept_only_if_its_parents_log_names_it() {
    let (child, fork, heir) = (id(2), id(3), id(4));
    let spawned = Subagent::Spawned {
        call: "c".into(),
        session: heir,
        agent: "explore".into(),
        max_cost: None,
    };
    let batches = [
        vec![envelope(fork, 10, text(10, 10)), envelope(fork, 11, spawned)],
        vec![
            envelope(heir, 4, Session::Forked { from: child, at: 3 }),
            envelope(heir, 5, Session::Adopted { parent: fork }),
            envelope(heir, 6, prompted()),
        ],
    ];
    for lost in [false, true] {
        let sample = store();
        let opened = Store::open(sample.path()).unwrap();
        for batch in &batches {
            opened.log(batch[0].session, None).unwrap().append_wait(batch).unwrap();
        }
        drop(opened);
        let logs = logs(sample.path());
        assert_eq!(check(sample.path()).unwrap().damage, []);
        if lost {
            tamper(sample.path(), |db| drop(db.remove(key(fork, 10, 0)).unwrap().unwrap()));
        }
        let salvaged = saved(sample.path(), &logs, "heir").unwrap();
        let heir = of(&salvaged, heir);
        assert_eq!(heir.kept, (!lost).then_some((4, 6)));
        assert_eq!(heir.beside.len(), if lost { 3 } else { 0 });
    }
}
