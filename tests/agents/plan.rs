//! Planning: the agent that plans, its plan, and the switch to the building agent and back.

use common::{
    Answer, Block, Editor, Live, Server, Site, Split, all, bash, call, end, kinds, message, only,
    says, script,
};
use rustix::process::Signal;
use serde_json::{Value, json};

fn write(path: &str) -> Value {
    call("write", json!({ "filePath": path, "content": "Written.\n" }))
}

/// A project in a git repository, with a scripted model.
fn site(replies: Value) -> Site {
    let site = Site::scripted(&script(replies));
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    site
}

fn planner() -> Site {
    site(json!([
        write("src.txt"),
        write(".leftfold/plans/x.md"),
        call("plan_exit", json!({})),
        write("src.txt"),
        says("Built."),
    ]))
}

const PLAN: [&str; 8] =
    ["run", "--format", "json", "--permission-mode", "ask", "--agent", "plan", "go"];

/// Answers the next question of `live`.
fn answer(site: &Site, live: &mut Live, words: &[&str]) -> Value {
    let asked = question(live);
    reply(site, &asked, words);
    asked
}

fn question(live: &mut Live) -> Value {
    let asked = live.until("permission.asked");
    assert_eq!(asked["data"]["permission"], "question", "{asked}");
    asked
}

fn reply(site: &Site, asked: &Value, words: &[&str]) {
    let seq = asked["seq"].to_string();
    site.run(&[&["permission", "answer", "last", &seq][..], words].concat()).ok();
}

/// The tools that a run of the planning agent offers.
fn offered(site: &Site) -> String {
    let events = site.run(&PLAN).ok().events();
    let asked = only(&events, "model.requested")["seq"].to_string();
    let request = site.run(&["explain", "last", &asked, "--request"]).ok().stdout;
    let request: Value = serde_json::from_str(&request).unwrap();
    let names = request["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]);
    names.map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_variable_of_opencode_turns_the_plans_file_off() {
    let site = || self::site(json!([says("One.")]));
    assert!(offered(&site()).contains("plan_exit"));
    for value in ["false", "0"] {
        let site = site().env("OPENCODE_EXPERIMENTAL_PLAN_MODE", value);
        let tools = offered(&site);
        assert!(!tools.contains("plan_") && tools.contains("read"), "{tools}");
    }
    assert!(offered(&site().env("OPENCODE_EXPERIMENTAL_PLAN_MODE", "1")).contains("plan_exit"));
}

#[test]
fn a_planning_agent_changes_no_files_through_a_child() {
    let task =
        json!({ "description": "Write", "prompt": "fill src.txt", "subagentType": "general" });
    let child = |answers: u32, path: &str| {
        let input = json!({ "filePath": path, "content": "x" });
        json!({ "match": { "prompt": "fill src.txt", "answers": answers },
            "parts": [{ "call": { "name": "write", "input": input } }] })
    };
    let shell = json!({ "match": { "prompt": "fill src.txt", "answers": 1 }, "parts": [
        { "call": { "name": "bash", "input": { "command": "echo x > src.txt" } } },
    ] });
    let general = json!({ "permission": { "edit": "allow" } });
    let site = site(json!([
        call("task", task),
        says("Planned."),
        child(0, "src.txt"),
        shell,
        { "match": { "prompt": "fill src.txt", "answers": 2 }, "parts": [{ "text": "Done." }] },
    ]))
    .setting("/agent", json!({ "general": general }));
    for (agent, is_written) in [("plan", false), ("build", true)] {
        let args = ["run", "--format", "json", "--yes", "--agent", agent, "go"];
        let events = site.run(&args).ok().events();
        only(&events, "subagent.ended");
        assert_eq!(site.project().join("src.txt").exists(), is_written, "{agent}");
    }
}

#[test]
fn an_approved_plan_is_carried_out_in_the_same_turn() {
    let site = planner();
    let mut live = site.start(&PLAN);
    let asked = question(&mut live);
    assert!(asked["data"]["patterns"][0].as_str().unwrap().contains("`build`"));
    // after the answer it may appear at any time
    assert!(!site.project().join("src.txt").exists(), "edits are denied while planning");
    reply(&site, &asked, &["once", "--feedback", "Yes"]);
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "Built.");
    let denied = end(&events)["permission_denials"].as_array().unwrap().clone();
    assert_eq!((denied.len(), &denied[0]["permission"]), (1, &json!("edit")));
    assert_eq!(only(&events, "turn.switched")["data"]["agent"], "build");
    assert_eq!(all(&events, "turn.prompted").len(), 1);
    assert_eq!((site.text("src.txt"), site.text(".leftfold/plans/x.md")), {
        let written = || "Written.\n".to_owned();
        (written(), written())
    });
    // the next prompt goes to the agent that has taken over
    let more = site.run(&["run", "--format", "json", "--continue", "more"]).events();
    assert_eq!(only(&more, "turn.prompted")["data"]["agent"], "build");
    site.assert_sound();
}

#[test]
fn a_plan_that_is_turned_down_ends_the_turn_or_is_worked_on() {
    for no in [&["reject"][..], &["once", "--feedback", "No"]] {
        let site = planner();
        let mut live = site.start(&PLAN);
        answer(&site, &mut live, no);
        let events = live.wait().with(3).events();
        assert_eq!(end(&events)["reason"], "blocked");
        assert!(all(&events, "turn.switched").is_empty());
        site.assert_sound();
    }
    let site = planner();
    let mut live = site.start(&PLAN);
    answer(&site, &mut live, &["once", "--feedback", "Leave out the tests"]);
    let events = live.wait().ok().events();
    assert!(all(&events, "turn.switched").is_empty());
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 3, "still read-only");
    assert!(!site.project().join("src.txt").exists());
}

