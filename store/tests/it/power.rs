//! Simulated power cuts. A cut loses writes that were not synced yet. Any part of those may have
//! reached the disk; opening the store must then give a beginning of each log that has all
//! acknowledged events, or report the loss.
//!
//! A cut comes between two syncs. There are two images of `db`: the one that the first sync made
//! durable, and the one at the start of the second sync. The disk holds the older image and any
//! part of the newer one: its beginning up to some sector (in a file that ends there, or that keeps
//! its old length), or its end from there on. `LEFTFOLD_CUTS` is the number of cuts to test; `all`
//! tests every one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::rich::{Random, batches, count, files, in_parallel, memory};
use crate::common::{envelope, id, text};
use crate::tally::Tally;
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::{Error, Reader, Store, check};

const SECTOR: usize = 512;

type Files = BTreeMap<PathBuf, Vec<u8>>;
/// The events that a session has, or may have.
type Logs = BTreeMap<SessionId, Vec<Envelope>>;

/// A moment between two syncs.
struct Moment {
    /// The files as the first sync left them, with the heads that were written after it.
    before: Files,
    /// `db` with all writes up to the second sync.
    after: Vec<u8>,
    acknowledged: Logs,
    written: Logs,
}

/// The part of the newer image that is on the disk.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// Its beginning; the file ends there.
    Short,
    /// Its beginning, followed by the older bytes.
    Beginning,
    /// Its end, preceded by the older bytes.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    moment: usize,
    at: usize,
    left: Left,
    /// Whether power is cut a second time while sled recovers from the first cut.
    again: bool,
}

/// The history of a store: small and large batches of several sessions, closed and opened again.
fn life() -> Vec<Moment> {
    let dir = memory();
    let mut steps = batches(dir.path());
    // past the end of sled's first segment and into the next
    steps.extend((10..18).map(|seq| vec![envelope(id(1), seq, text(seq, 40_000))]));
    steps.push(vec![envelope(id(2), 4, text(4, 300)), envelope(id(2), 5, text(5, 9_000))]);
    let (mut moments, mut logs) = (Vec::new(), Logs::new());
    for opening in steps.chunks(7) {
        let store = Store::open(dir.path()).unwrap();
        for batch in opening {
            let (before, acknowledged) = (files(dir.path()), logs.clone());
            store.log(batch[0].session, None).unwrap().append_wait(batch).unwrap();
            add(&mut logs, batch);
            let mut now = files(dir.path());
            let after = now.remove(Path::new("db")).unwrap();
            // content files are synced before the records that name them are written
            let files = now.into_iter().filter(|(path, _)| path.starts_with("payloads"));
            let before = before.into_iter().chain(files).collect();
            moments.push(Moment { before, after, acknowledged, written: logs.clone() });
        }
    }
    moments
}

fn add(logs: &mut Logs, batch: &[Envelope]) {
    let session = batch[0].session;
    // a fork begins with the shared events
    if session == id(3) && !logs.contains_key(&session) {
        let shared = logs[&id(1)].iter().take_while(|event| event.seq < batch[0].seq);
        let shared: Vec<_> = shared.cloned().collect();
        logs.insert(session, shared);
    }
    logs.entry(session).or_default().extend_from_slice(batch);
}

fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Cuts at every unsynced sector, in each of the ways.
fn cuts(moments: &[Moment]) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for (number, moment) in moments.iter().enumerate() {
        let (from, to) = (used(&moment.before[Path::new("db")]), used(&moment.after));
        for at in (from..to + SECTOR).step_by(SECTOR) {
            for left in [Left::Short, Left::Beginning, Left::End] {
                let again = cuts.len() % 5 == 0;
                cuts.push(Cut { moment: number, at, left, again });
            }
        }
    }
    cuts
}

fn mix(old: &[u8], new: &[u8], at: usize, left: Left) -> Vec<u8> {
    let length = old.len().max(new.len());
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(length, 0);
        bytes
    };
    let (old, new, at) = (padded(old), padded(new), at.min(length));
    match left {
        Left::Short => new[..at].to_vec(),
        Left::Beginning => [&new[..at], &old[at..]].concat(),
        Left::End => [&old[..at], &new[at..]].concat(),
    }
}

