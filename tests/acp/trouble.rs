//! Trouble between a node and its editor: bad input, a sudden end on either side, faulty settings,
//! a failing model.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{
    Editor, Live, Site, all, bash, call, exists, kinds, marked, only, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The promise is a second; the rest is for busy machines.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

fn asking() -> Site {
    Site::scripted(&script(json!([bash("echo x >> log"), says("Done.")])))
        .setting("permission/bash", json!({ "*": "ask" }))
}

/// The protocol has no batches. Each is refused as a whole, with one error, and none of its requests is carried out.
#[test]
fn a_batch_is_refused_with_one_error() {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let params = json!({ "cwd": site.project(), "mcpServers": [] });
    let new = |id: usize| json!({ "jsonrpc": "2.0", "id": format!("b{id}"), "method": "session/new", "params": params });
    let read = json!({ "jsonrpc": "2.0", "id": "r", "method": "_leftfold/why", "params": {} });
    for (batch, words) in [
        (json!([new(1), new(2), read]), "batches are not supported"),
        (json!([]), "batches are not supported"),
        (json!([new(3)]), "batches are not supported"),
        (json!(vec![json!({}); 300_000]), "more than 262144 values"),
    ] {
        editor.write(format!("{batch}\n").as_bytes());
        let error = editor.until(|message| message.get("error").is_some());
        assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32600)));
        assert!(error["error"]["data"].as_str().unwrap().contains(words), "{error}");
    }
    editor.session(&site);
    let answers = editor.got.iter().filter(|message| message.get("method").is_none());
    let of_batches = answers.filter(|message| message["id"].is_string()).count();
    assert_eq!(of_batches, 0, "{:?}", editor.got);
    editor.leave();
}