#[test]
fn the_switch_outlives_a_kill_at_its_question() {
    let site = planner();
    let mut live = site.start(&PLAN);
    live.until("permission.asked");
    live.signal(Signal::KILL);
    live.wait();
    let mut live = site.start(&["resume", "last", "--format", "json", "--permission-mode", "ask"]);
    live.until("session.resumed");
    let state = site.run(&["replay", "last"]).ok().stdout;
    assert!(state.contains("permission.asked"), "{state}");
    let asked = site.exported().into_iter().find(|event| event["type"] == "permission.asked");
    let seq = asked.unwrap()["seq"].to_string();
    site.run(&["permission", "answer", "last", &seq, "once", "--feedback", "Yes"]).ok();
    let events = live.wait().ok().events();
    assert_eq!(only(&events, "turn.switched")["data"]["agent"], "build");
    assert_eq!(end(&events)["text"], "Built.");
    site.assert_sound();
}

#[test]
fn planning_may_be_asked_for_and_goes_on_in_the_next_turn() {
    let site = site(json!([
        call("plan_enter", json!({})),
        { "match": { "answers": 1, "prompt": "Planning has been approved", "tool": "plan_exit" },
          "parts": [{ "text": "I plan." }] },
        { "match": { "answers": 2, "tool": "plan_exit" }, "parts": [{ "text": "Still." }] },
    ]));
    let mut live = site.start(&["run", "--format", "json", "--permission-mode", "ask", "go"]);
    answer(&site, &mut live, &["once", "--feedback", "Yes"]);
    assert_eq!(end(&live.wait().ok().events())["text"], "I plan.");
    let more = ["run", "--format", "json", "--permission-mode", "ask", "--continue", "more"];
    let more = site.run(&more).ok().events();
    assert_eq!(only(&more, "turn.prompted")["data"]["agent"], "plan");
    assert_eq!(end(&more)["text"], "Still.");
    site.assert_sound();
}

