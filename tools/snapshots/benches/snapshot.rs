//! Times a snapshot of a project of 10,000 files after one change, including git's two processes.
//! `cargo bench -p leftfold-snapshots --bench snapshot`.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its figures, or stops"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use leftfold_snapshots::Snapshots;
use tokio_util::sync::CancellationToken;

const FILES: usize = 10_000;
const FOLDERS: usize = 200;
const ROUNDS: usize = 15;
/// Until this time has passed, the next snapshot reads a freshly written file again.
const SETTLED: Duration = Duration::from_millis(2_500);

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let project = folder.path().join("project");
    grow(&project);
    let snapshots = Snapshots::new(&folder.path().join("data"), &project);
    let take = |since: Option<&str>| {
        let start = Instant::now();
        let taken = snapshots.take(since, &CancellationToken::new()).expect("a snapshot");
        (start.elapsed(), taken)
    };
    let (first, mut last) = take(None);
    println!("the first, of {FILES} files: {first:?}");
    std::thread::sleep(SETTLED);
    take(None);
    let (mut one, mut none) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        std::fs::write(project.join("d1/f1.rs"), format!("{round}\n")).expect("a file");
        let (time, taken) = take(Some(&last.tree));
        assert_eq!(taken.files.len(), 1);
        one.push(time);
        last = taken;
        none.push(take(Some(&last.tree)).0);
    }
    println!("with one changed file: {:?} (median of {ROUNDS})", median(one));
    println!("with none: {:?}", median(none));
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn grow(project: &Path) {
    for n in 0..FILES {
        let path = project.join(format!("d{}/f{n}.rs", n % FOLDERS));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, format!("fn number_{n}() {{}}\n").repeat(200)).expect("a file");
    }
}
