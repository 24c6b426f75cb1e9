//! Checkpoint validity under invalid input: a client of the socket, an editor, a plugin, an MCP server, the model or
//! an imported file says something that is not allowed. It is refused or logged as an error, or read as text if it is
//! the result of an MCP server. The log stays valid, and the session goes on.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::corpus::{PLUGIN, SERVER, logs};
use common::{
    ASK, Answer, Block, Editor, Live, Peer, Server, Site, Split, Tally, all, bash, call, mcp,
    message, plugin, says,
};
use serde_json::{Value, json};

use super::faults;

const TAKEN: &str = "inputs that were taken as they are";
const INVALID: &str = "logs that are invalid after them";
const STUCK: &str = "sessions that do not go on";

/// One input. The function panics if the input is taken as it is. The server, if there is one, is the model's.
struct Input {
    from: &'static str,
    name: &'static str,
    give: Box<dyn Fn() -> (Site, Option<Server>) + Send + Sync>,
}

impl Input {
    fn new(
        from: &'static str,
        name: &'static str,
        give: impl Fn() -> Site + Send + Sync + 'static,
    ) -> Self {
        Self { from, name, give: Box::new(move || (give(), None)) }
    }
}

fn site(replies: &[Value]) -> Site {
    let replies = [replies, &[says("So be it.")]].concat();
    Site::scripted(&json!({ "replies": replies, "on_end": "repeat" }))
}

/// A site whose turn asks whether `.env` may be read.
fn asking() -> Site {
    let site = site(&[call("read", json!({ "filePath": ".env" }))]);
    site.file(".env", "COLOUR=blue\n");
    site
}

/// A request to the socket while a question is open. The question can be answered afterwards.
fn by_socket(method: &str, params: &Value) -> Site {
    let site = asking();
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    let mut peer = Peer::connect(&site.session());
    let mut params = params.clone();
    params["session"] = asked["session"].clone();
    let answer = peer.call(&format!("_leftfold/{method}"), &params);
    let refused = answer.get("error").is_some() || answer["result"]["accepted"] == false;
    assert!(refused, "{answer}");
    let yes = json!({ "session": asked["session"], "of": asked["seq"], "reply": "once" });
    assert_eq!(peer.call("_leftfold/answer", &yes)["result"]["accepted"], true);
    live.wait().ok();
    site
}

fn of_socket() -> Vec<Input> {
    let input = |name, method: &'static str, params: Value| {
        Input::new("socket", name, move || by_socket(method, &params))
    };
    vec![
        input("an answer to no question", "answer", json!({ "of": 1, "reply": "once" })),
        input("an answer of an unknown kind", "answer", json!({ "of": 1, "reply": "maybe" })),
        input("a number as text", "prompt", json!({ "parts": [{ "type": "text", "text": 7 }] })),
        input(
            "a part of an unknown kind",
            "prompt",
            json!({ "parts": [{ "type": "hologram", "text": "x" }] }),
        ),
        input(
            "an id that is too long",
            "prompt",
            json!({ "text": "x", "message_id": "x".repeat(300) }),
        ),
        input(
            "a rule with an unknown action",
            "configure",
            json!({ "rules": [{ "permission": "bash", "pattern": "*", "action": "perhaps" }] }),
        ),
        input("a revert to an event that is not there", "revert", json!({ "to": 1_000_000 })),
    ]
}

/// An editor's request while a question is open. The question can be answered afterwards.
fn by_editor(method: &str, params: &Value) -> Site {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    let mut params = params.clone();
    if params.get("sessionId").is_none() {
        params["sessionId"] = json!(session);
    }
    let id = editor.ask(method, params);
    editor.error(id);
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site
}

/// An editor answers a question with an option that it was not given: the call does not run.
fn unknown_option() -> Site {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    editor.reply(&question, json!({ "outcome": { "outcome": "selected", "optionId": "perhaps" } }));
    editor.answer(prompt);
    editor.leave();
    assert!(all(&site.exported(), "tool.started").is_empty());
    site
}

fn of_editors() -> Vec<Input> {
    let input = |name, method: &'static str, params: Value| {
        Input::new("editor", name, move || by_editor(method, &params))
    };
    let nobody = "01M80975YBR9EX8DDQC3WSR82N";
    vec![
        input(
            "a block of an unknown kind",
            "session/prompt",
            json!({ "prompt": [{ "type": "hologram" }] }),
        ),
        input(
            "a number as text",
            "session/prompt",
            json!({ "prompt": [{ "type": "text", "text": 7 }] }),
        ),
        input("an unknown mode", "session/set_mode", json!({ "modeId": "perhaps" })),
        input(
            "a session that is not there",
            "session/prompt",
            json!({ "sessionId": nobody, "prompt": [{ "type": "text", "text": "go" }] }),
        ),
        Input::new("editor", "an option that was not given", unknown_option),
    ]
}

