//! The bodies that requests become. Each file in `chat_bodies/` has a vendor, a neutral request and
//! its body; `LEFTFOLD_BLESS=1` writes the bodies anew, to be read before they are committed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use leftfold_events::request::RequestMessage;
use leftfold_providers::{Config, Request, Wire, build};
use serde_json::Value;

struct Case {
    file: PathBuf,
    json: Value,
    vendor: String,
    request: Request,
}

impl Case {
    fn body(&self, request: &Request) -> Value {
        let mut config = Config::new("p", Wire::OpenaiChat);
        config.vendor = Some(self.vendor.clone());
        config.base_url = Some("http://127.0.0.1/v1".into());
        serde_json::from_slice(&build(config).unwrap().body(request)).unwrap()
    }

    fn messages(&self, request: &Request) -> Vec<Value> {
        self.body(request)["messages"].as_array().unwrap().clone()
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chat_bodies");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 27, "cases are missing");
    let read = |file: PathBuf| {
        let json: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let request = serde_json::from_value(json["request"].clone()).unwrap();
        Case { vendor: json["vendor"].as_str().unwrap().to_owned(), file, json, request }
    };
    files.into_iter().map(read).collect()
}

#[test]
fn every_case_has_the_body_it_should_have() {
    for mut case in cases() {
        let body = case.body(&case.request);
        if std::env::var_os("LEFTFOLD_BLESS").is_some() {
            case.json["body"] = body.clone();
            fs::write(&case.file, serde_json::to_string_pretty(&case.json).unwrap() + "\n")
                .unwrap();
        }
        assert_eq!(body, case.json["body"], "{}", case.file.display());
    }
}

/// The rules of the API that a whole conversation can break, checked on every body.
#[test]
fn every_body_keeps_the_rules() {
    for case in cases() {
        let file = case.file.display();
        let body = case.body(&case.request);
        assert_eq!(body["stream"], true);
        assert!(body.get("max_tokens").is_none() || body.get("max_completion_tokens").is_none());
        assert!(body["tools"].as_array().is_none_or(|tools| !tools.is_empty()), "{file}");
        let mut open: Vec<String> = Vec::new();
        let mut used = HashSet::new();
        for message in body["messages"].as_array().unwrap() {
            let role = message["role"].as_str().unwrap();
            if role == "tool" {
                let id = message["tool_call_id"].as_str().unwrap();
                assert_eq!(open.first().map(String::as_str), Some(id), "{file}");
                open.remove(0);
            } else {
                assert!(open.is_empty(), "{file}: {open:?} without results");
            }
            for call in message["tool_calls"].as_array().into_iter().flatten() {
                let id = call["id"].as_str().unwrap().to_owned();
                assert!((1..=40).contains(&id.len()) && used.insert(id.clone()), "{file}: {id}");
                let arguments = call["function"]["arguments"].as_str().unwrap();
                assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object(), "{file}");
                open.push(id);
            }
            let content = &message["content"];
            let blank = content.as_str().is_some_and(|text| text.trim().is_empty())
                || content.as_array().is_some_and(Vec::is_empty)
                || content.is_null() && message.get("tool_calls").is_none();
            assert!(!blank, "{file}: {message}");
        }
        assert!(open.is_empty(), "{file}: {open:?} without results");
    }
}

/// Each request begins with the one before, so that vendors find it in their caches.
#[test]
fn a_history_that_grows_only_grows_at_its_end() {
    for mut case in cases() {
        let whole = case.request.clone();
        let all = case.messages(&whole);
        for end in 1..whole.messages.len() {
            let next_to = |at: usize| matches!(whole.messages[at], RequestMessage::User { .. });
            let merges = matches!(case.vendor.as_str(), "llama.cpp" | "generic");
            if matches!(whole.messages[end - 1], RequestMessage::Assistant { .. })
                || merges && next_to(end)
            {
                continue;
            }
            case.request.messages = whole.messages[..end].to_vec();
            let part = case.messages(&case.request);
            let unmarked = |messages: &[Value]| {
                serde_json::to_string(messages)
                    .unwrap()
                    .replace(",\"cache_control\":{\"type\":\"ephemeral\"}", "")
            };
            let (part, before) = (unmarked(&part), unmarked(&all[..part.len()]));
            assert_eq!(part, before, "{} up to {end}", case.file.display());
        }
    }
}
