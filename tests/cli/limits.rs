//! Options of a turn: limits of cost and time, a variant of the model, files and a system text.
//! `resume` keeps them.

use std::time::{Duration, Instant};

use common::{
    Answer, Block, Server, Site, Split, all, bash, end, message, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A site whose replies cost a dollar per thousand input tokens.
fn dear(replies: &[Value]) -> Site {
    let paid = |reply: &Value| {
        let mut reply = reply.clone();
        reply["usage"] = json!({ "input": 1_000 });
        reply
    };
    let replies: Vec<Value> = replies.iter().map(paid).collect();
    Site::scripted(&script(json!(replies)))
        .setting("provider/double/models/m/cost", json!({ "input": 1_000 }))
}

fn run(site: &Site, args: &[&str], code: i32) -> Vec<Value> {
    let args = [&["run", "--format", "json"], args, &["go"]].concat();
    site.run(&args).with(code).events()
}

#[test]
fn a_turn_that_is_too_dear_is_ended() {
    let site = dear(&[bash("true"), bash("true"), bash("sleep 1000"), says("never")]);
    let events = run(&site, &["--max-cost", "2.5"], 4);
    assert_eq!(all(&events, "model.requested").len(), 3);
    let end = end(&events);
    assert_eq!(end["reason"], "limit");
    assert_eq!(end["error"], "the limit of cost is $2.5, and the turn has cost $3");
    site.assert_sound();
}

#[test]
fn an_answer_past_the_limit_is_still_an_answer() {
    let site = dear(&[bash("true"), says("done")]);
    assert_eq!(end(&run(&site, &["--max-cost", "1.5"], 0))["text"], "done");
}

#[test]
fn a_turn_that_takes_too_long_is_ended_whatever_it_does() {
    let mut slow = says("never");
    slow["delay_ms"] = json!(600_000);
    for reply in [slow, bash("sleep 1000")] {
        let site = Site::scripted(&script(json!([reply])));
        let began = Instant::now();
        let events = run(&site, &["--timeout", "2"], 4);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let end = end(&events);
        assert_eq!(end["reason"], "limit");
        assert!(end["error"].as_str().unwrap().contains("the limit of time is 2s"), "{end}");
        site.assert_sound();
    }
}

#[test]
fn text_output_names_the_limit() {
    let site = dear(&[bash("true"), bash("true"), says("never")]);
    let ran = site.run(&["run", "--max-cost", "1", "go"]).with(4);
    assert!(ran.stderr.contains("the limit of cost is $1"), "{ran:?}");
}

/// A turn that was killed while its command ran.
fn killed(site: &Site, args: &[&str]) {
    let args = [&["run", "--format", "json"], args, &["go"]].concat();
    let mut live = site.start(&args);
    live.until("tool.started");
    live.signal(Signal::KILL);
    live.wait();
}

#[test]
fn resume_keeps_the_limits_of_the_turn_unless_it_has_its_own() {
    let replies = [bash("sleep 1000"), bash("true"), says("done")];
    for (args, code, reason) in [(&[][..], 4, "limit"), (&["--max-cost", "9"], 0, "completed")] {
        let site = dear(&replies);
        killed(&site, &["--max-cost", "1.5"]);
        let args = [&["resume", "last", "--format", "json"], args].concat();
        assert_eq!(end(&site.run(&args).with(code).events())["reason"], reason);
        site.assert_sound();
    }
}

#[test]
fn the_time_of_a_turn_goes_on_while_no_node_is_there() {
    let site = Site::scripted(&script(json!([bash("sleep 1000"), says("never")])));
    killed(&site, &[]);
    let dead = Instant::now();
    wait_until("the time is over", || dead.elapsed() > Duration::from_secs(1));
    let args = ["resume", "last", "--format", "json", "--timeout", "1"];
    let resumed = site.run(&args).with(4).events();
    assert_eq!(end(&resumed)["reason"], "limit");
    assert!(all(&resumed, "model.requested").is_empty());
    site.assert_sound();
}

#[test]
fn variant_system_and_files_reach_the_model() {
    let server = Server::start(vec![Answer::Stream(message(&[Block::Text("ok")]), Split::Whole)]);
    let site = Site::served(&server)
        .setting("provider/local/models/m/options", json!({ "metadata": { "a": 1, "b": 2 } }))
        .setting("provider/local/models/m/variants", json!({ "odd": { "metadata": { "b": 3 } } }));
    site.file("notes.txt", "the notes");
    site.file("shot.txt", b"\x89PNG\r\n\x1a\n....");
    let args =
        ["--variant", "odd", "--system", "Be brief.", "--file", "notes.txt", "--file", "shot.txt"];
    run(&site, &args, 0);
    let body = server.requests()[0].body.clone();
    assert_eq!(body["metadata"], json!({ "a": 1, "b": 3 }));
    let system = body["system"].as_array().unwrap();
    assert!(system.last().unwrap()["text"].as_str().unwrap().ends_with("Be brief."), "{system:?}");
    let content = body["messages"][0]["content"].to_string();
    assert!(content.contains("notes.txt") && content.contains("the notes"), "{content}");
    assert!(content.contains("image/png"), "{content}");
}

#[test]
fn what_can_not_be_given_is_refused_before_anything_happens() {
    let site = Site::scripted(&script(json!([says("never")])))
        .setting("provider/double/models/m/variants", json!({ "quick": {} }));
    for (args, part) in [
        (["--max-cost", "much"], "US dollars"),
        (["--timeout", "soon"], "90s, 5m, 1h"),
        (["--timeout", "0"], "above 0"),
        (["--variant", "quik"], "it has quick"),
        (["--file", "nowhere.txt"], "nowhere.txt"),
        (["--file", "."], "folder"),
    ] {
        site.run(&["run", args[0], args[1], "go"]).with(2).saying(&[part]);
    }
    assert!(site.sessions().is_empty());
}
