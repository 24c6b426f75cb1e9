//! What is wrong in settings, all of it: what keeps a program from starting, and what counts for
//! nothing in files that were written for OpenCode.

use std::path::Path;
use std::sync::Arc;

use super::sources::{self, Document, Source};
use super::tree::{self, Node, Tree, below};
use super::{Env, Error, Place, Settings, keys, markdown, permission, view};

/// Every source by itself, and what they come to.
#[derive(Debug)]
pub(crate) struct Survey {
    /// What was found, the weakest first.
    pub(crate) sources: Vec<Arc<Source>>,
    /// The first error of each source; if none has any, the one that only all of them together have.
    pub(crate) errors: Vec<Error>,
    /// Keys that Leftfold knows and has nothing for, with their places.
    pub(crate) idle: Vec<(Place, String)>,
    /// If there are no errors.
    pub(crate) settings: Option<Settings>,
}

/// Reads what [`super::load`] does, and goes on after errors.
pub(crate) fn survey(directory: &Path, env: Env<'_>) -> Survey {
    let mut survey =
        Survey { sources: Vec::new(), errors: Vec::new(), idle: Vec::new(), settings: None };
    match sources::read_all(directory, env) {
        Ok(documents) => documents.iter().for_each(|document| survey.document(document, env)),
        Err(error) => survey.errors.push(error),
    }
    if survey.errors.is_empty() {
        match super::load(directory, env) {
            Ok(settings) => survey.settings = Some(settings),
            Err(error) => survey.errors.push(error),
        }
    }
    survey
}

impl Survey {
    fn document(&mut self, document: &Document, env: Env<'_>) {
        self.sources.push(Arc::clone(&document.source));
        match read(document, env) {
            Ok(node) => self.idle.extend(idle(&node)),
            Err(error) => self.errors.push(error),
        }
    }
}

fn read(document: &Document, env: Env<'_>) -> Result<Node, Error> {
    let node = match &document.entered {
        Some(entered) => markdown::parse(document, entered)?,
        None => tree::parse(document, env)?,
    };
    let root = view::View::root(&node);
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
