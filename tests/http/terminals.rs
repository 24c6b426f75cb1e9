//! Terminals over WebSockets: their output, limits and end, and the tickets that open them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use common::{STEP_TIMEOUT, Site, script};
use serde_json::{Value, json};

use crate::client::Served;

const JSON: (&str, &str) = ("content-type", "application/json");
const TICKET: (&str, &str) = ("x-opencode-ticket", "1");

fn site() -> Site {
    Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])))
}

/// A WebSocket of a client.
struct Socket {
    stream: TcpStream,
    /// All output.
    seen: String,
    /// The cursors that the server has sent.
    cursors: Vec<u64>,
}

impl Socket {
    /// The status, and the socket if it is 101.
    fn open(server: &Served, path: &str, headers: &[(&str, &str)]) -> (u16, Option<Self>) {
        let mut stream = server.connect();
        let mut request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            server.port
        );
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let status = std::str::from_utf8(&head[9..12]).unwrap().parse().unwrap();
        let socket = Self { stream, seen: String::new(), cursors: Vec::new() };
        (status, (status == 101).then_some(socket))
    }

    fn to(server: &Served, id: &str, query: &str) -> Self {
        Self::open(server, &format!("/pty/{id}/connect{query}"), &[]).1.unwrap()
    }

    /// Sends a short text, masked as clients have to.
    fn send(&mut self, text: &str) {
        let length = u8::try_from(text.len()).unwrap();
        assert!(length < 126);
        let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
        frame.extend(text.as_bytes());
        self.stream.write_all(&frame).unwrap();
    }

    /// Reads a frame. `false`: the server has closed the socket.
    fn read(&mut self) -> bool {
        let mut head = [0; 2];
        if self.stream.read_exact(&mut head).is_err() || head[0] & 0xf == 8 {
            return false;
        }
        let extra = match head[1] {
            126 => 2,
            127 => 8,
            length => usize::from(length) << 8,
        };
        let length = if extra == 2 || extra == 8 {
            let mut bytes = vec![0; extra];
            self.stream.read_exact(&mut bytes).unwrap();
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        } else {
            extra >> 8
        };
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).unwrap();
        if let Some(control) = bytes.strip_prefix(b"\0") {
            let control: Value = serde_json::from_slice(control).unwrap();
            self.cursors.push(control["cursor"].as_u64().unwrap());
        } else {
            self.seen += std::str::from_utf8(&bytes).unwrap();
        }
        true
    }

    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.read(), "{:?} has no {text:?}", self.seen);
        }
    }
}

fn create(server: &Served, body: Value) -> String {
    let made = server.post("/pty", body).ok();
    assert_eq!(made["status"], "running");
    made["id"].as_str().unwrap().to_owned()
}

/// A shell that runs a line.
fn running(server: &Served, line: &str) -> String {
    create(server, json!({ "command": "/bin/sh", "args": ["-c", line] }))
}

/// The PID that a shell has printed as `pid=PID;`.
fn pid(socket: &mut Socket) -> String {
    socket.until(";");
    socket.seen.split_once("pid=").unwrap().1.split(';').next().unwrap().to_owned()
}

fn wait_for_end(pid: &str) {
    let start = Instant::now();
    while Path::new("/proc").join(pid).exists() {
        assert!(start.elapsed() < STEP_TIMEOUT, "{pid} still runs");
        std::thread::yield_now();
    }
}

#[test]
fn a_shell_is_used_by_several_clients() {
    let site = site();
    let server = Served::start(&site);
    let mut feed = server.feed(None);
    let body =
        json!({ "command": "/bin/sh", "args": ["-i"], "env": { "MINE": "own" }, "title": "one" });
    let id = create(&server, body);
    let made = feed.until(|frame| frame.kind == "pty.created").pop().unwrap();
    assert_eq!(
        (&made.properties["info"]["id"], &made.properties["info"]["title"]),
        (&json!(id), &json!("one"))
    );
    assert_eq!(server.get("/pty").ok()[0]["id"], json!(id));

    let mut first = Socket::to(&server, &id, "");
    first.send("echo pty-$((1+1)) $MINE\n");
    first.until("pty-2 own");
    let size = json!({ "size": { "rows": 33, "cols": 77 }, "title": "two" }).to_string();
    let changed = server.request("PUT", &format!("/pty/{id}"), &[JSON], Some(&size)).ok();
    assert_eq!(changed["title"], "two");
    feed.until(|frame| frame.kind == "pty.updated");
    first.send("stty size\n");
    first.until("33 77");

    // a later client gets what was there, and one with a cursor only the rest
    let mut second = Socket::to(&server, &id, "");
    second.until("33 77");
    assert!(second.seen.contains("pty-2 own"));
    while second.cursors.is_empty() {
        assert!(second.read());
    }
    let mut third = Socket::to(&server, &id, &format!("?cursor={}", second.cursors[0]));
    third.send("echo third-$((2+1))\n");
    third.until("third-3");
    second.until("third-3");
    assert!(!third.seen.contains("pty-2"), "{:?}", third.seen);
    assert_eq!(third.cursors, second.cursors);

    first.send("exit 3\n");
    let ended = feed.until(|frame| frame.kind == "pty.exited").pop().unwrap();
    assert_eq!(ended.properties, json!({ "id": id, "exitCode": 3 }));
    while third.read() {}
    assert_eq!(server.get(&format!("/pty/{id}")).status, 404);
    assert_eq!(server.get("/pty").ok(), json!([]));
    assert_eq!(server.get("/session").ok(), json!([]), "a terminal is no session");
    server.end();
}

