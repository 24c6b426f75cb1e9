//! Many sessions at once on one node, over one connection.

use std::process::Command;

use common::{Editor, Site, bash, exists, marked, says, script, wait_until};
use serde_json::{Value, json};

const SESSIONS: usize = 8;

/// A session in a folder of its own.
fn session(editor: &mut Editor, site: &Site, number: usize) -> String {
    let folder = site.project().join(number.to_string());
    std::fs::create_dir(&folder).unwrap();
    let id = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
    editor.result(id)["sessionId"].as_str().unwrap().to_owned()
}

/// Sessions whose commands all run, each until a file `go` is there, and their prompts.
fn all_under_way(editor: &mut Editor, site: &Site) -> Vec<(String, u64)> {
    let sessions: Vec<String> = (0..SESSIONS).map(|n| session(editor, site, n)).collect();
    let prompts: Vec<u64> = sessions.iter().map(|id| editor.prompt(id, "go")).collect();
    let runs = |n: usize| exists(&site.project().join(n.to_string()).join("ready"));
    wait_until("all of them run at once", || (0..SESSIONS).all(runs));
    sessions.into_iter().zip(prompts).collect()
}

fn site() -> Site {
    let command = "pwd; touch ready; while [ ! -e go ]; do sleep 0.02; done; touch done";
    Site::scripted(&script(json!([bash(command), says("Done.")])))
}

#[test]
fn a_cancel_of_one_does_not_touch_the_others() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let sessions = all_under_way(&mut editor, &site);
    let cancelled = 3;
    editor.notify("session/cancel", json!({ "sessionId": sessions[cancelled].0 }));
    assert_eq!(editor.stop_reason(sessions[cancelled].1), "cancelled");
    for (number, (id, prompt)) in sessions.iter().enumerate() {
        let folder = site.project().join(number.to_string());
        std::fs::write(folder.join("go"), "").unwrap();
        if number == cancelled {
            assert_eq!(editor.text(id, "agent_message_chunk"), "");
            continue;
        }
        assert_eq!(editor.stop_reason(*prompt), "end_turn");
        assert_eq!(editor.text(id, "agent_message_chunk"), "Done.");
        assert!(exists(&folder.join("done")), "{number}");
        let updates = editor.updates(id);
        let said = updates.iter().map(|update| &update["content"][0]["content"]["text"]);
        let said: Vec<&str> = said.filter_map(Value::as_str).collect();
        let here = format!("{}\n", folder.display());
        assert!(said.contains(&here.as_str()), "{said:?}");
    }
    wait_until("its processes are gone", || marked(&sessions[cancelled].0).is_empty());
    assert!(!exists(&site.project().join(cancelled.to_string()).join("done")));
    editor.leave();
    for (id, _) in &sessions {
        site.run(&["check", id]).ok();
        site.run(&["verify", id]).ok();
    }
}

/// The limits leave room for few stores at once: sessions rest for others, and each prompt is answered.
#[test]
fn more_sessions_than_files_may_be_open_are_all_answered() {
    for (files, many) in [(200, 40), (128, 60)] {
        let site = Site::scripted(&script(json!([says("Done.")])));
        let node = site.command(&["node"]);
        let mut limited = Command::new("bash");
        limited.arg("-c").arg(format!("ulimit -n {files}; exec \"$@\"")).arg("node");
        limited.arg(node.get_program()).args(node.get_args());
        limited.current_dir(site.project()).env_clear();
        limited.envs(node.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut editor = Editor::from_command(limited);
        let initialized = editor.ask("initialize", json!({ "protocolVersion": 1 }));
        editor.result(initialized);
        let sessions: Vec<String> = (0..many).map(|n| session(&mut editor, &site, n)).collect();
        let prompts: Vec<u64> = sessions.iter().map(|id| editor.prompt(id, "go")).collect();
        for (id, prompt) in sessions.iter().zip(prompts) {
            assert_eq!(editor.stop_reason(prompt), "end_turn", "with {files} files");
            assert_eq!(editor.text(id, "agent_message_chunk"), "Done.");
        }
        editor.leave();
    }
}

/// Threads and open files of a process.
fn held(editor: &Editor) -> [usize; 2] {
    let count = |name: &str| {
        std::fs::read_dir(format!("/proc/{}/{name}", editor.live.id())).unwrap().count()
    };
    [count("task"), count("fd")]
}

/// All sessions are in one store, so more sessions cost no more threads and files. With more than 16 open, two that were
/// unused for 2 s rest when another is opened. The next prompt opens them again.
#[test]
fn of_many_sessions_those_that_are_unused_rest() {
    const MANY: usize = 17;
    let site = Site::scripted(&json!({ "on_end": "repeat", "replies": [says("Done.")] }));
    let mut editor = Editor::start(&site, &[]);
    let run = |editor: &mut Editor, number| {
        let id = session(editor, &site, number);
        let prompt = editor.prompt(&id, "go");
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        id
    };
    let first = run(&mut editor, 0);
    let [threads, files] = held(&editor);
    for number in 1..MANY {
        run(&mut editor, number);
    }
    let open = held(&editor);
    assert!(open[0] < threads + MANY && open[1] < files + MANY, "{open:?}");
    std::thread::sleep(std::time::Duration::from_secs(3));
    let id = editor.ask("session/new", json!({ "cwd": site.project(), "mcpServers": [] }));
    let id = editor.result(id)["sessionId"].as_str().unwrap().to_owned();
    let prompt = editor.prompt(&id, "go");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let rested = held(&editor);
    assert!(rested[0] < threads + MANY && rested[1] < files + MANY, "{rested:?}");
    let again = editor.prompt(&first, "go");
    assert_eq!(editor.stop_reason(again), "end_turn");
    editor.leave();
}

#[test]
fn at_the_end_of_input_every_session_stays_as_it_is() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let sessions = all_under_way(&mut editor, &site);
    editor.hang_up();
    let ran = editor.live.wait().ok();
    for line in ran.stdout.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
    }
    for (number, (id, _)) in sessions.iter().enumerate() {
        assert!(marked(id).is_empty(), "{:?}", marked(id));
        std::fs::write(site.project().join(number.to_string()).join("go"), "").unwrap();
    }
    for (id, _) in &sessions[..2] {
        let resumed = site.run(&["resume", id, "--format", "json"]).ok().events();
        assert_eq!(resumed.last().unwrap()["data"]["text"], "Done.");
        site.run(&["check", id]).ok();
        site.run(&["verify", id]).ok();
    }
}
