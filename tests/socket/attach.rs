//! Sessions whose store another node holds: clients attach through its socket.

use common::{
    ASK, Editor, Live, Peer, Site, all, asking, bash, end, exists, only, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

fn name(site: &Site) -> String {
    site.session().file_name().unwrap().to_str().unwrap().to_owned()
}

/// A node that waits for an answer: the session, and the seq of the question.
fn waiting(site: &Site) -> (Live, String, u64) {
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked");
    (live, asked["session"].as_str().unwrap().to_owned(), asked["seq"].as_u64().unwrap())
}

fn allow(site: &Site, session: &str, of: u64) {
    let params = json!({ "session": session, "of": of, "reply": "once" });
    let answer = Peer::connect(&site.session()).call("_leftfold/answer", &params);
    assert_eq!(answer["result"]["accepted"], true, "{answer}");
}

/// An editor that has loaded the session.
fn loaded(site: &Site, session: &str) -> Editor {
    let mut editor = Editor::start(site, &[]);
    let load = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let id = editor.ask("session/load", load);
    editor.result(id);
    editor
}

#[test]
fn a_second_run_joins_the_turn_and_both_end_with_it() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let mut second = site.start(&["run", "--session", &session, "--format", "json", "me too"]);
    second.until("turn.prompted");
    allow(&site, &session, of);
    let (first, second) = (live.wait().ok(), second.wait().ok());
    let events = first.events();
    assert_eq!(all(&events, "turn.prompted").len(), 2);
    only(&events, "turn.ended");
    let by = only(&second.events(), "turn.prompted")["data"]["by"].clone();
    assert!(by.as_str().unwrap().starts_with("cli (pid "), "{by}");
    assert_eq!(end(&events), end(&second.events()));
    assert!(first.stdout.ends_with(&second.stdout), "the same bytes");
    site.assert_sound();
}

#[test]
fn a_run_is_served_by_a_node_that_has_nothing_to_do() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let ran = site.run(&["run", "--session", &session, "--format", "json", "two"]).ok();
    assert_eq!(end(&ran.events())["text"], "Two.");
    only(&ran.events(), "turn.ended");
    // the editor saw both the prompt and the reply
    editor.until(|message| message["params"]["update"]["content"]["text"] == "Two.");
    assert_eq!(editor.text(&session, "user_message_chunk"), "two");
    let prompt = editor.prompt(&session, "three");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert!(!exists(&site.path("home/store/socket")));
    site.assert_sound();
}

#[test]
fn options_that_only_the_node_can_apply_are_refused_before_the_prompt() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    for (options, named) in [
        (&["--agent", "plan"][..], "--agent"),
        (&["--model", "double/m"], "--model"),
        (&["--system", "Be brief.", "--max-steps", "2"], "--system, --max-steps"),
        (&["--max-cost", "0.01", "--timeout", "2s"], "--max-cost, --timeout"),
        (&["--yes"], "--yes"),
        (&["--permission-mode", "deny"], "--permission-mode deny"),
        (&["--permission-mode", "accept-edits"], "--permission-mode accept-edits"),
        (&["--permission-mode", "sandbox"], "--permission-mode sandbox"),
    ] {
        let args = [&["run", "--session", &session][..], options, &["me too"]].concat();
        let why = format!(
            "another node (pid {}) runs session {session}, and cannot apply {named}: ",
            live.id()
        );
        site.run(&args).with(2).saying(&[&why]);
    }
    site.run(&["compact", &session, "--model", "double/m"]).with(2).saying(&["apply --model:"]);
    let mut terminal = site.terminal(&["--session", &session, "--agent", "plan"], 200);
    terminal.until("cannot apply --agent");
    assert_eq!(terminal.wait(), 2);
    allow(&site, &session, of);
    only(&live.wait().ok().events(), "turn.prompted");
    // once that node has ended, the options count
    let later = ["run", "--session", &session, "--format", "json", "--agent", "plan", "more"];
    assert_eq!(only(&site.run(&later).events(), "turn.prompted")["data"]["agent"], "plan");
    site.assert_sound();
}

/// The node of an editor runs the prompt as its command says; one that runs a single turn refuses it.
#[test]
fn agent_and_model_of_a_command_reach_the_node_of_another_process() {
    let command = json!({ "plan": { "template": "Plan!", "agent": "plan", "model": "double/n" } });
    let with_command = |site: Site| {
        site.setting("/command", command.clone())
            .setting("/provider/double/models/n", json!({ "limit": { "context": 100_000 } }))
    };
    let site = with_command(Site::scripted(&script(json!([says("One."), says("Two.")]))));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let ran = site.run(&["run", "--session", &session, "--format", "json", "/plan"]).ok();
    let prompted = only(&ran.events(), "turn.prompted")["data"].clone();
    assert_eq!((&prompted["agent"], &prompted["model"]["id"]), (&json!("plan"), &json!("n")));
    assert_eq!(prompted["parts"][0]["text"], "Plan!");
    editor.leave();
    site.assert_sound();

    let site = with_command(asking());
    let (live, session, of) = waiting(&site);
    let why = "the agent and the model that the command names cannot be used now: the node of this session runs one turn";
    site.run(&["run", "--session", &session, "/plan"]).with(2).saying(&[why]);
    allow(&site, &session, of);
    only(&live.wait().ok().events(), "turn.prompted");
    site.assert_sound();
}

