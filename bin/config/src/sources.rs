//! Where settings are found, in the order in which later ones win.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::error::Error;
use crate::markdown::{self, Entered};
use crate::source::{Env, Kind, NotUtf8, Source, expand, is_absent, read_text};

const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];
const OWN: [&str; 2] = ["leftfold.json", "leftfold.jsonc"];
/// In each folder of a project: first what was made for OpenCode, so that Leftfold's own win.
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
    /// What it is an entry of, if it is Markdown.
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

/// All settings in force in `directory` with these `layers`, the weakest first.
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
                Err(error) if is_absent(&error) => {}
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
            Err(error) if is_absent(&error) => return Ok(()),
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
        let name = format!("plugin {}", layer.plugin);
        let source = Arc::new(Source { name, base, own: true, kind: Kind::Plugin, home });
        self.documents.push(Document { source, text: layer.value.to_string(), entered: None });
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
        self.documents.push(Document { source, text, entered });
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

/// Which files came with the project.
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
