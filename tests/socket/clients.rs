//! The socket of a node: read, watch, prompt, answer, cancel, and misbehaving clients.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use common::{ASK, Live, Peer, Site, all, asking, end, from_on, kinds, only, says, script};
use serde_json::{Value, json};

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

#[test]
fn it_is_for_its_user_alone_and_goes_with_the_node() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let socket = site.session().join("socket");
    let metadata = socket.symlink_metadata().unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o777, 0o600);
    allow(&site, &session, of);
    live.wait().ok();
    assert!(!common::exists(&socket));
    let left = std::fs::read_dir(site.session()).unwrap();
    let mut names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.all(|name| !name.contains("socket")));
}

/// Each batch is refused as a whole, with one error, and the connection stays usable.
#[test]
fn a_batch_is_refused_with_one_error() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let mut peer = Peer::connect(&site.session());
    let params = json!({ "session": session });
    let cancel =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "_leftfold/cancel", "params": params });
    for (batch, words) in [
        (json!([cancel, cancel]), "batches are not supported"),
        (json!([]), "batches are not supported"),
        (json!(vec![json!({}); 300_000]), "more than 262144 values"),
    ] {
        peer.send(format!("{batch}\n"));
        let error = peer.line().unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32600)));
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    }
    let read = json!({ "session": session, "from": 1 });
    let read = peer.call("_leftfold/read", &read);
    assert!(read["result"]["lines"].is_array(), "{read}");
    allow(&site, &session, of);
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
}

#[test]
fn a_stale_socket_is_replaced_and_a_long_path_is_no_obstacle() {
    let long = "a-home-with-a-name-that-no-socket-address-has-room-for".repeat(3);
    let site = asking();
    let home = site.path(&long);
    let site = site.env("LEFTFOLD_HOME", home.to_str().unwrap());
    let start = |args: &[&str]| {
        let mut live = site.start(args);
        live.until("permission.asked");
        live
    };
    let live = start(&ASK);
    let store = std::fs::read_dir(home.join("sessions")).unwrap().next().unwrap().unwrap().path();
    live.signal(rustix::process::Signal::KILL);
    live.wait();
    assert!(common::exists(&store.join("socket")), "a killed node leaves its socket");
    std::fs::create_dir(store.join(".socket-1")).unwrap();
    let resume = ["resume", "last", "--permission-mode", "ask", "--format", "json"];
    let mut live = site.start(&resume);
    live.until("session.resumed");
    assert!(!common::exists(&store.join(".socket-1")));
    site.run(&["permission", "answer", "last", "call_1_1", "once"]).ok();
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
}

#[test]
fn what_is_wrong_is_said_and_the_node_goes_on() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let mut peer = Peer::connect(&site.session());
    let other = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for (method, params, code, part) in [
        ("_leftfold/nonsense", json!({}), -32601, "_leftfold/watch"),
        ("_leftfold/read", json!({}), -32602, "session"),
        ("_leftfold/read", json!([]), -32602, "params"),
        ("_leftfold/read", json!({ "session": session, "from": "1" }), -32602, "`from`"),
        ("_leftfold/watch", json!({ "session": session, "from": 0 }), -32602, "`from`"),
        ("_leftfold/watch", json!({ "session": other, "from": 1 }), -32000, "not open"),
        ("_leftfold/prompt", json!({ "session": session, "text": " " }), -32602, "empty"),
        ("_leftfold/answer", json!({ "session": session, "reply": "once" }), -32602, "`of`"),
        (
            "_leftfold/answer",
            json!({ "session": session, "of": of, "reply": "no" }),
            -32602,
            "reply",
        ),
    ] {
        let answer = peer.call(method, &params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(part), "{answer}");
    }
    for (bytes, code) in [("nonsense\n", -32700), ("\u{ff}\n", -32700), ("[]\n", -32600)] {
        peer.send(bytes);
        assert_eq!(peer.line().unwrap()["error"]["code"], code);
    }
    peer.send("\n{\"jsonrpc\":");
    peer.shut();
    assert_eq!(peer.line().unwrap()["error"]["code"], -32700);
    assert_eq!(peer.line(), None);
    allow(&site, &session, of);
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
    site.assert_sound();
}

#[test]
fn a_line_of_50_mb_is_refused_without_being_kept() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let peak = || common::peak(live.id());
    let before = peak();
    let mut peer = Peer::connect(&site.session());
    let piece = vec![b'x'; 1 << 20];
    (0..50).for_each(|_| peer.send(&piece));
    peer.send("\n");
    let refused = peer.line().unwrap();
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("16 MiB"), "{refused}");
    assert!(peak() - before < 40 << 10, "{} kB more", peak() - before);
    // the connection still works
    let read = peer.call("_leftfold/read", &json!({ "session": session, "from": 1, "to": 1 }));
    assert_eq!(read["result"]["lines"][0]["type"], "session.created");
    allow(&site, &session, of);
    live.wait().ok();
}