#[test]
fn whoever_is_attached_hears_of_the_death_of_the_node() {
    let site = asking();
    let (mut live, session, _) = waiting(&site);
    let second = site.start(&["run", "--session", &session, "--format", "json", "me too"]);
    live.until("turn.prompted");
    let mut terminal = site.terminal(&["--session", &session], 100);
    terminal.until("[o]nce");
    let mut editor = loaded(&site, &session);
    let prompt = editor.prompt(&session, "and me");
    // a prompt that the node has not accepted would be for the next one
    live.until("turn.prompted");
    editor.question(&session);
    live.signal(Signal::KILL);
    let resume = format!("leftfold resume {session}");
    second.wait().with(1).saying(&[&resume]);
    terminal.until(&resume);
    assert_eq!(terminal.wait(), 1);
    let error = editor.error(prompt);
    assert!(error["message"].as_str().unwrap().contains(&resume), "{error}");
    // the editor's node is the next one
    let prompt = editor.prompt(&session, "now then");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    site.assert_sound();
}

#[test]
fn a_terminal_shows_the_question_of_another_node_and_goes_on_after_it() {
    let site = asking();
    let (live, session, _) = waiting(&site);
    let mut terminal = site.terminal(&["--session", &session], 100);
    terminal.until("› go").until("? read").until("[o]nce").press("o");
    terminal.until("allowed once").until("So be it.").until_prompt();
    let events = live.wait().ok().events();
    let by = only(&events, "permission.answered")["data"]["by"].as_str().unwrap();
    assert!(by.starts_with("terminal (pid "), "{by}");
    // the other node has ended, and this terminal becomes the next one
    terminal.press("once more\r").until("has no reply").until_prompt().press("\x04");
    assert_eq!(terminal.wait(), 0);
    assert_eq!(all(&site.exported(), "turn.prompted").len(), 2);
    site.assert_sound();
}

#[test]
fn of_two_terminals_the_first_answer_counts_and_the_other_is_told() {
    let replies = json!([says("Hello."), bash("printf made"), says("Done."), says("Again.")]);
    let site = Site::scripted(&script(replies)).setting("/permission", json!({ "bash": "ask" }));
    let mut first = site.terminal(&[], 100);
    first.until_prompt().press("hi\r").until("Hello.").until_prompt();
    let mut second = site.terminal(&["--continue"], 100);
    second.until("Hello.").until_prompt().press("make it\r").until("[o]nce");
    // the first terminal sees the question of the other one's turn, and answers it
    first.until("make it").until("? bash printf made").until("[o]nce");
    first.press("o").until("Done.").until_prompt();
    second.until("allowed once by terminal").until("Done.").until_prompt();
    first.press("again\r").until("Again.");
    second.until("› again").until("Again.").press("\x04");
    assert_eq!(second.wait(), 0);
    first.until_prompt().press("\x04");
    assert_eq!(first.wait(), 0);
    assert!(!exists(&site.session().join("socket")));
    let events = site.exported();
    assert_eq!(only(&events, "permission.answered")["data"]["by"], "terminal");
    site.assert_sound();
}

#[test]
fn a_terminal_that_is_attached_interrupts() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000")])));
    let live = site.start(&["run", "--format", "json", "go"]);
    wait_until("it runs", || exists(&site.project().join("ready")));
    let mut terminal = site.terminal(&["--session", &name(&site)], 100);
    terminal.until("bash touch").press("\x03").until("interrupted").until_prompt();
    let events = live.wait().with(130).events();
    let by = only(&events, "turn.interrupted")["data"]["by"].as_str().unwrap();
    assert!(by.starts_with("SIGINT (pid "), "{by}");
    terminal.press("\x04");
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

#[test]
fn an_editor_answers_for_another_node_and_the_others_question_is_withdrawn() {
    let site = asking();
    let mut first = Editor::start(&site, &[]);
    let session = first.session(&site);
    let prompt = first.prompt(&session, "go");
    let asked = first.question(&session);
    let mut second = loaded(&site, &session);
    assert_eq!(second.text(&session, "user_message_chunk"), "go");
    let question = second.question(&session);
    second.choose(&question, "allow_once");
    first.until(|message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked["id"]
    });
    assert_eq!(first.stop_reason(prompt), "end_turn");
    second.until(|message| message["params"]["update"]["content"]["text"] == "So be it.");
    second.leave();
    first.leave();
    site.assert_sound();
}

