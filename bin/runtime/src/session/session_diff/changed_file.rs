//! The change of one file, as a unified diff in git's form with the numbers of changed lines. Secrets
//! and tokens are hidden in it.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use leftfold_events::event::{Change, FileChange};
use leftfold_snapshots::{FileMode, Version};
use leftfold_view::clean::visible_line;
use leftfold_view::{FileDiff, LineKind};
use serde::Serialize;
use similar::{ChangeTag, TextDiff};

use super::steps::LoggedDiff;
use crate::redact_output;

/// Time for each file after which its diff becomes coarser instead of slower.
const EXACT_DIFF_TIMEOUT: Duration = Duration::from_millis(500);
/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// The most pairs of a deleted and an added file to compare line by line.
const MAX_PAIRS: usize = 2_500;
/// Shown instead of a content.
pub(super) const GONE: &str = "The content is not kept any more.";
/// The name of a file on the side where it does not exist.
const NONE: &str = "/dev/null";

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Relative to the worktree; as the call spelled it if `source` is `call`.
    pub path: String,
    /// The earlier path of a renamed file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub change: FileChangeKind,
    /// Lines; 0 for files that are not text.
    pub additions: u64,
    pub deletions: u64,
    /// Whether it is not UTF-8 text.
    pub binary: bool,
    pub source: Source,
    /// The unified diff, with its head.
    pub diff: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChangeKind {
    Added,
    Modified,
    Deleted,
    Renamed,
}

/// The origin of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The snapshots before and after the change.
    Snapshot,
    /// The result of a call that edits files.
    Call,
}

/// A file on one side of a change.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) version: Version,
    pub(super) content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// Text in which secrets are hidden.
    Text(String),
    /// The number of bytes.
    Binary(usize),
    /// It is not kept any more.
    Gone,
}

impl Content {
    pub(super) fn from_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                Self::Text(redact_output::clean(&text).into_owned())
            }
            Ok(text) => Self::Binary(text.len()),
            Err(error) => Self::Binary(error.as_bytes().len()),
        }
    }
}

/// A file with its two sides.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) path: String,
    pub(super) from: Option<String>,
    pub(super) before: Option<Side>,
    pub(super) after: Option<Side>,
}

/// Joins a deleted and an added file into a renamed one if they are equal, or if half of their lines
/// are. The first of several equal candidates wins.
pub(super) fn with_renames(pairs: Vec<Pair>) -> Vec<Pair> {
    let (mut deleted, rest): (Vec<Pair>, Vec<Pair>) =
        pairs.into_iter().partition(|pair| pair.after.is_none());
    let added = rest.iter().filter(|pair| pair.before.is_none()).count();
    let compares_lines = deleted.len().saturating_mul(added) <= MAX_PAIRS;
    let mut joined: Vec<Pair> = Vec::new();
    for mut pair in rest {
        if let (None, Some(new)) = (&pair.before, &pair.after) {
            let likeness = |old: &Pair| old.before.as_ref().map_or(0, |old| alike(old, new));
            let scores = deleted.iter().map(likeness).enumerate();
            let best = scores.rev().max_by_key(|(_, score)| *score);
            let least = if compares_lines { 50 } else { 100 };
            if let Some((at, _)) = best.filter(|(_, score)| *score >= least) {
                let old = deleted.remove(at);
                (pair.from, pair.before) = (Some(old.path), old.before);
            }
        }
        joined.push(pair);
    }
    joined.extend(deleted);
    joined.sort_by(|a, b| a.path.cmp(&b.path));
    joined
}

/// How many of a hundred lines two files share; 0 if one is empty or no text.
fn alike(old: &Side, new: &Side) -> usize {
    match (&old.content, &new.content) {
        (Content::Text(text), _) if text.is_empty() => 0,
        _ if old.version.object == new.version.object => 100,
        (Content::Text(old), Content::Text(new)) if !new.is_empty() => {
            let mut lines: HashMap<&str, usize> = HashMap::new();
            for line in old.lines() {
                *lines.entry(line).or_default() += 1;
            }
            let total = old.lines().count() + new.lines().count();
            let mut shared = 0;
            for line in new.lines() {
                if let Some(left) = lines.get_mut(line).filter(|left| **left > 0) {
                    *left -= 1;
                    shared += 1;
                }
            }
            // equal bytes would have one name
            (200 * shared / total.max(1)).min(99)
        }
        _ => 0,
    }
}

