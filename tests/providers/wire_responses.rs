//! Turns over the wire of OpenAI Responses against a server that splits bytes at the worst places.

use common::{Answer, Server, Site, Split, all, end, only};
use serde_json::{Value, json};

use super::{ARRIVALS, AT_ONCE, Arrival};

/// An item of a reply.
enum Item {
    /// A summary, and the encrypted reasoning.
    Reasoning(&'static str, &'static str),
    Text(&'static str),
    /// Id, tool and the arguments as the model wrote them.
    Call(&'static str, &'static str, String),
}

/// A whole reply, with its texts in pieces as short as a model's tokens.
fn reply(items: &[Item]) -> String {
    let mut text = event(&json!({ "type": "response.created", "response": { "id": "resp_1",
        "status": "in_progress", "output": [], "tools": [], "usage": null } }));
    text += ": a comment\n\n";
    text += &event(&json!({ "type": "response.something.new", "delta": { "a": 1 } }));
    for (index, item) in items.iter().enumerate() {
        text += &one(index, item);
    }
    let usage = json!({ "input_tokens": 11, "input_tokens_details": { "cached_tokens": 4 },
        "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 2 } });
    let response = json!({ "id": "resp_1", "status": "completed", "usage": usage });
    text + &event(&json!({ "type": "response.completed", "response": response }))
}

fn one(index: usize, item: &Item) -> String {
    let (begun, kind, words, done) = match item {
        Item::Reasoning(summary, sealed) => {
            let summary_parts = json!([{ "type": "summary_text", "text": summary }]);
            let whole = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": sealed,
                "summary": summary_parts });
            let begun = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "early",
                "summary": [] });
            (begun, "reasoning_summary_text", *summary, whole)
        }
        Item::Text(words) => {
            let content = json!([{ "type": "output_text", "text": words, "annotations": [] }]);
            let whole = json!({ "type": "message", "id": "msg_1", "role": "assistant",
                "status": "completed", "content": content });
            (
                json!({ "type": "message", "id": "msg_1", "content": [] }),
                "output_text",
                *words,
                whole,
            )
        }
        Item::Call(id, name, arguments) => {
            let call = |arguments: &str| {
                json!({ "type": "function_call", "id": "fc_1", "call_id": id, "name": name,
                    "arguments": arguments })
            };
            (call(""), "function_call_arguments", arguments.as_str(), call(arguments))
        }
    };
    let mut text = added(index, &begun);
    let chars: Vec<char> = words.chars().collect();
    for piece in chars.chunks(5) {
        let piece: String = piece.iter().collect();
        text += &event(&json!({ "type": format!("response.{kind}.delta"), "item_id": "x",
            "output_index": index, "delta": piece }));
    }
    text + &event(&json!({ "type": "response.output_item.done", "output_index": index,
        "item": done }))
}

