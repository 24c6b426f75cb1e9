//! Notifications of a server: diagnostics of files, and whether it is busy. Everything is bounded, and kept only
//! for files of the project.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gen_lsp_types::{Code, DiagnosticSeverity, Message, Position};
use leftfold_framing::clip;
use leftfold_json_rpc::{Handler, METHOD_NOT_FOUND, Reply};
use leftfold_tools::{Diagnostic, FileDiagnostics, Severity};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::places;

/// The most files whose diagnostics are kept, and diagnostics of one file.
const MAX_FILES: usize = 2_000;
const MAX_ITEMS: usize = 200;
/// Bytes kept of a text of a diagnostic.
const MAX_TEXT: usize = 4_000;
/// The most works that a server can be busy with, and bytes of the name of one.
const MAX_WORKS: usize = 1_000;
const MAX_TOKEN: usize = 200;

/// The diagnostics of a file as the server has them.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// The version of the text that they are for, if the server says so.
    version: Option<i64>,
    at: Instant,
    items: Vec<gen_lsp_types::Diagnostic>,
    errors: usize,
    rest: usize,
    includes: Includes,
}

/// The part of a server's diagnostics that an answer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Includes {
    /// Others are published, such as those of `cargo check`.
    Own,
    /// Those that the server publishes too, maybe late and of an older text.
    Published,
}

/// A version of a file that the server was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) version: i64,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
struct Known {
    /// By path: what the server has published, and what it has answered when it was asked.
    published: BTreeMap<PathBuf, Published>,
    pulled: BTreeMap<PathBuf, Published>,
    /// The works that have begun and not ended.
    works: BTreeSet<String>,
    /// Whether the server says that it is still reading the project.
    is_loading: bool,
    /// Its registrations for requests of diagnostics.
    pulls: BTreeSet<String>,
    last: Option<Instant>,
}

/// The notifications of a server so far.
#[derive(Debug)]
pub(crate) struct Notices {
    worktree: PathBuf,
    /// The root as the server asks for it, and its settings.
    root: PathBuf,
    settings: Value,
    known: Mutex<Known>,
    changes: watch::Sender<u64>,
}

impl Notices {
    pub(crate) fn new(worktree: &Path, root: &Path, settings: &Value) -> Self {
        Self {
            worktree: worktree.to_owned(),
            root: root.to_owned(),
            settings: settings.clone(),
            known: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        self.with(|known| {
            change(known);
            known.last = Some(Instant::now());
        });
        self.changes.send_modify(|count| *count += 1);
    }

    /// Changes whenever the server says something.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// When the server has last said something.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.with(|known| known.last)
    }

    /// Whether the server works on something, such as reading the project or checking it.
    pub(crate) fn is_busy(&self) -> bool {
        self.with(|known| known.is_loading || !known.works.is_empty())
    }

    /// Whether the server wants to be asked for diagnostics, besides what it has said at its start.
    pub(crate) fn pulls(&self) -> bool {
        self.with(|known| !known.pulls.is_empty())
    }

    /// Keeps the answer to a request for diagnostics of the version that was sent.
    pub(crate) fn pulled(&self, path: &Path, version: i64, items: &Value, includes: Includes) {
        let found = Published { includes, ..read(items, Some(version)) };
        self.change(|known| keep(&mut known.pulled, path, found));
    }

    pub(crate) fn forget(&self, path: &Path) {
        self.with(|known| {
            known.published.remove(path);
            known.pulled.remove(path);
        });
    }

    /// The diagnostics of the version of a file that was sent. `None`: the server has none yet.
    pub(crate) fn for_file(&self, path: &Path, sent: Sent, text: &str) -> Option<FileDiagnostics> {
        let fits = |published: &&Published| match published.version {
            Some(version) => version == sent.version,
            None => published.at >= sent.at,
        };
        let (published, pulled) = self.with(|known| {
            let pulled = known.pulled.get(path).filter(fits).cloned();
            let is_all = pulled.as_ref().is_some_and(|it| it.includes == Includes::Published);
            let published = known.published.get(path).filter(|it| !is_all && fits(it));
            (published.cloned(), pulled)
        });
        let lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
        let mut found: Option<FileDiagnostics> = None;
        for part in [published, pulled].into_iter().flatten() {
            let file = found.get_or_insert_with(|| FileDiagnostics {
                path: path.to_owned(),
                ..FileDiagnostics::default()
            });
            let mut twice = [0, 0];
            for item in part.items.iter().map(|item| diagnostic(item, &lines)) {
                if file.items.contains(&item) {
                    twice[usize::from(item.severity != Severity::Error)] += 1;
                } else {
                    file.items.push(item);
                }
            }
            file.errors += part.errors - twice[0];
            file.rest += part.rest - twice[1];
        }
        if let Some(file) = &mut found {
            file.items.sort_by_key(|item| (item.severity, item.range));
        }
        found
    }

