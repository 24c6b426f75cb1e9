//! Earlier prompts, in memory and in the file `history` of the data folder.
//!
//! The file is the one that `rustyline` writes: a line `#V2`, then one entry a line with `\n` and `\\` as escapes. A line
//! may end with `\p` and a hash of the project. The file has secrets masked and only its owner can read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;

/// The bytes of a prompt that is kept in the file. The log has longer ones, and reading them would delay every start.
const LONGEST: usize = 64 * 1024;
/// The number of prompts to keep.
const KEPT: usize = 1_000;
const HEADING: &str = "#V2";

/// Begins the hash of the project at the end of a line.
const PROJECT: &str = "\\p";
/// The characters of this hash.
const HASH: usize = 16;

#[derive(Debug, Default)]
pub(super) struct PromptHistory {
    /// Those of other projects come first, and among them the oldest.
    entries: Vec<String>,
    /// The hash of this project.
    project: String,
    /// `None`: nothing is written.
    file: Option<PathBuf>,
}

impl PromptHistory {
    /// The entries of this file, as they are for a project. A file that cannot be read is empty.
    pub(super) fn open(file: &Path, project: &Path) -> Self {
        let mut project = Sha256::digest(project.as_os_str().as_bytes()).to_string();
        project.truncate(HASH);
        let bytes = fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let is_escaped = text.starts_with(HEADING);
        let lines = text.lines().skip(usize::from(is_escaped)).filter(|line| !line.is_empty());
        let mut lines: Vec<&str> = lines.collect();
        let too_many = lines.len().saturating_sub(KEPT);
        lines.drain(..too_many);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for line in &lines {
            let (entry, of) = if is_escaped { parted(line) } else { (*line, None) };
            let entry = if is_escaped { unescaped(entry) } else { entry.to_owned() };
            if of == Some(project.as_str()) { own.push(entry) } else { others.push(entry) }
        }
        if too_many > KEPT
            && is_escaped
            && let Err(error) = rewrite(file, &lines)
        {
            tracing::debug!("cannot shorten the history in {}: {error}", file.display());
        }
        Self { entries: [others, own].concat(), project, file: Some(file.to_owned()) }
    }

    pub(super) fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a prompt that was sent, unless it is the last one again. A long one and one that begins with a blank are not
    /// written to the file. `stored` is its form there.
    pub(super) fn add(&mut self, text: &str, stored: &str) {
        self.insert(text, stored, LONGEST);
    }

    /// Adds a text that was not sent: the file is its only place.
    pub(super) fn add_unsent(&mut self, text: &str, stored: &str) {
        self.insert(text, stored, usize::MAX);
    }

    fn insert(&mut self, text: &str, stored: &str, most: usize) {
        let is_again = self.entries.last().is_some_and(|last| last == text || last == stored);
        if is_again || text.trim().is_empty() {
            return;
        }
        self.entries.push(text.to_owned());
        let Some(file) =
            self.file.as_ref().filter(|_| !text.starts_with(' ') && stored.len() <= most)
        else {
            return;
        };
        if let Err(error) = append(file, stored, &self.project) {
            tracing::warn!("cannot save the history in {}: {error}", file.display());
        }
    }
}

fn rewrite(file: &Path, lines: &[&str]) -> io::Result<()> {
    let new = file.with_extension("new");
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    out.write_all(format!("{HEADING}\n{}\n", lines.join("\n")).as_bytes())?;
    fs::rename(new, file)
}

fn append(file: &Path, entry: &str, project: &str) -> io::Result<()> {
    let mut out = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    let heading = if out.metadata()?.len() == 0 { format!("{HEADING}\n") } else { String::new() };
    out.write_all(format!("{heading}{}{PROJECT}{project}\n", escaped(entry)).as_bytes())
}

/// An entry as it stands in a line, and the hash of its project.
fn parted(line: &str) -> (&str, Option<&str>) {
    let Some((entry, hash)) = line.rsplit_once(PROJECT) else { return (line, None) };
    let is_hash = hash.len() == HASH && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    // otherwise the backslash belongs to the text
    let backslashes = entry.len() - entry.trim_end_matches('\\').len();
    if is_hash && backslashes.is_multiple_of(2) { (entry, Some(hash)) } else { (line, None) }
}

fn escaped(entry: &str) -> String {
    entry.replace('\\', r"\\").replace('\n', r"\n").replace('\r', r"\r")
}

fn unescaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, false) => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn open(file: &Path) -> PromptHistory {
        PromptHistory::open(file, Path::new("/project"))
    }

    #[test]
    fn those_of_the_project_are_the_last() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let mut one = PromptHistory::open(&file, Path::new("/one"));
        one.add("of one \\p0123456789abcdef", "of one \\p0123456789abcdef");
        let mut two = PromptHistory::open(&file, Path::new("/two"));
        two.add("of two", "of two");
        let of = |project: &str| PromptHistory::open(&file, Path::new(project)).entries;
        assert_eq!(of("/one"), ["of two", "of one \\p0123456789abcdef"]);
        assert_eq!(of("/two"), ["of one \\p0123456789abcdef", "of two"]);
        assert_eq!(of("/three"), ["of one \\p0123456789abcdef", "of two"]);
    }

    #[test]
    fn prompts_come_back_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        fs::write(&file, "#V2\nearlier\\nlines\\\\n\n\n").unwrap();
        let mut history = open(&file);
        assert_eq!(history.entries(), ["earlier\nlines\\n"]);
        for text in ["one", "one", " hidden", "", "two\nlines \\n"] {
            history.add(text, text);
        }
        let long = "x".repeat(LONGEST + 1);
        history.add(&long, &long);
        history.add("with a secret", "with a [masked]");
        let again = open(&file);
        let expected = ["earlier\nlines\\n", "one", "two\nlines \\n", "with a [masked]"];
        assert_eq!(again.entries(), expected);
        assert_eq!(history.entries()[5], "with a secret");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0o044);
        fs::remove_file(&file).unwrap();
        history.add("new", "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // a file without escapes, and none
        fs::write(&file, "a\\nb\n").unwrap();
        assert_eq!(open(&file).entries(), ["a\\nb"]);
        assert!(open(folder.path()).entries().is_empty());
    }

    #[test]
    fn a_file_that_has_grown_is_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let lines: String = (0..2_500).map(|n| format!("entry {n}\n")).collect();
        fs::write(&file, format!("#V2\n{lines}")).unwrap();
        assert_eq!(open(&file).entries()[0], "entry 1500");
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1 + KEPT);
    }
}
