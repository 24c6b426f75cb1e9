//! Finds the sources of settings, in the order in which later ones win.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_files::texts::{InForce, Texts};
use serde_json::{Value, json};

use crate::auth;
use crate::error::Error;
use crate::files;
use crate::javascript;
use crate::markdown::{self, Entered};
use crate::source::{Env, NotUtf8, Source, SourceKind, expand, is_absent, read_found, read_text};
use crate::worktree::{self, resolved};

const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];
const OWN: [&str; 2] = ["leftfold.json", "leftfold.jsonc"];
/// The files in each folder of a project. OpenCode's come first, so that Leftfold's own win.
const PROJECT_OPENCODE: [&str; 4] =
    ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
const PROJECT_OWN: [&str; 4] =
    ["leftfold.json", "leftfold.jsonc", ".leftfold/leftfold.json", ".leftfold/leftfold.jsonc"];

/// Claude Code's files of MCP servers and of permission rules, in each folder of a project.
const CLAUDE_SERVERS: &str = ".mcp.json";
const CLAUDE_RULES: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// The most bytes of all agents and commands in Markdown files of a project.
const MAX_MARKDOWN: u64 = 16 * 1024 * 1024;

/// Settings that a plugin adds.
#[derive(Clone)]
pub(crate) struct Layer {
    pub(crate) plugin: String,
    /// Whether the project's settings name the plugin.
    pub(crate) of_project: bool,
    /// Whether the plugin is written for Leftfold; then an unknown key is an error.
    pub(crate) own: bool,
    pub(crate) value: Value,
}

/// A source with its text.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) source: Arc<Source>,
    pub(crate) text: String,
    pub(crate) format: Format,
}

/// The form in which a source is written.
#[derive(Clone)]
pub(crate) enum Format {
    /// JSON with the keys of settings.
    Settings,
    /// Markdown that defines this entry.
    Markdown(Entered),
    /// MCP servers of Claude Code.
    ClaudeServers,
    /// Permission rules of Claude Code. Relative paths in them start in a folder of the worktree.
    ClaudeRules { here: PathBuf, worktree: PathBuf },
}

