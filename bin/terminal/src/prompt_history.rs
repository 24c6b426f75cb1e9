//! Earlier prompts, in memory and in the file `history` of the data folder.
//!
//! The file is the one that `rustyline` writes: a line `#V2`, then one entry a line with `\n` and `\\` as escapes. It
//! has secrets masked and only its owner can read it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The number of prompts to keep.
const KEPT: usize = 1_000;
const HEADING: &str = "#V2";

#[derive(Debug, Default)]
pub(super) struct PromptHistory {
    /// The oldest is first.
    entries: Vec<String>,
    /// `None`: nothing is written.
    file: Option<PathBuf>,
}

impl PromptHistory {
    /// The entries of this file. A file that cannot be read is empty.
    pub(super) fn open(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let is_escaped = text.starts_with(HEADING);
        let lines = text.lines().skip(usize::from(is_escaped)).filter(|line| !line.is_empty());
        let mut entries: Vec<String> =
            lines.map(|line| if is_escaped { unescaped(line) } else { line.to_owned() }).collect();
        let too_many = entries.len().saturating_sub(KEPT);
        entries.drain(..too_many);
        let history = Self { entries, file: Some(file.to_owned()) };
        if too_many > KEPT
            && let Err(error) = history.rewrite(file)
        {
            tracing::debug!("cannot shorten the history in {}: {error}", file.display());
        }
        history
    }

    pub(super) fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a prompt, unless it is the last one again. One that begins with a blank is not written to the file. `stored`
    /// is its form there.
    pub(super) fn add(&mut self, text: &str, stored: &str) {
        let is_again = self.entries.last().is_some_and(|last| last == text || last == stored);
        if is_again || text.trim().is_empty() {
            return;
        }
        self.entries.push(text.to_owned());
        let Some(file) = self.file.as_ref().filter(|_| !text.starts_with(' ')) else { return };
        if let Err(error) = append(file, stored) {
            tracing::warn!("cannot save the history in {}: {error}", file.display());
        }
    }

    fn rewrite(&self, file: &Path) -> io::Result<()> {
        let mut text = format!("{HEADING}\n");
        for entry in &self.entries {
            text += &format!("{}\n", escaped(entry));
        }
        let new = file.with_extension("new");
        let mut out =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        out.write_all(text.as_bytes())?;
        fs::rename(new, file)
    }
}

fn append(file: &Path, entry: &str) -> io::Result<()> {
    let mut out = OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    let heading = if out.metadata()?.len() == 0 { format!("{HEADING}\n") } else { String::new() };
    out.write_all(format!("{heading}{}\n", escaped(entry)).as_bytes())
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

    #[test]
    fn prompts_come_back_from_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        fs::write(&file, "#V2\nearlier\\nlines\\\\n\n\n").unwrap();
        let mut history = PromptHistory::open(&file);
        assert_eq!(history.entries(), ["earlier\nlines\\n"]);
        for text in ["one", "one", " hidden", "", "two\nlines \\n"] {
            history.add(text, text);
        }
        history.add("with a secret", "with a [masked]");
        let again = PromptHistory::open(&file);
        let expected = ["earlier\nlines\\n", "one", "two\nlines \\n", "with a [masked]"];
        assert_eq!(again.entries(), expected);
        assert_eq!(history.entries()[4], "with a secret");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o077, 0o044);
        fs::remove_file(&file).unwrap();
        history.add("new", "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        // a file without escapes, and none
        fs::write(&file, "a\\nb\n").unwrap();
        assert_eq!(PromptHistory::open(&file).entries(), ["a\\nb"]);
        assert!(PromptHistory::open(folder.path()).entries().is_empty());
    }

    #[test]
    fn a_file_that_has_grown_is_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("history");
        let lines: String = (0..2_500).map(|n| format!("entry {n}\n")).collect();
        fs::write(&file, format!("#V2\n{lines}")).unwrap();
        assert_eq!(PromptHistory::open(&file).entries()[0], "entry 1500");
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 1 + KEPT);
    }
}
