//! The working tree of a project, compared with its last commit; and new repositories. The repository is untrusted: none
//! of its hooks, monitors, filters or diff programs runs, and nothing is fetched.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long git may take for one answer.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest output of git that is read, in bytes.
const MAX_OUTPUT: u64 = 8 << 20;
/// Changed files that are listed.
const MAX_FILES: usize = 5_000;
/// Untracked files up to this size have their lines counted, in bytes, and so many of them.
const MAX_COUNTED: u64 = 1 << 20;
const COUNTED_FILES: usize = 200;
/// The tree without files, with which a repository without commits is compared.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A file that differs from the last commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPath {
    /// Relative to the worktree.
    pub path: String,
    /// `added`, `deleted` or `modified`.
    pub status: &'static str,
    pub added: u64,
    pub removed: u64,
}

/// The files of the worktree around a directory that differ from the last commit; none if it is no repository.
///
/// # Errors
/// Git is missing, too slow, or lists too many files.
pub async fn changed(directory: &Path) -> anyhow::Result<Vec<ChangedPath>> {
    let worktree = leftfold_config::worktree_of(directory);
    if !is_repository(&worktree) {
        return Ok(Vec::new());
    }
    let read = async {
        let repository = Repository::open(worktree.clone()).await?;
        let head = repository.head().await?;
        Ok::<_, anyhow::Error>((repository.changed(&head).await?, repository.untracked().await?))
    };
    let (mut changed, untracked) = in_time(read).await?;
    let counted = tokio::task::spawn_blocking(move || count(&worktree, untracked)).await;
    changed.extend(counted.unwrap_or_default());
    changed.truncate(MAX_FILES);
    Ok(changed)
}

/// The changes of a repository since its last commit.
#[derive(Debug)]
pub(crate) struct TreeDiff {
    /// The tracked files that have changed.
    pub(crate) changed: Vec<ChangedPath>,
    /// Their changes, as one unified diff.
    pub(crate) unified: String,
    /// The paths of files that are neither tracked nor ignored.
    pub(crate) untracked: Vec<String>,
}

/// Compares a repository with its last commit.
///
/// # Errors
/// Git is missing or too slow, or the changes are too large.
pub(crate) async fn diff(worktree: &Path) -> anyhow::Result<TreeDiff> {
    in_time(async {
        let repository = Repository::open(worktree.to_owned()).await?;
        let head = repository.head().await?;
        let changed = repository.changed(&head).await?;
        let unified = repository.run(&comparing("--patch", &head)).await?.unwrap_or_default();
        let unified = String::from_utf8_lossy(&unified).into_owned();
        Ok(TreeDiff { changed, unified, untracked: repository.untracked().await? })
    })
    .await
}

pub(crate) fn is_repository(worktree: &Path) -> bool {
    worktree.join(".git").exists()
}

async fn in_time<T>(read: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(GIT_TIMEOUT, read).await.context("git took too long")?
}

/// The arguments that compare the files with a commit.
fn comparing<'a>(kind: &'a str, head: &'a str) -> [&'a str; 9] {
    [
        "diff", kind, "-z", "--no-renames", "--no-ext-diff", "--no-textconv",
        "--ignore-submodules=all", head, "--",
    ]
}

/// Makes a directory a repository, unless it is in one. The inner error is git's own.
///
/// # Errors
/// Git is missing or too slow.
pub async fn init(directory: &Path) -> anyhow::Result<Result<(), String>> {
    if is_repository(&leftfold_config::worktree_of(directory)) {
        return Ok(Ok(()));
    }
    let made = async {
        let mut git = git(directory, &["init", "--quiet"])?;
        git.stderr(Stdio::piped()).output().await.context("git could not be started")
    };
    let made = in_time(made).await?;
    let why = || String::from_utf8_lossy(&made.stderr).trim().to_owned();
    Ok(if made.status.success() { Ok(()) } else { Err(why()) })
}

/// A git command that ends with the future that waits for it.
fn git(directory: &Path, arguments: &[&str]) -> anyhow::Result<Command> {
    let mut git = Command::from(leftfold_programs::git_in(directory)?);
    git.args(arguments).kill_on_drop(true);
    Ok(git)
}

struct Repository {
    worktree: PathBuf,
    /// Settings that replace the repository's, as git reads them from its environment.
    settings: Vec<(String, String)>,
}

