//! Reads snapshots: the files that differ between two trees, and the contents of files. A tree never
//! changes, so reading needs no lock. It never writes.

use std::collections::HashMap;
use std::io::Write;
use std::process::Stdio;

use serde::{Deserialize, Serialize};

use super::git::{self, Contents, Git};
use super::{Error, FileMode, Snapshots};

/// A file on both sides of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVersions {
    /// Relative to the worktree.
    pub path: String,
    /// `None`: the file did not exist.
    pub before: Option<Version>,
    pub after: Option<Version>,
}

/// A file as a snapshot holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub mode: FileMode,
    /// The name of its content, for [`Objects::read`].
    pub object: String,
}

/// The differences of pairs of trees, by pair.
type Differences = HashMap<(String, String), Vec<FileVersions>>;

impl Snapshots {
    /// The files that differ between the two trees of each pair. One process compares all of them. A
    /// pair is `None` if one of its trees is not kept any more, or is not the name of a tree.
    ///
    /// # Errors
    /// Git is missing or failed.
    pub fn compare(&self, pairs: &[(&str, &str)]) -> Result<Vec<Option<Vec<FileVersions>>>, Error> {
        let known: Vec<_> =
            pairs.iter().filter(|(old, new)| is_name(old) && is_name(new)).collect();
        let mut found = if known.is_empty() || !self.folder.join("HEAD").is_file() {
            HashMap::new()
        } else {
            let lines: String = known.iter().map(|(old, new)| format!("{old} {new}\n")).collect();
            Git::new(&self.folder).differences(&lines)?
        };
        let mut take = |old: &str, new: &str| found.remove(&(old.to_owned(), new.to_owned()));
        Ok(pairs.iter().map(|(old, new)| take(old, new)).collect())
    }

    /// The contents of files.
    ///
    /// # Errors
    /// Git is missing.
    pub fn objects(&self) -> Result<Objects, Error> {
        Git::new(&self.folder).contents().map(Objects)
    }
}

/// Reads the contents of files, one after the other.
#[derive(Debug)]
pub struct Objects(Contents);

impl Objects {
    /// The content of a file, or the target of a link.
    ///
    /// # Errors
    /// It is not kept any more, or git failed.
    pub fn read(&mut self, version: &Version) -> Result<Vec<u8>, Error> {
        self.0.for_object(&version.object)
    }
}

impl Git<'_> {
    /// The differences of the pairs of trees in `lines`.
    fn differences(&self, lines: &str) -> Result<Differences, Error> {
        const NAME: &str = "diff-tree";
        let args = [NAME, "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-ext-diff"];
        let mut command = self.command(&args)?;
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(git::not_started)?;
        let stdin = child.stdin.take();
        let output = std::thread::scope(|scope| {
            // git may answer before it has read everything
            scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(lines.as_bytes())));
            child.wait_with_output()
        });
        let output = git::checked_output(NAME, output.map_err(git::not_started)?)?;
        Ok(parse(&String::from_utf8_lossy(&output)))
    }
}

/// `OLD NEW`, then a line end and the pair's files: `:MODE MODE OBJECT OBJECT LETTER`, a zero, the
/// path and a zero for each. Paths of snapshots contain no line ends.
fn parse(output: &str) -> Differences {
    let mut found = Differences::new();
    let mut pair = None;
    let mut records = output.split('\0');
    while let Some(record) = records.next() {
        let mut lines = record.split('\n').peekable();
        while let Some(line) = lines.next_if(|line| !line.starts_with(':')) {
            let Some((old, new)) = line.split_once(' ') else { continue };
            let named = (old.to_owned(), new.to_owned());
            found.entry(named.clone()).or_default();
            pair = Some(named);
        }
        let (Some(raw), Some(pair)) = (lines.next(), &pair) else { continue };
        let Some(path) = records.next() else { break };
        let mut fields = raw.trim_start_matches(':').split(' ');
        let mut field = || fields.next().unwrap_or_default();
        let (old_mode, new_mode, old, new) = (field(), field(), field(), field());
        let version = |mode: &str, object: &str| {
            FileMode::of_git(mode).map(|mode| Version { mode, object: object.to_owned() })
        };
        let (before, after) = (version(old_mode, old), version(new_mode, new));
        let file = FileVersions { path: path.to_owned(), before, after };
        found.entry(pair.clone()).or_default().push(file);
    }
    found
}

/// Whether git would read this as the name of an object, and as nothing else.
pub fn is_name(tree: &str) -> bool {
    matches!(tree.len(), 40 | 64) && tree.bytes().all(|byte| byte.is_ascii_hexdigit())
}
