//! OpenCode's own clients on the server: the SDK in both versions, `run --attach`, and `attach` on a
//! pseudo-terminal. Skipped if npm cannot install them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::peers::Peers;
use common::{Live, Ran, Site, Terminal, script};
use serde_json::{Value, json};

use crate::client::Served;
use crate::proxy::Proxy;

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const TAB: &str = "\t";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const CTRL_D: &str = "\x04";
const CTRL_U: &str = "\x15";
/// Columns at which the terminal shows its sidebar.
const WIDE: u16 = 140;

/// A reply to a prompt. With `result`, after a call whose output contains it.
fn reply(prompt: &str, result: Option<&str>, parts: Value) -> Value {
    let mut condition = json!({ "prompt": prompt });
    if let Some(result) = result {
        condition["result"] = result.into();
    }
    json!({ "match": condition, "parts": parts })
}

fn text(text: &str) -> Value {
    json!([{ "text": text }])
}

fn call(name: &str, input: Value) -> Value {
    json!([{ "call": { "name": name, "input": input } }])
}

/// A project, and a model that knows one answer to each prompt of these tests. Commands and edits
/// need permission.
pub(crate) fn site() -> Site {
    let bash = |command: &str| call("bash", json!({ "command": command }));
    let question = json!({ "questions": [{
        "question": "Which colour?",
        "header": "Colour",
        "options": [
            { "label": "Red", "description": "warm" },
            { "label": "Blue", "description": "cold" },
        ],
    }] });
    let todos = json!({ "todos": [
        { "content": "first thing", "status": "in_progress", "priority": "high" },
        { "content": "second thing", "status": "pending", "priority": "low" },
    ] });
    let task = json!({ "description": "Look", "prompt": "look around", "subagentType": "general" });
    let edit = json!({ "filePath": "known.txt", "oldString": "beta", "newString": "gamma" });
    let write = json!({ "filePath": "undo.txt", "content": "two\n" });
    let mut hello = reply("say hello", None, text("Hello from the model, in several pieces."));
    (hello["chunk"], hello["delay_ms"]) = (json!(8), json!(60));
    let half = json!({ "match": { "prompt": "say half" }, "parts": [{ "text": "Half an answer" }, { "stall": true }] });
    let summary = json!({
        "match": { "purpose": "compaction" }, "parts": text("Everything so far went well."),
    });
    let replies = json!([
        summary,
        hello,
        half,
        reply("run it", Some("ran-one"), text("It ran.")),
        reply("run it", None, bash("echo ran-one")),
        reply("run two", Some("ran-two"), text("It ran too.")),
        reply("run two", None, bash("echo ran-two")),
        reply("run three", Some("ran-three"), text("It ran a third time.")),
        reply("run three", None, bash("printf ran-three")),
        reply("and once more", Some("one-more"), text("It ran once more.")),
        reply("and once more", None, bash("printf one-more")),
        reply("edit it", Some("known.txt"), text("It is edited.")),
        reply("edit it", None, call("edit", edit)),
        reply("change the other", Some("undo.txt"), text("It is changed.")),
        reply("change the other", None, call("write", write)),
        reply("ask me", Some("Blue"), text("You like blue.")),
        json!({ "match": { "prompt": "ask me", "answers": 1 }, "parts": text("Nobody is there.") }),
        reply("ask me", None, call("question", question)),
        reply("plan it", Some("first thing"), text("It is planned.")),
        reply("plan it", None, call("todowrite", todos.clone())),
        reply("look around", None, text("I looked around.")),
        reply("delegate", Some("I looked around"), text("It is delegated.")),
        reply("delegate", None, call("task", task)),
        reply("wait long", None, bash("sleep 60")),
        reply("wait with a plan", Some("first thing"), bash("sleep 60")),
        reply("wait with a plan", None, call("todowrite", todos)),
        reply("what did the shell say", None, text("It said so.")),
        reply("content of the file", None, text("I have read it.")),
        json!({ "match": { "prompt": "" }, "parts": text("Fine.") }),
    ]);
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!({ "*": "allow", "bash": "ask", "edit": "ask" }))
        .setting("/snapshot", json!(true))
        .setting(
            "/provider/double/models/n",
            json!({ "limit": { "context": 100_000, "output": 8_000 } }),
        )
        .setting(
            "/command",
            json!({ "greet": { "template": "say hello $ARGUMENTS", "description": "Greets" } }),
        )
        .setting(
            "/mcp",
            json!({ "off": { "type": "local", "command": ["nothing"], "enabled": false } }),
        );
    site.file("known.txt", "alpha\nbeta\n");
    site.file("read.txt", "content of the file\n");
    let git = Command::new("git").args(["init", "-q"]).current_dir(site.project()).status();
    assert!(git.unwrap().success());
    site
}