#[test]
fn an_editor_cancels_for_another_node() {
    let site = asking();
    let (live, session, _) = waiting(&site);
    let mut editor = loaded(&site, &session);
    editor.question(&session);
    editor.notify("session/cancel", json!({ "sessionId": session }));
    let events = live.wait().with(130).events();
    let by = only(&events, "turn.interrupted")["data"]["by"].as_str().unwrap();
    assert!(by.starts_with("acp (pid "), "{by}");
    editor.leave();
    site.assert_sound();
}

#[test]
fn one_socket_serves_all_sessions_of_a_store() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let store = site.path("all");
    let args = ["--store", store.to_str().unwrap()];
    let mut editor = Editor::start(&site, &args);
    let sessions = [editor.session(&site), editor.session(&site)];
    for session in &sessions {
        let prompt = editor.prompt(session, "hi");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    let first = |peer: &mut Peer, session: &str| {
        let read = peer.call("_leftfold/read", &json!({ "session": session, "from": 1, "to": 1 }));
        assert_eq!(read["result"]["lines"][0]["session"], *session, "{read}");
    };
    let mut peer = Peer::connect(&store);
    sessions.iter().for_each(|session| first(&mut peer, session));
    editor.leave();
    assert!(!exists(&store.join("socket")));
    // a session that is not open yet is opened for a client that names it
    let mut editor = Editor::start(&site, &args);
    let load = json!({ "sessionId": sessions[0], "cwd": site.project(), "mcpServers": [] });
    let id = editor.ask("session/load", load);
    editor.result(id);
    let mut peer = Peer::connect(&store);
    first(&mut peer, &sessions[1]);
    let prompt = json!({ "session": sessions[1], "text": "more" });
    peer.call("_leftfold/watch", &json!({ "session": sessions[1], "from": 1 }));
    assert_eq!(peer.call("_leftfold/prompt", &prompt)["result"], json!({}));
    let nobody = json!({ "session": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "from": 1 });
    assert_eq!(peer.call("_leftfold/watch", &nobody)["error"]["code"], -32000);
    editor.leave();
}

#[test]
fn what_comes_between_a_turn_and_the_end_of_its_node_is_refused_whole() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let store = site.session();
    let hammer = || {
        let mut peer = Peer::connect(&store);
        let session = session.clone();
        std::thread::spawn(move || {
            let mut accepted = 0;
            for n in 0.. {
                let params = json!({ "session": session, "text": format!("prompt {n}") });
                let Some(answer) = peer.try_call("_leftfold/prompt", &params) else { break };
                match answer.get("error") {
                    None => accepted += 1,
                    Some(error) => {
                        let message = error["message"].as_str().unwrap();
                        assert!(message.contains("has ended"), "{message}");
                    }
                }
            }
            accepted
        })
    };
    let hammers = [hammer(), hammer(), hammer()];
    allow(&site, &session, of);
    // with so many prompts the script runs out, which also ends the turn
    let events = live.wait().events();
    let accepted: usize = hammers.into_iter().map(|hammer| hammer.join().unwrap()).sum();
    assert_eq!(all(&events, "turn.prompted").len(), accepted + 1);
    only(&events, "turn.ended");
    end(&events);
    assert_eq!(site.exported().len(), events.len(), "nothing came after");
    site.assert_sound();
}

#[test]
fn the_sockets_methods_work_on_standard_input_and_output() {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let unknown = editor.ask("_leftfold/nonsense", json!({}));
    assert_eq!(editor.error(unknown)["code"], -32601);
    let none = editor.ask("_leftfold/read", json!({ "session": "x", "from": 1 }));
    assert_eq!(editor.error(none)["code"], -32602);
    let watch = editor.ask("_leftfold/watch", json!({ "session": session, "from": 1 }));
    assert_eq!(editor.result(watch), json!({}));
    let prompt = editor.ask("_leftfold/prompt", json!({ "session": session, "text": "go" }));
    assert_eq!(editor.result(prompt), json!({}));
    let event = |kind: &'static str| {
        move |m: &Value| m["method"] == "_leftfold/event" && m["params"]["type"] == kind
    };
    let of = editor.until(event("permission.asked"))["params"]["seq"].clone();
    let answer = json!({ "session": session, "of": of, "reply": "once", "by": "plugin" });
    let answered = editor.ask("_leftfold/answer", answer);
    assert_eq!(editor.result(answered)["accepted"], true);
    editor.until(event("turn.ended"));
    let read = editor.ask("_leftfold/read", json!({ "session": session, "from": 1 }));
    let lines = editor.result(read)["lines"].as_array().unwrap().clone();
    let exported = site.run(&["export", &session]).ok().stdout;
    assert_eq!(lines.iter().map(|line| format!("{line}\n")).collect::<String>(), exported);
    let cancel = editor.ask("_leftfold/cancel", json!({ "session": session }));
    assert_eq!(editor.result(cancel), json!({}));
    assert_eq!(only(&lines, "permission.answered")["data"]["by"], "plugin");
    editor.leave();
    site.assert_sound();
}
