//! Methods for sessions other than prompting: list, resume, close and delete them, and choose
//! agent, model and variant.

use common::{
    Editor, Site, all, asking, bash, call, exists, kinds, only, says, script, wait_until,
};
use leftfold_events::Time;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::SystemTime;

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

fn ids(answer: &Value) -> Vec<&str> {
    let sessions = answer["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap()).collect()
}

fn list(editor: &mut Editor, params: Value) -> Value {
    let id = editor.ask("session/list", params);
    editor.result(id)
}

fn delete(editor: &mut Editor, session: &str) -> Value {
    let id = editor.ask("session/delete", json!({ "sessionId": session }));
    editor.answer(id)
}

#[test]
fn sessions_are_listed_the_latest_first_and_deleted() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let mut editor = Editor::start(&site, &[]);
    let sessions: Vec<String> = ["first", "second"]
        .map(|prompt| {
            let session = editor.session(&site);
            let prompt = editor.prompt(&session, prompt);
            assert_eq!(editor.stop_reason(prompt), "end_turn");
            session
        })
        .to_vec();
    let listed = list(&mut editor, json!({ "cwd": site.project() }));
    assert_eq!(ids(&listed), [&*sessions[1], &*sessions[0]]);
    assert_eq!(listed["sessions"][0]["title"], "second");
    assert_eq!(listed["sessions"][0]["cwd"], json!(site.project()));
    assert_eq!(ids(&list(&mut editor, json!({}))).len(), 2);
    assert_eq!(list(&mut editor, json!({ "cwd": "/" }))["sessions"], json!([]));
    let cursor = editor.ask("session/list", json!({ "cursor": "nonsense" }));
    assert_eq!(editor.error(cursor)["code"], -32602);

    let deleted = delete(&mut editor, &sessions[0]);
    assert!(deleted.get("error").is_none(), "{deleted}");
    assert_eq!(ids(&list(&mut editor, json!({}))), [&*sessions[1]]);
    // deleting a deleted session succeeds
    assert!(delete(&mut editor, &sessions[0]).get("error").is_none());
    let prompt = editor.prompt(&sessions[0], "again");
    assert!(editor.error(prompt)["message"].as_str().is_some());
    editor.leave();
}

/// Every line of the node's output must be a message; notes about removed contents must not appear.
#[test]
fn a_fork_is_deleted_with_its_contents_and_nothing_but_messages_is_written() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "first");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let forked = editor.ask("session/fork", params);
    let fork = editor.result(forked)["sessionId"].as_str().unwrap().to_owned();
    // contents of this size are stored in a file of their own
    let prompt = editor.prompt(&fork, &"long ".repeat(20_000));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let closed = editor.ask("session/close", json!({ "sessionId": session }));
    editor.result(closed);
    let deleted = delete(&mut editor, &fork);
    assert!(deleted.get("error").is_none(), "{deleted}");
    assert_eq!(ids(&list(&mut editor, json!({}))), [&*session]);
    editor.leave();
}

#[test]
fn closing_ends_the_turn_and_lets_go_of_the_session() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000"), says("Here.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    wait_until("the command runs", || exists(&site.project().join("ready")));
    let close = editor.ask("session/close", json!({ "sessionId": session }));
    editor.result(close);
    assert_eq!(editor.stop_reason(prompt), "cancelled");
    let prompt = editor.prompt(&session, "again");
    assert!(editor.error(prompt)["message"].as_str().is_some());
    // nobody holds the session any more
    let events = events(&site, &session);
    assert_eq!(only(&events, "turn.ended")["data"]["reason"], "aborted");
    site.run(&["run", "--session", &session, "hello"]).ok();
    editor.leave();
    site.assert_sound();
}

