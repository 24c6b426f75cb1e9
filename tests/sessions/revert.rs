//! `leftfold revert` and `unrevert`: move files and messages back before a prompt or step, and
//! forward again.

use std::fs::File;

use common::{
    ASK, Editor, Site, all, asking, bash, call, end, exists, kinds, only, says, script, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

fn edit(old: &str, new: &str) -> Value {
    call("edit", json!({ "filePath": "a", "oldString": old, "newString": new }))
}

fn on(prompt: &str, answers: usize, mut reply: Value) -> Value {
    reply["match"] = json!({ "prompt": prompt, "answers": answers });
    reply
}

/// A turn that edits and one whose command changes more; then an answer to a prompt that sees only
/// the remaining messages.
fn site() -> Site {
    let change = "echo b > b; echo more >> a; rm c; echo log > out.log";
    let replies = json!([
        on("one", 0, edit("first", "second")),
        on("one", 1, says("Edited.")),
        on("two", 2, bash(change)),
        on("two", 3, says("Changed.")),
        on("again", 2, says("Two is forgotten.")),
        on("again", 0, says("All is forgotten.")),
        on("again", 4, says("Nothing is forgotten.")),
    ]);
    let site = Site::scripted(&script(replies)).setting("/snapshot", json!(true));
    site.file("a", "first\n");
    site.file("c", "c\n");
    site.file(".gitignore", "*.log\n");
    site.file("theirs", "1\n");
    site
}

/// Runs both turns. Returns the seqs of their prompts.
fn two_turns(site: &Site) -> [u64; 2] {
    site.prompt("one").ok();
    site.run(&["run", "--continue", "two"]).ok().saying(&["3 files changed, +2 -1"]);
    site.file("theirs", "2\n");
    let events = site.exported();
    let prompts = all(&events, "turn.prompted");
    [prompts[0]["seq"].as_u64().unwrap(), prompts[1]["seq"].as_u64().unwrap()]
}

fn revert(site: &Site, to: u64) -> common::Ran {
    site.run(&["revert", "last", "--to", &to.to_string()])
}

fn files(site: &Site) -> [String; 5] {
    ["a", "b", "c", "out.log", "theirs"].map(|name| site.text(name))
}

const FIRST: [&str; 5] = ["first\n", "", "c\n", "log\n", "2\n"];
const SECOND: [&str; 5] = ["second\n", "", "c\n", "log\n", "2\n"];
const LAST: [&str; 5] = ["second\nmore\n", "b\n", "", "log\n", "2\n"];

#[test]
fn an_edit_between_two_steps_is_the_users_and_stays() {
    let read = call("read", json!({ "filePath": ".env" }));
    let replies = json!([bash("echo 1 > a"), read, bash("echo 3 > c"), says("Done.")]);
    let site = Site::scripted(&script(replies)).setting("/snapshot", json!(true));
    site.file(".env", "COLOUR=blue\n");
    site.file("theirs", "1\n");
    let mut live = site.start(&ASK);
    let asked = live.until("permission.asked")["seq"].to_string();
    site.file("theirs", "2\n");
    site.run(&["permission", "answer", "last", &asked, "once"]).ok();
    let events = live.wait().ok().events();
    let changed: Vec<&Value> = all(&events, "files.snapshotted")
        .into_iter()
        .flat_map(|event| event["data"]["files"].as_array().unwrap())
        .map(|file| &file["path"])
        .collect();
    assert_eq!(changed, ["a", "c"]);
    let third = all(&events, "model.requested")[2]["seq"].as_u64().unwrap();
    revert(&site, third).ok().saying(&["1 file changed"]);
    assert_eq!(["a", "c", "theirs"].map(|name| site.text(name)), ["1\n", "", "2\n"]);
    revert(&site, 1).ok();
    assert_eq!(["a", "c", "theirs"].map(|name| site.text(name)), ["", "", "2\n"]);
    site.assert_sound();
}

#[test]
fn files_and_messages_go_back_and_forward_and_the_next_prompt_decides() {
    let site = site();
    let [one, two] = two_turns(&site);
    assert_eq!(files(&site), LAST);
    revert(&site, two).ok().saying(&["D b +0 -1", "A c +1 -0", "M a +0 -1", "3 files changed"]);
    assert_eq!(files(&site), SECOND);
    site.run(&["unrevert", "last"]).ok().saying(&["A b +1 -0"]);
    assert_eq!(files(&site), LAST);
    revert(&site, one).ok();
    assert_eq!(files(&site), FIRST);
    // not as far back as before
    revert(&site, two).ok();
    assert_eq!(files(&site), SECOND);
    let events = site.run(&["run", "--continue", "--format", "json", "again"]).ok().events();
    assert_eq!(end(&events)["text"], "Two is forgotten.");
    let late = site.run(&["unrevert", "last"]).with(1);
    late.saying(&["no revert is pending"]);
    assert_eq!(files(&site), SECOND);
    site.assert_sound();
}

#[test]
fn whoever_takes_it_back_has_the_whole_conversation_again() {
    let site = site();
    let [one, _] = two_turns(&site);
    revert(&site, one).ok();
    site.run(&["unrevert", "last"]).ok();
    let events = site.run(&["run", "--continue", "--format", "json", "again"]).ok().events();
    assert_eq!(end(&events)["text"], "Nothing is forgotten.");
    site.assert_sound();
}

#[test]
fn json_has_the_events_and_any_event_of_a_step_will_do() {
    let site = site();
    two_turns(&site);
    let events = site.exported();
    let finished = all(&events, "tool.finished")[1]["seq"].to_string();
    let ran = site.run(&["revert", "last", "--to", &finished, "--format", "json"]).ok();
    let events: Vec<Value> = ran.events();
    let asked = only(&events, "files.revert_asked");
    assert_eq!(
        (&asked["data"]["to"].to_string(), &asked["data"]["by"]),
        (&finished, &json!("cli"))
    );
    let started = only(&events, "files.restore_started");
    let restored = only(&events, "files.restored");
    assert_eq!(restored["of"], started["seq"]);
    assert_eq!(restored["data"]["before"], started["data"]["before"]);
    assert_eq!(kinds(&events).last(), Some(&"files.restored"));
    assert_eq!(files(&site), SECOND);
    site.assert_sound();
}

#[test]
fn what_can_not_be_reverted_says_why() {
    let site = site();
    site.prompt("one").ok();
    let head = site.exported().len().to_string();
    let nothing = site.run(&["revert", "last", "--to", &head]).with(1);
    nothing.saying(&["no prompt and no step at"]);
    site.run(&["revert", "last", "--to", "0"]).with(2);
    site.run(&["revert", "last"]).with(2);
    site.run(&["unrevert", "last"]).with(1).saying(&["no revert is pending"]);
    assert_eq!(site.text("a"), "second\n");
}

#[test]
fn a_busy_session_refuses() {
    let site = asking();
    let mut asking = site.start(&ASK);
    asking.until("permission.asked");
    for args in [&["revert", "last", "--to", "1"][..], &["unrevert", "last"]] {
        site.run(args).with(1).saying(&["a turn is under way"]);
    }
    asking.signal(Signal::INT);
    asking.wait();
    site.assert_sound();
}

#[test]
fn the_node_that_has_the_session_does_it() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    for prompt in ["one", "two"] {
        let prompt = editor.prompt(&session, prompt);
        assert_eq!(editor.stop_reason(prompt), "end_turn");
    }
    let events = site.exported();
    let two = all(&events, "turn.prompted")[1]["seq"].to_string();
    site.run(&["revert", &session, "--to", &two]).ok().saying(&["3 files changed"]);
    assert_eq!(site.text("a"), "second\n");
    site.run(&["unrevert", &session]).ok();
    assert_eq!(site.text("a"), "second\nmore\n");
    site.run(&["unrevert", &session]).with(1).saying(&["no revert is pending"]);
    let asked = only(&site.exported(), "files.unrevert_asked")["data"]["by"].clone();
    assert!(asked.as_str().unwrap().starts_with("cli"), "{asked}");
}

