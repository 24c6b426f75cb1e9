//! Where settings are found, in the order in which later ones win.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::layers::Layer;
use super::markdown::{self, Entered};
use super::{Env, Error};

/// The largest settings file, or file that one includes, in bytes.
const LARGEST: u64 = 1024 * 1024;

const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];
const OWN: [&str; 2] = ["leftfold.json", "leftfold.jsonc"];
/// In each folder of a project: first what was made for OpenCode, so that Leftfold's own win.
const PROJECT_OPENCODE: [&str; 4] =
    ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
const PROJECT_OWN: [&str; 4] =
    ["leftfold.json", "leftfold.jsonc", ".leftfold/leftfold.json", ".leftfold/leftfold.jsonc"];

/// What settings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    /// The name is that of a variable.
    Variable,
    /// The name is that of a plugin, after the word `plugin`.
    Plugin,
}

/// A file, variable or plugin that settings were read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What errors call it: the path, the variable's name, or `plugin NAME`.
    pub name: String,
    /// Relative paths in it start here.
    pub base: PathBuf,
    /// Whether it was written for Leftfold: then an unknown key is a mistake, not somebody else's.
    pub own: bool,
    pub kind: Kind,
    home: Option<PathBuf>,
}

impl Source {
    /// The path that `text` stands for in this source: `~/` is the home folder.
    pub(super) fn path(&self, text: &str) -> PathBuf {
        self.base.join(expand(text, self.home.as_deref()))
    }

    /// `text` with a leading `~` or `$HOME` replaced by the home folder.
    pub(super) fn at_home(&self, text: &str) -> String {
        let rest = text.strip_prefix('~').or_else(|| text.strip_prefix("$HOME"));
        match (rest, &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                format!("{}{rest}", home.display())
            }
            (Some(_) | None, _) => text.to_owned(),
        }
    }
}

/// A source with its text.
pub(super) struct Document {
    pub(super) source: Arc<Source>,
    pub(super) text: String,
    /// What it is an entry of, if it is Markdown.
    pub(super) entered: Option<Entered>,
    /// What a plugin has said, in place of a text.
    pub(super) said: Option<Value>,
}

/// The nearest ancestor of `directory` (itself included) that has a `.git`, a folder or a file;
/// `directory` itself if none has. Links are resolved where the directory exists.
pub fn worktree_of(directory: &Path) -> PathBuf {
    let directory = resolved(directory).unwrap_or_else(|_| directory.to_owned());
    let found = directory.ancestors().find(|folder| folder.join(".git").exists());
    found.unwrap_or(&directory).to_owned()
}

fn resolved(directory: &Path) -> io::Result<PathBuf> {
    directory.canonicalize()
}

/// All settings in force in `directory` with these `layers`, the weakest first.
pub(super) fn read_all(
    directory: &Path,
    env: Env<'_>,
    layers: &[Layer],
) -> Result<Vec<Document>, Error> {
    let directory = resolved(directory).map_err(|error| Error::Directory {
        path: directory.to_owned(),
        reason: error.to_string(),
    })?;
    let mut all = Gathered { home: absolute(env, "HOME"), documents: Vec::new() };
    let config = absolute(env, "XDG_CONFIG_HOME")
        .or_else(|| all.home.as_ref().map(|home| home.join(".config")));
    if let Some(config) = config {
        all.folder(&config.join("opencode"), &OPENCODE)?;
        all.markdown(&config.join("opencode"), false)?;
        all.folder(&config.join("leftfold"), &OWN)?;
        all.markdown(&config.join("leftfold"), true)?;
    }
    if let Some(path) = given(env, "OPENCODE_CONFIG") {
        all.theirs(&directory.join(expand(&path, all.home.as_deref())))?;
    }
    for folder in outermost_first(&directory) {
        all.folder(folder, &PROJECT_OPENCODE)?;
        all.markdown(&folder.join(".opencode"), false)?;
        all.folder(folder, &PROJECT_OWN)?;
        all.markdown(&folder.join(".leftfold"), true)?;
    }
    if let Some(path) = given(env, "OPENCODE_CONFIG_DIR") {
        let folder = directory.join(expand(&path, all.home.as_deref()));
        all.folder(&folder, &OPENCODE)?;
        all.markdown(&folder, false)?;
    }
    // files name plugins, and whoever starts this process has the last word
    layers.iter().for_each(|layer| all.layer(layer, &directory));
    if let Some(text) = given(env, "OPENCODE_CONFIG_CONTENT") {
        all.variable("OPENCODE_CONFIG_CONTENT", (directory.clone(), false), text);
    }
    if let Some(path) = given(env, "LEFTFOLD_CONFIG") {
        all.named(&directory.join(expand(&path, all.home.as_deref())))?;
    }
    if let Some(text) = given(env, "LEFTFOLD_CONFIG_CONTENT") {
        all.variable("LEFTFOLD_CONFIG_CONTENT", (directory.clone(), true), text);
    }
    Ok(all.documents)
}