fn added(index: usize, item: &Value) -> String {
    event(&json!({ "type": "response.output_item.added", "output_index": index, "item": item }))
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// A site with a provider `local` that speaks Responses to `server`.
fn site(server: &Server) -> Site {
    let model = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    Site::bare().setting("title", json!(false)).setting("model", json!("local/gpt-5.1")).setting(
        "provider/local",
        json!({
            "wire": "openai-responses",
            "options": { "baseURL": server.url(), "apiKey": "sk-test-0123456789" },
            "models": { "gpt-5.1": model, "gpt-5.2": model },
        }),
    )
}

fn good(text: &'static str) -> Answer {
    Answer::Stream(reply(&[Item::Text(text)]), Split::Whole)
}

fn tool_turn(arrival: Arrival) -> (Site, Server, Vec<Value>) {
    let edit = json!({ "filePath": "größe.txt", "oldString": "klein 🐁", "newString": "groß 🐘" });
    let replies = [
        reply(&[
            Item::Reasoning("Zuerst lesen – 👀", "gAAA-eins"),
            Item::Text("Ich lese: «ä€𝄞»."),
            Item::Call("call_1", "read", json!({ "filePath": "größe.txt" }).to_string()),
        ]),
        reply(&[Item::Reasoning("", "gAAA-zwei"), Item::Call("call_2", "edit", edit.to_string())]),
        reply(&[Item::Text("Fertig: «groß 🐘»\n\nmit Leerzeile.")]),
        reply(&[Item::Text("Gern.")]),
    ];
    super::tool_turn(site, &replies, arrival)
}

#[test]
fn a_tool_turn_is_the_same_however_the_bytes_arrive() {
    for arrival in ARRIVALS {
        let (site, server, events) = tool_turn(arrival);
        let end = end(&events);
        assert_eq!(end["text"], "Fertig: «groß 🐘»\n\nmit Leerzeile.", "{:?}", arrival.1);
        assert_eq!(end["steps"], 3);
        // each reply reports 11 tokens in (4 of them cached) and 7 out (2 for reasoning)
        let usage = &end["usage"];
        assert_eq!([&usage["input"], &usage["cache_read"]], [&json!(21), &json!(12)]);
        assert_eq!([&usage["output"], &usage["reasoning"]], [&json!(15), &json!(6)]);
        assert_eq!(site.text("größe.txt"), "Sie ist groß 🐘.\n");
        assert_eq!(server.requests().len(), 3);
        site.assert_sound();
    }
}

#[test]
fn each_request_extends_the_one_before() {
    let (site, server, _) = tool_turn(AT_ONCE);
    site.run(&["run", "--continue", "Danke"]).ok();
    let requests = server.requests();
    assert_eq!(requests.len(), 4);
    let mut before: Vec<Value> = Vec::new();
    for request in &requests {
        assert_eq!(request.line, "POST /v1/responses HTTP/1.1");
        assert!(request.headers.contains(&"authorization: Bearer sk-test-0123456789".to_owned()));
        let body = &request.body;
        assert_eq!((&body["model"], &body["stream"]), (&json!("gpt-5.1"), &json!(true)));
        assert_eq!((&body["store"], &body["max_output_tokens"]), (&json!(false), &json!(8_000)));
        assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
        let read = body["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "read");
        let read = read.unwrap();
        assert_eq!((&read["type"], &read["strict"]), (&json!("function"), &json!(false)));
        let input = body["input"].as_array().unwrap();
        assert!(input.starts_with(&before), "{input:#?}");
        before.clone_from(input);
    }
    let kinds: Vec<&str> = before.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "message", "message", // the system prompt, the user's
            "reasoning", "message", "function_call", "function_call_output", "reasoning",
            "function_call", "function_call_output", "message", "message",
        ]
    );
    assert_eq!(before[0]["role"], "system");
    assert_eq!(
        before[3],
        json!({ "type": "message", "role": "assistant",
        "content": "Ich lese: «ä€𝄞»." })
    );
}

#[test]
fn reasoning_goes_back_to_the_model_that_wrote_it() {
    let (site, server, _) = tool_turn(AT_ONCE);
    let reasoning = |request: usize| -> Vec<Value> {
        let items = server.requests()[request].body["input"].as_array().unwrap().clone();
        items.into_iter().filter(|item| item["type"] == "reasoning").collect()
    };
    let summary = |text: &str| json!([{ "type": "summary_text", "text": text }]);
    let expected = [
        json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA-eins",
            "summary": summary("Zuerst lesen – 👀") }),
        json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA-zwei",
            "summary": summary("") }),
    ];
    assert_eq!(reasoning(2), expected);
    site.run(&["run", "--continue", "--model", "local/gpt-5.2", "Danke"]).ok();
    assert_eq!(server.requests()[3].body["model"], "gpt-5.2");
    assert_eq!(reasoning(3), [] as [Value; 0]);
}

#[test]
fn a_call_runs_before_the_answer_has_ended() {
    let whole =
        reply(&[Item::Call("call_1", "bash", json!({ "command": "touch ran" }).to_string())]);
    let open = whole[..whole.find("event: response.completed").unwrap()].to_owned();
    let server = Server::start(vec![Answer::Stall(open), good("Done.")]);
    let site = site(&server).setting("provider/local/options/chunkTimeout", json!(2000));
    let events = site.prompt("go").ok().events();
    let called = all(&events, "tool.called");
    assert_eq!(called.len(), 1, "{events:?}");
    let place = |kind: &str| events.iter().position(|event| event["type"] == kind);
    assert!(place("tool.started") < place("model.failed"), "{events:?}");
    assert!(site.text("ran").is_empty() && site.project().join("ran").exists());
    assert_eq!(end(&events)["text"], "Done.");
}