#[test]
fn a_prompt_that_joins_the_turn_is_for_the_agent_that_has_taken_over() {
    let waits = "touch started; while [ ! -e go ]; do sleep 0.05; done";
    let site =
        site(json!([call("plan_exit", json!({})), bash(waits), says("Built."), says("More.")]));
    let mut live = site.start(&PLAN);
    answer(&site, &mut live, &["once", "--feedback", "Yes"]);
    common::wait_until("the command runs", || site.project().join("started").exists());
    let mut other = site.start(&["run", "--format", "json", "--session", "last", "more"]);
    other.until("turn.prompted");
    site.file("go", "");
    other.wait().ok();
    let events = live.wait().ok().events();
    let agents: Vec<&Value> =
        all(&events, "turn.prompted").into_iter().map(|e| &e["data"]["agent"]).collect();
    assert_eq!(agents, ["plan", "build"]);
    assert_eq!(all(&events, "turn.configured").len(), 2);
    site.assert_sound();
}

#[test]
fn nobody_is_asked_who_is_not_there_and_an_agent_that_is_off_takes_over_from_none() {
    for args in [
        &["run", "--format", "json", "--agent", "plan", "go"][..],
        &["run", "--format", "json", "--agent", "plan", "--yes", "go"],
    ] {
        let site = planner();
        let events = site.run(args).ok().events();
        assert!(all(&events, "permission.asked").is_empty(), "{:?}", kinds(&events));
        assert!(all(&events, "turn.switched").is_empty());
        assert!(!site.project().join("src.txt").exists());
    }
    let site = planner().setting("agent", json!({ "build": { "disable": true } }));
    let mut live = site.start(&PLAN);
    answer(&site, &mut live, &["once", "--feedback", "Yes"]);
    let events = live.wait().ok().events();
    let failed = all(&events, "tool.finished").into_iter().find(|e| e["data"]["is_error"] == true);
    let output = failed.unwrap()["data"]["output"].as_str().unwrap();
    assert!(output.contains("there is no agent `build`"), "{output}");
    assert!(all(&events, "turn.switched").is_empty());
}

/// The user's texts in a request, message by message.
fn said(body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap().iter();
    let of_user = messages.filter(|message| message["role"] == "user");
    let text = |block: &Value| block["text"].as_str().unwrap_or_default().to_owned();
    let blocks =
        |content: &Value| content.as_array().map(|blocks| blocks.iter().map(text).collect());
    of_user
        .map(|message| {
            let content = &message["content"];
            let texts: Option<Vec<String>> = blocks(content);
            texts.unwrap_or_else(|| vec![content.as_str().unwrap().to_owned()]).join("\n")
        })
        .collect()
}

#[test]
fn reminders_stand_where_the_agent_changed_and_nowhere_else() {
    let reply = || Answer::Stream(message(&[Block::Text("Well.")]), Split::Whole);
    let server = Server::start((0..5).map(|_| reply()).collect());
    let site = Site::served(&server);
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    for (number, agent) in ["plan", "plan", "build", "build", "plan"].into_iter().enumerate() {
        let prompt = format!("prompt {number}");
        let again: &[&str] = if number == 0 { &[] } else { &["--continue"] };
        site.run(&[&["run", "--agent", agent][..], again, &[&prompt]].concat()).ok();
        if number == 1 {
            let written = site.run(&["replay", "last", "--state"]).ok().stdout;
            let state: Value = serde_json::from_str(&written).unwrap();
            let reminder = state["config"]["options"]["reminder"].as_str().unwrap().to_owned();
            let plan = reminder.split('`').nth(1).unwrap();
            assert!(reminder.contains("There is no plan yet"), "{reminder}");
            let folder = site.project().join(".leftfold/plans");
            assert!(plan.starts_with(folder.to_str().unwrap()), "{plan}");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(plan, "# The plan\n").unwrap();
        }
    }
    let bodies: Vec<Value> = server.requests().into_iter().map(|request| request.body).collect();
    let last = said(bodies.last().unwrap());
    let reminds =
        |text: &String| (text.contains("Work in five phases"), text.contains("no longer planning"));
    let found: Vec<_> = last.iter().map(reminds).collect();
    let none = (false, false);
    assert_eq!(found, [(true, false), none, (false, true), none, (true, false)]);
    assert!(last[2].contains("The plan is in `") && last[4].contains("Read it first"), "{last:?}");
    for pair in bodies.windows(2) {
        assert!(
            said(&pair[1]).starts_with(&said(&pair[0])),
            "what was said is said again as it was"
        );
    }
}

