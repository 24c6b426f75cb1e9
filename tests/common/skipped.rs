//! Skips tests that cannot run on this machine. They pass, but visibly. Tests install packages only if they are allowed to.

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

/// Whether tests may install packages from a registry: `LEFTFOLD_INSTALL=1`, as in `.ci/run`. Says on standard error what is
/// installed now.
///
/// # Errors
/// They may not. The reason, in words for people.
pub fn may_install(what: &str) -> Result<(), String> {
    if std::env::var("LEFTFOLD_INSTALL").is_ok_and(|may| may == "1") {
        let line = format!("INSTALLING {what}\n");
        return stderr().write_all(line.as_bytes()).map_err(|error| error.to_string());
    }
    Err("`LEFTFOLD_INSTALL=1` lets the tests install them".to_owned())
}
