//! `leftfold fork` while a node holds the store: the node makes the fork.

use common::{Editor, Peer, Site, all, asking, bash, end, only, says, script, wait_until};
use serde_json::{Value, json};

/// A site whose turn waits for the file `go`, and then reports it.
fn waiting() -> Site {
    Site::scripted(&script(json!([
        bash("touch started; while [ ! -e go ]; do sleep 0.05; done"),
        says("It went."),
        { "match": { "prompt": "otherwise" }, "parts": [{ "text": "Otherwise." }] },
    ])))
}

#[test]
fn it_is_made_by_a_run_that_goes_on_with_its_own_turn() {
    let site = waiting();
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let prompt = live.until("turn.prompted");
    wait_until("the command runs", || site.project().join("started").exists());
    let at = prompt["seq"].to_string();
    let made = site.run(&["fork", "last", "--at", &at]).ok();
    assert_eq!((made.stdout.lines().count(), made.stderr.as_str()), (1, ""), "{made:?}");
    let fork = made.stdout.trim();
    // errors are reported as usual
    site.run(&["fork", "last", "--at", "1"]).with(2).saying(&["before the first prompt"]);
    site.run(&["fork", "last", "--at", "999"]).with(2).saying(&["there is no 999"]);
    site.run(&["fork", "last", "--at", &at, "--files"]).with(2).saying(&["a turn is running"]);
    // a fork of the fork, which the node has not opened
    let second = site.run(&["fork", fork]).ok().stdout.trim().to_owned();
    let root = prompt["session"].as_str().unwrap();
    site.run(&["sessions", "rm", root]).with(1).saying(&[fork, "have to go first"]);
    site.run(&["sessions", "rm", fork]).with(1).saying(&[&second]);
    // a run only serves its own turn
    let prompted = site.run(&["fork", "last", "--at", &at, "otherwise"]).with(1);
    let prompted = prompted.saying(&["exists", "leftfold run --session"]);
    assert_eq!(prompted.stdout, "");
    site.file("go", "");
    let events = live.wait().ok().events();
    assert_eq!(end(&events)["text"], "It went.");
    for fork in [fork, &second] {
        let events =
            site.run(&["run", "--session", fork, "--format", "json", "otherwise"]).ok().events();
        assert_eq!(end(&events)["text"], "Otherwise.");
        site.run(&["verify", fork]).ok();
    }
    site.assert_sound();
}

#[test]
fn the_node_of_an_editor_makes_it_and_takes_its_prompt() {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    editor.prompt(&session, "go");
    editor.question(&session);
    let site = site.setting(
        "/provider/double/options/script/replies",
        json!([{ "match": { "prompt": "otherwise" }, "parts": [{ "text": "Otherwise." }] }]),
    );
    let made = site.run(&["fork", &session]).ok();
    let fork = made.stdout.trim();
    let mut peer = Peer::connect(&site.path("home/store"));
    let wrong = peer.call("_leftfold/fork", &json!({ "session": session, "at": 999 }));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let made = peer.call("_leftfold/fork", &json!({ "session": fork }));
    let second = made["result"]["session"].as_str().unwrap();
    assert_eq!(made["result"]["notice"], Value::Null);
    let export = site.run(&["export", second]).ok().events();
    assert_eq!(all(&export, "session.forked").len(), 2, "a fork of a fork");
    let attached = site.run(&["fork", &session, "--format", "json", "hello"]);
    let events = attached.ok().events();
    assert_eq!(only(&events, "turn.prompted")["data"]["parts"][0]["text"], "hello");
    site.run(&["check", &session]).ok();
}
