//! Requests never use a capability that settings deny a model.

use common::{Answer, Block, Server, Site, Split, message};
use serde_json::{Value, json};

const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\n\
data: [DONE]\n\n";

/// A minimal image.
const PICTURE: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

/// The bodies of a prompt with an image, by an agent with a temperature, and of its title request,
/// for a model with the settings `model`.
fn bodies(model: &Value) -> Vec<Value> {
    let answers = (0..2).map(|_| Answer::Stream(ANSWER.to_owned(), Split::Whole)).collect();
    let server = Server::start(answers);
    let site = Site::served(&server)
        .setting("title", true.into())
        .setting("provider/local/wire", "openai-chat".into())
        .setting("provider/local/models/m", model.clone())
        .setting("agent", json!({ "build": { "temperature": 0.2, "top_p": 0.9 } }));
    site.file("dot.png", PICTURE);
    site.run(&["run", "--file", "dot.png", "Look"]).ok();
    site.assert_sound();
    server.requests().into_iter().map(|request| request.body).collect()
}

#[test]
fn a_model_that_is_not_known_is_asked_for_everything() {
    let bodies = bodies(&json!({}));
    let turn = bodies.iter().find(|body| body.get("tools").is_some()).unwrap();
    assert_eq!((&turn["temperature"], &turn["top_p"]), (&json!(0.2), &json!(0.9)));
    assert!(turn.to_string().contains("data:image/png;base64,"), "{turn}");
    let title = bodies.iter().find(|body| body.get("tools").is_none()).unwrap();
    assert_eq!(title["temperature"], 0.5);
}

/// The types of Anthropic's API have no sampling options any more, and newer models refuse them.
#[test]
fn an_unknown_model_on_anthropics_wire_gets_a_temperature_only_from_settings() {
    for (model, agent, title) in [
        (json!({}), Value::Null, Value::Null),
        (json!({ "options": { "temperature": 0.7 } }), json!(0.7), Value::Null),
        (json!({ "temperature": true }), json!(0.2), json!(0.5)),
    ] {
        let answers = (0..2).map(|_| Answer::Stream(message(&[Block::Text("Hi")]), Split::Whole));
        let server = Server::start(answers.collect());
        let site = Site::served(&server)
            .setting("title", true.into())
            .setting("provider/local/models/m", model.clone())
            .setting("agent", json!({ "build": { "temperature": 0.2 } }));
        site.prompt("go").ok();
        let bodies: Vec<Value> =
            server.requests().into_iter().map(|request| request.body).collect();
        let temperature = |has_tools: bool| {
            let body = bodies.iter().find(|body| body.get("tools").is_some() == has_tools).unwrap();
            body["temperature"].clone()
        };
        assert_eq!((temperature(true), temperature(false)), (agent, title), "{model}");
    }
}

#[test]
fn what_settings_deny_a_model_is_in_no_request() {
    let can_not = json!({ "temperature": false, "attachment": false, "tool_call": false });
    let bodies = bodies(&can_not);
    assert_eq!(bodies.len(), 2);
    for body in &bodies {
        for member in ["temperature", "top_p", "tools", "tool_choice"] {
            assert_eq!(body.get(member), None, "{member}");
        }
        assert!(!body.to_string().contains("image_url"), "{body}");
    }
    let told = |body: &Value| body.to_string().contains("image/png dot.png was attached here");
    assert!(bodies.iter().any(told), "{bodies:?}");
}

#[test]
fn a_model_that_does_not_reason_has_no_variants_but_its_own() {
    let site = Site::bare().env("OPENAI_API_KEY", "sk-test-0123456789").setting(
        "provider",
        json!({ "openai": { "models": { "gpt-5.1": {
            "reasoning": false, "variants": { "calm": {} } } } } }),
    );
    let models = site.run(&["models", "openai", "--format", "json"]).ok().stdout;
    let mut lines = models.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let model = lines.find(|model| model["id"] == "gpt-5.1").unwrap();
    assert_eq!((&model["reasoning"], &model["variants"]), (&json!(false), &json!(["calm"])));
    site.run(&["run", "--model", "openai/gpt-5.1", "--variant", "high", "go"])
        .with(2)
        .saying(&["no variant `high`", "calm"]);
}
