//! Signing in for a client that shows the page and the code, such as the web app.

use common::authorization::{Authorization, Mood};
use common::guarded::{get, location};
use common::plugin::{has_python, with_door};
use common::{Answer, Block, Recorded, Server, Site, Split, message};
use serde_json::{Value, json};

use super::client::Served;

fn site(server: &Authorization) -> Site {
    let off = json!(false);
    let site = Site::bare().setting("model", json!("openai/gpt-6.2-sol"));
    let site = site.setting("title", off.clone()).setting("summary", off);
    server.variables().into_iter().fold(site, |site, (name, value)| site.env(name, value))
}

fn connected(served: &Served) -> Value {
    served.get("/provider").ok()["connected"].clone()
}

#[test]
fn a_client_signs_in_with_a_browser_or_a_code() {
    let authorization = Authorization::start(Mood::Pending(1), 3_600);
    let site = site(&authorization);
    let served = Served::start(&site);
    let methods = served.get("/provider/auth").ok();
    let kinds = |provider: &str| -> Vec<Value> {
        let methods = methods[provider].as_array().unwrap().iter();
        methods.map(|method| method["type"].clone()).collect()
    };
    assert_eq!(kinds("openai"), ["oauth", "oauth", "api"]);
    assert_eq!(kinds("github-copilot"), ["oauth"]);
    assert_eq!(methods["github-copilot"][0]["prompts"][1]["key"], "enterpriseUrl");
    let begin = |provider: &str, method: usize| {
        served.post(&format!("/provider/{provider}/oauth/authorize"), json!({ "method": method }))
    };
    let end = |provider: &str| {
        served.post(&format!("/provider/{provider}/oauth/callback"), json!({ "method": 0 }))
    };
    // another beginning replaces the first, which no longer counts
    let first = begin("openai", 0).ok();
    let begun = begin("openai", 0).ok();
    assert_eq!(begun["method"], "auto");
    assert_ne!(first["url"], begun["url"]);
    assert_eq!(connected(&served), json!([]), "servers of this machine are not set up");
    // the person's browser goes to the page, and from there to this machine
    let back = location(&get(begun["url"].as_str().unwrap()));
    let stolen = back.replace("state=", "state=x");
    assert!(get(&stolen.replace("localhost", "127.0.0.1")).contains("not an answer"));
    assert!(get(&back.replace("localhost", "127.0.0.1")).contains("Leftfold continues"));
    assert_eq!(end("openai").ok(), json!(true));
    let coded = begin("github-copilot", 0).ok();
    assert_eq!(coded["instructions"], "Enter code: ABCD-5678");
    assert_eq!(end("github-copilot").ok(), json!(true));
    assert!(connected(&served).as_array().unwrap().contains(&json!("openai")));
    assert_eq!(authorization.faults(), [""; 0]);
    let session = served.session();
    served.prompt(&session, "go");
    // the answer and the session's title
    assert_eq!(authorization.requests().len(), 2);
    for (answered, says) in [
        (end("openai"), "authorize first"),
        (begin("openai", 2), "expected one that signs in"),
        (begin("anthropic", 0), "has no sign-in"),
    ] {
        assert!(answered.status == 400 && answered.body.contains(says), "{answered:?}");
    }
    authorization.set_mood(Mood::Denies);
    begin("github-copilot", 0).ok();
    let refused = end("github-copilot");
    assert!(refused.status == 400 && refused.body.contains("access_denied"), "{refused:?}");
    let told = served.get("/config/providers").body + &served.get("/provider").body;
    assert!(authorization.secrets().iter().all(|secret| !told.contains(secret)));
    served.end();
}

