//! The bodies that requests become. Each file in `responses_bodies/` has a vendor, a neutral request
//! and its body; `LEFTFOLD_BLESS=1` writes the bodies anew, to be read before they are committed.

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
    fn bytes(&self, request: &Request) -> String {
        let mut config = Config::new("p", Wire::OpenaiResponses);
        config.vendor = Some(self.vendor.clone());
        config.base_url = Some("http://127.0.0.1/v1".into());
        String::from_utf8(build(config).unwrap().body(request)).unwrap()
    }

    fn body(&self) -> Value {
        serde_json::from_str(&self.bytes(&self.request)).unwrap()
    }
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/responses_bodies");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 18, "cases are missing");
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
        let body = case.body();
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
        let body = case.body();
        assert_eq!((&body["stream"], &body["store"]), (&true.into(), &false.into()));
        assert!(body["max_output_tokens"].as_u64().is_none_or(|most| most >= 16));
        assert!(body["tools"].as_array().is_none_or(|tools| !tools.is_empty()), "{file}");
        let mut open: Vec<&str> = Vec::new();
        let mut used = HashSet::new();
        let mut waits = false;
        for item in body["input"].as_array().unwrap() {
            let kind = item["type"].as_str().unwrap();
            let is_answer = kind == "function_call" || item["role"] == "assistant";
            assert!(!waits || is_answer || kind == "reasoning", "{file}: nothing after reasoning");
            waits = kind == "reasoning";
            match kind {
                "function_call" => {
                    let id = item["call_id"].as_str().unwrap();
                    assert!((1..=64).contains(&id.len()) && used.insert(id), "{file}: {id}");
                    let arguments = item["arguments"].as_str().unwrap();
                    assert!(serde_json::from_str::<Value>(arguments).unwrap().is_object());
                    open.push(id);
                }
                "function_call_output" => {
                    let id = item["call_id"].as_str().unwrap();
                    assert_eq!(open.first(), Some(&id), "{file}");
                    open.remove(0);
                    assert!(!is_blank(&item["output"]), "{file}: {item}");
                }
                "message" => {
                    assert!(open.is_empty(), "{file}: {open:?} without results");
                    assert!(!is_blank(&item["content"]), "{file}: {item}");
                }
                other => assert_eq!(other, "reasoning", "{file}"),
            }
        }
        assert!(open.is_empty() && !waits, "{file}: {open:?} without results");
    }
}

fn is_blank(content: &Value) -> bool {
    content
        .as_str()
        .map_or_else(|| content.as_array().is_none_or(Vec::is_empty), |text| text.trim().is_empty())
}

/// Each request begins with the bytes of the one before, so that the server finds it in its cache.
#[test]
fn a_history_that_grows_only_grows_at_its_end() {
    for mut case in cases() {
        let whole = case.request.clone();
        let all = case.bytes(&whole);
        let merges = case.vendor == "generic";
        for end in 1..whole.messages.len() {
            let is_user = |at: usize| matches!(whole.messages[at], RequestMessage::User { .. });
            if matches!(whole.messages[end - 1], RequestMessage::Assistant { .. })
                || merges && is_user(end)
            {
                continue;
            }
            case.request.messages = whole.messages[..end].to_vec();
            let part = case.bytes(&case.request);
            // all but the two brackets that close it
            let begin = &part[..part.len() - 2];
            assert!(all.starts_with(begin), "{} up to {end}:\n{part}\n{all}", case.file.display());
        }
    }
}
