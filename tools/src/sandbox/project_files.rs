//! Files in the project that need care: files of variables such as `.env`, settings, and repositories. One bounded walk
//! finds those of the uppermost folders.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leftfold_files::texts::{INSTRUCTIONS, SKIPPED};
use leftfold_programs::{git_in, limited_output};

use crate::protected;

/// Folders below the worktree that are searched, in levels.
const DEPTH: usize = 3;

/// Entries of folders that are looked at, at most.
const MAX_ENTRIES: usize = 4_000;

/// Files that are hidden, at most.
const MAX_FILES: usize = 200;

/// How long git may take to say which files it tracks, and how many bytes it may print.
const GIT_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_OUTPUT: usize = 1 << 20;

/// The result of a walk, as absolute paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProjectFiles {
    /// Files of variables that git does not track. The contents of the others are in the repository anyway, and a hidden
    /// file would look deleted to git.
    pub(super) secret: Vec<PathBuf>,
    /// Settings, agents, commands, plugins and skills.
    pub(super) settings: Vec<PathBuf>,
    /// Instruction files, files at the root that may be agents, files and folders that other programs run by themselves, and
    /// files named `.git`, which lead git to a repository elsewhere.
    pub(super) watched: Vec<PathBuf>,
    /// Folders named `.git`.
    pub(super) repositories: Vec<PathBuf>,
}

/// Searches `worktree`. Blocks, for about a millisecond.
pub(super) fn for_worktree(worktree: &Path) -> ProjectFiles {
    let mut found = walk(worktree);
    found.secret.truncate(MAX_FILES);
    found.secret = without_tracked(found.secret, worktree);
    found
}

/// Searches `worktree` without asking git for the files that it tracks.
pub(super) fn walk(worktree: &Path) -> ProjectFiles {
    let (mut found, mut level) = (ProjectFiles::default(), vec![worktree.to_owned()]);
    let mut looked_at = 0;
    for _ in 0..=DEPTH {
        let mut next = Vec::new();
        for folder in level {
            for entry in std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
                looked_at += 1;
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    next.extend(found.add_folder(entry.path()));
                } else if is_secret(&entry.file_name()) {
                    found.secret.push(entry.path());
                } else if is_settings(&entry.file_name()) {
                    found.settings.push(entry.path());
                } else if is_watched(&entry.file_name()) {
                    found.watched.push(entry.path());
                }
            }
            if looked_at > MAX_ENTRIES || found.secret.len() > MAX_FILES {
                break;
            }
        }
        level = next;
    }
    for folder in protected::ROOT_AGENTS {
        let entries = std::fs::read_dir(worktree.join(folder)).into_iter().flatten().flatten();
        let files = entries.take(MAX_FILES).map(|entry| entry.path());
        found.watched.extend(files.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    found
}

impl ProjectFiles {
    /// Returns the folder if the walk goes on in it.
    fn add_folder(&mut self, path: PathBuf) -> Option<PathBuf> {
        let name = path.file_name()?;
        if name == ".git" {
            self.repositories.push(path);
            return None;
        }
        if is_settings(name) {
            self.settings.push(path);
            return None;
        }
        let skills = protected::SETTINGS.iter().filter_map(|it| it.split_once('/'));
        let skills = skills.filter(|(folder, _)| name == *folder);
        self.settings.extend(skills.map(|(_, folder)| path.join(folder)));
        if is_of_others(name) {
            self.watched.push(path.clone());
        }
        (!SKIPPED.iter().any(|skipped| name == *skipped)).then_some(path)
    }
}

fn is_settings(name: &OsStr) -> bool {
    protected::SETTINGS.iter().any(|settings| name == *settings)
}

fn is_watched(name: &OsStr) -> bool {
    let names = INSTRUCTIONS.iter().chain(&[".git"]);
    names.into_iter().any(|it| name.eq_ignore_ascii_case(it)) || is_of_others(name)
}

fn is_of_others(name: &OsStr) -> bool {
    protected::is_of_others(&name.to_string_lossy().to_ascii_lowercase())
}

/// The names that the default rules for `read` ask about.
fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    (name.ends_with(".env") || name.contains(".env.")) && !name.ends_with(".env.example")
}

