//! Tool calls as a client shows them.

use std::path::PathBuf;

use agent_client_protocol::v1::schema::{ToolCallContent, ToolCallLocation, ToolKind};
use leftfold_events::event::{Class, Finished};
use leftfold_view::Call;

use super::diffs::{changes, of_many};

/// What sort of thing a tool does: by its name where that says more than the class of the call.
pub(super) fn kind(name: &str, class: Option<Class>) -> ToolKind {
    match (name, class) {
        ("read", _) => ToolKind::Read,
        ("write" | "edit" | "multiedit" | "apply_patch", _) => ToolKind::Edit,
        ("glob" | "grep" | "list" | "websearch" | "codesearch", _) => ToolKind::Search,
        ("bash", _) => ToolKind::Execute,
        ("webfetch", _) => ToolKind::Fetch,
        ("todoread" | "todowrite", _) => ToolKind::Think,
        (_, Some(Class::Read)) => ToolKind::Read,
        (_, Some(Class::Write)) => ToolKind::Edit,
        (_, Some(Class::Command)) => ToolKind::Execute,
        (_, Some(Class::Child | Class::Ask) | None) => ToolKind::Other,
    }
}

/// A line that says what a call is about.
pub(super) fn title(call: &Call) -> String {
    let input = &call.input;
    let said = ["description", "command", "filePath", "path", "pattern", "url"]
        .iter()
        .find_map(|field| input.get(field)?.as_str().filter(|text| !text.trim().is_empty()));
    let asked = || input.get("questions")?.get(0)?.get("question")?.as_str();
    match said.or_else(asked).and_then(|text| text.trim().lines().next()) {
        Some(said) => format!("{}: {said}", call.name),
        None => call.name.clone(),
    }
}

pub(super) fn locations(paths: &[String]) -> Vec<ToolCallLocation> {
    let absolute = paths.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    absolute.map(ToolCallLocation::new).collect()
}

/// What a call has brought: what it changed in a file, or else its output.
pub(super) fn content(finished: &Finished, paths: &[String]) -> Vec<ToolCallContent> {
    let metadata = finished.metadata.value();
    let whole = metadata.get("diff_truncated").is_none();
    let diff = metadata.get("diff").and_then(serde_json::Value::as_str).filter(|_| whole);
    let changes = match (diff.filter(|_| !finished.is_error), paths) {
        (Some(diff), [path]) => Some(changes(diff, path)).filter(|changes| !changes.is_empty()),
        (Some(diff), several) => of_many(diff, several),
        (None, _) => None,
    };
    if let Some(changes) = changes {
        return changes;
    }
    text(&finished.output)
}

pub(super) fn text(text: &str) -> Vec<ToolCallContent> {
    if text.is_empty() { Vec::new() } else { vec![text.into()] }
}
