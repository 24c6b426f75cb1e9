//! Finds the worktree that a folder belongs to. It never runs git.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::files;

/// The largest file of git's settings that is read, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The nearest ancestor of `directory` (itself included) that has a `.git`, a folder or a file;
/// `directory` itself if none has. Links are resolved where the directory exists.
///
/// An ancestor counts only if git would use it: if it and its `.git` belong to the user, or if the user's git settings
/// name it as `safe.directory`. Otherwise another user of the machine could choose the worktree, for example with
/// `/tmp/.git`. A [home folder](is_home) counts only for itself: a repository of dotfiles in it would make a project of
/// everything that the user has.
pub fn worktree_of(directory: &Path) -> PathBuf {
    find(directory).0
}

/// Whether a worktree is the user's home folder or a folder above it: no project, but everything that the user has.
pub fn is_home(worktree: &Path) -> bool {
    holds(worktree, &HOMES)
}

fn holds(worktree: &Path, homes: &[PathBuf]) -> bool {
    let worktree = resolved(worktree).unwrap_or_else(|_| worktree.to_owned());
    homes.iter().any(|home| home.starts_with(&worktree))
}

/// The user's home folders: that of `HOME`, and those of the user's accounts, which differ from it after `su` and `sudo`.
/// Accounts that a directory service keeps are not found.
static HOMES: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let accounts = files::read(Path::new("/etc/passwd"), None, LARGEST).unwrap_or_default();
    let mut homes = homes_of(&String::from_utf8_lossy(&accounts), is_user);
    homes.extend(std::env::var_os("HOME").map(PathBuf::from));
    homes.retain(|home| home.is_absolute());
    homes.into_iter().map(|home| resolved(&home).unwrap_or(home)).collect()
});

/// The home folders in a list of accounts that has the form of `/etc/passwd`.
fn homes_of(accounts: &str, is_user: impl Fn(u32) -> bool) -> Vec<PathBuf> {
    let homes = accounts.lines().filter_map(|account| {
        let fields: Vec<&str> = account.split(':').collect();
        let (uid, home) = (fields.get(2)?.parse().ok()?, fields.get(5)?);
        is_user(uid).then(|| PathBuf::from(home))
    });
    homes.collect()
}

/// The worktree, and the repository that is not used because it belongs to another user.
pub(crate) fn find(directory: &Path) -> (PathBuf, Option<PathBuf>) {
    find_outside(directory, &HOMES)
}

fn find_outside(directory: &Path, homes: &[PathBuf]) -> (PathBuf, Option<PathBuf>) {
    let directory = resolved(directory).unwrap_or_else(|_| directory.to_owned());
    let found = directory.ancestors().find(|folder| files::exists(&folder.join(".git")));
    match found {
        Some(found) if found != directory && holds(found, homes) => (directory, None),
        Some(found) if found == directory || is_own(found) || is_safe(found) => {
            (found.to_owned(), None)
        }
        Some(found) => {
            let found = found.to_owned();
            (directory, Some(found))
        }
        None => (directory, None),
    }
}

pub(crate) fn resolved(directory: &Path) -> io::Result<PathBuf> {
    files::canonicalize(directory)
}

/// Whether the folder and its `.git` belong to the user.
fn is_own(folder: &Path) -> bool {
    [folder.to_owned(), folder.join(".git")]
        .iter()
        .all(|path| files::symlink_metadata(path).is_ok_and(|found| is_user(found.uid())))
}

/// Whether the account is the user's. Under `sudo`, root has the files of the user who called it.
fn is_user(uid: u32) -> bool {
    let me = rustix::process::geteuid();
    let caller = std::env::var("SUDO_UID").ok().filter(|_| me.is_root());
    let caller: Option<u32> = caller.and_then(|uid| uid.parse().ok());
    uid == me.as_raw() || Some(uid) == caller
}

/// Whether `safe.directory` in the git settings of the user or the machine names the folder.
fn is_safe(folder: &Path) -> bool {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(home.as_ref()?.join(".config")));
    let files = [
        Some(PathBuf::from("/etc/gitconfig")),
        config.map(|config| config.join("git/config")),
        home.as_ref().map(|home| home.join(".gitconfig")),
    ];
    let text = |file: PathBuf| String::from_utf8(files::read(&file, None, LARGEST).ok()?).ok();
    let texts = files.into_iter().flatten().filter_map(text);
    names(&texts.collect::<Vec<_>>(), folder, home.as_deref())
}

