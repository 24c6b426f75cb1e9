//! Canaries: no secret appears in the log, the files beside it, or anything printed.

use std::path::Path;

use common::{Answer, Editor, Server, Site, all, bash, call, only, says, script};
use serde_json::{Value, json};

const CANARY: &str = "canary-4711-in-a-mine";

/// A site with a secret `DEPLOY` in a variable that commands also see.
fn site(replies: &Value) -> Site {
    Site::scripted(&script(replies))
        .setting("secrets", json!({ "DEPLOY": "{env:DEPLOY}" }))
        .setting("environment", json!(["DEPLOY"]))
        .env("DEPLOY", CANARY)
}

/// The files below `folder` that contain the canary.
fn found_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(found_in(&path));
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
        {
            found.push(path.display().to_string());
        }
    }
    found
}

fn assert_nowhere(site: &Site) {
    assert_eq!(found_in(&site.path("home/sessions")), Vec::<String>::new());
    for args in [&["export", "last"][..], &["replay", "last"]] {
        let ran = site.run(args).ok();
        assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{args:?}");
    }
    site.run(&["rerun", "last"]).ok();
    site.assert_sound();
}

#[test]
fn what_files_and_commands_show_has_names_in_its_place() {
    let long = "for i in $(seq 9000); do echo \"$DEPLOY\"; done";
    let site = site(&json!([
        call("read", json!({ "filePath": "notes.txt" })),
        bash("printf '%s' \"$DEPLOY\"; cat notes.txt"),
        bash(long),
        says(&format!("It is {CANARY}.")),
    ]));
    site.file("notes.txt", format!("token: {CANARY}\n"));
    let ran = site.prompt(&format!("remember {CANARY}")).ok();
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{ran:?}");
    let events = ran.events();
    let finished = all(&events, "tool.finished");
    assert!(finished.iter().all(|e| e["data"]["output"].to_string().contains("{{secret:DEPLOY}}")));
    let spill = finished[2]["data"]["spill"]["path"].as_str().unwrap();
    assert!(std::fs::read_to_string(spill).unwrap().starts_with("{{secret:DEPLOY}}\n"));
    assert_eq!(events.last().unwrap()["data"]["text"], "It is {{secret:DEPLOY}}.");
    assert_nowhere(&site);
}

#[test]
fn a_call_that_names_a_secret_runs_with_its_value() {
    let site = site(&json!([
        bash("printf %s '{{secret:DEPLOY}}' > out.txt; cat out.txt"),
        call("write", json!({ "filePath": "b.txt", "content": "k={{secret:DEPLOY}}\n" })),
        bash("echo {{secret:NONE}} > none.txt"),
        says("Done."),
    ]));
    let events = site.prompt("go").ok().events();
    assert_eq!(site.text("out.txt"), CANARY);
    assert_eq!(site.text("b.txt"), format!("k={CANARY}\n"));
    assert_eq!(site.text("none.txt"), "");
    let finished = all(&events, "tool.finished");
    assert_eq!(finished[0]["data"]["output"], "{{secret:DEPLOY}}");
    let refused = events.iter().map(Value::to_string);
    let told = "there is no secret named `NONE`. Calls may use: DEPLOY.";
    assert!(refused.filter(|event| event.contains(told)).count() > 0);
    assert_nowhere(&site);
}

#[test]
fn tokens_are_masked_in_what_is_shown_and_kept_in_the_log() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let site = Site::scripted(&script(json!([says(&format!("Take {token}."))])));
    let ran = site.prompt("go").ok();
    assert!(!ran.stdout.contains(&token) && ran.stdout.contains("ghp_…[masked]"), "{ran:?}");
    let export = |args: &[&str]| site.run(args).ok().stdout;
    assert!(!export(&["export", "last"]).contains(&token));
    assert!(export(&["export", "last", "--unmasked"]).contains(&token));
    site.assert_sound();
}

#[test]
fn a_token_in_pieces_is_masked_for_every_client() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let masked = "Take ghp_…[masked] now.";
    let reply = json!({ "chunk": 3, "parts": [{ "text": format!("Take {token} now.") }] });
    let site = Site::scripted(&script(json!([reply])));
    assert_eq!(site.run(&["run", "go"]).ok().stdout.trim_end(), masked);
    let events = site.prompt("go").ok().events();
    let pieces = all(&events, "model.streamed").into_iter().flat_map(|event| {
        event["data"]["parts"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap())
    });
    assert_eq!(pieces.collect::<String>(), masked);
    assert!(site.run(&["export", "last", "--unmasked"]).ok().stdout.contains(&token));
    site.run(&["rerun", "last"]).ok();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert_eq!(editor.text(&session, "agent_message_chunk"), masked);
    editor.leave();
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until(masked);
    terminal.until_prompt().press("\x04");
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

#[test]
fn a_key_that_a_provider_echoes_is_in_no_error() {
    let body = json!({ "error": { "message": format!("bad key {CANARY}") } }).to_string();
    let server = Server::start(vec![Answer::Status(401, Vec::new(), body)]);
    let site = Site::served(&server).setting("provider/local/options/apiKey", json!(CANARY));
    let ran = site.prompt("go");
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{ran:?}");
    only(&ran.events(), "model.failed");
    assert_nowhere(&site);
}
