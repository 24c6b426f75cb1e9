//! Sessions of other agents: imported, inspected and continued.

use serde_json::{Value, json};

use super::{Answer, Block, Server, Site, Split, message};

/// A provider `anthropic` at a test server that gives each of the `answers` once.
pub fn anthropic(answers: &[&'static str]) -> (Server, Site) {
    let answer = |text: &&'static str| Answer::Stream(message(&[Block::Text(text)]), Split::Whole);
    let server = Server::start(answers.iter().map(answer).collect());
    let options = json!({ "baseURL": server.url(), "apiKey": "sk-test-0123456789" });
    let settings = json!({ "anthropic": { "wire": "anthropic", "options": options } });
    let site = Site::bare().setting("provider", settings).setting("title", json!(false));
    (server, site.setting("snapshot", json!(false)))
}

pub fn as_lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Imports a file of the project. Returns the session's id and the messages.
pub fn import(site: &Site, file: &str) -> (String, String) {
    let ran = site.run(&["import", file]).ok();
    (ran.stdout.trim().to_owned(), ran.stderr)
}

/// The events of a session.
pub fn events(site: &Site, session: &str) -> Vec<Value> {
    site.run(&["export", session]).ok().events()
}

/// Checks that the imported session is sound, that `verify` skips the decisions of the other agent,
/// and that its export can be read.
pub fn assert_taken_over(site: &Site, session: &str, from: &str) {
    site.run(&["check", session]).ok();
    let verified = site.run(&["verify", session]).ok();
    let told = format!("are imported from {from}, whose decisions are not compared");
    assert!(verified.stdout.contains(&told), "{}", verified.stdout);
    let json = site.run(&["verify", "--format", "json", session]).ok();
    assert_eq!(json.stdout, "");
    assert!(json.stderr.contains(&told), "{}", json.stderr);
    let replayed = site.run(&["replay", session]).ok();
    assert!(replayed.stdout.contains(&format!("session.imported  {from}")), "{}", replayed.stdout);
    let again = site.run(&["rerun", session]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("cannot be run again"), "{}", again.stderr);
}

/// Role and text of each message of a request to Anthropic; calls and results as one word.
pub fn outline(body: &Value) -> Vec<String> {
    let block = |block: &Value| match block["type"].as_str().unwrap() {
        "text" => block["text"].as_str().unwrap().to_owned(),
        "thinking" => format!("<{} {}>", block["thinking"].as_str().unwrap(), block["signature"]),
        "tool_use" => format!("{}{}", block["name"].as_str().unwrap(), block["input"]),
        "tool_result" => {
            let content = &block["content"];
            format!("= {}", content.as_str().or(content[0]["text"].as_str()).unwrap())
        }
        other => other.to_owned(),
    };
    let messages = body["messages"].as_array().unwrap().iter();
    let told = messages.flat_map(|message| {
        let role = message["role"].as_str().unwrap().chars().next().unwrap();
        let content = &message["content"];
        let blocks: Vec<String> = match content.as_str() {
            Some(text) => vec![text.to_owned()],
            None => content.as_array().unwrap().iter().map(block).collect(),
        };
        blocks.into_iter().map(move |text| format!("{role}: {text}"))
    });
    told.collect()
}
