//! Where settings come from, and what is wrong in them.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Findings, Level};
use leftfold_config::{self as settings, Diagnosis, Error};

pub(super) fn settings(found: &mut Findings, diagnosis: &Diagnosis, directory: &Path) {
    found.area("settings");
    found.note(format!(
        "the project is {}; of what follows, later ones win",
        settings::worktree_of(directory).display()
    ));
    for source in &diagnosis.sources {
        let file = if source.own { "" } else { " (written for OpenCode)" };
        found.fine(format!("{}{file}", source.name));
    }
    if diagnosis.sources.is_empty() && diagnosis.errors.is_empty() {
        found.note("no settings were found, so the defaults are in force");
    }
    for error in &diagnosis.errors {
        found.error(error.to_string(), advice(error));
    }
    idle(found, diagnosis);
    for (place, what) in &diagnosis.project_effects {
        found.add(
            Level::Note,
            format!("{place}: this file of the project {what}"),
            Some("look at it first if the project is not yours".to_owned()),
        );
    }
    for warning in diagnosis.settings.iter().flat_map(|settings| &settings.warnings) {
        found.warning(warning.as_str(), "take it out, or put it right");
    }
}

fn advice(error: &Error) -> &'static str {
    match error {
        Error::Unreadable { .. } | Error::UnreadableConfig { .. } | Error::Directory { .. } => {
            "make it readable for you, or take it away"
        }
        Error::Keys(_) => "`leftfold auth login PROVIDER` stores a key anew",
        Error::Unset { .. } => "set the variable where Leftfold is started from",
        Error::Include { .. } => "create the file, or name another",
        Error::Encoding { .. }
        | Error::Syntax { .. }
        | Error::Head { .. }
        | Error::Twice { .. }
        | Error::UnknownKey { .. }
        | Error::Wrong { .. }
        | Error::NoModel { .. }
        | Error::ModelName { .. }
        | Error::UnknownProvider { .. }
        | Error::UnknownModel { .. }
        | Error::Disabled { .. }
        | Error::Hidden { .. }
        | Error::NoWire { .. }
        | Error::MissingKey { .. } => "correct it there: no session starts before that",
    }
}

/// What OpenCode's users may miss, a line for each file.
fn idle(found: &mut Findings, diagnosis: &Diagnosis) {
    let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (place, key) in &diagnosis.idle {
        let keys = files.entry(place.source.name.as_str()).or_default();
        let line = if place.line > 0 { format!(" (line {})", place.line) } else { String::new() };
        keys.push(format!("`{key}`{line}"));
    }
    for (file, keys) in files {
        let what = format!("{file}: Leftfold has nothing that goes by {}", keys.join(", "));
        found.add(Level::Note, what, None);
    }
}
