//! Measures opening a store as a reader and reading its session, for a session of 1,000 events and
//! one of 100,000. `cargo bench -p leftfold-store --bench read`. A second argument sets another
//! number of events.

#![allow(clippy::print_stdout, reason = "its output is the point of a benchmark")]
#![allow(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

#[allow(unreachable_pub, reason = "other crates share it as a library")]
#[path = "../../tests/common/long_log.rs"]
mod long_log;

use std::path::Path;
use std::time::{Duration, Instant};

use leftfold_events::{SessionId, fold};
use leftfold_store::{Reader, Store};

const ROUNDS: usize = 9;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let sizes = wanted.map_or(vec![1_000, 100_000], |wanted| vec![wanted]);
    for size in sizes {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let log = long_log::session(size);
        let session = log[0].session;
        let dir = folder.path().join(session.to_string());
        Store::open(&dir).unwrap().import(session, &log).unwrap();
        report(&dir, session, log.len());
    }
}

fn report(dir: &Path, session: SessionId, events: usize) {
    let bytes = std::fs::metadata(dir.join("db")).unwrap().len();
    println!("{events} events, {:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let reader = Reader::open(dir).unwrap();
        times[0].push(start.elapsed());
        let start = Instant::now();
        let log = reader.read(session, 1).unwrap();
        times[1].push(start.elapsed());
        assert_eq!(log.len(), events);
        let start = Instant::now();
        let state = fold(&log);
        times[2].push(start.elapsed());
        let start = Instant::now();
        drop((state, log, reader));
        times[3].push(start.elapsed());
    }
    let [opening, reading, folding, dropping] = times.map(median);
    println!(
        "  opening {opening:.1?}, reading {reading:.1?}, folding {folding:.1?}, dropping {dropping:.1?}"
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
