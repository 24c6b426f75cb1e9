//! Prompts, messages and the feed.

use std::collections::{BTreeMap, HashSet};

use common::language_server::{double, serve_if_asked};
use common::{Site, bash, call, mcp, only, says, script};
use serde_json::{Value, json};

use crate::client::{Served, SseFrame};

/// Two steps: text with a command, then an answer.
fn two_steps(command: &str) -> Value {
    script(json!([
        { "parts": [{ "text": "I look. " }, { "call": { "name": "bash", "input": { "command": command } } }] },
        { "parts": [{ "text": "All done." }] },
    ]))
}

fn is_idle(frame: &SseFrame) -> bool {
    frame.kind == "session.idle"
}

/// The language server that the next test starts.
#[test]
fn language_server() {
    serve_if_asked();
}

#[test]
fn the_language_servers_that_run_are_listed() {
    let write = json!({ "filePath": "a.x", "content": "ERROR one\n" });
    let site = Site::scripted(&script(json!([call("write", write), says("Done.")])))
        .setting("/permission", json!("allow"));
    let settings = json!({ "lsp": { "stub": double("sessions::language_server", "") } });
    site.file("leftfold.json", settings.to_string());
    let server = Served::start(&site);
    assert_eq!(server.get("/lsp").ok(), json!([]));
    let session = server.session();
    let mut feed = server.feed(None);
    server.begin(&session, "go");
    feed.until(|frame| frame.kind == "lsp.updated");
    let stub = json!({ "id": "stub", "name": "stub", "root": "", "status": "connected" });
    assert_eq!(server.get("/lsp").ok(), json!([stub]));
    feed.until(is_idle);
    let messages = server.get(&format!("/session/{session}/message")).ok().to_string();
    assert!(messages.contains(r#""message":"ERROR one""#), "{messages}");
}

/// An MCP server has its own state: it is not connected because it is in the settings. Clients turn it on and off.
#[test]
fn the_states_of_mcp_servers_are_shown() {
    let mut off = mcp::local("sessions::mcp_server", "");
    off["enabled"] = json!(false);
    let with =
        |tool: &str, text: &str| json!({ "match": { "tool": tool }, "parts": [{ "text": text }] });
    let neither = json!({ "match": { "prompt": "" }, "parts": [{ "text": "None." }] });
    let replies = [with("off_echo", "Both."), with("works_echo", "One."), neither];
    let site = Site::scripted(&script(json!(replies))).setting(
        "/mcp",
        json!({
            "works": mcp::local("sessions::mcp_server", ""),
            "fails": { "type": "local", "command": ["/nothing/here"] },
            "off": off,
        }),
    );
    let server = Served::start(&site);
    let states = || {
        let all = server.get("/mcp").ok();
        let state = |name: &str| all[name]["status"].as_str().unwrap_or_default().to_owned();
        (["works", "fails", "off"].map(state), all)
    };
    assert_eq!(states().0, ["pending", "pending", "disabled"], "no prompt has needed them yet");
    let mut feed = server.feed(None);
    let session = server.session();
    server.prompt(&session, "go");
    let tools = |frame: &SseFrame| {
        frame.kind == "mcp.tools.changed" && frame.properties == json!({ "server": "works" })
    };
    feed.until(tools);
    let (after, all) = states();
    assert_eq!(after, ["connected", "failed", "disabled"]);
    assert!(all["fails"]["error"].as_str().unwrap().contains("/nothing/here"), "{all}");

    let said = || {
        let answer = server.prompt(&session, "go");
        let mut parts = answer["parts"].as_array().unwrap().iter();
        parts.find(|part| part["type"] == "text").unwrap()["text"].clone()
    };
    let switch = |name: &str, how: &str| server.post(&format!("/mcp/{name}/{how}"), json!({}));
    assert_eq!(said(), "One.");
    assert_eq!(switch("off", "connect").ok(), json!(true));
    assert_eq!(states().0[2], "connected", "before a prompt");
    assert_eq!(said(), "Both.");
    for name in ["off", "works"] {
        assert_eq!(switch(name, "disconnect").ok(), json!(true));
    }
    assert_eq!(states().0, ["disabled", "pending", "disabled"], "these are new processes");
    assert_eq!(said(), "None.");
    assert_eq!(switch("fails", "connect").ok(), json!(true), "its state says why");
    assert_eq!(states().0[1], "failed");
    let unknown = switch("nothing", "connect");
    assert_eq!((unknown.status, &unknown.json()["name"]), (404, &json!("nothing")));
    server.end();
}

/// The server that the test above starts.
#[test]
fn mcp_server() {
    mcp::serve_if_asked();
}

#[test]
fn a_prompt_is_answered_listed_and_streamed() {
    let site = Site::scripted(&two_steps("echo hi")).setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    let answer = server.prompt(&session, "go");
    assert_eq!(
        (&answer["info"]["role"], &answer["info"]["finish"]),
        (&json!("assistant"), &json!("stop"))
    );
    assert!(answer["parts"].to_string().contains("done."), "{answer}");

    let frames = feed.until(is_idle);
    assert_eq!(frames[0].kind, "server.connected");
    let events: HashSet<&String> = frames.iter().map(|frame| &frame.event).collect();
    assert_eq!(events.len(), frames.len(), "each event has an id of its own");
    let mut texts: BTreeMap<String, (String, String)> = BTreeMap::new();
    let mut states = Vec::new();
    for frame in &frames {
        let part = &frame.properties["part"];
        if frame.kind == "message.part.delta" {
            let known = texts.get_mut(frame.properties["partID"].as_str().unwrap());
            known.expect("its part comes first").0 += frame.properties["delta"].as_str().unwrap();
        } else if part["type"] == "text" && part["time"].is_object() {
            let known = texts.entry(part["id"].as_str().unwrap().to_owned()).or_default();
            known.1 = part["text"].as_str().unwrap().to_owned();
        } else if part["type"] == "tool" {
            states.push(part["state"]["status"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(texts.len(), 2, "{texts:?}");
    for (streamed, whole) in texts.values() {
        assert_eq!(streamed.trim_end(), whole.trim_end(), "the deltas add up to the text");
    }
    states.dedup();
    assert_eq!(states, ["pending", "running", "completed"]);

    let listed = server.get(&format!("/session/{session}/message")).ok();
    let messages = listed.as_array().unwrap();
    let ids: Vec<&str> =
        messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted(), "clients sort by id: {ids:?}");
    let roles: Vec<&Value> = messages.iter().map(|message| &message["info"]["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
    let output =
        messages[1]["parts"].as_array().unwrap().iter().find(|part| part["type"] == "tool");
    assert_eq!(output.unwrap()["state"]["output"], "hi\n");
    // the feed and the list have the same last state
    let last = frames.iter().rfind(|frame| frame.kind == "message.updated").unwrap();
    assert_eq!(last.properties["info"], messages[2]["info"]);
    let sessions = server.get("/session").ok();
    assert_eq!(sessions[0]["id"], session.as_str());
    server.end();
}

/// Every member of a prompt counts, and prompts that come during a turn wait for their turn.
#[test]
fn a_prompt_is_taken_in_full() {
    let reply =
        |condition: Value, text: &str| json!({ "match": condition, "parts": [{ "text": text }] });
    let bash =
        |command: &str| json!([{ "call": { "name": "bash", "input": { "command": command } } }]);
    let waits = "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    let site = Site::scripted(&script(json!([
        reply(json!({ "prompt": "in style", "system": "Speak like a pirate." }), "Arr."),
        reply(json!({ "prompt": "without bash", "tool": "bash" }), "There is bash."),
        reply(json!({ "prompt": "without bash", "tool": "read" }), "No bash."),
        reply(json!({ "prompt": "The user mentions the agent `general`" }), "I delegate."),
        reply(json!({ "result": "went" }), "It went."),
        { "match": { "prompt": "wait" }, "parts": bash(waits) },
        { "match": { "prompt": "run it", "answers": 0 }, "parts": bash("echo ran > ran.txt") },
        reply(json!({ "prompt": "" }), "Fine."),
    ])))
    .setting("/permission", json!("allow"))
    .setting("/provider/double/models/m/variants", json!({ "high": { "effort": "high" } }));
    let server = Served::start(&site);
    let session = server.session();
    let path = format!("/session/{session}");
    let ask = |more: Value, text: &str| {
        let mut body = more;
        let mut parts = vec![json!({ "type": "text", "text": text })];
        parts.extend(body["parts"].as_array().cloned().unwrap_or_default());
        body["parts"] = parts.into();
        let answer = server.post(&format!("{path}/message"), body).ok();
        let said = answer["parts"].as_array().unwrap().iter().find(|part| part["type"] == "text");
        said.map(|said| said["text"].clone()).unwrap_or_default()
    };
    let last_user = || {
        let listed = server.get(&format!("{path}/message")).ok();
        let mut users = listed.as_array().unwrap().iter().rev();
        users.find(|one| one["info"]["role"] == "user").unwrap().clone()
    };
    assert_eq!(ask(json!({ "system": "Speak like a pirate." }), "in style"), "Arr.");
    assert_eq!(ask(json!({}), "in style"), "Fine.", "it holds for one prompt");
    assert_eq!(ask(json!({ "tools": { "bash": false } }), "without bash"), "No bash.");
    assert_eq!(ask(json!({}), "without bash"), "There is bash.");
    ask(json!({ "agent": "plan" }), "as plan");
    assert_eq!(last_user()["info"]["agent"], "plan");
    let agent = json!({ "type": "agent", "name": "general", "source": { "value": "@general", "start": 0, "end": 8 } });
    site.file("a.txt", "one\n");
    let url = format!("file://{}", site.project().join("a.txt").display());
    let file = json!({ "type": "file", "mime": "text/plain", "url": url });
    for (text, more) in [
        ("ask general", vec![agent.clone()]),
        ("@general look around", vec![agent.clone()]),
        ("@general look around", vec![agent.clone(), file]),
    ] {
        let sent = more.len();
        assert_eq!(ask(json!({ "agent": "build", "parts": more }), text), "I delegate.", "{text}");
        let named = last_user();
        let parts = named["parts"].as_array().unwrap();
        assert_eq!((parts.len(), &parts[0]["text"]), (1 + sent, &json!(text)), "{named}");
        assert_eq!((&parts[1]["type"], &parts[1]["name"]), (&json!("agent"), &json!("general")));
        assert_eq!(parts[1]["source"]["end"], 8, "{named}");
    }
    let nobody = json!({ "type": "agent", "name": "nobody" });
    assert_eq!(
        ask(json!({ "parts": [nobody] }), "ask"),
        "Fine.",
        "the model is told of no such agent"
    );

    let variants = || {
        site.run(&["export", "last"])
            .ok()
            .stdout
            .replace('\\', "")
            .matches("\"variant\":\"high\"")
            .count()
    };
    assert_eq!((ask(json!({ "variant": "high" }), "carefully"), variants()), (json!("Fine."), 1));

    let before = server.get(&format!("{path}/message")).ok().as_array().unwrap().len();
    let quiet = json!({ "noReply": true, "parts": [{ "type": "text", "text": "a note" }] });
    let note = server.post(&format!("{path}/message"), quiet).ok();
    assert_eq!(
        (&note["info"]["role"], &note["parts"][0]["text"]),
        (&json!("user"), &json!("a note"))
    );
    assert_eq!(server.get(&format!("{path}/message")).ok().as_array().unwrap().len(), before + 1);

    server.begin(&session, "wait");
    common::wait_until("its command runs", || site.project().join("ready").exists());
    server.begin(&session, "something else");
    assert_eq!(last_user()["parts"][0]["text"], "something else");
    site.file("go", "");
    common::wait_until("both are answered", || {
        let listed = server.get(&format!("{path}/message")).ok();
        let last = listed.as_array().unwrap().last().unwrap();
        server.get("/session/status").ok() == json!({}) && last["info"]["role"] == "assistant"
    });

    let rules =
        json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "deny" }] });
    let denied = server.post("/session", rules).ok()["id"].as_str().unwrap().to_owned();
    server.prompt(&denied, "run it");
    let listed = server.get(&format!("/session/{denied}/message")).ok();
    assert!(listed.to_string().contains("The permission rules deny this call."), "{listed}");
    assert!(!site.project().join("ran.txt").exists());
    server.end();
}