/// A plugin's answer to this hook.
fn by_hook(hook: &str, answer: &Value) -> Site {
    let double =
        plugin::double(PLUGIN, json!({ "name": "d", "hooks": [hook] }), json!({ hook: answer }));
    let rule = if hook == "permission.ask" { "ask" } else { "allow" };
    let site = site(&[bash("echo done > done")])
        .setting("/plugin", json!([double]))
        .setting("permission", json!({ "bash": rule }));
    let ran = site.prompt("go");
    let events = ran.events();
    let failed = all(&events, "hook.returned");
    assert!(failed.iter().any(|event| event["data"]["outcome"] == "failed"), "{ran:?}");
    site
}

/// A result of a plugin's tool.
fn by_plugins_tool(result: &Value) -> Site {
    let handshake = json!({ "name": "d", "tools": [{ "name": "job" }] });
    let double = plugin::double(PLUGIN, handshake, json!({ "tool": result }));
    let site = site(&[call("d_job", json!({}))])
        .setting("/plugin", json!([double]))
        .setting("permission", json!({ "d_*": "allow" }));
    assert_failed(&site.prompt("go").ok().events());
    site
}

/// The only call has an error as its result.
fn assert_failed(events: &[Value]) {
    let resolved = all(events, "tool.resolved").into_iter();
    let finished = all(events, "tool.finished").into_iter();
    let failed = resolved.filter(|event| event["data"]["error"].is_string()).count()
        + finished.filter(|event| event["data"]["is_error"] == true).count();
    assert_eq!(failed, 1, "{events:#?}");
}

fn of_plugins() -> Vec<Input> {
    let input = |name, hook: &'static str, answer: Value| {
        Input::new("plugin", name, move || by_hook(hook, &answer))
    };
    vec![
        input("a field that a hook does not have", "tool.execute.before", json!({ "denny": 1 })),
        input("an answer of an unknown kind", "permission.ask", json!({ "status": "perhaps" })),
        input("a word as a number", "chat.params", json!({ "temperature": "warm" })),
        input("a number as an object", "chat.message", json!(7)),
        input("a list as text", "tool.execute.after", json!({ "output": ["x"] })),
        Input::new("plugin", "a number as the result of a tool", || {
            by_plugins_tool(&json!({ "output": 7 }))
        }),
    ]
}

/// A site whose model calls a tool of an MCP server.
fn calling(tool: &str, arguments: &Value) -> Site {
    site(&[call(tool, arguments)])
        .setting("/mcp", json!({ "m": mcp::local(SERVER, "") }))
        .setting("permission", json!({ "m_*": "allow" }))
}

/// A result that is none of the protocol's: the model gets a text in its place.
fn read_as_text(result: &Value, text: &str) -> Site {
    let site = calling("m_echo", &json!({ "result": result }));
    let events = site.prompt("go").ok().events();
    assert_eq!(common::only(&events, "tool.finished")["data"]["output"], text);
    site
}

/// A server asks a question that is no form: it gets an error, and the call ends with nothing.
fn malformed_form() -> Site {
    let ask = json!({ "ask": { "message": 7, "requestedSchema": 7 } });
    let site = calling("m_ask", &ask);
    let events = site.prompt("go").ok().events();
    assert_eq!(common::only(&events, "tool.finished")["data"]["output"], "null");
    site
}

fn of_servers() -> Vec<Input> {
    let result = |name, result: Value, text: &'static str| {
        Input::new("MCP server", name, move || read_as_text(&result, text))
    };
    let unknown = json!({ "content": [{ "type": "text", "text": 7 }] });
    vec![
        result("a number as the result", json!(7), "7"),
        result("text as the content", json!({ "content": "text" }), "text"),
        result("a number as text", unknown, "[content of an unknown kind]"),
        Input::new("MCP server", "its end as the answer", || {
            let site = calling("m_crash", &json!({}));
            assert_failed(&site.prompt("go").ok().events());
            site
        }),
        Input::new("MCP server", "a question that is no form", malformed_form),
    ]
}

/// A model over HTTP that calls a tool with these arguments, byte by byte.
fn by_model(tool: &'static str, arguments: &'static str) -> (Site, Option<Server>) {
    let server = Server::answering(move |request| {
        let answered = request.body["messages"].to_string().contains("tool_result");
        let block = match answered {
            true => Block::Text("I see."),
            false => Block::Call("toolu_1", tool, arguments.to_owned()),
        };
        Answer::Stream(message(&[block]), Split::Whole)
    });
    let site = Site::served(&server);
    assert_failed(&site.prompt("go").ok().events());
    (site, Some(server))
}