#[test]
fn a_client_that_asks_and_never_reads_is_made_to_wait() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let before = common::peak(live.id());
    let mut peer = Peer::connect(&site.session());
    let read = json!({ "session": session, "from": 1 });
    let sent = peer.flood("_leftfold/read", &read, 1_000_000);
    assert!(sent < 1_000_000, "all of it was taken");
    let more = common::peak(live.id()) - before;
    assert!(more < 40 << 10, "{more} kB more for {sent} requests");
    allow(&site, &session, of);
    live.wait().ok();
}

#[test]
fn clients_that_vanish_or_never_read_disturb_nobody() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let store = site.session();
    let watch = json!({ "session": session, "from": 1 });
    for _ in 0..10 {
        let mut gone = Peer::connect(&store);
        gone.ask("_leftfold/watch", &watch);
    }
    // more answers than any buffer holds, and nobody reads them
    let mut deaf = Peer::connect(&store);
    for _ in 0..60 {
        deaf.ask("_leftfold/watch", &watch);
    }
    let mut fine = Peer::connect(&store);
    fine.call("_leftfold/watch", &watch);
    allow(&site, &session, of);
    while fine.event()["type"] != "permission.answered" {}
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
}

#[test]
fn watchers_get_what_an_export_has_from_their_cursor_on() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let store = site.session();
    let so_far = site.run(&["export", &session]).ok().stdout;
    for from in 1..=of {
        let mut peer = Peer::connect(&store);
        peer.call("_leftfold/watch", &json!({ "session": session, "from": from }));
        for line in from_on(&so_far, from).lines() {
            assert_eq!(peer.event().to_string(), line);
        }
    }
    // a cursor in the future waits for its event
    let mut early = Peer::connect(&store);
    early.call("_leftfold/watch", &json!({ "session": session, "from": of + 1 }));
    let mut slow = Peer::connect(&store);
    slow.ask("_leftfold/watch", &json!({ "session": session, "from": 1 }));
    allow(&site, &session, of);
    assert_eq!(early.event()["type"], "permission.answered");
    slow.line();
    for line in so_far.lines() {
        assert_eq!(slow.event().to_string(), line);
    }
    assert_eq!(slow.event()["seq"], of + 1);
    live.wait().ok();
}

#[test]
fn read_gives_the_lines_of_an_export_page_by_page() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let so_far = site.run(&["export", &session]).ok().stdout;
    let mut peer = Peer::connect(&site.session());
    let mut read = |from: u64, to: Option<u64>| {
        let params = json!({ "session": session, "from": from, "to": to });
        let answer = peer.call("_leftfold/read", &params)["result"].take();
        assert_eq!(answer["next"], Value::Null);
        let lines = answer["lines"].as_array().unwrap().iter();
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_eq!(read(1, None), so_far);
    assert_eq!(read(3, None), from_on(&so_far, 3));
    assert_eq!(read(of, Some(of)), from_on(&so_far, of));
    assert_eq!(read(of + 1, None), "");
    allow(&site, &session, of);
    live.wait().ok();
}

#[test]
fn a_second_client_prompts_and_its_prompt_joins_the_turn() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let mut peer = Peer::connect(&site.session());
    let prompt = json!({ "session": session, "text": "and mind the gap", "by": "ann" });
    assert_eq!(peer.call("_leftfold/prompt", &prompt)["result"], json!({}));
    allow(&site, &session, of);
    let events = live.wait().ok().events();
    let prompts = all(&events, "turn.prompted");
    assert_eq!(prompts.len(), 2);
    assert_eq!(prompts[1]["data"]["parts"][0]["text"], "and mind the gap");
    let by = format!("ann (pid {})", std::process::id());
    assert_eq!(prompts[1]["data"]["by"], *by);
    assert_eq!(all(&events, "turn.ended").len(), 1);
    assert_eq!(all(&events, "turn.configured").len(), 1, "nothing has changed");
    site.assert_sound();
}

#[test]
fn a_prompt_with_a_known_id_does_nothing_and_options_need_a_turn_of_their_own() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let store = site.session();
    let mut peer = Peer::connect(&store);
    let prompt = |more: &Value| {
        let mut prompt = json!({ "session": session, "text": "and mind the gap" });
        prompt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        prompt
    };
    // clients that send one prompt at once, as after a lost answer
    let same = prompt(&json!({ "message_id": "m1" }));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let ask = || Peer::connect(&store).call("_leftfold/prompt", &same)["result"].clone();
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let repeated: Vec<&Value> = answers.iter().filter(|answer| **answer != json!({})).collect();
    assert_eq!(repeated.len(), 7, "{answers:?}");
    let noted = prompt(&json!({ "message_id": "m2", "no_reply": true }));
    assert_eq!(peer.call("_leftfold/prompt", &noted)["result"], json!({}));
    for option in [
        json!({ "agent": "plan" }),
        json!({ "model": "a/b" }),
        json!({ "system": "Rhyme." }),
        json!({ "tools": { "bash": false } }),
        json!({ "max_steps": 3 }),
    ] {
        let refused = peer.call("_leftfold/prompt", &prompt(&option));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let why = refused["error"]["message"].as_str().unwrap();
        assert!(why.contains("runs one turn"), "{why}");
    }
    allow(&site, &session, of);
    let events = live.wait().ok().events();
    let prompts = all(&events, "turn.prompted");
    assert_eq!((prompts.len(), all(&events, "turn.noted").len()), (2, 1));
    let expected = json!({ "repeated": true, "seq": prompts[1]["seq"] });
    assert!(repeated.iter().all(|answer| **answer == expected), "{repeated:?}");
    assert_eq!(all(&events, "turn.ended").len(), 1);
    site.assert_sound();
}

