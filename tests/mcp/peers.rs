//! MCP with third-party programs (`tests/peers/`): the official conformance suite, and popular
//! servers.

use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use common::peers::Peers;
use common::{Live, Site, all, call, end, mcp, only, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Scenarios that the suite also runs, for protocol versions other than this one.
const UNSCORED: &str = "Not scored for";

/// The latest version of the protocol that has `initialize`.
const REQUIREMENTS: &str = "2025-11-25";

/// Milliseconds for each scenario: they all run at once.
const SCENARIO_TIMEOUT: &str = "120000";

/// Runs the suite. Returns its output.
fn suite(peers: &Peers, site: &Site, which: &[&str]) -> String {
    let mut running = peers.command("conformance");
    let probe = format!("{} mcp probe", env!("CARGO_BIN_EXE_leftfold"));
    running.args(["client", "--command", &probe, "--timeout", SCENARIO_TIMEOUT]).args(which);
    running.current_dir(site.project()).env("LEFTFOLD_HOME", site.path("home"));
    running.env("HOME", site.path("user")).env("XDG_CONFIG_HOME", site.path("config"));
    let output = running.output().unwrap();
    let words = [output.stdout, output.stderr];
    words.map(|words| String::from_utf8_lossy(&words).into_owned()).concat()
}

#[test]
fn the_conformance_suite_is_content() {
    let Some(peers) = Peers::installed() else { return };
    let site = Site::bare();
    let said = suite(&peers, &site, &["--requirements", REQUIREMENTS]);
    let scenario = |line: &str| {
        let (mark, rest) = line.split_once(' ')?;
        let (name, counts) = rest.split_once(": ")?;
        let fine = mark == "✓" && !counts.contains("warnings");
        counts.contains(" passed").then(|| (name.to_owned(), fine))
    };
    let (scored, rest) = said.split_once(UNSCORED).unwrap_or_else(|| panic!("{said}"));
    let extra: Vec<&str> = rest.lines().filter_map(|line| line.trim().split(' ').nth(1)).collect();
    let scored: Vec<(String, bool)> = scored
        .lines()
        .filter_map(scenario)
        .filter(|(name, _)| !extra.contains(&name.as_str()))
        .collect();
    assert_eq!(scored.len(), 18, "{said}");
    for (name, fine) in &scored {
        // the suite times all streams of a client as one, so this needs a quiet machine
        let again = |name: &str| {
            let alone = suite(&peers, &site, &["--scenario", name]);
            alone.contains("0 failed, 0 warnings")
        };
        assert!(*fine || (name == "sse-retry" && (0..3).any(|_| again(name))), "{name}: {said}");
    }
    let summary = said.lines().find(|line| line.starts_with("Total: ")).unwrap();
    eprintln!(
        "conformance {REQUIREMENTS}: {} of {} scenarios; {summary}",
        scored.len(),
        scored.len()
    );
}

/// A site with this server as `s`, and a model that makes these calls, one a step.
fn site(server: &Value, calls: &[(&str, Value)]) -> Site {
    let mut replies: Vec<Value> = calls.iter().map(|(name, input)| call(name, input)).collect();
    replies.push(says("So be it."));
    let site = Site::scripted(&script(json!(replies)));
    site.setting("/mcp", json!({ "s": server })).setting("/permission", json!("allow"))
}

fn local(peers: &Peers, command: &str, arguments: &[&str]) -> Value {
    let script = peers.script(command);
    let program = [peers.node().to_str().unwrap(), script.to_str().unwrap()];
    let command = [&program[..], arguments].concat();
    json!({ "command": command, "timeout": 60_000 })
}

/// The server's tools, by the names that models use.
fn listed(site: &Site) -> Vec<String> {
    let ran = site.run(&["mcp", "--format", "json"]).ok();
    let server: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    assert_eq!(server["status"], "connected", "{server}");
    let tools = server["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The results of a turn's calls. Checks that no process of the server is left.
fn results(live: Live) -> Vec<String> {
    let node = live.id();
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "So be it.");
    assert_eq!(mcp::servers_of(node), [0; 0]);
    let finished = all(&events, "tool.finished");
    let output = |event: &&Value| event["data"]["output"].as_str().unwrap().to_owned();
    finished.iter().map(output).collect()
}

fn go(site: &Site) -> Live {
    site.start(&["run", "--format", "json", "go"])
}

/// Calls of the server `everything`, and their expected results.
fn everything() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("s_echo", json!({ "message": "hello" }), "Echo: hello"),
        ("s_get-sum", json!({ "a": 2, "b": 3 }), "The sum of 2 and 3 is 5."),
        ("s_get-tiny-image", json!({}), "image"),
        ("s_get-structured-content", json!({ "location": "New York" }), "temperature"),
        ("s_list_resources", json!({}), "demo://resource/static/document/features.md"),
        (
            "s_read_resource",
            json!({ "uri": "demo://resource/static/document/features.md" }),
            "# Everything Server - Features",
        ),
    ]
}

