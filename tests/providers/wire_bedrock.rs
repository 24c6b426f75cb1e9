//! Turns over the wire of Amazon Bedrock against a server that checks signatures and splits bytes at the worst places.

use std::sync::Mutex;

use common::{Answer, Recorded, Server, Site, Split, end, only};
use leftfold_events::Sha256;
use leftfold_framing::eventstream;
use ring::hmac;
use serde_json::{Value, json};

const MODEL: &str = "anthropic.claude-sonnet-4-5-20250929-v1:0";
const ID: &str = "AKIDTESTEXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI+K7MDENG/bPxRfiCYTESTKEY";
const TOKEN: &str = "IQoJb3JpZ2luX2VjTESTTOKEN==";

fn event(name: &str, data: &Value) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    eventstream::message(&headers, data.to_string().as_bytes())
}

fn delta(index: usize, delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({ "contentBlockIndex": index, "delta": delta, "p": "abc" }))
}

/// A part of a reply.
pub(super) enum ReplyPart {
    Text(&'static str),
    Thought(&'static str, &'static str),
    Read(&'static str, &'static str),
}

/// A reply without its end.
fn begun(parts: &[ReplyPart]) -> Vec<u8> {
    let mut bytes = event("messageStart", &json!({ "role": "assistant" }));
    for (index, part) in parts.iter().enumerate() {
        match part {
            ReplyPart::Text(text) => bytes.extend(delta(index, &json!({ "text": text }))),
            ReplyPart::Thought(text, signature) => {
                for content in [json!({ "text": text }), json!({ "signature": signature })] {
                    bytes.extend(delta(index, &json!({ "reasoningContent": content })));
                }
            }
            ReplyPart::Read(id, path) => {
                let start = json!({ "toolUse": { "toolUseId": id, "name": "read" } });
                let start = json!({ "contentBlockIndex": index, "start": start });
                bytes.extend(event("contentBlockStart", &start));
                let input = json!({ "filePath": path }).to_string();
                for piece in ["", &input[..5], &input[5..]] {
                    bytes.extend(delta(index, &json!({ "toolUse": { "input": piece } })));
                }
            }
        }
        bytes.extend(event("contentBlockStop", &json!({ "contentBlockIndex": index })));
    }
    bytes
}

pub(super) fn reply(parts: &[ReplyPart]) -> Vec<u8> {
    let calls = parts.iter().any(|part| matches!(part, ReplyPart::Read(..)));
    let reason = if calls { "tool_use" } else { "end_turn" };
    let usage = json!({ "inputTokens": 7, "outputTokens": 5, "totalTokens": 16,
        "cacheReadInputTokens": 4, "cacheWriteInputTokens": 3 });
    let stop = event("messageStop", &json!({ "stopReason": reason }));
    [begun(parts), stop, event("metadata", &json!({ "usage": usage }))].concat()
}

pub(super) fn good(text: &'static str) -> Answer {
    Answer::Bytes(reply(&[ReplyPart::Text(text)]), Split::Whole)
}

pub(super) fn refused(status: u16, kind: &str, message: &str) -> Answer {
    let headers = vec![
        format!("x-amzn-errortype: {kind}:http://internal.amazon.com/coral/com.amazon.bedrock/"),
        "x-amzn-requestid: 0a1b2c3d".to_owned(),
        "content-type: application/json".to_owned(),
    ];
    Answer::Status(status, headers, json!({ "message": message }).to_string())
}

pub(super) fn header<'a>(request: &'a Recorded, name: &str) -> Option<&'a str> {
    let begin = format!("{name}: ");
    request.headers.iter().find_map(|header| header.strip_prefix(&begin))
}

/// The parts of a request's `authorization`: the key's id, the scope after it, the signed headers, the signature.
fn signature(request: &Recorded) -> Option<[&str; 4]> {
    let value = header(request, "authorization")?.strip_prefix("AWS4-HMAC-SHA256 Credential=")?;
    let (credential, value) = value.split_once(", SignedHeaders=")?;
    let (headers, signature) = value.split_once(", Signature=")?;
    let (id, scope) = credential.split_once('/')?;
    Some([id, scope, headers, signature])
}

/// Whether the request is signed with this secret, for this region, about now.
fn is_signed(request: &Recorded, secret: &str, region: &str) -> bool {
    is_signed_for("bedrock", request, secret, region)
}