impl Pair {
    pub(super) fn is_gone(&self) -> bool {
        let gone = |side: &Option<Side>| {
            side.as_ref().is_some_and(|side| matches!(side.content, Content::Gone))
        };
        gone(&self.before) || gone(&self.after)
    }

    pub(super) fn into_change(self) -> ChangedFile {
        let Self { path, from, before, after } = &self;
        let change = match (before, after, from) {
            (_, _, Some(_)) => FileChangeKind::Renamed,
            (None, _, None) => FileChangeKind::Added,
            (_, None, None) => FileChangeKind::Deleted,
            (Some(_), Some(_), None) => FileChangeKind::Modified,
        };
        let (old, new) = (shown(from.as_deref().unwrap_or(path)), shown(path));
        let mut diff = format!("diff --git a/{old} b/{new}\n");
        let mode = |side: &Side| side.version.mode;
        diff += &modes(before.as_ref().map(mode), after.as_ref().map(mode));
        if from.is_some() {
            diff += &format!("rename from {old}\nrename to {new}\n");
        }
        let old = if before.is_some() { format!("a/{old}") } else { NONE.to_owned() };
        let new = if after.is_some() { format!("b/{new}") } else { NONE.to_owned() };
        let (mut additions, mut deletions) = (0, 0);
        let contents = self.contents();
        match contents {
            Contents::Gone => diff += &format!("{GONE}\n"),
            Contents::Binary if self.is_same() => {}
            Contents::Binary => {
                let (was, is) = (bytes(before.as_ref()), bytes(after.as_ref()));
                diff += &format!("Binary files {old} and {new} differ: {was} and {is} bytes\n");
            }
            Contents::Text(before, after) => {
                let hunks = Hunks::of(before, after);
                (additions, deletions) = (hunks.additions, hunks.deletions);
                if !hunks.text.is_empty() {
                    diff += &format!("--- {old}\n+++ {new}\n{}", hunks.text);
                } else if change == FileChangeKind::Modified && !self.is_same() {
                    diff += "The files differ only where secrets are hidden.\n";
                }
            }
        }
        let binary = contents == Contents::Binary;
        let (path, from) = (self.path, self.from);
        let hidden = |path: String| redact_output::clean(&path).into_owned();
        let (path, from) = (hidden(path), from.map(hidden));
        let source = Source::Snapshot;
        ChangedFile { path, from, change, additions, deletions, binary, source, diff }
    }

    /// Both sides, if they can be compared as text. A side that does not exist is empty.
    fn contents(&self) -> Contents<'_> {
        let mut texts = [""; 2];
        let mut binary = false;
        for (text, side) in texts.iter_mut().zip([&self.before, &self.after]) {
            match side.as_ref().map(|side| &side.content) {
                Some(Content::Gone) => return Contents::Gone,
                Some(Content::Binary(_)) => binary = true,
                Some(Content::Text(content)) => *text = content,
                None => {}
            }
        }
        let [before, after] = texts;
        if binary { Contents::Binary } else { Contents::Text(before, after) }
    }

    /// Whether both sides have one content.
    fn is_same(&self) -> bool {
        let object = |side: &Option<Side>| side.as_ref().map(|side| side.version.object.clone());
        object(&self.before) == object(&self.after)
    }
}

/// The contents of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents<'a> {
    Text(&'a str, &'a str),
    /// One of the two is no text.
    Binary,
    /// One of the two is not kept any more.
    Gone,
}

fn bytes(side: Option<&Side>) -> usize {
    match side.map(|side| &side.content) {
        Some(Content::Text(text)) => text.len(),
        Some(Content::Binary(bytes)) => *bytes,
        Some(Content::Gone) | None => 0,
    }
}