    /// Whether there are diagnostics of the version that was sent.
    pub(crate) fn has(&self, path: &Path, sent: Sent, is_pulled: bool) -> bool {
        self.with(|known| match is_pulled {
            true => known.pulled.get(path).is_some_and(|it| it.version == Some(sent.version)),
            false => known.published.get(path).is_some_and(|it| match it.version {
                Some(version) => version == sent.version,
                None => it.at >= sent.at,
            }),
        })
    }

    /// The files with errors, and how many each has.
    pub(crate) fn with_errors(&self) -> Vec<(PathBuf, usize)> {
        self.with(|known| {
            let with_errors = known.published.iter().filter(|(_, it)| it.errors > 0);
            with_errors.map(|(path, it)| (path.clone(), it.errors)).collect()
        })
    }

    fn published(&self, params: &Value) {
        let Some(path) = params["uri"].as_str().and_then(places::path) else { return };
        if !path.starts_with(&self.worktree) {
            return;
        }
        let found = read(&params["diagnostics"], params["version"].as_i64());
        self.change(|known| keep(&mut known.published, &path, found));
    }

    fn progressed(&self, params: &Value) {
        let token = &params["token"];
        let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
        let token = clip(token, MAX_TOKEN);
        self.change(|known| match params["value"]["kind"].as_str() {
            Some("begin") if known.works.len() < MAX_WORKS => {
                known.works.insert(token);
            }
            Some("end") => {
                known.works.remove(&token);
            }
            _ => {}
        });
    }

    /// The values of these parts of the settings.
    fn settings(&self, params: &Value) -> Value {
        let items = params["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let value = |item: &Value| {
            let section = item["section"].as_str().unwrap_or_default();
            let steps = section.split('.').filter(|step| !step.is_empty());
            steps.fold(self.settings.clone(), |value, step| {
                value.get(step).cloned().unwrap_or_default()
            })
        };
        items.iter().take(MAX_ITEMS).map(value).collect()
    }

    fn registered(&self, params: &Value, list: &str, is_on: bool) {
        let items = params[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_diagnostics =
            items.iter().filter(|item| item["method"] == "textDocument/diagnostic");
        for item in of_diagnostics {
            let id = clip(item["id"].to_string(), MAX_TOKEN);
            self.change(|known| match is_on {
                true if known.pulls.len() < MAX_WORKS => drop(known.pulls.insert(id)),
                true => {}
                false => drop(known.pulls.remove(&id)),
            });
        }
    }
}

impl Handler for Notices {
    fn notification(&self, method: &str, params: Value) {
        match method {
            "textDocument/publishDiagnostics" => self.published(&params),
            "$/progress" => self.progressed(&params),
            // of rust-analyzer
            "experimental/serverStatus" => {
                let is_loading = params["quiescent"] == json!(false);
                self.change(|known| known.is_loading = is_loading);
            }
            _ => {}
        }
    }

