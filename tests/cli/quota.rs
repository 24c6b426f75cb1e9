//! Quotas of projects, where sessions are in folders of this machine.

use common::{Editor, Site, all, call, end, says, script};
use serde_json::{Value, json};

/// A site whose replies cost a dollar each, with this quota for all projects.
fn dear(replies: &Value, quota: &Value) -> Site {
    let mut replies = replies.clone();
    for reply in replies.as_array_mut().unwrap() {
        reply["usage"] = json!({ "input": 1_000 });
    }
    Site::scripted(&script(replies))
        .setting("provider/double/models/m/cost", json!({ "input": 1_000 }))
        .setting("quota", json!({ "*": quota }))
}

fn events_of(site: &Site) -> usize {
    site.run(&["export", "last"]).ok().events().len()
}

#[test]
fn prompts_are_refused_once_the_day_has_cost_enough() {
    let site = dear(&json!([says("One."), says("Two."), says("Three.")]), &json!({}));
    let file = site.file("../user.json", r#"{ "quota": { "*": { "cost_per_day": 1.5 } } }"#);
    let site = site.env("LEFTFOLD_CONFIG", file.display().to_string());
    site.prompt("First.").ok();
    site.run(&["run", "Second."]).ok();
    let events = events_of(&site);
    let setting = format!("`quota.*.cost_per_day` in {}:1:", file.display());
    for args in [&["run", "Third."][..], &["run", "--continue", "Third."]] {
        site.run(args).with(4).saying(&[
            "requests of today have cost $2.00 of $1.50",
            &setting,
            "prompts are taken again at ",
            "T00:00:00.000Z",
        ]);
    }
    assert_eq!(events_of(&site), events);
    let listed = site.run(&["sessions", "--format", "json"]).ok().stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
    // what asks no prompt is still done
    site.run(&["resume", "last"]).ok();
    // another project has a quota of its own
    std::fs::create_dir_all(site.path("other")).unwrap();
    let mut command = site.command(&["run", "Elsewhere."]);
    command.current_dir(site.path("other"));
    common::Live::start(command).wait().ok();
}

#[test]
fn sessions_that_have_begun_go_on_and_new_ones_are_refused() {
    let site = dear(
        &json!([says("One."), says("Two."), says("Three.")]),
        &json!({ "sessions_per_day": 1 }),
    );
    site.prompt("First.").ok();
    site.run(&["run", "Second."]).with(4).saying(&["1 of 1 sessions of today have begun"]);
    site.run(&["run", "--continue", "Second."]).ok();
    site.run(&["fork", "last", "Third."]).with(4).saying(&["1 of 1 sessions of today"]);
    site.run(&["run", "--continue", "Third."]).ok();
}

#[test]
fn subagents_count_with_their_cost_and_not_as_sessions() {
    let task = json!({ "description": "look", "prompt": "look", "subagent_type": "general" });
    let look = json!({ "match": { "prompt": "look" }, "parts": [{ "text": "I looked." }] });
    let answers = json!([look, call("task", task), says("Done."), says("Next.")]);
    let quota = json!({ "sessions_per_day": 2, "cost_per_day": 3.0 });
    let site = dear(&answers, &quota).setting("permission", json!({ "task": "allow" }));
    let events = site.prompt("go").ok().events();
    assert_eq!(end(&events)["reason"], "completed");
    assert_eq!(all(&events, "subagent.spawned").len(), 1);
    site.run(&["run", "Again."]).with(4).saying(&["have cost $3.00 of $3.00"]);
    let site = site.setting("quota/*/cost_per_day", json!(100));
    site.run(&["run", "Again."]).ok();
    site.run(&["run", "Once more."]).with(4).saying(&["2 of 2 sessions"]);
}

#[test]
fn editors_and_servers_get_the_refusal() {
    let site = dear(&json!([says("One."), says("Two.")]), &json!({ "cost_per_day": 1 }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "First.");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "Second.");
    let error = editor.error(prompt);
    assert_eq!(error["code"], -32602, "{error}");
    assert!(error["message"].as_str().unwrap().contains("cost $1.00 of $1.00"), "{error}");
    // the node of another process refuses it
    let refused = site.run(&["run", "--session", &session, "Third."]).with(4);
    refused.saying(&["have cost $1.00 of $1.00", "LEFTFOLD_CONFIG_CONTENT:"]);
    editor.leave();
}

#[test]
fn a_project_sets_no_quota_of_its_own() {
    let site = Site::scripted(&script(json!([says("One.")])));
    site.file("leftfold.json", r#"{ "quota": { "*": { "sessions_per_day": 0 } } }"#);
    site.run(&["run", "go"]).ok().saying(&["`quota` counts only in your own settings"]);
}
