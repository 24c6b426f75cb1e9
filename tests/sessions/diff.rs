//! `leftfold diff`: compares two sessions.

use common::{Site, bash, call, says};
use serde_json::{Value, json};

/// Two sessions in one project with one prompt; each has its own script.
fn two(first: &Value, second: &Value) -> (Site, [String; 2]) {
    let mut site = Site::scripted(&json!({ "replies": first }));
    let mut ids = Vec::new();
    for replies in [None, Some(second.clone())] {
        if let Some(replies) = replies {
            site = site.setting("/provider/double/options/script/replies", replies);
        }
        let events = site.prompt("go").ok().events();
        ids.push(events[0]["session"].as_str().unwrap().to_owned());
    }
    let [a, b] = <[String; 2]>::try_from(ids).unwrap();
    (site, [a, b])
}

#[test]
fn a_session_is_equal_to_itself() {
    let (site, [a, _]) = two(&json!([says("Hello.")]), &json!([says("Bye.")]));
    assert!(site.run(&["diff", &a, &a]).ok().stdout.contains("equal except for ids and times"));
    let report = site.run(&["diff", &a, &a, "--format", "json"]).ok().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["equal"], &report["part"]), (&json!(true), &Value::Null));
}

#[test]
fn sessions_with_children_differ_in_what_these_say_and_not_in_their_ids() {
    let input = json!({ "description": "Look", "prompt": "look", "subagentType": "general" });
    let replies = |said: &str| {
        let child = json!({ "match": { "prompt": "look" }, "parts": [{ "text": said }] });
        json!([child, call("task", &input), says("Heard.")])
    };
    let (site, [a, b]) = two(&replies("I see."), &replies("I see."));
    let equal = site.run(&["diff", &a, &b]).ok().stdout;
    assert!(equal.contains("equal except for ids and times"), "{equal}");
    let site = site.setting("/provider/double/options/script/replies", replies("Nothing."));
    let events = site.prompt("go").ok().events();
    let c = events[0]["session"].as_str().unwrap();
    let report = site.run(&["diff", &a, c, "--format", "json"]).with(1).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["part"]["field"], "data.answer", "{report}");
    assert_eq!(
        (&report["part"]["a"], &report["part"]["b"]),
        (&json!("I see."), &json!("Nothing."))
    );
    let text = site.run(&["diff", &a, c]).with(1).stdout;
    assert!(text.contains("-subagent.ended completed: \"I see.\""), "{text}");
}

#[test]
fn the_first_difference_is_named_and_what_came_of_it() {
    let (site, [a, b]) =
        two(&json!([bash("echo one"), says("Hello.")]), &json!([bash("echo two"), says("Hello.")]));
    let text = site.run(&["diff", &a, &b]).with(1).stdout;
    for part in [
        "data.call.input.command", "-tool.called bash echo one", "+tool.called bash echo two",
        "2 requests, 1 call,", "completed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = site.run(&["diff", &a, &b, "--format", "json"]).with(1).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["equal"], false);
    assert_eq!(report["part"]["a"], "echo one");
    assert_eq!(report["part"]["b"], "echo two");
    assert_eq!(report["b"]["session"], b);
}

#[test]
fn instructions_rules_tools_and_model_are_compared_word_by_word() {
    let mut site = Site::scripted(&json!({ "replies": [says("Hello.")] }));
    site.file("AGENTS.md", "Use tabs.\nBe brief.\n");
    let session = |site: &Site| {
        let events = site.prompt("go").ok().events();
        events[0]["session"].as_str().unwrap().to_owned()
    };
    let a = session(&site);
    let other = json!({ "limit": { "context": 50_000, "output": 8_000 } });
    site = site
        .setting("/model", json!("double/n"))
        .setting("/provider/double/models/n", other)
        .setting("/permission", json!({ "bash": { "git push *": "ask" }, "webfetch": "deny" }));
    site.file("AGENTS.md", "Use four spaces.\nBe brief.\n");
    let b = session(&site);
    let text = site.run(&["diff", &a, &b]).with(1).stdout;
    for part in [
        "configuration of the last turn:\nmodel id:\n  [-m-]{+n+}\n",
        "  Use [-tabs.-]{+four spaces.+}\n",
        "  Model: [-double/m-]{+double/n+}\n",
        "\n- tool webfetch\n",
        "\n+ rule ask bash `git push *`\n+ rule deny webfetch `*`\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("Be brief."), "{text}");
    let report = site.run(&["diff", &a, &b, "--format", "json"]).with(1).stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let changes = report["configuration"].as_array().unwrap();
    assert!(changes.contains(&json!({ "part": "model", "name": "id", "a": "m", "b": "n" })));
    let same = site.run(&["diff", &a, &a, "--format", "json"]).ok().stdout;
    assert!(same.contains("\"configuration\":[]"), "{same}");
}
