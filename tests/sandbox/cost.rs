//! The time that the sandbox adds to a command.

use std::io::{Write, stderr};
use std::time::{Duration, Instant};

use crate::confined::{Confined, User, backends};

const RUNS: usize = 30;

/// The promise for a release build. The debug build is four times as large and slower to start.
const MAX_START: Duration = Duration::from_millis(if cfg!(debug_assertions) { 60 } else { 15 });

#[test]
fn a_start_takes_less_than_15_ms() {
    for user in User::all() {
        let site = Confined::new(*user);
        let mut plain: Vec<Duration> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                assert!(site.unconfined("true").status().unwrap().success());
                start.elapsed()
            })
            .collect();
        plain.sort();
        for backend in backends(*user) {
            let profile = site.profile(backend);
            let mut times: Vec<Duration> = (0..RUNS)
                .map(|_| {
                    let start = Instant::now();
                    assert_eq!(site.run(&profile, "true").report.code, Some(0));
                    start.elapsed()
                })
                .collect();
            times.sort();
            let line = format!(
                "{backend:?} as {}: minimum {:?}, median {:?}; without {:?}, {:?}\n",
                user.kind(),
                times[0],
                times[RUNS / 2],
                plain[0],
                plain[RUNS / 2],
            );
            stderr().write_all(line.as_bytes()).unwrap();
            assert!(times[0] < MAX_START, "{line}");
        }
    }
}
