#![allow(clippy::needless_pass_by_value, reason = "values are made on the spot")]

use std::time::Duration;

use leftfold_events::Json;
use leftfold_events::event::{Finish, ModelRef, PromptPart, Purpose, Usage};
use leftfold_events::request::{AssistantPart, Memo, ToolResult};
use leftfold_events::turn_config::ToolSpec;

use super::*;
use crate::config::ScriptSource;

fn config(script: &str) -> Config {
    let mut config = Config::new("demo", Wire::SCRIPTED);
    config.script = Some(ScriptSource::Inline(script.to_owned()));
    config
}

fn scripted(script: &str) -> Scripted {
    Scripted::new(config(script)).unwrap()
}

fn error(script: &str) -> String {
    Scripted::new(config(script)).unwrap_err().to_string()
}

fn request(prompt: &str, answers: usize) -> Request {
    let mut messages = vec![RequestMessage::User { parts: [PromptPart::text(prompt)].into() }];
    for _ in 0..answers {
        let call =
            AssistantPart::Call { id: "c".into(), name: "read".into(), input: Json::object() };
        messages.push(RequestMessage::Assistant { parts: [call].into() });
        messages.push(RequestMessage::Tool {
            results: [ToolResult {
                call: "c".into(),
                name: "read".into(),
                output: format!("result {answers}").into(),
                is_error: false,
                attachments: vec![],
            }]
            .into(),
        });
    }
    Request {
        purpose: Purpose::Turn,
        model: ModelRef { provider: "demo".into(), id: "m".into() },
        max_output: 100,
        options: Json::object(),
        cache_key: String::new(),
        system: vec!["You are a test.".into()],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "r".into(),
            schema: Json::object(),
        }],
        messages,
        encoded: Memo::default(),
    }
}

fn play(provider: &Scripted, request: &Request) -> Vec<StreamEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(provider.stream(request.clone()).collect())
}

/// The text of a reply, or the message of its failure.
fn said(provider: &Scripted, request: &Request) -> String {
    let events = play(provider, request);
    assert!(matches!(events.first(), Some(StreamEvent::Start { .. })));
    assert_eq!(events.iter().filter(|e| e.is_last()).count(), 1);
    assert!(events.last().is_some_and(StreamEvent::is_last));
    let mut text = String::new();
    for event in &events {
        match event {
            StreamEvent::TextDelta { text: piece, .. } => text += piece,
            StreamEvent::Failed(failure) => text += &format!("!{}", failure.message),
            _ => {}
        }
    }
    text
}

#[test]
fn the_place_in_the_conversation_decides() {
    let script = r#"{"replies":[{"parts":[{"text":"one"}]},{"parts":[{"text":"two"}]}]}"#;
    let provider = scripted(script);
    for _ in 0..2 {
        assert_eq!(said(&provider, &request("x", 1)), "two");
        assert_eq!(said(&provider, &request("x", 0)), "one");
    }
    assert_eq!(said(&scripted(script), &request("x", 1)), "two", "another process");
    let end = said(&provider, &request("x", 2));
    assert!(end.contains("2 replies") && end.contains("on_end"), "{end}");
    let again = scripted(&script.replace("]}]}", "]}],\"on_end\":\"repeat\"}"));
    assert_eq!(said(&again, &request("x", 7)), "two");
}

#[test]
fn conditions_go_first() {
    let provider = scripted(
        r#"{"replies":[
            {"parts":[{"text":"plain"}]},
            {"match":{"prompt":"title"},"parts":[{"text":"by prompt"}]},
            {"match":{"result":"result 3","answers":3},"parts":[{"text":"by result"}]},
            {"match":{"system":"a test","tools":false},"parts":[{"text":"by tools"}]},
            {"match":{"tool":"write"},"parts":[{"text":"by tool"}]}],
           "on_end":"repeat"}"#,
    );
    assert_eq!(said(&provider, &request("x", 0)), "plain");
    assert_eq!(said(&provider, &request("a title please", 0)), "by prompt");
    assert_eq!(said(&provider, &request("x", 3)), "by result");
    let mut bare = request("x", 0);
    bare.tools.clear();
    assert_eq!(said(&provider, &bare), "by tools");
    let mut write = request("x", 0);
    write.tools[0].name = "write".into();
    assert_eq!(said(&provider, &write), "by tool");
}