pub(super) fn is_signed_for(service: &str, request: &Recorded, secret: &str, region: &str) -> bool {
    let Some([_, scope, signed, signature]) = signature(request) else { return false };
    let stamp = header(request, "x-amz-date").unwrap_or_default();
    let date = stamp.split('T').next().unwrap_or_default();
    let path = request.line.split(' ').nth(1).unwrap_or_default();
    let names: Vec<&str> = signed.split(';').collect();
    let needed =
        request.headers.iter().filter_map(|header| header.split_once(':')).all(|(name, _)| {
            names.contains(&name) || !(name == "host" || name.starts_with("x-amz-"))
        });
    let lines: String = names
        .iter()
        .map(|name| format!("{name}:{}\n", header(request, name).unwrap_or_default()))
        .collect();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    // every byte of the path that is not plain is encoded once more
    let path = path.replace('%', "%25");
    let canonical =
        format!("POST\n{path}\n{query}\n{lines}\n{signed}\n{}", Sha256::digest(&request.bytes));
    let hash = Sha256::digest(canonical.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hash}");
    let mut key = format!("AWS4{secret}").into_bytes();
    for step in [date, region, service, "aws4_request", &text] {
        let signer = hmac::Key::new(hmac::HMAC_SHA256, &key);
        key = hmac::sign(&signer, step.as_bytes()).as_ref().to_vec();
    }
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    needed && hex == signature && scope == format!("{date}/{region}/{service}/aws4_request")
}

/// Gives `answers` in their order to requests that are signed with [`SECRET`] for `region`.
fn serve(region: &'static str, answers: Vec<Answer>) -> Server {
    let answers = Mutex::new(answers.into_iter());
    Server::answering(move |request| {
        if is_signed(request, SECRET, region) {
            return answers.lock().unwrap().next().expect("an answer");
        }
        refused(
            403,
            "InvalidSignatureException",
            "The request signature we calculated does not match",
        )
    })
}

/// A site with Bedrock at `server`, and without keys.
pub(super) fn bare(server: &Server) -> Site {
    let limits = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    Site::bare()
        .setting("title", json!(false))
        .setting("retry", json!({ "attempts": 3 }))
        .setting("model", json!(format!("amazon-bedrock/{MODEL}")))
        .setting(
            "provider/amazon-bedrock",
            json!({
                "options": { "endpoint": format!("http://{}", server.address()) },
                "models": { MODEL: limits },
            }),
        )
}

fn site(server: &Server) -> Site {
    bare(server)
        .env("AWS_ACCESS_KEY_ID", ID)
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_SESSION_TOKEN", TOKEN)
        .env("AWS_REGION", "eu-central-1")
}

fn tool_turn(split: Split) -> (Site, Server, Vec<Value>) {
    let replies = [
        reply(&[
            ReplyPart::Thought("Zuerst lesen – 👀", "c2lnbmF0dXJl"),
            ReplyPart::Text("Ich lese: «ä€𝄞»."),
            ReplyPart::Read("tooluse_1", "größe.txt"),
            ReplyPart::Read("tooluse_2", "b.txt"),
        ]),
        reply(&[ReplyPart::Text("Fertig 🐘")]),
        reply(&[ReplyPart::Text("Gern.")]),
    ];
    let answers = replies.map(|reply| Answer::Bytes(reply, split)).into_iter().collect();
    let server = serve("eu-central-1", answers);
    let site = site(&server).setting(
        &format!("provider/amazon-bedrock/models/{MODEL}/options"),
        json!({ "reasoningConfig": { "type": "enabled", "budgetTokens": 2_000 } }),
    );
    site.file("größe.txt", "Sie ist klein 🐁.\n");
    site.file("b.txt", "b\n");
    let events = site.prompt("Mach sie größer").ok().events();
    (site, server, events)
}

#[test]
fn a_tool_turn_is_the_same_however_the_bytes_arrive() {
    for split in [Split::Whole, Split::Awkward, Split::EveryByte] {
        let (site, server, events) = tool_turn(split);
        let end = end(&events);
        assert_eq!((&end["text"], &end["steps"]), (&json!("Fertig 🐘"), &json!(2)), "{split:?}");
        let usage = &end["usage"];
        assert_eq!([&usage["input"], &usage["output"]], [&json!(14), &json!(10)]);
        assert_eq!([&usage["cache_read"], &usage["cache_write"]], [&json!(8), &json!(6)]);
        // 14, 10, 8 and 6 tokens at 3, 15, 0.3 and 3.75 dollars a million
        let cost = end["cost"].as_f64().unwrap();
        assert!((cost - 216.9e-6).abs() < 1e-9, "{cost}");
        assert_eq!(server.requests().len(), 2);
        site.assert_sound();
    }
}

