//! Times large changes beside `git apply`, which does the same without flushing to the disk: one line
//! of a file of 1 MiB, 1,000 hunks of it, and 100 files at once. `cargo bench -p leftfold-tools
//! --bench patch`.
//!
//! Both change equal files, and the bench checks that the results are equal. Ours runs in this process
//! with reading, writing, flushing and the diff; git's time includes its process start.

#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its figures, or stops"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use leftfold_tools::{Workspace, run_alone};
use serde_json::json;

/// Lines of a file of 1 MiB.
const LINES: usize = 21_000;
const HUNKS: usize = 1_000;
const FILES: usize = 100;
const ROUNDS: usize = 15;
/// Lines of context on both sides of a change.
const AROUND: usize = 3;

/// A file before the change, and the numbers of the lines that change.
struct File {
    name: String,
    lines: Vec<String>,
    changed: Vec<usize>,
}

fn main() {
    let file = |name: &str, lines: usize, changed: Vec<usize>| File {
        name: name.to_owned(),
        lines: (0..lines).map(line).collect(),
        changed,
    };
    let one = file("large.rs", LINES, vec![LINES / 2]);
    let args = json!({
        "filePath": "large.rs",
        "oldString": one.lines[LINES / 2],
        "newString": changed(&one.lines[LINES / 2]),
    });
    compare("a line of 1 MiB, with edit", "edit", &args.to_string(), &[one]);
    let hunks: Vec<usize> = (0..HUNKS).map(|n| 10 + n * (LINES / HUNKS)).collect();
    patch("1,000 hunks in 1 MiB", &[file("large.rs", LINES, hunks)]);
    let many: Vec<File> =
        (0..FILES).map(|n| file(&format!("d{}/f{n}.rs", n % 10), 200, vec![100])).collect();
    patch("100 files", &many);
}

fn line(n: usize) -> String {
    format!("    let value_{n} = compute({n}, \"name\") + offset;")
}

fn changed(line: &str) -> String {
    line.replace("value", "result")
}

fn patch(what: &str, files: &[File]) {
    let mut text = "*** Begin Patch\n".to_owned();
    for file in files {
        let _ = writeln!(text, "*** Update File: {}", file.name);
        for at in &file.changed {
            let _ = write!(text, "@@\n{}", hunk(file, *at));
        }
    }
    text += "*** End Patch\n";
    compare(what, "apply_patch", &json!({ "patchText": text }).to_string(), files);
}

fn hunk(file: &File, at: usize) -> String {
    let kept = |from: usize, to: usize| -> String {
        file.lines[from..to].iter().map(|line| format!(" {line}\n")).collect()
    };
    let (before, after) = (kept(at - AROUND, at), kept(at + 1, at + 1 + AROUND));
    format!("{before}-{0}\n+{1}\n{after}", file.lines[at], changed(&file.lines[at]))
}

fn unified(files: &[File]) -> String {
    let mut text = String::new();
    for file in files {
        let _ = writeln!(text, "--- a/{0}\n+++ b/{0}", file.name);
        for at in &file.changed {
            let place = format!("{},{}", at - AROUND + 1, 2 * AROUND + 1);
            let _ = write!(text, "@@ -{place} +{place} @@\n{}", hunk(file, *at));
        }
    }
    text
}

/// Medians of both, measured in turns so that load hits both equally.
fn compare(what: &str, tool: &str, args: &str, files: &[File]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
    let diff = folder.path().join("diff");
    fs::write(&diff, unified(files)).expect("a file");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (mut own, mut git) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        grow(&ours, files);
        grow(&theirs, files);
        let start = Instant::now();
        let cx = Workspace::new(&ours, &ours, folder.path().join("spill"));
        let output = runtime.block_on(run_alone(tool, args, cx)).expect("a result");
        own.push(start.elapsed());
        assert!(!output.is_error, "{}", output.output);
        let start = Instant::now();
        let done = Command::new("git").arg("apply").arg(&diff).current_dir(&theirs).status();
        git.push(start.elapsed());
        assert!(done.expect("git").success());
        for File { name, .. } in files {
            let text = |folder: &Path| fs::read(folder.join(name)).expect("a file");
            assert!(text(&ours) == text(&theirs), "{name} differs");
        }
    }
    let (own, git) = (median(own), median(git));
    let ratio = own.as_secs_f64() / git.as_secs_f64();
    println!("{what}: {tool} {own:.1?}, git apply {git:.1?}, ratio {ratio:.2}");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn grow(folder: &Path, files: &[File]) {
    for File { name, lines, .. } in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, lines.join("\n") + "\n").expect("a file");
    }
}
