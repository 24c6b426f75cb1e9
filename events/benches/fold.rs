//! Measures how fast a log is folded in memory and verified, in events per second. `cargo bench -p
//! leftfold-events --bench fold`. A second argument sets the number of events.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a bench prints its figures or fails")]

#[allow(unreachable_pub, reason = "other crates share it as a library")]
#[path = "../../tests/common/long_log.rs"]
mod long_log;

use std::time::Instant;

use leftfold_events::{fold, verify};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 9;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let log = long_log::session(wanted.unwrap_or(EVENTS));
    let rate = |seconds: f64| log.len() as f64 / seconds / 1e6;
    let folding = median(|| drop(fold(&log)));
    println!("{} events: fold {:.2} million events/s", log.len(), rate(folding));
    let verifying = median(|| assert!(verify(&log).is_empty()));
    println!("{} events: verify {:.3} million events/s", log.len(), rate(verifying));
}

fn median(mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
