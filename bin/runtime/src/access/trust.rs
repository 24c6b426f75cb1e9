//! The question whether the user trusts a project's settings, as every front end asks it.
//!
//! `leftfold_config::Trust` decides which settings need trust, and stores the answer.

use std::fmt::Write as _;
use std::path::Path;

use leftfold_config::{Standing, Trust, environment};
use leftfold_view::clean::{printable_line, visible_line};

use crate::model;

/// The project's settings that need trust, and whether the user trusts them.
///
/// # Errors
/// A settings file cannot be read.
pub fn review(directory: &Path) -> anyhow::Result<Trust> {
    leftfold_config::review(directory, &environment).map_err(model::usage)
}

/// Every setting that needs trust, one a line, with its place and effect.
pub fn listing(trust: &Trust) -> String {
    let mut text = String::new();
    for item in &trust.items {
        let standing = match trust.standing(item) {
            Standing::Trusted => "trusted",
            Standing::Changed => "CHANGED",
            Standing::New => "new",
        };
        let place = visible_line(&item.place.to_string());
        // the key is quoted already
        let (key, effect) = (printable_line(&item.key), visible_line(&item.effect));
        let _ = writeln!(text, "{standing} {place}: `{key}` {effect}");
    }
    text
}

/// The question that people are asked.
pub fn question(trust: &Trust) -> String {
    let rules = match trust.items.iter().any(|item| item.in_part) {
        true => ", but rules count where they are stricter than yours",
        false => "",
    };
    format!(
        "The settings of {} can run programs, read your files or send your prompts and keys elsewhere:\n{}\
         Without your trust they are left out{rules}.",
        visible_line(&trust.worktree.display().to_string()),
        listing(trust),
    )
}

/// Stores that the user trusts the project's settings as they are.
///
/// # Errors
/// The data directory cannot be written, or a call started this process.
pub fn grant(trust: &Trust) -> anyhow::Result<()> {
    crate::only_people::require("leftfold trust")?;
    Ok(trust.grant(&environment)?)
}

/// Makes sure that nothing of a trusted project has changed since. Reads the files that its settings execute.
///
/// # Errors
/// The settings or files that have changed, in words for people.
pub(crate) fn still_holds(directory: &Path) -> Result<(), String> {
    let trust = review(directory).map_err(|error| format!("{error:#}"))?;
    let changed = trust.items.iter().filter(|item| trust.standing(item) != Standing::Trusted);
    let changed: Vec<String> = changed.map(|item| format!("`{}`", item.key)).collect();
    match changed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "it does not start: {}, or a file that it executes, has changed since you trusted the project; `leftfold \
             trust` shows it",
            changed.join(", ")
        )),
    }
}

/// Whether the project has settings that are left out until the user trusts them.
pub fn is_pending(directory: &Path) -> bool {
    review(directory).is_ok_and(|trust| !trust.is_whole())
}