#[test]
fn bad_input_disturbs_nobody() {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);

    let lines = [
        (&b"{\"jsonrpc\": \"2.0\", \"id\": \n"[..], -32700),
        (b"\xff\xfe\n", -32700),
        (b"[]\n", -32600),
        (b"{\"id\": 7}\n", -32600),
    ];
    for (line, code) in lines {
        editor.write(line);
        let error = editor.until(|message| message.get("error").is_some());
        assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(code)));
    }
    let mut long =
        b"{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"x\",\"params\":{\"x\":\"".to_vec();
    long.resize(50 << 20, b'x');
    long.extend(b"\"}}\n");
    editor.write(&long);
    let error = editor.until(|message| message.get("error").is_some());
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!("long"), &json!(-32600)));
    assert!(error.to_string().len() < 1000, "the line came back");

    let requests = [
        ("no_such/method", json!({}), -32601, ""),
        ("session/new", json!({ "cwd": 42, "mcpServers": [] }), -32602, "cwd: "),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602, "absolute"),
        ("session/new", json!({ "cwd": "/no/such/folder", "mcpServers": [] }), -32602, "cwd"),
        ("session/prompt", json!({ "sessionId": "nobody", "prompt": [] }), -32002, "nobody"),
        ("session/prompt", json!({ "sessionId": session, "prompt": [] }), -32602, "empty"),
        (
            "session/load",
            json!({ "sessionId": "01M80975YBR9EX8DDQC3WSR82N", "cwd": "/", "mcpServers": [] }),
            -32002,
            "01M80975YBR9EX8DDQC3WSR82N",
        ),
        (
            "session/load",
            json!({ "sessionId": "../../x", "cwd": "/", "mcpServers": [] }),
            -32002,
            "x",
        ),
    ];
    for (method, params, code, says) in requests {
        let id = editor.ask(method, params);
        let error = editor.error(id);
        assert_eq!(error["code"], code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site.assert_sound();
}

#[test]
fn nothing_works_before_initialize() {
    let site = asking();
    let mut editor = Editor::raw(&site, &[]);
    let id = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
    editor.error(id);
    editor.leave();
    assert_eq!(site.sessions().len(), 0);
}

/// A turn with a command under way.
fn under_way(site: &Site) -> (Editor, String) {
    let mut editor = Editor::start(site, &[]);
    let session = editor.session(site);
    editor.prompt(&session, "go");
    wait_until("it runs", || exists(&site.project().join("ready")));
    (editor, session)
}

#[test]
fn the_node_leaves_at_once_and_turns_stay_resumable() {
    type Leave = fn(&mut Editor);
    let leave: [(&str, Leave); 3] = [
        ("end of input", |editor| editor.hang_up()),
        ("half a line, then the end", |editor| {
            editor.write(b"{\"jsonrpc\":");
            editor.hang_up();
        }),
        ("SIGTERM", |editor| editor.live.signal(Signal::TERM)),
    ];
    for (how, leave) in leave {
        let command = "touch ready; trap '' TERM; sleep 1000";
        let site = Site::scripted(&script(json!([bash(command), says("Resumed.")])));
        let (mut editor, session) = under_way(&site);
        let start = Instant::now();
        leave(&mut editor);
        editor.live.wait().ok();
        assert!(start.elapsed() < ANSWER_TIMEOUT, "{how}: {:?}", start.elapsed());
        assert!(marked(&session).is_empty(), "{how}: {:?}", marked(&session));
        let cut = events(&site, &session);
        assert!(!kinds(&cut).contains(&"turn.ended"), "{how}: {:?}", kinds(&cut));
        assert!(!kinds(&cut).contains(&"tool.finished"), "{how}: {:?}", kinds(&cut));
        let ran = Live::start(site.command(&["resume", &session, "--format", "json"])).wait().ok();
        assert_eq!(ran.events().last().unwrap()["data"]["text"], "Resumed.", "{how}");
        site.assert_sound();
    }
}

#[test]
fn a_prompt_after_a_crash_closes_the_turn_that_was_cut_off() {
    let site =
        Site::scripted(&script(json!([bash("touch ready; sleep 1000"), says("Here again.")])));
    let (editor, session) = under_way(&site);
    editor.live.signal(Signal::KILL);
    drop(editor);

    let mut editor = Editor::start(&site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let loaded = editor.ask("session/load", load);
    editor.result(loaded);
    assert_eq!(editor.text(&session, "user_message_chunk"), "go");
    let told = editor.received(&session, &["tool_call", "tool_call_update"]);
    assert_eq!(told.last().unwrap(), "tool_call_update in_progress");
    let prompt = editor.prompt(&session, "what now?");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let told = editor.received(&session, &["tool_call", "tool_call_update"]);
    assert_eq!(told.last().unwrap(), "tool_call_update failed");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Here again.");
    editor.leave();
    let events = events(&site, &session);
    assert_eq!(only(&events, "session.resumed")["data"]["close"], true);
    assert_eq!(all(&events, "turn.ended").len(), 2);
    assert!(marked(&session).is_empty());
    site.assert_sound();
}

#[test]
fn a_session_whose_node_can_not_be_reached_is_not_loaded() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000")])));
    let mut first = site.start(&["run", "--format", "json", "go"]);
    let session = first.until("tool.started")["session"].as_str().unwrap().to_owned();
    std::fs::remove_file(site.session().join("socket")).unwrap();
    let mut second = Editor::start(&site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let loaded = second.ask("session/load", load);
    // other sessions do not wait for it
    let other = second.session(&site);
    assert!(second.got.iter().all(|message| message["id"] != loaded));
    let error = second.error(loaded);
    assert!(error["message"].as_str().unwrap().contains("in use by another node"), "{error}");
    assert_ne!(other, session);
    second.leave();
    first.signal(Signal::INT);
    first.wait().with(130);
}

#[test]
fn a_prompt_that_can_not_be_made_durable_is_answered_with_an_error() {
    let site = Site::scripted(&script(json!([says("Hello."), says("Hello.")])));
    let mut editor = Editor::from_command(site.limited(&["node"], "-f 800"));
    let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
    editor.result(initialized);
    let sessions = [editor.session(&site), editor.session(&site)];
    let prompt = editor.prompt(&sessions[0], "hi");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let long = "x".repeat(2 << 20);
    for session in &sessions {
        let prompt = editor.prompt(session, &long);
        let error = editor.error(prompt);
        assert!(error["message"].as_str().unwrap().contains("died"), "{error}");
    }
    // none of it is in a log, and the node still works
    assert_eq!(all(&events(&site, &sessions[0]), "turn.prompted").len(), 1);
    let third = editor.session(&site);
    let prompt = editor.prompt(&third, "hi");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
}

#[test]
fn a_client_that_asks_and_never_reads_is_made_to_wait() {
    const REQUESTS: usize = 20_000;
    let site = asking();
    let mut command = site.command(&["node"]);
    let mut node = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = node.stdin.take().unwrap();
    let output = node.stdout.take().unwrap();
    let (sender, written) = std::sync::mpsc::channel();
    let flood = std::thread::spawn(move || {
        let pad = "x".repeat(1_000);
        for id in 0..REQUESTS {
            let request =
                json!({ "jsonrpc": "2.0", "id": id, "method": "no/such", "params": { "x": pad } });
            input.write_all(format!("{request}\n").as_bytes()).unwrap();
        }
        sender.send(()).unwrap();
        input
    });
    // the writer would be done in less time if the node read everything
    written.recv_timeout(Duration::from_secs(3)).expect_err("all of it was taken");
    let answers = BufReader::new(output).lines().map(|line| line.unwrap());
    let answers = answers.filter(|line| line.contains("\"error\""));
    // its input stays open until all answers are here: after its end the node has a second to exit
    assert_eq!(answers.take(REQUESTS).count(), REQUESTS);
    drop(flood.join().unwrap());
    node.wait().unwrap();
}

#[test]
fn a_failure_of_the_model_is_an_error_of_the_prompt() {
    let fault = json!({ "class": "auth", "message": "no such key", "retryable": false });
    let site =
        Site::scripted(&script(json!([{ "faults": [fault], "parts": [{ "text": "Now." }] }])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let error = editor.error(prompt);
    assert!(error["message"].as_str().unwrap().contains("no such key"), "{error}");
    let prompt = editor.prompt(&session, "go on");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
}

#[test]
fn settings_are_those_of_the_directory_and_faults_in_them_are_told() {
    let site =
        Site::scripted(&script(json!([call("read", json!({ "filePath": "a" })), says("Done.")])));
    site.file("a", "a\n");
    site.file("strict/leftfold.json", "{ \"permission\": { \"read\": \"deny\" } }");
    site.file("strict/.git/HEAD", "");
    site.file("broken/leftfold.json", "{ \"permision\": {} }");
    site.file("broken/.git/HEAD", "");
    let mut editor = Editor::start(&site, &[]);
    let new = |folder: &str| json!({ "cwd": site.project().join(folder), "mcpServers": [] });
    let broken = editor.ask("session/new", new("broken"));
    let error = editor.error(broken);
    assert!(error["message"].as_str().unwrap().contains("leftfold.json"), "{error}");
    for (folder, status) in [("", "completed"), ("strict", "failed")] {
        let id = editor.ask("session/new", new(folder));
        let session = editor.result(id)["sessionId"].as_str().unwrap().to_owned();
        let prompt = editor.prompt(&session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        let told = editor.received(&session, &["tool_call_update"]);
        assert_eq!(told.last().unwrap(), &format!("tool_call_update {status}"), "{folder}");
    }
    editor.leave();
}

/// Counts how often the single piece of text of a turn is sent.
fn chunks_of_turn(editor: &mut Editor, session: &str) -> usize {
    let of = "agent_message_chunk";
    let before = editor.received(session, &[of]).len();
    let prompt = editor.prompt(session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // a second observer would usually have sent it before this answer
    let id = editor.ask("session/list", json!({}));
    editor.result(id);
    editor.received(session, &[of]).len() - before
}

#[test]
fn a_session_that_is_opened_again_is_told_of_once() {
    let site = Site::scripted(&script(json!([says("a"), says("b"), says("c")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    assert_eq!(chunks_of_turn(&mut editor, &session), 1);
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let closed = editor.ask("session/close", json!({ "sessionId": session }));
    editor.result(closed);
    let loaded = editor.ask("session/load", params.clone());
    editor.result(loaded);
    assert_eq!(chunks_of_turn(&mut editor, &session), 1);

    let closed = editor.ask("session/close", json!({ "sessionId": session }));
    editor.result(closed);
    let loads: Vec<u64> = (0..4).map(|_| editor.ask("session/load", params.clone())).collect();
    let answers: Vec<Value> = loads.into_iter().map(|load| editor.answer(load)).collect();
    assert!(answers.iter().any(|answer| answer.get("result").is_some()), "{answers:?}");
    assert_eq!(chunks_of_turn(&mut editor, &session), 1);
    editor.leave();
    site.assert_sound();
}

#[test]
fn half_a_character_in_a_prompt_is_replaced() {
    let site = Site::scripted(&script(json!([says("Done.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = format!(
        r#"{{"jsonrpc":"2.0","id":77,"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"cut \ud83d"}}]}}}}"#
    );
    editor.write(format!("{prompt}\n").as_bytes());
    assert_eq!(editor.stop_reason(77), "end_turn");
    editor.leave();
    let prompted = events(&site, &session);
    let prompted = &only(&prompted, "turn.prompted")["data"]["parts"][0]["text"];
    assert_eq!(prompted, "cut \u{fffd}");
}

#[test]
fn a_cancel_does_not_wait_for_servers_that_do_not_start() {
    let server = json!({ "command": ["sh", "-c", "touch started; sleep 1000"], "cwd": "{project}", "timeout": 600_000 });
    let site = Site::scripted(&script(json!([says("Done.")])));
    let site = site.setting("/mcp", json!({})).setting("/mcp", json!({ "m": server }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    wait_until("the server is started", || exists(&site.project().join("started")));
    editor.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    editor.leave();
    assert_eq!(site.sessions().len(), 0);
}
