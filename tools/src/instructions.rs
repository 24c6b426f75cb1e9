//! Instructions: what users and projects have written down for agents (`AGENTS.md`).
//!
//! Reading them is safe whatever they are: pipes are not waited for, links of a project stay in it,
//! and what is too long is cut.

mod globs;
mod pages;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{Instructed, Output, Workspace, confined, paths, text};

pub use globs::matching;
pub use pages::fetch;

/// The names that such a file may have in a folder; the first that exists counts.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// Bytes of one file that a model is told.
pub const MAX_BYTES: usize = 64 * 1024;

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// The path as it was found, or the address.
    pub source: String,
    /// With links resolved; none for a page of the web.
    pub path: Option<PathBuf>,
    /// Not empty.
    pub text: String,
    /// Whether there is more than `text` has.
    pub cut: bool,
}

impl Instructions {
    /// As a model is told.
    pub fn section(&self) -> String {
        let Self { source, text, .. } = self;
        let rest = match &self.path {
            Some(path) if self.cut => {
                format!("\n(Cut after {MAX_BYTES} bytes. The rest is in {}.)", path.display())
            }
            None if self.cut => format!("\n(Cut after {MAX_BYTES} bytes.)"),
            Some(_) | None => String::new(),
        };
        format!("Instructions from: {source}\n{text}{rest}")
    }
}

/// Why a text is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct Problem {
    /// Path or address.
    pub origin: String,
    pub problem: String,
}

impl Problem {
    fn new(origin: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { origin: origin.into(), problem: problem.into() }
    }
}

/// The file with instructions in `folder`, if there is one. Folders do not count, and whatever else
/// has the name does: it may have something wrong with it.
pub fn in_folder(folder: &Path) -> Option<PathBuf> {
    let named = NAMES.iter().map(|name| folder.join(name));
    named.into_iter().find(|path| path.symlink_metadata().is_ok() && !path.is_dir())
}

/// What stands in `file`; `None` if that is nothing. With `within`, which must have its links
/// resolved, a link may lead nowhere else.
///
/// # Errors
/// It cannot be read, is no text in UTF-8, or lies elsewhere.
pub fn load(file: &Path, within: Option<&Path>) -> Result<Option<Instructions>, Problem> {
    let source = file.display().to_string();
    let problem = |problem: String| Problem::new(source.clone(), problem);
    let path = paths::real(file).map_err(|error| problem(error.to_string()))?;
    if let Some(within) = within.filter(|within| !path.starts_with(within)) {
        let (path, within) = (path.display(), within.display());
        return Err(problem(format!(
            "it leads to {path}, which is outside of {within}, so it is left out; to have it \
             all the same, name it under `instructions` in the settings"
        )));
    }
    let opened = confined::open_found(&path).map_err(|error| problem(error.to_string()))?.0;
    let mut bytes = Vec::new();
    let read = opened.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| problem(format!("it cannot be read: {error}")))?;
    let cut = bytes.len() > MAX_BYTES;
    let Some(text) = decode(&bytes) else {
        return Err(problem("it is not UTF-8 text, so it is left out".to_owned()));
    };
    Ok(instructions(source, Some(path), text, cut))
}

/// The characters that fit; `None` if it is not UTF-8, or not text.
fn decode(bytes: &[u8]) -> Option<&str> {
    let kept = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    let text = match std::str::from_utf8(kept) {
        Ok(text) => text,
        // the end cuts a character in two
        Err(error) if error.error_len().is_none() && kept.len() < bytes.len() => {
            std::str::from_utf8(kept.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}

fn instructions(
    source: String,
    path: Option<PathBuf>,
    text: &str,
    cut: bool,
) -> Option<Instructions> {
    let kept = &text[..text::floor(text, MAX_BYTES)];
    let cut = cut || kept.len() < text.len();
    let text = kept.trim_start_matches('\u{feff}').trim().to_owned();
    (!text.is_empty()).then_some(Instructions { source, path, text, cut })
}

/// The output of a call that has read `path`, with the instructions for it that the model does not
/// know yet: those in the folders from the project's directory down to the file's. The metadata
/// field `instructions` names them.
pub(crate) fn attach(
    mut output: Output,
    path: &Path,
    cx: &Workspace,
    known: &Instructed,
) -> Output {
    let found = on_the_way(path, cx, known);
    if found.is_empty() {
        return output;
    }
    let texts: Vec<String> = found.iter().map(Instructions::section).collect();
    let told = texts.join("\n\n");
    output.output = format!("{}\n\n<instructions>\n{told}\n</instructions>", output.output);
    let paths = found.iter().filter_map(|found| Some(found.path.as_ref()?.to_string_lossy()));
    output.mark("instructions", paths.collect::<Vec<_>>());
    output
}

/// The outermost first, and no more than [`MAX_BYTES`] together unless the first has more: what is
/// left comes with the next file that is read there. What is wrong with one is no concern of
/// whoever reads a file.
fn on_the_way(path: &Path, cx: &Workspace, known: &Instructed) -> Vec<Instructions> {
    let (Ok(worktree), Ok(directory)) = (paths::real(&cx.worktree), paths::real(&cx.directory))
    else {
        return Vec::new();
    };
    let is_new = |folder: &&Path| {
        let told_by = |other: &PathBuf| other.starts_with(folder) && other.is_file();
        !known.reading.iter().any(told_by)
    };
    // the prompt has those of the directory and above
    let below = |folder: &&Path| folder.starts_with(&worktree) && !directory.starts_with(folder);
    let folders = path.parent().into_iter().flat_map(Path::ancestors).take_while(below);
    let mut found: Vec<Instructions> = if path.is_file() {
        let files = folders.filter(is_new).filter_map(in_folder);
        files.filter_map(|file| load(&file, Some(&worktree)).ok()?).collect()
    } else {
        Vec::new()
    };
    found.retain(|found| {
        let is_told = |told: &Path| known.files.contains(told.to_string_lossy().as_ref());
        found.path.as_deref().is_some_and(|found| found != path && !is_told(found))
    });
    found.dedup_by(|one, other| one.path == other.path);
    found.reverse();
    let mut bytes = 0;
    let mut fits = |found: &Instructions| {
        let first = bytes == 0;
        bytes += found.text.len();
        first || bytes <= MAX_BYTES
    };
    found.into_iter().take_while(&mut fits).collect()
}