#[test]
fn whoever_resumes_is_told_nothing_of_before_and_asked_what_is_open() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "first");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();

    let mut editor = Editor::start(&site, &[]);
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let resumed = editor.ask("session/resume", params);
    assert_eq!(editor.result(resumed)["modes"]["currentModeId"], "build");
    let prompt = editor.prompt(&session, "second");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Two.");
    assert_eq!(editor.text(&session, "user_message_chunk"), "");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_question_that_another_client_left_open_is_asked_of_whoever_resumes() {
    let site = asking();
    let mut holder = site.start(&["run", "--permission-mode", "ask", "--format", "json", "go"]);
    let asked = holder.until("permission.asked");
    let session = asked["session"].as_str().unwrap().to_owned();
    let mut editor = Editor::start(&site, &[]);
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let resumed = editor.ask("session/resume", params);
    editor.result(resumed);
    let question = editor.question(&session);
    editor.choose(&question, "allow_once");
    holder.wait().ok();
    editor.leave();
}

#[test]
fn an_agent_is_a_mode() {
    let site = Site::scripted(&script(json!([says("A plan."), says("Done.")])));
    let mut editor = Editor::start(&site, &[]);
    let new = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
    let new = editor.result(new);
    let session = new["sessionId"].as_str().unwrap().to_owned();
    let modes = new["modes"]["availableModes"].as_array().unwrap();
    let modes: Vec<&str> = modes.iter().map(|mode| mode["id"].as_str().unwrap()).collect();
    assert_eq!(
        (&new["modes"]["currentModeId"], &modes[..]),
        (&json!("build"), &["build", "plan"][..])
    );
    let set = |editor: &mut Editor, mode: &str| {
        editor.ask("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
    };
    let wrong = set(&mut editor, "explore");
    let error = editor.error(wrong);
    assert_eq!(error["code"], -32602);
    assert!(error["data"].as_str().unwrap().ends_with("build, plan"), "{error}");
    let plan = set(&mut editor, "plan");
    editor.result(plan);
    assert_eq!(editor.update("current_mode_update")["currentModeId"], "plan");
    for _ in 0..2 {
        let prompt = editor.prompt(&session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        let build = set(&mut editor, "build");
        editor.result(build);
    }
    editor.leave();
    let events = events(&site, &session);
    let agents = all(&events, "turn.prompted").into_iter().map(|event| &event["data"]["agent"]);
    assert_eq!(agents.collect::<Vec<_>>(), ["plan", "build"]);
}

#[test]
fn a_model_and_its_variant_are_options() {
    let variants = json!({ "variants": { "careful": { "effort": "high" } }, "limit": { "context": 1000, "output": 100 } });
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])))
        .setting("provider/double/models/other", variants);
    let mut editor = Editor::start(&site, &[]);
    let new = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
    let new = editor.result(new);
    let session = new["sessionId"].as_str().unwrap().to_owned();
    let option = |options: &Value, id: &str| -> Value {
        let options = options.as_array().unwrap();
        options.iter().find(|option| option["id"] == id).cloned().unwrap_or_default()
    };
    assert_eq!(option(&new["configOptions"], "model")["currentValue"], "double/m");
    assert_eq!(option(&new["configOptions"], "thought_level"), Value::Null);
    let set = |editor: &mut Editor, id: &str, value: &str| {
        let params = json!({ "sessionId": session, "configId": id, "value": value });
        editor.ask("session/set_config_option", params)
    };
    let other = set(&mut editor, "model", "double/other");
    let options = editor.result(other)["configOptions"].clone();
    assert_eq!(option(&options, "model")["currentValue"], "double/other");
    assert_eq!(option(&options, "thought_level")["currentValue"], "default");
    let careful = set(&mut editor, "thought_level", "careful");
    let options = editor.result(careful)["configOptions"].clone();
    assert_eq!(option(&options, "thought_level")["currentValue"], "careful");
    for (id, value, known) in [
        ("model", "double/none", "double/other"),
        ("thought_level", "reckless", "careful"),
        ("colour", "red", "thought_level"),
    ] {
        let wrong = set(&mut editor, id, value);
        let error = editor.error(wrong);
        assert_eq!(error["code"], -32602);
        assert!(error["data"].as_str().unwrap().contains(known), "{error}");
    }
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // the variant belonged to the other model
    let first = set(&mut editor, "model", "double/m");
    editor.result(first);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = events(&site, &session);
    let prompted = all(&events, "turn.prompted").into_iter();
    let models = prompted.map(|event| event["data"]["model"]["id"].clone());
    assert_eq!(models.collect::<Vec<_>>(), ["other", "m"]);
}