/// Each kind of part has the members that clients draw, and the feed and the list have the same parts.
#[test]
fn all_kinds_of_parts_are_shown() {
    let of = |prompt: &str| json!({ "prompt": prompt });
    let write = json!({ "call": { "name": "write", "input": { "filePath": "new.txt", "content": "new\n" } } });
    let busy = json!({ "class": "overloaded", "message": "busy", "status": 529, "retry_after": 0 });
    let site = Site::scripted(&script(json!([
        { "match": { "purpose": "compaction" }, "parts": [{ "text": "It went well." }] },
        { "match": of("look around"), "parts": [{ "text": "I looked." }] },
        { "match": { "result": "I looked." }, "parts": [{ "text": "They looked." }] },
        { "match": { "result": "new.txt" }, "parts": [{ "text": "Written." }] },
        { "match": of("go"), "faults": [busy], "parts": [{ "reasoning": "hmm" }, { "text": "I write." }, write] },
    ])))
    .setting("/permission", json!("allow"))
    .setting("/snapshot", json!(true));
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    let path = format!("/session/{session}");
    let picture = "data:image/png;base64,iVBORw0KGgo=";
    let parts = json!({ "parts": [
        { "type": "text", "text": "go" },
        { "type": "file", "mime": "image/png", "filename": "dot.png", "url": picture },
    ] });
    server.post(&format!("{path}/message"), parts).ok();
    let subtask = json!({ "type": "subtask", "prompt": "look around", "description": "Look", "agent": "general" });
    server.post(&format!("{path}/message"), json!({ "parts": [subtask] })).ok();
    let model = json!({ "providerID": "double", "modelID": "m", "instructions": "Keep names." });
    assert_eq!(server.post(&format!("{path}/summarize"), model).ok(), json!(true));
    let asked = only(&site.exported(), "compaction.asked")["data"]["instructions"].clone();
    assert_eq!(asked, "Keep names.");

    let listed = server.get(&format!("{path}/message")).ok();
    let mut kinds: BTreeMap<String, Value> = BTreeMap::new();
    for message in listed.as_array().unwrap() {
        for part in message["parts"].as_array().unwrap() {
            assert_eq!(part["messageID"], message["info"]["id"], "{part}");
            assert_eq!(part["sessionID"], session.as_str(), "{part}");
            kinds.entry(part["type"].as_str().unwrap().to_owned()).or_insert_with(|| part.clone());
        }
    }
    let known: Vec<&str> = kinds.keys().map(String::as_str).collect();
    assert_eq!(
        known,
        [
            "compaction", "file", "patch", "reasoning", "retry", "step-finish", "step-start",
            "subtask", "text", "tool"
        ]
    );
    let member =
        |kind: &str, pointer: &str| kinds[kind].pointer(pointer).cloned().unwrap_or_default();
    for (kind, pointer, expected) in [
        ("compaction", "/auto", json!(false)),
        ("file", "/filename", json!("dot.png")),
        ("file", "/url", json!(picture)),
        ("reasoning", "/text", json!("hmm")),
        ("retry", "/attempt", json!(1)),
        ("retry", "/error/name", json!("APIError")),
        ("retry", "/error/data/isRetryable", json!(true)),
        ("step-finish", "/reason", json!("tool-calls")),
        ("subtask", "/prompt", json!("look around")),
        ("subtask", "/agent", json!("general")),
        ("tool", "/state/status", json!("completed")),
    ] {
        assert_eq!(member(kind, pointer), expected, "{kind}{pointer}: {}", kinds[kind]);
    }
    assert!(member("patch", "/files/0").as_str().unwrap().ends_with("new.txt"), "{kinds:#?}");
    assert!(member("patch", "/hash").is_string() && member("reasoning", "/time/end").is_u64());
    assert_eq!(member("step-start", "/snapshot"), member("patch", "/hash"));
    assert!(member("step-finish", "/snapshot").is_string(), "{kinds:#?}");
    assert_ne!(member("step-finish", "/snapshot"), member("step-start", "/snapshot"));
    assert!(member("step-finish", "/tokens/output").is_u64(), "{kinds:#?}");

    let frames = feed.until(|frame| frame.kind == "session.compacted");
    let mut sent: BTreeMap<String, Value> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.kind == "message.part.updated") {
        let part = &frame.properties["part"];
        sent.insert(part["id"].as_str().unwrap().to_owned(), part.clone());
    }
    for message in listed.as_array().unwrap() {
        for part in message["parts"].as_array().unwrap() {
            // a summary's text may end behind its session
            if message["info"]["summary"] != true {
                assert_eq!(sent[part["id"].as_str().unwrap()], *part);
            }
        }
    }
    server.end();
}

