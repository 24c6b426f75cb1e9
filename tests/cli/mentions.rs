//! Files, folders and agents that a prompt names as `@PATH` and `@AGENT`.

use common::{Editor, Site, all, call, only, says, script};
use serde_json::{Value, json};

const PNG: &str = "iVBORw0KGgo=";

fn site() -> Site {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    site.file("src/a.rs", "one\ntwo\nthree\nfour\n");
    site.file("picture.png", b"\x89PNG\r\n\x1a\n");
    site.file("data.bin", b"\0\x01\x02");
    site
}

fn parts(events: &[Value]) -> Vec<Value> {
    only(events, "turn.prompted")["data"]["parts"].as_array().unwrap().clone()
}

/// The texts after the prompt.
fn attached(site: &Site, prompt: &str) -> Vec<String> {
    let parts = parts(&site.prompt(prompt).ok().events());
    assert_eq!(parts[0]["text"], prompt);
    parts[1..].iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_file_is_attached_whole_or_in_part() {
    let site = site();
    site.file("odd#2", "the name is odd\n");
    // as macOS writes it
    site.file("Cafe\u{301}.md", "open\n");
    let whole = "<file path=\"src/a.rs\">\n1: one\n2: two\n3: three\n4: four\n\n(End of file: 4 lines.)\n</file>";
    assert_eq!(attached(&site, "What is in @src/a.rs, and why @src/a.rs?"), [whole]);
    let middle = "<file path=\"src/a.rs\" lines=\"2-3\">\n2: two\n3: three\n\n(Lines 2 to 3 of 4. To go on: offset=4.)\n</file>";
    for prompt in ["See @src/a.rs#2-3.", "See (@src/a.rs:2-3)", "@src/a.rs#L2-L3: why?"] {
        assert_eq!(attached(&site, prompt), [middle], "{prompt}");
    }
    let line = attached(&site, "@src/a.rs:4");
    assert!(line[0].contains("lines=\"4-4\">\n4: four\n"), "{line:?}");
    let rest = attached(&site, "@src/a.rs#3- and @odd#2");
    assert!(rest[0].contains("lines=\"3-\">\n3: three\n4: four\n"), "{rest:?}");
    assert!(rest[1].starts_with("<file path=\"odd#2\">\n1: the name is odd"), "{rest:?}");
    assert!(attached(&site, "When does @Caf\u{e9}.md open?")[0].contains("1: open\n"));
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}

#[test]
fn folders_are_listed_and_pictures_are_shown() {
    let site = site();
    let parts = parts(&site.prompt("Compare @picture.png with @src").ok().events());
    assert_eq!(
        (&parts[1]["type"], &parts[1]["mime"], &parts[1]["text"], &parts[1]["name"]),
        (&json!("media"), &json!("image/png"), &json!(PNG), &json!("picture.png"))
    );
    assert_eq!(parts[2]["text"], "<folder path=\"src\">\na.rs\n\n(1 entries.)\n</folder>");
}

#[test]
fn what_names_nothing_stays_text() {
    let site = site();
    for prompt in
        ["ann@src/a.rs", "`@src/a.rs`", "@scope/package and @none.rs", "@src/a.rs#9-2", "@param x"]
    {
        assert_eq!(attached(&site, prompt), [""; 0], "{prompt}");
    }
}

#[test]
fn a_file_that_can_not_be_attached_is_named_to_the_user() {
    let site = site();
    site.file(".env", "PASSWORD=very-secret\n");
    let huge = [b"\x89PNG\r\n\x1a\n".as_slice(), &vec![0; 40 << 20]].concat();
    site.file("huge.png", huge);
    std::fs::write(site.path("out.txt"), "very-secret").unwrap();
    for (prompt, said) in [
        ("See @.env", "`@.env` is not attached: the prompt: the rules do not allow read `.env`"),
        (
            "See @../out.txt",
            "`@../out.txt` is not attached: the prompt: the rules do not allow external_directory",
        ),
        ("See @data.bin", "`@data.bin` is not attached: "),
        ("See @none.rs#2-3", "`@none.rs#2-3` is not attached: there is no file `none.rs` in /"),
        ("See @huge.png", "`@huge.png` is not attached: "),
        ("See @src/a.rs#9-12", "`@src/a.rs#9-12` is not attached: offset 9 is past the end"),
    ] {
        let ran = site.prompt(prompt).ok();
        assert!(ran.stderr.contains(said), "{said}: {}", ran.stderr);
        assert_eq!(parts(&ran.events()).len(), 1, "{prompt}");
        assert!(!ran.stdout.contains("very-secret"), "{}", ran.stdout);
    }
    // a large file goes in part
    site.file("large.txt", "line\n".repeat(3_000));
    let said = "only the beginning of `@large.txt` is attached: the model can read the rest";
    let ran = site.prompt("See @large.txt").ok().saying(&[said]);
    assert!(parts(&ran.events())[1]["text"].as_str().unwrap().contains("2000: line"));
    let ran = site.run(&["run", "--yes", "--format", "json", "See @.env"]).ok().events();
    assert!(parts(&ran)[1]["text"].as_str().unwrap().contains("very-secret"));
}

#[test]
fn an_agent_does_the_task_that_begins_with_its_name() {
    let site = Site::scripted(&script(json!([
        { "match": { "prompt": "find the door", "answers": 0 }, "parts": [{ "text": "It is red." }] },
        says("Not asked."),
        says("The door is red."),
    ])));
    site.file("a.txt", "alpha\n");
    let prompt = "@explore find the door, see @a.txt";
    let events = site.prompt(prompt).ok().events();
    let spawned = only(&events, "subagent.spawned");
    assert_eq!(spawned["data"]["agent"], "explore");
    let prompts = all(&events, "turn.prompted");
    assert_eq!(prompts[0]["data"]["parts"][0]["text"], prompt);
    let task = prompts[1]["data"]["parts"][0]["text"].as_str().unwrap();
    assert!(task.starts_with("find the door, see @a.txt\n\n<file path=\"a.txt\">"), "{task}");
    assert_eq!(common::end(&events)["text"], "The door is red.");
    site.assert_sound();
}

#[test]
fn the_model_calls_an_agent_that_a_prompt_mentions() {
    let task = json!({ "prompt": "look around", "subagentType": "explore", "description": "Look" });
    let site = Site::scripted(&script(json!([
        call("task", task),
        says("Heard."),
        { "match": { "prompt": "look around", "answers": 0 }, "parts": [{ "text": "Looked." }] },
    ])));
    let events = site.prompt("Ask @explore about it.").ok().events();
    let prompts = all(&events, "turn.prompted");
    let parts = &prompts[0]["data"]["parts"];
    assert_eq!(parts[1]["name"], "@explore");
    let hint = parts[1]["text"].as_str().unwrap();
    assert!(hint.contains("`explore`") && hint.contains("\"explore\""), "{hint}");
    assert_eq!(only(&events, "subagent.spawned")["data"]["agent"], "explore");

    // an agent that the rules do not let it call is text
    let site = self::site().setting("permission", json!({ "task": { "explore": "deny" } }));
    assert_eq!(attached(&site, "@explore the house"), [""; 0]);
    assert_eq!(attached(&site, "Ask @explore."), [""; 0]);
}

#[test]
fn mentions_count_in_every_front_end() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "See @src/a.rs#1");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let params = json!({ "session": session, "text": "And @src/a.rs#2" });
    let prompt = editor.ask("_leftfold/prompt", params);
    editor.result(prompt);
    common::wait_until("the second turn ends", || {
        all(&site.run(&["export", &session]).ok().events(), "turn.ended").len() == 2
    });
    // a client that gives parts has attached what it wants
    let parts = json!([{ "type": "text", "text": "And @src/a.rs#3" }]);
    let prompt = editor.ask("_leftfold/prompt", json!({ "session": session, "parts": parts }));
    editor.result(prompt);
    editor.leave();
    let events = site.run(&["export", &session]).ok().events();
    let prompts = all(&events, "turn.prompted");
    let names: Vec<Vec<&Value>> = prompts
        .iter()
        .map(|event| event["data"]["parts"].as_array().unwrap())
        .map(|parts| parts[1..].iter().map(|part| &part["name"]).collect())
        .collect();
    assert_eq!(names, [vec![&json!("src/a.rs#1-1")], vec![&json!("src/a.rs#2-2")], vec![]]);
}

#[test]
fn templates_and_skills_have_mentions_too() {
    let template = json!({ "see": { "template": "See @picture.png, @src and @src/a.rs#2" } });
    let site = site().setting("command", template);
    site.file(
        ".leftfold/skills/look/SKILL.md",
        "---\nname: look\ndescription: Looks\n---\nLook at it.\n",
    );
    let kinds = |prompt: &str| -> Vec<(String, String)> {
        let parts = parts(&site.prompt(prompt).ok().events());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        parts[1..].iter().map(|part| (text(&part["type"]), text(&part["name"]))).collect()
    };
    let named = |kind: &str, name: &str| (kind.to_owned(), name.to_owned());
    assert_eq!(
        kinds("/see"),
        [named("media", "picture.png"), named("text", "src"), named("text", "src/a.rs#2-2")]
    );
    assert_eq!(kinds("/look @src/a.rs"), [named("text", "src/a.rs")]);
}
