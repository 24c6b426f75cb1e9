//! A clock of processes that a test lets jump, by Debian's `faketime`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Below a folder of `/usr/lib` that is named by the kind of machine.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

/// The time of day of processes with its environment. Their monotonic clock stays the machine's.
pub struct Clock {
    library: PathBuf,
    offset: NamedTempFile,
}

impl Clock {
    /// `None`, visibly, without `faketime`.
    pub fn new() -> Option<Self> {
        let mut folders = fs::read_dir("/usr/lib").unwrap();
        let library = folders.find_map(|folder| {
            let library = folder.unwrap().path().join(LIBRARY);
            library.exists().then_some(library)
        });
        let Some(library) = library else {
            crate::skipped("faketime is not installed: `apt-get install faketime`");
            return None;
        };
        let clock = Self { library, offset: NamedTempFile::new().unwrap() };
        // the database is another user
        fs::set_permissions(clock.offset.path(), fs::Permissions::from_mode(0o644)).unwrap();
        clock.set(0);
        Some(clock)
    }

    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (library, file) = (text(&self.library), text(self.offset.path()));
        let variables = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", file.as_str()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Lets the clock jump to so many seconds after the machine's, or before it.
    pub fn set(&self, seconds: i64) {
        let next = self.offset.path().with_extension("next");
        fs::write(&next, format!("{seconds:+}\n")).unwrap();
        fs::set_permissions(&next, fs::Permissions::from_mode(0o644)).unwrap();
        // whole at every moment
        fs::rename(next, self.offset.path()).unwrap();
    }
}