#[test]
fn what_a_crash_has_cut_off_is_done_by_the_next_node() {
    for next in [&["resume", "last"][..], &["run", "--continue", "again"]] {
        let site = site();
        let [one, _] = two_turns(&site);
        let stores = std::fs::read_dir(site.path("home/snapshots")).unwrap();
        let store = stores.map(|entry| entry.unwrap().path()).next().unwrap();
        let lock = File::options().write(true).open(store.join("leftfold-lock")).unwrap();
        lock.lock().unwrap();
        let args = ["revert", "last", "--to", &one.to_string(), "--format", "json"];
        let mut reverting = site.start(&args);
        reverting.until("files.snapshot_started");
        reverting.signal(Signal::KILL);
        reverting.wait();
        lock.unlock().unwrap();
        assert_eq!(files(&site), LAST);
        let ran = site.run(next).ok();
        assert_eq!(files(&site), FIRST, "{ran:?}");
        let events = site.exported();
        assert_eq!(all(&events, "files.restored").len(), 1);
        if next[0] == "run" {
            assert_eq!(end(&events)["text"], "All is forgotten.");
        }
        site.assert_sound();
    }
}

#[test]
fn killed_while_files_are_put_back_it_is_done_again() {
    let site = site();
    let [one, _] = two_turns(&site);
    let args = ["revert", "last", "--to", &one.to_string(), "--format", "json"];
    let mut reverting = site.start(&args);
    reverting.until("files.restore_started");
    reverting.signal(Signal::KILL);
    reverting.wait();
    site.run(&["resume", "last"]).ok();
    assert_eq!(files(&site), FIRST);
    assert_eq!(all(&site.exported(), "files.restored").len(), 1);
    site.run(&["unrevert", "last"]).ok();
    assert_eq!(files(&site), LAST);
    site.assert_sound();
}