/// Reads all sources that apply in `directory` with these `layers`, weakest first.
pub(crate) fn read_all(
    directory: &Path,
    env: Env<'_>,
    layers: &[Layer],
) -> Result<FoundSources, Error> {
    let directory = resolved(directory).map_err(|error| Error::Directory {
        path: directory.to_owned(),
        reason: error.to_string(),
    })?;
    let (worktree, foreign) = worktree::find(&directory);
    // the first that a process learns of a project: nothing in it is started by its name
    leftfold_programs::distrust(&worktree);
    let data = auth::path(env).and_then(|keys| Some(keys.parent()?.to_owned()));
    for path in data.iter().flat_map(|data| Texts::looked_at(data, &worktree)) {
        files::exists(&path);
    }
    let mut all = Gathered {
        home: absolute(env, "HOME"),
        texts: Texts::load(data.as_deref(), &worktree),
        worktree,
        documents: Vec::new(),
        warnings: Vec::new(),
        room: MAX_MARKDOWN,
        left_out: Vec::new(),
    };
    if let Some(foreign) = foreign {
        all.warnings.push(format!(
            "{0}: this repository belongs to another user, so the project is {1}; to use it all the same, run \
             `git config --global --add safe.directory {0}`",
            foreign.display(),
            directory.display()
        ));
    }
    let config = absolute(env, "XDG_CONFIG_HOME")
        .or_else(|| all.home.as_ref().map(|home| home.join(".config")));
    let home = all.home.clone();
    let named = |variable| Some(directory.join(expand(&given(env, variable)?, home.as_deref())));
    if let Some(home) = &home {
        let path = home.join(CLAUDE_RULES[0]);
        let (here, worktree) = (directory.clone(), all.worktree.clone());
        let format = Format::ClaudeRules { here, worktree };
        all.add_existing(&path, (false, Owner::User), format)?;
    }
    if let Some(config) = config {
        let (theirs, ours) = (config.join("opencode"), config.join("leftfold"));
        all.folder(&theirs, (&OPENCODE, false), &theirs, Owner::User)?;
        all.folder(&ours, (&OWN, true), &ours, Owner::User)?;
    }
    // A file for OpenCode may be missing.
    if let Some(path) = named("OPENCODE_CONFIG")
        && let Some(text) = existing(&path, None)?
    {
        all.file(&path, (false, Owner::User), text, Format::Settings);
    }
    all.root_agents()?;
    for folder in outermost_first(&directory, &all.worktree.clone()) {
        let (theirs, ours) = (folder.join(".opencode"), folder.join(".leftfold"));
        let foreign = (false, Owner::Project);
        all.add_existing(&folder.join(CLAUDE_SERVERS), foreign, Format::ClaudeServers)?;
        for name in CLAUDE_RULES {
            let (here, worktree) = (folder.to_owned(), all.worktree.clone());
            let format = Format::ClaudeRules { here, worktree };
            all.add_existing(&folder.join(name), foreign, format)?;
        }
        all.folder(folder, (&PROJECT_OPENCODE, false), &theirs, Owner::Project)?;
        all.folder(folder, (&PROJECT_OWN, true), &ours, Owner::Project)?;
    }
    if let Some(folder) = named("OPENCODE_CONFIG_DIR") {
        all.folder(&folder, (&OPENCODE, false), &folder, Owner::User)?;
    }
    // Files name plugins, so plugins come after files; variables come last, because the user who
    // starts this process decides.
    for Layer { plugin, of_project, own, value } in layers {
        let name = format!("plugin {plugin}");
        let owner = if *of_project { Owner::Project } else { Owner::User };
        let (text, format) = (value.to_string(), Format::Settings);
        all.add((name, SourceKind::Plugin), (&directory, *own, owner), text, format);
    }
    if let Some(text) = given(env, "OPENCODE_CONFIG_CONTENT") {
        let name = "OPENCODE_CONFIG_CONTENT".to_owned();
        let owner = (&*directory, false, Owner::User);
        all.add((name, SourceKind::Variable), owner, text, Format::Settings);
    }
    if let Some(path) = named("LEFTFOLD_CONFIG") {
        let text = read_text(&path).map_err(|error| unreadable(path.clone(), &error, true))?;
        let is_theirs = path.file_name().is_some_and(|name| OPENCODE.iter().any(|n| name == *n));
        all.file(&path, (!is_theirs, Owner::User), text, Format::Settings);
    }
    if let Some(text) = given(env, "LEFTFOLD_CONFIG_CONTENT") {
        let name = "LEFTFOLD_CONFIG_CONTENT".to_owned();
        let owner = (&*directory, true, Owner::User);
        all.add((name, SourceKind::Variable), owner, text, Format::Settings);
    }
    if let Some(mode) = given(env, "LEFTFOLD_SANDBOX") {
        let name = "LEFTFOLD_SANDBOX".to_owned();
        let text = json!({ "sandbox": mode.trim() }).to_string();
        let owner = (&*directory, true, Owner::User);
        all.add((name, SourceKind::Variable), owner, text, Format::Settings);
    }
    if let [first, rest @ ..] = all.left_out.as_slice() {
        let more =
            if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        all.warnings.push(format!(
            "{}{more}: left out, because the agents and commands of a project may have {} MiB together",
            first.display(),
            MAX_MARKDOWN / 1024 / 1024
        ));
    }
    Ok(FoundSources {
        documents: all.documents,
        worktree: all.worktree,
        directory,
        warnings: all.warnings,
    })
}

/// The sources that were found.
pub(crate) struct FoundSources {
    /// The weakest first.
    pub(crate) documents: Vec<Document>,
    pub(crate) worktree: PathBuf,
    /// The folder that the settings are for, without links.
    pub(crate) directory: PathBuf,
    /// Files and folders that are left out because a link leads out of the project, or because they are too many.
    pub(crate) warnings: Vec<String>,
}

/// Whose settings a source holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    User,
    Project,
}

struct Gathered {
    home: Option<PathBuf>,
    /// The project's texts in force.
    texts: Texts,
    worktree: PathBuf,
    documents: Vec<Document>,
    warnings: Vec<String>,
    /// How many bytes further Markdown files of the project may have.
    room: u64,
    /// The Markdown files of the project for which there is no room.
    left_out: Vec<PathBuf>,
}

impl Gathered {
    /// Adds the files of `names` that exist in `folder`, and after them the agents and commands in
    /// Markdown below `markdown`.
    fn folder(
        &mut self,
        folder: &Path,
        (names, own): (&[&str], bool),
        markdown: &Path,
        owner: Owner,
    ) -> Result<(), Error> {
        for path in names.iter().map(|name| folder.join(name)) {
            self.add_existing(&path, (own, owner), Format::Settings)?;
        }
        let found = markdown::find(markdown, self.root(owner))
            .map_err(|error| unreadable(markdown.to_owned(), &error, false))?;
        self.warnings.extend(found.warnings);
        self.markdown(found.files, (own, owner))?;
        if !own && files::is_dir(markdown) {
            self.javascript(markdown, owner);
        }
        Ok(())
    }