fn put(dir: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Cuts whose loss was reported.
const REPORTED: &str = "with a reported loss";
/// Cuts after which the unacknowledged batch is there.
const MORE_EVENTS: &str = "with more events than were acknowledged";
const SILENT: &str = "with an unreported loss";

/// Asserts that the log has all acknowledged events, or in addition all that were written.
fn assert_log(found: &[Envelope], moment: &Moment, session: SessionId, case: &str) -> bool {
    let written = &moment.written[&session];
    let none = Vec::new();
    let acknowledged = moment.acknowledged.get(&session).unwrap_or(&none);
    let whole = found == acknowledged.as_slice() || found == written.as_slice();
    // a fork's shared events can be read before its own first event is durable
    assert!(
        whole,
        "{case}: {session} has {} events, {} were acknowledged",
        found.len(),
        acknowledged.len()
    );
    found.len() > acknowledged.len()
}

fn look(dir: &Path, moment: &Moment, tally: &Tally, case: &str) {
    tally.add("cuts", 1);
    let report = check(dir).unwrap();
    if !report.damage.is_empty() {
        tally.add(REPORTED, 1);
        assert!(
            Store::open(dir)
                .and_then(|store| {
                    moment
                        .acknowledged
                        .keys()
                        .try_for_each(|session| store.log(*session, None).map(drop))
                })
                .is_err(),
            "{case}: it is damaged, and a node goes on with it: {:?}",
            report.damage
        );
        return;
    }
    let reader = Reader::open(dir).unwrap();
    let mut ahead = false;
    for session in moment.written.keys() {
        let found = reader.read(*session, 1).unwrap_or_else(|error| panic!("{case}: {error}"));
        ahead |= assert_log(&found, moment, *session, case);
    }
    tally.add(MORE_EVENTS, usize::from(ahead));
}

/// Opens the store as a node, appends to each session, and reads everything again.
fn go_on(dir: &Path, moment: &Moment, case: &str) {
    let mut logs = Logs::new();
    {
        let store = match Store::open(dir) {
            Ok(store) => store,
            Err(Error::Damaged { .. }) if !check(dir).unwrap().damage.is_empty() => return,
            Err(error) => panic!("{case}: {error}"),
        };
        for session in moment.written.keys() {
            let mut log =
                store.log(*session, None).unwrap_or_else(|error| panic!("{case}: {error}"));
            let mut events = log.read().unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_log(&events, moment, *session, case);
            if events.is_empty() {
                continue;
            }
            let seq: Seq = log.head() + 1;
            let more = envelope(*session, seq, text(seq, 700));
            log.append_wait(std::slice::from_ref(&more)).unwrap();
            events.push(more);
            logs.insert(*session, events);
        }
    }
    let report = check(dir).unwrap();
    assert_eq!(report.damage, [], "{case}: after going on");
    let reader = Reader::open(dir).unwrap();
    for (session, events) in logs {
        assert_eq!(reader.read(session, 1).unwrap(), events, "{case}: after going on");
    }
}

/// Cuts sled's recovery itself: `db` as written so far, and its snapshot.
fn recover(start: &Files, moment: &Moment, tally: &Tally, case: &str) {
    let dir = memory();
    put(dir.path(), start);
    let Ok(store) = Store::open(dir.path()) else { return };
    let after = files(dir.path());
    drop(store);
    let db = Path::new("db");
    let (old, new) = (&start[db], &after[db]);
    let differs = |n: &usize| old.get(*n) != new.get(*n);
    let sectors: Vec<usize> = (0..new.len()).filter(differs).map(|n| n / SECTOR * SECTOR).collect();
    let mut places: Vec<usize> = sectors.into_iter().collect();
    places.dedup();
    let is_snapshot = |path: &&PathBuf| path.to_string_lossy().starts_with("snap.");
    let snapshot = after.keys().find(is_snapshot).map(|path| (path, &after[path]));
    let mut places: Vec<usize> = places.iter().step_by(places.len() / 3 + 1).copied().collect();
    places.push(new.len());
    for (n, at) in places.into_iter().enumerate() {
        let mut image = start.clone();
        image.insert(db.to_owned(), mix(old, new, at, Left::Beginning));
        if let Some((path, bytes)) = snapshot {
            // the old snapshot is removed when the new one has its name
            let half = bytes[..bytes.len() / 2].to_vec();
            match n % 3 {
                0 => drop(image.insert(format!("{}.generating", path.display()).into(), half)),
                1 => drop(image.insert(path.clone(), bytes.clone())),
                _ => {}
            }
        }
        let case = format!("{case}, recovery cut at {at} with {:?}", image.keys());
        let dir = memory();
        put(dir.path(), &image);
        look(dir.path(), moment, tally, &case);
        go_on(dir.path(), moment, &case);
    }
}

fn run(cut: &Cut, moments: &[Moment], tally: &Tally) {
    let moment = &moments[cut.moment];
    let case = format!("{cut:?}");
    let mut image = moment.before.clone();
    let db = mix(&image[Path::new("db")], &moment.after, cut.at, cut.left);
    image.insert("db".into(), db);
    let dir = memory();
    put(dir.path(), &image);
    look(dir.path(), moment, tally, &case);
    go_on(dir.path(), moment, &case);
    if cut.again {
        recover(&image, moment, tally, &case);
    }
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged_without_a_word() {
    let moments = life();
    // the last cut of each moment, where everything is written, is always tested; of the others,
    // some
    let (ends, others): (Vec<Cut>, Vec<Cut>) = cuts(&moments)
        .into_iter()
        .partition(|cut| cut.at >= used(&moments[cut.moment].after) && !cut.again);
    let mut chosen = Random::new().some(others, count("LEFTFOLD_CUTS", 50));
    chosen.extend(ends);
    // threads take turns, so that each has cuts of all moments
    chosen.sort_by_key(|cut| (cut.at, cut.moment));
    let tally = Tally::promise(1, "power cuts")
        .counts(&["moments", "cuts", REPORTED, MORE_EVENTS])
        .never(&[SILENT]);
    tally.add("moments", moments.len());
    in_parallel(&chosen, |mine| {
        for cut in mine {
            tally.attempt(SILENT, format!("{cut:?}"), || run(cut, &moments, &tally));
        }
    });
    let (cuts, ahead) = (tally.get("cuts"), tally.get(MORE_EVENTS));
    tally.finish();
    assert!(ahead > 0 && ahead < cuts);
}
