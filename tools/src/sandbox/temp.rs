//! The folder that is `/tmp` in the sandbox: one for all commands of a session, beside its full texts. What nothing has used
//! for a while is removed, as old full texts are.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, fchmod};

use crate::confined;

/// The folder for temporary files of the session whose full texts are in `spill_dir`.
pub(super) fn beside(spill_dir: &Path) -> PathBuf {
    spill_dir.with_file_name("temp")
}

/// Removes the files and folders beside `spill_dir` that were last used before `kept`, each as a whole. Folders with a
/// younger file in them stay, and so does all that cannot be removed. Returns how many were removed.
pub(crate) fn prune(spill_dir: &Path, now: SystemTime, kept: Duration) -> usize {
    let Ok(entries) = std::fs::read_dir(beside(spill_dir)) else { return 0 };
    let oldest =
        now.checked_sub(kept).and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    let oldest = oldest.and_then(|age| i64::try_from(age.as_secs()).ok()).unwrap_or_default();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let old = paths.filter(|path| !is_used(path, oldest).unwrap_or(true));
    let removed = old.filter(|path| match remove(path) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot remove an old temporary file");
            false
        }
    });
    removed.count()
}

/// Whether anything in `path` was used since `oldest`, in seconds since 1970.
fn is_used(path: &Path, oldest: i64) -> io::Result<bool> {
    let mut rest = vec![path.to_owned()];
    while let Some(path) = rest.pop() {
        let found = path.symlink_metadata()?;
        if last_used(&found) >= oldest {
            return Ok(true);
        }
        if found.is_dir() {
            for entry in std::fs::read_dir(path)? {
                rest.push(entry?.path());
            }
        }
    }
    Ok(false)
}

/// Seconds since 1970. Reading a folder is no use of it: this module does that too.
fn last_used(found: &Metadata) -> i64 {
    let changed = found.mtime().max(found.ctime());
    if found.is_dir() { changed } else { changed.max(found.atime()) }
}

fn remove(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return std::fs::remove_file(path);
    }
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // tools such as Go keep downloads in folders that nobody may change
            let mut rest = vec![path.to_owned()];
            while let Some(folder) = rest.pop() {
                let opened = confined::folder(&folder)?;
                fchmod(&opened, Mode::RWXU)?;
                for entry in std::fs::read_dir(&folder)? {
                    let entry = entry?;
                    rest.extend(entry.file_type()?.is_dir().then(|| entry.path()));
                }
            }
            std::fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::Site;

    #[test]
    fn what_nothing_has_used_is_removed_as_a_whole() {
        let site = Site::new();
        let kept = Duration::from_secs(7 * 24 * 60 * 60);
        let spill = site.path("s/spill");
        let now = SystemTime::now();
        let file = site.file("s/temp/file", "x");
        let deep = site.file("s/temp/go/mod/x@v1/a.go", "x");
        site.file("s/temp/venv/lib/b.py", "x");
        let outside = site.file("outside/c", "x");
        std::os::unix::fs::symlink(site.path("outside"), site.path("s/temp/link")).unwrap();
        let closed = std::fs::Permissions::from_mode(0o555);
        std::fs::set_permissions(deep.parent().unwrap(), closed).unwrap();
        assert_eq!(prune(&spill, now, kept), 0);
        let hour = Duration::from_secs(3_600);
        let later = now + kept + hour;
        // read in the meantime
        let young = std::fs::File::open(site.path("s/temp/venv/lib/b.py")).unwrap();
        let times = std::fs::FileTimes::new().set_accessed(later - hour);
        young.set_times(times).unwrap();
        assert_eq!(prune(&spill, later, kept), 3);
        assert!(!file.exists() && !site.path("s/temp/go").exists());
        assert!(site.path("s/temp/venv/lib/b.py").exists() && outside.exists());
        assert_eq!(prune(&site.path("none/spill"), later, kept), 0);
    }
}
