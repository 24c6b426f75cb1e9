//! Titles and summaries with their own models and prompts; agents with unknown models.

use common::{Site, all, call, end, only, says, script};
use serde_json::{Value, json};

/// A second provider whose model `s` answers requests of this purpose with `text`.
fn other(purpose: &str, text: &str) -> Value {
    let reply = json!({ "match": { "purpose": purpose }, "parts": [{ "text": text }] });
    json!({ "wire": "scripted", "options": { "script": { "replies": [reply] } },
            "models": { "s": { "cost": { "input": 1.0, "output": 1.0 } } } })
}

fn asked<'a>(events: &'a [Value], purpose: &str) -> Vec<&'a Value> {
    let requested = all(events, "model.requested").into_iter();
    requested.map(|event| &event["data"]).filter(|data| data["purpose"] == purpose).collect()
}

#[test]
fn the_agent_for_summaries_has_its_own_model_and_prompt() {
    let full = json!({ "parts": [{ "call": { "name": "todoread" } }],
        "match": { "prompt": "go", "answers": 0 }, "usage": { "input": 99_000, "output": 500 } });
    let done =
        json!({ "match": { "prompt": "next steps" }, "parts": [{ "text": "All is done." }] });
    let site = Site::scripted(&json!({ "replies": [done, full] }))
        .setting("provider/other", other("compaction", "Half is done."));
    let text = "---\nmodel: other/s\n---\nName the files alone.\n";
    site.file(".leftfold/agents/compaction.md", text);
    let events = site.prompt("go").ok().events();
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "Half is done.");
    let summaries = asked(&events, "compaction");
    assert_eq!(summaries[0]["model"], json!({ "provider": "other", "id": "s" }));
    assert!(asked(&events, "turn").iter().all(|data| data["model"]["id"] == "m"));
    assert_eq!(end(&events)["text"], "All is done.");
    let requested = all(&events, "model.requested");
    let summary = requested.iter().find(|event| event["data"]["purpose"] == "compaction").unwrap();
    let explained = site.run(&["explain", "last", &summary["seq"].to_string()]).ok().stdout;
    assert!(explained.contains("Name the files alone."), "{explained}");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}

#[test]
fn the_agent_for_titles_has_its_own_model() {
    let site = Site::scripted(&script(json!([says("Hello.")])))
        .setting("title", json!(true))
        .setting("provider/other", other("title", "Small talk"))
        .setting("agent", json!({ "title": { "model": "other/s", "prompt": "One word." } }));
    let events = site.prompt("hi").ok().events();
    assert_eq!(only(&events, "session.titled")["data"]["title"], "Small talk");
    assert_eq!(asked(&events, "title")[0]["model"]["provider"], "other");
    site.assert_sound();
    // a disabled agent for titles asks for none
    let site = Site::scripted(&script(json!([says("Hello.")])))
        .setting("title", json!(true))
        .setting("agent", json!({ "title": { "disable": true } }));
    assert_eq!(asked(&site.prompt("hi").ok().events(), "title").len(), 0);
}

#[test]
fn a_missing_model_names_file_and_line_before_anything_is_begun() {
    for (name, more) in [("compaction", ""), ("title", "")] {
        let site = Site::scripted(&script(json!([says("Never.")]))).setting("title", json!(true));
        let text = format!("---\ndescription: d\nmodel: double/none\n---\n{more}");
        let file = site.file(&format!(".leftfold/agents/{name}.md"), text);
        let ran = site.prompt("go").with(2);
        let said = format!("{}:3:1: agent `{name}`: model `double/none`", file.display());
        ran.saying(&[&said]);
        assert_eq!(site.sessions().len(), 0);
    }
}

#[test]
fn a_subagent_with_a_missing_model_fails_its_call_and_the_turn_goes_on() {
    let task =
        call("task", json!({ "description": "d", "prompt": "look", "subagent_type": "lost" }));
    let site = Site::scripted(&script(json!([task, says("I go on alone.")])));
    let text = "---\ndescription: d\nmode: subagent\nmodel: double/none\n---\n";
    let file = site.file(".leftfold/agents/lost.md", text);
    let events = site.prompt("go").ok().events();
    let finished = only(&events, "tool.finished");
    let output = finished["data"]["output"].as_str().unwrap();
    let said = format!("{}:4:1: agent `lost`: model `double/none`", file.display());
    assert!(finished["data"]["is_error"] == true && output.contains(&said), "{output}");
    assert_eq!(end(&events)["text"], "I go on alone.");
    site.assert_sound();
}
