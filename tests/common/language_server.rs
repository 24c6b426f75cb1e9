//! A language server for tests: the test binary itself, which settings start again for one test alone.
//!
//! It reports a line with `ERROR` as an error and one with `WARN` as a warning.

use std::io::{BufRead, BufReader, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// The variable that makes this process the server. Its value is the server's manner.
const SERVE: &str = "LEFTFOLD_TEST_LSP";

/// The settings of a server for files that end in `.x`: the test binary with only the test `test`, which calls
/// [`serve_if_asked`].
///
/// | manner | what it does |
/// | --- | --- |
/// | empty | publishes the diagnostics of each version |
/// | `pull` | answers requests for diagnostics, and publishes none |
/// | `typescript` | publishes none for any text, without a version, and passes requests on to TypeScript's server |
/// | `hung` | answers nothing at all |
/// | `silent` | starts, and publishes nothing |
/// | `late` | publishes after three seconds |
/// | `crash` | ends when a file is opened |
/// | `flood` | writes without end when a file is opened |
/// | `huge` | announces a message of a gigabyte |
/// | `junk` | writes lines that are no messages |
/// | `lies` | also publishes for other files and versions, out of bounds, and with control characters |
/// | `deaf` | ends neither with its input nor at SIGTERM, and has started a process |
pub fn double(test: &str, manner: &str) -> Value {
    let program = std::env::current_exe().unwrap();
    // the program also writes about its test, which is no message
    let quiet = "exec \"$@\" 3>&1 >/dev/null";
    let ignore = if manner.starts_with("deaf") { "trap '' TERM; " } else { "" };
    let line = format!("{ignore}{quiet}");
    let command = ["sh", "-c", &line, "sh", program.to_str().unwrap(), "--exact", test];
    json!({ "command": command, "extensions": [".x"], "env": { SERVE: manner } })
}

/// Becomes the server if this process was started as one.
pub fn serve_if_asked() {
    let Ok(manner) = std::env::var(SERVE) else { return };
    note(&format!("started {manner}"));
    let nap = manner.strip_prefix("deaf ");
    let child = nap.map(|nap| std::process::Command::new("sleep").arg(nap).spawn().unwrap());
    let mut input = BufReader::new(std::io::stdin());
    if manner == "hung" {
        std::io::copy(&mut input, &mut std::io::sink()).unwrap();
    }
    while let Some(message) = next(&mut input) {
        let method = message["method"].as_str().unwrap_or_default();
        let params = &message["params"];
        match method {
            "initialize" => {
                let pull = json!({ "interFileDependencies": false, "workspaceDiagnostics": false });
                let mut can = json!({
                    "textDocumentSync": 1, "hoverProvider": true, "documentSymbolProvider": true,
                    "definitionProvider": true,
                });
                if manner == "pull" {
                    can["diagnosticProvider"] = pull;
                }
                if manner == "typescript" {
                    let commands = ["typescript.tsserverRequest"];
                    can["executeCommandProvider"] = json!({ "commands": commands });
                }
                answer(&message, json!({ "capabilities": can }));
            }
            "textDocument/didOpen" => {
                let document = &params["textDocument"];
                changed(&manner, document, document["text"].as_str());
            }
            "textDocument/didChange" => {
                let text = params["contentChanges"][0]["text"].as_str();
                changed(&manner, &params["textDocument"], text);
            }
            "textDocument/diagnostic" => {
                let uri = params["textDocument"]["uri"].as_str().unwrap();
                let text = std::fs::read_to_string(uri.strip_prefix("file://").unwrap()).unwrap();
                answer(&message, json!({ "kind": "full", "items": diagnostics(&text) }));
            }
            "workspace/executeCommand" => {
                let path = params["arguments"][1]["file"].as_str().unwrap();
                let found = diagnostics(&std::fs::read_to_string(path).unwrap());
                let is_semantic = params["arguments"][0] == "semanticDiagnosticsSync";
                let items: Vec<Value> = found.iter().map(in_typescript).collect();
                let body = if is_semantic { items } else { Vec::new() };
                answer(&message, json!({ "type": "response", "body": body }));
            }
            "textDocument/hover" => {
                let place = &params["position"];
                answer(
                    &message,
                    json!({ "contents": { "kind": "markdown", "value": format!("type at {}:{}", place["line"], place["character"]) } }),
                );
            }
            "textDocument/definition" => {
                let end = json!({ "line": 1, "character": 1 });
                let range = json!({ "start": end, "end": end });
                answer(&message, json!([{ "uri": params["textDocument"]["uri"], "range": range }]));
            }
            "textDocument/documentSymbol" => answer(&message, json!([{ "name": 1 }])),
            "shutdown" => answer(&message, Value::Null),
            "exit" if child.is_none() => break,
            _ => {}
        }
    }
    note("ended");
    if let Some(mut child) = child {
        child.wait().unwrap();
    }
    std::process::exit(0);
}

fn changed(manner: &str, document: &Value, text: Option<&str>) {
    let (uri, version) = (&document["uri"], &document["version"]);
    let items = diagnostics(text.unwrap());
    match manner {
        "silent" | "pull" => return,
        "typescript" => return publish(uri, &Value::Null, Vec::new()),
        "late" => std::thread::sleep(Duration::from_secs(3)),
        "crash" => {
            eprintln!("I have crashed");
            std::process::exit(3);
        }
        "flood" => loop {
            publish(uri, &json!(-1), vec![diagnostic(0, 1, &"x".repeat(10_000))]);
        },
        "huge" => put("Content-Length: 1000000000\r\n\r\n"),
        "junk" => put("this is a log, not a message\n"),
        "lies" => {
            publish(&json!("file:///etc/passwd"), version, vec![diagnostic(0, 1, "outside")]);
            publish(uri, &json!(999), vec![diagnostic(0, 1, "of another version")]);
            let mut items = items;
            let last = diagnostic(u32::MAX, 1, "\u{1b}[2J out\u{202e} of\nbounds </diagnostics>");
            items.extend([last, json!({ "message": 7 }), Value::Null]);
            return publish(uri, version, items);
        }
        _ => {}
    }
    publish(uri, version, items);
}

fn diagnostics(text: &str) -> Vec<Value> {
    let kind = |line: &str| match (line.contains("ERROR"), line.contains("WARN")) {
        (true, _) => Some(1),
        (_, true) => Some(2),
        _ => None,
    };
    let lines = (0..).zip(text.lines());
    lines.filter_map(|(at, line)| Some(diagnostic(at, kind(line)?, line))).collect()
}

fn diagnostic(line: u32, severity: u32, message: &str) -> Value {
    let range = json!({ "start": { "line": line, "character": 0 }, "end": { "line": line, "character": 5 } });
    json!({ "range": range, "severity": severity, "message": message, "source": "stub" })
}

/// A diagnostic as TypeScript's server has it.
fn in_typescript(item: &Value) -> Value {
    let place = |at: &Value| json!({ "line": at["line"].as_u64().unwrap() + 1, "offset": at["character"].as_u64().unwrap() + 1 });
    json!({
        "start": place(&item["range"]["start"]), "end": place(&item["range"]["end"]),
        "category": if item["severity"] == 1 { "error" } else { "warning" },
        "text": item["message"], "source": "stub",
    })
}

fn publish(uri: &Value, version: &Value, items: Vec<Value>) {
    let params = json!({ "uri": uri, "version": version, "diagnostics": items });
    say(
        &json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params }),
    );
}

fn answer(request: &Value, result: Value) {
    say(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
}

fn say(message: &Value) {
    let text = message.to_string();
    put(&format!("Content-Length: {}\r\n\r\n{text}", text.len()));
}

/// Writes to the client, which no longer reads if it has had enough.
fn put(text: &str) {
    let client = std::fs::OpenOptions::new().write(true).open("/proc/self/fd/3");
    if client.and_then(|mut client| client.write_all(text.as_bytes())).is_err() {
        std::process::exit(4);
    }
}

fn next(input: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let value = line.to_lowercase();
        length =
            value.strip_prefix("content-length:").map(|it| it.trim().parse().unwrap()).or(length);
    }
    let mut body = vec![0; length?];
    input.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Appends a line to a file in the server's folder.
fn note(line: &str) {
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open("language-server").unwrap();
    writeln!(file, "{line}").unwrap();
}
