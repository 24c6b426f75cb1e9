//! A turn over the Anthropic wire against a server that splits bytes at the worst places.

use common::{Answer, Block, Server, Site, Split, all, end, message, only};
use serde_json::{Value, json};

use super::{ARRIVALS, AT_ONCE, Arrival};

fn read_call() -> String {
    message(&[
        Block::Thinking("Zuerst lesen – 👀", "c2lnbmF0dXJl"),
        Block::Text("Ich lese: «ä€𝄞»."),
        Block::Call("toolu_1", "read", json!({ "filePath": "größe.txt" }).to_string()),
    ])
}

fn edit_call() -> String {
    let input = json!({ "filePath": "größe.txt", "oldString": "klein 🐁", "newString": "groß 🐘" });
    message(&[Block::Call("toolu_2", "edit", input.to_string())])
}

fn answer() -> String {
    message(&[Block::Text("Fertig: «groß 🐘»\n\nmit Leerzeile.")])
}

fn tool_turn(arrival: Arrival) -> (Site, Server, Vec<Value>) {
    let replies = [read_call(), edit_call(), answer()];
    super::tool_turn(Site::served, &replies, arrival)
}

#[test]
fn a_tool_turn_is_the_same_however_the_bytes_arrive() {
    for arrival in ARRIVALS {
        let (site, server, events) = tool_turn(arrival);
        let end = end(&events);
        assert_eq!(end["text"], "Fertig: «groß 🐘»\n\nmit Leerzeile.", "{:?}", arrival.1);
        assert_eq!(end["steps"], 3);
        // each reply reports 11 tokens in and 7 out
        assert_eq!((&end["usage"]["input"], &end["usage"]["output"]), (&json!(33), &json!(21)));
        assert_eq!(site.text("größe.txt"), "Sie ist groß 🐘.\n");
        let read = all(&events, "tool.finished")[0];
        assert!(read["data"]["output"].as_str().unwrap().contains("klein 🐁"));
        assert_eq!(server.requests().len(), 3);
        site.assert_sound();
    }
}

#[test]
fn requests_have_the_shape_that_the_api_accepts() {
    let (_site, server, events) = tool_turn(AT_ONCE);
    let requests = server.requests();
    for request in &requests {
        assert_eq!(request.line, "POST /v1/messages HTTP/1.1");
        assert!(request.headers.contains(&"x-api-key: sk-test-0123456789".to_owned()));
        assert!(request.headers.iter().any(|header| header.starts_with("anthropic-version: ")));
        assert_eq!((&request.body["model"], &request.body["stream"]), (&json!("m"), &json!(true)));
        assert!(request.body["tools"].as_array().unwrap().iter().any(|t| t["name"] == "edit"));
        assert_valid(request.body["messages"].as_array().unwrap());
    }
    let messages = requests[2].body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let thinking = &messages[1]["content"][0];
    assert_eq!(
        (&thinking["type"], &thinking["thinking"], &thinking["signature"]),
        (&json!("thinking"), &json!("Zuerst lesen – 👀"), &json!("c2lnbmF0dXJl")),
    );
    // the hash in the log is that of the sent body, so each request has its own
    let mut hashes: Vec<_> =
        all(&events, "model.finished").iter().map(|e| e["data"]["body_sha256"].clone()).collect();
    hashes.dedup();
    assert_eq!(hashes.len(), 3);
}

/// Checks that the next message answers each call with one result, before anything else.
fn assert_valid(messages: &[Value]) {
    assert_eq!(messages[0]["role"], "user");
    assert_eq!(messages.last().unwrap()["role"], "user");
    let mut open: Vec<&Value> = Vec::new();
    for message in messages {
        let blocks = message["content"].as_array().unwrap();
        assert!(!blocks.is_empty());
        let results: Vec<&Value> =
            blocks.iter().map_while(|block| block.get("tool_use_id")).collect();
        assert_eq!(results, open, "{message}");
        open = blocks.iter().filter(|b| b["type"] == "tool_use").map(|b| &b["id"]).collect();
        for block in blocks.iter().filter(|block| block["type"] == "text") {
            assert_ne!(block["text"], "");
        }
    }
    assert!(open.is_empty());
}

#[test]
fn calls_of_one_reply_are_all_answered_in_order() {
    let two = message(&[
        Block::Call("toolu_a", "bash", json!({ "command": "sleep 0.2; echo slow" }).to_string()),
        Block::Call("toolu_b", "read", json!({ "filePath": "none" }).to_string()),
    ]);
    let server = Server::start(vec![
        Answer::Stream(two, Split::Whole),
        Answer::Stream(answer(), Split::Whole),
    ]);
    let site = Site::served(&server);
    site.prompt("both").ok();
    let requests = server.requests();
    let messages = requests[1].body["messages"].as_array().unwrap();
    assert_valid(messages);
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results[0]["tool_use_id"], "toolu_a");
    assert_eq!(results[1]["tool_use_id"], "toolu_b");
    assert_eq!(results[1]["is_error"], true);
}

#[test]
fn the_key_is_in_no_event() {
    let body = json!({ "error": { "type": "authentication_error",
        "message": "invalid x-api-key sk-test-0123456789" } });
    let server = Server::start(vec![Answer::Status(401, vec![], body.to_string())]);
    let site = Site::served(&server);
    let ran = site.prompt("hello").with(1);
    assert_eq!(only(&ran.events(), "model.failed")["data"]["class"], "auth");
    assert!(!format!("{ran:?}").contains("sk-test-0123456789"), "{ran:?}");
    assert!(!site.run(&["export", "last"]).ok().stdout.contains("sk-test-0123456789"));
}
