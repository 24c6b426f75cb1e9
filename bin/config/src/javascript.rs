//! Plugins and tools in JavaScript that are written for OpenCode: where their files are. Runs nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::files;
use crate::source::{Source, SourceKind};
use crate::trust_files::Files;
use crate::worktree::worktree_of;

leftfold_events::debug_fields!(JavaScript {} NamedModule {});

/// The ends of names of files that are run.
const ENDS: [&str; 4] = ["js", "mjs", "ts", "mts"];
/// Entries of a folder that are looked at, and scripts in it that run.
const MAX_ENTRIES: usize = 20_000;
const MAX_SCRIPTS: usize = 100;
/// The longest name of a plugin, with room for a number.
const MAX_NAME: usize = 60;

/// A module as a setting names it.
pub(crate) struct NamedModule {
    /// A package, with or without its version, or a path. Empty if there are only tools.
    pub(crate) name: String,
    /// Paths of files that define tools.
    pub(crate) tools: Vec<String>,
    pub(crate) options: Map<String, Value>,
}

/// A plugin, or tools, whose files are known.
pub struct JavaScript {
    /// Its name among plugins.
    pub name: String,
    /// A file, or the folder of a package.
    pub module: Option<PathBuf>,
    /// Files that define tools.
    pub tools: Vec<PathBuf>,
    pub options: Map<String, Value>,
    /// The folder in which missing packages are to be installed.
    pub folder: PathBuf,
}

impl NamedModule {
    /// The path that it names; `None`: it names a package.
    fn path(&self, source: &Source) -> Option<PathBuf> {
        let path = self.name.strip_prefix("file://").unwrap_or(&self.name);
        ["/", "./", "../", "~/"].iter().any(|it| path.starts_with(it)).then(|| source.path(path))
    }

    /// The name of the package without its version.
    fn package(&self) -> &str {
        match self.name.rsplit_once('@') {
            Some((name, _)) if !name.is_empty() => name,
            Some(_) | None => &self.name,
        }
    }

    /// The folder of the package: it is installed beside the settings file or above it. A project's is in the project.
    fn installed(&self, source: &Source) -> Option<PathBuf> {
        let end = source.of_project.then(|| worktree_of(&source.base));
        let is_in = |folder: &&Path| end.as_ref().is_none_or(|end| folder.starts_with(end));
        let folders = source.base.ancestors().take_while(is_in);
        let mut places = folders.map(|folder| folder.join("node_modules").join(self.package()));
        places.find(|place| files::is_dir(place))
    }

    /// The files and folders that a project's trust covers: those of the module, and not the packages that it imports.
    /// `None` if they are too many.
    pub(crate) fn covered(&self, source: &Source, known: &mut Files) -> Option<Vec<String>> {
        let package = || Some(self.package()).filter(|name| is_package(name));
        let module = self.path(source).or_else(|| package().and_then(|_| self.installed(source)));
        let tools = self.tools.iter().map(|file| source.path(file));
        let mut covered = BTreeSet::new();
        for path in module.into_iter().chain(tools) {
            let folder = if files::is_dir(&path) { Some(path.as_path()) } else { path.parent() };
            if let Some(folder) = folder {
                covered.extend(known.folders_below(folder)?);
                covered.extend(folder.parent().map(|above| above.join("package.json")));
            }
            covered.insert(path);
        }
        Some(covered.iter().map(|path| path.display().to_string()).collect())
    }
}

impl JavaScript {
    /// Finds the module's files. Nothing is downloaded.
    ///
    /// # Errors
    /// There is no such file or package. In words for people, after "the plugin is left out".
    pub(crate) fn find(named: &NamedModule, source: &Source) -> Result<Self, String> {
        let tools: Vec<PathBuf> = named.tools.iter().map(|file| source.path(file)).collect();
        let (name, module) = match named.path(source) {
            _ if named.name.is_empty() => ("tools".to_owned(), None),
            Some(path) => {
                if !files::exists(&path) {
                    return Err(format!("there is no file {}", path.display()));
                }
                (name_of(&path), Some(path))
            }
            None => (named.package().to_owned(), Some(Self::package(named, source)?)),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
        let name = name.trim_start_matches('@').chars().take(MAX_NAME);
        let name = name.map(|c| if is_plain(c) { c } else { '-' }).collect();
        let (options, folder) = (named.options.clone(), source.base.clone());
        Ok(Self { name, module, tools, options, folder })
    }

    fn package(named: &NamedModule, source: &Source) -> Result<PathBuf, String> {
        let name = named.package();
        if !is_package(name) {
            return Err(
                "it is no name of a package, and no path that begins with `./`, `../`, `~/` or `/`"
                    .to_owned(),
            );
        }
        if source.kind != SourceKind::File {
            // the base of a variable is the current project, which must not choose what the name means
            return Err(
                "a settings file can name a package; a variable can name its path".to_owned()
            );
        }
        let missing = || {
            format!("it is not installed: run `npm install {name}` in {}", source.base.display())
        };
        named.installed(source).ok_or_else(missing)
    }
}

/// Whether npm accepts the name, so that it names no folder elsewhere.
fn is_package(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.~-".contains(c);
    let is_part =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain);
    let rest = name.strip_prefix('@');
    match (rest, rest.and_then(|rest| rest.split_once('/'))) {
        (None, _) => is_part(name),
        (Some(_), Some((scope, name))) => is_part(scope) && is_part(name),
        (Some(_), None) => false,
    }
}

fn name_of(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let own = stem(path).filter(|stem| stem != "index");
    own.or_else(|| stem(path.parent()?)).unwrap_or_else(|| "plugin".to_owned())
}

/// The first [`MAX_SCRIPTS`] files of JavaScript and TypeScript in a folder, in their order.
pub(crate) fn scripts(folder: &Path) -> Vec<PathBuf> {
    // a folder that cannot be read has nothing that could be run
    let entries = files::read_dir(folder).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let is_script = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        // braces would be a reference, as in other settings
        let is_plain = path.to_str().is_some_and(|path| !path.contains('{'));
        is_plain && end.is_some_and(|end| ENDS.contains(&end)) && !is_declaration(path)
    };
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_script).collect();
    found.sort();
    found.truncate(MAX_SCRIPTS);
    found
}

/// Whether it holds types alone.
fn is_declaration(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".d.ts") || name.ends_with(".d.mts")
}