    /// Adds a setting for each plugin in JavaScript or TypeScript below OpenCode's `folder`, and one for the tools in each
    /// of its folders.
    fn javascript(&mut self, folder: &Path, owner: Owner) {
        let add = |all: &mut Self, path: &Path, plugin: Value| {
            let text = json!({ "plugin": [plugin] }).to_string();
            let name = path.display().to_string();
            all.add((name, SourceKind::Script), (folder, true, owner), text, Format::Settings);
        };
        for below in ["plugin", "plugins"].map(|name| folder.join(name)) {
            for path in javascript::scripts(&below) {
                if !self.leads_out(&path, owner) {
                    add(self, &path, json!({ "module": path }));
                }
            }
        }
        for below in ["tool", "tools"].map(|name| folder.join(name)) {
            let mut files = javascript::scripts(&below);
            files.retain(|path| !self.leads_out(path, owner));
            if !files.is_empty() {
                add(self, &below, json!({ "tools": files }));
            }
        }
    }

    /// Adds the agents at the root of the project, which OpenCode also reads.
    fn root_agents(&mut self) -> Result<(), Error> {
        self.markdown(markdown::find_root_agents(&self.worktree), (false, Owner::Project))
    }

    fn markdown(
        &mut self,
        files: Vec<(PathBuf, Entered)>,
        (own, owner): (bool, Owner),
    ) -> Result<(), Error> {
        for (path, entered) in files {
            if self.leads_out(&path, owner) {
                continue;
            }
            if owner == Owner::Project {
                let bytes = files::metadata(&path).map_or(0, |found| found.len());
                match self.room.checked_sub(bytes) {
                    Some(room) => self.room = room,
                    None => {
                        self.left_out.push(path);
                        continue;
                    }
                }
            }
            if let Some(text) = self.existing(&path, owner)? {
                self.file(&path, (own, owner), text, Format::Markdown(entered));
            }
        }
        Ok(())
    }

    /// Adds a file, if it exists and no link leads out of the project.
    fn add_existing(
        &mut self,
        path: &Path,
        (own, owner): (bool, Owner),
        format: Format,
    ) -> Result<(), Error> {
        if self.leads_out(path, owner) {
            return Ok(());
        }
        if let Some(text) = self.existing(path, owner)? {
            self.file(path, (own, owner), text, format);
        }
        Ok(())
    }

    /// The text in force of a file, if it exists.
    fn existing(&self, path: &Path, owner: Owner) -> Result<Option<String>, Error> {
        match self.texts.in_force(path) {
            InForce::Older { text, .. } if owner == Owner::Project => Ok(Some(text.to_owned())),
            InForce::Nothing if owner == Owner::Project => Ok(None),
            InForce::AsOnDisk | InForce::Older { .. } | InForce::Nothing => {
                existing(path, self.root(owner))
            }
        }
    }

    /// The folder that no link of these files may leave.
    fn root(&self, owner: Owner) -> Option<&Path> {
        (owner == Owner::Project).then_some(&self.worktree)
    }

    /// Whether a file of the project is really elsewhere: whoever wrote the project does not choose
    /// which other files are read.
    fn leads_out(&mut self, path: &Path, owner: Owner) -> bool {
        if owner == Owner::User || !files::exists(path) {
            return false;
        }
        let leads_out =
            files::canonicalize(path).is_ok_and(|real| !real.starts_with(&self.worktree));
        if leads_out {
            let path = path.display();
            self.warnings
                .push(format!("{path}: left out, because a link leads out of the project"));
        }
        leads_out
    }

    fn file(&mut self, path: &Path, (own, owner): (bool, Owner), text: String, format: Format) {
        let base = path.parent().unwrap_or(path);
        self.add((path.display().to_string(), SourceKind::File), (base, own, owner), text, format);
    }

    fn add(
        &mut self,
        (name, kind): (String, SourceKind),
        (base, own, owner): (&Path, bool, Owner),
        text: String,
        format: Format,
    ) {
        let of_project = owner == Owner::Project;
        let known = self.documents.iter().position(|document| document.source.name == name);
        if let Some(known) = known {
            // If the project is the folder of the global settings, its files count once. A file of
            // the project that the user names in a variable is the user's.
            if of_project || !self.documents[known].source.of_project {
                return;
            }
            self.documents.remove(known);
        }
        let (base, home) = (base.to_owned(), self.home.clone());
        let source = Arc::new(Source { name, base, own, kind, of_project, home });
        self.documents.push(Document { source, text, format });
    }
}

/// The text of a file, if it exists.
fn existing(path: &Path, root: Option<&Path>) -> Result<Option<String>, Error> {
    match read_found(path, root) {
        Err(error) if is_absent(&error) => Ok(None),
        read => read.map(Some).map_err(|error| unreadable(path.to_owned(), &error, false)),
    }
}

/// The folders from the worktree down to `directory`.
fn outermost_first<'a>(directory: &'a Path, worktree: &Path) -> Vec<&'a Path> {
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(worktree)).collect();
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
