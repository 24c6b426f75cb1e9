//! Children as clients of their root see them: their events, questions and costs.

use std::collections::BTreeSet;

use common::{ASK, Editor, Live, Site, all, end, kind, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

fn task(prompt: &str) -> Value {
    json!({ "call": { "name": "task", "input": {
        "description": prompt, "prompt": prompt, "subagentType": "general" } } })
}

fn child(prompt: &str, answers: u64, parts: &Value) -> Value {
    json!({ "match": { "prompt": prompt, "answers": answers }, "parts": parts })
}

/// A turn with a child for each of `prompts`; each child asks whether it may read `.env`.
fn site(prompts: &[&str]) -> Site {
    let read = json!([{ "call": { "name": "read", "input": { "filePath": ".env" } } }]);
    let tasks: Vec<Value> = prompts.iter().map(|prompt| task(prompt)).collect();
    let mut replies = vec![json!({ "parts": tasks }), says("The parent has heard.")];
    for prompt in prompts {
        replies.push(child(prompt, 0, &read));
        replies.push(child(prompt, 1, &json!([{ "text": format!("{prompt} is done") }])));
    }
    let site = Site::scripted(&script(json!(replies)));
    site.file(".env", "COLOUR=blue\n");
    site
}

/// The next `count` questions, by session.
fn questions(live: &mut Live, count: usize) -> Vec<Value> {
    (0..count).map(|_| live.until("permission.asked")).collect()
}

fn answer(site: &Site, session: &Value, call: &str, reply: &str) -> common::Ran {
    site.run(&["permission", "answer", session.as_str().unwrap(), call, reply])
}

fn places(events: &[Value]) -> Vec<(String, u64)> {
    let place = |event: &Value| {
        (event["session"].as_str().unwrap().to_owned(), event["seq"].as_u64().unwrap())
    };
    events.iter().map(place).collect()
}

/// Checks that every event occurs once, that each session is in order, and that children follow
/// their spawning event.
fn assert_in_order(events: &[Value]) {
    let mut next = std::collections::BTreeMap::new();
    let mut spawned: BTreeSet<String> = BTreeSet::new();
    spawned.extend(events.first().map(|event| event["session"].as_str().unwrap().to_owned()));
    for (event, (session, seq)) in events.iter().zip(places(events)) {
        assert!(spawned.contains(&session), "{session} comes before it was spawned");
        let expected = next.entry(session).or_insert(seq);
        assert_eq!(*expected, seq, "{event}");
        *expected += 1;
        if kind(event) == "subagent.spawned" {
            spawned.insert(event["data"]["session"].as_str().unwrap().to_owned());
        }
    }
}

/// Reads the output of `observe` until the root's turn has ended and `count` events were shown.
fn observed(site: &Site, args: &[&str], count: usize) -> Vec<Value> {
    let mut live = site.start(&[&["observe", "last", "--format", "json"], args].concat());
    let mut events = Vec::new();
    while events.len() < count {
        events.push(live.until_event(|event| event.get("payload").is_none()));
    }
    events
}

#[test]
fn two_children_ask_at_once_and_are_answered_in_any_order() {
    let site = site(&["look one", "look two"]);
    let mut live = site.start(&ASK);
    let asked = questions(&mut live, 2);
    assert_ne!(asked[0]["session"], asked[1]["session"]);
    let spawned: Value = serde_json::from_str(live.seen.lines().next().unwrap()).unwrap();
    let root = spawned["session"].clone();
    // the root's id is ambiguous: both models have used one id for their calls
    let seq = asked[0]["data"]["call"].as_str().unwrap();
    assert_eq!(asked[1]["data"]["call"], seq);
    let named = asked[1]["session"].as_str().unwrap();
    answer(&site, &root, seq, "once").with(1).saying(&["several", named]);
    answer(&site, &asked[1]["session"], seq, "once").ok();
    answer(&site, &asked[1]["session"], seq, "once").with(1).saying(&["already answered"]);
    answer(&site, &root, "nonsense", "once").with(1).saying(&["never had one"]);
    // now it is unambiguous
    answer(&site, &root, seq, "once").ok();
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "The parent has heard.");
    assert_eq!(all(&events, "permission.answered").len(), 2);
    assert_eq!(all(&events, "subagent.ended").len(), 2);
    assert_in_order(&events);
    let mut seen = places(&observed(&site, &[], events.len()));
    let mut printed = places(&events);
    seen.sort();
    printed.sort();
    assert_eq!(seen, printed);
    site.assert_sound();
}

