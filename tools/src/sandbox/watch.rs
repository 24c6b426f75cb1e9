//! Notices files that decide what later runs do, and that a command has made or changed. The sandbox keeps those that exist
//! read-only, but it cannot keep a command from making one: no mount can stand where nothing is.
//!
//! Nothing here prevents or undoes anything. The harm is bounded elsewhere: settings of a project need the user's trust.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;

use super::places;
use super::project_files::{self, ProjectFiles};

/// Files of settings that are looked at, at most, and how deeply their folders are searched.
const MAX_FILES: usize = 2_000;
const DEPTH: usize = 5;

/// The largest file of git's settings that is read, in bytes.
const MAX_CONFIG: u64 = 1 << 20;

/// Files that are reported, at most, and those among them that the text names.
const MAX_REPORTED: usize = 20;
const MAX_NAMED: usize = 6;

/// Keys of git's settings whose values git runs, or reads further settings from. Compared with the part of a line before
/// `=`, in lower case.
const PROGRAMS_OF_GIT: &[&str] = &[
    "askpass", "clean", "cmd", "command", "difffilter", "driver", "editor", "external",
    "fsmonitor", "gitproxy", "helper", "hookspath", "pager", "path", "process", "program",
    "receivepack", "smudge", "sshcommand", "textconv", "uploadpack",
];

/// The state of these files at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Watched {
    stamps: BTreeMap<PathBuf, String>,
    /// Files and folders outside of the project's that are looked at as well.
    others: Vec<PathBuf>,
}

/// Files that decide what later runs do, and that a command has made or changed. Paths below the worktree are relative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    pub(crate) made: Vec<String>,
    pub(crate) changed: Vec<String>,
}

impl Traces {
    /// The text for the model and for people, to whom the last lines of an output are shown. `None` if there are none.
    pub(crate) fn note(&self) -> Option<String> {
        let made = self.made.iter().map(|path| format!("made {path}"));
        let mut lines: Vec<String> = made.collect();
        lines.extend(self.changed.iter().map(|path| format!("changed {path}")));
        let more = lines.len().saturating_sub(MAX_NAMED);
        lines.truncate(MAX_NAMED);
        lines.extend((more > 0).then(|| format!("and {more} more")));
        (!lines.is_empty()).then(|| {
            let lines = lines.join("\n");
            format!(
                "(Files that decide what later runs, git or other programs do. Tell the user that the command has:\n{lines})"
            )
        })
    }
}

impl Watched {
    /// The state of the project's files and of `others` before a command runs.
    pub(super) fn new(worktree: &Path, files: &ProjectFiles, others: Vec<PathBuf>) -> Self {
        let mut watched = Self::default();
        for path in files.settings.iter().chain(&files.watched).chain(&others) {
            watched.add(path, DEPTH);
        }
        for repository in places::repositories(worktree, files) {
            watched.add_repository(&repository);
        }
        watched.others = others;
        watched
    }

    /// The difference after a command has run in `worktree`. `is_expected` says whether the sandbox lets nobody change a
    /// path, or a permission has let this command change it.
    pub(super) fn traces(&self, worktree: &Path, is_expected: impl Fn(&Path) -> bool) -> Traces {
        let now = Self::new(worktree, &project_files::walk(worktree), self.others.clone());
        let mut traces = Traces::default();
        for (path, stamp) in now.stamps {
            let before = self.stamps.get(&path);
            // who opens a folder does not mean these in it
            let is_other = self.others.iter().any(|other| path.starts_with(other));
            if before == Some(&stamp) || !is_other && is_expected(&path) {
                continue;
            }
            let list = if before.is_some() { &mut traces.changed } else { &mut traces.made };
            if list.len() < MAX_REPORTED {
                list.push(path.strip_prefix(worktree).unwrap_or(&path).display().to_string());
            }
        }
        traces
    }

    /// A file, or the files in a folder. Plans are the model's own, and packages are other people's.
    fn add(&mut self, path: &Path, depth: usize) {
        let Ok(found) = path.symlink_metadata() else { return };
        if !found.is_dir() {
            let changed = format!("{}-{}-{}", found.ino(), found.ctime(), found.ctime_nsec());
            self.insert(path, changed);
            return;
        }
        let is_skipped = path.ends_with("node_modules") || path.ends_with(".leftfold/plans");
        if is_skipped || depth == 0 || self.stamps.len() > MAX_FILES {
            return;
        }
        for entry in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
            self.add(&entry.path(), depth - 1);
        }
    }

    /// The parts of a repository that make git run programs: hooks, lines of its settings and of a rebase in progress, files
    /// that lead git to other hooks and settings, and a file that gives files to the filters of the user's own settings.
    fn add_repository(&mut self, folder: &Path) {
        // git writes this line for a linked worktree
        let is_linked = folder.parent().is_some_and(|parent| parent.ends_with("worktrees"));
        let commondir = folder.join("commondir");
        if !is_linked || leftfold_files::line(&commondir, folder).is_none_or(|line| line != "../..")
        {
            self.add(&commondir, 0);
        }
        self.add(&folder.join("info/attributes"), 0);
        for entry in std::fs::read_dir(folder.join("hooks")).into_iter().flatten().flatten() {
            if entry.path().extension().is_none_or(|extension| extension != "sample") {
                self.add(&entry.path(), 0);
            }
        }
        for name in ["config", "config.worktree", "rebase-merge/git-rebase-todo"] {
            let file = folder.join(name);
            let lines = match leftfold_files::read(&file, Some(folder), MAX_CONFIG) {
                Ok(text) if name.starts_with("config") => programs(&String::from_utf8_lossy(&text)),
                Ok(text) => commands_of_rebase(&String::from_utf8_lossy(&text)),
                Err(why) if why.is_missing() => String::new(),
                Err(why) => why.to_string(),
            };
            if !lines.is_empty() {
                self.insert(&file, Sha256::digest(lines.as_bytes()).to_string());
            }
        }
    }

    fn insert(&mut self, path: &Path, stamp: String) {
        self.stamps.insert(path.to_owned(), stamp);
    }
}