#[test]
fn every_kind_of_part() {
    use StreamEvent::*;
    let provider = scripted(
        r#"{"replies":[{"chunk":2,"parts":[
            {"reasoning":"hmm","signature":"s"},{"redacted":"x"},{"text":"äöü"},
            {"call":{"name":"read","input":{"a":1}}},{"call":{"id":"mine","name":"go","input":"{bad"}},
            {"call":{"name":"none"}}]}]}"#,
    );
    let request = request("x", 1);
    let events = play(&provider, &self::request("x", 0));
    let call = |id: &str, name: &str, input: Json| {
        ToolCall(leftfold_events::event::CallSpec { id: id.into(), name: name.into(), input })
    };
    let input = |id: &str, text: &str| ToolInputDelta { id: id.into(), text: text.into() };
    let id = |n: u64| n.to_string();
    assert_eq!(
        events[1..events.len() - 1],
        [
            ReasoningStart { id: id(0) },
            ReasoningDelta { id: id(0), text: "hm".into() },
            ReasoningDelta { id: id(0), text: "m".into() },
            ReasoningEnd { id: id(0), signature: Some("s".into()), redacted: false },
            ReasoningStart { id: id(1) },
            ReasoningEnd { id: id(1), signature: Some("x".into()), redacted: true },
            TextStart { id: id(2) },
            TextDelta { id: id(2), text: "äö".into() },
            TextDelta { id: id(2), text: "ü".into() },
            TextEnd { id: id(2) },
            ToolInputStart { id: "call_1_1".into(), name: "read".into() },
            input("call_1_1", "{\""),
            input("call_1_1", "a\""),
            input("call_1_1", ":1"),
            input("call_1_1", "}"),
            call("call_1_1", "read", Json::parse("{\"a\":1}").unwrap()),
            ToolInputStart { id: "mine".into(), name: "go".into() },
            input("mine", "{b"),
            input("mine", "ad"),
            call("mine", "go", Json::parse("\"{bad\"").unwrap()),
            ToolInputStart { id: "call_1_3".into(), name: "none".into() },
            call("call_1_3", "none", Json::object()),
        ]
    );
    let Some(Finish { finish, usage }) = events.last() else { panic!("{events:?}") };
    assert_eq!(*finish, leftfold_events::event::Finish::ToolCalls);
    assert!(usage.input > 50 && usage.output > 0 && usage.reasoning == 1, "{usage:?}");
    assert!(said(&provider, &request).starts_with('!'));
}

#[test]
fn finish_and_usage_can_be_given() {
    let provider = scripted(
        r#"{"replies":[{"parts":[{"text":"x"}],"finish":"length",
            "usage":{"input":1,"output":2,"reasoning":3,"cache_read":4,"cache_write":5}}]}"#,
    );
    let usage = Usage { input: 1, output: 2, reasoning: 3, cache_read: 4, cache_write: 5 };
    let expected = StreamEvent::Finish { finish: Finish::Length, usage };
    assert_eq!(play(&provider, &request("x", 0)).last(), Some(&expected));
}