fn without_tracked(mut files: Vec<PathBuf>, worktree: &Path) -> Vec<PathBuf> {
    if files.is_empty() {
        return files;
    }
    let tracked = git_in(worktree).and_then(|mut git| {
        git.args(["ls-files", "-z", "--"]).args(&files);
        limited_output(git, MAX_OUTPUT, GIT_TIMEOUT)
    });
    // without git, nothing is tracked
    let tracked = tracked.unwrap_or_default();
    let tracked = tracked.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let tracked: Vec<PathBuf> =
        tracked.map(|name| worktree.join(OsStr::from_bytes(name))).collect();
    files.retain(|file| !tracked.contains(file));
    files
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_walk_finds_variables_settings_and_repositories() {
        let site = tempfile::tempdir().unwrap();
        let root = site.path().canonicalize().unwrap();
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(&root).output().unwrap();
            assert!(output.status.success(), "{arguments:?}");
        };
        for name in [
            ".env", ".env.local", ".env.example", "a/b/c/prod.env", "a/b/c/d/.env",
            "node_modules/x/.env", "environment", "tracked/.env", "web/leftfold.json",
            "web/.opencode/agent/a.md", ".claude/skills/s/SKILL.md", ".claude/settings.local.json",
            "web/.mcp.json", "vendored/.git/HEAD",
        ] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "KEY=1\n").unwrap();
        }
        git(&["init", "-q"]);
        git(&["add", "-f", "tracked/.env"]);
        let found = for_worktree(&root);
        let sorted = |mut paths: Vec<PathBuf>| {
            paths.sort();
            let shown =
                paths.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap());
            shown.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(sorted(found.secret), [".env", ".env.local", "a/b/c/prod.env"]);
        let settings = [
            ".claude/settings.json", ".claude/settings.local.json", ".claude/skills",
            "web/.mcp.json", "web/.opencode", "web/leftfold.json",
        ];
        assert_eq!(sorted(found.settings), settings);
        assert_eq!(sorted(found.repositories), [".git", "vendored/.git"]);
    }

    #[test]
    fn settings_of_a_repository_start_no_program() {
        let site = tempfile::tempdir().unwrap();
        let root = site.path().canonicalize().unwrap().join("r");
        std::fs::create_dir_all(root.join("d")).unwrap();
        let git = |line: &str| {
            let words = line.split_whitespace();
            let output = Command::new("git").args(words).current_dir(&root).output().unwrap();
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        for name in ["a", "d/b", ".env"] {
            std::fs::write(root.join(name), "KEY=1\n").unwrap();
        }
        git("init -q");
        git("add a d");
        git("-c user.name=n -c user.email=n@localhost commit -qm a");
        // the index names a tree that is missing, so that reading it asks the remote
        git("sparse-checkout init --cone --sparse-index");
        git("sparse-checkout set none");
        let tree = git("rev-parse HEAD:d");
        let (folder, file) = tree.trim().split_at(2);
        std::fs::remove_file(root.join(".git/objects").join(folder).join(file)).unwrap();
        let ran = site.path().join("ran");
        let program = format!("touch {};", ran.display());
        let config = format!(
            "\n[core]\n\trepositoryformatversion = 1\n\tfsmonitor = \"{program}\"\n[extensions]\n\tpartialClone = x\n\
             [remote \"x\"]\n\tpromisor = true\n\turl = {}\n\tuploadpack = \"{program}\"\n[protocol]\n\tallow = always\n",
            root.display()
        );
        let file = root.join(".git/config");
        let old = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, old + &config).unwrap();
        assert_eq!(for_worktree(&root).secret, [root.join(".env")]);
        assert!(!ran.exists());
        let _ = Command::new("git")
            .args(["-c", "core.fsmonitor=false", "ls-files"])
            .current_dir(&root)
            .output();
        assert!(ran.exists(), "the repository is not as dangerous as it should be");
    }
}
