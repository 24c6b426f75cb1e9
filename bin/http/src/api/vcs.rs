//! Git's status and branch of a directory, and new repositories. The repository is untrusted: none of its hooks, monitors,
//! filters or diff programs runs, and nothing is fetched.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::Json;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::config::project_at;
use super::{Answer, Directory, blocking};
use crate::error::ApiError;

/// How long git may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest output of git that is read, in bytes.
const MAX_OUTPUT: u64 = 8 << 20;
/// Changed files that are listed.
const MAX_FILES: usize = 5_000;
/// Untracked files up to this size have their lines counted, in bytes, and so many of them.
const MAX_COUNTED: u64 = 1 << 20;
const COUNTED_FILES: usize = 200;
/// The tree without files, with which a repository without commits is compared.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

struct Changed {
    path: String,
    status: &'static str,
    added: u64,
    removed: u64,
}

pub(super) async fn status(Directory(directory): Directory) -> Answer {
    let shown = |one: Changed| json!({ "file": one.path, "additions": one.added, "deletions": one.removed, "status": one.status });
    Ok(Json(changed(&directory).await?.into_iter().map(shown).collect()))
}

pub(super) async fn files(Directory(directory): Directory) -> Answer {
    let shown = |one: Changed| json!({ "path": one.path, "added": one.added, "removed": one.removed, "status": one.status });
    Ok(Json(changed(&directory).await?.into_iter().map(shown).collect::<Value>()))
}

/// The files of the worktree that differ from the last commit; none if it is no repository.
async fn changed(directory: &Path) -> anyhow::Result<Vec<Changed>> {
    let worktree = leftfold_config::worktree_of(directory);
    if !worktree.join(".git").exists() {
        return Ok(Vec::new());
    }
    let read = tokio::time::timeout(PATIENCE, Repository::open(worktree.clone()));
    let repository = read.await.context("git took too long")??;
    let read = tokio::time::timeout(PATIENCE, repository.changed());
    let (mut changed, untracked) = read.await.context("git took too long")??;
    let counted = blocking(move || Ok(count(&worktree, untracked))).await;
    changed.extend(counted.unwrap_or_default());
    changed.truncate(MAX_FILES);
    Ok(changed)
}

/// Makes the directory a repository, unless it is in one.
pub(super) async fn init(Directory(directory): Directory) -> Answer {
    let worktree = leftfold_config::worktree_of(&directory);
    if !worktree.join(".git").exists() {
        let made = git(&directory, &["init", "--quiet"]).output();
        let made = tokio::time::timeout(PATIENCE, made).await.context("git took too long");
        let made = made?.context("git could not be started")?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
            return Err(ApiError::bad_request(format!("git init: {why}")));
        }
    }
    Ok(Json(project_at(&leftfold_config::worktree_of(&directory))))
}

/// A git command with little of the environment.
fn git(directory: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(directory).env_clear();
    for name in ["PATH", "HOME", "XDG_CONFIG_HOME"] {
        git.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    git.envs([
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("LC_ALL", "C"),
    ]);
    git.stdin(Stdio::null()).kill_on_drop(true);
    git
}

struct Repository {
    worktree: PathBuf,
    /// Settings that replace the repository's, as git reads them from its environment.
    settings: Vec<(String, String)>,
}

impl Repository {
    async fn open(worktree: PathBuf) -> anyhow::Result<Self> {
        let settings = [("core.fsmonitor", "false"), ("core.hooksPath", "/dev/null")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
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
        let mut git = git(&self.worktree, arguments);
        // a setting of the repository could name another folder
        git.env("GIT_DIR", self.worktree.join(".git")).env("GIT_WORK_TREE", &self.worktree);
        git.env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (n, (name, value)) in self.settings.iter().enumerate() {
            git.env(format!("GIT_CONFIG_KEY_{n}"), name);
            git.env(format!("GIT_CONFIG_VALUE_{n}"), value);
        }
        git.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = git.spawn().context("git could not be started")?;
        let stdout = child.stdout.take().context("git has no output")?;
        let mut output = Vec::new();
        stdout.take(MAX_OUTPUT + 1).read_to_end(&mut output).await?;
        ensure!(output.len() as u64 <= MAX_OUTPUT, "git lists too many files");
        Ok(child.wait().await?.success().then_some(output))
    }

    /// The tracked files that have changed, and the names of those that are not tracked.
    async fn changed(&self) -> anyhow::Result<(Vec<Changed>, Vec<String>)> {
        let head = self.run(&["rev-parse", "--verify", "--quiet", "HEAD"]).await?;
        let head = head.map(|head| String::from_utf8_lossy(&head).trim().to_owned());
        let head = head.unwrap_or_else(|| EMPTY_TREE.to_owned());
        #[rustfmt::skip]
        let diff = |kind| ["diff", kind, "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=all", &head, "--"];
        let states = self.run(&diff("--name-status")).await?.unwrap_or_default();
        let counts = self.run(&diff("--numstat")).await?.unwrap_or_default();
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
            changed.push(Changed { path, status, added, removed });
        }
        let others = ["ls-files", "--others", "--exclude-standard", "-z"];
        let others = self.run(&others).await?.unwrap_or_default();
        Ok((changed, fields(&others).take(MAX_FILES).collect()))
    }
}

/// The parts of output that `-z` ends with NUL.
fn fields(output: &[u8]) -> impl Iterator<Item = String> {
    let fields = output.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    fields.map(|field| String::from_utf8_lossy(field).into_owned())
}

/// Untracked files with their numbers of lines.
fn count(worktree: &Path, untracked: Vec<String>) -> Vec<Changed> {
    let lines = |path: &str| {
        let path = worktree.join(path);
        let metadata = std::fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path).ok()?.take(MAX_COUNTED).read_to_end(&mut bytes).ok()?;
        let unfinished = u64::from(bytes.last().is_some_and(|last| *last != b'\n'));
        Some(bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + unfinished)
    };
    let files = untracked.into_iter().enumerate();
    files
        .map(|(n, path)| {
            let added = if n < COUNTED_FILES { lines(&path).unwrap_or(0) } else { 0 };
            Changed { path, status: "added", added, removed: 0 }
        })
        .collect()
}
