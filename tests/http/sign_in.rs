//! Signing in for a client that shows the page and the code, such as the web app.

use common::Site;
use common::authorization::{Authorization, Mood};
use common::guarded::{get, location};
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
    assert_eq!(connected(&served), json!(["ollama", "lmstudio"]));
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
