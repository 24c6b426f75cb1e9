//! Checks where settings come from, and finds errors in them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Findings, Level};
use leftfold_config::{self as settings, Diagnosis, Error};

pub(super) fn settings(found: &mut Findings, diagnosis: &Diagnosis, directory: &Path) {
    found.area("settings");
    let worktree = settings::worktree_of(directory);
    found.note(format!(
        "the project is {}; of the sources below, later ones win",
        worktree.display()
    ));
    if let Some(line) = leftfold_runtime::sandbox::about_home(&worktree) {
        found.note(line);
    }
    for source in &diagnosis.sources {
        let agent = source.written_for().map(|agent| format!(" (written for {agent})"));
        found.fine(format!("{}{}", source.name, agent.unwrap_or_default()));
    }
    if diagnosis.sources.is_empty() && diagnosis.errors.is_empty() {
        found.note("no settings files found; the defaults apply");
    }
    for error in &diagnosis.errors {
        found.error(error.to_string(), advice(error));
    }
    idle(found, diagnosis);
    for item in &diagnosis.trust.items {
        let (place, key, effect) = (&item.place, &item.key, &item.effect);
        match diagnosis.trust.is_whole() {
            true => found.note(format!("{place}: `{key}` of the project is trusted: it {effect}")),
            false => found.add(
                Level::Note,
                format!("{place}: `{key}` of the project {}: it {effect}", item.without_trust()),
                Some("`leftfold trust` lets you trust the project".to_owned()),
            ),
        }
    }
    for warning in diagnosis.settings.iter().flat_map(|settings| &settings.warnings) {
        found.warning(warning.as_str(), "correct or remove it");
    }
}

fn advice(error: &Error) -> &'static str {
    match error {
        Error::Unreadable { .. } | Error::UnreadableConfig { .. } | Error::Directory { .. } => {
            "make it readable, or remove it"
        }
        Error::Keys(_) => "store the key again with `leftfold auth login PROVIDER`",
        Error::Unset { .. } => "set the variable in the shell that starts Leftfold",
        Error::Include { .. } => "create the file, or name another one",
        _ => "correct it: no session starts until then",
    }
}

/// Settings written for other agents that Leftfold does not have, one note for each file.
fn idle(found: &mut Findings, diagnosis: &Diagnosis) {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (place, key) in &diagnosis.idle {
        let keys = files.entry(place.source.name.as_str()).or_default();
        let line = if place.line > 0 { format!(" (line {})", place.line) } else { String::new() };
        keys.push(format!("`{key}`{line}"));
    }
    for (file, keys) in files {
        let what = format!("{file}: Leftfold does not use {}", keys.join(", "));
        found.add(Level::Note, what, None);
    }
}
