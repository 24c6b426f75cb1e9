//! What is wrong in settings, all of it: what keeps a program from starting, and what counts for
//! nothing in files that were written for OpenCode.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_events::providers::KnownProviders;

use super::sources::{self, Document, Kind, Source};
use super::tree::{Node, Tree, below};
use super::{Env, Error, Layers, Place, Settings, keys, legacy, permission, reach, view};

/// Every source by itself, and what they come to.
#[derive(Debug)]
pub struct Survey {
    /// What was found, the weakest first.
    pub sources: Vec<Arc<Source>>,
    /// The first error of each source; if none has any, the one that only all of them together have.
    pub errors: Vec<Error>,
    /// Keys that Leftfold knows and has nothing for, with their places.
    pub idle: Vec<(Place, String)>,
    /// What the project's own files have programs started, prompts sent or calls allowed by, with
    /// their places: whoever opens somebody else's project does so by their word.
    pub reaching: Vec<(Place, String)>,
    /// If there are no errors.
    pub settings: Option<Settings>,
}

/// Reads what [`super::load_with`] does, and goes on after errors.
pub fn survey(directory: &Path, env: Env<'_>, layers: &Layers) -> Survey {
    let (sources, errors, idle, reaching) = Default::default();
    let mut survey = Survey { sources, errors, idle, reaching, settings: None };
    let project = Project::of(directory, env);
    match sources::read_all(directory, env, layers.all()) {
        Ok(documents) => {
            documents
                .iter()
                .for_each(|document| survey.document(document, &project, env, layers.providers));
        }
        Err(error) => survey.errors.push(error),
    }
    if survey.errors.is_empty() {
        match super::load_with(directory, env, layers) {
            Ok(settings) => survey.settings = Some(settings),
            Err(error) => survey.errors.push(error),
        }
    }
    survey
}

impl Survey {
    fn document(
        &mut self,
        document: &Document,
        project: &Project,
        env: Env<'_>,
        providers: &'static KnownProviders,
    ) {
        self.sources.push(Arc::clone(&document.source));
        match read(document, env, providers) {
            Ok(node) => {
                self.idle.extend(idle(&node));
                if project.has(&document.source) {
                    self.reaching.extend(reach::reaching(&node, &project.worktree));
                }
            }
            Err(error) => self.errors.push(error),
        }
    }
}

fn read(
    document: &Document,
    env: Env<'_>,
    providers: &'static KnownProviders,
) -> Result<Node, Error> {
    let node = legacy::node(document, env)?;
    let root = view::View::root(&node, providers);
    keys::read(&root)?;
    permission::rules(&root, &[])?;
    permission::agents(&root)?;
    Ok(node)
}

fn idle(node: &Node) -> Vec<(Place, String)> {
    let Tree::Map(entries) = &node.tree else { return Vec::new() };
    let idle = entries.iter().filter(|entry| keys::is_idle(&entry.key));
    idle.map(|entry| (entry.at.clone(), entry.key.clone())).collect()
}

/// Which files came with the project.
pub(super) struct Project {
    worktree: PathBuf,
    /// The folder of the user's own settings.
    config: Option<PathBuf>,
}

impl Project {
    pub(super) fn of(directory: &Path, env: Env<'_>) -> Self {
        let folder = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        Self { worktree: sources::worktree_of(directory), config }
    }

    pub(super) fn has(&self, source: &Source) -> bool {
        let is_users = self.config.as_ref().is_some_and(|config| source.base.starts_with(config));
        source.kind == Kind::File && !is_users && source.base.starts_with(&self.worktree)
    }
}

/// Whether a file that came with the project in `directory` says what stands at `place`.
pub fn is_of_project(place: &Place, directory: &Path, env: Env<'_>) -> bool {
    Project::of(directory, env).has(&place.source)
}

/// Keys in a file that was not written for Leftfold which nobody here knows: they are passed over, and
/// this is what is said of them.
pub(super) fn strangers(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    walk(node, &mut Vec::new(), "", &mut found);
    found
}

fn walk<'a>(node: &'a Node, path: &mut Vec<&'a str>, name: &str, found: &mut Vec<String>) {
    let Tree::Map(entries) = &node.tree else { return };
    let known = keys::at(path);
    for entry in entries {
        let name = below(name, &entry.key);
        let is_known = known.as_ref().is_none_or(|known| known.contains(&entry.key.as_str()));
        if is_known || entry.at.source.own {
            path.push(&entry.key);
            walk(&entry.node, path, &name, found);
            path.pop();
        } else {
            found
                .push(format!("{}: `{name}` is not known to Leftfold and has no effect", entry.at));
        }
    }
}