#[test]
fn faults_are_played_once_each() {
    let provider = scripted(
        r#"{"replies":[{"parts":[{"text":"at last"}],"faults":[
            {"class":"overloaded","message":"busy","status":529,"retry_after":0},
            {"parts":[{"text":"half"}],"cut":true},
            {"class":"rate_limit","retryable":false}]}]}"#,
    );
    let request = request("x", 0);
    let first = play(&provider, &request);
    let expected = Failure {
        class: FailureClass::Overloaded,
        message: "busy".into(),
        status: Some(529),
        retryable: true,
        retry_after: Some(0),
    };
    assert_eq!(first.last(), Some(&StreamEvent::Failed(expected)));
    assert!(said(&provider, &request).starts_with("half!the connection was closed"));
    let third = play(&provider, &request);
    assert!(matches!(third.last(), Some(StreamEvent::Failed(f)) if !f.retryable));
    assert_eq!(said(&provider, &request), "at last");
    assert_eq!(said(&provider, &request), "at last");
}

#[test]
fn parts_can_fail_too() {
    let provider = scripted(
        r#"{"replies":[{"parts":[{"call":{"name":"read"}},{"fault":{"class":"auth","message":"no"}}]}]}"#,
    );
    let events = play(&provider, &request("x", 0));
    assert!(events.iter().any(|e| matches!(e, StreamEvent::ToolCall(_))));
    assert!(matches!(events.last(), Some(StreamEvent::Failed(f)) if f.class == FailureClass::Auth));
}

#[tokio::test(start_paused = true)]
async fn delays_and_stalls_take_their_time() {
    let mut config = config(
        r#"{"replies":[{"delay_ms":10,"chunk":1,"parts":[{"text":"abc"},{"delay_ms":500},{"stall":true}]}]}"#,
    );
    config.stall = Duration::from_secs(30);
    let provider = Scripted::new(config).unwrap();
    let began = tokio::time::Instant::now();
    let events: Vec<StreamEvent> = provider.stream(request("x", 0)).collect().await;
    assert!(began.elapsed() >= Duration::from_millis(30_530));
    let Some(StreamEvent::Failed(failure)) = events.last() else { panic!("{events:?}") };
    assert_eq!((failure.class, failure.retryable), (FailureClass::Stalled, true));
    assert!(failure.message.contains("30 s"), "{}", failure.message);
}

#[test]
fn bad_scripts_are_told_where_and_what() {
    for (script, parts) in [
        ("{", &["in the settings", "line 1 column 1"][..]),
        ("{}", &["`replies`"]),
        (r#"{"replies":[]}"#, &["at least one"]),
        ("{\"replies\":[{\n\"part\":[]}]}", &["`part`", "`parts`", "line 2"]),
        (r#"{"replies":[{"parts":[{"text":"a"},{}]}]}"#, &["replies[0].parts[1]", "found none"]),
        (r#"{"replies":[{"parts":[{"text":"a","cut":true}]}]}"#, &["text and cut"]),
        (r#"{"replies":[{"parts":[{"text":"a","signature":"s"}]}]}"#, &["`signature`"]),
        (r#"{"replies":[{"parts":[{"cut":true},{"text":"a"}]}]}"#, &["nothing may follow"]),
        (r#"{"replies":[{"faults":[{"parts":[{}]}]}]}"#, &["replies[0].faults[0].parts[0]"]),
        (r#"{"replies":[{"finish":"never"}]}"#, &["`never`", "`stop`"]),
        (r#"{"replies":[{"faults":[{"class":"x"}]}]}"#, &["`x`", "`overloaded`"]),
    ] {
        let error = error(script);
        for part in parts {
            assert!(error.contains(part), "{script}: {error}");
        }
    }
}

#[test]
fn scripts_are_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.json");
    let mut config = Config::new("demo", Wire::SCRIPTED);
    assert!(Scripted::new(config.clone()).unwrap_err().to_string().contains("options.script"));
    config.script = Some(ScriptSource::Path(path.clone()));
    let missing = Scripted::new(config.clone()).unwrap_err().to_string();
    assert!(missing.contains("s.json"), "{missing}");
    std::fs::write(&path, r#"{"replies":[{"parts":[{"text":"hi"}]}]}"#).unwrap();
    assert_eq!(said(&Scripted::new(config).unwrap(), &request("x", 0)), "hi");
}
