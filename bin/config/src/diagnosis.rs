//! Every problem in settings, for `leftfold doctor`: errors of each source, keys of OpenCode that have no effect,
//! and the risks in files that came with a project.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::load::{self, Layers};
use crate::settings::Settings;
use crate::source::{Env, SettingPlace, Source};
use crate::sources::{self, Project};
use crate::tree::Node;
use crate::{project_effects, schema};

/// The problems of each source, and the merged settings.
#[derive(Debug)]
pub struct Diagnosis {
    /// The sources that exist, weakest first.
    pub sources: Vec<Arc<Source>>,
    /// The first error of each source; if none has any, the first error of the merged settings.
    pub errors: Vec<Error>,
    /// Known keys without an effect, with their places.
    pub idle: Vec<(SettingPlace, String)>,
    /// The effects of the project's own files, with their places: programs that they start,
    /// addresses that they send prompts to, calls that they allow.
    pub project_effects: Vec<(SettingPlace, String)>,
    /// The settings, if there are no errors.
    pub settings: Option<Settings>,
}

/// Reads every source by itself, and continues after errors.
pub fn diagnose(directory: &Path, env: Env<'_>, layers: &Layers) -> Diagnosis {
    let (sources, errors, idle, project_effects) = Default::default();
    let mut diagnosis = Diagnosis { sources, errors, idle, project_effects, settings: None };
    let project = Project::of(directory, env);
    let documents = sources::read_all(directory, env, &layers.all);
    let documents = documents.map_err(|error| diagnosis.errors.push(error)).unwrap_or_default();
    let mut parts = Vec::new();
    for document in documents {
        match load::read(&document, env, layers.providers) {
            Ok(part) => {
                diagnosis.part(&part.node, project.has(&document.source).then_some(&project));
                parts.push(part);
            }
            Err(error) => diagnosis.errors.push(error),
        }
        diagnosis.sources.push(document.source);
    }
    if diagnosis.errors.is_empty() {
        match load::merge(parts, (directory, env), layers) {
            Ok(settings) => diagnosis.settings = Some(settings),
            Err(error) => diagnosis.errors.push(error),
        }
    }
    diagnosis
}

impl Diagnosis {
    /// `project`: the project that the source came with, if any.
    fn part(&mut self, node: &Node, project: Option<&Project>) {
        let idle = node.entries().iter().filter(|entry| schema::is_idle(&entry.key));
        self.idle.extend(idle.map(|entry| (entry.at.clone(), entry.key.clone())));
        if let Some(project) = project {
            self.project_effects.extend(project_effects::of(node, &project.worktree));
        }
    }
}

/// Whether the setting at `place` is in a file that came with the project in `directory`.
pub fn is_of_project(place: &SettingPlace, directory: &Path, env: Env<'_>) -> bool {
    Project::of(directory, env).has(&place.source)
}