/// A kill in the middle of a turn: the feed goes on exactly after the last frame that a client
/// has, the turn is shown as cut off, and can be resumed.
#[test]
fn the_feed_goes_on_after_a_kill() {
    let site = Site::scripted(&two_steps("sleep 30")).setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let restart = |server: Served| {
        server.kill();
        Served::start(&site)
    };
    feed_goes_on(server, restart);
}

/// An end in good order in the middle of a turn is no other: the turn can be resumed, and clients connect again.
#[test]
fn the_feed_goes_on_after_an_end_in_good_order() {
    let site = Site::scripted(&two_steps("sleep 30")).setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let restart = |server: Served| {
        server.end();
        Served::start(&site)
    };
    feed_goes_on(server, restart);
    site.assert_sound();
}

/// A client of a second server on the store comes back to it when the first one, which had the store,
/// is killed.
#[test]
fn the_feed_goes_on_when_a_second_server_takes_over() {
    let site = Site::scripted(&two_steps("sleep 30")).setting("/permission", json!("allow"));
    let first = Served::start(&site);
    let second = Served::start(&site);
    let take_over = |second: Served| {
        first.kill();
        second
    };
    feed_goes_on(second, take_over);
}

fn feed_goes_on(server: Served, end: impl FnOnce(Served) -> Served) {
    let session = server.session();
    let mut feed = server.feed(None);
    let parts = json!({ "parts": [{ "type": "text", "text": "go" }] });
    assert_eq!(server.post(&format!("/session/{session}/prompt_async"), parts).status, 204);
    let is_running = |frame: &SseFrame| frame.properties["part"]["state"]["status"] == "running";
    let before = feed.until(is_running);
    let server = end(server);
    // the connection may have carried more
    let before: Vec<SseFrame> =
        before.into_iter().chain(std::iter::from_fn(|| feed.next())).collect();
    assert!(!feed.is_whole, "OpenCode's SDK connects again only if the feed is cut off");

    let after = &before.last().unwrap().id;
    let mut feed = server.feed(Some(after));
    let cut_off = feed.until(is_idle);
    let stopped =
        cut_off.iter().find(|frame| frame.properties["part"]["state"]["status"] == "error");
    assert!(stopped.is_some(), "{cut_off:#?}");
    assert_eq!(server.get("/session/status").ok(), json!({}));
    assert_eq!(server.post(&format!("/session/{session}/resume"), json!({})).ok(), json!(true));
    let resumed = feed.until(is_idle);
    let text: String = resumed
        .iter()
        .filter(|frame| frame.kind == "message.part.delta")
        .filter_map(|frame| frame.properties["delta"].as_str())
        .collect();
    assert_eq!(text, "All done.");

    // a client that reads everything again gets the same frames, each once
    let first = before.iter().find(|frame| frame.id.contains('-')).unwrap();
    let again = server.feed(Some(&first.id)).until(|frame| Some(frame) == resumed.last());
    let seen = |frames: &[&SseFrame]| -> Vec<(String, Value)> {
        frames.iter().map(|frame| (frame.id.clone(), frame.properties.clone())).collect()
    };
    let lived: Vec<&SseFrame> = before
        .iter()
        .skip_while(|frame| frame.id != first.id)
        .skip(1)
        .chain(&cut_off[1..])
        .chain(&resumed)
        .collect();
    assert_eq!(seen(&again.iter().skip(1).collect::<Vec<_>>()), seen(&lived));
    let ids: HashSet<&String> = lived.iter().map(|frame| &frame.id).collect();
    assert_eq!(ids.len(), lived.len(), "each frame has an id of its own");
    server.end();
}

