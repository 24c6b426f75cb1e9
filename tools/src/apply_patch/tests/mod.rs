mod commit;
mod hunks;
mod parse;
mod properties;
mod run;

use crate::Error;
use crate::apply_patch::body::{self, HunkMismatch};
use crate::apply_patch::parse::{Change, Section, parse as parse_patch};

/// Puts `sections` into an envelope.
fn patch(sections: &str) -> String {
    format!("*** Begin Patch\n{sections}*** End Patch\n")
}

fn sections(sections: &str) -> Result<Vec<Section>, Error> {
    parse_patch(&patch(sections))
}

/// Applies the hunks to `before`.
fn changed(before: &str, hunks: &str) -> Result<String, HunkMismatch> {
    let update = format!("*** Update File: f\n{hunks}");
    let sections = sections(&update).unwrap_or_else(|error| panic!("{error}:\n{hunks}"));
    let Change::Update { hunks, .. } = &sections[0].change else { panic!("{sections:?}") };
    body::apply(before, hunks).map(|(text, _)| text)
}
