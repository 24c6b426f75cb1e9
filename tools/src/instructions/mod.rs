//! Instructions: texts that users and projects write for agents (`AGENTS.md`).
//!
//! Reading them is safe whatever the file is: it never waits for a pipe, links of a project must
//! stay in it, and long texts are cut.
//!
//! `bin/runtime/src/parts/gather/instructions/` decides which folders are searched for them.

mod globs;
mod pages;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::{Path, PathBuf};

use leftfold_events::rules::{self, Action};
use leftfold_files::texts::{INSTRUCTIONS, InForce, SKIPPED, Texts};

use crate::{Instructed, Output, Workspace, confined, paths, text};

pub use globs::matching;
pub use pages::fetch;

/// Most bytes of one file that a model sees.
pub const MAX_BYTES: usize = 64 * 1024;

/// One text with instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instructions {
    /// The path as it was found, or the web address.
    pub source: String,
    /// The path with links resolved. `None` for a web page.
    pub path: Option<PathBuf>,
    /// The text; never empty.
    pub text: String,
    /// The line of the file in which the text begins, counted from 1.
    pub line: usize,
    /// Whether the text was cut.
    pub cut: bool,
}

impl Instructions {
    /// The section of a prompt or output that a model sees.
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

/// The reason why a text is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct Problem {
    /// Path or web address.
    pub origin: String,
    pub problem: String,
}

impl Problem {
    fn new(origin: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { origin: origin.into(), problem: problem.into() }
    }
}

/// The file with instructions in `folder`: the first that has a text in force. Folders are skipped. Any other entry of
/// that name counts, so that its problem is reported.
pub fn in_folder(folder: &Path, texts: &Texts) -> Option<PathBuf> {
    in_folder_on_disk(folder).find(|path| texts.has(path))
}

/// The files of such a name in `folder`.
pub fn in_folder_on_disk(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let named = INSTRUCTIONS.map(|name| folder.join(name)).into_iter();
    named.filter(|path| path.symlink_metadata().is_ok() && !path.is_dir())
}

/// Where the links of a project's instruction files may lead.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The worktree, with its own links resolved.
    pub worktree: &'a Path,
    /// Whether the rules let a model read the file at this path below the worktree without a question.
    pub is_readable: &'a dyn Fn(&str) -> bool,
}

leftfold_events::debug_fields!(Bounds<'_> { worktree });

/// Whether the built-in rules let a model read the file at this path below the worktree.
pub fn is_readable_by_default(path: &str) -> bool {
    let rules = rules::defaults();
    rules::evaluate(&rules, "read", path).is_some_and(|rule| rule.action == Action::Allow)
}

/// Loads the instructions in `file`. `None` if it is empty, or nothing of it is in force. A project's file has `bounds`.
///
/// # Errors
/// The file cannot be read, is not UTF-8 text, lies outside the worktree, or is a link to `.git` or to a file
/// that a model may not read without a question.
pub fn load(
    file: &Path,
    bounds: Option<Bounds<'_>>,
    texts: &Texts,
) -> Result<Option<Instructions>, Problem> {
    let source = file.display().to_string();
    let problem = |problem: String| Problem::new(source.clone(), problem);
    match texts.in_force(file) {
        InForce::AsOnDisk => {}
        InForce::Nothing => return Ok(None),
        InForce::Older { text, link } => {
            let is_readable = |link: &str| bounds.is_none_or(|bounds| (bounds.is_readable)(link));
            let text = Some(text).filter(|_| link.is_none_or(is_readable));
            let path = Some(file.to_owned());
            return Ok(text.and_then(|text| instructions(source, path, text, false)));
        }
    }
    let path = paths::real(file).map_err(|error| problem(error.to_string()))?;
    if let Some(Bounds { worktree, is_readable }) = bounds {
        let Ok(inside) = path.strip_prefix(worktree) else {
            let (path, worktree) = (path.display(), worktree.display());
            return Err(problem(format!(
                "it leads to {path}, which is outside of {worktree}, so it is left out; to have it \
                 all the same, name it under `instructions` in the settings"
            )));
        };
        let is_git = inside.components().any(|part| part.as_os_str() == ".git");
        if is_link(file, &path) && (is_git || !is_readable(&inside.to_string_lossy())) {
            return Err(problem(format!(
                "it is a link to {}, which is not read without a question, so it is left out",
                inside.display()
            )));
        }
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

/// Whether the file at `real` has another place or name than `file` says.
fn is_link(file: &Path, real: &Path) -> bool {
    let folder = file.parent().and_then(|folder| paths::real(folder).ok());
    let plain = folder.zip(file.file_name()).map(|(folder, name)| folder.join(name));
    plain.is_none_or(|plain| plain != real)
}

/// The characters that fit. `None` if the bytes are not UTF-8 text.
fn decode(bytes: &[u8]) -> Option<&str> {
    let kept = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    let text = match std::str::from_utf8(kept) {
        Ok(text) => text,
        // the cut splits the last character
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
    let kept = kept.trim_start_matches('\u{feff}');
    let text = kept.trim().to_owned();
    let above = kept.len() - kept.trim_start().len();
    let line = kept[..above].matches('\n').count() + 1;
    (!text.is_empty()).then_some(Instructions { source, path, text, line, cut })
}

/// Appends to the output of a call that has read `path` the instructions that the model does not
/// know yet, from the folders between the project's directory and the file. The metadata field
/// `instructions` lists them, so each is sent once.
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

/// The instructions between the directory and `path`, outermost first. Together they have at most
/// [`MAX_BYTES`] unless the first alone has more; the next file read there brings the rest.
/// Problems are ignored, because they do not concern the call that reads the file.
fn on_the_way(path: &Path, cx: &Workspace, known: &Instructed) -> Vec<Instructions> {
    let (Ok(worktree), Ok(directory)) = (paths::real(&cx.worktree), paths::real(&cx.directory))
    else {
        return Vec::new();
    };
    let texts = cx.user_folders.texts(&worktree);
    let is_new = |folder: &&Path| {
        let told_by = |other: &PathBuf| other.starts_with(folder) && other.is_file();
        !known.reading.iter().any(told_by)
    };
    // the prompt already contains those of the directory and its parents
    let below = |folder: &&Path| folder.starts_with(&worktree) && !directory.starts_with(folder);
    // texts of other people, which are not watched
    let is_foreign = |folder: &Path| {
        let below = folder.strip_prefix(&worktree).unwrap_or(folder);
        below.components().any(|part| SKIPPED.iter().any(|name| part.as_os_str() == *name))
    };
    let folders = path.parent().into_iter().flat_map(Path::ancestors).take_while(below);
    let folders = folders.filter(|folder| !is_foreign(folder));
    let mut found: Vec<Instructions> = if path.is_file() {
        let files = folders.filter(is_new).filter_map(|folder| in_folder(folder, &texts));
        let is_readable = &is_readable_by_default;
        let bounds = Bounds { worktree: &worktree, is_readable };
        files.filter_map(|file| load(&file, Some(bounds), &texts).ok()?).collect()
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