#[test]
fn a_childs_question_outlives_a_kill() {
    let site = site(&["look"]);
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    live.signal(Signal::KILL);
    live.wait();
    let seq = asked["seq"].to_string();
    answer(&site, &asked["session"], &seq, "once").with(1).saying(&["no node runs"]);
    let resume = ["resume", "last", "--format", "json", "--permission-mode", "ask"];
    let mut live = site.start(&resume);
    let child = asked["session"].clone();
    live.until_event(|e| e["type"] == "session.resumed" && e["session"] == child);
    let root: Value = serde_json::from_str(live.seen.lines().next().unwrap()).unwrap();
    answer(&site, &root["session"], &seq, "once").ok();
    assert_eq!(end(&live.wait().ok().events())["text"], "The parent has heard.");
    let exported = site.exported();
    assert_eq!(all(&exported, "permission.asked").len(), 1);
    assert_eq!(only(&exported, "permission.answered")["of"].to_string(), seq);
    site.assert_sound();
}

#[test]
fn observers_follow_children_across_nodes_and_see_every_event_once() {
    let site = site(&["look"]);
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    // one observer starts at the beginning, one where the first reader stopped
    let mut whole = site.start(&["observe", "last", "--format", "json"]);
    whole.until("permission.asked");
    live.signal(Signal::KILL);
    let killed = live.wait().events();
    let root = killed[0]["session"].clone();
    let next = |session: &Value| {
        let last = killed.iter().rfind(|event| event["session"] == *session);
        last.unwrap()["seq"].as_u64().unwrap() + 1
    };
    let child = asked["session"].as_str().unwrap();
    let own = format!("{child}:{}", next(&asked["session"]));
    let from = ["--from", &next(&root).to_string(), "--from", &own];
    let mut rest = site.start(&[&["observe", "last", "--format", "json"][..], &from].concat());
    let resume = ["resume", "last", "--format", "json", "--permission-mode", "ask"];
    let mut live = site.start(&resume);
    live.until_event(|e| e["type"] == "session.resumed" && e["session"] == child);
    answer(&site, &root, &asked["seq"].to_string(), "once").ok();
    live.wait().ok();
    let exported = places(&site.exported());
    let ended = |event: &Value| event["type"] == "turn.ended" && event["session"] == root;
    for (observer, before) in [(&mut whole, Vec::new()), (&mut rest, killed.clone())] {
        let known = |live: &Live| -> Vec<Value> {
            let lines = live.seen.lines().map(|line| serde_json::from_str(line).unwrap());
            lines.filter(|line: &Value| line.get("payload").is_none()).collect()
        };
        while before.len() + known(observer).len() < exported.len() {
            observer.line().unwrap();
        }
        let events = known(observer);
        assert!(events.iter().any(ended));
        let events = [before, events].concat();
        assert_in_order(&events);
        let mut seen = places(&events);
        let mut exported = exported.clone();
        seen.sort();
        exported.sort();
        assert_eq!(seen, exported);
    }
    // without a cursor for the child it is shown in full, because it had not ended there
    let seq = next(&root).to_string();
    let count = exported.iter().filter(|(s, n)| s == child || *n >= next(&root)).count();
    let events = observed(&site, &["--from", &seq], count);
    assert_eq!(events.iter().find(|e| e["session"] == child).unwrap()["seq"], 1);
    // and alone, by its own id
    let mut alone = site.start(&["observe", child, "--format", "json"]);
    let first = alone.until_event(|event| event.get("payload").is_none());
    assert_eq!((&first["session"], &first["seq"]), (&json!(child), &json!(1)));
}

