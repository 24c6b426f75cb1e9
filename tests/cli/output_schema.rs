//! `run --output-schema`: the answer is JSON that fits a schema.

use common::{Site, all, bash, call, end, says, script};
use serde_json::{Value, json};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "size": { "$ref": "#/$defs/size" } },
        "required": ["name", "size"],
        "additionalProperties": false,
        "$defs": { "size": { "type": "integer", "minimum": 0 } },
    })
}

fn gives(answer: &Value) -> Value {
    call("StructuredOutput", answer.clone())
}

fn site(replies: &[Value]) -> Site {
    let site =
        Site::scripted(&script(json!(replies))).setting("/permission", json!({ "bash": "allow" }));
    site.file("schema.json", schema().to_string());
    site
}

#[test]
fn a_turn_ends_with_a_valid_answer_or_an_error_that_says_why_not() {
    let (good, bad) = (json!({ "name": "a", "size": 3 }), json!({ "name": "a", "size": -1 }));
    for (name, replies, requests, error) in [
        ("at first", vec![gives(&good)], 1, None),
        ("after another tool", vec![bash("true"), gives(&good)], 2, None),
        ("after an invalid one", vec![gives(&bad), gives(&good)], 2, None),
        ("after text", vec![says("3"), gives(&good)], 2, None),
        ("after both", vec![says("3"), gives(&bad), gives(&good)], 2, Some("/size")),
        ("never", vec![gives(&bad), gives(&bad), gives(&good)], 2, Some("/size")),
        ("only text", vec![says("3"), says("3"), gives(&good)], 2, Some("was text")),
    ] {
        let site = site(&replies);
        let schema = site.project().join("schema.json");
        let args = ["run", "--format", "json", "--output-schema", schema.to_str().unwrap(), "go"];
        let ran = site.run(&args).with(i32::from(error.is_some()));
        let events = ran.events();
        let asked = all(&events, "model.requested");
        let asked = asked.iter().filter(|event| event["data"]["purpose"] == "turn");
        assert_eq!(asked.count(), requests, "{name}");
        let end = end(&events);
        if let Some(error) = error {
            assert_eq!(end["reason"], "invalid_output", "{name}");
            assert!(end["error"].as_str().unwrap().contains(error), "{name}: {end}");
            assert_eq!(end["structured"], Value::Null, "{name}");
        } else {
            assert_eq!(
                (&end["reason"], &end["structured"]),
                (&json!("completed"), &good),
                "{name}"
            );
            assert_eq!(serde_json::from_str::<Value>(end["text"].as_str().unwrap()).unwrap(), good);
        }
        site.assert_sound();
    }
}

#[test]
fn text_output_is_only_the_answer() {
    let good = json!({ "name": "a", "size": 3 });
    let site = site(&[says("I think it is 3."), gives(&good), says("as text")]);
    let schema = site.project().join("schema.json");
    let ran = site.run(&["run", "--output-schema", schema.to_str().unwrap(), "go"]).with(0);
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), good, "{ran:?}");
    ran.saying(&[
        "[the answer does not have the form that was asked for: the model is asked again]",
    ]);
    // a later prompt without a schema is answered in text
    let ran = site.run(&["run", "--continue", "go on"]).with(0);
    assert!(ran.stdout.contains("as text"), "{ran:?}");
    site.assert_sound();
}

#[test]
fn the_last_step_can_give_the_answer() {
    let site = site(&[gives(&json!({ "name": "a", "size": 3 }))]);
    let schema = site.project().join("schema.json");
    let schema = schema.to_str().unwrap();
    site.run(&["run", "--max-steps", "1", "--output-schema", schema, "go"]).with(0);
    site.assert_sound();
}

#[test]
fn a_schema_that_cannot_be_checked_is_refused() {
    let site = site(&[says("never")]);
    for (schema, said) in [
        ("{", "EOF"),
        ("[]", "\"type\": \"object\""),
        (r#"{"type":"array"}"#, "\"type\": \"object\""),
        (r#"{"type":"object","properties":{"a":{"type":"objekt"}}}"#, "not valid"),
        (r#"{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}"#, "$ref"),
        (r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}"##, "not valid"),
    ] {
        let file = site.file("wrong.json", schema);
        let ran = site.run(&["run", "--output-schema", file.to_str().unwrap(), "go"]).with(2);
        assert!(ran.stderr.contains("--output-schema"), "{schema}: {ran:?}");
        assert!(ran.stderr.contains(said), "{schema}: {ran:?}");
    }
    site.run(&["run", "--output-schema", "/nowhere.json", "go"]).with(2);
}