/// A client that reads nothing does not stop the program.
#[test]
fn a_slow_client_holds_up_nobody() {
    let site = site();
    let server = Served::start(&site);
    let mut feed = server.feed(None);
    let id = running(&server, "read go; head -c 30000000 /dev/zero | tr '\\0' x; exit 5");
    let mut socket = Socket::to(&server, &id, "");
    socket.send("\n");
    let ended = feed.until(|frame| frame.kind == "pty.exited").pop().unwrap();
    assert_eq!(ended.properties["exitCode"], 5);
    server.end();
}

#[test]
fn terminals_end_when_removed_and_with_the_server() {
    let site = site();
    let server = Served::start(&site);
    let stubborn = "trap '' HUP TERM; echo \"pid=$$;\"; while true; do sleep 1000; done";
    let id = running(&server, stubborn);
    let removed = pid(&mut Socket::to(&server, &id, ""));
    let mut feed = server.feed(None);
    let path = format!("/pty/{id}");
    assert_eq!(server.request("DELETE", &path, &[], None).ok(), json!(true));
    assert!(!Path::new("/proc").join(removed).exists());
    let deleted = feed.until(|frame| frame.kind.starts_with("pty.")).pop().unwrap();
    assert_eq!((deleted.kind.as_str(), deleted.properties), ("pty.deleted", json!({ "id": id })));
    assert_eq!(server.request("DELETE", &path, &[], None).status, 404);

    let id = running(&server, stubborn);
    let ended = pid(&mut Socket::to(&server, &id, ""));
    server.end();
    assert!(!Path::new("/proc").join(ended).exists());

    let server = Served::start(&site);
    let id = running(&server, "echo \"pid=$$;\"; while true; do sleep 1000; done");
    let killed = pid(&mut Socket::to(&server, &id, ""));
    server.kill();
    wait_for_end(&killed);
}