/// After a kill nothing runs by itself. A prompt goes on, and the model learns what became of the call that ran.
#[test]
fn a_prompt_goes_on_with_a_session_that_was_cut_off() {
    let command = "echo ran >> ran.txt; touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let bash = json!([{ "call": { "name": "bash", "input": { "command": command } } }]);
    let site = Site::scripted(&script(json!([
        { "match": { "prompt": "first" }, "parts": bash },
        { "match": { "prompt": "second" }, "parts": [{ "text": "The second." }] },
    ])))
    .setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let session = server.session();
    server.begin(&session, "first");
    common::wait_until("its command runs", || site.project().join("ready").exists());
    server.kill();
    let server = Served::start(&site);
    let path = format!("/session/{session}/message");
    let cut_off = server.get(&path).ok();
    assert_eq!(cut_off[1]["info"]["error"]["name"], "MessageAbortedError", "{cut_off}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(server.get(&path).ok(), cut_off, "nothing runs by itself");
    let mut feed = server.feed_of_directory();
    feed.next().expect("it is greeted");
    let answer = server.prompt(&session, "second");
    assert!(answer.to_string().contains("The second."), "{answer}");
    // `opencode run` takes the first end for that of its prompt
    let frames = feed.until(is_idle);
    let has = |kind: &str, text: &str| {
        frames.iter().any(|frame| frame.kind == kind && frame.properties.to_string().contains(text))
    };
    assert!(has("message.part.updated", "The second.") && !has("session.error", ""), "{frames:#?}");
    let messages = server.get(&path).ok();
    assert_eq!(messages.as_array().unwrap().len(), 4, "{messages}");
    assert!(messages[1].to_string().contains("its outcome is unknown"), "{messages}");
    assert_eq!(site.text("ran.txt"), "ran\n", "no effect happens twice");
    server.end();
    site.assert_sound();
}

/// A client that connects later gets the open question, answers it, and the call runs.
/// A call that repeats itself is asked about with its tool and its arguments.
#[test]
fn a_question_about_a_circle_names_the_call() {
    let again = json!({ "call": { "name": "bash", "input": { "command": "true" } } });
    let site = Site::scripted(&script(json!([{ "parts": [again] }])))
        .setting("provider/double/options/script/on_end", json!("repeat"));
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    server.begin(&session, "go");
    let asked = feed.until(|frame| frame.kind == "permission.asked").pop().unwrap().properties;
    assert_eq!(asked["permission"], "doom_loop");
    assert_eq!(asked["metadata"], json!({ "tool": "bash", "input": { "command": "true" } }));
    server.end();
}

#[test]
fn an_open_permission_is_shown_to_who_comes_later() {
    let site = Site::scripted(&two_steps("echo hi > made")).setting("/permission", json!("ask"));
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    let parts = json!({ "parts": [{ "type": "text", "text": "go" }] });
    assert_eq!(server.post(&format!("/session/{session}/prompt_async"), parts).status, 204);
    let asked = feed.until(|frame| frame.kind == "permission.asked").pop().unwrap().properties;
    let later = server.feed(None).until(|frame| frame.kind == "permission.asked").pop().unwrap();
    assert_eq!(later.properties, asked);
    assert_eq!(server.get("/permission").ok(), json!([asked]));
    let id = asked["id"].as_str().unwrap();
    assert_eq!(
        server.post("/permission/per_nothing/reply", json!({ "reply": "once" })).status,
        404
    );
    assert_eq!(
        server.post(&format!("/permission/{id}/reply"), json!({ "reply": "once" })).ok(),
        json!(true)
    );
    let replied = feed.until(is_idle);
    assert!(replied.iter().any(|frame| frame.kind == "permission.replied"), "{replied:#?}");
    assert_eq!(site.text("made"), "hi\n");
    assert_eq!(
        server.post(&format!("/permission/{id}/reply"), json!({ "reply": "once" })).status,
        404
    );
    server.end();
}

/// Ids that a client gives are kept, and the answer sorts after them.
#[test]
fn ids_of_clients_are_kept() {
    let site = Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])));
    let server = Served::start(&site);
    let session = server.session();
    let path = format!("/session/{session}/message");
    let (message, part) = ("msg_ffff00000001AAAAAAAAAAAAAA", "prt_ffff00000002AAAAAAAAAAAAAA");
    let prompt = json!({
        "messageID": message,
        "parts": [{ "id": part, "type": "text", "text": "go", "metadata": { "a": 1 } }],
    });
    let answer = server.post(&path, prompt.clone()).ok();
    assert_eq!(answer["info"]["parentID"], message);
    let messages = server.get(&path).ok();
    assert_eq!(messages[0]["info"]["id"], message);
    assert_eq!(
        (&messages[0]["parts"][0]["id"], &messages[0]["parts"][0]["metadata"]),
        (&json!(part), &json!({ "a": 1 }))
    );
    // a repeated prompt runs nothing twice
    server.post(&path, prompt).ok();
    assert_eq!(server.get(&path).ok().as_array().unwrap().len(), 2);
    let wrong = json!({ "messageID": "../x", "parts": [{ "type": "text", "text": "go" }] });
    assert_eq!(server.post(&path, wrong).status, 400);
    server.end();
}

