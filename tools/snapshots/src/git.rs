//! The git directory of a worktree's snapshots, and the git processes that work in it.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use leftfold_events::event::{Change, FileChange};

use super::Error;
use super::stamp::Mode;

const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = true
\thooksPath = /dev/null
\tlogAllRefUpdates = false
\tcompression = 1
[fastimport]
\tunpackLimit = 0
[gc]
\tauto = 0
";

/// The tree without files.
pub(super) const EMPTY: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Creates an empty bare repository without calling git, so that no template applies.
pub(super) fn init(folder: &Path) -> io::Result<()> {
    if folder.join("HEAD").is_file() {
        return Ok(());
    }
    // private: the copied files may not be readable by others
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700);
    private.create(folder.join("objects"))?;
    private.create(folder.join("refs"))?;
    fs::write(folder.join("config"), CONFIG)?;
    fs::write(folder.join("HEAD.new"), "ref: refs/heads/main\n")?;
    fs::rename(folder.join("HEAD.new"), folder.join("HEAD"))
}

pub(super) struct Git<'a> {
    folder: &'a Path,
}

impl<'a> Git<'a> {
    pub(super) fn new(folder: &'a Path) -> Self {
        Self { folder }
    }

    /// A git command that sees nothing of the user's environment or settings.
    pub(super) fn command(&self, args: &[&str]) -> Result<Command, Error> {
        let mut command = leftfold_programs::helper("git").map_err(not_started)?;
        command.arg("--git-dir").arg(self.folder).args(args).current_dir(self.folder);
        command.envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("LC_ALL", "C"),
        ]);
        command.env("HOME", self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn run(&self, name: &'static str, args: &[&str]) -> Result<Vec<u8>, Error> {
        let output = self.command(args)?.output().map_err(not_started)?;
        checked_output(name, output)
    }

    /// Whether the store has this object.
    pub(super) fn has(&self, object: &str) -> Result<bool, Error> {
        let output = self.command(&["cat-file", "-e", object])?.output().map_err(not_started)?;
        Ok(output.status.success())
    }

    /// The changes that turn `old` into `new`.
    pub(super) fn diff(&self, old: &str, new: &str) -> Result<Vec<FileChange>, Error> {
        let args = [
            "diff-tree", "-r", "-z", "--raw", "--numstat", "--no-renames", "--no-ext-diff",
            "--no-textconv", old, new,
        ];
        let told = self.run("diff-tree", &args)?;
        Ok(parse_diff(&String::from_utf8_lossy(&told)))
    }

    /// Every file of a tree, with mode and object.
    pub(super) fn list(&self, tree: &str) -> Result<HashMap<String, (Mode, String)>, Error> {
        let told = self.run("ls-tree", &["ls-tree", "-r", "-z", "--full-tree", tree])?;
        let told = String::from_utf8_lossy(&told);
        let file = |line: &str| {
            let (head, path) = line.split_once('\t')?;
            let mut head = head.split(' ');
            let mode = Mode::of_git(head.next()?)?;
            Some((path.to_owned(), (mode, head.nth(1)?.to_owned())))
        };
        Ok(told.split('\0').filter_map(file).collect())
    }

    /// Drops objects that neither `tree` nor a snapshot of the last week needs.
    pub(super) fn tidy(&self, tree: &str) -> Result<(), Error> {
        if tree != EMPTY {
            self.run("update-ref", &["update-ref", "refs/leftfold/last", tree])?;
        }
        let mut command = self.command(&["gc", "--quiet", "--prune=7.days.ago"])?;
        let output = command.process_group(0).output().map_err(not_started)?;
        checked_output("gc", output).map(drop)
    }

    pub(super) fn contents(&self) -> Result<Contents, Error> {
        let mut command = self.command(&["cat-file", "--batch"])?;
        let command = command.stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(not_started)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(stdin), Some(stdout)) => {
                Ok(Contents { child, stdin: Some(stdin), stdout: BufReader::new(stdout) })
            }
            _ => Err(failed("cat-file", &"it has no streams")),
        }
    }
}

/// Reads the contents of objects, one after the other.
#[derive(Debug)]
pub(super) struct Contents {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Contents {
    pub(super) fn for_object(&mut self, object: &str) -> Result<Vec<u8>, Error> {
        self.ask(object).map_err(|error| failed("cat-file", &error))
    }

    fn ask(&mut self, object: &str) -> io::Result<Vec<u8>> {
        if let Some(stdin) = &mut self.stdin {
            writeln!(stdin, "{object}")?;
            stdin.flush()?;
        }
        let mut head = String::new();
        self.stdout.read_line(&mut head)?;
        let size = head.trim_end().rsplit_once(' ').and_then(|(_, size)| size.parse().ok());
        let missing = || io::Error::other(format!("object {object}: {}", head.trim_end()));
        let mut content = vec![0; size.ok_or_else(missing)?];
        self.stdout.read_exact(&mut content)?;
        self.stdout.read_exact(&mut [0])?;
        Ok(content)
    }
}

impl Drop for Contents {
    fn drop(&mut self) {
        self.stdin = None;
        // closed input ends the process
        let _ = self.child.wait();
    }
}

/// Quotes a path as git does. Line ends do not occur in it.
pub(super) fn quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\""))
}

/// `:MODE MODE OBJECT OBJECT LETTER`, then the path, for each file; then `ADDED\tDELETED\tPATH`.
fn parse_diff(told: &str) -> Vec<FileChange> {
    let mut records = told.split('\0').filter(|record| !record.is_empty());
    let (mut kinds, mut files) = (HashMap::new(), Vec::new());
    while let Some(record) = records.next() {
        if let Some(raw) = record.strip_prefix(':') {
            let change = match raw.rsplit(' ').next() {
                Some("A") => Change::Added,
                Some("D") => Change::Deleted,
                _ => Change::Modified,
            };
            kinds.extend(records.next().map(|path| (path, change)));
            continue;
        }
        let mut fields = record.splitn(3, '\t');
        let mut count = || fields.next().and_then(|n| n.parse().ok()).unwrap_or_default();
        let (additions, deletions) = (count(), count());
        let Some(path) = fields.next() else { continue };
        let change = kinds.get(path).copied().unwrap_or(Change::Modified);
        files.push(FileChange { path: path.to_owned(), change, additions, deletions });
    }
    files
}

pub(super) fn checked_output(name: &'static str, output: Output) -> Result<Vec<u8>, Error> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(failed(name, &told.lines().next().unwrap_or("without a word")))
}

pub(super) fn failed(command: &'static str, message: &dyn std::fmt::Display) -> Error {
    Error::Git { command, message: message.to_string() }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn not_started(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound { Error::NoGit } else { failed("start", &error) }
}