/// Runs the SDK's steps. Each must pass.
fn sdk(version: &str) {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let mut server = Served::start(&site);
    let port = server.port.to_string();
    let proxy = Proxy::to(server.port);
    let steps = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/opencode/sdk.mjs");
    let mut command = Command::new(peers.node());
    command.arg(steps).arg(peers.folder()).arg(version);
    command.arg(format!("http://127.0.0.1:{port}")).arg(site.project());
    command.arg(format!("http://127.0.0.1:{}", proxy.port));
    let mut client = Live::start({
        command.stdin(Stdio::piped());
        command
    });
    let mut input = client.input();
    let (mut passed, mut failed) = (Vec::new(), Vec::new());
    let mut is_done = false;
    while let Some(line) = client.line() {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        if said["restart"] == true {
            server.kill();
            server = Served::from_command(site.command(&["serve", "--port", &port]));
            std::io::Write::write_all(&mut input, b"go on\n").unwrap();
        } else if said["cut"] == true {
            proxy.cut_while_the_turn_ends(&server);
            std::io::Write::write_all(&mut input, b"go on\n").unwrap();
        } else if said["error"].is_string() {
            failed.push(said);
        } else {
            is_done |= said["done"] == true;
            passed.push(said["step"].clone());
        }
    }
    assert!(failed.is_empty() && is_done, "passed: {passed:?}\nfailed: {failed:#?}");
    server.end();
}

#[test]
fn the_first_version_of_the_sdk() {
    sdk("v1");
}

#[test]
fn the_second_version_of_the_sdk() {
    sdk("v2");
}

/// `opencode run --attach`.
fn run_attached(peers: &Peers, site: &Site, server: &Served, more: &[&str]) -> Ran {
    let url = format!("http://127.0.0.1:{}", server.port);
    let mut args = vec!["run", "--attach", &url, "--dir"];
    let project = site.project().display().to_string();
    args.push(&project);
    args.extend(more);
    let ran = Live::start(peers.run_opencode(site, &args)).wait();
    assert_eq!(ran.code, 0, "{more:?}: {ran:?}");
    ran
}

#[test]
fn run_attach() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let server = Served::start(&site);
    let run = |more: &[&str]| run_attached(&peers, &site, &server, more);

    let ran = run(&["say hello"]);
    assert!(ran.stdout.contains("Hello from the model, in several pieces."), "{ran:?}");
    // without --auto it rejects the call
    let ran = run(&["run it"]);
    assert!(!ran.stdout.contains("It ran.") && ran.stderr.contains("permission"), "{ran:?}");
    let ran = run(&["--auto", "run it"]);
    assert!(ran.stdout.contains("It ran.") && ran.stderr.contains("echo ran-one"), "{ran:?}");
    let ran = run(&[
        "--format", "json", "--continue", "--model", "double/n", "--agent", "plan", "say hello",
    ]);
    let events: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = events.iter().find(|event| event["type"] == "text").unwrap();
    assert_eq!(said["part"]["text"], "Hello from the model, in several pieces.");
    let session = said["sessionID"].as_str().unwrap();
    let messages = server.get(&format!("/session/{session}/message")).ok();
    let last = &messages.as_array().unwrap().last().unwrap()["info"];
    assert_eq!((&last["modelID"], &last["agent"]), (&json!("n"), &json!("plan")));
    assert!(messages.as_array().unwrap().len() > 3, "it goes on in the last session: {messages}");
    let sessions = server.sessions().len();
    run(&["--continue", "--fork", "say hello"]);
    assert_eq!(server.sessions().len(), sessions + 1);
    let ran = run(&["--auto", "--title", "Named", "edit it"]);
    assert!(ran.stdout.contains("It is edited.") && ran.stderr.contains("+gamma"), "{ran:?}");
    assert_eq!(site.text("known.txt"), "alpha\ngamma\n");
    let listed = server.get("/session").ok();
    assert!(listed.as_array().unwrap().iter().any(|known| known["title"] == "Named"), "{listed}");
    let ran = run(&["plan it"]);
    assert!(ran.stdout.contains("It is planned."), "{ran:?}");
    assert!(ran.stderr.contains("[•] first thing"), "{ran:?}");
    let ran = run(&["delegate"]);
    assert!(ran.stdout.contains("It is delegated."), "{ran:?}");
    assert!(ran.stderr.contains("General Agent"), "{ran:?}");
    let ran = run(&["--file", "read.txt", "--", "look at this"]);
    assert!(ran.stdout.contains("I have read it."), "{ran:?}");
    let ran = run(&["--command", "greet", "me"]);
    assert!(ran.stdout.contains("Hello from the model"), "{ran:?}");
    // it does not ask, and the model goes on
    let ran = run(&["ask me"]);
    assert!(ran.stdout.contains("Nobody is there."), "{ran:?}");
    // two at a time
    let others = ["say hello", "delegate"].map(|words| {
        let url = format!("http://127.0.0.1:{}", server.port);
        Live::start(peers.run_opencode(&site, &["run", "--attach", &url, words]))
    });
    let said = others.map(|other| other.wait().stdout);
    assert!(said[0].contains("Hello from") && said[1].contains("It is delegated."), "{said:?}");

    // a kill in the middle: the session goes on with the next server
    let url = format!("http://127.0.0.1:{}", server.port);
    let killed =
        Live::start(peers.run_opencode(&site, &["run", "--attach", &url, "--auto", "wait long"]));
    let is_busy = || !server.get("/session/status").ok().as_object().unwrap().is_empty();
    common::wait_until("it runs", is_busy);
    let cut_off = server.get("/session").ok()[0]["id"].as_str().unwrap().to_owned();
    let port = server.port.to_string();
    server.kill();
    let server = Served::from_command(site.command(&["serve", "--port", &port]));
    killed.signal(rustix::process::Signal::TERM);
    killed.wait();
    let ran = run_attached(&peers, &site, &server, &["--session", &cut_off, "say hello"]);
    assert!(ran.stdout.contains("Hello from the model"), "{ran:?}");
    let messages = server.get(&format!("/session/{cut_off}/message")).ok();
    assert_eq!(messages[1]["info"]["error"]["name"], "MessageAbortedError", "{messages}");
    server.end();
}

