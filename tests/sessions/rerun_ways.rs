//! `rerun` of less common sessions: answers, retries, deadlines, summaries, reverts, switches of
//! agents, prompts that join a turn, resumed children.

use common::{
    ASK, Live, Site, all, bash, call, end, filled, only, rerun_all, says, script, wait_until,
};
use serde_json::{Value, json};

fn answer(site: &Site, live: &mut Live, words: &[&str]) {
    let asked = live.until("permission.asked")["seq"].to_string();
    site.run(&[&["permission", "answer", "last", &asked][..], words].concat()).ok();
}

#[test]
fn questions_about_permissions_answered_in_each_way() {
    let read = |limit: u32| call("read", json!({ "filePath": ".env", "limit": limit }));
    let replies = json!([read(1), read(2), read(3), read(4), says("So be it.")]);
    let site = Site::scripted(&script(replies));
    site.file(".env", "A=b\n");
    let mut live = site.start(&ASK);
    answer(&site, &mut live, &["once"]);
    answer(&site, &mut live, &["reject", "--feedback", "not this one"]);
    answer(&site, &mut live, &["always"]);
    let events = live.wait().ok().events();
    assert_eq!(all(&events, "permission.answered").len(), 3);
    assert_eq!(all(&events, "tool.finished").len(), 3);
    rerun_all(&site);
}

#[test]
fn a_rejection_without_a_word_and_a_question_with_its_answer() {
    let site = common::asking();
    let mut live = site.start(&ASK);
    answer(&site, &mut live, &["reject"]);
    assert_eq!(end(&live.wait().with(3).events())["reason"], "blocked");
    rerun_all(&site);

    let which = json!({ "questions": [{ "question": "Which?", "header": "Colour",
        "options": [{ "label": "red", "description": "" }, { "label": "blue", "description": "" }] }] });
    let site = Site::scripted(&script(json!([call("question", which), says("Red it is.")])));
    let mut live = site.start(&ASK);
    answer(&site, &mut live, &["once", "--feedback", "red"]);
    assert!(only(&live.wait().ok().events(), "tool.finished").to_string().contains("red"));
    rerun_all(&site);
}

#[test]
fn retries_and_waits_that_are_over() {
    let faults = json!([
        { "class": "overloaded", "message": "busy", "retry_after": 1 },
        { "class": "rate_limit", "message": "slow down", "retry_after": 1 },
    ]);
    let sleep = json!({ "command": "while true; do sleep 0.05; done", "timeout": 300 });
    let site = Site::scripted(&script(json!([
        { "parts": [{ "call": { "name": "bash", "input": sleep } }], "faults": faults },
        says("It took too long."),
    ])));
    let events = site.prompt("go").ok().events();
    assert_eq!(all(&events, "model.retry_scheduled").len(), 2);
    let cancelled = only(&events, "tool.cancelled");
    let elapsed = all(&events, "session.deadline_passed");
    assert_eq!(elapsed.len(), 3, "two pauses and the command: {cancelled}");
    rerun_all(&site);
}

#[test]
fn a_summary_after_a_retry_and_one_that_somebody_asked_for() {
    let site = filled();
    let events = site.prompt("go").ok().events();
    only(&events, "compaction.finished");
    site.run(&["compact", "last"]).ok();
    assert_eq!(all(&site.exported(), "compaction.finished").len(), 2);
    rerun_all(&site);
}

#[test]
fn old_output_that_is_no_longer_sent() {
    let much = bash("head -c 300000 /dev/zero | tr '\\0' x");
    let replies = json!([much, says("Much."), says("Two."), says("Three."), says("Four.")]);
    let site = Site::scripted(&script(replies))
        .setting("tool_output", json!({ "max_lines": 100_000, "max_bytes": 1_000_000 }));
    site.prompt("one").ok();
    for prompt in ["two", "three", "four"] {
        site.run(&["run", "--continue", prompt]).ok();
    }
    only(&site.exported(), "compaction.pruned");
    site.assert_sound();
    rerun_all(&site);
}

#[test]
fn a_revert_its_undoing_and_a_prompt_behind_one() {
    let edit = json!({ "filePath": "a.txt", "oldString": "first", "newString": "second" });
    let on = |prompt: &str, answers: usize, mut reply: Value| {
        reply["match"] = json!({ "prompt": prompt, "answers": answers });
        reply
    };
    let site = Site::scripted(&script(json!([
        on("one", 0, call("edit", edit)),
        on("one", 1, says("Edited.")),
        on("two", 0, says("Nothing was.")),
    ])))
    .setting("snapshot", json!(true));
    site.file("a.txt", "first\n");
    let events = site.prompt("one").ok().events();
    let prompt = only(&events, "turn.prompted")["seq"].to_string();
    site.run(&["revert", "last", "--to", &prompt]).ok();
    site.run(&["unrevert", "last"]).ok();
    site.run(&["revert", "last", "--to", &prompt]).ok();
    site.run(&["run", "--continue", "two"]).ok();
    assert_eq!(all(&site.exported(), "files.restored").len(), 3);
    rerun_all(&site);
    assert_eq!(std::fs::read_to_string(site.path("away/a.txt")).unwrap(), "first\n");
}

#[test]
fn an_agent_that_takes_over_when_its_plan_is_agreed_to() {
    let write = |path: &str| call("write", json!({ "filePath": path, "content": "Written.\n" }));
    let site = Site::scripted(&script(json!([
        write(".leftfold/plans/x.md"),
        call("plan_exit", json!({})),
        write("src.txt"),
        says("Built."),
    ])));
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    let plan = ["run", "--format", "json", "--permission-mode", "ask", "--agent", "plan", "go"];
    let mut live = site.start(&plan);
    answer(&site, &mut live, &["once", "--feedback", "Yes"]);
    only(&live.wait().ok().events(), "turn.switched");
    rerun_all(&site);
}

#[test]
fn a_prompt_that_joins_a_turn() {
    let site = Site::scripted(&script(json!([
        bash("touch started; while [ ! -e go ]; do sleep 0.05; done"),
        says("Both."),
    ])));
    let first = site.start(&["run", "--format", "json", "one"]);
    wait_until("the command runs", || site.project().join("started").exists());
    let second = site.start(&["run", "--continue", "--format", "json", "two"]);
    wait_until("it has joined", || all(&site.exported(), "turn.prompted").len() == 2);
    site.file("go", "");
    first.wait().ok();
    second.wait().ok();
    let events = site.exported();
    only(&events, "turn.ended");
    rerun_all(&site);
}

#[test]
fn a_child_that_is_gone_on_with() {
    let task = |more: Value| {
        let mut input =
            json!({ "description": "Look", "prompt": "look closely", "subagentType": "general" });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call("task", input)
    };
    let child = json!({ "match": { "prompt": "look closely" }, "parts": [{ "text": "I see." }] });
    let site = Site::scripted(&script(json!([child, task(json!({})), says("Heard.")])));
    let events = site.prompt("go").ok().events();
    let id = only(&events, "subagent.spawned")["data"]["session"].clone();
    let on = |answers: usize, mut reply: Value| {
        reply["match"] = json!({ "prompt": "more", "answers": answers });
        reply
    };
    let task = on(2, task(json!({ "taskId": id })));
    let replies = json!([child, task, on(3, says("Heard again."))]);
    let site = site.setting("/provider/double/options/script/replies", replies);
    let events = site.run(&["run", "--continue", "--format", "json", "more"]).ok().events();
    assert_eq!(only(&events, "subagent.spawned")["data"]["session"], id);
    rerun_all(&site);
}
