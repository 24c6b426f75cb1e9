//! The table of routes: `/doc`, and the answer of every route.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::Duration;

use common::openapi::ApiAnswer;
use common::{Site, script};
use serde_json::{Value, json};

use crate::client::{Answered, DOCUMENT, Served};

/// The operations that `opencode attach`, `opencode run --attach`, the SDKs, the web app and remote
/// control of a terminal use.
const OPERATIONS: &str = "
    GET /global/event
    GET /event
    GET /config
    GET /config/providers
    GET /path
    GET /vcs
    GET /vcs/diff
    GET /vcs/status
    GET /pty/shells
    GET /pty
    POST /pty
    GET /pty/{ptyID}
    PUT /pty/{ptyID}
    DELETE /pty/{ptyID}
    POST /pty/{ptyID}/connect-token
    GET /pty/{ptyID}/connect
    GET /command
    GET /agent
    GET /project/current
    POST /question/{requestID}/reply
    POST /question/{requestID}/reject
    POST /permission/{requestID}/reply
    GET /provider
    GET /session
    POST /session
    GET /session/status
    GET /session/{sessionID}
    DELETE /session/{sessionID}
    PATCH /session/{sessionID}
    GET /session/{sessionID}/todo
    GET /session/{sessionID}/diff
    GET /session/{sessionID}/message
    POST /session/{sessionID}/message
    POST /session/{sessionID}/fork
    POST /session/{sessionID}/abort
    POST /session/{sessionID}/summarize
    POST /session/{sessionID}/command
    POST /session/{sessionID}/shell
    POST /session/{sessionID}/revert
    POST /session/{sessionID}/unrevert
    GET /api/fs/find
    POST /log
    GET /global/health
    PATCH /config
    GET /experimental/tool/ids
    GET /find
    GET /find/file
    GET /find/symbol
    GET /file
    GET /file/content
    GET /file/status
    POST /instance/dispose
    GET /lsp
    GET /formatter
    GET /mcp
    POST /project/git/init
    POST /mcp
    POST /mcp/{name}/auth
    DELETE /mcp/{name}/auth
    POST /mcp/{name}/auth/callback
    POST /mcp/{name}/auth/authenticate
    POST /mcp/{name}/connect
    POST /mcp/{name}/disconnect
    GET /project
    GET /question
    GET /permission
    GET /session/{sessionID}/children
    GET /session/{sessionID}/message/{messageID}
    DELETE /session/{sessionID}/message/{messageID}
    POST /session/{sessionID}/init
    POST /session/{sessionID}/prompt_async
    POST /session/{sessionID}/permissions/{permissionID}
    DELETE /session/{sessionID}/message/{messageID}/part/{partID}
    PATCH /session/{sessionID}/message/{messageID}/part/{partID}
    GET /experimental/capabilities
    GET /experimental/console
    GET /experimental/resource
    GET /project/{projectID}/directories
    GET /provider/auth
    GET /experimental/workspace
    GET /experimental/workspace/status
    GET /api/location
    GET /api/agent
    GET /api/model
    GET /api/provider
    GET /api/integration
    GET /api/command
    GET /api/skill
    GET /api/reference
    POST /provider/{providerID}/oauth/authorize
    POST /provider/{providerID}/oauth/callback
    PUT /auth/{providerID}
    DELETE /auth/{providerID}
    GET /global/config
    PATCH /global/config
    POST /global/dispose
    GET /experimental/tool
    GET /experimental/worktree
    GET /experimental/session
    GET /skill
    POST /tui/append-prompt
    POST /tui/open-help
    POST /tui/open-sessions
    POST /tui/open-themes
    POST /tui/open-models
    POST /tui/submit-prompt
    POST /tui/clear-prompt
    POST /tui/execute-command
    POST /tui/show-toast
    POST /tui/publish
    POST /tui/select-session
    GET /tui/control/next
    POST /tui/control/response
    GET /api/health
    GET /api/session
";

fn site() -> Site {
    Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
}

/// The operations of `/doc`: method, path and description.
fn documented(doc: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, methods) in doc["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    operations
}

