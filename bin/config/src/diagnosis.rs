//! Every problem in settings, for `leftfold doctor`: errors of each source, keys of other agents that have no effect,
//! and the risks in files that came with a project.

use std::path::Path;
use std::sync::Arc;

use crate::error::Error;
use crate::load::{self, Layers};
use crate::schema;
use crate::settings::Settings;
use crate::source::{Env, SettingPlace, Source};
use crate::sources;
use crate::tree::Node;
use crate::trust::Trust;

/// The problems of each source, and the merged settings.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// The sources that exist, weakest first.
    pub sources: Vec<Arc<Source>>,
    /// The errors of each source; if none has any, the first error of the merged settings.
    pub errors: Vec<Error>,
    /// Known keys without an effect, with their places.
    pub idle: Vec<(SettingPlace, String)>,
    /// The settings of the project that need trust.
    pub trust: Trust,
    /// The settings, if there are no errors.
    pub settings: Option<Settings>,
}

/// Reads every source by itself, and continues after errors.
pub fn diagnose(directory: &Path, env: Env<'_>, layers: &Layers) -> Diagnosis {
    let mut diagnosis = Diagnosis::default();
    let found = match sources::read_all(directory, env, &layers.all) {
        Ok(found) => found,
        Err(error) => {
            diagnosis.errors.push(error);
            return diagnosis;
        }
    };
    diagnosis.trust = load::review_all(&found, env);
    let mut parts = Vec::new();
    for document in found.documents {
        match load::read(&document, env, layers.providers, &diagnosis.trust) {
            Ok(part) => {
                diagnosis.idle.extend(idle(&part.node));
                diagnosis.idle.extend(part.reading.unread.iter().cloned());
                parts.push(part);
            }
            Err(error) => diagnosis.errors.extend(error.each()),
        }
        diagnosis.sources.push(document.source);
    }
    if diagnosis.errors.is_empty() {
        let trust = (diagnosis.trust.clone(), found.warnings);
        match load::merge(parts, (directory, env), layers, trust) {
            Ok(settings) => diagnosis.settings = Some(settings),
            Err(error) => diagnosis.errors.push(error),
        }
    }
    diagnosis
}

/// The keys without an effect at the top, and one level below it.
fn idle(root: &Node) -> Vec<(SettingPlace, String)> {
    let mut found = Vec::new();
    for entry in root.entries() {
        if schema::is_idle(&[&entry.key]) {
            found.push((entry.at.clone(), entry.key.clone()));
        }
        let below = entry.node.entries().iter();
        let idle = below.filter(|member| schema::is_idle(&[&entry.key, &member.key]));
        found.extend(
            idle.map(|member| (member.at.clone(), format!("{}.{}", entry.key, member.key))),
        );
    }
    found
}