#[test]
fn a_loop_has_its_marks_results_and_reasoning() {
    let (site, server, _) = tool_turn(Split::Whole);
    site.run(&["run", "--continue", "Danke"]).ok();
    for request in server.requests() {
        let line =
            "POST /model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream HTTP/1.1";
        assert_eq!(request.line, line);
        assert_eq!(header(&request, "accept"), Some("application/vnd.amazon.eventstream"));
        assert_eq!(header(&request, "x-amz-security-token"), Some(TOKEN));
        assert_eq!(request.body["inferenceConfig"], json!({ "maxTokens": 8_000 }));
        let fields = &request.body["additionalModelRequestFields"];
        assert_eq!(fields["thinking"], json!({ "type": "enabled", "budget_tokens": 2_000 }));
        let marks =
            request.body.to_string().matches(r#"{"cachePoint":{"type":"default"}}"#).count();
        assert!((2..=4).contains(&marks), "{marks}");
        assert_eq!(request.body["system"][1], json!({ "cachePoint": { "type": "default" } }));
    }
    let last = server.requests().pop().unwrap();
    let messages = last.body["messages"].as_array().unwrap();
    let thought = json!({ "text": "Zuerst lesen – 👀", "signature": "c2lnbmF0dXJl" });
    assert_eq!(
        messages[1]["content"][0],
        json!({ "reasoningContent": { "reasoningText": thought } })
    );
    assert_eq!(messages[1]["content"][2]["toolUse"]["toolUseId"], "tooluse_1");
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[0]["toolResult"]["content"].to_string().contains("klein"));
    assert_eq!(messages.len(), 5, "{messages:?}");
}

#[test]
fn what_passes_is_asked_for_again() {
    let throttled = eventstream::message(
        &[(":exception-type", "throttlingException"), (":message-type", "exception")],
        json!({ "message": "Too many tokens, please wait" }).to_string().as_bytes(),
    );
    let once = [ReplyPart::Text("Once upon")];
    let mut damaged = reply(&once);
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    for (answer, class) in [
        (refused(429, "ThrottlingException", "Too many requests"), "rate_limit"),
        (refused(503, "ServiceUnavailableException", "Bedrock is busy"), "overloaded"),
        (refused(424, "ModelErrorException", "The model failed"), "other"),
        (Answer::Bytes([begun(&once), throttled].concat(), Split::Whole), "rate_limit"),
        (Answer::Bytes(begun(&once), Split::Whole), "network"),
        (Answer::Bytes(damaged, Split::EveryByte), "network"),
    ] {
        let server = serve("eu-central-1", vec![answer, good("At last.")]);
        let events = site(&server).prompt("go").ok().events();
        assert_eq!(only(&events, "model.failed")["data"]["class"], class);
        assert_eq!(end(&events)["text"], "At last.");
    }
}

#[test]
fn what_does_not_pass_ends_the_turn() {
    for (answer, class, words) in [
        (refused(400, "ValidationException", "The model id is invalid"), "invalid", "model id"),
        (
            refused(403, "AccessDeniedException", "You don't have access"),
            "auth",
            "the model is enabled",
        ),
        (refused(403, "ExpiredTokenException", "The security token is expired"), "auth", "AWS"),
        (Answer::Status(200, vec![], "<html>".into()), "invalid", "an HTML page"),
    ] {
        let server = serve("eu-central-1", vec![answer, good("never")]);
        let events = site(&server).prompt("go").with(1).events();
        let failed = &only(&events, "model.failed")["data"];
        assert_eq!(failed["class"], class);
        assert!(failed["message"].as_str().unwrap().contains(words), "{failed}");
    }
}

#[test]
fn a_conversation_that_is_too_long_is_summed_up() {
    let too_long = "Input is too long for requested model.";
    let answers = vec![
        good("First answer."),
        refused(400, "ValidationException", too_long),
        good("The summary."),
        good("Second answer."),
    ];
    let server = serve("eu-central-1", answers);
    let site = site(&server);
    site.prompt("first").ok();
    let events = site.run(&["run", "--format", "json", "--continue", "second"]).ok().events();
    assert_eq!(only(&events, "model.failed")["data"]["class"], "overflow");
    assert_eq!(end(&events)["text"], "Second answer.");
    let last = server.requests().pop().unwrap().body["messages"].to_string();
    assert!(last.contains("The summary.") && !last.contains("First answer."), "{last}");
    site.assert_sound();
}