/// A client that has drawn its prompt already finds it again by its id and by the time in its ids, as
/// OpenCode's web app does. A clock that is wrong does not count.
#[test]
fn a_prompt_has_the_time_that_its_client_gave_it() {
    let site = Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
        .setting("provider/double/options/script/on_end", json!("repeat"));
    let server = Served::start(&site);
    let session = server.session();
    let path = format!("/session/{session}/message");
    let since = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let now = || u64::try_from(since().as_millis()).unwrap();
    let id = |prefix: &str, millis: u64| {
        format!("{prefix}_{:012x}AAAAAAAAAAAAAA", (millis << 12 | 1) & ((1 << 48) - 1))
    };
    let mut feed = server.feed(None);
    for (behind, counts) in [(0, true), (3, true), (3_600_000, false)] {
        let before = now();
        let (message, part) = (before - behind - 2, before - behind);
        let body = json!({ "messageID": id("msg", message), "parts": [
            { "id": id("prt", part), "type": "text", "text": "go" },
        ] });
        server.post(&path, body).ok();
        let is_it = |frame: &SseFrame| frame.properties["info"]["id"] == id("msg", message);
        let sent = feed.until(is_it).pop().unwrap().properties["info"].clone();
        let created = sent["time"]["created"].as_u64().unwrap();
        match counts {
            true => assert_eq!(created, part),
            false => assert!((before..=now()).contains(&created), "{created}, {before}"),
        }
        let messages = server.get(&path).ok();
        let mut listed = messages.as_array().unwrap().iter().map(|message| &message["info"]);
        assert_eq!(listed.find(|info| info["id"] == sent["id"]), Some(&sent));
        // the app sorts by time, too
        let times = messages.as_array().unwrap().iter();
        let times = times.map(|message| message["info"]["time"]["created"].as_u64().unwrap());
        assert!(times.is_sorted(), "{messages}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.end();
}

#[test]
fn sessions_are_renamed_forked_and_removed() {
    let site = Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])));
    let server = Served::start(&site);
    let session = server.session();
    server.prompt(&session, "go");
    let path = format!("/session/{session}");
    let json_type = [("content-type", "application/json")];
    let renamed = server.request("PATCH", &path, &json_type, Some(r#"{"title":"Mine"}"#)).ok();
    assert_eq!(renamed["title"], "Mine");
    let fork = server.post(&format!("{path}/fork"), json!({})).ok();
    assert_ne!(fork["id"], session.as_str());
    let of_fork = server.get(&format!("/session/{}/message", fork["id"].as_str().unwrap())).ok();
    assert_eq!(of_fork.as_array().unwrap().len(), 2);
    let server = titles_of_forks(&site, server, &fork);
    // before the first message there is nothing to share
    let first = server.get(&format!("{path}/message")).ok()[0]["info"]["id"].clone();
    let empty = server.post(&format!("{path}/fork"), json!({ "messageID": first })).ok();
    assert_eq!(empty["directory"], renamed["directory"]);
    let empty = format!("/session/{}", empty["id"].as_str().unwrap());
    assert_eq!(server.get(&format!("{empty}/message")).ok(), json!([]));
    assert_eq!(server.request("DELETE", &empty, &[], None).ok(), json!(true));
    assert_eq!(
        server.request("DELETE", &path, &[], None).status,
        400,
        "the fork shares its events"
    );
    let fork = format!("/session/{}", fork["id"].as_str().unwrap());
    assert_eq!(server.request("DELETE", &fork, &[], None).ok(), json!(true));
    assert_eq!(server.request("DELETE", &path, &[], None).ok(), json!(true));
    assert_eq!(server.get(&path).status, 404);
    assert_eq!(server.get("/session").ok(), json!([]));
    server.end();
}

/// A fork has its number until it is renamed, in all answers and after a restart.
fn titles_of_forks(site: &Site, server: Served, fork: &Value) -> Served {
    let id = fork["id"].as_str().unwrap();
    let path = format!("/session/{id}");
    let titles = |server: &Served| {
        let listed = || {
            let listed = server.get("/session").ok();
            let mut all = listed.as_array().unwrap().iter();
            all.find(|one| one["id"] == id).unwrap()["title"].clone()
        };
        // before and after it is in memory
        let before = listed();
        let shown = server.get(&path).ok()["title"].clone();
        assert_eq!((&before, &listed()), (&shown, &shown));
        shown
    };
    assert_eq!(fork["title"], "Mine (fork #1)");
    assert_eq!(titles(&server), "Mine (fork #1)");
    let again = server.post(&format!("{path}/fork"), json!({})).ok();
    assert_eq!(again["title"], "Mine (fork #2)");
    let rename = json!({ "title": "Its own" }).to_string();
    let json_type = [("content-type", "application/json")];
    assert_eq!(server.request("PATCH", &path, &json_type, Some(&rename)).ok()["title"], "Its own");
    assert_eq!(titles(&server), "Its own");
    let of_renamed = server.post(&format!("{path}/fork"), json!({})).ok();
    assert_eq!(of_renamed["title"], "Its own (fork #3)");
    server.end();
    let server = Served::start(site);
    assert_eq!(titles(&server), "Its own");
    let listed = site.run(&["sessions", "--format", "json"]).ok().events();
    let mut titles: Vec<&str> = listed.iter().map(|one| one["title"].as_str().unwrap()).collect();
    titles.sort_unstable();
    assert_eq!(titles, ["Its own", "Its own (fork #3)", "Mine", "Mine (fork #2)"]);
    for fork in [of_renamed, again] {
        let path = format!("/session/{}", fork["id"].as_str().unwrap());
        assert_eq!(server.request("DELETE", &path, &[], None).ok(), json!(true));
    }
    server
}

#[test]
fn a_session_that_the_command_line_removes_leaves_the_server() {
    let site = Site::scripted(&script(json!([says("Done.")])))
        .setting("provider/double/options/script/on_end", json!("repeat"));
    let served = Served::start(&site);
    let (first, second) = (served.session(), served.session());
    for session in [&first, &second] {
        served.prompt(session, "go");
    }
    let listed = site.run(&["sessions", "--format", "json"]).ok().events();
    assert_eq!(listed.len(), 2);
    let newest = listed[0]["id"].as_str().unwrap();
    // each takes the ids of the other
    assert_eq!(served.get(&format!("/session/{newest}")).ok()["id"], second.as_str());
    let replayed = [newest, &second].map(|id| site.run(&["replay", id]).ok().stdout);
    assert_eq!(replayed[0], replayed[1]);
    let mut feed = served.feed(None);
    feed.next().expect("it is greeted");
    site.run(&["sessions", "rm", newest]).ok();
    let deleted = feed.until(|frame| frame.kind == "session.deleted").pop().unwrap().properties;
    assert_eq!(deleted["info"]["id"], second.as_str(), "{deleted}");
    let left = served.get("/session").ok();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["id"], first.as_str());
    assert_eq!(served.get(&format!("/session/{second}")).status, 404);
    site.run(&["replay", newest]).with(2);
    served.prompt(&first, "again");
    served.end();
    site.run(&["check", "last"]).ok();
}

