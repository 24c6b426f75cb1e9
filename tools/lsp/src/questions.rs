//! The requests about code, and their answers as lines: places are `path:line:column`, counted from 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gen_lsp_types::{
    CallHierarchyIncomingCall, CallHierarchyItem, CallHierarchyOutgoingCall, DocumentSymbol,
    Location, LocationLink, Position, SymbolInformation, SymbolKind, WorkspaceSymbol,
    WorkspaceSymbolLocation,
};
use leftfold_json_rpc::RequestError;
use leftfold_tools::{CodeOperation, CodeQuestion};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::places;
use crate::server::{MAX_TEXT, Running};

/// The most items of an answer that are read, and how deeply symbols nest.
const MAX_ITEMS: usize = 1_000;
const MAX_DEPTH: usize = 16;

/// The capability that a server needs for this operation.
pub(crate) fn capability(operation: CodeOperation) -> &'static str {
    match operation {
        CodeOperation::GoToDefinition => "definitionProvider",
        CodeOperation::FindReferences => "referencesProvider",
        CodeOperation::Hover => "hoverProvider",
        CodeOperation::DocumentSymbol => "documentSymbolProvider",
        CodeOperation::WorkspaceSymbol => "workspaceSymbolProvider",
        CodeOperation::GoToImplementation => "implementationProvider",
        CodeOperation::PrepareCallHierarchy
        | CodeOperation::IncomingCalls
        | CodeOperation::OutgoingCalls => "callHierarchyProvider",
    }
}

/// Asks a server that has the file open.
///
/// # Errors
/// The reason why there is no answer.
pub(crate) async fn ask(
    server: &Running,
    question: &CodeQuestion,
    end: Instant,
) -> Result<Vec<String>, RequestError> {
    let text = server.current(&question.path).map(|(_, text)| text).unwrap_or_default();
    let line = text.split('\n').nth(question.line as usize).unwrap_or_default();
    let character = places::unit(line.trim_end_matches('\r'), question.character);
    let document = json!({ "uri": places::uri(&question.path) });
    let mut place = json!({
        "textDocument": document, "position": { "line": question.line, "character": character },
    });
    let mut answer =
        Lines { files: BTreeMap::from([(question.path.clone(), text)]), lines: Vec::new() };
    match question.operation {
        CodeOperation::GoToDefinition => {
            answer.places(&server.ask("textDocument/definition", &place, end).await?);
        }
        CodeOperation::GoToImplementation => {
            answer.places(&server.ask("textDocument/implementation", &place, end).await?);
        }
        CodeOperation::FindReferences => {
            place["context"] = json!({ "includeDeclaration": true });
            answer.places(&server.ask("textDocument/references", &place, end).await?);
        }
        CodeOperation::Hover => {
            answer.hover(&server.ask("textDocument/hover", &place, end).await?);
        }
        CodeOperation::DocumentSymbol => {
            let params = json!({ "textDocument": document });
            answer.symbols(&server.ask("textDocument/documentSymbol", &params, end).await?);
        }
        CodeOperation::WorkspaceSymbol => {
            let params = json!({ "query": question.query });
            answer.symbols(&server.ask("workspace/symbol", &params, end).await?);
        }
        CodeOperation::PrepareCallHierarchy => {
            for item in prepare(server, &place, end).await? {
                answer.call(&item, 0);
            }
        }
        CodeOperation::IncomingCalls | CodeOperation::OutgoingCalls => {
            let is_incoming = question.operation == CodeOperation::IncomingCalls;
            let method = if is_incoming { "incomingCalls" } else { "outgoingCalls" };
            for item in prepare(server, &place, end).await? {
                let params = json!({ "item": item });
                let calls = server.ask(&format!("callHierarchy/{method}"), &params, end).await?;
                match is_incoming {
                    true => {
                        for call in items::<CallHierarchyIncomingCall>(&calls) {
                            answer.call(&call.from, 0);
                        }
                    }
                    false => {
                        for call in items::<CallHierarchyOutgoingCall>(&calls) {
                            answer.call(&call.to, 0);
                        }
                    }
                }
            }
        }
    }
    Ok(answer.lines)
}

async fn prepare(
    server: &Running,
    place: &Value,
    end: Instant,
) -> Result<Vec<CallHierarchyItem>, RequestError> {
    let found = server.ask("textDocument/prepareCallHierarchy", place, end).await?;
    Ok(items(&found))
}

