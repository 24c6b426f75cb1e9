//! `run --report FILE`: what a turn did, for CI. The file's ending names the format.

use std::path::Path;

use anyhow::Context;
use leftfold_runtime::Usage;
use leftfold_runtime::history::History;
use leftfold_runtime::session_paths::SessionPlace;

use super::{export, whole_file};

/// The format that a file's ending names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Markdown,
    Page,
    Junit,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "md" => Some(Self::Markdown),
            "html" => Some(Self::Page),
            "xml" => Some(Self::Junit),
            _ => None,
        }
    }
}

/// Whether a report can be written there.
///
/// # Errors
/// It cannot, or its ending names no format.
pub(super) fn check(path: &Path) -> Result<(), Usage> {
    if Format::of(path).is_none() {
        return Err(Usage(format!(
            "--report: {}: its ending names no format: use .md (Markdown), .html (a page) or .xml (JUnit)",
            path.display()
        )));
    }
    whole_file::check(path).map_err(|error| Usage(format!("--report: {error:#}")))
}

/// Writes the report of a session.
pub(super) fn write(path: &Path, place: &SessionPlace) -> anyhow::Result<()> {
    let format = Format::of(path).context("a report has an ending")?;
    let (history, _) = History::good(place)?;
    let text = match format {
        Format::Page => export::page(&history, None)?,
        Format::Markdown => export::as_text(&history, leftfold_export::markdown),
        Format::Junit => export::as_text(&history, leftfold_export::junit),
    };
    whole_file::write(path, &text, whole_file::FOR_ALL)
}
