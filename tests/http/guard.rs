//! Bad requests, and clients that may not ask.

use common::{Site, says, script, skipped};
use serde_json::{Value, json};

use crate::client::Served;

fn site() -> Site {
    Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
}

#[test]
fn bad_requests_are_answered_with_json() {
    let site = site();
    let server = Served::start(&site);
    let session = server.session();
    let unknown = "ses_000000000000AAAAAAAAAAAAAA";
    let json_type = ("content-type", "application/json");
    let host = |name| ("host", name);
    for (method, path, headers, body, status) in [
        ("GET", "/nothing".to_owned(), vec![], "", 404),
        ("GET", "/session/../etc".to_owned(), vec![], "", 404),
        ("PUT", "/session".to_owned(), vec![], "", 404),
        ("GET", format!("/session/{unknown}"), vec![], "", 404),
        ("GET", "/session/x".to_owned(), vec![], "", 404),
        ("GET", format!("/session/{session}/message/msg_x"), vec![], "", 404),
        ("GET", "/session?directory=/nothing/here".to_owned(), vec![], "", 400),
        ("GET", "/session?directory=relative".to_owned(), vec![], "", 400),
        ("POST", "/session".to_owned(), vec![json_type], "{", 400),
        ("POST", "/session".to_owned(), vec![json_type], "[]", 400),
        ("POST", "/session".to_owned(), vec![json_type], r#"{"title":1}"#, 400),
        ("POST", "/session".to_owned(), vec![json_type], r#"{"title":"a"}x"#, 400),
        ("POST", "/session".to_owned(), vec![("content-type", "text/plain")], "{}", 415),
        ("POST", format!("/session/{session}/message"), vec![json_type], "{}", 400),
        (
            "POST",
            format!("/session/{session}/message"),
            vec![json_type],
            r#"{"parts":[{"type":"odd"}]}"#,
            400,
        ),
        (
            "POST",
            format!("/session/{session}/revert"),
            vec![json_type],
            r#"{"messageID":"msg_x"}"#,
            404,
        ),
        ("GET", "/file/content?path=../../../etc/passwd".to_owned(), vec![], "", 404),
        ("GET", "/file?path=/etc".to_owned(), vec![], "", 404),
        ("GET", "/session".to_owned(), vec![host("evil.example")], "", 403),
        ("GET", "/session".to_owned(), vec![("origin", "http://localhost:3000")], "", 403),
        ("POST", "/session".to_owned(), vec![("origin", "null"), json_type], "{}", 403),
        ("GET", "/session".to_owned(), vec![("sec-fetch-site", "cross-site")], "", 403),
    ] {
        let answer = server.request(method, &path, &headers, Some(body));
        assert_eq!(answer.status, status, "{method} {path} {headers:?} {body}: {answer:?}");
        assert!(answer.headers.contains("content-type: application/json"), "{answer:?}");
        assert!(answer.json().is_object(), "{answer:?}");
    }
    let own = format!("http://127.0.0.1:{}", server.port);
    let allowed = server.request("GET", "/session", &[("origin", &own)], None);
    assert_eq!(allowed.status, 200);
    assert!(
        allowed.headers.contains(&format!("access-control-allow-origin: {own}")),
        "{allowed:?}"
    );
    let preflight = server.request("OPTIONS", "/session", &[("origin", "tauri://localhost")], None);
    assert_eq!(preflight.status, 204);
    assert!(preflight.headers.contains("access-control-allow-methods"), "{preflight:?}");
    server.end();
}

#[test]
fn a_password_is_needed_where_others_can_come() {
    let site = site();
    let refused = site.run(&["serve", "--hostname", "0.0.0.0", "--port", "0"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("LEFTFOLD_SERVER_PASSWORD"), "{refused:?}");

    let site = site.env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let mut server =
        Served::from_command(site.command(&["serve", "--hostname", "0.0.0.0", "--port", "0"]));
    let answer = server.get("/session");
    assert_eq!(answer.status, 401);
    assert!(answer.headers.contains("www-authenticate: basic realm="), "{answer:?}");
    // opencode:secret
    assert_eq!(server.get("/session?auth_token=b3BlbmNvZGU6c2VjcmV0").status, 200);
    server.login = Some("Basic b3BlbmNvZGU6c2VjcmV0".to_owned());
    assert_eq!(server.get("/global/health").ok()["healthy"], true);
    server.end();
    // by the names that OpenCode has for them
    let site = self::site().env("OPENCODE_SERVER_PASSWORD", "secret");
    let site = site.env("OPENCODE_SERVER_USERNAME", "me");
    let mut server = Served::start(&site);
    for path in ["/session", "/doc", "/event", "/global/event", "/global/health", "/nothing"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    server.login = Some("Basic b3BlbmNvZGU6c2VjcmV0".to_owned());
    assert_eq!(server.get("/session").status, 401);
    // me:secret
    server.login = Some("Basic bWU6c2VjcmV0".to_owned());
    assert_eq!(server.get("/session").status, 200);
    server.end();
}

/// Without a password a command of a session must not use the server that runs it.
#[test]
fn a_command_of_a_session_gets_nothing() {
    let requests = "exec 3<>/dev/tcp/127.0.0.1/$(cat port) && \
        printf 'GET /session HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3";
    let replies = json!([
        { "parts": [{ "call": { "name": "bash", "input": { "command": requests } } }] },
        { "parts": [{ "text": "Done." }] },
    ]);
    let site = Site::scripted(&script(&replies))
        .setting("/permission", json!({ "*": "allow", "unreadable": "allow" }))
        .unsandboxed();
    let server = Served::start(&site);
    site.file("port", server.port.to_string());
    let session = server.session();
    server.prompt(&session, "go");
    let messages = server.get(&format!("/session/{session}/message")).ok().to_string();
    assert!(messages.contains("403 Forbidden") && !messages.contains("200 OK"), "{messages}");
    server.end();
}

/// Another user of the machine gets nothing either.
#[test]
fn another_user_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can become another user");
        return;
    }
    let site = site();
    let server = Served::start(&site);
    let line = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{}; printf 'GET /session HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
        server.port
    );
    let asked = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", &line])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(said.starts_with("HTTP/1.1 403"), "{said} {asked:?}");
    server.end();
}

/// No answer contains a key.
#[test]
fn keys_are_in_no_answer() {
    let key = "sk-ant-api03-canary-0123456789abcdefghijklmnopqrstuvwxyz";
    let site = Site::scripted(&script(json!([says("Hello.")])))
        .setting("/provider/other", json!({
            "wire": "anthropic",
            "options": { "apiKey": key, "baseURL": "http://127.0.0.1:9", "headers": { "x-secret": key } },
            "models": { "m": {} },
        }))
        .setting("/mcp", json!({ "s": { "type": "remote", "url": "http://127.0.0.1:9", "headers": { "Authorization": key } } }));
    let server = Served::start(&site);
    let session = server.session();
    server.prompt(&session, "go");
    for path in [
        "/config", "/global/config", "/config/providers", "/provider", "/agent", "/command",
        "/mcp", "/path", "/project", "/project/current", "/api/provider", "/session",
        "/session/status",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(!answer.body.contains("canary"), "{path}: {answer:?}");
        let _: Value = answer.json();
    }
    server.end();
}