/// `opencode attach` on a terminal.
struct Attached {
    terminal: Terminal,
}

impl Attached {
    fn start(peers: &Peers, site: &Site, port: u16, more: &[&str]) -> Self {
        let url = format!("http://127.0.0.1:{port}");
        let command = peers.run_opencode(site, &[&["attach", &url], more].concat());
        let mut terminal = Terminal::start(command, WIDE).answering();
        terminal.until(if more.is_empty() { "Ask anything" } else { "Build ·" });
        Self { terminal }
    }

    /// Types a text. Keys of one read count as a paste.
    fn type_in(&mut self, text: &str) -> &mut Self {
        for part in text.split_inclusive(' ') {
            self.terminal.press(part);
            std::thread::sleep(Duration::from_millis(30));
        }
        self.until(text)
    }

    /// Types a line and sends it.
    fn send(&mut self, line: &str) -> &mut Self {
        self.type_in(line).press(ENTER)
    }

    /// Chooses a command of the menu that opens at a slash.
    fn command(&mut self, name: &str, described: &str) -> &mut Self {
        self.type_in(name).until(described).press(ENTER).until_gone(described)
    }

    fn until(&mut self, text: &str) -> &mut Self {
        self.terminal.until(text);
        self
    }

    fn until_gone(&mut self, text: &str) -> &mut Self {
        let gone = format!("`{text}` is gone");
        self.terminal.until_so(&gone, |screen| !screen.contents().contains(text));
        self
    }

    fn press(&mut self, keys: &str) -> &mut Self {
        self.terminal.press(keys);
        self
    }

    /// Deletes the session that is open.
    fn delete(&mut self) -> &mut Self {
        self.command("/sessions", "Switch session").until("delete ctrl+d").press(CTRL_D);
        self.until("again to confirm").press(CTRL_D)
    }

    /// Allows the call that the screen shows.
    fn allow(&mut self) -> &mut Self {
        self.until("Permission required").press(ENTER).until_gone("Permission required")
    }
}

