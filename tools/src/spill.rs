//! Saves the full text of cut outputs in files beside the log, for seven days.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leftfold_events::Sha256;
use leftfold_events::event::Spill;
use sha2::Digest;

use crate::sandbox::prune_temp;

/// Largest file in bytes; the rest is lost.
pub const MAX_SPILL: u64 = 32 * 1024 * 1024;

/// How long a file is kept after the last write to it.
const SPILL_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Names tried for one call before giving up.
const MAX_NAMES: u32 = 1_000;

/// Removes the files in `folder` that were last written more than seven days before `now`, recorded
/// exchanges with providers of that age, and temporary files of commands that nothing has used since.
/// Call it with the session's own folder
/// when a session is opened; it may block. Folders, links and files with other names stay, and so do
/// files that cannot be removed. Returns how many were removed.
pub fn prune(folder: &Path, now: SystemTime) -> usize {
    let temporary = prune_temp(folder, now, SPILL_LIFETIME);
    let records = prune_files(&folder.with_file_name("wire"), &["jsonl", "new"], now);
    temporary + records + prune_files(folder, &["txt"], now)
}

/// Removes expired files with these extensions.
fn prune_files(folder: &Path, extensions: &[&str], now: SystemTime) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let gone = |entry: io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        (is_old(&path, extensions, now)?).then_some(())?;
        std::fs::remove_file(&path)
            .inspect_err(|error| {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old file");
            })
            .ok()
    };
    entries.filter_map(gone).count()
}

/// Whether this is an expired file with one of these extensions. `None` if that cannot be determined.
/// A file with a time in the future is not expired.
fn is_old(path: &Path, extensions: &[&str], now: SystemTime) -> Option<bool> {
    let found = path.symlink_metadata().ok()?;
    let extension = path.extension().and_then(|extension| extension.to_str());
    let ours =
        found.is_file() && extension.is_some_and(|extension| extensions.contains(&extension));
    let age = now.duration_since(found.modified().ok()?).unwrap_or_default();
    Some(ours && age > SPILL_LIFETIME)
}

/// Whether a file of full text can have this name.
pub fn is_spill_name(name: &str) -> bool {
    /// Bytes of the longest name, with its number.
    const MAX: usize = 120;
    let stem = name.strip_suffix(".txt").filter(|stem| !stem.is_empty() && name.len() <= MAX);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    stem.is_some_and(|stem| stem.bytes().all(is_plain))
}

/// Where the full text at `given` is now, if the folder of the session has moved since the model got
/// this path: the session was imported, or the data folder has another name.
pub(crate) fn moved(given: &str, folder: &Path) -> Option<String> {
    let path = Path::new(given);
    let name = path.file_name()?.to_str().filter(|name| is_spill_name(name))?;
    if path.parent()?.file_name()? != folder.file_name()? || path.symlink_metadata().is_ok() {
        return None;
    }
    let here = folder.join(name);
    here.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    here.into_os_string().into_string().ok()
}

/// A file being written, readable by its owner alone.
pub(crate) struct SpillFile {
    path: PathBuf,
    file: File,
    hash: sha2::Sha256,
    bytes: u64,
    /// Whether the limit was reached.
    pub(crate) full: bool,
}

