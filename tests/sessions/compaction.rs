//! Compaction of a model's context, on the built program.

use common::*;
use serde_json::json;

#[test]
fn a_full_conversation_is_summed_up_and_goes_on() {
    let site = filled();
    let ran = site.prompt("go");
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = ran.events();
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "Half is done.");
    assert_eq!(all(&events, "model.retry_scheduled").len(), 1);
    assert_eq!(end(&events)["text"], "All is done.");
    site.assert_sound();
}

#[test]
fn a_summary_is_asked_for_once() {
    let summary = json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Short." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello.")] }));
    assert_eq!(site.prompt("hi").code, 0);
    let ran = site.run(&["compact", "last", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let events = ran.events();
    assert_eq!(only(&events, "compaction.started")["data"]["auto"], false);
    assert_eq!(end(&events)["reason"], "completed");
    let again = site.run(&["compact", "last"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(format!("{again:?}").contains("nothing to summarize"), "{again:?}");
    site.assert_sound();
}

#[test]
fn a_summary_follows_the_instructions_that_were_given() {
    let wanted = json!({ "purpose": "compaction", "prompt": "Keep the numbers." });
    let summary = json!({ "match": wanted, "parts": [{ "text": "42." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello.")] }));
    site.prompt("hi").ok();
    let ran = site.run(&["compact", "last", "Keep the numbers.", "--format", "json"]).ok();
    let events = ran.events();
    assert_eq!(only(&events, "compaction.asked")["data"]["instructions"], "Keep the numbers.");
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "42.");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}

#[test]
fn a_summary_that_was_cut_off_is_written_again() {
    let cut = json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Half a summ" }],
        "finish": "length" });
    let again = json!({ "purpose": "compaction", "prompt": "Write at most" });
    let whole = json!({ "match": again, "parts": [{ "text": "Short." }] });
    let site = Site::scripted(&json!({ "replies": [whole, cut, says("Hello.")] }));
    site.prompt("hi").ok();
    let events = site.run(&["compact", "last", "--format", "json"]).ok().events();
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "Short.");
    assert_eq!(all(&events, "model.finished").len(), 2);
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();

    let site = Site::scripted(&json!({ "replies": [cut, says("Hello."), says("Still here.")] }));
    site.prompt("hi").ok();
    let ended = end(&site.run(&["compact", "last", "--format", "json"]).with(1).events()).clone();
    let error = ended["error"].as_str().unwrap();
    assert!(error.contains("the output limit has cut it off (after 2 attempts)"), "{error}");
    let events =
        site.run(&["run", "--session", "last", "--format", "json", "and now"]).ok().events();
    assert_eq!(end(&events)["text"], "Still here.");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}