/// Neither a command of a session nor a program in a terminal can open one.
#[test]
fn programs_that_the_server_has_started_open_no_terminal() {
    let upgrade = "exec 3<>/dev/tcp/127.0.0.1/$(cat port) && printf 'GET /pty/pty_x/connect HTTP/1.1\\r\\n\
        Host: localhost\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Version: 13\\r\\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n' >&3 && head -1 <&3";
    let replies = json!([
        { "parts": [{ "call": { "name": "bash", "input": { "command": upgrade } } }] },
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
    assert!(messages.contains("403 Forbidden"), "{messages}");
    let line = format!("read go; {upgrade}; read end");
    let id = create(&server, json!({ "command": "bash", "args": ["-c", line] }));
    let mut socket = Socket::to(&server, &id, "");
    socket.send("\n");
    socket.until("403 Forbidden");
    server.end();
}

/// With a password it is the password that counts: a person may use a client in a terminal of the server.
#[test]
fn a_client_in_a_terminal_needs_the_password() {
    let site = site().env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let mut server = Served::start(&site);
    let login = "Basic b3BlbmNvZGU6c2VjcmV0";
    server.login = Some(login.to_owned());
    let ask = |header: &str| {
        format!(
            "exec 3<>/dev/tcp/127.0.0.1/{} && printf 'GET /session HTTP/1.1\\r\\nHost: localhost\\r\\n\
             Connection: close\\r\\n{header}\\r\\n' >&3 && head -n 1 <&3",
            server.port
        )
    };
    let line = format!("read go; {}; {}", ask(""), ask(&format!("Authorization: {login}\\r\\n")));
    let id = create(&server, json!({ "command": "bash", "args": ["-c", line] }));
    let mut socket =
        Socket::open(&server, &format!("/pty/{id}/connect"), &[("authorization", login)])
            .1
            .unwrap();
    socket.send("\n");
    socket.until("401 Unauthorized");
    socket.until("200 OK");
    server.end();
}

#[test]
fn a_ticket_opens_one_terminal_once() {
    let site = site().env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let mut server = Served::start(&site);
    server.login = Some("Basic b3BlbmNvZGU6c2VjcmV0".to_owned());
    let line = "read go; echo \"[$LEFTFOLD_SERVER_PASSWORD]\"; env; read end";
    let (id, other) = (running(&server, line), running(&server, line));
    let token = format!("/pty/{id}/connect-token");
    assert_eq!(server.request("POST", &token, &[], None).status, 403, "without the header");
    let issue = || {
        let issued = server.request("POST", &token, &[TICKET], None).ok();
        assert_eq!(issued["expires_in"], 60);
        issued["ticket"].as_str().unwrap().to_owned()
    };
    let status = |path: &str, headers: &[(&str, &str)]| Socket::open(&server, path, headers).0;
    let ticket = issue();
    let right = format!("/pty/{id}/connect?ticket={ticket}");
    assert_eq!(status(&format!("/pty/{id}/connect"), &[]), 401);
    assert_eq!(status(&format!("/pty/{id}/connect?ticket=x"), &[]), 403);
    assert_eq!(status(&format!("/pty/{id}/connect?ticket="), &[]), 403);
    assert_eq!(status(&format!("/pty/{other}/connect?ticket={ticket}"), &[]), 403);
    assert_eq!(status("/pty/pty_x/connect?ticket=x", &[]), 403);
    // a ticket is for nothing else
    assert_eq!(status(&format!("/pty?ticket={ticket}"), &[]), 401);
    assert_eq!(status(&format!("/pty/{id}?ticket={ticket}"), &[]), 401);
    // a page of another origin, or under another name, gets nothing with it
    assert_eq!(status(&right, &[("origin", "https://evil.example")]), 403);
    assert_eq!(status(&right, &[("sec-fetch-site", "cross-site")]), 403);
    let own = format!("http://127.0.0.1:{}", server.port);
    let (answered, socket) = Socket::open(&server, &right, &[("origin", &own)]);
    assert_eq!(answered, 101);
    assert_eq!(status(&right, &[]), 403, "the ticket was used");
    let login = ("authorization", "Basic b3BlbmNvZGU6c2VjcmV0");
    assert_eq!(status(&right, &[login]), 403, "also with the password");
    assert_eq!(status(&format!("/pty/{id}/connect"), &[login]), 101);
    let mut socket = socket.unwrap();
    socket.send("\n");
    socket.until("TERM=xterm-256color");
    socket.until("[]");
    assert!(!socket.seen.contains("secret"), "{}", socket.seen);
    server.end();
}

#[test]
fn bad_requests_for_terminals_are_refused() {
    let site = site();
    let server = Served::start(&site);
    let id = running(&server, "read end");
    let own = format!("/pty/{id}");
    #[rustfmt::skip]
    let rows = [
        ("POST", "/pty", json!({ "cwd": "/nothing/here" }), 400),
        ("POST", "/pty", json!({ "cwd": 1 }), 400),
        ("POST", "/pty", json!({ "command": "" }), 400),
        ("POST", "/pty", json!({ "command": "/nothing/here" }), 400),
        ("POST", "/pty", json!({ "command": "a\u{0}b" }), 400),
        ("POST", "/pty", json!({ "args": ["\u{0}"] }), 400),
        ("POST", "/pty", json!({ "args": "x" }), 400),
        ("POST", "/pty", json!({ "title": "" }), 400),
        ("POST", "/pty", json!({ "title": "x".repeat(257) }), 400),
        ("POST", "/pty", json!({ "env": { "A=B": "x" } }), 400),
        ("POST", "/pty", json!({ "env": { "": "x" } }), 400),
        ("POST", "/pty", json!({ "env": { "LEFTFOLD_CALL": "x" } }), 400),
        ("POST", "/pty", json!({ "env": { "A": "\u{0}" } }), 400),
        ("PUT", &own, json!({ "size": { "rows": 0, "cols": 80 } }), 400),
        ("PUT", &own, json!({ "size": { "rows": 70_000, "cols": 80 } }), 400),
        ("PUT", &own, json!({ "size": { "rows": 24 } }), 400),
        ("PUT", &own, json!({ "title": "" }), 400),
        ("PUT", "/pty/pty_x", json!({}), 404),
        ("DELETE", "/pty/pty_x", json!({}), 404),
        ("POST", "/pty/pty_x/connect-token", json!({}), 404),
    ];
    for (method, path, body, status) in rows {
        let answer = server.request(method, path, &[JSON], Some(&body.to_string()));
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.json().is_object());
    }
    assert_eq!(server.get(&format!("{own}/connect")).status, 400, "no WebSocket");
    let status = |path: &str, headers: &[(&str, &str)]| Socket::open(&server, path, headers).0;
    assert_eq!(status("/pty/pty_x/connect", &[]), 404);
    assert_eq!(status(&format!("{own}/connect?cursor=-2"), &[]), 400);
    assert_eq!(status(&format!("{own}/connect?cursor=x"), &[]), 400);
    assert_eq!(status(&format!("{own}/connect"), &[("origin", "http://localhost:3000")]), 403);
    assert_eq!(status(&format!("{own}/connect"), &[("origin", "null")]), 403);
    assert_eq!(status(&format!("{own}/connect?cursor=-1"), &[]), 101);
    for _ in 1..32 {
        running(&server, "read end");
    }
    let answer = server.post("/pty", json!({ "command": "/bin/sh" }));
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("32 terminals"), "{answer:?}");
    server.end();
}

