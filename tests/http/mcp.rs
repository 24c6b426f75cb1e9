//! MCP servers over the API: states, signing in, and servers that a client adds.

use common::guarded::{Guarded, LONG, get, location};
use common::{Site, call, says, script};
use serde_json::{Value, json};

use crate::client::{Answered, Served};

/// A site with the server `far`, where people sign in, and a model that makes these calls.
fn site(guarded: &Guarded, calls: &[(&str, Value)]) -> Site {
    let mut replies: Vec<Value> = calls.iter().map(|(name, input)| call(name, input)).collect();
    replies.push(says("So be it."));
    let site = Site::scripted(&script(json!(replies)));
    let far = json!({ "type": "remote", "url": guarded.url });
    site.setting("/mcp", json!({ "far": far, "near": { "command": ["true"], "enabled": false } }))
}

/// The address to which the page for consent leads a browser.
fn consented(page: &Value) -> String {
    location(&get(page.as_str().unwrap()))
}

fn code(address: &str) -> String {
    let query = address.split_once('?').unwrap().1;
    let pair = query.split('&').find_map(|pair| pair.strip_prefix("code="));
    pair.unwrap().to_owned()
}

fn remove(served: &Served, path: &str) -> Answered {
    served.request("DELETE", path, &[], None)
}

#[test]
fn a_client_signs_in_with_a_code_or_a_browser() {
    let guarded = Guarded::start(LONG);
    let site = site(&guarded, &[]);
    let served = Served::start(&site);
    let state = |name: &str| served.get("/mcp").ok()[name]["status"].clone();
    assert_eq!(state("far"), "pending");
    served.post("/mcp/far/connect", json!({})).ok();
    assert_eq!(state("far"), "needs_auth");
    // another beginning replaces the first
    let first = served.post("/mcp/far/auth", json!({})).ok();
    let begun = served.post("/mcp/far/auth", json!({})).ok();
    assert_ne!(first["oauthState"], begun["oauthState"]);
    let page = begun["authorizationUrl"].as_str().unwrap();
    assert!(page.contains(&format!("state={}", begun["oauthState"].as_str().unwrap())), "{page}");
    let to = consented(&begun["authorizationUrl"]);
    let ended = served.post("/mcp/far/auth/callback", json!({ "code": code(&to) })).ok();
    assert_eq!(ended, json!({ "status": "connected" }));
    assert_eq!(state("far"), "connected");
    assert!(site.path("home/mcp-auth.json").exists());
    assert_eq!(remove(&served, "/mcp/far/auth").ok(), json!({ "success": true }));
    let kept = std::fs::read_to_string(site.path("home/mcp-auth.json")).unwrap();
    assert_eq!(kept.trim(), "{}");
    // the page comes by the feed, and a browser of this machine comes back by itself
    let mut feed = served.feed_of_directory();
    let json_type = [("content-type", "application/json")];
    let waiting = served.send("POST", "/mcp/far/auth/authenticate", &json_type, None);
    let frame = feed.until(|frame| frame.kind == "mcp.browser.open.failed").pop().unwrap();
    assert_eq!(frame.properties["mcpName"], "far");
    assert!(get(&consented(&frame.properties["url"])).contains("Leftfold continues"));
    assert_eq!(Answered::read(waiting).ok(), json!({ "status": "connected" }));
    for (path, body, status, says) in [
        ("/mcp/nobody/auth", json!({}), 404, "McpServerNotFoundError"),
        ("/mcp/nobody/auth/authenticate", json!({}), 404, "McpServerNotFoundError"),
        ("/mcp/nobody/auth/callback", json!({ "code": "c" }), 404, "McpServerNotFoundError"),
        ("/mcp/near/auth", json!({}), 400, "has no sign-in"),
        ("/mcp/near/auth/callback", json!({ "code": "c" }), 400, "no sign-in was begun"),
        ("/mcp/far/auth/callback", json!({ "code": " " }), 400, "expected the code"),
        ("/mcp/far/auth/callback", json!({}), 400, "code"),
    ] {
        let answer = served.post(path, body.clone());
        assert!(answer.status == status && answer.body.contains(says), "{path} {body}: {answer:?}");
    }
    assert_eq!(remove(&served, "/mcp/nobody/auth").status, 404);
    served.end();
}

#[test]
fn a_client_adds_servers_on_other_machines_and_no_programs() {
    let guarded = Guarded::start(LONG);
    let calls = [
        ("added_echo", json!({ "text": "hello" })),
        ("bash", json!({ "command": "echo canary-of-the-client" })),
    ];
    let site = site(&guarded, &calls);
    site.run(&["mcp", "login", "far", "--consent", "follow"]).ok();
    let served = Served::start(&site);
    let add =
        |name: &str, config: Value| served.post("/mcp", json!({ "name": name, "config": config }));
    let program = site.project().join("program");
    let local = json!({ "type": "local", "command": ["touch", program] });
    let remote = json!({ "type": "remote", "url": guarded.url });
    for (name, config, says) in [
        ("added", local, "leftfold.json"),
        ("far", remote.clone(), "settings have an MCP server `far`"),
        ("", remote.clone(), "expected a name"),
        ("added", json!({ "type": "remote", "url": "file:///etc/passwd" }), "expected an address"),
        ("added", json!({ "type": "remote", "url": guarded.url, "cwd": "/" }), "cwd"),
        ("added", json!({ "type": "remote" }), "url"),
        ("added", json!({ "url": guarded.url }), "type"),
    ] {
        let answer = add(name, config.clone());
        assert!(answer.status == 400 && answer.body.contains(says), "{config}: {answer:?}");
    }
    assert!(!program.exists());
    let mut with_header = remote.clone();
    with_header["headers"] = json!({ "X-Key": "canary-of-the-client" });
    assert_eq!(add("added", with_header).ok()["added"], json!({ "status": "connected" }));
    let off = json!({ "type": "remote", "url": guarded.url, "enabled": false });
    assert_eq!(add("off", off).ok()["off"], json!({ "status": "disabled" }));
    let session = served.session();
    served.prompt(&session, "go");
    let told = served.get(&format!("/session/{session}/message")).body;
    assert!(told.contains("You said hello."), "{told}");
    // what a client sends to such a server is as secret as it is in settings
    assert!(told.contains("{{secret:") && !told.contains("canary"), "{told}");
    served.post("/mcp/added/disconnect", json!({})).ok();
    assert_eq!(served.get("/mcp").ok()["added"], json!({ "status": "disabled" }));
    assert!(served.get("/config").ok()["mcp"].get("added").is_none());
    served.end();
    // it is there until the node ends
    let served = Served::start(&site);
    assert!(served.get("/mcp").ok().get("added").is_none());
    served.end();
}
