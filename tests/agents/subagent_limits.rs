//! Cost and time limits of subagents.

use common::{Site, all, call, end, kind, only, says, script};
use serde_json::{Value, json};

fn task(prompt: &str) -> Value {
    json!({ "call": { "name": "task", "input": {
        "description": prompt, "prompt": prompt, "subagent_type": "general" } } })
}

#[test]
fn one_that_does_not_end_is_interrupted_and_the_turn_goes_on() {
    let waits = json!({ "match": { "prompt": "wait for ever" },
        "parts": [{ "call": { "name": "bash", "input": { "command": "sleep 600" } } }] });
    let says =
        json!({ "match": { "prompt": "go", "answers": 1 }, "parts": [{ "text": "It hangs." }] });
    let ask =
        json!({ "match": { "prompt": "go", "answers": 0 }, "parts": [task("wait for ever")] });
    let site = Site::scripted(&script(json!([waits, says, ask])))
        .setting("task", json!({ "timeout": 1_500 }));
    let events = site.prompt("go").ok().events();
    let root = &events[0]["session"];
    let own = |kind: &str| -> Vec<&Value> {
        all(&events, kind).into_iter().filter(|event| event["session"] == *root).collect()
    };
    assert_eq!(own("tool.resolved")[0]["data"]["timeout"], 1_500);
    assert_eq!(own("tool.cancelled").len(), 1);
    let ended = only(&events, "subagent.ended");
    // it was interrupted, or, on a slow machine, cancelled before it began
    let reason = ended["data"]["reason"].as_str().unwrap();
    assert!(["aborted", "error"].contains(&reason), "{ended}");
    assert_eq!(end(&events)["text"], "It hangs.");
    site.assert_sound();
}

#[test]
fn subagents_nest_only_as_deeply_as_the_settings_allow() {
    let deeper = json!({ "description": "Deeper", "prompt": "deeper", "subagentType": "deep" });
    let deep = json!({ "deep": { "mode": "all", "permission": { "task": "allow" } } });
    for (settings, depth) in
        [(json!({}), 5), (json!({ "max_depth": 2 }), 2), (json!({ "max_depth": 0 }), 0)]
    {
        let site = Site::scripted(&script(json!([call("task", deeper.clone()), says("Done.")])))
            .setting("agent", deep.clone())
            .setting("task", settings);
        let events = site.prompt("deeper").ok().events();
        assert_eq!(all(&events, "subagent.spawned").len(), depth);
        assert_eq!(all(&events, "subagent.ended").len(), depth);
        let denials = |event: &&&Value| event["data"]["permission_denials"] != json!([]);
        let denied: Vec<Value> =
            all(&events, "turn.ended").iter().filter(denials).map(|e| (*e).clone()).collect();
        assert_eq!(denied.len(), 1, "{denied:?}");
        let session = denied[0]["session"].as_str().unwrap();
        let requests = site.run(&["export", session]).ok().events();
        let mut own =
            requests.iter().filter(|e| e["session"] == session && kind(e) == "model.requested");
        let last = own.next_back().unwrap()["seq"].to_string();
        let told = site.run(&["explain", session, &last]).ok().stdout;
        assert!(told.contains(&format!("may be nested {depth} deep")), "{told}");
        site.assert_sound();
    }
}

#[test]
fn a_time_that_is_none_is_refused() {
    for (value, said) in
        [(json!(0), "task.timeout"), (json!("1h"), "expected"), (json!(-1), "expected")]
    {
        let site = Site::scripted(&script(json!([]))).setting("task", json!({ "timeout": value }));
        site.prompt("go").with(2).saying(&["`task.timeout`", said]);
    }
    let site = Site::scripted(&script(json!([]))).setting("task", json!({ "timeuot": 1 }));
    site.prompt("go").with(2).saying(&["did you mean `timeout`"]);
}

#[test]
fn a_family_together_keeps_to_the_limit() {
    // each reply costs a dollar; without a limit each child would make three
    let usage = json!({ "input": 500_000, "output": 500_000 });
    let read = |prompt: &str, answers: u32| {
        json!({ "match": { "prompt": prompt, "answers": answers }, "usage": usage,
                "parts": [{ "call": { "name": "todoread" } }] })
    };
    let ask = json!({ "match": { "prompt": "go", "answers": 0 }, "usage": usage,
        "parts": [task("one"), task("two")] });
    let mut replies = vec![ask];
    for prompt in ["one", "two"] {
        replies.extend((0..6).map(|answers| read(prompt, answers)));
    }
    let site = Site::scripted(&script(json!(replies)))
        .setting("provider/double/models/m/cost", json!({ "input": 1.0, "output": 1.0 }))
        .setting("provider/double/models/m/limit/context", json!(10_000_000))
        .setting("agent", json!({ "general": { "permission": { "todoread": "allow" } } }));
    let ran = site.run(&["run", "--format", "json", "--max-cost", "5", "go"]);
    let events = ran.events();
    // one dollar for the request, and two for each child: a child notices the limit one reply late
    let cost: f64 =
        all(&events, "model.finished").iter().filter_map(|e| e["data"]["cost"].as_f64()).sum();
    assert!(cost <= 5.0 + 2.0 + 1e-9, "{cost}: {ran:?}");
    let ended = all(&events, "subagent.ended");
    assert!(ended.iter().all(|event| event["data"]["reason"] == "limit"), "{ended:?}");
    assert_eq!(ended.len(), 2);
    for event in ended {
        assert!(event["data"]["cost"].as_f64().is_some_and(|cost| cost <= 3.0 + 1e-9), "{event}");
    }
    assert_eq!((ran.code, end(&events)["reason"].as_str()), (4, Some("limit")));
    site.assert_sound();
}
