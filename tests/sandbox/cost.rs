//! The time that the sandbox adds to a command.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use crate::confined::{Confined, User, backends};

/// The promise for a release build. The debug build is four times as large and slower to start.
const MAX_START: Duration = Duration::from_millis(if cfg!(debug_assertions) { 60 } else { 15 });

/// A machine that does other work at the same time is tried until it gives a start its time.
const STARTS: std::ops::RangeInclusive<usize> = 10..=200;

#[test]
fn a_start_takes_less_than_15_ms() {
    for user in User::all() {
        let site = Confined::new(*user);
        let plain = quickest(|| assert!(site.unconfined("true").status().unwrap().success()));
        for backend in backends(*user) {
            let profile = site.profile(backend);
            let start = quickest(|| assert_eq!(site.run(&profile, "true").report.code, Some(0)));
            let line = format!("{backend:?} as {}: {start:?}; without {plain:?}\n", user.kind());
            stderr().write_all(line.as_bytes()).unwrap();
            assert!(start < MAX_START, "{line}");
        }
    }
}

fn quickest(start: impl Fn()) -> Duration {
    let mut quickest = Duration::MAX;
    for n in 1..=*STARTS.end() {
        let begun = Instant::now();
        start();
        quickest = quickest.min(begun.elapsed());
        if n >= *STARTS.start() && quickest < MAX_START {
            break;
        }
    }
    quickest
}
