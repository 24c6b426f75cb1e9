//! Chromium, for tests of pages. `tests/peers/browser.mjs` drives it.

use std::path::PathBuf;

use crate::skipped;

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The program; without one the running test counts as skipped, and its caller returns.
pub fn chromium() -> Option<PathBuf> {
    let all = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&all)
        .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        skipped(&format!("browsers are not installed: one of {}", BROWSERS.join(", ")));
    }
    found
}
