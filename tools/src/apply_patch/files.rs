//! Computes in memory what a patch makes of files, before any is written.
//!
//! Sections build on each other: a later section may update a file that an earlier one has added.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::body::{self, HunkMismatch, MismatchReason};
use super::find::Strictness;
use super::parse::{Change, Hunk, Section};
use crate::text_files::TextFiles;
use crate::{Error, Seen, confined, fold, nearby, seen, text};

/// Most lines of a hunk or file that an error quotes.
const QUOTE: usize = 8;

/// One path, before and after.
#[derive(Debug)]
pub(super) struct File {
    /// The path as the patch spells it.
    pub(super) given: String,
    /// The resolved path.
    pub(super) path: PathBuf,
    pub(super) before: Option<Metadata>,
    /// The text that an editor shows, if it differs from the file on disk.
    unsaved: Option<String>,
    /// The text before the patch, once the file may have been written.
    kept: Option<String>,
    pub(super) now: FileState,
    /// The least strict comparison that placed a hunk.
    pub(super) pass: Strictness,
}

#[derive(Debug)]
pub(super) enum FileState {
    Absent,
    /// Unchanged.
    Untouched,
    Text {
        text: String,
        /// Index of the file that was moved here.
        from: Option<usize>,
    },
    /// A file that is not UTF-8 text, moved here as it is.
    Moved {
        bytes: Vec<u8>,
        /// Index of the file.
        from: usize,
    },
}

#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) all: Vec<File>,
}

/// The state that a patch is applied to.
pub(super) struct Base<'a> {
    pub(super) texts: &'a TextFiles,
    /// The files as the model last saw them.
    pub(super) seen: &'a Seen,
}

impl Base<'_> {
    /// Checks that the model has seen the file's current state. Returns the editor's text if it
    /// differs from the disk.
    fn check(&self, path: &Path, found: &Metadata) -> Result<Option<String>, Error> {
        let disk = text::load(path, found).ok();
        let unsaved = disk.and_then(|disk| self.texts.unsaved(path, found, &disk));
        match &unsaved {
            Some(text) => seen::check_unsaved(path, text, self.seen)?,
            None => seen::check(path, found, self.seen)?,
        }
        Ok(unsaved)
    }
}

impl Files {
    /// Applies the sections in memory. `resolve` resolves the paths of the patch.
    ///
    /// # Errors
    /// Any reason why one of the files cannot be changed.
    pub(super) fn plan(
        sections: &[Section],
        resolve: impl Fn(&str) -> Result<PathBuf, Error>,
        base: &Base<'_>,
    ) -> Result<Self, Error> {
        let mut files = Self::default();
        for section in sections {
            let at = files.index(&section.path, resolve(&section.path)?, base)?;
            match &section.change {
                Change::Add(text) => {
                    let added = FileState::Text { text: text.clone(), from: None };
                    files.add(at, section, added)?;
                }
                Change::Delete => files.delete(at, section)?,
                Change::Update { move_to, hunks } => {
                    let to = match move_to {
                        Some(to) => Some(files.index(to, resolve(to)?, base)?),
                        None => None,
                    };
                    files.update(at, section, to, hunks)?;
                }
            }
        }
        files.check_folders()?;
        Ok(files)
    }

    /// Keeps the texts from before the patch, for a report after the files are written.
    pub(super) fn keep_texts(&mut self) {
        for file in &mut self.all {
            file.kept = file.text_before();
        }
    }

    /// The new text of the file at `path`.
    pub(super) fn text_of(&mut self, path: &Path) -> Option<&mut String> {
        let file = self.all.iter_mut().find(|file| file.path == path)?;
        match &mut file.now {
            FileState::Text { text, .. } => Some(text),
            FileState::Absent | FileState::Untouched | FileState::Moved { .. } => None,
        }
    }

    /// The files that the patch deletes or moves away.
    pub(super) fn removed(&self) -> Vec<PathBuf> {
        let is_removed =
            |file: &&File| matches!(file.now, FileState::Absent) && file.before.is_some();
        self.all.iter().filter(is_removed).map(|file| file.path.clone()).collect()
    }

