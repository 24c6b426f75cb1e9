//! Skips tests that cannot run on this machine. They pass, but visibly.

use std::fs::OpenOptions;
use std::io::{Write, stderr};

/// Reports that the running test is skipped, and why: as a line that begins with `SKIPPED` on
/// standard error, past what libtest captures, and at the end of the file that `LEFTFOLD_SKIPPED`
/// names.
///
/// `.ci/run` fails if a test was skipped there, unless packages of a registry are not installed.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let why = why.trim().replace('\n', " ");
    let line = format!("SKIPPED {}: {why}\n", thread.name().unwrap_or("a test"));
    stderr().write_all(line.as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("LEFTFOLD_SKIPPED") {
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}
