//! Measures reading a session of 100,000 events: time to print the state at the first, middle and
//! last event, with its files cached and not cached; time of a step after that, forward, back and
//! across the whole session; events a second that `verify` compares. `cargo bench --bench replay`.
//! A second argument sets another number of events.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints or fails")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::long_log;
use leftfold_events::{Envelope, SessionId, fold, verify};
use leftfold_store::{Reader, Store};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 9;
const STEPS: usize = 40;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let log = long_log::session(wanted.unwrap_or(EVENTS));
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let session = log[0].session;
    let store = folder.path().join(session.to_string());
    {
        let open = Store::open(&store).unwrap();
        open.import(session, &log).unwrap();
    }
    let bytes = std::fs::metadata(store.join("db")).unwrap().len();
    println!("{} events, {:.0} MiB", log.len(), bytes as f64 / f64::from(1 << 20));
    parts(&store, session, &log);
    for at in [1, log.len() / 2, log.len()] {
        println!("state at {at}: {:.0} ms warm", ms(median(|| state_at(&store, at))));
        let cold = median(|| {
            forget(folder.path());
            state_at(&store, at)
        });
        println!("state at {at}: {:.0} ms cold", ms(cold));
    }
    steps(&store, log.len());
}

/// Breaks the time down, in this process.
fn parts(store: &Path, session: SessionId, log: &[Envelope]) {
    let opening = median(|| time(|| drop(Reader::open(store).unwrap())));
    let reading = median(|| {
        let reader = Reader::open(store).unwrap();
        time(|| assert_eq!(reader.read(session, 1).unwrap().len(), log.len()))
    });
    let folding = median(|| time(|| drop(fold(log))));
    println!(
        "opening {:.0} ms, reading {:.0}, folding {:.0}",
        ms(opening),
        ms(reading),
        ms(folding)
    );
    let verifying = time(|| assert!(verify(log).is_empty())).as_secs_f64();
    println!("verify: {:.0} events/s", log.len() as f64 / verifying);
    let short = &log[..log.len().min(10_000)];
    let verifying = median(|| time(|| drop(verify(short)))).as_secs_f64();
    println!("verify of the first {}: {:.0} events/s", short.len(), short.len() as f64 / verifying);
}

fn state_at(store: &Path, at: usize) -> Duration {
    time(|| {
        let mut replay =
            program(&["replay", store.to_str().unwrap(), "--state", "--at", &at.to_string()]);
        let state = replay.stdout(Stdio::piped()).output().unwrap();
        assert!(state.status.success() && state.stdout.starts_with(b"{"));
    })
}

/// Times steps forward, back and far, each until its last line is printed.
fn steps(store: &Path, events: usize) {
    let began = Instant::now();
    let start = (events / 2).to_string();
    let mut replay = program(&["replay", store.to_str().unwrap(), "--step", "--at", &start]);
    let mut replay = replay.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = replay.stdin.take().unwrap();
    let mut lines = BufReader::new(replay.stdout.take().unwrap()).lines();
    // an event is printed as several lines; the last shows the state of the session
    let mut told = || while !lines.next().unwrap().unwrap().contains(" messages, $") {};
    told();
    println!("the first event of a walk: {:.0} ms", ms(began.elapsed()));
    for way in ["forward", "back", "anywhere"] {
        let line = |n: usize| match way {
            "forward" => String::new(),
            "back" => "p".to_owned(),
            _ => (n * 7_919 % events + 1).to_string(),
        };
        let mut times: Vec<Duration> = (0..STEPS)
            .map(|n| {
                time(|| {
                    writeln!(input, "{}", line(n)).unwrap();
                    told();
                })
            })
            .collect();
        times.sort_unstable();
        println!(
            "a step {way}: {:.2} ms, at most {:.2}",
            ms(times[STEPS / 2]),
            ms(times[STEPS - 1])
        );
    }
    drop(input);
    replay.wait().unwrap();
}

/// Makes the system drop all files below a folder from its cache.
fn forget(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            forget(&path);
            continue;
        }
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leftfold"));
    command.args(args).env_remove("LEFTFOLD_HOME");
    command
}

fn time(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

fn median(mut work: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..ROUNDS).map(|_| work()).collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
