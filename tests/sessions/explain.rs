//! `leftfold explain`: rebuilds a model's request from the log alone.

use common::{Site, all, bash, call, says, script};
use leftfold_events::Sha256;
use serde_json::{Value, json};

fn explained(site: &Site, seq: &Value, more: &[&str]) -> String {
    let seq = seq.to_string();
    site.run(&[&["explain", "last", &seq], more].concat()).ok().stdout
}

fn report(site: &Site, seq: &Value) -> Value {
    serde_json::from_str(&explained(site, seq, &["--format", "json"])).unwrap()
}

#[test]
fn every_request_is_rebuilt_to_the_byte_and_says_where_it_comes_from() {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([read, bash("echo hello"), says("Done.")])));
    site.file("a.txt", "alpha\n");
    let events = site.prompt("go").ok().events();
    let requests = all(&events, "model.requested");
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let bytes = explained(&site, &request["seq"], &["--request"]);
        let hash = Sha256::digest(bytes.as_bytes()).to_string();
        assert_eq!(request["data"]["request_sha256"], hash);
        assert_eq!(report(&site, &request["seq"])["sha256"]["recorded"], hash);
    }
    let last = report(&site, &requests[2]["seq"]);
    let prompt = all(&events, "turn.prompted")[0]["seq"].clone();
    let calls: Vec<Value> =
        all(&events, "tool.called").iter().map(|called| called["seq"].clone()).collect();
    let from: Vec<&Value> =
        last["messages"].as_array().unwrap().iter().map(|message| &message["from"]).collect();
    let expected = [
        json!([prompt]),
        json!([requests[0]["seq"]]),
        json!([calls[0]]),
        json!([requests[1]["seq"]]),
        json!([calls[1]]),
    ];
    assert_eq!(from, expected.iter().collect::<Vec<_>>());
    assert_eq!(last["left_out"], json!([]));
    let text = explained(&site, &requests[1]["seq"], &[]);
    for part in ["as logged", "alpha", "left out: nothing", &format!("user, from {prompt}")] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn text_of_a_failed_request_is_named_as_left_out() {
    let half = json!({ "class": "overloaded", "message": "gone", "retry_after": 1,
        "parts": [{ "text": "Both tables." }] });
    let reply = json!({ "parts": [{ "text": "One table." }], "faults": [half] });
    let site = Site::scripted(&json!({ "replies": [reply] }));
    let events = site.prompt("migrate").ok().events();
    let seq = |kind: &str, at: usize| all(&events, kind)[at]["seq"].clone();
    let retried = report(&site, &seq("model.requested", 1));
    let failed = seq("model.requested", 0);
    let what = format!("\"Both tables.\", which failed request {failed} streamed");
    assert_eq!(retried["left_out"], json!([{ "seq": seq("model.streamed", 0), "what": what }]));
    assert_eq!(report(&site, &failed)["left_out"], json!([]));
}

