//! Turns over the wire of Gemini against a server that splits bytes at the worst places.

use common::{Answer, Server, Site, Split, end, only};
use serde_json::{Value, json};

use super::{ARRIVALS, AT_ONCE, Arrival};

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// A reply, each part in a chunk of its own.
fn reply(parts: &[Value]) -> String {
    let mut text = ": a comment\n\n".to_owned();
    for part in parts {
        let content = json!({ "role": "model", "parts": [part] });
        text += &event(&json!({ "candidates": [{ "content": content, "index": 0 }] }));
    }
    let usage = json!({ "promptTokenCount": 11, "cachedContentTokenCount": 4,
        "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 18 });
    text + &event(&json!({ "candidates": [{ "finishReason": "STOP" }], "usageMetadata": usage }))
}

/// A site with a provider `local` that speaks Gemini to `server`.
fn site(server: &Server) -> Site {
    let model = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    Site::bare().setting("title", json!(false)).setting("model", json!("local/gemini-3-a")).setting(
        "provider/local",
        json!({
            "wire": "gemini",
            "options": { "baseURL": server.url(), "apiKey": "key-test-0123456789" },
            "models": { "gemini-3-a": model, "gemini-3-b": model },
        }),
    )
}

fn good(text: &str) -> Answer {
    Answer::Stream(reply(&[json!({ "text": text })]), Split::Whole)
}

fn tool_turn(arrival: Arrival) -> (Site, Server, Vec<Value>) {
    let read = |path: &str| json!({ "name": "read", "args": { "filePath": path } });
    let replies = [
        reply(&[
            json!({ "text": "Zuerst lesen – 👀", "thought": true }),
            json!({ "text": "Ich lese: «ä€𝄞»." }),
            json!({ "functionCall": read("größe.txt"), "thoughtSignature": "Cg==" }),
            json!({ "functionCall": read("b.txt") }),
        ]),
        reply(&[json!({ "text": "Fertig 🐘" }), json!({ "text": "", "thoughtSignature": "Eq==" })]),
        reply(&[json!({ "text": "Gern." })]),
    ];
    super::tool_turn(site, &replies, arrival)
}

#[test]
fn a_tool_turn_is_the_same_however_the_bytes_arrive() {
    for arrival in ARRIVALS {
        let (site, server, events) = tool_turn(arrival);
        let end = end(&events);
        assert_eq!(
            (&end["text"], &end["steps"]),
            (&json!("Fertig 🐘"), &json!(2)),
            "{:?}",
            arrival.1
        );
        let usage = &end["usage"];
        assert_eq!([&usage["input"], &usage["cache_read"]], [&json!(14), &json!(8)]);
        assert_eq!([&usage["output"], &usage["reasoning"]], [&json!(10), &json!(4)]);
        assert_eq!(server.requests().len(), 2);
        site.assert_sound();
    }
}

#[test]
fn signatures_go_back_on_their_parts_and_requests_extend_each_other() {
    let (site, server, _) = tool_turn(AT_ONCE);
    site.run(&["run", "--continue", "Danke"]).ok();
    let mut before: Vec<Value> = Vec::new();
    for request in server.requests() {
        assert_eq!(
            request.line,
            "POST /v1/models/gemini-3-a:streamGenerateContent?alt=sse HTTP/1.1"
        );
        assert!(request.headers.contains(&"x-goog-api-key: key-test-0123456789".to_owned()));
        assert_eq!(request.body["generationConfig"]["maxOutputTokens"], 8_000);
        let contents = request.body["contents"].as_array().unwrap();
        assert!(contents.starts_with(&before), "{contents:#?}");
        before.clone_from(contents);
    }
    let calls = before[1]["parts"].as_array().unwrap();
    assert_eq!(calls[0], json!({ "text": "Ich lese: «ä€𝄞»." }));
    assert_eq!(
        (&calls[1]["thoughtSignature"], &calls[2]["thoughtSignature"]),
        (&json!("Cg=="), &Value::Null)
    );
    assert_eq!(
        calls[2]["functionCall"],
        json!({ "name": "read", "args": { "filePath": "b.txt" } })
    );
    let results = before[2]["parts"].as_array().unwrap();
    assert_eq!((before[2]["role"].as_str(), results.len()), (Some("user"), 2));
    assert!(results[0]["functionResponse"]["response"]["output"].to_string().contains("klein"));
    let said = json!([{ "text": "Fertig 🐘" }, { "text": "", "thoughtSignature": "Eq==" }]);
    assert_eq!(before[3]["parts"], said);
}

#[test]
fn signatures_are_dropped_for_another_model() {
    let (site, server, _) = tool_turn(AT_ONCE);
    site.run(&["run", "--continue", "--model", "local/gemini-3-b", "Danke"]).ok();
    let contents = server.requests()[2].body["contents"].to_string();
    assert!(!contents.contains("Cg==") && !contents.contains("Eq=="), "{contents}");
}

#[test]
fn failures_have_their_class() {
    let failing = |code: u16, status: &str, message: &str| {
        let error = json!([{ "error": { "code": code, "status": status, "message": message } }]);
        Answer::Status(code, vec!["content-type: application/json".to_owned()], error.to_string())
    };
    for (answer, class) in [
        (failing(400, "INVALID_ARGUMENT", "API key not valid."), "auth"),
        (failing(400, "INVALID_ARGUMENT", "Wrong."), "invalid"),
    ] {
        let server = Server::start(vec![answer, good("never")]);
        let events = site(&server).prompt("go").with(1).events();
        assert_eq!(only(&events, "model.failed")["data"]["class"], class);
    }
    let whole = reply(&[json!({ "text": "Once upon" })]);
    let cut = whole[..whole.find("data: {\"candidates\":[{\"finishReason").unwrap()].to_owned();
    for (answer, class) in [
        (failing(503, "UNAVAILABLE", "The model is overloaded."), "overloaded"),
        (Answer::Stream(cut, Split::Whole), "network"),
    ] {
        let server = Server::start(vec![answer, good("At last.")]);
        let events = site(&server).prompt("go").ok().events();
        assert_eq!(only(&events, "model.failed")["data"]["class"], class);
        assert_eq!(end(&events)["text"], "At last.");
    }
}