impl SpillFile {
    /// Creates a file named after `call` in `folder`. Never overwrites one, because call ids
    /// repeat.
    pub(crate) fn create(folder: &Path, call: &str) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let name: String = call
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' })
            .take(100)
            .collect();
        let name = if name.is_empty() { "call".to_owned() } else { name };
        for n in 1..=MAX_NAMES {
            let suffix = if n == 1 { String::new() } else { format!("-{n}") };
            let path = folder.join(format!("{name}{suffix}.txt"));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    let hash = sha2::Sha256::new();
                    return Ok(Self { path, file, hash, bytes: 0, full: false });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(MAX_SPILL - self.bytes).unwrap_or(usize::MAX);
        let fitting = &bytes[..bytes.len().min(room)];
        self.full |= fitting.len() < bytes.len();
        self.file.write_all(fitting)?;
        self.hash.update(fitting);
        self.bytes += fitting.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(self) -> Spill {
        Spill {
            path: self.path.to_string_lossy().into_owned(),
            sha256: Sha256::from_bytes(self.hash.finalize().into()),
            bytes: self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn files_are_private_named_by_call_and_never_overwritten() {
        let site = Site::new();
        let folder = site.root().join("spill");
        let write = |text: &str| {
            let mut file = SpillFile::create(&folder, "../call:1").unwrap();
            file.write(text.as_bytes()).unwrap();
            file.finish()
        };
        let (one, two) = (write("one"), write("two"));
        assert_eq!(one.path, folder.join("___call_1.txt").to_string_lossy());
        assert_eq!(two.path, folder.join("___call_1-2.txt").to_string_lossy());
        assert_eq!(std::fs::read_to_string(&one.path).unwrap(), "one");
        assert_eq!((one.sha256, one.bytes), (Sha256::digest(b"one"), 3));
        assert_eq!(std::fs::metadata(&one.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_file_is_found_where_its_folder_is_now() {
        let site = Site::new();
        let here = site.file("spill/call_1.txt", "full");
        let folder = here.parent().unwrap().to_owned();
        let there = site.file("elsewhere/spill/call_2.txt", "another");
        site.file("spill/call_2.txt", "mine");
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link.txt")).unwrap();
        let at = |given: &str| moved(given, &folder);
        assert_eq!(at("/gone/spill/call_1.txt"), Some(here.to_string_lossy().into_owned()));
        assert_eq!(at(&there.to_string_lossy()), None, "it is there");
        for other in [
            "/gone/other/call_1.txt", "/gone/spill/call_3.txt", "/gone/spill/link.txt",
            "/gone/spill/../call_1.txt", "/gone/spill/..", "call_1.txt", "",
        ] {
            assert_eq!(at(other), None, "{other}");
        }
        let long = format!("{}.txt", "x".repeat(117));
        for name in
            ["", ".txt", "a", "a.txt.txt", "..txt", "a b.txt", "a/b.txt", "\u{e4}.txt", &long]
        {
            assert!(!is_spill_name(name), "{name}");
        }
        assert!(is_spill_name("call_1-2.txt") && is_spill_name(&long[1..]));
    }

    #[test]
    fn only_old_files_of_its_own_are_pruned() {
        let site = Site::new();
        let now = SystemTime::now();
        let hour = Duration::from_secs(3_600);
        let aged = |name: &str, time: SystemTime| {
            let path = site.file(name, "x");
            File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
            path
        };
        let folder = site.path("spill");
        let old = aged("spill/old.txt", now - SPILL_LIFETIME - hour);
        let old_record = aged("wire/old.jsonl", now - SPILL_LIFETIME - hour);
        let kept = [
            aged("spill/young.txt", now - SPILL_LIFETIME + hour),
            aged("spill/future.txt", now + hour),
            aged("spill/old.md", now - SPILL_LIFETIME - hour),
            aged("spill/below/old.txt", now - SPILL_LIFETIME - hour),
            aged("beside.txt", now - SPILL_LIFETIME - hour),
            aged("wire/young.jsonl", now - SPILL_LIFETIME + hour),
        ];
        std::os::unix::fs::symlink(&kept[4], folder.join("link.txt")).unwrap();
        std::fs::create_dir(folder.join("folder.txt")).unwrap();
        assert_eq!(prune(&folder, now + hour / 2), 2);
        assert!(!old.exists() && !old_record.exists());
        assert!(kept.iter().all(|path| path.exists()));
        assert!(folder.join("link.txt").exists() && folder.join("folder.txt").exists());
        assert_eq!(
            prune(&folder, now + SPILL_LIFETIME + hour),
            2,
            "the young ones have become old"
        );
        assert_eq!(prune(&site.path("none"), now), 0);
    }

    #[test]
    fn a_file_has_an_end() {
        let site = Site::new();
        let mut file = SpillFile::create(&site.root().join("spill"), "c").unwrap();
        let block = vec![b'x'; 10 * 1024 * 1024];
        for _ in 0..4 {
            file.write(&block).unwrap();
        }
        assert!(file.full);
        let spill = file.finish();
        assert_eq!(
            (spill.bytes, std::fs::metadata(&spill.path).unwrap().len()),
            (MAX_SPILL, MAX_SPILL)
        );
    }
}