fn assert_everything(server: &Value) {
    let calls: Vec<(&str, Value)> =
        everything().into_iter().map(|(name, input, _)| (name, input)).collect();
    let site = site(server, &calls);
    let tools = listed(&site);
    for (name, ..) in everything() {
        assert!(tools.iter().any(|tool| tool == name), "no {name} in {tools:?}");
    }
    let results = results(go(&site));
    for (said, (name, _, expected)) in results.iter().zip(everything()) {
        assert!(said.contains(expected), "{name}: {said}");
    }
    assert_eq!(results.len(), everything().len());
    site.assert_sound();
    let events = site.run(&["run", "--format", "json", "/s:args-prompt Rome"]).ok().events();
    let prompted = &only(&events, "turn.prompted")["data"]["parts"][0]["text"];
    assert_eq!(prompted, "What's weather in Rome?");
    assert_cancelled(server);
}

/// Cancels a running call by ending its turn.
fn assert_cancelled(server: &Value) {
    let long = json!({ "duration": 3_000, "steps": 6_000 });
    let site = site(server, &[("s_trigger-long-running-operation", long)]);
    let mut live = go(&site);
    let node = live.id();
    live.until("tool.progressed");
    live.signal(Signal::INT);
    let events = live.wait().with(130).events();
    assert_eq!(end(&events)["reason"], "aborted");
    assert_eq!(mcp::servers_of(node), [0; 0]);
    site.assert_sound();
}

#[test]
fn a_server_of_everything_over_stdio() {
    let Some(peers) = Peers::installed() else { return };
    assert_everything(&local(&peers, "mcp-server-everything", &["stdio"]));
}

/// A server over HTTP. Dropping the value ends it.
struct Http {
    child: Child,
    port: u16,
}

impl Http {
    fn start(peers: &Peers, kind: &str) -> Self {
        // another program may take the port meanwhile
        (0..10).find_map(|_| Self::on_some_port(peers, kind)).expect("no port was free")
    }

    fn on_some_port(peers: &Peers, kind: &str) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut serving: Command = peers.command("mcp-server-everything");
        serving.arg(kind).env("PORT", port.to_string());
        let mut child = serving.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let up = lines.by_ref().find(|line| line.contains(" on port ") || line.contains("in use"));
        // one of the servers reports success even if it cannot listen
        let there = || TcpStream::connect(("localhost", port)).is_ok();
        let up = up.is_some_and(|line| line.contains(" on port ")) && there();
        if !up || child.try_wait().unwrap().is_some() {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        // an unread pipe would block its writer for ever
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, port })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_of_everything_over_http() {
    let Some(peers) = Peers::installed() else { return };
    let http = Http::start(&peers, "streamableHttp");
    let url = format!("http://localhost:{}/mcp", http.port);
    assert_everything(&json!({ "type": "remote", "url": url, "timeout": 60_000 }));
}

#[test]
fn a_server_of_everything_as_older_ones_speak() {
    let Some(peers) = Peers::installed() else { return };
    let http = Http::start(&peers, "sse");
    let url = format!("http://localhost:{}/sse", http.port);
    assert_everything(&json!({ "type": "remote", "url": url, "timeout": 60_000 }));
}

#[test]
fn a_server_of_files() {
    let Some(peers) = Peers::installed() else { return };
    // it asks for roots, and these take the place of the folder that its command names
    let bare = Site::bare();
    let mut server = local(&peers, "mcp-server-filesystem", &[bare.project().to_str().unwrap()]);
    server["cwd"] = json!("{project}");
    // the server looks at the folders of the roots while it serves calls already: these wait for its file system in turn
    let named = json!({ "path": bare.project() });
    let calls = [
        ("s_get_file_info", named.clone()),
        ("s_list_directory", named.clone()),
        ("s_directory_tree", named.clone()),
        ("s_list_directory_with_sizes", named),
        ("s_write_file", json!({ "path": "a.txt", "content": "one\n" })),
        ("s_read_text_file", json!({ "path": "a.txt" })),
        ("s_list_directory", json!({ "path": "." })),
        ("s_read_text_file", json!({ "path": "/etc/hostname" })),
    ];
    let site = site(&server, &calls);
    assert!(listed(&site).iter().any(|tool| tool == "s_edit_file"));
    let results = results(go(&site));
    let results = &results[4..];
    assert_eq!(site.text("a.txt"), "one\n", "{results:?}");
    assert_eq!(results[1], "one\n");
    assert!(results[2].contains("[FILE] a.txt"), "{results:?}");
    assert!(results[3].contains("Access denied"), "{results:?}");
    site.assert_sound();
}

#[test]
fn a_server_that_remembers() {
    let Some(peers) = Peers::installed() else { return };
    let entity =
        json!({ "name": "Leftfold", "entityType": "program", "observations": ["it folds"] });
    let calls = [
        ("s_create_entities", json!({ "entities": [entity] })),
        ("s_search_nodes", json!({ "query": "folds" })),
    ];
    let bare = Site::bare();
    let memory = bare.path("memory.jsonl");
    let mut server = local(&peers, "mcp-server-memory", &[]);
    server["environment"] = json!({ "MEMORY_FILE_PATH": memory });
    let site = site(&server, &calls);
    assert!(listed(&site).iter().any(|tool| tool == "s_read_graph"));
    let results = results(go(&site));
    assert!(results[1].contains("it folds"), "{results:?}");
    wait_until("it is written", || {
        std::fs::read_to_string(&memory).is_ok_and(|t| t.contains("it folds"))
    });
    site.assert_sound();
}