    fn index(&mut self, given: &str, path: PathBuf, base: &Base<'_>) -> Result<usize, Error> {
        if let Some(at) = self.all.iter().position(|file| file.path == path) {
            return Ok(at);
        }
        let before = confined::lookup(&path)?;
        let unsaved = before.as_ref().map(|found| base.check(&path, found)).transpose()?.flatten();
        let now = if before.is_some() { FileState::Untouched } else { FileState::Absent };
        let given = given.to_owned();
        self.all.push(File {
            given,
            path,
            before,
            unsaved,
            kept: None,
            now,
            pass: Strictness::Exact,
        });
        Ok(self.all.len() - 1)
    }

    fn add(&mut self, at: usize, section: &Section, added: FileState) -> Result<(), Error> {
        let file = &mut self.all[at];
        if let FileState::Absent = file.now {
            file.now = added;
            return Ok(());
        }
        let advice = match section.change {
            Change::Add(_) => "Use `*** Update File:` to change it, or delete it first",
            Change::Delete | Change::Update { .. } => "Move to another path, or delete it first",
        };
        Err(Error::AlreadyExists(format!(
            "{} exists already (line {} of the patch). {advice}. Nothing was changed.",
            file.path.display(),
            section.line
        )))
    }

    fn delete(&mut self, at: usize, section: &Section) -> Result<(), Error> {
        self.require(at, section)?;
        let file = &mut self.all[at];
        if let (FileState::Untouched, Some(found)) = (&file.now, &file.before) {
            confined::regular(&file.path, found)?;
        }
        file.now = FileState::Absent;
        Ok(())
    }

    fn update(
        &mut self,
        at: usize,
        section: &Section,
        to: Option<usize>,
        hunks: &[Hunk],
    ) -> Result<(), Error> {
        self.require(at, section)?;
        let to = to.filter(|to| *to != at);
        let file = &self.all[at];
        if file.before.is_some() {
            // checked here because a rename replaces a read-only file without asking
            rustix::fs::access(&file.path, rustix::fs::Access::WRITE_OK)
                .map_err(|error| Error::io("write", &file.path, &error.into()))?;
        }
        let before = match (file.text(), &file.now, to) {
            // a move alone needs no text
            (Err(Error::Binary(_) | Error::NotUtf8 { .. }), now, Some(to)) if hunks.is_empty() => {
                let (bytes, from) = match (now, &file.before) {
                    (FileState::Moved { bytes, from }, _) => (bytes.clone(), *from),
                    (_, Some(found)) => (text::load_bytes(&file.path, found)?, at),
                    (_, None) => (Vec::new(), at),
                };
                self.all[at].now = FileState::Absent;
                return self.add(to, section, FileState::Moved { bytes, from });
            }
            (before, ..) => before?,
        };
        let (text, pass) =
            body::apply(&before, hunks).map_err(|miss| missed(file, &before, hunks, &miss))?;
        let earlier = file.now.from();
        let file = &mut self.all[at];
        file.pass = file.pass.max(pass);
        match to {
            Some(to) => {
                file.now = FileState::Absent;
                let (pass, from) = (file.pass, Some(earlier.unwrap_or(at)));
                self.add(to, section, FileState::Text { text, from })?;
                self.all[to].pass = pass;
            }
            None if text != before => file.now = FileState::Text { text, from: earlier },
            None => {}
        }
        Ok(())
    }

    fn require(&self, at: usize, section: &Section) -> Result<(), Error> {
        let file = &self.all[at];
        match (&file.now, &file.before) {
            (FileState::Absent, None) => Err(Error::NotFound(format!(
                "{}\nThat is line {} of the patch. Nothing was changed.",
                nearby::missing(&file.path),
                section.line
            ))),
            (FileState::Absent, Some(_)) => Err(Error::NotFound(format!(
                "Line {} of the patch: an earlier section has deleted or moved {}. Nothing was changed.",
                section.line,
                file.path.display()
            ))),
            (FileState::Untouched | FileState::Text { .. } | FileState::Moved { .. }, _) => Ok(()),
        }
    }

    /// Refuses a file below another file, including when the patch creates both.
    fn check_folders(&self) -> Result<(), Error> {
        let stays = |path: &Path| {
            let files = self.all.iter().filter(|file| !matches!(file.now, FileState::Absent));
            files.map(|file| &file.path).any(|file| file == path)
        };
        let is_new = |state| matches!(state, &FileState::Text { .. } | &FileState::Moved { .. });
        let new = self.all.iter().filter(|file| is_new(&file.now));
        for file in new {
            if let Some(above) = file.path.ancestors().skip(1).find(|above| stays(above)) {
                return Err(Error::NotDirectory(format!(
                    "{} cannot be in {}, which is a file in this patch. Nothing was changed.",
                    file.path.display(),
                    above.display()
                )));
            }
        }
        Ok(())
    }
}

