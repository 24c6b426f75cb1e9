//! Which requests are retried and when, and that no text is doubled.

use std::time::Instant;

use common::{
    Answer, Block, Server, Site, Split, all, call, end, kinds, message, only, says, script,
};
use serde_json::{Value, json};

fn good(text: &'static str) -> Answer {
    Answer::Stream(message(&[Block::Text(text)]), Split::Whole)
}

fn events(server: &Server) -> Vec<Value> {
    let site = Site::served(server).setting("provider/local/options/chunkTimeout", json!(1000));
    let events = site.prompt("go").ok().events();
    site.assert_sound();
    events
}

#[test]
fn a_busy_server_is_asked_again_when_it_says() {
    for status in [429, 503, 529] {
        let headers = vec!["retry-after-ms: 20".to_owned()];
        let busy = || Answer::Status(status, headers.clone(), r#"{"error":{"type":"x"}}"#.into());
        let server = Server::start(vec![busy(), busy(), good("At last.")]);
        let start = Instant::now();
        let events = events(&server);
        // without the server's hint the two waits would be 2 and 4 seconds
        assert!(start.elapsed().as_secs_f64() < 5.0, "{status}: {:?}", start.elapsed());
        assert_eq!(end(&events)["text"], "At last.");
        assert_eq!(all(&events, "model.retry_scheduled").len(), 2);
        let attempts: Vec<_> =
            all(&events, "model.requested").iter().map(|e| e["data"]["attempt"].clone()).collect();
        assert_eq!(attempts, [1, 2, 3]);
        let failed = all(&events, "model.failed")[0];
        assert_eq!(
            (&failed["data"]["status"], &failed["data"]["retryable"]),
            (&json!(status), &json!(true))
        );
        let bodies: Vec<_> = server.requests().into_iter().map(|request| request.body).collect();
        assert!(bodies.windows(2).all(|two| two[0] == two[1]));
    }
}

#[test]
fn a_server_that_goes_silent_within_an_answer_is_asked_again() {
    let half = message(&[Block::Text("Once upon")]);
    let half = &half[..half.find("event: content_block_stop").unwrap()];
    let server = Server::start(vec![Answer::Stall(half.to_owned()), good("Once upon a time.")]);
    let events = events(&server);
    assert_eq!(only(&events, "model.failed")["data"]["class"], "stalled");
    assert_eq!(end(&events)["text"], "Once upon a time.");
}

#[test]
fn a_server_that_never_begins_to_answer_is_asked_again() {
    let server = Server::start(vec![Answer::Silence, good("Once upon a time.")]);
    let site = Site::served(&server).setting("provider/local/options/timeout", json!(1500));
    let events = site.prompt("go").ok().events();
    let elapsed = all(&events, "session.deadline_passed")[0];
    assert_eq!(elapsed["of"], all(&events, "model.requested")[0]["seq"]);
    assert!(
        only(&events, "model.retry_scheduled")["data"]["error"]
            .as_str()
            .unwrap()
            .contains("silent")
    );
    assert_eq!(end(&events)["text"], "Once upon a time.");
    site.assert_sound();
}

#[test]
fn a_stream_that_is_cut_is_asked_for_again_and_its_text_counts_once() {
    let whole = message(&[Block::Text("Once upon")]);
    let stop = whole.find("event: message_stop").unwrap();
    let middle = whole.find("\"text\":\"upon\"").unwrap();
    let whole = &whole;
    let turn = |at: usize| {
        let cut = Answer::Cut(whole[..at].to_owned());
        let server = Server::start(vec![cut, good("Once upon a time.")]);
        let events = events(&server);
        assert_eq!(only(&events, "model.failed")["data"]["class"], "network", "{at}");
        assert_eq!(end(&events)["text"], "Once upon a time.");
        // the shown text of the first attempt is not sent
        assert_eq!(server.requests()[0].body, server.requests()[1].body);
    };
    // in parallel, because each waits two seconds
    std::thread::scope(|scope| {
        for at in [middle, stop, stop + 9] {
            scope.spawn(move || turn(at));
        }
    });
}

#[test]
fn readers_of_text_are_told_that_what_they_saw_is_void() {
    let whole = message(&[Block::Text("Once upon")]);
    let cut = whole.find("event: message_delta").unwrap();
    let server =
        Server::start(vec![Answer::Cut(whole[..cut].to_owned()), good("Once upon a time.")]);
    let ran = Site::served(&server).run(&["run", "go"]).ok();
    let (before, after) = ran.stdout.split_once("[retrying in ").unwrap();
    assert_eq!(before, "Once upon\n");
    assert!(after[1..].starts_with(" s, attempt 2: "), "{ran:?}");
    assert!(after.ends_with("]\nOnce upon a time.\n"), "{ran:?}");
}

#[test]
fn an_answer_with_a_call_is_never_asked_for_again() {
    let input = json!({ "command": "echo ran >> runs" }).to_string();
    let whole = message(&[Block::Text("I run it."), Block::Call("toolu_1", "bash", input)]);
    let cut = whole.find("event: message_delta").unwrap();
    let server = Server::start(vec![Answer::Cut(whole[..cut].to_owned()), good("It ran.")]);
    let site = Site::served(&server);
    let events = site.prompt("go").ok().events();
    assert_eq!(site.text("runs"), "ran\n");
    assert_eq!(end(&events)["text"], "It ran.");
    let second = &server.requests()[1].body["messages"];
    assert_eq!(second[1]["content"][1]["id"], "toolu_1");
    assert_eq!(second[2]["content"][0]["tool_use_id"], "toolu_1");
    site.assert_sound();
}

#[test]
fn attempts_are_limited_and_the_error_says_how_many_there_were() {
    let busy = || Answer::Status(529, vec!["retry-after-ms: 1".into()], String::new());
    let server = Server::start((0..9).map(|_| busy()).collect());
    let site = Site::served(&server).setting("retry/attempts", json!(2));
    let events = site.prompt("go").with(1).events();
    assert_eq!(server.requests().len(), 3);
    assert!(
        end(&events)["error"].as_str().unwrap().contains("after 3 attempts"),
        "{:?}",
        end(&events)
    );
}

#[test]
fn without_a_hint_the_wait_is_two_seconds_and_at_most_a_quarter_more() {
    let fault = json!({ "class": "overloaded", "message": "busy" });
    let reply = json!({ "faults": [fault], "parts": [{ "text": "At last." }] });
    let site = Site::scripted(&script(json!([reply])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    let scheduled = live.until("model.retry_scheduled");
    live.signal(rustix::process::Signal::INT);
    live.wait().with(130);
    let replay = site.run(&["export", "last"]).ok().events();
    assert_eq!(kinds(&replay).last(), Some(&"turn.ended"));
    let seconds = |text: &Value| {
        let text = text.as_str().unwrap();
        let (minutes, rest) = text[14..].split_once(':').unwrap();
        minutes.parse::<f64>().unwrap() * 60.0 + rest.trim_end_matches('Z').parse::<f64>().unwrap()
    };
    let wait = (seconds(&scheduled["until"]) - seconds(&scheduled["at"])).rem_euclid(3600.0);
    assert!((2.0..=2.5).contains(&wait), "{wait}");
}

#[test]
fn a_conversation_that_is_too_long_ends_clearly_where_it_may_not_be_summarised() {
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error",
        "message": "prompt is too long: 210000 tokens > 200000 maximum" } });
    let server = Server::start(vec![Answer::Status(400, vec![], body.to_string())]);
    let site = Site::served(&server).setting("compaction/auto", json!(false));
    let events = site.prompt("go").with(1).events();
    assert_eq!(only(&events, "model.failed")["data"]["class"], "overflow");
    let error = end(&events)["error"].as_str().unwrap();
    assert!(error.contains("prompt is too long") && error.contains("compaction is off"), "{error}");
    site.assert_sound();
}

