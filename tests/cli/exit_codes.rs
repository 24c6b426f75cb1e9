//! Exit codes of `run`, and its messages on failure.

use common::{Answer, Server, Site, all, bash, end, says, script};
use serde_json::{Value, json};

fn ended(site: &Site, args: &[&str], code: i32) -> Value {
    let args = [&["run", "--format", "json"], args].concat();
    let events = site.run(&args).with(code).events();
    assert_eq!(all(&events, "turn.ended").len(), 1);
    site.assert_sound();
    end(&events).clone()
}

#[test]
fn a_provider_that_refuses_is_an_error() {
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error",
        "message": "temperature: must be at most 1" } });
    let server = Server::start(vec![Answer::Status(400, vec![], body.to_string())]);
    let end = ended(&Site::served(&server), &["hello"], 1);
    assert_eq!(end["reason"], "error");
    assert!(end["error"].as_str().unwrap().contains("temperature: must be at most 1"), "{end}");
    // a retry would fail again
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_wrong_key_is_an_error_that_names_the_provider() {
    let body = json!({ "type": "error", "error": { "type": "authentication_error",
        "message": "invalid x-api-key" } });
    let server = Server::start(vec![Answer::Status(401, vec![], body.to_string())]);
    let end = ended(&Site::served(&server), &["hello"], 1);
    let error = end["error"].as_str().unwrap();
    assert!(error.contains("invalid x-api-key") && error.contains("provider `local`"), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_server_that_is_not_there_is_an_error_that_names_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let site = Site::served(&Server::start(vec![]))
        .setting("provider/local/options/baseURL", json!(nowhere))
        .setting("retry/attempts", json!(0));
    let end = ended(&site, &["hello"], 1);
    let error = end["error"].as_str().unwrap();
    assert!(error.contains("no server listens there") && error.contains("baseURL"), "{error}");
}

#[test]
fn a_script_that_is_at_its_end_is_an_error() {
    let site = Site::scripted(&script(json!([bash("true")])));
    let end = ended(&site, &["hello"], 1);
    assert!(end["error"].as_str().unwrap().contains("no reply"), "{end}");
}

#[test]
fn the_limit_of_steps_ends_a_turn() {
    let site = Site::scripted(&script(json!([bash("echo one >> done"), says("never")])));
    let end = ended(&site, &["--max-steps", "1", "go"], 4);
    assert_eq!(end["reason"], "max_steps");
    assert_eq!(end["steps"], 1);
    // nobody would see the result of a call in the last step
    assert_eq!(site.text("done"), "");
    let ran = site.run(&["run", "--max-steps", "1", "-c", "go"]);
    assert_ne!(ran.code, 2, "{ran:?}");
}

/// Finish reasons of the replies, and the exit code of the turn with its text.
#[test]
fn a_reply_that_was_cut_off_is_not_taken_for_an_answer() {
    let cut = |text: &str, finish: &str| {
        let parts = if text.is_empty() { json!([]) } else { json!([{ "text": text }]) };
        json!({ "parts": parts, "finish": finish })
    };
    let half_a_call = json!({ "parts": [{ "call": { "name": "write",
        "input": "{\"filePath\":\"a.txt\",\"content\":\"ha" } }], "finish": "length" });
    for (replies, code, reason, text) in [
        (vec![cut("one tw", "length"), cut("o", "stop")], 0, "completed", "one two"),
        (vec![cut("one tw", "length"), cut("o th", "length")], 5, "incomplete", "one two th"),
        (vec![cut("", "length")], 5, "incomplete", ""),
        (vec![cut("one tw", "other"), cut("o", "stop")], 0, "completed", "one two"),
        (vec![cut("a", "other"), cut("b", "other"), cut("c", "other")], 5, "incomplete", "abc"),
        (vec![cut("a", "content_filter")], 5, "incomplete", "a"),
        (vec![cut("", "content_filter")], 1, "error", ""),
        (vec![cut("a", "tool_calls")], 1, "error", "a"),
        (vec![half_a_call, cut("Done.", "stop")], 0, "completed", "Done."),
    ] {
        let site = Site::scripted(&script(json!(replies)));
        let end = ended(&site, &["go"], code);
        assert_eq!((&end["reason"], &end["text"]), (&json!(reason), &json!(text)), "{replies:?}");
        assert_eq!(end["error"].is_null(), code == 0, "{end}");
        assert_eq!(site.text("a.txt"), "");
    }
}

#[test]
fn text_output_says_why_on_stderr() {
    let site = Site::scripted(&script(json!([bash("true"), says("never")])));
    let ran = site.run(&["run", "--max-steps", "1", "go"]).with(4);
    assert!(ran.stderr.contains("the step limit is reached"), "{ran:?}");
}

#[test]
fn a_model_that_is_not_known() {
    let site = Site::scripted(&script(json!([says("never")])));
    for (model, part) in [
        ("double", "PROVIDER/MODEL"),
        ("dubble/m", "did you mean `double`"),
        ("double/n", "lists no model `n`"),
    ] {
        let run = site.run(&["run", "--model", model, "hello"]);
        run.with(2).saying(&[model, part]);
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn a_failed_run_names_its_session_and_the_way_to_the_cause() {
    let site = Site::scripted(&script(json!([bash("git push"), says("I could not push.")])))
        .setting("/permission", json!({ "bash": { "git push*": "deny" } }));
    let ran = site.run(&["run", "go"]).ok();
    assert!(!ran.stderr.contains("leftfold why"), "{}", ran.stderr);
    let ran = site.run(&["run", "--fail-on-denied", "go"]).with(3);
    ran.saying(&["1 call denied, so the exit code is 3", "`leftfold why 01", "` says why"]);
    site.run(&["resume", "last"]).ok().saying(&["nothing to resume", "has ended (completed)"]);
    let seen = site.run(&["observe", "last", "--until-idle"]).ok();
    assert!(seen.stdout.contains("I could not push."), "{seen:?}");
}

#[test]
fn no_model_and_no_key() {
    let ran = Site::bare().run(&["run", "hello"]).with(2);
    ran.saying(&["ANTHROPIC_API_KEY", "\n  leftfold auth login anthropic  ", "\n  leftfold demo"]);
    let ran = Site::bare().run(&["run", "--model", "anthropic/claude-sonnet-4-5", "hello"]);
    ran.with(2).saying(&["has no key", "ANTHROPIC_API_KEY"]);
    let settings = json!({ "apiKey": "{env:NO_SUCH_KEY}", "baseURL": "http://127.0.0.1:9/v1" });
    let site = Site::scripted(&script(json!([says("never")])))
        .setting("provider/other", json!({ "wire": "anthropic", "options": settings }))
        .setting("provider/other/models", json!({ "m": {} }));
    site.run(&["run", "--model", "other/m", "hello"]).with(2).saying(&["NO_SUCH_KEY", "not set"]);
}

#[test]
fn settings_that_are_wrong_are_named_with_their_place() {
    let site = Site::scripted(&script(json!([says("never")])));
    for (text, parts) in [
        ("{\n  \"model\": \"double/m\",\n  \"retry\": { \"attempts\": \"ten\" }\n}", ":3:"),
        ("{\n  \"model\": \n}", ":3:"),
        ("{\n\n  \"permision\": {}\n}", "did you mean `permission`"),
    ] {
        let path = site.file("leftfold.json", text);
        let ran = site.run(&["run", "hello"]).with(2);
        ran.saying(&[path.to_str().unwrap(), parts]);
    }
    let site = Site::bare().env("LEFTFOLD_CONFIG_CONTENT", "{ nonsense");
    site.run(&["run", "hello"]).with(2).saying(&["LEFTFOLD_CONFIG_CONTENT:1:"]);
    assert!(site.sessions().is_empty());
}

#[test]
fn a_script_that_is_wrong_is_named_with_its_place() {
    let reply = json!({ "parts": [{ "text": "a", "delay_ms": 3 }] });
    let site = Site::scripted(&script(json!([reply])));
    site.run(&["run", "hello"]).with(2).saying(&["replies[0].parts[0]", "exactly one of"]);
}

#[test]
fn a_session_that_is_not_there() {
    let site = Site::scripted(&script(json!([says("one")])));
    site.run(&["run", "-c", "hello"]).with(2).saying(&["no sessions yet"]);
    site.run(&["run", "--session", "01ARZ3NDEK", "hello"]).with(2).saying(&["01ARZ3NDEK"]);
    for command in ["resume", "replay", "verify", "check", "export"] {
        site.run(&[command, "01ARZ3NDEK"]).with(2).saying(&["no session `01ARZ3NDEK`"]);
        site.run(&[command, "last"]).with(2).saying(&["no sessions yet"]);
        let gone = site.path("gone/away");
        let ran = site.run(&[command, gone.to_str().unwrap()]).with(2);
        ran.saying(&[gone.to_str().unwrap()]);
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn arguments_that_do_not_exist() {
    let site = Site::bare();
    for args in
        [&["run", "--fromat", "json", "x"][..], &["rum"], &["run", "--max-steps", "no", "x"]]
    {
        site.run(args).with(2);
    }
    site.run(&["--version"]).ok();
}
