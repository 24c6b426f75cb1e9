//! Leftfold's own methods for editors beside the protocol's, and forks under the protocol's name
//! for them.
#![allow(clippy::needless_pass_by_value, reason = "a test hands over what it has just made")]

use common::{Editor, Site, all, bash, call, kinds, only, says, script};
use serde_json::{Value, json};

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

fn asked(editor: &mut Editor, method: &str, params: Value) -> Value {
    let id = editor.ask(method, params);
    editor.result(id)
}

fn fork(editor: &mut Editor, site: &Site, session: &str, meta: Value) -> Value {
    let params =
        json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [], "_meta": meta });
    let id = editor.ask("session/fork", params);
    editor.answer(id)
}

#[test]
fn the_methods_beside_the_protocols_are_named() {
    let site = Site::scripted(&script(json!([])));
    let mut editor = Editor::raw(&site, &[]);
    let initialized = asked(&mut editor, "initialize", json!({ "protocolVersion": 1 }));
    let capabilities = &initialized["agentCapabilities"];
    assert_eq!(capabilities["sessionCapabilities"]["fork"], json!({}));
    let methods = capabilities["_meta"]["leftfold"]["methods"].as_array().unwrap();
    for name in ["watch", "fork", "revert", "verify", "why"] {
        assert!(methods.contains(&json!(format!("_leftfold/{name}"))), "{name}: {methods:?}");
    }
    editor.leave();
}