#[test]
fn a_prompt_with_a_schema_is_answered_with_an_object_that_fits_it() {
    let gives = |answer: Value| common::call("StructuredOutput", answer);
    let replies = [json!({ "n": "1" }), json!({ "n": 1 }), json!({}), json!({})].map(gives);
    let site = Site::scripted(&script(json!(replies)));
    let server = Served::start(&site);
    let session = server.session();
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    let prompt = |retries: u32| {
        let format = json!({ "type": "json_schema", "schema": schema, "retryCount": retries });
        let body = json!({ "parts": [{ "type": "text", "text": "go" }], "format": format });
        server.post(&format!("/session/{session}/message"), body).ok()
    };
    let answer = prompt(1);
    assert_eq!(answer["info"]["structured"], json!({ "n": 1 }), "{answer}");
    assert_eq!(answer["info"]["error"], Value::Null);
    let answer = prompt(1);
    assert_eq!(answer["info"]["structured"], Value::Null, "{answer}");
    let error = &answer["info"]["error"];
    assert_eq!(
        (&error["name"], &error["data"]["retries"]),
        (&json!("StructuredOutputError"), &json!(1))
    );
    assert!(error["data"]["message"].as_str().unwrap().contains('n'), "{error}");
    site.assert_sound();
}

/// The server keeps the heads of all sessions in memory.
#[test]
fn lists_follow_new_renamed_and_removed_sessions() {
    let site = Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])));
    let server = Served::start(&site);
    let listed = |query: &str| -> Vec<String> {
        let listed = server.get(&format!("/session{query}")).ok();
        let ids = listed.as_array().unwrap().iter();
        ids.map(|known| known["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = server.session();
    assert_eq!(listed(""), [first.as_str()]);
    let second = server.session();
    assert_eq!(listed("").len(), 2);
    let title = json!({ "title": "Special" }).to_string();
    let path = format!("/session/{first}");
    let headers = [("content-type", "application/json")];
    assert_eq!(server.request("PATCH", &path, &headers, Some(&title)).status, 200);
    assert_eq!(listed("?search=special"), [first.as_str()]);
    assert_eq!(server.request("DELETE", &path, &[], None).ok(), json!(true));
    assert_eq!(listed(""), [second.as_str()]);
    assert!(listed("?search=special").is_empty());
    server.end();
}

/// A client puts sessions away, which lists of all directories leave out, and sees the rules that it gave to a session.
#[test]
fn a_session_is_put_away_and_shows_its_rules() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    let server = Served::start(&site);
    let rule = |pattern: &str, action: &str| json!({ "permission": "bash", "pattern": pattern, "action": action });
    let made = server.post("/session", json!({ "permission": [rule("*", "ask")] })).ok();
    assert_eq!(made["permission"], json!([rule("*", "ask")]));
    let id = made["id"].as_str().unwrap();
    let change = |server: &Served, body: Value| {
        let headers = [("content-type", "application/json")];
        server.request("PATCH", &format!("/session/{id}"), &headers, Some(&body.to_string()))
    };
    let listed = |server: &Served, path: &str| {
        let listed = server.get(path).ok();
        listed.as_array().unwrap().iter().map(|one| one["time"]["archived"].clone()).collect()
    };
    let lists = |server: &Served| -> [Vec<Value>; 3] {
        ["/session", "/experimental/session", "/experimental/session?archived=true"]
            .map(|path| listed(server, path))
    };
    assert_eq!(lists(&server), [(); 3].map(|()| vec![Value::Null]));

    let mut feed = server.feed(None);
    let rules = json!([rule("*", "ask"), rule("rm *", "deny")]);
    let ruled = change(&server, json!({ "permission": [rule("rm *", "deny")] })).ok();
    assert_eq!(ruled["permission"], rules, "the new ones follow the others");
    let at = 1_790_000_000_000_u64;
    let put_away = change(&server, json!({ "time": { "archived": at } })).ok();
    assert_eq!((&put_away["time"]["archived"], &put_away["permission"]), (&json!(at), &rules));
    feed.until(|frame| {
        frame.kind == "session.updated" && frame.properties["info"]["time"]["archived"] == at
    });
    assert_eq!(lists(&server), [vec![json!(at)], vec![], vec![json!(at)]]);
    server.prompt(id, "go");
    for wrong in [json!(-1), json!("now"), json!(1.5)] {
        assert_eq!(change(&server, json!({ "time": { "archived": wrong } })).status, 400);
    }
    let many: Vec<Value> = (0..1_001).map(|n| rule(&n.to_string(), "deny")).collect();
    assert_eq!(change(&server, json!({ "permission": many })).status, 400);
    server.end();

    let server = Served::start(&site);
    assert_eq!(server.get(&format!("/session/{id}")).ok()["permission"], rules);
    assert_eq!(lists(&server), [vec![json!(at)], vec![], vec![json!(at)]]);
    let fork = server.post(&format!("/session/{id}/fork"), json!({})).ok();
    assert_eq!((&fork["time"]["archived"], &fork["permission"]), (&Value::Null, &rules));
    assert_eq!(
        change(&server, json!({ "time": { "archived": null } })).ok()["time"].get("archived"),
        None
    );
    assert_eq!(listed(&server, "/experimental/session").len(), 2);
    server.end();
}

/// Clients hear of the files that calls and commands have changed, of slash commands, and of what a revert puts back.
/// A client that was away gets these events too.
#[test]
fn changed_files_and_commands_are_told() {
    let write = call("write", json!({ "filePath": "new.txt", "content": "new\n" }));
    let patch = "*** Begin Patch\n*** Delete File: old.txt\n*** Update File: new.txt\n@@\n-new\n+newer\n*** End Patch";
    let patch = call("apply_patch", json!({ "patchText": patch }));
    let replies = json!([write, patch, bash("echo x > made.txt"), says("Done.")]);
    let site = Site::scripted(&script(replies))
        .setting("/permission", json!("allow"))
        .setting("/snapshot", json!(true))
        .setting("/command", json!({ "tidy": { "template": "Tidy up $1" } }));
    site.file("old.txt", "old\n");
    let server = Served::start(&site);
    let mut feed = server.feed(None);
    let session = server.session();
    let path = format!("/session/{session}");
    let tidy = json!({ "command": "tidy", "arguments": "the shed" });
    let answer = server.post(&format!("{path}/command"), tidy).ok();
    let frames = feed.until(|frame| frame.kind == "command.executed");
    let executed = json!({
        "name": "tidy", "sessionID": session, "arguments": "the shed", "messageID": answer["info"]["id"],
    });
    assert_eq!(frames.last().unwrap().properties, executed);
    assert_eq!(frames.iter().filter(|frame| frame.kind == "project.updated").count(), 1);

    let file = |name: &str| json!(site.project().join(name));
    let told = |frames: &[SseFrame]| -> Vec<(Value, Value)> {
        let of_files = frames.iter().filter(|frame| frame.kind.starts_with("file."));
        of_files
            .map(|frame| (frame.properties["file"].clone(), frame.properties["event"].clone()))
            .collect()
    };
    let expected = [
        ("new.txt", Value::Null),
        ("new.txt", json!("add")),
        ("old.txt", json!("unlink")),
        ("new.txt", Value::Null),
        ("new.txt", json!("change")),
        ("made.txt", json!("add")),
    ];
    let expected = expected.map(|(name, event)| (file(name), event));
    assert_eq!(told(&frames), expected);
    let place = |is_it: &dyn Fn(&SseFrame) -> bool| frames.iter().position(is_it).unwrap();
    let written = place(&|frame| frame.properties["part"]["state"]["status"] == "completed");
    assert!(place(&|frame| frame.kind == "file.edited") < written);
    let first = frames.iter().find(|frame| frame.id.contains('-')).unwrap();
    let again = server.feed(Some(&first.id)).until(|frame| frame.kind == "command.executed");
    assert_eq!(told(&again), expected);

    let listed = server.get(&format!("{path}/message")).ok();
    let revert = |body: Value| server.post(&format!("{path}/revert"), body);
    let reverted = revert(json!({ "messageID": listed[0]["info"]["id"] })).ok()["revert"].clone();
    let diff = reverted["diff"].as_str().unwrap();
    assert!(
        diff.contains("--- a/new.txt\n+++ /dev/null\n") && diff.contains("+++ b/old.txt"),
        "{diff}"
    );
    assert!(reverted["snapshot"].is_string(), "{reverted}");
    feed.until(|frame| frame.properties == json!({ "file": file("old.txt"), "event": "add" }));
    assert_eq!(server.post(&format!("{path}/unrevert"), json!({})).ok().get("revert"), None);
    // the step of the command, by its part
    let command = &listed[3];
    let part = json!({ "messageID": listed[0]["info"]["id"], "partID": command["parts"][1]["id"] });
    let reverted = revert(part).ok()["revert"].clone();
    assert_eq!(reverted["messageID"], command["info"]["id"]);
    assert!(!reverted["diff"].as_str().unwrap().contains("new.txt"), "{reverted}");
    assert!(!site.project().join("made.txt").exists() && site.project().join("new.txt").exists());
    let nothing = json!({ "messageID": listed[0]["info"]["id"], "partID": "prt_x" });
    assert_eq!(revert(nothing).status, 404);
    server.end();
}

/// Clients are told that the project is on another branch, also if a person has checked it out.
#[test]
fn another_branch_is_told() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    let server = Served::start(&site);
    assert_eq!(server.get("/vcs").ok(), json!({ "branch": "main" }));
    let branch = |frame: &SseFrame| frame.kind == "vcs.branch.updated";
    let (mut of_all, mut of_one) = (server.feed(None), server.feed_of_directory());
    for (head, shown) in [
        ("ref: refs/heads/other\n", json!({ "branch": "other" })),
        ("0123456789012345678901234567890123456789\n", json!({})),
    ] {
        site.file(".git/HEAD", head);
        for feed in [&mut of_all, &mut of_one] {
            assert_eq!(feed.until(branch).last().unwrap().properties, shown);
        }
        assert_eq!(server.get("/vcs").ok(), shown);
    }
    server.end();
}

