//! The bodies that requests become. Each file in `anthropic_bodies/` has a neutral request and its
//! body; `LEFTFOLD_BLESS=1` writes the bodies anew, to be read before they are committed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use leftfold_providers::{Config, Request, Wire, build};
use serde_json::Value;

fn body(request: &Request) -> Value {
    let mut config = Config::new("anthropic", Wire::Anthropic);
    config.api_key = Some("key".into());
    serde_json::from_slice(&build(config).unwrap().body(request)).unwrap()
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/anthropic_bodies");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 19, "cases are missing");
    files
}

#[test]
fn every_case_has_the_body_it_should_have() {
    for file in cases() {
        let mut case: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let request: Request = serde_json::from_value(case["request"].clone()).unwrap();
        let body = body(&request);
        if std::env::var_os("LEFTFOLD_BLESS").is_some() {
            case["body"] = body.clone();
            fs::write(&file, serde_json::to_string_pretty(&case).unwrap() + "\n").unwrap();
        }
        assert_eq!(body, case["body"], "{}", file.display());
    }
}

/// The rules of the API that a whole conversation can break, checked on every body.
#[test]
fn every_body_keeps_the_rules() {
    for file in cases() {
        let case: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let request: Request = serde_json::from_value(case["request"].clone()).unwrap();
        let body = body(&request);
        let marks = body.to_string().matches("cache_control").count();
        assert!((1..=4).contains(&marks), "{}: {marks} marks", file.display());
        assert_eq!(body["stream"], true);
        let roles: Vec<&str> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles.first(), Some(&"user"), "{}", file.display());
        assert_eq!(roles.last(), Some(&"user"), "{}", file.display());
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "{}", file.display());
    }
}

#[test]
fn the_same_request_has_the_same_bytes() {
    let case = fs::read_to_string(&cases()[0]).unwrap();
    let case: Value = serde_json::from_str(&case).unwrap();
    let request: Request = serde_json::from_value(case["request"].clone()).unwrap();
    assert_eq!(body(&request).to_string(), body(&request.clone()).to_string());
}