#[test]
fn the_document_has_every_operation_of_the_clients() {
    let site = site();
    let server = Served::start(&site);
    let doc = server.get("/doc").ok();
    assert_eq!(doc["openapi"], "3.1.0");
    let known: BTreeMap<String, Value> = documented(&doc)
        .into_iter()
        .map(|(method, path, operation)| (format!("{method} {path}"), operation))
        .collect();
    for operation in OPERATIONS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        assert!(known.contains_key(operation), "{operation} is missing");
    }
    for (operation, documented) in &known {
        let own = documented["tags"] == json!(["leftfold"]);
        assert!(own || OPERATIONS.contains(operation.as_str()), "{operation} is not OpenCode's");
    }
    // queries and bodies come from the types of the handlers
    let session = &doc["paths"]["/session"];
    let named = |operation: &Value, name: &str| {
        operation["parameters"].as_array().unwrap().iter().any(|known| known["name"] == name)
    };
    assert!(named(&session["get"], "roots") && named(&session["get"], "directory"), "{session:#}");
    let body = &session["post"]["requestBody"]["content"]["application/json"]["schema"];
    let name = body["$ref"].as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
    let schema = &doc["components"]["schemas"][name];
    assert!(schema["properties"]["permission"].is_object(), "{schema:#}");
    let ids: std::collections::HashSet<&str> =
        known.values().map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), known.len(), "operations have names of their own");
    server.end();
}