/// The lines of git's settings that name programs or further settings.
fn programs(text: &str) -> String {
    let lines = text.lines().filter(|line| {
        let line = line.trim().to_ascii_lowercase();
        let (key, value) = line.split_once('=').unwrap_or((&line, ""));
        let value = value.trim().trim_start_matches('"');
        // a section and its first key can share a line
        let key = key.rsplit(']').next().unwrap_or_default().trim();
        // aliases and updates of submodules, and addresses that name a program
        let is_program = value.starts_with('!') || value.starts_with("ext::");
        is_program || PROGRAMS_OF_GIT.iter().any(|program| key.ends_with(program))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines of a rebase that run commands.
fn commands_of_rebase(text: &str) -> String {
    let is_command = |line: &&str| matches!(line.split_whitespace().next(), Some("exec" | "x"));
    text.lines().filter(is_command).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::testing::Site;

    fn traces(site: &Site, work: impl FnOnce()) -> (Vec<String>, Vec<String>) {
        let worktree = site.workspace().worktree;
        let before = Watched::new(&worktree, &project_files::walk(&worktree), Vec::new());
        work();
        let found = before.traces(&worktree, |path| path.ends_with("granted/leftfold.json"));
        (found.made, found.changed)
    }

    #[test]
    fn every_kind_of_file_that_later_runs_read_is_noticed() {
        let site = Site::new();
        let kinds = [
            "leftfold.json", "sub/opencode.jsonc", ".leftfold/leftfold.json",
            ".leftfold/agents/a.md", ".leftfold/command/deep/c.md", ".opencode/plugin/p.js",
            ".claude/skills/s/SKILL.md", ".agents/skills/s/run.sh", "AGENTS.md", "docs/CLAUDE.md",
            ".claude/settings.json", ".vscode/tasks.json", "web/.idea/workspace.xml", ".mcp.json",
            "web/.husky/pre-commit", ".envrc", "x.code-workspace",
        ];
        for name in kinds {
            assert_eq!(
                traces(&site, || drop(site.file(name, ""))),
                (vec![name.to_owned()], vec![])
            );
            let change = || drop(site.file(name, "changed"));
            assert_eq!(traces(&site, change), (vec![], vec![name.to_owned()]));
            assert_eq!(traces(&site, || ()), (vec![], vec![]));
        }
        let others = ["src/a.rs", ".leftfold/plans/p.md", ".opencode/node_modules/x/i.js"];
        for name in others.into_iter().chain([".claudette/notes.md", "granted/leftfold.json"]) {
            assert_eq!(traces(&site, || drop(site.file(name, ""))), (vec![], vec![]), "{name}");
        }
    }

    #[test]
    fn of_a_repository_hooks_and_programs_are_noticed() {
        let site = Site::new();
        let plain = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n[branch \"main\"]\n\tmerge = x\n";
        let clone = || {
            site.file("a/.git/config", plain);
            site.file("a/.git/hooks/pre-commit.sample", "");
            site.file("a/.git/HEAD", "");
            site.file("a/.git/worktrees/v/commondir", "../..\n");
            site.file("stopped/.git/rebase-merge/git-rebase-todo", "pick 1\nfixup 2\n");
        };
        site.fifo("pipe");
        assert_eq!(traces(&site, clone), (vec![], vec![]));
        for (name, text) in [
            ("a/.git/hooks/pre-commit", String::new()),
            ("a/.git/config", format!("{plain}[core] fsmonitor = ./x\n")),
            ("b/.git/config", "[alias]\n\tst = !touch x\n".to_owned()),
            ("c/.git/config", "[include]\n\tpath = ../x\n".to_owned()),
            ("d/.git/config", "[filter \"x\"]\n\tClean = ./x\n".to_owned()),
            ("e/.git/modules/m/n/config", "[core]\n\thooksPath = x\n".to_owned()),
            ("a/.git/commondir", "../evil\n".to_owned()),
            ("a/.git/config.worktree", "[core]\n\tfsmonitor = ./x\n".to_owned()),
            ("a/.git/info/attributes", "* filter=x\n".to_owned()),
            ("a/.git/rebase-merge/git-rebase-todo", "pick 1\nexec ./x\n".to_owned()),
            ("a/.git/worktrees/w/commondir", "../evil\n".to_owned()),
            ("a/.git/worktrees/w/config.worktree", "[core]\n\tpager = ./x\n".to_owned()),
            ("a/.git/worktrees/w/rebase-merge/git-rebase-todo", "x ./x\n".to_owned()),
            ("f/.git", "gitdir: ../evil\n".to_owned()),
        ] {
            let made = traces(&site, || drop(site.file(name, &text)));
            assert_eq!(made, (vec![name.to_owned()], vec![]));
        }
        // settings that nobody should read are no less than a change
        for (name, target) in [("g/.git/config", "/dev/zero"), ("h/.git/config", "../../pipe")] {
            site.file(&name.replace("config", "HEAD"), "");
            let made = traces(&site, || symlink(target, site.path(name)).unwrap());
            assert_eq!(made, (vec![name.to_owned()], vec![]));
        }
    }
}
