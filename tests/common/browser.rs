//! Chromium, for tests of pages. `tests/peers/browser.mjs` drives it.

use std::path::{Path, PathBuf};

use crate::{in_path, skipped};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The program; without one the running test counts as skipped, and its caller returns.
pub fn chromium() -> Option<PathBuf> {
    let found = in_path(&BROWSERS);
    if found.is_none() {
        skipped(&format!("browsers are not installed: one of {}", BROWSERS.join(", ")));
    }
    found
}

/// Copies screenshots and pages of a test to the folder that `LEFTFOLD_SCREENSHOTS` names.
pub fn keep_screenshots(folder: &Path) {
    let Some(keep) = std::env::var_os("LEFTFOLD_SCREENSHOTS") else { return };
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|kind| kind == "png" || kind == "html") {
            std::fs::copy(&entry, Path::new(&keep).join(entry.file_name().unwrap())).unwrap();
        }
    }
}
