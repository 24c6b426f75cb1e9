//! Compares the cost of a durable append with a plain file. Everything runs in one process, in
//! interleaved blocks, so that a slow phase of the disk affects every candidate.
//!
//! Run it with `cargo bench -p leftfold-store --bench append [FOLDER]`. The folder decides which
//! disk is measured.
#![allow(clippy::print_stdout, reason = "its output is the point of a benchmark")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Notes, SessionId, Time};
use leftfold_store::{Log, Reader, Store};

const BLOCKS: usize = 5;
const APPENDS: u64 = 300;
const SIZE: usize = 1_024;
const SESSIONS: u64 = 100;

fn main() {
    let folder = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let folder = folder.map_or_else(std::env::temp_dir, Into::into);
    let dir = tempfile::tempdir_in(folder).unwrap();
    appends(dir.path());
    sessions(dir.path());
    reading(dir.path());
}

fn event(session: SessionId, seq: u64) -> Envelope {
    let title = "x".repeat(SIZE - 40);
    let at = Time::from_millis(1_700_000_000_000 + seq);
    Envelope {
        session,
        seq,
        at,
        of: None,
        until: None,
        event: Session::Titled { title }.into(),
        notes: Notes::default(),
    }
}

fn id(n: u64) -> SessionId {
    SessionId::default().child(n, Time::from_millis(1_700_000_000_000))
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn block(mut append: impl FnMut()) -> Duration {
    let times = (0..APPENDS).map(|_| {
        let start = Instant::now();
        append();
        start.elapsed()
    });
    median(times.collect())
}

/// One durable append of 1 KiB: to a growing file, to a file whose blocks exist, to the log.
fn appends(dir: &Path) {
    let record = vec![0x5a; SIZE];
    let mut growing = File::create(dir.join("growing")).unwrap();
    let existing = existing(&dir.join("existing"));
    let store = Store::open(&dir.join("one")).unwrap();
    let mut log = store.log(id(1), None).unwrap();
    let mut offset = 0;
    let mut results = Vec::new();
    for _ in 0..BLOCKS {
        let grown = block(|| {
            growing.write_all(&record).unwrap();
            growing.sync_data().unwrap();
        });
        let overwritten = block(|| {
            existing.write_all_at(&record, offset).unwrap();
            existing.sync_data().unwrap();
            offset += SIZE as u64;
        });
        let logged = block(|| append(&mut log));
        let pair = block(|| append_pair(&mut log));
        results.push([grown, overwritten, logged, pair]);
    }
    let [grown, overwritten, logged, pair] =
        [0, 1, 2, 3].map(|n| median(results.iter().map(|block| block[n]).collect()));
    println!("durable append of 1 KiB, medians of {BLOCKS} blocks of {APPENDS}:");
    println!("  growing file {grown:?}, existing blocks {overwritten:?}, log {logged:?}");
    println!("  log / growing  {:.2}  (target 1.3)", ratio(logged, grown));
    println!("  log / existing {:.2}  (target 2.2)", ratio(logged, overwritten));
    println!("  two events in one batch: {pair:?}");
}

fn existing(path: &Path) -> File {
    let bytes = usize::try_from(APPENDS).unwrap() * BLOCKS * SIZE;
    let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).unwrap();
    file.write_all_at(&vec![0; bytes], 0).unwrap();
    file.sync_all().unwrap();
    file
}

fn append(log: &mut Log) {
    log.append_wait(&[event(log.session(), log.head() + 1)]).unwrap();
}

fn append_pair(log: &mut Log) {
    let seq = log.head() + 1;
    log.append_wait(&[event(log.session(), seq), event(log.session(), seq + 1)]).unwrap();
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}

/// Events per second: one session that waits for each event, and a hundred sessions that each wait
/// for their own.
fn sessions(dir: &Path) {
    let store = Store::open(&dir.join("many")).unwrap();
    let mut one = store.log(id(1_000), None).unwrap();
    let mut logs: Vec<Log> = (1..=SESSIONS).map(|n| store.log(id(n), None).unwrap()).collect();
    let (mut single, mut many) = (Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        let start = Instant::now();
        (0..APPENDS).for_each(|_| append(&mut one));
        single.push(start.elapsed() / u32::try_from(APPENDS).unwrap());
        many.push(rounds(&mut logs) / u32::try_from(SESSIONS * 30).unwrap());
    }
    let (single, many) = (median(single), median(many));
    println!("{SESSIONS} sessions in one store: {many:?} an event; one session: {single:?}");
    println!("  rate of all / rate of one {:.1}  (target 10)", ratio(single, many));
}

/// Each session appends its next event when its last one is acknowledged, thirty times.
fn rounds(logs: &mut [Log]) -> Duration {
    let (sender, receiver) = mpsc::channel();
    let send = |log: &mut Log, n: usize| {
        let sender = sender.clone();
        let event = event(log.session(), log.head() + 1);
        log.append(&[event], move |result| {
            result.unwrap();
            sender.send(n).unwrap();
        });
    };
    let start = Instant::now();
    let mut left = vec![29; logs.len()];
    logs.iter_mut().enumerate().for_each(|(n, log)| send(log, n));
    for _ in 0..logs.len() * 30 {
        let n = receiver.recv().unwrap();
        if left[n] > 0 {
            left[n] -= 1;
            send(&mut logs[n], n);
        }
    }
    start.elapsed()
}

/// Opening a store of 1,000 events, as a node and as a reader, and decoding them.
fn reading(dir: &Path) {
    let path = dir.join("cold");
    let store = Store::open(&path).unwrap();
    let mut log = store.log(id(1), None).unwrap();
    for _ in 0..100 {
        let next = log.head() + 1;
        let batch: Vec<_> = (next..next + 10).map(|seq| event(id(1), seq)).collect();
        log.append_wait(&batch).unwrap();
    }
    drop((log, store));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..20 {
        let start = Instant::now();
        assert_eq!(Reader::open(&path).unwrap().read(id(1), 1).unwrap().len(), 1_000);
        times[0].push(start.elapsed());
        let start = Instant::now();
        let store = Store::open(&path).unwrap();
        times[2].push(start.elapsed());
        assert_eq!(store.log(id(1), None).unwrap().read().unwrap().len(), 1_000);
        times[1].push(start.elapsed());
    }
    let [reader, node, open] = times.map(median);
    println!("1,000 events of 1 KiB from a closed store (target with fold 6 ms):");
    println!("  as a reader {reader:?}, as a node {node:?} (of which opening {open:?})");
}