fn failing(code: &str) -> Answer {
    let error = json!({ "code": code, "message": "It is so." });
    let begun = json!({ "type": "response.created", "response": {} });
    let failed = json!({ "type": "response.failed", "response": { "status": "failed",
        "error": error, "usage": null } });
    let text = event(&begun) + &added(0, &json!({ "type": "message", "content": [] }));
    Answer::Stream(text + &event(&failed), Split::Awkward)
}

#[test]
fn failures_within_a_stream_have_their_class() {
    for (code, class) in [
        ("insufficient_quota", "quota"),
        ("invalid_prompt", "invalid"),
        ("invalid_api_key", "auth"),
    ] {
        let server = Server::start(vec![failing(code), good("never")]);
        let events = site(&server).prompt("go").with(1).events();
        let failed = &only(&events, "model.failed")["data"];
        assert_eq!((&failed["class"], &failed["retryable"]), (&json!(class), &json!(false)));
        assert_eq!(server.requests().len(), 1, "{code}");
    }
    for (code, class) in [("rate_limit_exceeded", "rate_limit"), ("server_error", "other")] {
        let server = Server::start(vec![failing(code), good("At last.")]);
        let events = site(&server).prompt("go").ok().events();
        assert_eq!(only(&events, "model.failed")["data"]["class"], class);
        assert_eq!(end(&events)["text"], "At last.");
    }
}

#[test]
fn a_conversation_that_is_too_long_is_summed_up() {
    let server = Server::start(vec![
        good("First answer."),
        failing("context_length_exceeded"),
        good("The summary."),
        good("Second answer."),
    ]);
    let site = site(&server);
    site.prompt("first").ok();
    let events = site.run(&["run", "--format", "json", "--continue", "second"]).ok().events();
    assert_eq!(only(&events, "model.failed")["data"]["class"], "overflow");
    assert_eq!(end(&events)["text"], "Second answer.");
    let last = server.requests().pop().unwrap().body["input"].to_string();
    assert!(last.contains("The summary.") && !last.contains("First answer."), "{last}");
}

#[test]
fn a_stream_that_is_cut_is_asked_for_again_and_its_text_counts_once() {
    let whole = reply(&[Item::Reasoning("Hm.", "gAAA"), Item::Text("Once upon")]);
    for end_of in
        ["event: response.completed", "event: response.output_text.delta", "\"delta\":\"upon"]
    {
        let cut = whole[..whole.find(end_of).unwrap()].to_owned();
        for answer in [Answer::Cut(cut.clone()), Answer::Stream(cut.clone(), Split::Whole)] {
            let server = Server::start(vec![answer, good("Once upon a time.")]);
            let site = site(&server);
            let events = site.prompt("go").ok().events();
            assert_eq!(only(&events, "model.failed")["data"]["class"], "network", "{end_of}");
            assert_eq!(end(&events)["text"], "Once upon a time.");
            site.assert_sound();
        }
    }
}

#[test]
fn an_answer_that_reached_its_limit_is_no_failure() {
    let whole = reply(&[Item::Text("Half of")]);
    let cut = whole[..whole.find("event: response.completed").unwrap()].to_owned();
    let response = json!({ "status": "incomplete", "usage": { "input_tokens": 3 },
        "incomplete_details": { "reason": "max_output_tokens" } });
    let text = cut + &event(&json!({ "type": "response.incomplete", "response": response }));
    let server = Server::start(vec![Answer::Stream(text, Split::Whole)]);
    let ran = site(&server).prompt("go");
    let events = ran.events();
    assert_eq!(only(&events, "model.finished")["data"]["finish"], "length");
    assert_eq!(end(&events)["text"], "Half of");
}
