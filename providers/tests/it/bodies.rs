//! The bodies of requests. Each file in the folders here has a neutral request, its body, and the
//! vendor if it matters. `LEFTFOLD_BLESS=1` rewrites the bodies; read them before you commit them.
#![cfg(debug_assertions)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Site, begins, conversation};
use leftfold_events::request::RequestMessage;
use leftfold_providers::{Request, Wire, build};
use serde_json::{Value, json};

/// Each folder with its wire and its number of cases.
const FOLDERS: [(&str, Wire, usize); 5] = [
    ("anthropic_bodies", Wire::ANTHROPIC, 23),
    ("chat_bodies", Wire::OPENAI_CHAT, 28),
    ("responses_bodies", Wire::OPENAI_RESPONSES, 19),
    ("gemini_bodies", Wire::GEMINI, 10),
    ("bedrock_bodies", Wire::BEDROCK, 19),
];

struct Case {
    file: PathBuf,
    json: Value,
    site: Site,
    request: Request,
}

impl Case {
    fn read(file: PathBuf, wire: Wire) -> Self {
        let json: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let request = serde_json::from_value(json["request"].clone()).unwrap();
        let vendor = json["vendor"].as_str().unwrap_or_default();
        Self { site: Site::new(wire, vendor, "", json!({})), file, json, request }
    }

    fn body(&self, request: &Request) -> Value {
        self.site.exact(request)
    }

    fn name(&self) -> String {
        self.file.display().to_string()
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (folder, wire, count) in FOLDERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
        let mut files: Vec<PathBuf> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), count, "cases are missing in {}", folder.display());
        cases.extend(files.into_iter().map(|file| Case::read(file, wire)));
    }
    cases
}

#[test]
fn every_case_has_the_body_it_should_have() {
    for mut case in cases() {
        let body = case.body(&case.request);
        if std::env::var_os("LEFTFOLD_BLESS").is_some() {
            case.json["body"] = body.clone();
            let text = serde_json::to_string_pretty(&case.json).unwrap() + "\n";
            fs::write(&case.file, text).unwrap();
        }
        assert_eq!(body, case.json["body"], "{}", case.name());
    }
}

#[test]
fn every_body_keeps_the_rules() {
    for case in cases() {
        let body = case.body(&case.request);
        let faults = case.site.config.faults(&case.request.model.id, &body);
        assert_eq!(faults, vec![], "{}", case.name());
        let marks = body.to_string().matches("cache_control").count();
        assert!(marks > 0 || case.site.config.wire != Wire::ANTHROPIC, "{}", case.name());
    }
}

#[test]
fn the_same_request_has_the_same_bytes() {
    for case in cases() {
        let provider = build(case.site.config.clone()).unwrap();
        let again = provider.body(&case.request.clone());
        assert_eq!(provider.body(&case.request), again, "{}", case.name());
    }
}

/// Each request begins with the one before, so that vendors find it in their caches.
#[test]
fn a_history_that_grows_only_grows_at_its_end() {
    for mut case in cases() {
        let whole = case.request.clone();
        let all = conversation(case.body(&whole));
        for end in 1..whole.messages.len() {
            let [last, next] = &whole.messages[end - 1..=end] else { continue };
            let is_user = |message| matches!(message, &RequestMessage::User { .. });
            // no request ends in an answer; consecutive user messages may become one
            if matches!(last, RequestMessage::Assistant { .. }) || is_user(next) {
                continue;
            }
            case.request.messages = whole.messages[..end].to_vec();
            let part = conversation(case.body(&case.request));
            assert!(begins(&all, &part), "{} up to {end}: {part:#?}", case.name());
        }
    }
}