#[test]
fn a_second_client_cancels() {
    let site = asking();
    let (live, session, _) = waiting(&site);
    let mut peer = Peer::connect(&site.session());
    peer.call("_leftfold/cancel", &json!({ "session": session }));
    let events = live.wait().with(130).events();
    let by = format!("socket (pid {})", std::process::id());
    assert_eq!(only(&events, "turn.interrupted")["data"]["by"], *by);
    site.assert_sound();
}

#[test]
fn of_eight_racing_answers_one_counts_and_the_others_are_told_who_gave_it() {
    let site = asking();
    let (live, session, of) = waiting(&site);
    let store = site.session();
    let barrier = std::sync::Barrier::new(8);
    let answers: Vec<(String, Value)> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|n| {
                let (store, session, barrier) = (&store, &session, &barrier);
                scope.spawn(move || {
                    let mut peer = Peer::connect(store);
                    let by = format!("racer {n}");
                    let params = json!({ "session": session, "of": of, "reply": "once", "by": by });
                    barrier.wait();
                    (by, peer.call("_leftfold/answer", &params))
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).collect()
    });
    let events = live.wait().ok().events();
    let winner = only(&events, "permission.answered")["data"]["by"].as_str().unwrap();
    let won: Vec<_> = answers.iter().filter(|(_, a)| a["result"]["accepted"] == true).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(winner.starts_with(&won[0].0), "{winner}");
    for (_, answer) in answers.iter().filter(|(_, a)| a["result"]["accepted"] != true) {
        assert_eq!(answer["result"]["by"], winner, "{answer}");
    }
    assert_eq!(end(&events)["reason"], "completed");
    site.assert_sound();
}

#[test]
fn readers_read_while_a_node_runs() {
    let site = asking();
    let (mut live, session, of) = waiting(&site);
    for command in ["replay", "verify", "check", "export"] {
        site.run(&[command, &session]).ok();
    }
    let exported = site.run(&["export", &session]).ok().events();
    assert_eq!(exported.last().unwrap()["seq"], of, "{:?}", kinds(&exported));
    allow(&site, &session, of);
    live.until("turn.ended");
    live.wait().ok();
}

/// A rejection with words closes the other questions of the reply, for every client; calls that need
/// no answer run, and the turn goes on.
#[test]
fn a_rejection_with_words_closes_the_other_questions_of_the_reply() {
    let part = |name: &str, input: Value| json!({ "call": { "name": name, "input": input } });
    let parts = json!([
        part("bash", json!({ "command": "touch one" })),
        part("bash", json!({ "command": "touch two" })),
        part("read", json!({ "filePath": "a.txt" })),
    ]);
    let site = Site::scripted(&script(json!([{ "parts": parts }, says("So be it.")])))
        .setting("permission", json!({ "bash": "ask" }));
    site.file("a.txt", "alpha\n");
    let mut live = site.start(&ASK);
    let seqs = [(); 2].map(|()| live.until("permission.asked")["seq"].to_string());
    let answer = |seq: &str, words: &[&str]| {
        site.run(&[&["permission", "answer", "last", seq], words].concat())
    };
    answer(&seqs[1], &["reject", "--feedback", "Use git."]).ok();
    let events = live.wait().ok().events();
    let late = answer(&seqs[0], &["once"]);
    assert_eq!(late.code, 1, "{late:?}");

    let answers = all(&events, "permission.answered");
    let of = |answer: &Value| answer["of"].to_string();
    assert_eq!(answers.iter().map(|answer| of(answer)).collect::<Vec<_>>(), [&*seqs[1], &*seqs[0]]);
    let (first, second) = (&answers[0]["data"], &answers[1]["data"]);
    assert_eq!(first.get("with"), None);
    assert_eq!(second["with"], answers[0]["seq"]);
    for field in ["reply", "feedback", "by"] {
        assert_eq!(first[field], second[field]);
    }
    assert!(!site.project().join("one").exists() && !site.project().join("two").exists());
    assert_eq!(only(&events, "tool.finished")["data"]["is_error"], false);
    assert_eq!(
        (end(&events)["reason"].as_str(), &end(&events)["text"]),
        (Some("completed"), &json!("So be it."))
    );
    assert_eq!(end(&events)["permission_denials"].as_array().unwrap().len(), 2);
    let request = all(&events, "model.requested")[1]["seq"].to_string();
    let told = site.run(&["explain", "last", &request]).ok().stdout;
    assert!(told.contains("rejected another call of this reply"), "{told}");
    let text = site.run(&["replay", "last"]).ok().stdout;
    assert!(text.contains("another call of the reply was rejected with words"), "{text}");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}
