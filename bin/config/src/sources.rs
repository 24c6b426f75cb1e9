//! Finds the sources of settings, in the order in which later ones win.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::error::Error;
use crate::markdown::{self, Entered};
use crate::source::{Env, Kind, NotUtf8, Source, expand, is_absent, read_text};

const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];
const OWN: [&str; 2] = ["leftfold.json", "leftfold.jsonc"];
/// The files in each folder of a project. OpenCode's come first, so that Leftfold's own win.
const PROJECT_OPENCODE: [&str; 4] =
    ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
const PROJECT_OWN: [&str; 4] =
    ["leftfold.json", "leftfold.jsonc", ".leftfold/leftfold.json", ".leftfold/leftfold.jsonc"];

/// Settings that a plugin adds.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) plugin: String,
    pub(crate) value: Value,
}

/// A source with its text.
pub(crate) struct Document {
    pub(crate) source: Arc<Source>,
    pub(crate) text: String,
    /// The entry that it defines, if it is Markdown.
    pub(crate) entered: Option<Entered>,
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

/// Reads all sources that apply in `directory` with these `layers`, weakest first.
pub(crate) fn read_all(
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
    let home = all.home.clone();
    let named = |variable| Some(directory.join(expand(&given(env, variable)?, home.as_deref())));
    if let Some(config) = config {
        let (theirs, ours) = (config.join("opencode"), config.join("leftfold"));
        all.folder(&theirs, (&OPENCODE, false), &theirs)?;
        all.folder(&ours, (&OWN, true), &ours)?;
    }
    // A file for OpenCode may be missing.
    if let Some(path) = named("OPENCODE_CONFIG")
        && let Some(text) = existing(&path)?
    {
        all.file(&path, false, text, None);
    }
    for folder in outermost_first(&directory) {
        all.folder(folder, (&PROJECT_OPENCODE, false), &folder.join(".opencode"))?;
        all.folder(folder, (&PROJECT_OWN, true), &folder.join(".leftfold"))?;
    }
    if let Some(folder) = named("OPENCODE_CONFIG_DIR") {
        all.folder(&folder, (&OPENCODE, false), &folder)?;
    }
    // Files name plugins, so plugins come after files; variables come last, because the user who
    // starts this process decides.
    for Layer { plugin, value } in layers {
        let name = format!("plugin {plugin}");
        all.add((name, Kind::Plugin), (&directory, true), value.to_string(), None);
    }
    if let Some(text) = given(env, "OPENCODE_CONFIG_CONTENT") {
        let name = "OPENCODE_CONFIG_CONTENT".to_owned();
        all.add((name, Kind::Variable), (&directory, false), text, None);
    }
    if let Some(path) = named("LEFTFOLD_CONFIG") {
        let text = read_text(&path).map_err(|error| unreadable(path.clone(), &error, true))?;
        let is_theirs = path.file_name().is_some_and(|name| OPENCODE.iter().any(|n| name == *n));
        all.file(&path, !is_theirs, text, None);
    }
    if let Some(text) = given(env, "LEFTFOLD_CONFIG_CONTENT") {
        let name = "LEFTFOLD_CONFIG_CONTENT".to_owned();
        all.add((name, Kind::Variable), (&directory, true), text, None);
    }
    Ok(all.documents)
}

struct Gathered {
    home: Option<PathBuf>,
    documents: Vec<Document>,
}

impl Gathered {
    /// Adds the files of `names` that exist in `folder`, and after them the agents and commands in
    /// Markdown below `markdown`.
    fn folder(
        &mut self,
        folder: &Path,
        (names, own): (&[&str], bool),
        markdown: &Path,
    ) -> Result<(), Error> {
        for path in names.iter().map(|name| folder.join(name)) {
            if let Some(text) = existing(&path)? {
                self.file(&path, own, text, None);
            }
        }
        let found = markdown::find(markdown);
        for (path, entered) in
            found.map_err(|error| unreadable(markdown.to_owned(), &error, false))?
        {
            let text = read_text(&path).map_err(|error| unreadable(path.clone(), &error, false))?;
            self.file(&path, own, text, Some(entered));
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, own: bool, text: String, entered: Option<Entered>) {
        let base = path.parent().unwrap_or(path);
        self.add((path.display().to_string(), Kind::File), (base, own), text, entered);
    }

    fn add(
        &mut self,
        (name, kind): (String, Kind),
        (base, own): (&Path, bool),
        text: String,
        entered: Option<Entered>,
    ) {
        // If the project is the folder of the global settings, its files count once.
        if self.documents.iter().any(|document| document.source.name == name) {
            return;
        }
        let (base, home) = (base.to_owned(), self.home.clone());
        let source = Arc::new(Source { name, base, own, kind, home });
        self.documents.push(Document { source, text, entered });
    }
}

/// The text of a file, if it exists.
fn existing(path: &Path) -> Result<Option<String>, Error> {
    match read_text(path) {
        Err(error) if is_absent(&error) => Ok(None),
        read => read.map(Some).map_err(|error| unreadable(path.to_owned(), &error, false)),
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

fn given(env: Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.trim().is_empty())
}

/// A folder from a variable. The XDG specification says that relative paths are ignored.
fn absolute(env: Env<'_>, name: &str) -> Option<PathBuf> {
    given(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The error for an unreadable file; wrong encoding has a place, other errors have none.
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

/// Identifies the files that came with the project.
pub(crate) struct Project {
    pub(crate) worktree: PathBuf,
    /// The folder of the user's own settings.
    config: Option<PathBuf>,
}

impl Project {
    pub(crate) fn of(directory: &Path, env: Env<'_>) -> Self {
        let home = || Some(absolute(env, "HOME")?.join(".config"));
        let config = absolute(env, "XDG_CONFIG_HOME").or_else(home);
        Self { worktree: worktree_of(directory), config }
    }

    pub(crate) fn has(&self, source: &Source) -> bool {
        let is_users = self.config.as_ref().is_some_and(|config| source.base.starts_with(config));
        source.kind == Kind::File && !is_users && source.base.starts_with(&self.worktree)
    }
}
