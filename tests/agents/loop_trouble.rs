//! Bad input for agents and turns: files that refer to each other, missing skills and files, a
//! conversation too long to summarise. Each gives a helpful message, and the session stays usable.

use common::{Site, all, bash, call, end, only, says, script};
use serde_json::{Value, json};

#[test]
fn files_that_name_each_other_are_attached_once_and_not_followed() {
    let site = Site::scripted(&script(json!([says("Read.")])));
    site.file(".leftfold/commands/look.md", "Look at @a.md and @a.md\n");
    site.file("a.md", "See @b.md and @a.md\n");
    site.file("b.md", "See @a.md\n");
    let events = site.prompt("/look").ok().events();
    let parts = only(&events, "turn.prompted")["data"]["parts"].as_array().unwrap().clone();
    let files: Vec<&Value> = parts.iter().filter(|part| part["name"] == "a.md").collect();
    assert_eq!((parts.len(), files.len()), (2, 1), "{parts:?}");
    assert!(files[0]["text"].as_str().unwrap().contains("See @b.md"), "{parts:?}");
}

#[test]
fn a_skill_that_is_not_there_is_an_error_for_the_model_and_the_turn_goes_on() {
    let site = Site::scripted(&script(json!([
        call("skill", json!({ "name": "paint" })),
        says("Without it, then.")
    ])));
    site.file(".leftfold/skills/tidy/SKILL.md", "---\ndescription: d\n---\nTidy up.\n");
    let events = site.prompt("go").ok().events();
    let resolved = &only(&events, "tool.resolved")["data"];
    let told = format!("{resolved}{}", json!(all(&events, "tool.finished")));
    assert!(told.contains("paint") && told.contains("The skills are: tidy"), "{told}");
    assert_eq!(end(&events)["text"], "Without it, then.");
    site.assert_sound();
}

#[test]
fn a_summary_that_is_too_long_itself_ends_the_turn_and_not_the_session() {
    let full = json!({ "parts": [{ "call": { "name": "todoread" } }],
        "match": { "prompt": "go", "answers": 0 }, "usage": { "input": 99_000, "output": 500 } });
    let overflow = json!({ "class": "overflow", "message": "prompt is too long" });
    let summary = json!({ "match": { "purpose": "compaction" }, "faults": [overflow, overflow],
        "parts": [{ "text": "Never." }] });
    let site = Site::scripted(&json!({ "replies": [summary, full] }));
    let events = site.prompt("go").with(1).events();
    let error = end(&events)["error"].as_str().unwrap();
    assert!(error.contains("the summary failed") && error.contains("too long"), "{error}");
    let asked = all(&events, "model.requested").into_iter();
    assert_eq!(asked.filter(|event| event["data"]["purpose"] == "compaction").count(), 2);
    assert!(all(&events, "compaction.finished").is_empty());
    site.assert_sound();
    // the conversation is still there, and is summarised once it fits
    let summary =
        json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "In short." }] });
    let site = site.setting(
        "provider/double/options/script",
        json!({ "replies": [summary, says("On we go.")] }),
    );
    let events = site.run(&["run", "--continue", "--format", "json", "more"]).ok().events();
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "In short.");
    assert_eq!(end(&events)["text"], "On we go.");
    site.assert_sound();
}

#[test]
fn a_file_that_is_deleted_between_snapshot_and_revert_comes_back_and_goes_again() {
    let site = Site::scripted(&script(json!([bash("echo two > a; echo new > b"), says("Done.")])))
        .setting("snapshot", json!(true));
    site.file("a", "one\n");
    let events = site.prompt("go").ok().events();
    for name in ["a", "b"] {
        std::fs::remove_file(site.project().join(name)).unwrap();
    }
    let to = only(&events, "turn.prompted")["seq"].to_string();
    site.run(&["revert", "last", "--to", &to]).ok();
    assert_eq!((site.text("a").as_str(), site.text("b").as_str()), ("one\n", ""));
    site.run(&["unrevert", "last"]).ok();
    assert!(!common::exists(&site.project().join("a")), "it was gone before");
    site.assert_sound();
}