#[test]
fn a_key_of_bedrock_comes_before_all_other_keys() {
    let server = Server::start(vec![good("Hello.")]);
    let site = site(&server).env("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-0123456789");
    site.prompt("go").ok();
    let request = server.requests().pop().unwrap();
    assert_eq!(header(&request, "authorization"), Some("Bearer bedrock-api-key-0123456789"));
    assert_eq!(header(&request, "x-amz-date"), None);
}

#[test]
fn keys_and_region_come_from_a_profile() {
    let server = serve("us-west-2", vec![good("Hello.")]);
    let site = bare(&server).setting("provider/amazon-bedrock/options/profile", json!("dev"));
    let folder = site.path("user").join(".aws");
    std::fs::create_dir(&folder).unwrap();
    let keys = format!("[dev]\naws_access_key_id = {ID}\naws_secret_access_key = {SECRET}\n");
    std::fs::write(folder.join("credentials"), keys).unwrap();
    std::fs::write(folder.join("config"), "[profile dev]\nregion = us-west-2\n").unwrap();
    // keys in variables do not come before a profile in settings
    let site = site.env("AWS_ACCESS_KEY_ID", "other").env("AWS_SECRET_ACCESS_KEY", "other-secret");
    site.prompt("go").ok();
    let request = server.requests().pop().unwrap();
    assert!(request.line.contains("/model/us.anthropic."), "{}", request.line);
    let doctor = site.run(&["doctor"]).stdout;
    assert!(doctor.contains("amazon-bedrock: the profile `dev` in "), "{doctor}");
    assert!(doctor.contains("; region us-west-2"), "{doctor}");
}

#[test]
fn doctor_and_the_request_say_what_is_missing() {
    let server = Server::start(vec![]);
    let half = || bare(&server).env("AWS_REGION", "us-east-1").env("AWS_ACCESS_KEY_ID", ID);
    for (site, words) in [
        (
            half()
                .env("AWS_SECRET_ACCESS_KEY", SECRET)
                .env("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z"),
            "have expired at 2020-01-01T00:00:00.000Z",
        ),
        (half(), "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not"),
        (
            bare(&server).env("AWS_REGION", "us-east-1").env("AWS_PROFILE", "dev"),
            "the AWS profile `dev` is neither in",
        ),
        (
            bare(&server).env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET),
            "no AWS region: set `options.region`, AWS_REGION",
        ),
    ] {
        let doctor = site.run(&["doctor"]).stdout;
        assert!(doctor.contains(words), "{words}: {doctor}");
        let events = site.prompt("go").with(1).events();
        let failed = &only(&events, "model.failed")["data"];
        assert_eq!(failed["class"], "auth", "{failed}");
        assert!(failed["message"].as_str().unwrap().contains(words), "{failed}");
    }
    assert!(server.requests().is_empty());
}

/// The server repeats keys, and a command looks for them.
#[test]
fn keys_are_in_no_log_and_no_command() {
    let echo = format!("{ID} {SECRET} {TOKEN}");
    let call = {
        let start = json!({ "toolUse": { "toolUseId": "t", "name": "bash" } });
        let input =
            json!({ "command": "env | grep AWS; echo end", "description": "x" }).to_string();
        let usage = json!({ "usage": { "inputTokens": 1, "outputTokens": 1 } });
        [
            event("contentBlockStart", &json!({ "contentBlockIndex": 0, "start": start })),
            delta(0, &json!({ "toolUse": { "input": input } })),
            event("contentBlockStop", &json!({ "contentBlockIndex": 0 })),
            event("messageStop", &json!({ "stopReason": "tool_use" })),
            event("metadata", &usage),
        ]
        .concat()
    };
    let answers =
        vec![Answer::Bytes(call, Split::Whole), refused(400, "ValidationException", &echo)];
    let server = serve("eu-central-1", answers);
    let site = site(&server).setting("record", json!("wire"));
    let events = site.run(&["run", "--format", "json", "--yes", "go"]).with(1).events();
    let output = only(&events, "tool.finished")["data"]["output"].as_str().unwrap().to_owned();
    assert!(output.contains("end") && !output.contains("AWS_SECRET"), "{output}");
    assert!(only(&events, "model.failed")["data"]["message"].to_string().contains("hidden"));
    let mut rest = vec![site.path("home")];
    while let Some(folder) = rest.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                rest.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap();
            for secret in [ID, SECRET, TOKEN] {
                let is_there = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(!is_there, "{secret} in {}", path.display());
            }
        }
    }
}