#[test]
fn a_session_is_followed_verified_and_explained() {
    let site = Site::scripted(&script(json!([bash("true"), says("Done.")])))
        .setting("permission/bash", json!({ "*": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    let why = asked(&mut editor, "_leftfold/why", json!({ "session": session }));
    assert_eq!((&why["state"], &why["node"]), (&json!("running"), &json!(editor.live.id())));
    assert_eq!(
        (&why["waits"][0]["kind"], &why["waits"][0]["owner"]),
        (&json!("question"), &json!("a person"))
    );
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let why = asked(&mut editor, "_leftfold/why", json!({ "session": session }));
    assert_eq!((&why["state"], &why["waits"]), (&json!("idle"), &json!([])));

    let verified = asked(&mut editor, "_leftfold/verify", json!({ "session": session }));
    assert_eq!(verified["divergences"], json!([]));
    asked(&mut editor, "_leftfold/watch", json!({ "session": session, "from": 3 }));
    let of = |message: &Value| message["method"] == "_leftfold/event";
    let last = editor.until(|message| of(message) && message["params"]["type"] == "turn.ended");
    let told: Vec<u64> = editor
        .got
        .iter()
        .filter(|message| of(message) && message["params"].get("payload").is_none())
        .map(|message| message["params"]["seq"].as_u64().unwrap())
        .collect();
    let end = last["params"]["seq"].as_u64().unwrap();
    assert_eq!(told, (3..=end).collect::<Vec<_>>());
    assert_eq!(verified["events"], end);
    let nobody = editor.ask("_leftfold/verify", json!({ "session": "nobody" }));
    assert_eq!(editor.error(nobody)["code"], -32602);
    editor.leave();
}

#[test]
fn a_retry_is_seen_before_any_text_and_the_status_names_the_next_attempt() {
    let busy = json!({ "class": "overloaded", "message": "busy", "retry_after": 1500 });
    let replies = json!([{ "faults": [busy], "parts": [{ "text": "Hello." }] }]);
    let site = Site::scripted(&script(replies));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    asked(&mut editor, "_leftfold/watch", json!({ "session": session, "from": 1, "status": true }));
    let prompt = editor.prompt(&session, "hi");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let note = "\n[retrying in 2 s, attempt 2: busy]\n\n";
    assert_eq!(editor.text(&session, "agent_message_chunk"), format!("{note}Hello."));
    let told = |editor: &Editor| -> Vec<Value> {
        let told = editor.got.iter().filter(|message| message["method"] == "_leftfold/status");
        told.map(|message| message["params"].clone()).collect()
    };
    let is_last =
        |message: &Value| message["params"]["status"] == "idle" && message["params"]["seq"] != 0;
    if !told(&editor).iter().any(|params| is_last(&json!({ "params": params }))) {
        editor.until(is_last);
    }
    let all = told(&editor);
    let status = |params: &Value| params["status"].as_str().unwrap().to_owned();
    assert_eq!(
        all.iter().map(status).collect::<Vec<_>>(),
        ["idle", "busy", "retry", "busy", "idle"]
    );
    let events = site.exported();
    let retry = only(&events, "model.retry_scheduled");
    let since = only(&events, "turn.prompted")["at"].clone();
    let expected = json!({
        "status": "retry", "session": session, "seq": retry["seq"], "since": since, "attempt": 2,
        "message": "busy", "next": retry["until"],
    });
    assert_eq!(all[2], expected);
    // a client that begins later knows the status from the start
    let from = retry["seq"].as_u64().unwrap() + 1;
    asked(
        &mut editor,
        "_leftfold/watch",
        json!({ "session": session, "from": from, "status": true }),
    );
    editor.until(|message| is_last(message));
    let later: Vec<Value> = told(&editor).into_iter().skip(all.len()).collect();
    assert_eq!(later[0], expected);
    assert_eq!(later.iter().map(status).collect::<Vec<_>>(), ["retry", "busy", "idle"]);
    editor.leave();
}

#[test]
fn changed_files_and_removed_messages_are_notifications() {
    let busy = json!({ "class": "overloaded", "message": "busy", "retry_after": 1 });
    let write = |content: &str| {
        let mut reply = call("write", json!({ "filePath": "a", "content": content }));
        reply["faults"] = json!([busy]);
        reply
    };
    let replies = json!([write("one\n"), says("Done."), write("two\n"), says("Done.")]);
    let site = Site::scripted(&json!({ "replies": replies })).setting("snapshot", json!(true));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let watch = json!({ "session": session, "from": 1, "derived": true });
    asked(&mut editor, "_leftfold/watch", watch);
    for text in ["first", "second"] {
        let prompt = editor.prompt(&session, text);
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    let events = site.exported();
    let seqs = |kind: &str| -> Vec<u64> {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        of_kind.map(|event| event["seq"].as_u64().unwrap()).collect()
    };
    let (prompts, requests) = (seqs("turn.prompted"), seqs("model.requested"));
    asked(&mut editor, "_leftfold/revert", json!({ "session": session, "to": prompts[1] }));
    editor.until(|message| {
        message["method"] == "_leftfold/diff"
            && message["params"]["seq"] != 0
            && message["params"]["files"][0]["additions"] == 1
            && message["params"]["seq"].as_u64() > Some(events.len() as u64)
    });
    asked(&mut editor, "_leftfold/unrevert", json!({ "session": session }));
    editor.until(|message| message["method"] == "_leftfold/returned");
    let of = |method: &str| -> Vec<Value> {
        let of_method = editor.got.iter().filter(|message| message["method"] == method);
        of_method.map(|message| message["params"].clone()).collect()
    };
    let removed: Vec<Value> =
        of("_leftfold/removed").iter().map(|params| params["messages"].clone()).collect();
    // two requests that were made again, and what the second prompt began
    let second: Vec<u64> = std::iter::once(prompts[1])
        .chain(requests.iter().copied().filter(|seq| *seq > prompts[1]))
        .collect();
    let void = requests.iter().find(|seq| **seq > prompts[1]).unwrap();
    let shown: Vec<u64> = second.iter().copied().filter(|seq| seq != void).collect();
    assert_eq!(removed, [json!([requests[0]]), json!([void]), json!(shown)]);
    assert_eq!(of("_leftfold/returned")[0]["messages"], json!(shown));
    let diffs: Vec<Value> = of("_leftfold/diff").iter().map(|p| p["files"].clone()).collect();
    let file = |change: &str, additions: u64, deletions: u64| json!([{ "path": "a", "change": change, "additions": additions, "deletions": deletions }]);
    let (one, two) = (file("added", 1, 0), file("added", 2, 1));
    assert_eq!(diffs[..3], [one.clone(), two, one]);
    editor.leave();
}

#[test]
fn a_revert_takes_files_and_messages_back() {
    let edit = call("write", json!({ "filePath": "a", "content": "new\n" }));
    let site =
        Site::scripted(&script(json!([edit, says("Done.")]))).setting("snapshot", json!(true));
    site.file("a", "old\n");
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(site.text("a"), "new\n");
    let events = asked(&mut editor, "_leftfold/read", json!({ "session": session, "from": 1 }));
    let lines = events["lines"].as_array().unwrap();
    let prompted = lines.iter().find(|line| line["type"] == "turn.prompted").unwrap();
    let to = json!({ "session": session, "to": prompted["seq"] });
    let reverted = asked(&mut editor, "_leftfold/revert", to);
    assert_eq!(reverted, json!({ "accepted": true, "refused": null }));
    asked(&mut editor, "_leftfold/watch", json!({ "session": session, "from": 1 }));
    editor.until(|message| message["params"]["type"] == "files.restored");
    assert_eq!(site.text("a"), "old\n");
    editor.leave();
    site.assert_sound();
}

#[test]
fn what_one_client_chooses_every_client_is_told() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    let mut first = Editor::start(&site, &[]);
    let session = first.session(&site);
    let plan = || json!({ "session": session, "choices": { "agent": "plan" } });
    let early = first.ask("_leftfold/configure", plan());
    assert_eq!(first.error(early)["code"], -32602);
    let prompt = first.prompt(&session, "one");
    assert_eq!(first.stop_reason(prompt), "end_turn");
    for accepted in [true, false] {
        let configured = asked(&mut first, "_leftfold/configure", plan());
        assert_eq!(configured, json!({ "accepted": accepted }));
    }
    let told = |editor: &mut Editor, wanted: &dyn Fn(&Value) -> bool| {
        // the message may come before an answer
        if !editor.got.iter().any(wanted) {
            editor.until(wanted);
        }
    };
    let mode = |message: &Value| message["params"]["update"]["currentModeId"].clone();
    told(&mut first, &|message| mode(message) == "plan");
    // a prompt that names no agent uses the chosen one
    asked(&mut first, "_leftfold/prompt", json!({ "session": session, "text": "two" }));
    told(&mut first, &|message| message["params"]["update"]["content"]["text"] == "Two.");
    // an editor with another node, which is a client of the session's node
    let mut second = Editor::start(&site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let loaded = asked(&mut second, "session/load", load);
    assert_eq!(loaded["modes"]["currentModeId"], "plan");
    let build = json!({ "sessionId": session, "modeId": "build" });
    asked(&mut second, "session/set_mode", build);
    told(&mut first, &|message| mode(message) == "build");
    let prompt = second.prompt(&session, "three");
    assert_eq!(second.stop_reason(prompt), "end_turn");
    second.leave();
    first.leave();
    let events = events(&site, &session);
    let agents = all(&events, "turn.prompted").into_iter().map(|event| &event["data"]["agent"]);
    assert_eq!(agents.collect::<Vec<_>>(), ["build", "plan", "build"]);
    assert_eq!(all(&events, "session.configured").len(), 2);
    site.assert_sound();
}

#[test]
fn a_fork_goes_on_by_itself() {
    let site = Site::scripted(&script(json!([says("One."), says("Again.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "first");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let forked = fork(&mut editor, &site, &session, Value::Null)["result"].clone();
    let other = forked["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(other, session);
    assert_eq!(forked["modes"]["currentModeId"], "build");
    let prompt = editor.prompt(&other, "second");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "second");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.text(&other, "agent_message_chunk"), "Again.");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "One.Again.");
    let list = asked(&mut editor, "session/list", json!({}));
    let ids: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|listed| &listed["sessionId"]).collect();
    assert!(ids.contains(&&json!(other)) && ids.contains(&&json!(session)), "{ids:?}");
    editor.leave();
    // another node finds the fork in the same store
    let mut editor = Editor::start(&site, &[]);
    let load = json!({ "sessionId": other, "cwd": site.project(), "mcpServers": [] });
    asked(&mut editor, "session/load", load);
    assert_eq!(editor.text(&other, "user_message_chunk"), "firstsecond");
    assert_eq!(editor.text(&other, "agent_message_chunk"), "One.Again.");
    editor.leave();
    for session in [&session, &other] {
        site.run(&["check", session]).ok();
        site.run(&["verify", session]).ok();
    }
    assert_eq!(only(&events(&site, &other), "session.forked")["session"], other);
}

#[test]
fn a_fork_is_made_where_it_is_wanted() {
    let site = Site::scripted(&script(json!([bash("echo x >> log"), says("Done."), says("Why?")])))
        .setting("permission/bash", json!({ "*": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    // while a question is open: the call belongs to the other session
    let by_name = asked(&mut editor, "_leftfold/fork", json!({ "session": session }));
    let other = by_name["session"].as_str().unwrap().to_owned();
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let read = asked(&mut editor, "_leftfold/read", json!({ "session": session, "from": 1 }));
    let called = read["lines"].as_array().unwrap().iter().find(|l| l["type"] == "tool.called");
    let at = json!({ "leftfold/at": called.unwrap()["seq"] });
    let third = fork(&mut editor, &site, &session, at)["result"]["sessionId"].clone();
    let third = third.as_str().unwrap().to_owned();
    for (meta, session, code) in [
        (json!({ "leftfold/at": 10_000 }), session.as_str(), -32602),
        (json!({ "leftfold/at": "x" }), &session, -32602),
        (Value::Null, "nobody", -32602),
    ] {
        let refused = fork(&mut editor, &site, session, meta);
        assert!(refused["error"]["code"] == code || session == "nobody", "{refused}");
        assert!(refused.get("result").is_none(), "{refused}");
    }
    let load = json!({ "sessionId": other, "cwd": site.project(), "mcpServers": [] });
    asked(&mut editor, "session/load", load);
    editor.leave();
    for fork in [&other, &third] {
        let events = events(&site, fork);
        let own: Vec<Value> =
            events.into_iter().filter(|event| event["session"] == fork.as_str()).collect();
        assert_eq!(own[0]["type"], "session.forked");
        assert_eq!(all(&own, "tool.lost").len(), 1, "{:?}", kinds(&own));
    }
    assert_eq!(site.text("log"), "x\n");
}

#[test]
fn rules_of_a_session_hold_for_its_prompts_and_its_subagents_until_they_are_replaced() {
    let task =
        json!({ "description": "look", "prompt": "look around", "subagent_type": "general" });
    let in_child = json!({ "match": { "prompt": "look around", "answers": 0 },
        "parts": [{ "call": { "name": "bash", "input": { "command": "echo child >>ran" } } }] });
    let child_ends =
        json!({ "match": { "prompt": "look around" }, "parts": [{ "text": "Looked." }] });
    let runs = |name: &str| bash(&format!("echo {name} >>ran"));
    let site = Site::scripted(&script(json!([
        in_child,
        child_ends,
        runs("first"),
        call("task", task),
        says("One."),
        runs("second"),
        says("Two."),
        runs("third"),
        says("Three.")
    ])));
    let deny = json!([{ "permission": "bash", "pattern": "*", "action": "deny" }]);
    let mut editor = Editor::start(&site, &[]);
    let new =
        json!({ "cwd": site.project(), "mcpServers": [], "_meta": { "leftfold/rules": deny } });
    let session = asked(&mut editor, "session/new", new)["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert!(!site.project().join("ran").exists(), "a command ran");

    // another node knows them from the log
    let mut editor = Editor::start(&site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    asked(&mut editor, "session/load", load);
    let prompt = editor.prompt(&session, "two");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert!(!site.project().join("ran").exists(), "a command ran");
    let configure = |rules: Value| json!({ "session": session, "rules": rules });
    for accepted in [true, false] {
        let configured = asked(&mut editor, "_leftfold/configure", configure(json!([])));
        assert_eq!(configured, json!({ "accepted": accepted }));
    }
    let prompt = editor.prompt(&session, "three");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(site.text("ran"), "third\n");
    let rule = json!({ "permission": "bash", "pattern": "*", "action": "sometimes" });
    let many = vec![json!({ "permission": "bash", "pattern": "*", "action": "ask" }); 1_001];
    for wrong in [json!([rule]), json!(many), json!("bash")] {
        let refused = editor.ask("_leftfold/configure", configure(wrong));
        assert_eq!(editor.error(refused)["code"], -32602);
    }
    editor.leave();

    let events = events(&site, &session);
    let set: Vec<&Value> =
        all(&events, "session.rules_set").into_iter().map(|e| &e["data"]["rules"]).collect();
    assert_eq!(set, [&deny, &json!([])]);
    let exported = site.run(&["export", &session]).ok().stdout;
    let lines: Vec<Value> =
        exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let offers = |configured: &&Value| {
        let tools = &configured["data"]["tools"];
        let payload = lines.iter().find(|line| line["payload"] == *tools).unwrap();
        payload["text"].as_str().unwrap().contains(r#""name":"bash""#)
    };
    let offered: Vec<bool> = all(&events, "turn.configured")
        .iter()
        .filter(|e| e["session"] == session.as_str())
        .map(offers)
        .collect();
    assert_eq!(offered.first(), Some(&false), "{offered:?}");
    assert_eq!(offered.last(), Some(&true), "{offered:?}");
    site.assert_sound();
}

/// The request of the `n`th request to the model for a turn, as text.
fn request(site: &Site, session: &str, n: usize) -> String {
    let events = events(site, session);
    let asked = all(&events, "model.requested");
    let seq = asked[n]["seq"].to_string();
    site.run(&["explain", session, &seq, "--request"]).ok().stdout
}

#[test]
fn a_prompt_says_how_its_turn_is_run() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let ended = |editor: &mut Editor, text: &str| {
        let says = |m: &Value| m["params"]["update"]["content"]["text"] == text;
        if !editor.got.iter().any(says) {
            editor.until(says);
        }
    };
    let two = json!({ "session": session, "text": "two", "agent": "plan", "system": "Rhyme.", "max_steps": 3,
        "tools": { "*": false, "read": true }, "messageID": "msg_2" });
    assert_eq!(asked(&mut editor, "_leftfold/prompt", two.clone()), json!({}));
    ended(&mut editor, "Two.");
    // an answer that was lost: the client asks again
    let again = asked(&mut editor, "_leftfold/prompt", two);
    assert_eq!(again["repeated"], true, "{again}");
    let note = json!({ "session": session, "text": "By the way.", "noReply": true, "message_id": "msg_3" });
    assert_eq!(asked(&mut editor, "_leftfold/prompt", note.clone()), json!({}));
    assert_eq!(asked(&mut editor, "_leftfold/prompt", note)["repeated"], true);
    let three =
        json!({ "session": session, "text": "three", "agent": "build", "message_id": "msg_4" });
    asked(&mut editor, "_leftfold/prompt", three);
    ended(&mut editor, "Three.");
    let of = |more: Value| {
        let mut params = json!({ "session": session, "text": "x" });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    for wrong in [
        json!({ "agent": "nobody" }),
        json!({ "model": "nowhere/none" }),
        json!({ "tools": { "bash": "no" } }),
        json!({ "message_id": " " }),
        json!({ "message_id": "x".repeat(257) }),
        json!({ "no_reply": true, "agent": "plan" }),
    ] {
        let refused = editor.ask("_leftfold/prompt", of(wrong.clone()));
        assert_eq!(editor.error(refused)["code"], -32602, "{wrong}");
    }
    editor.leave();

    let events = events(&site, &session);
    let prompted = all(&events, "turn.prompted");
    let agents: Vec<&Value> = prompted.iter().map(|event| &event["data"]["agent"]).collect();
    assert_eq!(agents, ["build", "plan", "build"]);
    assert_eq!(again["seq"], prompted[1]["seq"]);
    assert_eq!(prompted[1]["notes"]["client"], "msg_2");
    assert_eq!(only(&events, "turn.noted")["data"]["parts"][0]["text"], "By the way.");
    assert_eq!(all(&events, "turn.ended").len(), 3);
    let [first, second, third] = [0, 1, 2].map(|n| request(&site, &session, n));
    let offers = |request: &str, tool: &str| request.contains(&format!(r#""name":"{tool}""#));
    assert!(offers(&first, "bash") && offers(&first, "read"), "{first}");
    assert!(!offers(&second, "bash") && offers(&second, "read"), "{second}");
    assert!(second.contains("Rhyme.") && !third.contains("Rhyme."), "{second}");
    assert!(offers(&third, "bash") && third.contains("By the way."), "{third}");
    site.assert_sound();
}