/// Keeps the processors busy until it is dropped.
struct BusyLoops(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl BusyLoops {
    fn start(count: usize) -> Self {
        let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        for _ in 0..count {
            let over = std::sync::Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The frames of a prompt have the order that clients rely on, however busy the machine is.
#[test]
fn frames_of_a_prompt_keep_their_order_on_a_busy_machine() {
    const PROMPTS: usize = 8;
    let texts = ["one ", "two ", "three "].map(|text| json!({ "text": text }));
    let call = json!({ "call": { "name": "bash", "input": { "command": "echo hi" } } });
    let first = json!({ "parts": [texts[0], call, texts[1], call] });
    let replies: Vec<Value> =
        (0..PROMPTS).flat_map(|_| [first.clone(), json!({ "parts": [texts[2]] })]).collect();
    let site = Site::scripted(&script(json!(replies))).setting("/permission", json!("allow"));
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    let busy = BusyLoops::start(6);
    for _ in 0..PROMPTS {
        let answer = server.prompt(&session, "go");
        let mut order = FrameOrder::default();
        let frames = feed.until(|frame| is_idle(frame) && frame.id.contains('-'));
        // the state on connect, and the end of the turn before
        let of_prompt = frames.iter().skip_while(|frame| frame.kind != "message.updated");
        for frame in of_prompt {
            if let Err(wrong) = order.next(frame) {
                panic!("{wrong}: {frame:#?} among {frames:#?}");
            }
        }
        assert_eq!(order.last["id"], answer["info"]["id"]);
    }
    drop(busy);
    server.end();
}

/// Checks the order of a turn's frames: a prompt, then replies, each from its first part to its end.
#[derive(Default)]
struct FrameOrder {
    is_busy: bool,
    /// The prompt, or the last reply, as it was sent last.
    last: Value,
    /// The parts of the last reply: how far each is, and the text that was sent of it.
    parts: BTreeMap<String, (usize, String)>,
    has_finished: bool,
}

impl FrameOrder {
    fn next(&mut self, frame: &SseFrame) -> Result<(), &'static str> {
        const STATES: [&str; 4] = ["pending", "running", "completed", "error"];
        let check = |holds: bool, wrong| if holds { Ok(()) } else { Err(wrong) };
        let (properties, part) = (&frame.properties, &frame.properties["part"]);
        let is_over = self.last["time"]["completed"].is_u64();
        match frame.kind.as_str() {
            "session.status" => {
                let is_busy = properties["status"]["type"] == "busy";
                check(is_busy || is_over, "idle before the end")?;
                self.is_busy = is_busy;
            }
            "session.idle" => check(!self.is_busy && is_over, "a turn's end without its parts")?,
            "message.updated" => {
                let info = &properties["info"];
                if info["id"] != self.last["id"] {
                    let is_reply = info["role"] == "assistant";
                    check(is_reply == self.is_busy, "the status follows the prompt")?;
                    check(
                        !is_reply || is_over || self.last["role"] == "user",
                        "two replies at once",
                    )?;
                    (self.parts, self.has_finished) = (BTreeMap::new(), false);
                }
                check(
                    info["time"]["completed"].is_null() || self.has_finished,
                    "an end without its step",
                )?;
                self.last = info.clone();
            }
            "message.part.updated" => {
                check(
                    part["messageID"] == self.last["id"] && !is_over,
                    "a part of another message",
                )?;
                let id = part["id"].as_str().unwrap().to_owned();
                let is_first = self.parts.is_empty();
                let known = self.parts.contains_key(&id);
                let (at, sent) = self.parts.entry(id).or_default();
                match part["type"].as_str().unwrap() {
                    "step-start" => check(is_first, "a step that begins late")?,
                    "text" if self.last["role"] == "assistant" => {
                        check(known || part["text"] == "", "a text that does not begin empty")?;
                        let text = part["text"].as_str().unwrap().trim_end();
                        check(!known || text == sent.trim_end(), "other text than its pieces")?;
                        *at = if known { STATES.len() } else { 0 };
                    }
                    "tool" => {
                        let state =
                            STATES.iter().position(|state| part["state"]["status"] == *state);
                        let state = state.unwrap();
                        check(
                            if known { state >= *at } else { state == 0 },
                            "a state out of order",
                        )?;
                        *at = state;
                    }
                    "step-finish" => {
                        self.has_finished = true;
                        let open =
                            self.parts.values().filter(|(at, sent)| *at < 2 && !sent.is_empty());
                        check(open.count() == 0, "a text is still open")?;
                    }
                    _ => {}
                }
            }
            "message.part.delta" => {
                let part = self.parts.get_mut(properties["partID"].as_str().unwrap());
                let (_, sent) = part.ok_or("a piece of an unknown part")?;
                sent.push_str(properties["delta"].as_str().unwrap());
            }
            _ => {}
        }
        Ok(())
    }
}