/// Every route of the document is there, and answers with JSON as the document says, whatever the request
/// lacks.
#[test]
fn every_route_answers_with_json() {
    let site = site();
    let server = Served::start(&site);
    // the web app asks for it before the first session
    assert_eq!(server.get("/project").ok(), json!([server.get("/project/current").ok()]));
    let session = server.session();
    server.prompt(&session, "go");
    let doc = server.get("/doc").ok();
    for (method, path, _) in documented(&doc) {
        if path == "/tui/control/next" || path.ends_with("/event") || path.ends_with("/feed") {
            continue;
        }
        // the session itself is needed for the others
        let named = match method.as_str() {
            "DELETE" => path.replace("{sessionID}", "ses_x"),
            _ => path.replace("{sessionID}", &session),
        };
        let target: String = named
            .split('/')
            .map(|part| if part.starts_with('{') { "x_1" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let body = (method != "GET").then_some("{}");
        let answer =
            server.request(&method, &target, &[("content-type", "application/json")], body);
        assert!(!answer.body.contains("this server has no"), "{method} {target}: {answer:?}");
        if answer.status == 204 {
            continue;
        }
        assert!(
            answer.headers.contains("content-type: application/json"),
            "{method} {target}: {answer:?}"
        );
        let is_known = matches!(answer.status, 200 | 400 | 404 | 501);
        assert!(is_known, "{method} {target}: {answer:?}");
    }
    server.end();
}

/// Each request of these tests checks its answer against the document, and each frame of the feed.
#[test]
fn the_document_is_exact() {
    let fits = |method, path, status, body: Value| {
        let body = &body.to_string();
        DOCUMENT.check(ApiAnswer { method, path, status, is_json: true, body }).is_ok()
    };
    let todo = json!({ "content": "c", "status": "pending", "priority": "low" });
    let mut more = todo.clone();
    more["more"] = json!(1);
    let missing = json!({ "name": "NotFoundError", "data": { "message": "m" } });
    for (method, path, status, body, expected) in [
        ("GET", "/session/ses_x/todo?directory=/p", 200, json!([todo]), true),
        ("GET", "/session/ses_x/todo", 200, json!([more]), false),
        ("GET", "/session/ses_x/todo", 200, json!([{ "content": "c" }]), false),
        ("GET", "/session/ses_x/todo", 200, json!({}), false),
        ("GET", "/session/ses_x/todo", 404, missing.clone(), true),
        ("GET", "/session/ses_x/todo", 404, json!({ "name": "Other" }), false),
        ("GET", "/session/ses_x/todo", 409, missing.clone(), false),
        ("GET", "/session/ses_x/todo", 500, json!({}), false),
        ("GET", "/session/status", 200, json!({ "ses_x": { "type": "busy" } }), true),
        ("GET", "/session/status", 200, json!({ "ses_x": { "type": "tired" } }), false),
        ("GET", "/nothing", 200, json!({}), true),
    ] {
        let shown = format!("{method} {path} {status} {body}");
        assert_eq!(fits(method, path, status, body), expected, "{shown}");
    }
    let frame = |kind: &str, properties: Value| json!({ "id": "evt_1", "type": kind, "properties": properties });
    let idle = frame("session.idle", json!({ "sessionID": "ses_x" }));
    for (data, expected) in [
        (json!({ "directory": "/p", "project": "x", "payload": idle }), true),
        (json!({ "payload": frame("session.idle", json!({})) }), false),
        (frame("session.idle", json!({ "sessionID": "ses_x", "more": 1 })), false),
        (frame("session.tired", json!({})), false),
        (idle, true),
    ] {
        assert_eq!(DOCUMENT.check_frame(&data).is_ok(), expected, "{data}");
    }
}

/// Other paths and other methods are answered with 404 and JSON, whatever a browser would accept.
#[test]
fn other_paths_are_not_found() {
    let site = site();
    let server = Served::start(&site);
    for (method, path) in [
        ("GET", "/index.html"),
        ("GET", "/assets/app.js"),
        ("GET", "/pty/pty_x/other"),
        ("POST", "/session/ses_x/share"),
        ("PUT", "/config"),
        ("DELETE", "/session"),
        ("PATCH", "/api/session"),
        ("TRACE", "/session"),
        ("GET", "//session"),
        ("GET", "/session/"),
        ("GET", "/SESSION"),
        ("GET", "/api/nothing"),
    ] {
        let answer = server.request(method, path, &[("accept", "text/html")], None);
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        assert!(answer.headers.contains("content-type: application/json"), "{answer:?}");
        assert_eq!(answer.json()["name"], "NotFoundError", "{method} {path}");
    }
    server.end();
}

/// Controls reach terminals as frames, and those that ask for them one by one.
#[test]
fn terminals_are_controlled_over_the_feed() {
    let site = site();
    let server = Served::start(&site);
    let session = server.session();
    let mut feed = server.feed(None);
    feed.until(|frame| frame.kind == "session.status");
    for (path, body, kind, properties) in [
        ("append-prompt", json!({ "text": "hi" }), "tui.prompt.append", json!({ "text": "hi" })),
        ("submit-prompt", json!({}), "tui.command.execute", json!({ "command": "prompt.submit" })),
        ("clear-prompt", json!({}), "tui.command.execute", json!({ "command": "prompt.clear" })),
        ("open-help", json!({}), "tui.command.execute", json!({ "command": "help.show" })),
        ("open-sessions", json!({}), "tui.command.execute", json!({ "command": "session.list" })),
        ("open-themes", json!({}), "tui.command.execute", json!({ "command": "theme.switch" })),
        ("open-models", json!({}), "tui.command.execute", json!({ "command": "model.list" })),
        (
            "execute-command",
            json!({ "command": "agent_cycle" }),
            "tui.command.execute",
            json!({ "command": "agent.cycle" }),
        ),
        (
            "show-toast",
            json!({ "message": "m", "variant": "info" }),
            "tui.toast.show",
            json!({ "message": "m", "variant": "info" }),
        ),
        (
            "select-session",
            json!({ "sessionID": session }),
            "tui.session.select",
            json!({ "sessionID": session }),
        ),
        (
            "publish",
            json!({ "type": "tui.prompt.append", "properties": { "text": "x" } }),
            "tui.prompt.append",
            json!({ "text": "x" }),
        ),
    ] {
        assert_eq!(server.post(&format!("/tui/{path}"), body).ok(), json!(true));
        let frame = feed.until(|frame| frame.kind.starts_with("tui.")).pop().unwrap();
        assert_eq!((frame.kind.as_str(), &frame.properties), (kind, &properties), "{path}");
    }
    for (path, body, status) in [
        ("show-toast", json!({ "message": "m", "variant": "loud" }), 400),
        ("append-prompt", json!({}), 400),
        ("publish", json!({ "type": "server.connected", "properties": {} }), 400),
        ("select-session", json!({ "sessionID": "ses_x" }), 404),
    ] {
        assert_eq!(server.post(&format!("/tui/{path}"), body).status, status, "{path}");
    }
    let mut waiting = server.send("GET", "/tui/control/next", &[], None);
    waiting.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    while waiting.fill_buf().is_err() {
        server.post("/tui/append-prompt", json!({ "text": "one" })).ok();
    }
    let next = Answered::read(waiting).ok();
    assert_eq!(next, json!({ "path": "/tui/append-prompt", "body": { "text": "one" } }));
    assert_eq!(server.post("/tui/control/response", json!({ "ok": 1 })).ok(), json!(true));
    server.end();
}

/// The model and the agent of new sessions can be changed; other settings are in files.
#[test]
fn settings_that_can_change_do() {
    let site = site();
    let server = Served::start(&site);
    let json_type = [("content-type", "application/json")];
    let patch = |path: &str, body: Value| {
        server.request("PATCH", path, &json_type, Some(&body.to_string()))
    };
    let shown = server.get("/config").ok();
    assert_eq!(patch("/config", shown.clone()).ok(), shown, "nothing changes");
    let changed = patch("/global/config", json!({ "default_agent": "plan" })).ok();
    assert_eq!(changed["default_agent"], "plan");
    assert_eq!(server.get("/config").ok()["default_agent"], "plan");
    assert_eq!(server.post("/session", json!({})).ok()["agent"], "plan");
    assert_eq!(server.post("/session", json!({ "agent": "build" })).ok()["agent"], "build");
    for (body, says) in [
        (json!({ "permission": { "bash": "allow" } }), "leftfold.json"),
        (json!({ "default_agent": "nobody" }), "no agent"),
        (json!({ "model": "nothing/here" }), "nothing"),
        (json!({ "model": 1 }), "leftfold.json"),
    ] {
        let answer = patch("/config", body.clone());
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.body.contains(says), "{body}: {answer:?}");
    }
    server.end();
}

/// Clients get the settings in effect, OpenCode's look included, and no secret.
#[test]
fn settings_are_shown_without_secrets() {
    let canary = |name: &str| format!("canary-{name}-0123456789");
    let site = site()
        .env("SITE_KEY", canary("variable"))
        .setting("/theme", json!("gruvbox"))
        .setting("/keybinds", json!({ "leader": "ctrl+g", "session_new": "<leader>n" }))
        .setting("/username", json!("grace"))
        .setting("/permission", json!({ "bash": { "*": "ask", "git *": "allow" }, "edit": "deny" }))
        .setting("/agent", json!({ "reader": { "prompt": "Read.", "tools": { "edit": false } } }))
        .setting("/secrets", json!({ "DEPLOY": canary("secret") }))
        .setting("/plugin", json!(["a-package@1", ["plugin-program", "--key", canary("plugin")]]))
        .setting("/provider/keyed", json!({
            "wire": "openai-chat",
            "options": { "baseURL": format!("https://me:{}@host/v1", canary("user")), "apiKey": canary("key") },
        }))
        .setting("/mcp", json!({
            "near": { "command": ["server", "--token", canary("flag")], "enabled": false,
                "environment": { "A": canary("environment") } },
            "far": { "url": format!("https://host/mcp?api_key={}", canary("query")), "enabled": false,
                "headers": { "X-Any": canary("header"), "X-Key": "{env:SITE_KEY}" } },
        }));
    let stranger = json!({ "theme": "nord", "model": "evil/m", "mcp": { "evil": { "command": ["evil"] } },
        "permission": { "webfetch": "allow" } });
    site.file_of_stranger("opencode.json", stranger.to_string());
    let server = Served::start(&site);
    let answer = server.get("/config");
    let shown = answer.ok();
    assert!(!answer.body.contains("canary") && !answer.body.contains("evil"), "{shown:#}");
    for (pointer, expected) in [
        ("/theme", json!("gruvbox")),
        ("/keybinds/session_new", json!("<leader>n")),
        ("/username", json!("grace")),
        ("/model", json!("double/m")),
        ("/default_agent", json!("build")),
        ("/snapshot", json!(false)),
        ("/compaction/auto", json!(true)),
        (
            "/permission",
            json!({ "bash": { "*": "ask", "git *": "allow" }, "edit": { "*": "deny" } }),
        ),
        ("/agent/reader", json!({ "prompt": "Read.", "permission": { "edit": { "*": "deny" } } })),
        ("/plugin", json!(["a-package@1", "plugin-program"])),
        ("/provider/keyed/options", json!({ "baseURL": "https://***@host/v1", "apiKey": "***" })),
        (
            "/mcp/near",
            json!({ "command": ["server", "--token", "***"], "enabled": false,
            "environment": { "A": "***" }, "type": "local" }),
        ),
        ("/mcp/far/url", json!("https://host/mcp?api_key=***")),
        ("/mcp/far/headers", json!({ "X-Any": "***", "X-Key": "***" })),
    ] {
        assert_eq!(shown.pointer(pointer), Some(&expected), "{pointer}: {shown:#}");
    }
    site.trust(&site.project());
    let trusted = server.get("/config").ok();
    assert_eq!(trusted["permission"]["webfetch"], json!({ "*": "allow" }), "{trusted:#}");
    assert_eq!(trusted["mcp"]["evil"]["type"], "local", "{trusted:#}");
    server.end();
}

/// Agents have their options, without secrets. Servers of this machine that are not set up are no providers.
#[test]
fn agents_and_providers_are_listed_as_they_are_set_up() {
    let options = json!({ "effort": "low", "apiKey": "canary", "thinking": { "budget": 7 } });
    let helper = json!({ "prompt": "p", "options": options, "seed": "{env:SEED}" });
    let site = site().env("SEED", "canary").setting("/agent/helper", helper);
    let agents = site.path("config/leftfold/agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("writer.md"), "---\nverbosity: high\n---\nYou write.\n").unwrap();
    let server = Served::start(&site);
    let answer = server.get("/agent");
    let agents = answer.ok();
    let options = |name: &str| {
        let known = agents.as_array().unwrap().iter().find(|agent| agent["name"] == name);
        known.unwrap()["options"].clone()
    };
    let expected = json!({ "effort": "low", "apiKey": "***", "thinking": { "budget": 7 }, "seed": "{env:SEED}" });
    assert_eq!(options("helper"), expected);
    assert_eq!(options("writer"), json!({ "verbosity": "high" }));
    assert_eq!(options("build"), json!({}));
    assert!(!answer.body.contains("canary"), "{answer:?}");
    let listed = server.get("/provider").ok();
    assert_eq!(listed["connected"], json!(["double"]), "{listed}");
    assert_eq!(server.get("/config/providers").ok()["providers"], listed["all"]);
    server.end();
    let site = site.env("OLLAMA_BASE_URL", "http://127.0.0.1:9/v1");
    let site = site.setting("/provider/ollama/models/small", json!({}));
    let server = Served::start(&site);
    assert_eq!(server.get("/provider").ok()["connected"], json!(["ollama", "double"]));
    server.end();
}

/// Keys go where `leftfold auth` keeps them, and come back in no answer.
#[test]
fn keys_are_stored_and_removed() {
    let site = site();
    let server = Served::start(&site);
    let json_type = [("content-type", "application/json")];
    let put =
        |path: &str, body: Value| server.request("PUT", path, &json_type, Some(&body.to_string()));
    let key = "sk-canary-0123456789";
    assert_eq!(put("/auth/anthropic", json!({ "type": "api", "key": key })).ok(), json!(true));
    assert!(site.run(&["auth", "list"]).stdout.contains("leftfold auth login"));
    for (path, body, status) in [
        ("/auth/nobody", json!({ "type": "api", "key": key }), 404),
        ("/auth/..%2f..", json!({ "type": "api", "key": key }), 404),
        ("/auth/anthropic", json!({ "type": "api", "key": "" }), 400),
        ("/auth/anthropic", json!({ "type": "api", "key": "two words" }), 400),
        ("/auth/anthropic", json!({ "type": "api" }), 400),
        (
            "/auth/anthropic",
            json!({ "type": "oauth", "access": key, "refresh": key, "expires": 1 }),
            400,
        ),
    ] {
        let answer = put(path, body.clone());
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
        assert!(!answer.body.contains("canary"), "{answer:?}");
    }
    let removed = server.request("DELETE", "/auth/anthropic", &[], None);
    assert_eq!(removed.ok(), json!(true));
    assert!(!site.run(&["auth", "list"]).stdout.contains("leftfold auth login"));
    server.end();
}

/// Lists of all directories, in pages.
#[test]
fn sessions_of_all_directories_are_listed_in_pages() {
    let site = site();
    site.file("other/x", "");
    let server = Served::start(&site);
    let other = format!("/session?directory={}", site.project().join("other").display());
    let mut made = vec![server.session()];
    made.push(server.post(&other, json!({})).ok()["id"].as_str().unwrap().to_owned());
    made.push(server.session());
    let mut seen = Vec::new();
    let mut path = "/api/session?limit=2&order=asc".to_owned();
    loop {
        let page = server.get(&path).ok();
        for session in page["data"].as_array().unwrap() {
            assert!(session["location"]["directory"].is_string(), "{session}");
            assert!(session["tokens"]["cache"]["read"].is_number(), "{session}");
            seen.push(session["id"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = page["cursor"]["next"].as_str() else { break };
        path = format!("/api/session?limit=2&order=asc&cursor={cursor}");
    }
    seen.sort();
    made.sort();
    assert_eq!(seen, made);
    let all = server.get("/experimental/session?roots=true").ok();
    assert_eq!(all.as_array().unwrap().len(), 3);
    assert!(all[0]["project"]["id"].is_string(), "{all}");
    let tools = server.get("/experimental/tool?provider=anthropic&model=claude-sonnet-4-5").ok();
    assert!(tools.to_string().contains("\"bash\""), "{tools}");
    server.end();
}

/// The web app shows changes of a repository alone, and offers to make one.
#[test]
fn a_directory_becomes_a_repository() {
    let site = site();
    let server = Served::start(&site);
    let before = server.get("/project/current").ok();
    assert_eq!(before["vcs"], Value::Null, "{before}");
    for _ in 0..2 {
        let made = server.post("/project/git/init", json!({})).ok();
        assert_eq!((&made["vcs"], &made["worktree"]), (&json!("git"), &before["worktree"]));
        assert_eq!(server.get("/project/current").ok(), made);
    }
    assert!(site.project().join(".git/HEAD").is_file());
    server.end();
}

/// Messages stay in the log: removal of one is refused, and says why.
#[test]
fn messages_and_parts_are_not_removed() {
    let site = site();
    let server = Served::start(&site);
    let session = server.session();
    server.prompt(&session, "go");
    let messages = server.get(&format!("/session/{session}/message")).ok();
    let message = messages[0]["info"]["id"].as_str().unwrap();
    let part = messages[0]["parts"][0]["id"].as_str().unwrap();
    let path = format!("/session/{session}/message/{message}");
    let json_type = [("content-type", "application/json")];
    for (method, path, status) in [
        ("DELETE", path.clone(), 501),
        ("DELETE", format!("/session/{session}/message/msg_x"), 404),
        ("DELETE", format!("{path}/part/{part}"), 501),
        ("PATCH", format!("{path}/part/{part}"), 501),
        ("PATCH", format!("{path}/part/prt_x"), 404),
    ] {
        let answer = server.request(method, &path, &json_type, None);
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.json()["data"]["message"].is_string(), "{answer:?}");
    }
    assert_eq!(server.get(&format!("/session/{session}/message")).ok(), messages);
    server.end();
}