#[test]
fn what_an_interrupted_command_has_changed_goes_back_too() {
    let slow = "echo half > half; sleep 600";
    for (signal, code) in [(Signal::INT, 130), (Signal::KILL, -1)] {
        let site = Site::scripted(&script(json!([bash(slow)]))).setting("/snapshot", json!(true));
        let mut running = site.start(&["run", "--format", "json", "go"]);
        running.until("tool.started");
        wait_until("the command has begun", || site.text("half") == "half\n");
        running.signal(signal);
        running.wait().with(code);
        revert(&site, 1).ok().saying(&["D half +0 -1"]);
        assert!(!exists(&site.project().join("half")));
        site.assert_sound();
    }
}

#[test]
fn a_session_without_snapshots_gives_back_its_messages() {
    let site = site().setting("/snapshot", json!(false));
    let prompts = || site.exported().iter().filter(|e| common::kind(e) == "turn.prompted").count();
    site.prompt("one").ok();
    revert(&site, 1).ok().saying(&["no file had to be restored"]);
    assert_eq!((site.text("a").as_str(), prompts()), ("second\n", 1));
    let events = site.run(&["run", "--continue", "--format", "json", "again"]).ok().events();
    assert_eq!(end(&events)["text"], "All is forgotten.");
    site.assert_sound();
}

/// A folder of the session's files is a link by now: nothing is written where it leads.
#[test]
fn a_folder_that_has_become_a_link_is_left_alone() {
    let site =
        Site::scripted(&script(json!([bash("echo one > z/b; echo one > a"), says("Done.")])))
            .setting("/snapshot", json!(true));
    site.file("z/b", "zero\n");
    site.file("elsewhere/b", "mine\n");
    let events = site.prompt("go").ok().events();
    let project = site.project();
    std::fs::remove_dir_all(project.join("z")).unwrap();
    std::os::unix::fs::symlink("elsewhere", project.join("z")).unwrap();
    let prompt = only(&events, "turn.prompted")["seq"].as_u64().unwrap();
    revert(&site, prompt).with(1).saying(&["z/b"]);
    assert_eq!(["a", "elsewhere/b"].map(|name| site.text(name)), ["one\n", "mine\n"]);
    let events = site.exported();
    assert_eq!(only(&events, "files.restore_failed")["data"]["class"], "path");
    // the messages are still there
    site.run(&["unrevert", "last"]).with(1).saying(&["no revert is pending"]);
    site.assert_sound();
}