/// Whether `safe.directory` in one of these texts names the folder. An empty value takes back those before it.
fn names(texts: &[String], folder: &Path, home: Option<&Path>) -> bool {
    let mut named = false;
    for text in texts {
        let mut in_section = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                in_section = line.eq_ignore_ascii_case("[safe]");
                continue;
            }
            let Some((key, value)) = line.split_once('=').filter(|_| in_section) else { continue };
            if !key.trim().eq_ignore_ascii_case("directory") {
                continue;
            }
            let value = value.trim().trim_matches('"');
            let path = crate::source::expand(value, home);
            named = match (value, value.strip_suffix("/*")) {
                ("", _) => false,
                ("*", _) => true,
                (_, Some(above)) => {
                    let above = crate::source::expand(above, home);
                    named || (folder != above && folder.starts_with(above))
                }
                (_, None) => named || path == folder,
            };
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_repository_of_another_user_is_no_worktree_below_it() {
        let root = tempfile::tempdir().unwrap();
        let repository = root.path().canonicalize().unwrap().join("repository");
        let below = repository.join("below");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(repository.join(".git")).unwrap();
        assert_eq!(find(&below), (repository.clone(), None));
        for other in [repository.join(".git"), repository.clone()] {
            // only root can give files away
            if std::os::unix::fs::chown(&other, Some(12_345), None).is_err() {
                return;
            }
            assert_eq!(find(&below), (below.clone(), Some(repository.clone())));
            assert_eq!(find(&repository), (repository.clone(), None));
            std::os::unix::fs::chown(&other, Some(0), None).unwrap();
        }
    }

    #[test]
    fn a_home_folder_is_no_project_around_the_folders_in_it() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let home = root.join("home/u");
        for folder in ["home/.git", "home/u/.git", "home/u/notes/deep", "home/u/code/.git"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(&home, root.join("link")).unwrap();
        for (directory, worktree, is_home) in [
            ("home/u/notes/deep", "home/u/notes/deep", false),
            ("home/u/notes", "home/u/notes", false),
            ("home/u/code", "home/u/code", false),
            ("home/u", "home/u", true),
            ("link", "home/u", true),
            ("link/notes", "home/u/notes", false),
            ("home", "home", true),
            ("", "", true),
        ] {
            let homes = [home.clone()];
            let (found, foreign) = find_outside(&root.join(directory), &homes);
            assert_eq!((found.as_path(), foreign), (&*root.join(worktree), None), "{directory}");
            assert_eq!(holds(&root.join(directory), &homes), is_home, "{directory}");
        }
        assert!(is_home(Path::new("/")));
    }

    #[test]
    fn homes_are_those_of_the_users_accounts() {
        let accounts = "root:x:0:0:root:/root:/bin/bash\n\
            u:x:1000:1000:U,,,:/home/u:/bin/zsh\n\
            v:x:1001:1001::/home/v:/bin/sh\nbroken:x:1000\n\n";
        let homes = homes_of(accounts, |uid| uid == 0 || uid == 1000);
        assert_eq!(homes, ["/root", "/home/u"].map(PathBuf::from));
    }

    #[test]
    fn safe_directories_are_those_of_git() {
        for (text, expected) in [
            ("[safe]\n\tdirectory = /a/b\n", true),
            ("[SAFE]\nDirectory=\"/a/b\"\n", true),
            ("[safe]\n\tdirectory = *\n", true),
            ("[safe]\n\tdirectory = /a/*\n", true),
            ("[safe]\n\tdirectory = ~/b\n", true),
            ("[safe]\n\tdirectory = /a\n", false),
            ("[safe]\n\tdirectory = /a/b/*\n", false),
            ("[safe]\n\tdirectory = *\n\tdirectory =\n", false),
            ("[other]\n\tdirectory = *\n", false),
            ("# directory = *\n", false),
        ] {
            let found = names(&[text.to_owned()], Path::new("/a/b"), Some(Path::new("/a")));
            assert_eq!(found, expected, "{text}");
        }
    }
}
