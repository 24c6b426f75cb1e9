//! Diagnostics of TypeScript's own server, for language servers that pass its requests on (`typescript-language-server`,
//! `vtsls`). Left alone, they publish without a version, some 300 ms after a change, and until then those of the text
//! before. Asked like this, they answer for the text that they were sent.

use std::path::Path;

use serde_json::{Value, json};

/// Passes a request on.
const COMMAND: &str = "typescript.tsserverRequest";

/// Whether a server with these capabilities passes requests on.
pub(crate) fn is_behind(capabilities: &Value) -> bool {
    let commands = capabilities["executeCommandProvider"]["commands"].as_array();
    commands.is_some_and(|commands| commands.iter().any(|it| it == COMMAND))
}

/// Parameters of `workspace/executeCommand` that ask for the errors of syntax and of meaning of an open file.
pub(crate) fn requests(path: &Path) -> [Value; 2] {
    ["syntacticDiagnosticsSync", "semanticDiagnosticsSync"]
        .map(|name| json!({ "command": COMMAND, "arguments": [name, { "file": path }] }))
}

/// The diagnostics in an answer, as in the Language Server Protocol. `None`: it has no list of them, such as
/// `{"type": "noContent"}`.
pub(crate) fn diagnostics(answer: &Value) -> Option<Vec<Value>> {
    Some(answer["body"].as_array()?.iter().map(converted).collect())
}

/// Lines and columns are counted from 1 there.
fn converted(item: &Value) -> Value {
    let position = |at: &Value| {
        let from_zero = |number: &Value| number.as_u64().unwrap_or(1).saturating_sub(1);
        json!({ "line": from_zero(&at["line"]), "character": from_zero(&at["offset"]) })
    };
    let severity = match item["category"].as_str() {
        Some("error") | None => 1,
        Some("warning") => 2,
        Some("message") => 3,
        Some(_) => 4,
    };
    json!({
        "range": { "start": position(&item["start"]), "end": position(&item["end"]) },
        "severity": severity,
        "code": item["code"],
        "source": item["source"].as_str().unwrap_or("typescript"),
        "message": item["text"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_at_the_same_place() {
        let item = json!({
            "start": { "line": 3, "offset": 14 }, "end": { "line": 3, "offset": 19 },
            "text": "Type 'number' is not assignable to type 'string'.", "code": 2322, "category": "error",
        });
        let found = diagnostics(&json!({ "body": [item] })).unwrap().remove(0);
        let read: gen_lsp_types::Diagnostic = serde_json::from_value(found).unwrap();
        assert_eq!((read.range.start.line, read.range.start.character), (2, 13));
        assert_eq!((read.range.end.line, read.range.end.character), (2, 18));
        assert_eq!(read.severity, Some(gen_lsp_types::DiagnosticSeverity::Error));
        assert_eq!(diagnostics(&json!({ "type": "noContent" })), None);
        assert_eq!(read.source.as_deref(), Some("typescript"));
    }
}