    fn request(&self, method: &str, params: Value, reply: Reply) {
        let root = || json!([{ "uri": places::uri(&self.root), "name": "workspace" }]);
        reply.send(match method {
            "workspace/configuration" => Ok(self.settings(&params)),
            "workspace/workspaceFolders" => Ok(root()),
            "client/registerCapability" => {
                self.registered(&params, "registrations", true);
                Ok(Value::Null)
            }
            "client/unregisterCapability" => {
                // the protocol has this spelling
                self.registered(&params, "unregisterations", false);
                Ok(Value::Null)
            }
            "window/workDoneProgress/create" | "workspace/diagnostic/refresh" => Ok(Value::Null),
            // a server changes no file
            "workspace/applyEdit" => Ok(json!({ "applied": false })),
            "window/showMessageRequest" => Ok(Value::Null),
            _ => Err((METHOD_NOT_FOUND, "this client does not have the method".to_owned())),
        });
    }
}

fn keep(files: &mut BTreeMap<PathBuf, Published>, path: &Path, found: Published) {
    if files.len() >= MAX_FILES && !files.contains_key(path) {
        let oldest = files.iter().min_by_key(|(_, it)| it.at).map(|(path, _)| path.clone());
        oldest.map(|path| files.remove(&path));
    }
    files.insert(path.to_owned(), found);
}

/// Reads a list of diagnostics. One that is not valid is left out.
fn read(items: &Value, version: Option<i64>) -> Published {
    let mut published = Published {
        version,
        at: Instant::now(),
        items: Vec::new(),
        errors: 0,
        rest: 0,
        includes: Includes::Own,
    };
    let all = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut milder = Vec::new();
    for item in all {
        let Ok(mut item) = gen_lsp_types::Diagnostic::deserialize(item) else { continue };
        item.related_information = None;
        item.data = None;
        item.code_description = None;
        match &mut item.message {
            Message::String(text) => *text = clip(std::mem::take(text), MAX_TEXT),
            Message::MarkupContent(content) => {
                content.value = clip(std::mem::take(&mut content.value), MAX_TEXT);
            }
        }
        item.source = item.source.map(|source| clip(source, MAX_TEXT));
        if severity(&item) == Severity::Error {
            published.errors += 1;
            if published.items.len() < MAX_ITEMS {
                published.items.push(item);
            }
        } else {
            published.rest += 1;
            if milder.len() < MAX_ITEMS {
                milder.push(item);
            }
        }
    }
    let room = MAX_ITEMS - published.items.len();
    published.items.extend(milder.into_iter().take(room));
    published
}

/// A diagnostic without a severity is an error, as clients have it.
fn severity(item: &gen_lsp_types::Diagnostic) -> Severity {
    match item.severity {
        None | Some(DiagnosticSeverity::Error) => Severity::Error,
        Some(DiagnosticSeverity::Warning) => Severity::Warning,
        Some(DiagnosticSeverity::Information) => Severity::Information,
        Some(DiagnosticSeverity::Hint | DiagnosticSeverity::Custom(_)) => Severity::Hint,
    }
}

fn diagnostic(item: &gen_lsp_types::Diagnostic, lines: &[&str]) -> Diagnostic {
    let at = |position: Position| places::within(lines, position.line, position.character);
    let (line, start, column) = at(item.range.start);
    let (end_line, end, _) = at(item.range.end);
    Diagnostic {
        range: [(line, start), (end_line, end).max((line, start))],
        column,
        severity: severity(item),
        message: match &item.message {
            Message::String(text) => text.clone(),
            Message::MarkupContent(content) => content.value.clone(),
        },
        source: item.source.clone(),
        code: item.code.as_ref().map(|code| match code {
            Code::Int(code) => code.to_string(),
            Code::String(code) => clip(code.clone(), MAX_TOKEN),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(line: u32, severity: u32, message: &str) -> Value {
        json!({
            "range": { "start": { "line": line, "character": 1 }, "end": { "line": line, "character": 9 } },
            "severity": severity, "message": message, "source": "stub", "code": 7,
        })
    }

    fn notices() -> Notices {
        Notices::new(Path::new("/p"), Path::new("/p"), &json!({ "a": { "b": 1 } }))
    }

    fn publish(notices: &Notices, path: &str, version: Option<i64>, items: &[Value]) {
        let params =
            json!({ "uri": format!("file://{path}"), "version": version, "diagnostics": items });
        notices.notification("textDocument/publishDiagnostics", params);
    }

    const TEXT: &str = "one\ntwo\n";

    #[test]
    fn only_the_diagnostics_of_the_version_that_was_sent_count() {
        let (notices, path) = (notices(), Path::new("/p/a"));
        let sent = Sent { version: 2, at: Instant::now() };
        let found = || notices.for_file(path, sent, TEXT).map(|file| file.errors);
        assert_eq!(found(), None);
        publish(&notices, "/p/a", Some(1), &[item(0, 1, "old")]);
        assert_eq!(found(), None);
        publish(&notices, "/p/a", Some(2), &[item(0, 1, "new"), item(0, 2, "mild")]);
        assert_eq!((found(), notices.has(path, sent, false)), (Some(1), true));
        publish(&notices, "/p/a", None, &[]);
        assert_eq!(found(), Some(0));
        let later = Sent { version: 3, at: Instant::now() };
        assert_eq!(notices.for_file(path, later, TEXT), None, "it is older than the text");
        notices.pulled(path, 3, &json!([item(1, 1, "asked")]), Includes::Own);
        assert!(notices.has(path, later, true) && !notices.has(path, later, false));
        assert_eq!(notices.for_file(path, later, TEXT).unwrap().errors, 1);
        notices.forget(path);
        assert_eq!(notices.for_file(path, later, TEXT), None);
    }

    #[test]
    fn what_a_server_publishes_and_answers_is_joined() {
        let (notices, path) = (notices(), Path::new("/p/a"));
        let sent = Sent { version: 1, at: Instant::now() };
        publish(&notices, "/p/a", Some(1), &[item(1, 1, "both"), item(0, 2, "mild")]);
        let pulled = json!([item(1, 1, "both"), item(0, 1, "first")]);
        notices.pulled(path, 1, &pulled, Includes::Own);
        let found = notices.for_file(path, sent, TEXT).unwrap();
        let messages: Vec<&str> = found.items.iter().map(|item| item.message.as_str()).collect();
        assert_eq!(messages, ["first", "both", "mild"]);
        assert_eq!((found.errors, found.rest), (2, 1));
        notices.pulled(path, 1, &json!([item(0, 1, "all")]), Includes::Published);
        assert_eq!(notices.for_file(path, sent, TEXT).unwrap().items.len(), 1);
    }

    #[test]
    fn lies_are_bounded() {
        let (notices, path) = (notices(), Path::new("/p/a"));
        let sent = Sent { version: 1, at: Instant::now() };
        for uri in ["/etc/passwd", "/p/../etc/x", "/px/a"] {
            publish(&notices, uri, Some(1), &[item(0, 1, "outside")]);
        }
        assert_eq!(notices.with_errors(), []);
        let mut items: Vec<Value> =
            (0..1_000).map(|_| item(u32::MAX, 1, &"x".repeat(9_000))).collect();
        items.extend([json!(null), json!({ "message": 1 }), item(0, 77, "odd")]);
        publish(&notices, "/p/a", Some(1), &items);
        let found = notices.for_file(path, sent, TEXT).unwrap();
        assert_eq!((found.errors, found.rest), (1_000 - 199, 1), "equal ones count once");
        assert_eq!(found.items[0].range, [(2, 0), (2, 0)], "it is moved into the file");
        assert!(found.items[0].message.len() < 5_000);
        for at in 0..3_000 {
            publish(&notices, &format!("/p/{at}"), None, &[item(0, 1, "many")]);
        }
        assert_eq!(notices.with_errors().len(), MAX_FILES);
        for at in 0..3_000 {
            let params = json!({ "token": at, "value": { "kind": "begin" } });
            notices.notification("$/progress", params);
        }
        assert!(notices.is_busy());
        assert_eq!(notices.with(|known| known.works.len()), MAX_WORKS);
        notices.notification("textDocument/publishDiagnostics", json!([]));
        notices.notification("$/progress", Value::Null);
    }

    #[test]
    fn work_begins_and_ends() {
        let notices = notices();
        let progress = |kind: &str| {
            notices.notification("$/progress", json!({ "token": "t", "value": { "kind": kind } }));
        };
        for (kind, is_busy) in [("begin", true), ("report", true), ("end", false)] {
            progress(kind);
            assert_eq!(notices.is_busy(), is_busy, "{kind}");
        }
        for quiescent in [false, true] {
            notices.notification("experimental/serverStatus", json!({ "quiescent": quiescent }));
            assert_eq!(notices.is_busy(), !quiescent);
        }
        // a server may register anew before it takes the first registration back
        for (list, id, is_on, pulls) in [
            ("registrations", "1", true, true),
            ("registrations", "2", true, true),
            ("unregisterations", "1", false, true),
            ("unregisterations", "2", false, false),
        ] {
            let item = json!({ "id": id, "method": "textDocument/diagnostic" });
            notices.registered(&json!({ list: [item] }), list, is_on);
            assert_eq!(notices.pulls(), pulls, "{list} {id}");
        }
        let asked = json!({ "items": [{ "section": "a.b" }, { "section": "x" }, {}] });
        assert_eq!(notices.settings(&asked), json!([1, null, { "a": { "b": 1 } }]));
    }
}
