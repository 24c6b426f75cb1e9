//! Reads the text of a patch. Pure; every error has the number of its line.
//!
//! ```text
//! *** Begin Patch
//! *** Add File: PATH          every line of it begins with +
//! *** Delete File: PATH
//! *** Update File: PATH
//! *** Move to: PATH           optional
//! @@ HEADER                   optional; several narrow the place step by step
//!  kept, -removed, +added
//! *** End of File             optional: the hunk ends where the file does
//! *** End Patch
//! ```

use super::envelope::{self, invalid};
use crate::Error;

const END_OF_FILE: &str = "*** End of File";

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Number of the first line in the patch, from 1.
    pub(super) line: usize,
    pub(super) path: String,
    pub(super) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The whole text of the new file.
    Add(String),
    Delete,
    Update {
        move_to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One change at one place in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hunk {
    /// Number of the first line in the patch, from 1.
    pub(super) line: usize,
    pub(super) headers: Vec<String>,
    pub(super) lines: Vec<Line>,
    /// The hunk must end where the file ends.
    pub(super) at_end: bool,
    /// How many lines at the end of `lines` are completely empty, without even a leading blank.
    /// They are context, or just space before the next hunk.
    pub(super) loose: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

impl Line {
    /// The text of the line in the current file. `None` for an added line.
    pub(super) fn old(&self) -> Option<&str> {
        match self {
            Self::Keep(text) | Self::Remove(text) => Some(text),
            Self::Add(_) => None,
        }
    }
}

/// The sections of `patch`, in order; at least one.
///
/// # Errors
/// [`Error::InvalidPatch`] with the line and the expected text.
pub(super) fn parse(patch: &str) -> Result<Vec<Section>, Error> {
    let lines = envelope::open(patch)?;
    let mut reader = PatchReader { lines: &lines.inside, at: 0, first: lines.first };
    let mut sections = Vec::new();
    while reader.skip_blank() {
        sections.push(reader.section()?);
    }
    if sections.is_empty() {
        return Err(invalid(
            lines.first,
            "the patch is empty: expected `*** Add File: PATH`, `*** Update File: PATH` or `*** Delete File: PATH`",
        ));
    }
    Ok(sections)
}

struct PatchReader<'a> {
    lines: &'a [&'a str],
    at: usize,
    /// Number of the first of `lines` in the patch.
    first: usize,
}

/// A line that begins a section.
enum Marker<'a> {
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
}

fn marker(line: &str) -> Option<Marker<'_>> {
    let rest = line.strip_prefix("*** ")?;
    let path = |kind| rest.strip_prefix(kind).map(str::trim);
    path("Add File:")
        .map(Marker::Add)
        .or_else(|| path("Delete File:").map(Marker::Delete))
        .or_else(|| path("Update File:").map(Marker::Update))
}