struct Gathered {
    home: Option<PathBuf>,
    documents: Vec<Document>,
}

impl Gathered {
    /// Those of `names` that exist in `folder`.
    fn folder(&mut self, folder: &Path, names: &[&str]) -> Result<(), Error> {
        for path in names.iter().map(|name| folder.join(name)) {
            match read_text(&path) {
                Ok(text) => self.file(&path, text),
                Err(error) if absent(&error) => {}
                Err(error) => return Err(unreadable(path, &error, false)),
            }
        }
        Ok(())
    }

    /// The agents and commands in Markdown below `folder`: they come after its settings.
    fn markdown(&mut self, folder: &Path, own: bool) -> Result<(), Error> {
        let found = markdown::find(folder);
        for (path, entered) in
            found.map_err(|error| unreadable(folder.to_owned(), &error, false))?
        {
            let text = read_text(&path).map_err(|error| unreadable(path.clone(), &error, false))?;
            let base = path.parent().unwrap_or(&path).to_owned();
            self.add(path.display().to_string(), (base, own, Kind::File), text, Some(entered));
        }
        Ok(())
    }

    /// The one file that `LEFTFOLD_CONFIG` names: it has to be there.
    fn named(&mut self, path: &Path) -> Result<(), Error> {
        let text = read_text(path).map_err(|error| unreadable(path.to_owned(), &error, true))?;
        self.file(path, text);
        Ok(())
    }

    /// The one file that `OPENCODE_CONFIG` names: one that is not there is OpenCode's business.
    fn theirs(&mut self, path: &Path) -> Result<(), Error> {
        let text = match read_text(path) {
            Err(error) if absent(&error) => return Ok(()),
            read => read.map_err(|error| unreadable(path.to_owned(), &error, false))?,
        };
        let base = path.parent().unwrap_or(path).to_owned();
        self.add(path.display().to_string(), (base, false, Kind::File), text, None);
        Ok(())
    }

    fn variable(&mut self, name: &str, (base, own): (PathBuf, bool), text: String) {
        self.add(name.to_owned(), (base, own, Kind::Variable), text, None);
    }

    fn layer(&mut self, layer: &Layer, directory: &Path) {
        let (base, home) = (directory.to_owned(), self.home.clone());
        let name = layer.source();
        let source = Arc::new(Source { name, base, own: true, kind: Kind::Plugin, home });
        let said = Some(layer.value().clone());
        self.documents.push(Document { source, text: String::new(), entered: None, said });
    }

    fn file(&mut self, path: &Path, text: String) {
        let own = path.file_name().is_none_or(|name| OPENCODE.iter().all(|other| name != *other));
        let base = path.parent().unwrap_or(path).to_owned();
        self.add(path.display().to_string(), (base, own, Kind::File), text, None);
    }

    fn add(
        &mut self,
        name: String,
        (base, own, kind): (PathBuf, bool, Kind),
        text: String,
        entered: Option<Entered>,
    ) {
        // where the project is the folder of the global settings, they count once
        if self.documents.iter().any(|document| document.source.name == name) {
            return;
        }
        let source = Arc::new(Source { name, base, own, kind, home: self.home.clone() });
        self.documents.push(Document { source, text, entered, said: None });
    }
}

/// The folders from the worktree down to `directory`.
fn outermost_first(directory: &Path) -> Vec<&Path> {
    let worktree = worktree_of(directory);
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(&worktree)).collect();
    folders.reverse();
    folders
}

fn expand(text: &str, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_) | None, _) => PathBuf::from(text),
    }
}

fn given(env: Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

/// A folder from a variable. Relative ones are to be ignored, says the XDG specification.
fn absolute(env: Env<'_>, name: &str) -> Option<PathBuf> {
    given(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Text in another encoding has a place; what else can be wrong with a file has none.
fn unreadable(path: PathBuf, error: &io::Error, named: bool) -> Error {
    let encoding = error.get_ref().and_then(|error| error.downcast_ref::<NotUtf8>());
    if let Some(&NotUtf8 { line, column }) = encoding {
        return Error::Encoding { path, line, column };
    }
    let reason = error.to_string();
    match named {
        true => Error::UnreadableConfig { path, reason },
        false => Error::Unreadable { path, reason },
    }
}

/// Where text stops being UTF-8; line and column count from 1, the column in characters.
#[derive(Debug, thiserror::Error)]
#[error("line {line}, column {column} is not UTF-8")]
struct NotUtf8 {
    line: usize,
    column: usize,
}

impl NotUtf8 {
    fn after(good: &[u8]) -> Self {
        let good = String::from_utf8_lossy(good);
        let good = good.strip_prefix('\u{feff}').unwrap_or(&good);
        let last = good.rsplit('\n').next().unwrap_or_default();
        Self { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 }
    }
}

pub(super) fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A whole file of at most [`LARGEST`] bytes, in UTF-8, without its byte order mark.
pub(super) fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!("it is larger than {LARGEST} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
        io::Error::other(NotUtf8::after(good))
    })?;
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}