/// The tools of a turn, as the terminal draws them.
#[test]
fn attach_shows_a_turn() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let server = Served::start(&site);
    let mut screen = Attached::start(&peers, &site, server.port, &[]);

    screen.send("say hello").until("Hello from the model, in several pieces.");
    screen.send("run it").until("Permission required").until("$ echo ran-one");
    screen.allow().until("It ran.");
    screen.send("edit it").until("Permission required").until("+ gamma").allow();
    screen.until("It is edited.").until("- beta").until("Modified Files");
    assert_eq!(site.text("known.txt"), "alpha\ngamma\n");
    screen.send("plan it").until("It is planned.").until("[•] first thing");
    screen.send("ask me").until("Which colour?").press("2").until("You like blue.");
    assert!(!screen.terminal.shown().contains("(no answer)"), "{}", screen.terminal.shown());
    screen.send("delegate").until("It is delegated.").until("General Task");
    // the session of the subagent, and back
    screen.press("\x18").press(DOWN).until("I looked around.").until("General (1 of 1)");
    screen.press(UP).until("It is delegated.");
    server.end();
}

/// The commands of the terminal.
#[test]
fn attach_changes_a_session() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    site.file("undo.txt", "one\n");
    let server = Served::start(&site);
    let mut screen = Attached::start(&peers, &site, server.port, &[]);

    screen.send("change the other").allow().until("It is changed.");
    screen.command("/undo", "Undo previous message").until("1 message reverted");
    assert_eq!(site.text("undo.txt"), "one\n");
    screen.press("\x18r").until_gone("1 message reverted").until("It is changed.");
    assert_eq!(site.text("undo.txt"), "two\n");

    screen.press("!").until("esc exit shell mode").send("echo shell-$((40+2))").until("shell-42");
    screen.type_in("look @read").until("read.txt").press(ENTER).until("look @read.txt");
    screen.press(ENTER).until("I have read it.");
    assert!(!screen.terminal.shown().contains("<file"), "{}", screen.terminal.shown());

    screen.press(TAB).until("Plan · m").send("say hello").until("▣  Plan · m").press(TAB);
    screen.until("Build · m").command("/models", "Switch model").until("Select model");
    screen.type_in("n").press(ENTER).until("Build · n").send("say hello").until("▣  Build · n");

    screen.command("/compact", "Compact session").until("Everything so far went well.");
    screen.command("/rename", "Rename session").until("Rename");
    screen.press(CTRL_U).type_in("Mine").press(ENTER);
    let listed = |server: &Served| server.get("/session").ok().as_array().unwrap().clone();
    common::wait_until("it is renamed", || {
        listed(&server).iter().any(|known| known["title"] == "Mine")
    });
    // the dialog has the name of the command
    screen.type_in("/fork").until("Fork session").press(ENTER).until("Full session").press(ENTER);
    common::wait_until("there is a fork", || listed(&server).len() == 2);
    // only a fork that is open has its number in the sidebar
    screen.until("Mine (fork #1)").delete();
    common::wait_until("the fork is deleted", || listed(&server).len() == 1);
    assert_eq!(listed(&server)[0]["title"], "Mine");
    server.end();
}

/// A connection that is cut while the turn goes on: the terminal connects again, and shows the end.
#[test]
fn attach_after_a_cut_connection() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let server = Served::start(&site);
    let proxy = Proxy::to(server.port);
    let mut screen = Attached::start(&peers, &site, proxy.port, &[]);
    screen.send("run two").until("Permission required").until("echo ran-two");
    proxy.cut_while_the_turn_ends(&server);
    screen.until_gone("Permission required").until("It ran too.");
    // it works on as before
    screen.send("say hello").until("Hello from the model, in several pieces.");
    server.end();
}

/// Two terminals, an interrupted turn, and a server that is killed.
#[test]
fn attach_together_and_again() {
    let Some(peers) = Peers::with_opencode() else { return };
    let site = site();
    let server = Served::start(&site);
    let port = server.port;
    let mut first = Attached::start(&peers, &site, port, &[]);
    first.send("wait long").allow().until("sleep 60").press(ESCAPE).until("again to interrupt");
    first.press(ESCAPE).until("interrupted");
    first.send("run it").until("Permission required");
    let session = server.get("/session").ok()[0]["id"].as_str().unwrap().to_owned();
    // the second one connects after the question
    let mut second = Attached::start(&peers, &site, port, &["--session", &session]);
    second.allow().until("It ran.");
    first.until_gone("Permission required").until("It ran.");

    first.send("run two").until("Permission required").until("echo ran-two");
    server.kill();
    let server = Served::from_command(site.command(&["serve", "--port", &port.to_string()]));
    // the terminals connect again by themselves
    first.allow().until("It ran too.");
    second.until("It ran too.");
    // and one of them deletes the session
    first.delete();
    common::wait_until("it is deleted", || server.sessions().is_empty());
    server.end();
}