impl<'a> PatchReader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The number of the next line in the patch.
    fn number(&self) -> usize {
        self.first + self.at
    }

    /// Skips blank lines. Returns whether any other line is left.
    fn skip_blank(&mut self) -> bool {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        self.peek().is_some()
    }

    fn section(&mut self) -> Result<Section, Error> {
        let line = self.number();
        let found = self.peek().unwrap_or_default().trim();
        let Some(marker) = marker(found) else {
            return Err(invalid(line, &expected(found)));
        };
        self.at += 1;
        let (path, change) = match marker {
            Marker::Add(path) => (path, Change::Add(self.added()?)),
            Marker::Delete(path) => (path, Change::Delete),
            Marker::Update(path) => (path, self.update(line)?),
        };
        if path.is_empty() {
            return Err(invalid(line, "the path is missing after the colon"));
        }
        Ok(Section { line, path: path.to_owned(), change })
    }

    /// The text of a new file.
    fn added(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        while let Some(line) = self.peek() {
            match line.strip_prefix('+') {
                Some(line) => text += line,
                // this marker belongs to hunks, but does no harm here
                None if line.trim_end() == END_OF_FILE => {
                    self.at += 1;
                    break;
                }
                None if line.is_empty() && self.more_added() => {}
                None if line.trim().is_empty() || marker(line.trim()).is_some() => break,
                None => {
                    let problem = format!("a line of a new file begins with `+`, got {line:?}");
                    return Err(invalid(self.number(), &problem));
                }
            }
            text.push('\n');
            self.at += 1;
        }
        Ok(text)
    }

    /// Whether more lines of the new file follow after blank lines, which are then part of it.
    fn more_added(&self) -> bool {
        let rest = self.lines.iter().skip(self.at);
        rest.copied().find(|line| !line.is_empty()).is_some_and(|line| line.starts_with('+'))
    }

    fn update(&mut self, line: usize) -> Result<Change, Error> {
        let move_to = self.move_to()?;
        let mut hunks = Vec::new();
        while self.skip_blank() && self.peek().is_some_and(|line| marker(line.trim()).is_none()) {
            hunks.push(self.hunk()?);
        }
        if hunks.is_empty() && move_to.is_none() {
            return Err(invalid(
                line,
                "an update needs a hunk: `@@`, then lines that begin with ` `, `-` or `+`",
            ));
        }
        Ok(Change::Update { move_to, hunks })
    }

    fn move_to(&mut self) -> Result<Option<String>, Error> {
        self.skip_blank();
        let path = self.peek().and_then(|line| line.trim().strip_prefix("*** Move to:"));
        let Some(path) = path.map(str::trim) else { return Ok(None) };
        if path.is_empty() {
            return Err(invalid(self.number(), "the path is missing after the colon"));
        }
        self.at += 1;
        Ok(Some(path.to_owned()))
    }

    fn hunk(&mut self) -> Result<Hunk, Error> {
        let mut hunk = Hunk { line: self.number(), ..Hunk::default() };
        while let Some(line) = self.peek().filter(|line| line.starts_with("@@")) {
            hunk.headers.extend(header(line));
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if line.starts_with("@@") || marker(line).is_some() {
                break;
            }
            self.at += 1;
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                break;
            }
            self.line(line, &mut hunk)?;
        }
        if hunk.lines.len() == hunk.loose {
            return Err(invalid(
                hunk.line,
                "this hunk has no lines: expected some that begin with ` `, `-` or `+`",
            ));
        }
        Ok(hunk)
    }

    fn line(&self, line: &str, hunk: &mut Hunk) -> Result<(), Error> {
        let mut chars = line.chars();
        let first = chars.next();
        let text = chars.as_str().to_owned();
        hunk.loose = if first.is_none() { hunk.loose + 1 } else { 0 };
        hunk.lines.push(match first {
            None | Some(' ') => Line::Keep(text),
            Some('-') => Line::Remove(text),
            Some('+') => Line::Add(text),
            // other diffs mark a file's last line like this; here a file keeps its ending
            Some('\\') if text.starts_with(" No newline") => return Ok(()),
            Some(_) => {
                let problem = format!(
                    "a line of a hunk begins with ` ` (kept), `-` (removed) or `+` (added), got {line:?}"
                );
                return Err(invalid(self.number() - 1, &problem));
            }
        });
        Ok(())
    }
}

/// The error for a line that should begin a section.
fn expected(found: &str) -> String {
    let at_home = match found {
        "*** Begin Patch" => ". One patch can have any number of files, but only one beginning",
        found if found.starts_with("*** Move to:") => {
            ". `*** Move to:` belongs right after `*** Update File:`"
        }
        _ => "",
    };
    format!(
        "expected `*** Add File: PATH`, `*** Update File: PATH` or `*** Delete File: PATH`, got {:?}{at_home}",
        crate::text::clip(found.to_owned(), 200)
    )
}

/// The header of an `@@` line: a line of the file that precedes the hunk. `None` if the line has
/// none. Line numbers of other diff formats are ignored.
fn header(line: &str) -> Option<String> {
    let rest = line.trim_start_matches('@').trim();
    let rest = rest.strip_suffix("@@").unwrap_or(rest).trim();
    let rest = match rest.split_once("@@") {
        Some((range, after)) if is_range(range) => after.trim(),
        _ if is_range(rest) => "",
        _ => rest,
    };
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// Whether the text is `-1,2 +3,4`.
fn is_range(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let side = |word: &str, sign| {
        let numbers = word.strip_prefix(sign);
        numbers.is_some_and(|numbers| numbers.splitn(2, ',').all(number))
    };
    let mut words = text.split_whitespace();
    words.next().is_some_and(|word| side(word, '-'))
        && words.next().is_some_and(|word| side(word, '+'))
        && words.next().is_none()
}