/// The states of files, and no program that the repository names.
#[test]
fn git_tells_the_states_of_files() {
    let site = site();
    let git = |arguments: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
        let output = git.current_dir(site.project()).output().unwrap();
        assert!(output.status.success(), "{arguments:?} {output:?}");
    };
    git(&["init", "-q"]);
    site.file("changed.txt", "one\ntwo\n");
    site.file("gone.txt", "one\n");
    git(&["add", "changed.txt", "gone.txt"]);
    git(&["commit", "-q", "-m", "first"]);
    let ran = site.path("ran");
    let program = format!("touch {}; cat", ran.display());
    for name in [
        "filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.evil.textconv",
        "diff.evil.command", "diff.external",
    ] {
        git(&["config", name, &program]);
    }
    git(&["config", "filter.evil.required", "true"]);
    site.file(".git/info/attributes", "*.txt filter=evil diff=evil\n");
    site.file("changed.txt", "one\n2\n3\n");
    std::fs::remove_file(site.project().join("gone.txt")).unwrap();
    site.file("new \u{e9}.txt", "one\ntwo");
    let _ = std::fs::remove_file(&ran);

    let server = Served::start(&site);
    let find = |list: &Value, key: &str, path: &str| {
        let list = list.as_array().unwrap();
        list.iter().find(|one| one[key] == path).cloned().unwrap_or_else(|| panic!("{list:?}"))
    };
    let states = server.get("/vcs/status").ok();
    for (path, status, added, removed) in [
        ("changed.txt", "modified", 2, 1),
        ("gone.txt", "deleted", 0, 1),
        ("new \u{e9}.txt", "added", 2, 0),
    ] {
        let expected =
            json!({ "file": path, "additions": added, "deletions": removed, "status": status });
        assert_eq!(find(&states, "file", path), expected);
    }
    let expected = json!({ "path": "changed.txt", "added": 2, "removed": 1, "status": "modified" });
    assert_eq!(find(&server.get("/file/status").ok(), "path", "changed.txt"), expected);
    assert!(!ran.exists(), "a program of the repository ran");
    // attributes of a commit, which no file in the project shows
    std::fs::remove_file(site.project().join(".git/info/attributes")).unwrap();
    site.file(".gitattributes", "*.txt filter=evil diff=evil\n");
    // here git itself would talk with it
    git(&["config", "--unset", "filter.evil.process"]);
    git(&["update-index", "--add", ".gitattributes"]);
    git(&["-c", "filter.evil.required=false", "commit", "-q", "-m", "second", ".gitattributes"]);
    git(&["config", "attr.tree", "HEAD"]);
    git(&["rm", "-q", "--cached", ".gitattributes"]);
    std::fs::remove_file(site.project().join(".gitattributes")).unwrap();
    site.file("changed.txt", "one\n2\n3\n4\n");
    let _ = std::fs::remove_file(&ran);
    let states = server.get("/vcs/status").ok();
    assert_eq!(find(&states, "file", "changed.txt")["additions"], 3);
    assert!(!ran.exists(), "a program ran that the attributes of a commit name");
    std::fs::create_dir(site.path("plain")).unwrap();
    let plain = format!("/vcs/status?directory={}", site.path("plain").display());
    assert_eq!(server.get(&plain).ok(), json!([]));
    server.end();
}