/// Cerebras and Mistral say nothing else about a request that is too long.
#[test]
fn an_empty_error_of_some_vendors_means_that_the_conversation_is_too_long() {
    for (vendor, status, class) in [
        ("cerebras", 400, "overflow"),
        ("mistral", 400, "overflow"),
        ("cerebras", 413, "overflow"),
        ("generic", 413, "overflow"),
        ("generic", 400, "invalid"),
        ("mistral", 422, "invalid"),
    ] {
        let server = Server::start(vec![Answer::Status(status, vec![], String::new())]);
        let site = Site::served(&server)
            .setting("provider/local/wire", json!("openai-chat"))
            .setting("provider/local/vendor", json!(vendor));
        let events = site.prompt("go").with(1).events();
        let failed = only(&events, "model.failed");
        assert_eq!(failed["data"]["class"], class, "{vendor} {status}");
        assert_eq!(failed["data"]["status"], status);
    }
}

#[test]
fn a_full_context_is_still_sent_where_it_may_not_be_summarised() {
    let full = |mut reply: Value| {
        reply["usage"] = json!({ "input": 99_000, "output": 500 });
        reply
    };
    let replies = [call("todoread", json!({})), says("Done."), says("Done again.")].map(full);
    let site =
        Site::scripted(&script(json!(replies))).setting("compaction", json!({ "auto": false }));
    let events = site.prompt("go").ok().events();
    assert_eq!(all(&events, "model.requested").len(), 2);
    // the session is not locked either
    let again = site.run(&["run", "-c", "--format", "json", "more"]).ok().events();
    assert_eq!(end(&again)["text"], "Done again.");
    site.assert_sound();
}
