//! Settings from texts instead of files: a seam for the random inputs of `tests/fuzz`.

use std::path::Path;
use std::sync::Arc;

use leftfold_events::providers::KnownProviders;
use serde_json::Value;

use crate::error::Error;
use crate::load::{Layers, load_found};
use crate::markdown::Entered;
use crate::settings::Settings;
use crate::source::{Env, Source, SourceKind};
use crate::sources::{Document, Format, FoundSources};

/// Reads texts, weakest first, each with the path of its file and whether it is one of the project in `worktree`. How a
/// text begins tells its format.
///
/// # Errors
/// The first error in any of them.
pub fn load(
    worktree: &Path,
    texts: &[(&Path, &str, bool)],
    env: Env<'_>,
    known: &'static KnownProviders,
) -> Result<Settings, Error> {
    let documents = texts.iter().map(|(path, text, of_project)| document(path, text, *of_project));
    let found = FoundSources {
        documents: documents.collect(),
        worktree: worktree.to_owned(),
        directory: worktree.to_owned(),
        warnings: Vec::new(),
    };
    load_found(found, (worktree, env), &Layers::new(known))
}

fn document(path: &Path, text: &str, of_project: bool) -> Document {
    let base = path.parent().unwrap_or(path).to_owned();
    let name = path.display().to_string();
    let home = Some("/home/user".into());
    let format = if text.starts_with("---") {
        Format::Markdown(Entered::agent("build"))
    } else if text.starts_with("{\"permissions\"") {
        Format::ClaudeRules { here: base.clone(), worktree: base.clone() }
    } else if text.starts_with("{\"mcpServers\"") {
        Format::ClaudeServers
    } else {
        Format::Settings
    };
    let source = Source { name, base, own: true, kind: SourceKind::File, of_project, home };
    Document { source: Arc::new(source), text: text.to_owned(), format }
}

/// The merged settings.
pub fn value(settings: &Settings) -> Value {
    settings.tree.as_ref().map(|tree| tree.value()).unwrap_or_default()
}