/// The valid items of a list, or the only item.
fn items<T: DeserializeOwned>(found: &Value) -> Vec<T> {
    let list = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
    list.iter().take(MAX_ITEMS).filter_map(|item| T::deserialize(item).ok()).collect()
}

/// An answer, and the texts of the files that it names.
struct Lines {
    files: BTreeMap<PathBuf, String>,
    lines: Vec<String>,
}

impl Lines {
    /// A place as people and `read` count.
    fn place(&mut self, uri: &str, position: Position) -> String {
        let Some(path) = places::path(uri) else {
            return format!("{uri}:{}", position.line.saturating_add(1));
        };
        let text = self.files.entry(path.clone()).or_insert_with(|| text_of(&path));
        // of a file that cannot be read, positions are taken as they are
        let line = text.split('\n').nth(position.line as usize);
        let column = line.map_or(position.character, |line| {
            places::within(&[line.trim_end_matches('\r')], 0, position.character).2
        });
        let (line, column) = (position.line.saturating_add(1), column.saturating_add(1));
        format!("{}:{line}:{column}", path.display())
    }

    fn places(&mut self, found: &Value) {
        for link in items::<LocationLink>(found) {
            let line = self.place(link.target_uri.as_ref(), link.target_selection_range.start);
            self.lines.push(line);
        }
        for Location { uri, range } in items::<Location>(found) {
            let line = self.place(uri.as_ref(), range.start);
            self.lines.push(line);
        }
    }

    fn hover(&mut self, found: &Value) {
        let text = marked_text(&found["contents"]);
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        self.lines.extend(lines.map(str::to_owned));
    }

    fn symbols(&mut self, found: &Value) {
        let list = found.as_array().map(Vec::as_slice).unwrap_or_default();
        for item in list.iter().take(MAX_ITEMS) {
            if let Ok(symbol) = DocumentSymbol::deserialize(item) {
                self.symbol(&symbol, 0);
            } else if let Ok(symbol) = SymbolInformation::deserialize(item) {
                let Location { uri, range } = symbol.location;
                let place = self.place(uri.as_ref(), range.start);
                let of = symbol.base_symbol_information;
                self.lines.push(format!("{} {} {place}", kind(of.kind), of.name));
            } else if let Ok(symbol) = WorkspaceSymbol::deserialize(item) {
                let place = match symbol.location {
                    WorkspaceSymbolLocation::Location(Location { uri, range }) => {
                        self.place(uri.as_ref(), range.start)
                    }
                    WorkspaceSymbolLocation::LocationUriOnly(file) => {
                        places::path(file.uri.as_ref())
                            .map_or_else(|| file.uri.to_string(), |path| path.display().to_string())
                    }
                };
                let of = symbol.base_symbol_information;
                self.lines.push(format!("{} {} {place}", kind(of.kind), of.name));
            }
        }
    }

    fn symbol(&mut self, symbol: &DocumentSymbol, depth: usize) {
        if depth > MAX_DEPTH || self.lines.len() >= MAX_ITEMS {
            return;
        }
        let first = symbol.range.start.line.saturating_add(1);
        let last = symbol.range.end.line.saturating_add(1);
        let indent = "  ".repeat(depth);
        self.lines.push(format!(
            "{indent}{} {} lines {first}-{last}",
            kind(symbol.kind),
            symbol.name
        ));
        for child in symbol.children.iter().flatten() {
            self.symbol(child, depth + 1);
        }
    }

    fn call(&mut self, item: &CallHierarchyItem, depth: usize) {
        let place = self.place(item.uri.as_ref(), item.selection_range.start);
        let indent = "  ".repeat(depth);
        self.lines.push(format!("{indent}{} {} {place}", kind(item.kind), item.name));
    }
}

/// The text of a hover, in any of the forms that the protocol has had.
fn marked_text(contents: &Value) -> String {
    match contents {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(marked_text).collect::<Vec<String>>().join("\n"),
        Value::Object(content) => {
            content.get("value").and_then(Value::as_str).unwrap_or_default().to_owned()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn text_of(path: &Path) -> String {
    leftfold_files::text(path, None, MAX_TEXT as u64).unwrap_or_default()
}

fn kind(kind: SymbolKind) -> String {
    match matches!(kind, SymbolKind::Custom(_)) {
        true => "symbol".to_owned(),
        false => format!("{kind:?}").to_lowercase(),
    }
}