#[test]
fn what_a_summary_stands_for_is_said() {
    let summary = json!({ "match": { "purpose": "compaction" }, "parts": [{ "text": "Short." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello."), says("Again.")] }));
    site.prompt("hi").ok();
    let events = site.run(&["compact", "last", "--format", "json"]).ok().events();
    let through = all(&events, "compaction.started")[0]["data"]["through"].clone();
    let events = site.run(&["run", "--continue", "--format", "json", "more"]).ok().events();
    let last = report(&site, &all(&events, "model.requested")[0]["seq"]);
    let finished = all(&site.exported(), "compaction.finished")[0]["seq"].clone();
    let what = format!("the prompt \"hi\": only what summary {finished} says of it is sent");
    let prompt = json!({ "seq": 3, "what": what });
    let what = format!("this and everything before it: summary {finished} is sent instead");
    assert_eq!(last["left_out"], json!([prompt, { "seq": through, "what": what }]));
    assert_eq!(last["messages"][0]["from"], json!([finished]));
    assert!(last["messages"][0]["text"].as_str().unwrap().contains("Short."), "{last}");
}

#[test]
fn any_event_says_what_it_follows_from_and_what_came_of_it() {
    let read = call("read", json!({ "filePath": ".env" }));
    let site = Site::scripted(&script(json!([bash("echo hello"), read, says("So be it.")])))
        .setting("permission", json!({ "bash": { "*": "ask", "echo *": "allow" } }));
    site.file(".env", "COLOUR=blue\n");
    let events = site.prompt("go").ok().events();
    let seq = |kind: &str, n: usize| all(&events, kind)[n]["seq"].clone();
    let from = |report: &Value, name: &str| -> Vec<Value> {
        report[name].as_array().unwrap().iter().map(|event| event["seq"].clone()).collect()
    };
    let ruled = report(&site, &seq("permission.ruled", 0));
    assert_eq!(
        ruled["rule"],
        json!({ "permission": "bash", "pattern": "echo *", "action": "allow" })
    );
    let expected = ["turn.configured", "tool.called", "tool.resolved"].map(|kind| seq(kind, 0));
    let mut found = from(&ruled, "from");
    found.retain(|seq| expected.contains(seq));
    assert_eq!(found, expected);
    assert_eq!(ruled["same_today"], true);
    assert_eq!(ruled["decided_on"], expected[2]);
    // a question that nobody was there to answer
    let denied = explained(&site, &seq("permission.ruled", 1), &[]);
    for part in ["deny", "read `", "nobody can be asked", "tool.resolved"] {
        assert!(denied.contains(part), "{part}: {denied}");
    }
    let started = report(&site, &seq("tool.started", 0));
    assert!(from(&started, "from").contains(&seq("permission.ruled", 0)), "{started}");
    assert_eq!(from(&started, "then"), [seq("tool.finished", 0)]);
    let finished = report(&site, &seq("tool.finished", 0));
    assert_eq!(finished["decided_on"], Value::Null);
    assert_eq!(from(&finished, "then"), [seq("model.requested", 1)]);
    assert!(finished["reason"].as_str().unwrap().starts_with("after "), "{finished}");
    let ended = report(&site, &seq("turn.ended", 0));
    assert!(from(&ended, "from").contains(&seq("turn.prompted", 0)), "{ended}");
    assert!(explained(&site, &seq("turn.prompted", 0), &[]).contains("recorded from outside"));
    // every event
    for event in &events {
        explained(&site, &event["seq"], &[]);
    }
}

#[test]
fn requests_are_offered_where_there_is_none() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    let events = site.prompt("go").ok().events();
    let request = all(&events, "model.requested")[0]["seq"].to_string();
    let offers = format!("requests (model.requested) are at: {request}");
    let explain = |args: &[&str]| site.run(&[&["explain", "last"], args].concat()).with(2);
    explain(&["1", "--request"]).saying(&["event 1 is session.created", &offers]);
    explain(&["99"]).saying(&["there is no event 99: the log has events 1 to", &offers]);
}

/// A site whose prompt has texts from every kind of source, and the arguments of its run.
fn of_all_sources() -> (Site, [&'static str; 7]) {
    let site = Site::scripted(&script(json!([bash("rm -r x"), says("Done.")])))
        .setting("/secrets", json!({ "KEY": "0123456789abcdef-a-long-secret" }));
    let own = site.path("config/leftfold");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("AGENTS.md"), "Be brief.\n").unwrap();
    site.file("AGENTS.md", "\n\nUse 0123456789abcdef-a-long-secret.\nUse tabs, ä.\n\n");
    site.file("docs/more.md", "More.\n");
    site.file(".leftfold/skills/tidy/SKILL.md", "---\ndescription: Tidies up.\n---\nTidy.\n");
    let agent = "---\ndescription: Reviews.\npermission:\n  webfetch: deny\n---\n\nReview it.\nThen stop.\n";
    site.file(".leftfold/agents/reviewer.md", agent);
    site.file("leftfold.json", r#"{ "instructions": ["docs/more.md"] }"#);
    let rules = "{\n  \"permission\": {\n    \"bash\": { \"rm *\": \"deny\" }\n  }\n}\n";
    std::fs::write(own.join("leftfold.json"), rules).unwrap();
    (site, ["run", "--format", "json", "--agent", "reviewer", "--system", "Mind the gap."])
}

#[test]
fn every_piece_of_a_configuration_says_where_it_comes_from() {
    let (site, args) = of_all_sources();
    let events = site.run(&[&args[..], &["go"]].concat()).ok().events();
    let seq = |kind: &str| all(&events, kind)[0]["seq"].clone();
    let project = site.project().display().to_string();
    let short = |text: &str| {
        text.replace(&project, "P").replace(&site.path("config").display().to_string(), "C")
    };
    let text = short(&explained(&site, &seq("turn.configured"), &[]));
    let expected = [
        "  agent reviewer P/.leftfold/agents/reviewer.md lines 7-8: ",
        "  environment: ",
        "  C/leftfold/AGENTS.md line 1: 9 bytes, \"Be brief.\"",
        "  P/AGENTS.md lines 3-4: 33 bytes, \"Use {{secret:KEY}}.\\nUse tabs, ä.\"",
        "  P/docs/more.md line 1 (`docs/more.md` of the setting `instructions`): 5 bytes, \"More.\"",
        "  skill tidy P/.leftfold/skills/tidy/SKILL.md: 18 bytes, \"- tidy: Tidies up.\"",
        "  option system: 13 bytes, \"Mind the gap.\"",
        "  (of instructions that contradict each other, the later one wins)",
        "  allow * `*` (default)",
        "  deny bash `rm *` (C/leftfold/leftfold.json:3:23)",
        "\nrestrictions, which only make verdicts stricter:\n",
        "  deny webfetch `*` (P/.leftfold/agents/reviewer.md:4:1)\n",
    ];
    let mut rest = text.as_str();
    for part in expected {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        rest = &rest[at..];
    }
    assert!(!text.contains("not recorded"), "{text}");
    let request = short(&explained(&site, &seq("model.requested"), &[]));
    assert!(expected[..8].iter().all(|part| request.contains(part)), "{request}");
    let ruled = short(&explained(&site, &seq("permission.ruled"), &[]));
    assert!(ruled.contains("rule: deny bash `rm *` (C/leftfold/leftfold.json:3:23)"), "{ruled}");
    let ruled = report(&site, &seq("permission.ruled"));
    assert_eq!(
        ruled["rule_source"],
        format!("{}:3:23", site.path("config/leftfold/leftfold.json").display())
    );
    let configured = report(&site, &seq("turn.configured"));
    assert_eq!(configured["configuration"]["system"][1][0]["source"], "environment");
    site.assert_sound();
}

#[test]
fn the_model_options_and_restrictions_name_their_places() {
    let site = Site::scripted(&script(json!([bash("rm -r x"), says("Done.")])));
    let own = site.path("config/leftfold");
    std::fs::create_dir_all(&own).unwrap();
    let settings = "{\n  \"retry\": { \"attempts\": 4 },\n\n  \"agent\": {\n    \"build\": { \"temperature\": 0.3, \"store\": false }\n  }\n}\n";
    std::fs::write(own.join("leftfold.json"), settings).unwrap();
    site.file_of_stranger("leftfold.json", "{\n  \"permission\": { \"webfetch\": \"deny\" }\n}\n");
    let args = ["run", "--format", "json", "--max-steps", "7", "go"];
    let events = site.run(&args).ok().events();
    let configured = &all(&events, "turn.configured")[0]["seq"];
    let project = site.project().display().to_string();
    let config = site.path("config").display().to_string();
    let text = explained(&site, configured, &[]).replace(&project, "P").replace(&config, "C");
    for part in [
        "model: double/m (LEFTFOLD_CONFIG_CONTENT:1:",
        "  retries: 4 (C/leftfold/leftfold.json:2:26)",
        "  title_prompt: \"\" (LEFTFOLD_CONFIG_CONTENT:1:",
        "  max_steps: 7 (option max_steps)",
        "  request.temperature: 0.3 (C/leftfold/leftfold.json:5:31)",
        "  request.store: false (C/leftfold/leftfold.json:5:45)",
        "  deny webfetch `*` (P/leftfold.json:2:31)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let sources = report(&site, configured)["configuration"]["options"]["sources"].clone();
    assert_eq!(sources["options"]["max_steps"], "option max_steps", "{sources}");
    // only the place has changed
    std::fs::write(own.join("leftfold.json"), format!("\n\n{settings}")).unwrap();
    let replies = json!([bash("rm -r x"), says("Done.")]);
    let site = site.setting("/provider/double/options/script/replies", replies);
    let again = site.run(&args).ok().events();
    let ids = [&events, &again].map(|events| events[0]["session"].as_str().unwrap().to_owned());
    let same = site.run(&["diff", &ids[0], &ids[1]]).ok().stdout;
    assert!(same.contains("equal except for ids and times"), "{same}");
    // another source has another value
    let site = site.setting("/agent/build/temperature", json!(0.9));
    let third = site.run(&args).ok().events();
    let third = third[0]["session"].as_str().unwrap();
    let differs = site.run(&["diff", &ids[0], third]).with(1).stdout.replace(&config, "C");
    for part in [
        "option request:\n",
        "source option request.temperature:\n  [-C/leftfold/leftfold.json-]{+LEFTFOLD_CONFIG_CONTENT+}",
    ] {
        assert!(differs.contains(part), "{part}: {differs}");
    }
    assert!(!differs.contains("source option request.store"), "{differs}");
    site.assert_sound();
}

#[test]
fn every_byte_of_the_system_prompt_is_in_one_piece() {
    let (site, args) = of_all_sources();
    site.run(&[&args[..], &["go"]].concat()).ok();
    let plain = Site::scripted(&script(json!([says("Done.")])));
    plain.prompt("go").ok();
    for (site, count) in [(&site, 7), (&plain, 2)] {
        for more in [&[][..], &["--unmasked"]] {
            let export = site.run(&[&["export", "last"], more].concat()).ok().stdout;
            let lines: Vec<Value> =
                export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let payload = |name: &str| -> Value {
                let hash = &all(&lines, "turn.configured")[0]["data"][name];
                let line = lines.iter().find(|line| line["payload"] == *hash).unwrap();
                serde_json::from_str(line["text"].as_str().unwrap()).unwrap()
            };
            let blocks: Vec<String> = serde_json::from_value(payload("system")).unwrap();
            let options = payload("options");
            let pieces = options["sources"]["system"].as_array().unwrap();
            let mut ends = vec![0; blocks.len()];
            for piece in pieces {
                let at = |name: &str| usize::try_from(piece[name].as_u64().unwrap()).unwrap();
                let block = at("block");
                assert_eq!(at("from"), ends[block], "{pieces:?}");
                assert!(at("from") < at("to") && blocks[block].is_char_boundary(at("to")));
                ends[block] = at("to");
            }
            assert_eq!(ends, blocks.iter().map(String::len).collect::<Vec<_>>());
            let named = pieces.iter().filter(|piece| piece["kind"] != "frame").count();
            assert_eq!(named, count, "{pieces:?}");
            let rules = payload("rules").as_array().unwrap().len();
            let sources = options["sources"]["rules"].as_array().unwrap();
            let covered = sources.iter().fold(0, |end, source| {
                assert_eq!(source["from"], end, "{sources:?}");
                source["to"].as_u64().unwrap()
            });
            assert_eq!(usize::try_from(covered).unwrap(), rules);
        }
    }
}