impl Repository {
    async fn open(worktree: PathBuf) -> anyhow::Result<Self> {
        let settings = vec![("color.ui".to_owned(), "false".to_owned())];
        let mut opened = Self { worktree, settings };
        // a filter is a program that would run for every file whose time differs
        let names = ["config", "--list", "--includes", "--name-only", "-z"];
        let names = opened.run(&names).await?.unwrap_or_default();
        for name in fields(&names) {
            if name.starts_with("filter.") {
                let value = if name.ends_with(".required") { "false" } else { "" };
                opened.settings.push((name, value.to_owned()));
            }
        }
        Ok(opened)
    }

    /// The output of a git command; `None` if it fails.
    async fn run(&self, arguments: &[&str]) -> anyhow::Result<Option<Vec<u8>>> {
        let mut git = git(&self.worktree, arguments)?;
        // a setting of the repository could name another folder
        git.env("GIT_DIR", self.worktree.join(".git")).env("GIT_WORK_TREE", &self.worktree);
        git.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (n, (name, value)) in self.settings.iter().enumerate() {
            git.env(format!("GIT_CONFIG_KEY_{n}"), name);
            git.env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        let mut child = git.spawn().context("git could not be started")?;
        child.id().into_iter().for_each(leftfold_programs::limit_memory);
        let stdout = child.stdout.take().context("git has no output")?;
        let mut output = Vec::new();
        stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output).await?;
        ensure!(output.len() as u64 <= MAX_OUTPUT, "git lists too many changes");
        Ok(child.wait().await?.success().then_some(output))
    }

    /// The last commit, or what stands for it.
    async fn head(&self) -> anyhow::Result<String> {
        let head = self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
        let head = head.map(|head| String::from_utf8_lossy(&head).trim().to_owned());
        Ok(head.unwrap_or_else(|| EMPTY_TREE.to_owned()))
    }

    /// The tracked files that have changed.
    async fn changed(&self, head: &str) -> anyhow::Result<Vec<ChangedPath>> {
        let states = self.run(&comparing("--name-status", head)).await?.unwrap_or_default();
        let counts = self.run(&comparing("--numstat", head)).await?.unwrap_or_default();
        let lines: std::collections::HashMap<String, (u64, u64)> = fields(&counts)
            .filter_map(|field| {
                let mut columns = field.splitn(3, '\t');
                // binary files have `-`
                let mut count = || Some(columns.next()?.parse().unwrap_or(0));
                let counted = (count()?, count()?);
                Some((columns.next()?.to_owned(), counted))
            })
            .collect();
        let mut changed = Vec::new();
        let mut states = fields(&states);
        while let (Some(state), Some(path)) = (states.next(), states.next()) {
            let status = match state.as_str() {
                "A" => "added",
                "D" => "deleted",
                _ => "modified",
            };
            let (added, removed) = lines.get(&path).copied().unwrap_or_default();
            changed.push(ChangedPath { path, status, added, removed });
        }
        Ok(changed)
    }

    /// The names of files that are neither tracked nor ignored.
    async fn untracked(&self) -> anyhow::Result<Vec<String>> {
        let others = ["ls-files", "--others", "--exclude-standard", "-z"];
        let others = self.run(&others).await?.unwrap_or_default();
        Ok(fields(&others).take(MAX_FILES).collect())
    }
}

/// The parts of output that `-z` ends with NUL.
fn fields(output: &[u8]) -> impl Iterator<Item = String> {
    let fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    fields.map(|field| String::from_utf8_lossy(field).into_owned())
}

/// The start of a file in the worktree; `None` if it is no plain file.
pub(crate) fn start_of(worktree: &Path, path: &str) -> Option<Vec<u8>> {
    let (file, _) = leftfold_files::open_real(&worktree.join(path)).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_COUNTED).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Untracked files with their numbers of lines.
fn count(worktree: &Path, untracked: Vec<String>) -> Vec<ChangedPath> {
    let lines = |path: &str| {
        let bytes = start_of(worktree, path)?;
        let unfinished = u64::from(bytes.last().is_some_and(|last| *last != b'\n'));
        Some(bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + unfinished)
    };
    let files = untracked.into_iter().enumerate();
    files
        .map(|(n, path)| {
            let added = if n < COUNTED_FILES { lines(&path).unwrap_or(0) } else { 0 };
            ChangedPath { path, status: "added", added, removed: 0 }
        })
        .collect()
}
