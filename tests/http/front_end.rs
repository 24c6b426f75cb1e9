//! `leftfold serve --web`: a front end's files, or another server.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use common::{Site, script};
use serde_json::json;

use crate::client::Served;

const PAGE: &str =
    "<!doctype html><script>start()</script><script src=\"/assets/app.js\"></script>";

fn site() -> Site {
    Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
}

#[test]
fn files_are_served_beside_the_api() {
    let site = site();
    let folder = site.file("web/index.html", PAGE).parent().unwrap().to_owned();
    site.file("web/assets/app.js", "start = () => {}");
    site.file("web/.secret", "hidden");
    site.file("outside.txt", "outside");
    std::os::unix::fs::symlink("../outside.txt", folder.join("link.txt")).unwrap();
    let server = Served::from_command(site.command(&[
        "serve",
        "--port",
        "0",
        "--web",
        folder.to_str().unwrap(),
    ]));
    let page = [("accept", "text/html,*/*")];
    for path in ["/", "/index.html", "/session/ses_x/view", "/L3Byb2plY3Q/session"] {
        let answer = server.request("GET", path, &page, None);
        assert_eq!((answer.status, answer.body.as_str()), (200, PAGE), "{path}");
        assert!(answer.headers.contains("content-type: text/html"), "{answer:?}");
        let policy =
            answer.headers.lines().find(|line| line.starts_with("content-security-policy"));
        let policy = policy.expect("pages have a policy");
        assert!(
            policy.contains("'sha256-") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("script-src 'self' 'unsafe-inline'"), "{policy}");
    }
    let script = server.get("/assets/app.js");
    assert_eq!((script.status, script.body.as_str()), (200, "start = () => {}"));
    assert!(script.headers.contains("content-type: text/javascript"), "{script:?}");
    assert!(script.headers.contains("x-content-type-options: nosniff"), "{script:?}");
    for path in [
        "/.secret", "/assets/../.secret", "/../outside.txt", "/%2e%2e/outside.txt",
        "/..%2foutside.txt", "/link.txt", "/assets/none.js", "/assets", "/%00",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.json().is_object());
    }
    // the API is where it was, and other methods are not the front end's
    assert_eq!(server.get("/global/health").ok()["healthy"], true);
    assert_eq!(server.request("POST", "/index.html", &page, None).status, 404);
    let foreign = server.request("GET", "/", &[("host", "evil.example")], None);
    assert_eq!(foreign.status, 403);
    server.end();
}

#[test]
fn unknown_requests_are_forwarded_without_credentials() {
    let site = site().env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let site = site.env("HTTP_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "*");
    let behind = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/app/", behind.local_addr().unwrap());
    let mut server = Served::from_command(site.command(&["serve", "--port", "0", "--web", &url]));
    let seen = std::thread::spawn(move || {
        let (stream, _) = behind.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let request: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nset-cookie: a=b\r\n\
            content-length: 4\r\nconnection: close\r\n\r\npage";
        (&stream).write_all(answer.as_bytes()).unwrap();
        request.join("\n").to_lowercase()
    });
    server.login = Some("Basic b3BlbmNvZGU6c2VjcmV0".to_owned());
    let headers = [("cookie", "c=d"), ("accept", "text/html")];
    let path = "/x/y?a=1&auth_token=b3BlbmNvZGU6c2VjcmV0&b=2";
    let answer = server.request("GET", path, &headers, None);
    assert_eq!((answer.status, answer.body.as_str()), (200, "page"), "{answer:?}");
    assert!(!answer.headers.contains("set-cookie"), "{answer:?}");
    let request = seen.join().unwrap();
    assert!(request.starts_with("get /app/x/y?a=1&b=2 http/1.1"), "{request}");
    assert!(request.contains("accept: text/html"), "{request}");
    for secret in ["cookie", "authorization", "b3blbmnvzgu6c2vjcmv0", "auth_token"] {
        assert!(!request.contains(secret), "{request}");
    }
    // nobody listens there any more
    let gone = server.get("/x");
    assert_eq!(gone.status, 502, "{gone:?}");
    assert!(gone.json()["data"]["message"].as_str().unwrap().contains("does not answer"));
    server.login = None;
    assert_eq!(server.get("/x").status, 401);
    server.end();
}

#[test]
fn a_front_end_that_is_none_is_refused() {
    let site = site();
    let empty = site.file("empty/x", "").parent().unwrap().display().to_string();
    for (web, says) in [
        ("/nothing/here", "No such file"),
        (empty.as_str(), "index.html"),
        ("http://user:password@host/", "without a login"),
    ] {
        let ran = site.run(&["serve", "--port", "0", "--web", web]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(says), "{web}: {ran:?}");
    }
}