#[test]
fn a_rejection_stops_the_child_and_its_parent_hears_of_it() {
    let site = site(&["look"]);
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    answer(&site, &asked["session"], &asked["seq"].to_string(), "reject").ok();
    let events = live.wait().ok().events();
    assert_eq!(only(&events, "subagent.ended")["data"]["reason"], "blocked");
    let child = |event: &&&Value| event["session"] == asked["session"];
    let ends = all(&events, "turn.ended");
    let ended = ends.iter().find(child).unwrap();
    assert_eq!(ended["data"]["permission_denials"][0]["permission"], "read");
    let told = all(&events, "tool.finished");
    let told = told.iter().find(|event| event["session"] != asked["session"]).unwrap();
    assert_eq!(told["data"]["is_error"], true);
    assert!(told["data"]["output"].as_str().unwrap().contains("a person stopped it"), "{told}");
    // the parent's own turn was not rejected and continues
    assert_eq!(end(&events)["reason"], "completed");
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn where_nobody_is_asked_children_are_denied_too() {
    let events = site(&["look"]).prompt("go").ok().events();
    assert!(all(&events, "permission.asked").is_empty());
    let child = only(&events, "subagent.spawned")["data"]["session"].clone();
    let ends = all(&events, "turn.ended");
    let ended = ends.iter().find(|event| event["session"] == child).unwrap();
    assert_eq!(ended["data"]["permission_denials"][0]["reason"], "denied");
    assert_eq!(end(&events)["reason"], "completed");
}

#[test]
fn always_is_remembered_from_a_child() {
    let site = site(&["look"]);
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    answer(&site, &asked["session"], &asked["seq"].to_string(), "always").ok();
    live.wait().ok();
    let events = site.prompt("again").ok().events();
    let ruled = all(&events, "permission.ruled");
    assert!(ruled.iter().all(|event| event["data"]["action"] == "allow"), "{ruled:?}");
}

#[test]
fn a_run_shows_what_a_child_does_and_asks_for_it() {
    let site = site(&["look"]);
    let (reader, mut terminal) = std::io::pipe().unwrap();
    let mut command = site.command(&["run", "--permission-mode", "ask", "go"]);
    command.stdin(std::process::Stdio::from(reader));
    // the line is read when the question is shown
    std::io::Write::write_all(&mut terminal, b"o\n").unwrap();
    let ran = Live::start(command).wait().ok();
    ran.saying(&[
        "● task general: look", "  general ● read .env", "general: allow read on",
        "permission answer",
    ]);
}

#[test]
fn the_answer_has_no_word_of_the_child() {
    let site = site(&["look"]);
    let ran = site.run(&["run", "--yes", "go"]).ok();
    assert_eq!(ran.stdout.trim(), "The parent has heard.");
}

#[test]
fn an_editor_is_asked_for_children_under_the_session_that_it_knows() {
    let site = site(&["look one", "look two"]);
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let asked = [editor.question(&session), editor.question(&session)];
    let ids: BTreeSet<&str> =
        asked.iter().map(|q| q["params"]["toolCall"]["toolCallId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    for question in asked.iter().rev() {
        let title = question["params"]["toolCall"]["title"].as_str().unwrap();
        assert!(title.starts_with("general: read"), "{title}");
        editor.choose(question, "allow_once");
    }
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let updates = editor.updates(&session);
    let of = |update: &&Value, id: &str| update["toolCallId"] == id;
    for id in ids {
        let last = updates.iter().rfind(|update| of(update, id)).unwrap();
        assert_eq!(last["status"], "completed");
    }
    let lines = updates.iter().filter(|u| u["sessionUpdate"] == "tool_call_update");
    let lines = lines.filter_map(|update| update["content"][0]["content"]["text"].as_str());
    assert!(lines.clone().any(|text| text.contains("general ● read")), "{updates:?}");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "The parent has heard.");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_conversation_asks_for_a_child() {
    let site = site(&["look"]);
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until("general asks:").until("[o]nce");
    assert!(terminal.shown().contains("? read .env"), "{}", terminal.shown());
    terminal.press("o").until("The parent has heard.").until_prompt().press("\x04");
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

/// A turn whose child runs this command.
fn commanding(command: &str) -> Site {
    let bash = json!([{ "call": { "name": "bash", "input": { "command": command } } }]);
    let replies = json!([
        { "parts": [task("look")] },
        says("The parent has heard."),
        child("look", 0, &bash),
        child("look", 1, &json!([{ "text": "done" }])),
    ]);
    Site::scripted(&script(replies))
}

#[test]
fn the_status_line_says_what_a_child_does() {
    let site = commanding("while [ ! -e go ]; do sleep 0.05; done");
    let mut terminal = site.terminal(&[], 120);
    terminal.until_prompt().press("go\r").until("general: 1 call · bash while");
    site.file("go", "");
    terminal.until("The parent has heard.").until_prompt().press("\x04");
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.shown().contains("general: 1 call"), "{}", terminal.shown());
}

#[test]
fn a_child_that_does_not_end_is_ended_with_the_time_of_its_parent() {
    let site = commanding("sleep 1000");
    let args = ["run", "--format", "json", "--yes", "--timeout", "4", "go"];
    let events = site.run(&args).with(4).events();
    assert_eq!(end(&events)["reason"], "limit");
    assert_eq!(only(&events, "subagent.ended")["data"]["reason"], "aborted");
    assert_eq!(all(&events, "turn.ended").len(), 2);
    site.assert_sound();
}

#[test]
fn costs_come_back_and_count_towards_the_limit() {
    let prices = json!({ "input": 1_000_000.0, "output": 0.0 });
    let site = site(&["look"]).setting("provider/double/models/m/cost", prices);
    let ran = site.run(&["run", "--format", "json", "--yes", "go"]).ok();
    let events = ran.events();
    let ended = only(&events, "subagent.ended");
    let child = ended["data"]["session"].clone();
    let cost = |of_child: bool| -> f64 {
        let replies = all(&events, "model.finished");
        let own = replies.iter().filter(|event| (event["session"] == child) == of_child);
        own.map(|event| event["data"]["cost"].as_f64().unwrap()).sum()
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * a.abs().max(1.0), "{a} {b}");
    assert!(cost(true) > 0.0);
    close(ended["data"]["cost"].as_f64().unwrap(), cost(true));
    assert!(ended["data"]["usage"]["input"].as_u64().unwrap() > 0);
    // each event's own cost counts once
    close(end(&events)["cost"].as_f64().unwrap(), cost(false));
    let shown = site.run(&["sessions", "show", "last", "--format", "json"]).ok();
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    close(shown["cost"].as_f64().unwrap(), cost(true) + cost(false));
    close(shown["own_cost"].as_f64().unwrap(), cost(false));
    let text = site.run(&["run", "--yes", "go"]).ok();
    text.saying(&["of which subagents $"]);
    // the parent's first request fits the limit, its child's does not
    let first = all(&events, "model.finished")[0]["data"]["cost"].as_f64().unwrap();
    let limit = (first * 1.5).to_string();
    let args = ["run", "--format", "json", "--yes", "--max-cost", &limit, "go"];
    let events = site.run(&args).with(4).events();
    assert_eq!(end(&events)["reason"], "limit");
    let ended = only(&events, "subagent.ended");
    assert!(ended["data"]["cost"].as_f64().unwrap() > 0.0);
    site.assert_sound();
}