impl File {
    /// The current text of the file, after the sections applied so far.
    fn text(&self) -> Result<String, Error> {
        match (&self.now, &self.before) {
            (FileState::Text { text, .. }, _) => Ok(text.clone()),
            (FileState::Untouched, Some(found)) => match &self.unsaved {
                Some(text) => Ok(text.clone()),
                None => text::load(&self.path, found),
            },
            (FileState::Moved { .. }, _) => Err(Error::Binary(format!(
                "{} is not UTF-8 text, so a patch can only move it. Nothing was changed.",
                self.path.display()
            ))),
            (FileState::Untouched | FileState::Absent, _) => Ok(String::new()),
        }
    }

    /// The file's text before the patch, if it is text.
    pub(super) fn text_before(&self) -> Option<String> {
        if let Some(text) = self.kept.as_ref().or(self.unsaved.as_ref()) {
            return Some(text.clone());
        }
        self.before.as_ref().and_then(|found| text::load(&self.path, found).ok())
    }
}

impl FileState {
    pub(super) fn from(&self) -> Option<usize> {
        match self {
            Self::Text { from, .. } => *from,
            Self::Moved { from, .. } => Some(*from),
            Self::Absent | Self::Untouched => None,
        }
    }
}

fn missed(file: &File, before: &str, hunks: &[Hunk], miss: &HunkMismatch) -> Error {
    let hunk = &hunks[miss.hunk];
    let path = file.path.display();
    let place = format!("Hunk {} for {path} (line {} of the patch)", miss.hunk + 1, hunk.line);
    let end = "Nothing was changed.";
    let lines: Vec<&str> = before.lines().collect();
    match &miss.why {
        MismatchReason::Header(header) => Error::NoMatch(format!(
            "{place}: no line of the file matches the header {header:?}. Give a whole line that comes before the change, or leave the header out. {end}"
        )),
        MismatchReason::Lines(None) => Error::NoMatch(format!(
            "{place} does not fit: these lines are not in the file, and nothing in it is similar. Read the file again. {end}\n{}",
            quoted_lines(hunk)
        )),
        MismatchReason::Lines(Some(at)) => {
            let old = hunk.lines.iter().filter_map(|line| line.old());
            let rows = (at + 1..).zip(lines.iter().skip(*at)).zip(old);
            let hint =
                fold::hint(rows.map(|((number, line), old)| (number, line.trim(), old.trim())));
            Error::NoMatch(format!(
                "{place} does not fit: these lines are not in the file. {end}\n{}The most similar lines of the file are:\n{}{}",
                quoted_lines(hunk),
                numbered(&lines, *at, hunk),
                hint.unwrap_or_default()
            ))
        }
        MismatchReason::NotAtEnd(at) => Error::NoMatch(format!(
            "{place} does not fit: its lines are at line {}, but the file does not end after them as `*** End of File` says. {end}",
            at + 1
        )),
        MismatchReason::Several(first, second) => Error::MultipleMatches(format!(
            "{place} does not fit after the previous hunk, and fits more than once before it: at lines {} and {}. Put hunks in the order of the file, or add a header or lines of context. {end}",
            first + 1,
            second + 1
        )),
    }
}

/// The lines that a hunk expects, quoted.
fn quoted_lines(hunk: &Hunk) -> String {
    let old: Vec<&str> = hunk.lines.iter().filter_map(|line| line.old()).collect();
    let shown = old.iter().take(QUOTE).map(|line| format!("> {}\n", clip(line)));
    let more = old.len().saturating_sub(QUOTE);
    let rest = if more > 0 { format!("(and {more} more)\n") } else { String::new() };
    format!("{}{rest}", shown.collect::<String>())
}

fn numbered(lines: &[&str], at: usize, hunk: &Hunk) -> String {
    let count = hunk.lines.iter().filter(|line| line.old().is_some()).count();
    let shown = (at + 1..).zip(lines.iter().skip(at)).take(count.clamp(1, QUOTE));
    shown.map(|(number, line)| format!("{number}: {}\n", clip(line))).collect()
}

fn clip(line: &str) -> String {
    text::clip(line.to_owned(), 300)
}
