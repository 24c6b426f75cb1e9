//! `leftfold export` in the formats of other tools.

use common::validator::{Body, Validator};
use common::{Site, bash, says, script};
use serde_json::{Value, json};

use super::page::{Shown, compacted, plain, sessions, subagents};

fn exported(site: &Site, format: &str) -> String {
    site.run(&["export", "last", "--format", format]).ok().stdout
}

#[test]
fn a_transcript_has_what_happened_and_no_more_markup_than_its_own() {
    let words = [
        ("plain", "```diff\n--- a/notes.txt"),
        ("parallel", "bash sleep 0.2; echo a</code>"),
        ("subagents", "# Subagent `"),
        ("crashed", "_Resumed after an interruption._"),
        ("compacted", "Summary of everything before"),
        ("denied", "Denied by the permission rules."),
        ("huge", "Once more."),
        ("reverted", "Session `"),
        ("hostile", "ghp_…[masked]"),
    ];
    for Shown { name, site, hides, .. } in sessions() {
        let text = exported(&site, "md");
        let (_, words) = words.iter().find(|(known, _)| *known == name).unwrap();
        assert!(text.contains(words), "{name}: {text}");
        for hidden in hides {
            assert!(!text.contains(hidden), "{name}: {hidden}");
        }
        let opened = text.lines().filter(|line| *line == "<details>").count();
        assert_eq!(text.lines().filter(|line| *line == "</details>").count(), opened, "{name}");
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!text.contains(is_control) && !text.contains('\u{202e}'), "{name}");
        assert_eq!(text, exported(&site, "md"), "{name}");
        assert_eq!(text.contains("Repair the notes."), name == "plain", "{name}");
    }
}

/// The lines or objects of an export.
fn values(site: &Site, format: &str) -> Vec<Value> {
    let text = exported(site, format);
    let values = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    values.map(Result::unwrap).collect()
}

/// A session with an image, a result that is an image, and arguments that are no object.
fn with_media() -> Site {
    let site = Site::scripted(&script(json!([
        { "parts": [
            { "text": "I look." },
            { "call": { "id": "a.b", "name": "read", "input": { "filePath": "dot.png" } } },
            { "call": { "id": "c", "name": "read", "input": "no object" } },
        ] },
        says("A dot."),
        says("Nothing more."),
    ])));
    let dot = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    site.file("dot.png", dot);
    site.run(&["run", "--format", "json", "--file", "dot.png", "What is it?"]).ok();
    site.run(&["run", "--continue", "--format", "json", "And now?"]).ok();
    site
}

/// The types of the formats' own makers accept what is exported of all kinds of sessions.
#[test]
fn exports_have_the_shapes_of_their_formats() {
    let Some(validator) = Validator::installed() else { return };
    let mut bodies = Vec::new();
    let media = Shown { name: "media", site: with_media(), shows: vec![], hides: vec![] };
    for Shown { name, site, hides, .. } in sessions().into_iter().chain([media]) {
        for (export, format) in
            [("openai", "openai-training"), ("anthropic", "anthropic-training"), ("atif", "atif")]
        {
            let values = values(&site, export);
            assert!(!values.is_empty() || name == "reverted", "{name} {export}");
            for (body, at) in values.into_iter().zip(1..) {
                let text = body.to_string();
                assert!(hides.iter().all(|hidden| !text.contains(hidden)), "{name} {export}");
                bodies.push(Body { format, name: format!("{name} {at}"), body });
            }
        }
    }
    assert!(bodies.len() > 30, "{}", bodies.len());
    assert_eq!(validator.refused(&bodies), []);
    // and they refuse what is none
    let broken = |format, body| Body { format, name: "broken".into(), body };
    let user = json!({ "messages": [{ "role": "user", "content": "x" }] });
    let broken = [
        broken("openai-training", user.clone()),
        broken("anthropic-training", user),
        broken("atif", json!({ "steps": [] })),
    ];
    assert_eq!(validator.refused(&broken).len(), 3);
}

#[test]
fn a_line_for_training_is_a_conversation_as_the_model_had_it() {
    let site =
        Site::scripted(&script(json!([bash("echo ran"), says("Done."), says("You are welcome.")])));
    site.prompt("Do it.").ok();
    site.run(&["run", "--continue", "--format", "json", "Thanks."]).ok();
    for format in ["openai", "anthropic"] {
        let lines = values(&site, format);
        assert_eq!(lines.len(), 1, "{format}");
        let messages = lines[0]["messages"].as_array().unwrap();
        assert_eq!(messages.last().unwrap()["content"], "You are welcome.", "{format}");
        let prompts = messages.iter().filter(|message| message["content"] == "Thanks.");
        assert_eq!(prompts.count(), 1, "{format}");
    }
    let openai = &values(&site, "openai")[0];
    let called = openai["messages"].as_array().unwrap().iter().find_map(|message| {
        let call = &message["tool_calls"][0]["function"];
        (call["name"] == "bash").then(|| call["arguments"].clone())
    });
    assert!(called.unwrap().as_str().unwrap().contains(r#""command":"echo ran""#));
    // a summary ends one conversation and begins another
    let lines = values(&compacted(), "openai");
    assert_eq!(lines.len(), 2);
    assert!(!lines[0].to_string().contains("Half is done."), "{}", lines[0]);
    assert!(lines[1].to_string().contains("Half is done."), "{}", lines[1]);
}

#[test]
fn a_trajectory_has_each_step_with_its_results_and_subagents() {
    let whole = &values(&plain(), "atif")[0];
    let steps = whole["steps"].as_array().unwrap();
    let sources: Vec<&str> = steps.iter().map(|step| step["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["system", "user", "agent", "agent", "agent", "agent", "agent"]);
    assert_eq!(steps[5]["tool_calls"][0]["function_name"], "bash");
    let output = steps[5]["observation"]["results"][0]["content"].as_str().unwrap();
    assert!(output.starts_with("ran\n"), "{output}");
    let tokens = |name: &str| -> u64 {
        steps.iter().filter_map(|step| step["metrics"][name].as_u64()).sum()
    };
    assert_eq!(whole["final_metrics"]["total_prompt_tokens"], tokens("prompt_tokens"));
    assert!(tokens("completion_tokens") > 0);

    let whole = &values(&subagents(), "atif")[0];
    let inner = whole["subagent_trajectories"].as_array().unwrap();
    let known: Vec<&Value> = inner.iter().map(|inner| &inner["trajectory_id"]).collect();
    let refs = whole.to_string().matches("subagent_trajectory_ref").count();
    assert!(!known.is_empty() && refs == known.len(), "{refs} {known:?}");
    for step in whole["steps"].as_array().unwrap() {
        for result in step["observation"]["results"].as_array().into_iter().flatten() {
            let named = &result["subagent_trajectory_ref"][0]["trajectory_id"];
            assert!(named.is_null() || known.contains(&named), "{named}");
        }
    }
}

#[test]
fn formats_of_other_tools_are_always_masked() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.prompt("hi").ok();
    for format in ["md", "openai", "anthropic", "atif"] {
        for option in ["--unmasked", "--bundle"] {
            let ran = site.run(&["export", "last", "--format", format, option]);
            ran.with(2).saying(&["always masked"]);
        }
        let file = site.path("run.out");
        site.run(&["export", "last", "--format", format, "-o", file.to_str().unwrap()]).ok();
        assert_eq!(std::fs::read_to_string(file).unwrap(), exported(&site, format));
    }
}