fn modes(before: Option<FileMode>, after: Option<FileMode>) -> String {
    match (before, after) {
        (None, Some(mode)) => format!("new file mode {}\n", mode.git()),
        (Some(mode), None) => format!("deleted file mode {}\n", mode.git()),
        (Some(old), Some(new)) if old != new => {
            format!("old mode {}\nnew mode {}\n", old.git(), new.git())
        }
        (Some(_), Some(_)) | (None, None) => String::new(),
    }
}

/// A path in the head of a diff.
fn shown(path: &str) -> String {
    visible_line(&redact_output::clean(path))
}

struct Hunks {
    text: String,
    additions: u64,
    deletions: u64,
}

impl Hunks {
    fn of(old: &str, new: &str) -> Self {
        // only `\n` ends a line: a lone `\r` stays within one
        let lines = |text| str::split_inclusive(text, '\n').collect::<Vec<&str>>();
        let (old, new) = (lines(old), lines(new));
        let diff = TextDiff::configure().timeout(EXACT_DIFF_TIMEOUT).diff_slices(&old, &new);
        let (mut text, mut additions, mut deletions) = (String::new(), 0, 0);
        let mut unified = diff.unified_diff();
        for hunk in unified.context_radius(CONTEXT).iter_hunks() {
            let _ = writeln!(text, "{}", hunk.header());
            for change in hunk.iter_changes() {
                match change.tag() {
                    ChangeTag::Insert => additions += 1,
                    ChangeTag::Delete => deletions += 1,
                    ChangeTag::Equal => {}
                }
                let line = change.value();
                let _ = write!(text, "{}{line}", change.tag());
                if !line.ends_with('\n') {
                    text += "\n\\ No newline at end of file\n";
                }
            }
        }
        Self { text, additions, deletions }
    }
}

/// The files in a diff that a call has logged.
pub(super) fn logged(diff: &LoggedDiff) -> Vec<ChangedFile> {
    let files = FileDiff::parse(&diff.text);
    files.iter().filter_map(of_logged).collect()
}

fn of_logged(file: &FileDiff) -> Option<ChangedFile> {
    let name = |key, side| {
        let name = file.after(key)?;
        (name != NONE).then(|| name.strip_prefix(side).unwrap_or(name).to_owned())
    };
    let (old, new) = (name("--- ", "a/"), name("+++ ", "b/"));
    let from = file.after("rename from ").map(str::to_owned);
    let to = file.after("rename to ").map(str::to_owned);
    let change = match (&from, &old, &new) {
        (Some(_), _, _) => FileChangeKind::Renamed,
        (None, None, Some(_)) => FileChangeKind::Added,
        (None, Some(_), None) => FileChangeKind::Deleted,
        (None, _, _) => FileChangeKind::Modified,
    };
    let path = to.or(new).or(old)?;
    let count = |kind| file.0.iter().filter(|line| line.kind == kind).count() as u64;
    let lines = file.0.iter().map(|line| line.text.as_str());
    let diff = lines.fold(String::new(), |text, line| text + line + "\n");
    let (additions, deletions) = (count(LineKind::Added), count(LineKind::Removed));
    let diff = redact_output::clean(&diff).into_owned();
    let source = Source::Call;
    Some(ChangedFile { path, from, change, additions, deletions, binary: false, source, diff })
}

/// A change of which only the numbers are known. `why`: why the content is not shown.
pub(super) fn counted(file: &FileChange, why: &str) -> ChangedFile {
    let FileChange { path, change, additions, deletions } = file;
    let name = shown(path);
    ChangedFile {
        path: redact_output::clean(path).into_owned(),
        from: None,
        change: match change {
            Change::Added => FileChangeKind::Added,
            Change::Modified => FileChangeKind::Modified,
            Change::Deleted => FileChangeKind::Deleted,
        },
        additions: *additions,
        deletions: *deletions,
        binary: false,
        source: Source::Snapshot,
        diff: format!("diff --git a/{name} b/{name}\n{why}\n"),
    }
}