#[test]
fn without_a_plans_file_the_model_is_told_of_planning_too() {
    let reply = || Answer::Stream(message(&[Block::Text("Well.")]), Split::Whole);
    let server = Server::start((0..4).map(|_| reply()).collect());
    let site = Site::served(&server).env("OPENCODE_EXPERIMENTAL_PLAN_MODE", "false");
    for (number, agent) in ["build", "plan", "plan", "build"].into_iter().enumerate() {
        let again: &[&str] = if number == 0 { &[] } else { &["--continue"] };
        site.run(&[&["run", "--agent", agent][..], again, &["go"]].concat()).ok();
    }
    let said = said(&server.requests().last().unwrap().body);
    let reminds = |text: &String| {
        (text.contains("You are planning now"), text.contains("no longer planning"))
    };
    let found: Vec<_> = said.iter().map(reminds).collect();
    let none = (false, false);
    assert_eq!(found, [none, (true, false), none, (false, true)]);
    assert!(
        said.iter().all(|text| !text.contains("plans/") && !text.contains("{plan}")),
        "{said:?}"
    );
}

#[test]
fn without_git_the_plan_is_among_leftfolds_own_files() {
    let site = Site::scripted(&script(json!([says("Yes?")])));
    let plan = ["run", "--format", "json", "--agent", "plan"];
    site.run(&[&plan[..], &["go"]].concat()).ok();
    let state = site.run(&["replay", "last", "--state"]).ok().stdout;
    let state: Value = serde_json::from_str(&state).unwrap();
    let reminder = state["config"]["options"]["reminder"].as_str().unwrap().to_owned();
    let path = reminder.split('`').nth(1).unwrap();
    assert!(path.starts_with(site.path("home/plans").to_str().unwrap()), "{path}");
    let beside = site.path("home/plans/other.md").display().to_string();
    let site = site.setting(
        "provider/double/options/script",
        script(json!([says("Yes?"), write(path), write(&beside), says("Planned.")])),
    );
    let events = site.run(&[&plan[..], &["--continue", "on"]].concat()).ok().events();
    assert_eq!(end(&events)["text"], "Planned.");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "Written.\n");
    assert!(!std::path::Path::new(&beside).exists());
}

/// Asks for planning, then records the agent of each prompt.
fn entered() -> Site {
    site(json!([call("plan_enter", json!({})), says("I plan."), says("Still.")]))
}

fn assert_stays(site: &Site) {
    let events = site.exported();
    let agents: Vec<&Value> =
        all(&events, "turn.prompted").into_iter().map(|e| &e["data"]["agent"]).collect();
    assert_eq!(agents, ["build", "plan"]);
    assert_eq!(only(&events, "turn.switched")["data"]["agent"], "plan");
    site.assert_sound();
}

#[test]
fn a_conversation_goes_on_with_the_agent_that_has_taken_over() {
    let site = entered();
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until("[1-2] chooses").press("1").until("answers 1: Yes");
    terminal.press("\r").until("[agent: plan, double/m]").until("I plan.").until_prompt();
    terminal.press("on\r").until("Still.").until_prompt().press("\x04");
    assert_eq!(terminal.wait(), 0);
    assert_stays(&site);
}

#[test]
fn an_editor_goes_on_with_the_agent_that_has_taken_over() {
    let site = entered();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    assert_eq!(question["params"]["options"][0]["name"], "Yes", "{question}");
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "on");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert_stays(&site);
}