/// A client that has got tokens by itself hands them over.
#[test]
fn tokens_of_a_client_are_stored_like_those_of_a_sign_in() {
    let authorization = Authorization::start(Mood::Good, 3_600);
    let site = site(&authorization);
    let served = Served::start(&site);
    let json_type = [("content-type", "application/json")];
    let put = |provider: &str, body: &Value| {
        let path = format!("/auth/{provider}");
        served.request("PUT", &path, &json_type, Some(&body.to_string()))
    };
    let (access, refresh) = ("canary-access-0123456789", "canary-refresh-0123456789");
    let tokens = json!({ "type": "oauth", "access": access, "refresh": refresh, "expires": 0,
        "accountId": "account-0123" });
    let with = |name: &str, value: Value| {
        let mut tokens = tokens.clone();
        tokens[name] = value;
        tokens
    };
    let copilot = with("enterpriseUrl", json!("https://company.ghe.com/"));
    assert_eq!(put("openai", &tokens).ok(), json!(true));
    assert_eq!(put("github-copilot", &copilot).ok(), json!(true));
    let path = site.path("home/auth.json");
    let stored: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut expected = copilot.clone();
    expected["enterpriseUrl"] = json!("company.ghe.com");
    assert_eq!((&stored["openai"], &stored["github-copilot"]), (&tokens, &expected));
    let list = site.run(&["auth", "list"]).ok().stdout;
    assert!(list.contains("signed in with ChatGPT"), "{list}");
    for (provider, body) in [
        ("anthropic", &tokens),
        ("openai", &with("access", json!(""))),
        ("openai", &with("refresh", json!("two words canary"))),
        ("openai", &with("expires", json!(-1))),
        ("openai", &with("enterpriseUrl", json!("company.test"))),
        ("github-copilot", &with("enterpriseUrl", json!("http://evil.test"))),
        ("github-copilot", &with("enterpriseUrl", json!("a@evil.test/x"))),
        ("openai", &json!({ "type": "wellknown", "key": "K", "token": "canary" })),
    ] {
        let answer = put(provider, body);
        assert_eq!(answer.status, 400, "{provider} {body}: {answer:?}");
        assert!(!answer.body.contains("canary"), "{answer:?}");
    }
    served.end();
}

/// A plugin's sign-in waits for its code, or for the page.
#[test]
fn a_client_signs_in_with_a_plugin() {
    if !has_python() {
        return;
    }
    let answer = |_: &Recorded| Answer::Stream(message(&[Block::Text("Hello.")]), Split::Whole);
    let server = Server::answering(answer);
    let site = with_door(&server);
    let served = Served::start(&site);
    let methods = served.get("/provider/auth").ok()["acme"].clone();
    let kinds: Vec<&Value> = methods.as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(kinds, ["oauth", "oauth", "api", "api"]);
    assert_eq!(methods[0]["prompts"][0]["key"], "kind");
    let begin = |body: Value| served.post("/provider/acme/oauth/authorize", body);
    let end = |body: Value| served.post("/provider/acme/oauth/callback", body);
    let begun = begin(json!({ "method": 0, "inputs": { "kind": "person" } })).ok();
    let expected = json!({ "url": "https://acme.test/person", "method": "code", "instructions": "Look at the page" });
    assert_eq!(begun, expected);
    assert_eq!(begin(json!({ "method": 2 })).status, 400);
    for (code, told) in [(Value::Null, "expected the code"), (json!("no"), "the code is wrong")] {
        let refused = end(json!({ "method": 0, "code": code }));
        assert!(refused.status == 400 && refused.body.contains(told), "{refused:?}");
    }
    begin(json!({ "method": 0 })).ok();
    assert_eq!(end(json!({ "method": 0, "code": "right" })).ok(), json!(true));
    assert!(connected(&served).as_array().unwrap().contains(&json!("acme")));
    begin(json!({ "method": 1 })).ok();
    assert_eq!(end(json!({ "method": 1 })).ok(), json!(true));
    served.prompt(&served.session(), "go");
    let headers = &server.requests()[0].headers;
    let key = "x-api-key: canary-page-access-0123456789".to_owned();
    assert!(headers.contains(&key), "{headers:?}");
    served.end();
}