#[test]
fn a_session_can_be_given_to_another_provider() {
    let other = json!({
        "wire": "scripted",
        "options": { "script": script(json!([says("Not this."), says("Another speaks.")])) },
        "models": { "t": { "limit": { "context": 100_000, "output": 8_000 } } },
    });
    let site = Site::scripted(&script(json!([says("One."), says("Not this."), says("Three.")])))
        .setting("provider/triple", other);
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    for (model, said) in
        [("double/m", "One."), ("triple/t", "Another speaks."), ("double/m", "Three.")]
    {
        set_option(&mut editor, &session, "model", model);
        let prompt = editor.prompt(&session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn", "{model}");
        let log = events(&site, &session);
        assert_eq!(all(&log, "turn.ended").last().unwrap()["data"]["text"], said);
    }
    editor.leave();
    site.assert_sound();
}

#[test]
fn an_agent_has_the_subagents_of_its_own_rules() {
    let task = json!({ "prompt": "look", "subagentType": "general", "description": "Look" });
    let task = || call("task", &task);
    let site = Site::scripted(&script(json!([
        says("Alone."),
        task(), says("Heard."),
        task(), says("Denied."),
        { "match": { "prompt": "look", "answers": 0 }, "parts": [{ "text": "Looked." }] },
    ])))
    .setting("agent/alone", json!({ "mode": "primary", "permission": { "task": "deny" } }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    for mode in ["alone", "build", "alone"] {
        set_mode(&mut editor, &session, mode);
        let prompt = editor.prompt(&session, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    editor.leave();
    let log = events(&site, &session);
    let spawned = only(&log, "subagent.spawned");
    assert_eq!(spawned["data"]["agent"], "general");
    let resolved = all(&log, "tool.resolved").into_iter();
    let errors: Vec<bool> = resolved.map(|event| event["data"]["error"].is_string()).collect();
    assert_eq!(errors, [false, true]);
    site.assert_sound();
}

/// The current value of an option.
fn current(answer: &Value, id: &str) -> Value {
    let options = answer["configOptions"].as_array().unwrap();
    let option = options.iter().find(|option| option["id"] == id);
    option.map(|option| option["currentValue"].clone()).unwrap_or_default()
}

fn set_option(editor: &mut Editor, session: &str, id: &str, value: &str) -> Value {
    let params = json!({ "sessionId": session, "configId": id, "value": value });
    let set = editor.ask("session/set_config_option", params);
    editor.result(set)
}

fn set_mode(editor: &mut Editor, session: &str, mode: &str) {
    let set = editor.ask("session/set_mode", json!({ "sessionId": session, "modeId": mode }));
    editor.result(set);
}

fn load(editor: &mut Editor, site: &Site, session: &str) -> Value {
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let loaded = editor.ask("session/load", params);
    editor.result(loaded)
}

fn choosing(replies: &[Value]) -> Site {
    let variants = json!({ "variants": { "careful": { "effort": "high" } }, "limit": { "context": 1000, "output": 100 } });
    Site::scripted(&script(json!(replies))).setting("provider/double/models/other", variants)
}

#[test]
fn what_is_chosen_is_in_the_log_and_outlives_the_node() {
    let site = choosing(&["One.", "Two.", "Three.", "Four."].map(says));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    // there is no log yet: the first prompt creates it
    set_option(&mut editor, &session, "model", "double/other");
    set_option(&mut editor, &session, "thought_level", "careful");
    assert!(site.sessions().is_empty());
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    // the choice is durable before its answer
    set_mode(&mut editor, &session, "plan");
    set_mode(&mut editor, &session, "plan");
    editor.live.signal(Signal::KILL);
    drop(editor);
    let log = events(&site, &session);
    let configured = all(&log, "session.configured");
    let other = json!({ "provider": "double", "id": "other" });
    let config = |agent: Value| json!({ "agent": agent, "model": other, "variant": "careful" });
    let data: Vec<&Value> = configured.iter().map(|event| &event["data"]).collect();
    let expected = [Value::Null, json!("plan")];
    let expected = expected.map(|agent| json!({ "choices": config(agent), "by": "acp" }));
    assert_eq!(data, expected.iter().collect::<Vec<_>>());
    assert_eq!(log[1]["type"], "session.configured", "right behind its beginning");
    let mut editor = Editor::start(&site, &[]);
    let loaded = load(&mut editor, &site, &session);
    assert_eq!(loaded["modes"]["currentModeId"], "plan");
    assert_eq!(current(&loaded, "model"), "double/other");
    assert_eq!(current(&loaded, "thought_level"), "careful");
    let prompt = editor.prompt(&session, "go on");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    // it applies to every later prompt that names no other
    site.run(&["run", "--session", &session, "and on"]).ok();
    site.run(&["run", "--session", &session, "--agent", "build", "do it"]).ok();
    let log = events(&site, &session);
    let prompted = all(&log, "turn.prompted").into_iter();
    let prompted = prompted.map(|event| (&event["data"]["agent"], &event["data"]["model"]));
    let expected = ["build", "plan", "plan", "build"].map(Value::from);
    assert_eq!(
        prompted.collect::<Vec<_>>(),
        expected.iter().map(|agent| (agent, &other)).collect::<Vec<_>>()
    );
    assert_eq!(all(&log, "session.configured").len(), 2);
    for command in ["check", "verify", "rerun"] {
        site.run(&[command, &session]).ok();
    }
    let replayed = site.run(&["replay", &session]).ok().stdout;
    assert!(
        replayed.contains("agent plan, model double/other, variant careful, by acp"),
        "{replayed}"
    );
}

#[test]
fn a_choice_that_settings_no_longer_have_keeps_nobody_from_the_session() {
    let site = choosing(&["One.", "Two."].map(says));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    set_option(&mut editor, &session, "model", "double/other");
    set_option(&mut editor, &session, "thought_level", "careful");
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    set_mode(&mut editor, &session, "plan");
    editor.leave();
    let site = site
        .setting("provider/double/models/other", json!({ "limit": { "context": 1000 } }))
        .setting("agent/plan", json!({ "disable": true }));
    let mut editor = Editor::start(&site, &[]);
    let loaded = load(&mut editor, &site, &session);
    assert_eq!(current(&loaded, "model"), "double/other");
    assert_eq!(loaded["modes"]["currentModeId"], "build");
    let prompt = editor.prompt(&session, "go on");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
}

#[test]
fn commands_are_told_once_the_session_is_there() {
    let site = Site::scripted(&script(json!([says("One.")])))
        .setting("command/fix", json!({ "template": "Fix $ARGUMENTS.", "description": "Fixes" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let told = editor.update("available_commands_update");
    let commands = told["availableCommands"].as_array().unwrap();
    let named = |name: &str| commands.iter().find(|command| command["name"] == name);
    assert_eq!(named("fix").unwrap()["description"], "Fixes");
    assert!(named("init").is_some() && named("review").is_some());
    let prompt = editor.prompt(&session, "/fix it");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = events(&site, &session);
    assert_eq!(only(&events, "turn.prompted")["data"]["parts"][0]["text"], "Fix it.");
}

#[test]
fn a_client_with_a_terminal_is_told_how_a_key_is_stored() {
    let site = Site::scripted(&script(json!([says("One.")])));
    let mut editor = Editor::raw(&site, &[]);
    let capabilities = json!({ "auth": { "terminal": true } });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let initialized = editor.ask("initialize", params);
    let methods = editor.result(initialized)["authMethods"].clone();
    let mut methods = methods.as_array().unwrap().iter();
    let stored = methods.find(|method| method["args"] == json!(["auth", "login"])).unwrap();
    let id = stored["id"].clone();
    let authenticated = editor.ask("authenticate", json!({ "methodId": id }));
    editor.result(authenticated);
    editor.leave();
}

/// A node whose client has forms, with a session.
fn with_forms(site: &Site) -> (Editor, String) {
    let mut editor = Editor::raw(site, &[]);
    let capabilities = json!({ "elicitation": { "form": {} } });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": capabilities });
    let initialized = editor.ask("initialize", params);
    editor.result(initialized);
    let session = editor.session(site);
    (editor, session)
}

#[test]
fn a_client_with_forms_is_asked_by_one() {
    let options = json!([{ "label": "red" }, { "label": "blue" }]);
    let questions = json!({ "questions": [{ "question": "Which?", "options": options }] });
    let asks = json!({ "parts": [{ "call": { "name": "question", "input": questions } }] });
    let site = Site::scripted(&script(json!([asks, says("Noted."), asks, says("Never.")])));
    let (mut editor, session) = with_forms(&site);
    let prompt = editor.prompt(&session, "go");
    let form = editor.until(|message| message["method"] == "elicitation/create");
    assert_eq!(
        (&form["params"]["message"], &form["params"]["sessionId"]),
        (&json!("Which?"), &json!(session))
    );
    assert_eq!(
        form["params"]["requestedSchema"]["properties"]["answer"]["oneOf"][1]["const"],
        "blue"
    );
    let content = json!({ "answer": "red", "words": "Rather green." });
    editor.reply(&form, json!({ "action": "accept", "content": content }));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "go");
    let form = editor.until(|message| message["method"] == "elicitation/create");
    editor.reply(&form, json!({ "action": "decline" }));
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let events = events(&site, &session);
    let answers = all(&events, "permission.answered");
    let answers =
        answers.into_iter().map(|event| (&event["data"]["reply"], &event["data"]["feedback"]));
    let expected = [(&json!("once"), &json!("Rather green.")), (&json!("reject"), &Value::Null)];
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}

#[test]
fn whoever_looks_at_a_turn_that_was_cut_off_does_not_go_on_with_it() {
    let bash = call("bash", json!({ "command": "sleep 100", "timeout": 200 }));
    let site = Site::scripted(&script(json!([bash, says("Done.")])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let started = live.until("tool.started");
    live.signal(Signal::KILL);
    drop(live);
    let session = started["session"].as_str().unwrap();
    let before = events(&site, session);
    // after the call's deadline, only a client that continues the turn acts on it
    let deadline: Time = serde_json::from_value(started["until"].clone()).unwrap();
    wait_until("the deadline of the call has passed", || Time::from(SystemTime::now()) > deadline);
    let mut editor = Editor::start(&site, &[]);
    load(&mut editor, &site, session);
    // a node that went on by itself would do so as it opens the session, before this is logged
    set_mode(&mut editor, session, "plan");
    wait_until("the choice is logged", || {
        kinds(&events(&site, session)).contains(&"session.configured")
    });
    editor.leave();
    let after = events(&site, session);
    assert_eq!(after[..before.len()], before);
    assert_eq!(kinds(&after[before.len()..]), ["session.configured"]);
    site.run(&["resume", session]).ok();
    let after = events(&site, session);
    assert_eq!(kinds(&after)[before.len() + 1], "session.resumed");
    assert!(kinds(&after).contains(&"tool.lost"), "{:?}", kinds(&after));
    site.assert_sound();
}
