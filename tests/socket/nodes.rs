//! The socket of every kind of node: when it exists, when it is removed, and how it handles bad
//! input.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use common::{Editor, Peer, Site, all, asking, exists, says, script};
use rustix::process::Signal;
use serde_json::json;

fn assert_private(socket: &Path) {
    let metadata = socket.symlink_metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o777, 0o600);
}

/// A node that waits for an answer, and the session.
fn node(site: &Site) -> (Editor, String) {
    let mut editor = Editor::start(site, &[]);
    let session = editor.session(site);
    editor.prompt(&session, "go");
    editor.question(&session);
    (editor, session)
}

#[test]
fn it_goes_with_the_editors_node_unless_that_is_killed() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::KILL] {
        let site = asking();
        let (editor, session) = node(&site);
        let socket = site.path("home/store").join("socket");
        assert_private(&socket);
        editor.live.signal(signal);
        editor.live.wait();
        assert_eq!(exists(&socket), signal == Signal::KILL, "{signal:?}");
        // the socket of a dead node does no harm
        site.run(&["run", "--session", &session, "never mind"]).ok();
        assert!(!exists(&socket), "{signal:?}");
        site.assert_sound();
    }
}

#[test]
fn it_goes_with_the_terminal_unless_that_is_killed() {
    for signal in [Signal::TERM, Signal::HUP, Signal::KILL] {
        let site = asking();
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press("go\r").until("[o]nce");
        let socket = site.session().join("socket");
        assert_private(&socket);
        terminal.signal(signal);
        terminal.wait();
        assert_eq!(exists(&socket), signal == Signal::KILL, "{signal:?}");
        let mut terminal = site.terminal(&["--continue"], 80);
        terminal.until("[y]es").press("y").until("[o]nce").press("o").until("So be it.");
        assert_private(&socket);
        terminal.until_prompt().press("\x04");
        assert_eq!(terminal.wait(), 0);
        assert!(!exists(&socket));
        site.assert_sound();
    }
}

#[test]
fn a_node_that_can_make_none_goes_on_without() {
    let site = asking();
    let store = site.path("all");
    std::fs::create_dir_all(store.join("socket/in the way")).unwrap();
    let mut editor = Editor::start(&site, &["--store", store.to_str().unwrap()]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.hang_up();
    editor.live.wait().ok().saying(&["cannot make the socket", store.to_str().unwrap()]);
    assert!(exists(&store.join("socket/in the way")));
}

#[test]
fn a_long_path_is_no_obstacle_to_those_who_attach() {
    let long = "a-home-with-a-name-that-no-socket-address-has-room-for".repeat(3);
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let home = site.path(&long);
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let ran = site.run(&["run", "--session", &session, "two"]).ok();
    assert_eq!(ran.stdout, "Two.\n");
    editor.leave();
    assert_eq!(all(&site.exported(), "turn.ended").len(), 2);
}

#[test]
fn bad_input_at_the_socket_disturbs_neither_the_node_nor_its_editor() {
    let site = asking();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    let question = editor.question(&session);
    let store = site.path("home/store");
    let mut peer = Peer::connect(&store);
    for (bytes, code) in [("nonsense\n", -32700), ("\u{ff}\n", -32700), ("[]\n", -32600)] {
        peer.send(bytes);
        assert_eq!(peer.line().unwrap()["error"]["code"], code);
    }
    for (method, params, code) in [
        ("session/prompt", json!({ "sessionId": session }), -32601),
        ("_leftfold/prompt", json!({ "session": session }), -32602),
        ("_leftfold/prompt", json!({ "session": session, "text": "x", "parts": [] }), -32602),
        ("_leftfold/prompt", json!({ "session": session, "parts": [] }), -32602),
        ("_leftfold/prompt", json!({ "session": session, "parts": [{ "x": 1 }] }), -32602),
        ("_leftfold/read", json!({ "session": "../../x", "from": 1 }), -32602),
    ] {
        let answer = peer.call(method, &params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    for _ in 0..5 {
        let mut gone = Peer::connect(&store);
        gone.ask("_leftfold/watch", &json!({ "session": session, "from": 1 }));
    }
    peer.send("{\"jsonrpc\":");
    peer.shut();
    assert_eq!(peer.line().unwrap()["error"]["code"], -32700);
    assert_eq!(peer.line(), None);
    editor.choose(&question, "allow_once");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert_eq!(all(&site.exported(), "turn.prompted").len(), 1);
    site.assert_sound();
}