fn of_models() -> Vec<Input> {
    let input = |name, tool: &'static str, arguments: &'static str| Input {
        from: "model",
        name,
        give: Box::new(move || by_model(tool, arguments)),
    };
    vec![
        input("arguments that are cut off", "read", r#"{"filePath": "a.txt"#),
        input("a list as arguments", "read", "[1]"),
        input("a number as a path", "read", r#"{"filePath": 7}"#),
        input("half a character", "read", r#"{"filePath": "\ud800"}"#),
        input("an empty command", "bash", r#"{"command": "  "}"#),
        input("a tool that is not there", "open_file", r#"{"path": "a"}"#),
    ]
}

/// An export with one changed line is refused, and leaves nothing. The unchanged one is imported.
fn by_import(change: fn(&mut Vec<String>)) -> Site {
    let site = site(&[bash("echo done > done")]);
    site.prompt("go").ok();
    let export = site.run(&["export", "last"]).ok().stdout;
    fs::rename(site.path("home"), site.path("home-before")).unwrap();
    fs::create_dir(site.path("home")).unwrap();
    let mut lines: Vec<String> = export.lines().map(str::to_owned).collect();
    change(&mut lines);
    let import = |text: &str| {
        let file = site.path("session.jsonl");
        fs::write(&file, text).unwrap();
        site.run(&["import", file.to_str().unwrap()])
    };
    let ran = import(&(lines.join("\n") + "\n"));
    assert!(ran.code != 0 && !ran.stderr.is_empty(), "{ran:?}");
    assert!(site.sessions().is_empty(), "{:?}", site.sessions());
    import(&export).ok();
    site
}

/// The place of the line of this type.
fn place(lines: &[String], kind: &str) -> usize {
    let kind = format!(r#""type":"{kind}""#);
    lines.iter().position(|line| line.contains(&kind)).unwrap()
}

fn of_imports() -> Vec<Input> {
    let input = |name, change| Input::new("import", name, move || by_import(change));
    vec![
        input("a line that is cut off", |lines| {
            let at = place(lines, "tool.finished");
            let half = lines[at].len() / 2;
            lines[at].truncate(half);
        }),
        input("another version", |lines| {
            let at = place(lines, "turn.prompted");
            lines[at] = lines[at].replace(r#""v":1"#, r#""v":9"#);
        }),
        input("an unknown event", |lines| {
            let at = place(lines, "tool.finished");
            lines[at] = lines[at].replace("tool.finished", "tool.vanished");
        }),
        input("an event without a field", |lines| {
            let at = place(lines, "tool.finished");
            lines[at] = lines[at].replace(r#""is_error""#, r#""is_fine""#);
        }),
        input("a gap", |lines| {
            let at = place(lines, "tool.resolved");
            lines.remove(at);
        }),
        input("an event that comes twice", |lines| {
            let at = place(lines, "tool.finished");
            let line = lines[at].clone();
            lines.insert(at, line);
        }),
        input("contents of another hash", |lines| {
            let at = lines.iter().position(|line| line.contains(r#""payload":"#)).unwrap();
            lines[at] = lines[at].replacen(r#""text":""#, r#""text":"x"#, 1);
        }),
        input("a hash without contents", |lines| {
            let at = lines.iter().position(|line| line.contains(r#""payload":"#)).unwrap();
            lines.remove(at);
        }),
        input("a time that no clock reaches", |lines| {
            let at = place(lines, "turn.prompted");
            lines[at] = lines[at].replace(r#""at":"20"#, r#""at":"99"#);
        }),
    ]
}

#[test]
fn invalid_inputs_leave_valid_logs() {
    let tally = Tally::promise(17, "invalid inputs")
        .counts(&["inputs", "sources", "events"])
        .never(&[TAKEN, INVALID, STUCK]);
    let inputs = [of_socket(), of_editors(), of_plugins(), of_servers(), of_models(), of_imports()];
    let inputs: Vec<Input> = inputs.into_iter().flatten().collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(input) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(&tally, input);
                }
            });
        }
    });
    let inputs = tally.get("inputs");
    tally.finish();
    assert!(inputs >= 24, "{inputs} inputs");
}

fn check(tally: &Tally, input: &Input) {
    let name = format!("{}, {}", input.from, input.name);
    let Some((site, _server)) = tally.attempt(TAKEN, &name, &input.give) else { return };
    tally.distinct("inputs", &name);
    tally.distinct("sources", input.from);
    let before = logs(&site);
    tally.check(INVALID, !before.is_empty(), || format!("{name}: no log"));
    tally.add("events", before.iter().map(|(_, log)| log.len()).sum());
    tally.none(INVALID, faults(&site, &before).into_iter().map(|fault| format!("{name}: {fault}")));
    let more: Live = site.start(&["run", "--continue", "--format", "json", "more"]);
    let ran = more.wait();
    tally.check(STUCK, ran.code == 0, || format!("{name}: {ran:?}"));
    tally.none(
        INVALID,
        faults(&site, &logs(&site)).into_iter().map(|fault| format!("{name}, then: {fault}")),
    );
}
