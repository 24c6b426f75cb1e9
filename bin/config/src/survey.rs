//! What is wrong in settings, all of it: what keeps a program from starting, and what counts for
//! nothing in files that were written for OpenCode.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::load::{self, Layers};
use crate::settings::Settings;
use crate::source::{Env, Place, Source};
use crate::sources::{self, Project};
use crate::{reach, schema};

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

/// Reads what [`load_with`](load::load_with) does, and goes on after errors.
pub fn survey(directory: &Path, env: Env<'_>, layers: &Layers) -> Survey {
    let (sources, errors, idle, reaching) = Default::default();
    let mut survey = Survey { sources, errors, idle, reaching, settings: None };
    let project = Project::of(directory, env);
    match sources::read_all(directory, env, &layers.all) {
        Ok(documents) => {
            for document in documents {
                survey.sources.push(Arc::clone(&document.source));
                match load::read(&document, env, layers.providers) {
                    Ok(part) => {
                        let idle = part.node.entries().iter().filter(|e| schema::is_idle(&e.key));
                        survey.idle.extend(idle.map(|entry| (entry.at.clone(), entry.key.clone())));
                        if project.has(&document.source) {
                            survey.reaching.extend(reach::reaching(&part.node, &project.worktree));
                        }
                    }
                    Err(error) => survey.errors.push(error),
                }
            }
        }
        Err(error) => survey.errors.push(error),
    }
    if survey.errors.is_empty() {
        match load::load_with(directory, env, layers) {
            Ok(settings) => survey.settings = Some(settings),
            Err(error) => survey.errors.push(error),
        }
    }
    survey
}

/// Whether a file that came with the project in `directory` says what stands at `place`.
pub fn is_of_project(place: &Place, directory: &Path, env: Env<'_>) -> bool {
    Project::of(directory, env).has(&place.source)
}
