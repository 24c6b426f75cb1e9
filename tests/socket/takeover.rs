//! Several long-lived processes on one store: the first is the node, the others pass their clients on
//! to it, and one of them takes over when it ends.

use std::path::Path;

use common::{
    Editor, EditorHost, Random, Site, all, asking, bash, call, exists, kind, marked, number, only,
    says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A site whose sessions run a command in their folder until a file `go` is there, and then answer.
fn site() -> Site {
    let command = "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    Site::scripted(&script(json!([bash(command), says("Done.")])))
        .setting("provider/double/options/script/on_end", json!("repeat"))
}

/// A session in a folder of its own.
fn session(editor: &mut Editor, site: &Site, name: &str) -> String {
    let folder = site.project().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let id = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
    editor.result(id)["sessionId"].as_str().unwrap().to_owned()
}

fn go(site: &Site, name: &str) {
    std::fs::write(site.project().join(name).join("go"), "").unwrap();
}

fn ready(site: &Site, name: &str) {
    let file = site.project().join(name).join("ready");
    wait_until("its command runs", || exists(&file));
}

fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

/// Checks that the session's log is whole, and has this number of prompts and of ends.
fn assert_turns(site: &Site, session: &str, turns: usize) {
    site.run(&["check", session]).ok();
    site.run(&["verify", session]).ok();
    let events = events(site, session);
    let count = |name: &str| events.iter().filter(|event| kind(event) == name).count();
    assert_eq!((count("turn.prompted"), count("turn.ended")), (turns, turns), "{events:?}");
}

/// The pid of the process that has the store.
fn holder(store: &Path) -> bool {
    exists(&store.join("socket"))
}

#[test]
fn a_second_client_works_through_the_first_and_takes_over_when_that_one_is_killed() {
    let site = site();
    let mut first = Editor::start(&site, &[]);
    let one = session(&mut first, &site, "one");
    let one_prompt = first.prompt(&one, "go");
    ready(&site, "one");
    let mut second = Editor::start(&site, &[]);
    let two = session(&mut second, &site, "two");
    let two_prompt = second.prompt(&two, "go");
    ready(&site, "two");
    // both are in the list of each
    for editor in [&mut first, &mut second] {
        let list = editor.ask("session/list", json!({}));
        assert_eq!(editor.result(list)["sessions"].as_array().unwrap().len(), 2);
    }
    assert_eq!(site.sessions(), [site.path("home/store")]);
    assert!(holder(&site.path("home/store")));
    first.live.signal(Signal::KILL);
    first.live.wait();
    let _ = one_prompt;
    go(&site, "two");
    assert_eq!(second.stop_reason(two_prompt), "end_turn");
    assert!(second.text(&two, "agent_message_chunk").ends_with("Done."));
    // the session of the first goes on in the second
    let params = json!({ "sessionId": one, "cwd": site.project().join("one"), "mcpServers": [] });
    let loaded = second.ask("session/load", params);
    second.result(loaded);
    go(&site, "one");
    let again = second.prompt(&one, "again");
    assert_eq!(second.stop_reason(again), "end_turn");
    second.leave();
    assert_turns(&site, &two, 1);
    assert_turns(&site, &one, 2);
    wait_until("its processes are gone", || marked(&one).is_empty() && marked(&two).is_empty());
}

#[test]
fn a_node_that_ends_in_good_order_hands_its_clients_over() {
    let site = site();
    let mut first = Editor::start(&site, &[]);
    let one = session(&mut first, &site, "one");
    go(&site, "one");
    let prompt = first.prompt(&one, "go");
    assert_eq!(first.stop_reason(prompt), "end_turn");
    let mut second = Editor::start(&site, &[]);
    let two = session(&mut second, &site, "two");
    // a session without a log, with a choice
    let empty = session(&mut second, &site, "empty");
    let prompt = second.prompt(&two, "go");
    ready(&site, "two");
    first.leave();
    go(&site, "two");
    assert_eq!(second.stop_reason(prompt), "end_turn");
    go(&site, "empty");
    let prompt = second.prompt(&empty, "go");
    assert_eq!(second.stop_reason(prompt), "end_turn");
    second.leave();
    for session in [&one, &two, &empty] {
        assert_turns(&site, session, 1);
    }
}

#[test]
fn each_client_supplies_its_own_files_also_after_a_takeover() {
    let read = call("read", json!({ "filePath": "note" }));
    let site = Site::scripted(&script(json!([read, says("Done.")])))
        .setting("provider/double/options/script/on_end", json!("repeat"));
    let mut sides: Vec<(Editor, EditorHost, String)> = Vec::new();
    for name in ["one", "two", "three"] {
        let mut editor = Editor::offering(&site, &[]);
        let session = session(&mut editor, &site, name);
        let file = site.project().join(name).join("note");
        std::fs::write(&file, "on disk\n").unwrap();
        let mut host = EditorHost::new(&site);
        host.unsaved.insert(file.to_str().unwrap().to_owned(), format!("unsaved by {name}\n"));
        sides.push((editor, host, session));
    }
    for round in 0..2 {
        for (editor, host, session) in &mut sides {
            let prompt = editor.prompt(session, "go");
            assert_eq!(host.result(editor, prompt)["stopReason"], "end_turn");
            let asked = host.asked("fs/read_text_file");
            assert!(
                !asked.is_empty()
                    && asked.iter().all(|params| params["sessionId"] == session.as_str())
            );
        }
        if round == 0 {
            let (first, _, _) = sides.remove(0);
            first.live.signal(Signal::KILL);
            first.live.wait();
        }
    }
    let sessions: Vec<String> = sides
        .into_iter()
        .map(|(editor, _, session)| {
            editor.leave();
            session
        })
        .collect();
    for (session, name) in sessions.iter().zip(["two", "three"]) {
        assert_turns(&site, session, 2);
        let events = events(&site, session);
        let outputs = all(&events, "tool.finished");
        let wanted = format!("unsaved by {name}");
        assert!(outputs[0]["data"]["output"].as_str().unwrap().contains(&wanted), "{outputs:?}");
    }
}

#[test]
fn an_open_question_is_asked_again_by_the_next_node() {
    let site = asking();
    let first = Editor::start(&site, &[]);
    let mut second = Editor::start(&site, &[]);
    let session = second.session(&site);
    let prompt = second.prompt(&session, "go");
    let question = second.question(&session);
    first.live.signal(Signal::KILL);
    first.live.wait();
    // the question of the node that is gone is withdrawn
    let withdrawn = second.until(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    let again = second.question(&session);
    assert_ne!(again["id"], question["id"]);
    // an answer to the old one counts for nothing
    second.choose(&question, "reject_once");
    second.choose(&again, "allow_once");
    assert_eq!(second.stop_reason(prompt), "end_turn");
    second.leave();
    assert_turns(&site, &session, 1);
    let events = events(&site, &session);
    assert_eq!(only(&events, "permission.answered")["data"]["reply"], "once");
}

#[test]
fn a_process_that_runs_one_turn_makes_a_node_wait() {
    let command = "touch ready; while [ ! -e go ]; do sleep 0.02; done";
    let site = Site::scripted(&script(json!([says("Hello."), bash(command), says("Done.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = session(&mut editor, &site, "one");
    let prompt = editor.prompt(&session, "hi");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    let run = site.start(&["run", "--session", &session, "again"]);
    ready(&site, "one");
    let mut editor = Editor::raw(&site, &[]);
    let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    go(&site, "one");
    run.wait().ok();
    assert_eq!(editor.result(initialized)["protocolVersion"], 1);
    editor.hang_up();
    editor.live.wait().ok().saying(&["has the store", "waiting for its end"]);
    assert_turns(&site, &session, 2);
}

/// Three clients, each with a running turn; two of the processes are killed in a random order, or
/// end in good order. Every prompt of the last one is answered once, and every log is whole.
#[test]
fn whichever_processes_die_the_others_go_on() {
    let rounds = number("LEFTFOLD_TAKEOVERS", 4);
    let mut random = Random::seeded();
    let site = site();
    for round in 0..rounds {
        let names = ["a", "b", "c"].map(|name| format!("{round}{name}"));
        let mut left: Vec<(Editor, String, String, u64)> = Vec::new();
        for name in names {
            let mut editor = Editor::start(&site, &[]);
            let session = session(&mut editor, &site, &name);
            let prompt = editor.prompt(&session, "go");
            left.push((editor, name, session, prompt));
        }
        for (_, name, _, _) in &left {
            if random.below(2) == 0 {
                ready(&site, name);
            }
        }
        let mut gone = Vec::new();
        for _ in 0..2 {
            let (mut editor, _, session, _) = left.remove(random.below(left.len()));
            if random.below(3) == 0 {
                editor.hang_up();
            } else {
                editor.live.signal(Signal::KILL);
            }
            if random.below(2) == 0 {
                editor.live.wait();
            } else {
                // the next one dies before this one has been replaced
                std::thread::spawn(move || editor.live.wait());
            }
            gone.push(session);
        }
        let (mut editor, name, session, prompt) = left.remove(0);
        go(&site, &name);
        assert_eq!(editor.stop_reason(prompt), "end_turn", "round {round}");
        assert!(editor.text(&session, "agent_message_chunk").ends_with("Done."), "round {round}");
        editor.hang_up();
        let ran = editor.live.wait().ok();
        let answers = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answers = answers.filter(|line| line["id"] == prompt && line.get("method").is_none());
        assert_eq!(answers.count(), 1, "round {round}");
        assert_turns(&site, &session, 1);
        for session in &gone {
            // killed before its first prompt was in the log, or with one prompt
            if site.run(&["check", session]).code == 2 {
                continue;
            }
            site.run(&["verify", session]).ok();
            assert!(all(&events(&site, session), "turn.prompted").len() <= 1);
        }
        wait_until("no process stays", || marked(&session).is_empty());
    }
}
