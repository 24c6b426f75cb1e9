//! Bad input: every row has its status, every answer is JSON, and time and memory are bounded.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::{Site, script};
use serde_json::{Value, json};

use crate::client::{Answered, Served};

const JSON: (&str, &str) = ("content-type", "application/json");
/// How much memory bad input may cost, in KiB.
const GROWTH: u64 = 200 << 10;

fn site() -> Site {
    let site = Site::scripted(&script(json!([{ "parts": [{ "text": "Hello." }] }])));
    site.file("inside.txt", "inside\n");
    site.file("folder/deep.txt", "deep\n");
    std::os::unix::fs::symlink("/etc/passwd", site.project().join("link")).unwrap();
    site
}

/// Resident memory of the server, in KiB.
fn memory(server: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn wrong_bodies_and_ids_are_refused() {
    let site = site();
    let server = Served::start(&site);
    let session = server.session();
    server.prompt(&session, "go");
    let messages = server.get(&format!("/session/{session}/message")).ok();
    let message = messages[0]["info"]["id"].as_str().unwrap();
    let unknown = "ses_000000000000AAAAAAAAAAAAAA";
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    let long = "x".repeat(300);
    let own = format!("/session/{session}");
    let prompt = format!("{own}/message");
    #[rustfmt::skip]
    let rows: Vec<(&str, String, &str, u16)> = vec![
        // no JSON, or JSON of another shape
        ("POST", "/session".into(), "{", 400),
        ("POST", "/session".into(), "nothing", 400),
        ("POST", "/session".into(), "\u{0}", 400),
        ("POST", "/session".into(), "null", 400),
        ("POST", "/session".into(), "[]", 400),
        ("POST", "/session".into(), "\"text\"", 400),
        ("POST", "/session".into(), "{} {}", 400),
        ("POST", "/session".into(), &deep, 400),
        ("POST", "/session".into(), r#"{"title":1}"#, 400),
        ("POST", "/session".into(), r#"{"agent":{}}"#, 400),
        ("POST", "/session".into(), r#"{"model":"a/b"}"#, 400),
        ("POST", "/session".into(), r#"{"permission":[{"permission":"bash","pattern":"*","action":"maybe"}]}"#, 400),
        ("PATCH", own.clone(), r#"{"title":""}"#, 400),
        ("PATCH", own.clone(), r#"{"title":[]}"#, 400),
        ("POST", prompt.clone(), "{}", 400),
        ("POST", prompt.clone(), r#"{"parts":{}}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":["text"]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text"}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":7}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a","metadata":7}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a","time":{"start":"now"}}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"file","mime":"text/plain","url":"ftp://x"}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"file","mime":"image/png","url":"data:image/png;base64,???"}]}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"messageID":"ses_x"}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"messageID":"msg_../x"}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"agent":"nobody"}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"model":{"providerID":"no","modelID":"no"}}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"variant":"no"}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"format":{"type":"xml"}}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"format":{"type":"json_schema","schema":{}}}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"format":{"type":"json_schema"}}"#, 400),
        ("POST", prompt.clone(), r#"{"parts":[{"type":"text","text":"a"}],"format":{"type":"json_schema","schema":{"type":"object"},"retryCount":-1}}"#, 400),
        ("POST", format!("{own}/command"), "{}", 400),
        ("POST", format!("{own}/shell"), "{}", 400),
        ("POST", format!("{own}/revert"), "{}", 400),
        ("POST", "/permission/per_x/reply".into(), "{}", 400),
        ("POST", "/permission/per_x/reply".into(), r#"{"reply":"perhaps"}"#, 400),
        ("POST", "/question/que_x/reply".into(), r#"{"answers":"yes"}"#, 400),
        ("POST", "/log".into(), r#"{"service":"s","level":"loud","message":"m"}"#, 400),
        ("PUT", "/auth/anthropic".into(), r#"{"type":"other"}"#, 400),
        ("POST", "/tui/publish".into(), r#"{"type":"tui.toast.show","properties":{}}"#, 400),
        // ids that are unknown, or of another kind
        ("GET", format!("/session/{unknown}"), "", 404),
        ("GET", format!("/session/{message}"), "", 404),
        ("GET", "/session/ses_".into(), "", 404),
        ("GET", format!("/session/{long}"), "", 404),
        ("GET", "/session/%73es_x".into(), "", 404),
        ("GET", "/session/%ff%fe".into(), "", 404),
        ("GET", "/session/..%2f..%2fetc".into(), "", 404),
        ("DELETE", format!("/session/{unknown}"), "", 404),
        ("POST", format!("/session/{unknown}/message"), r#"{"parts":[{"type":"text","text":"a"}]}"#, 404),
        ("POST", format!("/session/{unknown}/prompt_async"), "{}", 404),
        ("GET", format!("{own}/message/{session}"), "", 404),
        ("GET", format!("{own}/message/msg_%00"), "", 404),
        ("POST", format!("{own}/revert"), r#"{"messageID":"msg_x"}"#, 404),
        ("POST", format!("{own}/fork"), r#"{"messageID":"prt_x"}"#, 404),
        ("POST", "/permission/per_x/reply".into(), r#"{"reply":"once"}"#, 404),
        ("POST", format!("/permission/{session}/reply"), r#"{"reply":"once"}"#, 404),
        ("POST", "/question/que_x/reply".into(), r#"{"answers":[]}"#, 404),
        ("POST", "/question/que_x/reject".into(), "", 404),
        ("POST", format!("{own}/permissions/per_x"), r#"{"response":"once"}"#, 404),
        // an abort has nothing to do
        ("POST", format!("/session/{unknown}/abort"), "", 200),
        // queries
        ("GET", "/session?limit=many".into(), "", 400),
        ("GET", "/session?limit=-1".into(), "", 400),
        ("GET", "/session?roots=perhaps".into(), "", 400),
        ("GET", format!("{prompt}?limit=x"), "", 400),
        ("GET", format!("{prompt}?limit=99999999999999999999"), "", 400),
        ("GET", "/find".into(), "", 400),
        ("GET", "/find?pattern=(".into(), "", 400),
        ("GET", "/find?pattern=%28a%7B1000%7D%29%7B1000%7D%7B1000%7D".into(), "", 400),
        ("GET", "/experimental/tool".into(), "", 400),
        ("GET", "/event?directory=/nothing".into(), "", 400),
        // directories
        ("GET", "/session?directory=/nothing/here".into(), "", 400),
        ("GET", "/session?directory=relative".into(), "", 400),
        ("GET", "/session?directory=/etc/passwd".into(), "", 400),
        ("GET", "/session?directory=%00".into(), "", 400),
        ("GET", "/config?directory=/tmp/../nothing".into(), "", 400),
        ("GET", "/api/location?location%5Bdirectory%5D=/nothing".into(), "", 400),
        // paths of files
        ("GET", "/file/content?path=../../../../../../etc/passwd".into(), "", 404),
        ("GET", "/file/content?path=/etc/passwd".into(), "", 404),
        ("GET", "/file/content?path=%2e%2e/%2e%2e/%2e%2e/etc/passwd".into(), "", 404),
        ("GET", "/file/content?path=link".into(), "", 404),
        ("GET", "/file/content?path=folder/../link".into(), "", 404),
        ("GET", "/file/content?path=inside.txt%00.png".into(), "", 404),
        ("GET", "/file/content?path=nothing".into(), "", 404),
        ("GET", "/file?path=/etc".into(), "", 404),
        ("GET", "/file?path=..".into(), "", 404),
        ("GET", "/file?path=inside.txt".into(), "", 400),
        ("GET", "/file/content?path=folder/../inside.txt".into(), "", 200),
        ("GET", "/file/content?path=folder%2Fdeep.txt".into(), "", 200),
    ];
    for (method, path, body, status) in rows {
        let answer = server.request(method, &path, &[JSON], Some(body));
        let shown: String = body.chars().take(80).collect();
        assert_eq!(answer.status, status, "{method} {path} {shown}: {answer:?}");
        assert!(answer.headers.contains("content-type: application/json"), "{answer:?}");
        let json = answer.json();
        let says = ["/data/message", "/message"].iter().any(|at| json.pointer(at).is_some());
        assert!(status == 200 || says, "{method} {path}: {json}");
        assert!(!answer.body.contains("root:"), "{answer:?}");
    }
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
        let answer = server.request("POST", "/session", &[("content-type", kind)], Some("{}"));
        assert_eq!(answer.status, 415, "{kind}: {answer:?}");
    }
    let header = [("x-opencode-directory", "%2Fnothing")];
    assert_eq!(server.request("GET", "/session", &header, None).status, 400);
    let after = server.get(&format!("/session/{session}/message")).ok();
    assert_eq!(after, messages, "nothing has changed");
    server.end();
}

/// The answer to bytes that are sent as they are. Errors of a cut connection count as its end.
fn raw(server: &Served, bytes: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = server.connect();
    // the server may answer and close before everything is sent
    let _ = stream.write_all(bytes);
    read_status(stream)
}

fn read_status(mut stream: TcpStream) -> (u16, Vec<u8>) {
    let mut answer = Vec::new();
    let mut chunk = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        answer.extend_from_slice(&chunk[..count]);
    }
    let status =
        answer.get(9..12).and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
    (status.unwrap_or(0), answer)
}

#[test]
fn large_requests_are_refused_and_cost_no_memory() {
    let site = site();
    let server = Served::start(&site);
    let before = memory(&server);
    let host = "host: localhost\r\ncontent-type: application/json\r\n";
    let length = |length: u64| {
        format!("POST /session HTTP/1.1\r\n{host}content-length: {length}\r\n\r\n{{").into_bytes()
    };
    let (status, answer) = raw(&server, &length(1 << 40));
    assert_eq!(status, 413);
    let body = answer.split(|byte| *byte == b'{').nth(1).map(<[u8]>::len);
    assert!(body.is_some_and(|length| length > 0), "the refusal is JSON");
    assert_eq!(raw(&server, &length((64 << 20) + 1)).0, 413);
    // chunks without an end
    let mut chunked =
        format!("POST /session HTTP/1.1\r\n{host}transfer-encoding: chunked\r\n\r\n").into_bytes();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..70 {
        chunked.extend_from_slice(&chunk);
    }
    assert_eq!(raw(&server, &chunked).0, 413);
    // headers
    let large = format!("GET /session HTTP/1.1\r\n{host}x: {}\r\n\r\n", "a".repeat(1 << 20));
    assert_eq!(raw(&server, large.as_bytes()).0, 431);
    let many = format!("GET /session HTTP/1.1\r\n{host}{}\r\n", "x: y\r\n".repeat(1_000));
    assert_eq!(raw(&server, many.as_bytes()).0, 431);
    let target = format!("GET /{} HTTP/1.1\r\n{host}\r\n", "a".repeat(1 << 20));
    assert!(matches!(raw(&server, target.as_bytes()).0, 414 | 431));
    // no HTTP at all
    for bytes in [&b"\x16\x03\x01\x02\x00\x01"[..], b"\n\n\n\nSSH-2.0-x\r\n\r\n", &[0xff; 64]] {
        let status = raw(&server, bytes).0;
        assert!(matches!(status, 0 | 400), "{bytes:?}: {status}");
    }
    let both = format!(
        "POST /session HTTP/1.1\r\n{host}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    );
    assert!(matches!(raw(&server, both.as_bytes()).0, 200 | 400));
    server.session();
    let after = memory(&server);
    assert!(after < before + GROWTH, "{before} KiB, then {after} KiB");
    server.end();
}

/// Clients that send slowly, or nothing, are cut off after about ten seconds.
#[test]
fn slow_clients_are_cut_off() {
    let site = site();
    let server = Served::start(&site);
    let began = Instant::now();
    let begun: [&[u8]; 6] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"GET /session HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
        b"POST /session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n",
    ];
    let streams: Vec<TcpStream> = begun
        .iter()
        .map(|bytes| {
            let mut stream = server.connect();
            stream.write_all(bytes).unwrap();
            stream
        })
        .collect();
    // others are answered meanwhile
    server.session();
    for (bytes, stream) in begun.iter().zip(streams) {
        let (status, _) = read_status(stream);
        let shown = String::from_utf8_lossy(bytes);
        assert!(matches!(status, 0 | 408), "{shown}: {status}");
        assert_eq!(status == 408, shown.starts_with("POST"), "{shown}: {status}");
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(40)).contains(&took), "{took:?}");
    server.end();
}

/// A feed whose client has closed its half, or has gone, is closed.
#[test]
fn feeds_of_clients_that_have_gone_are_closed() {
    let site = site();
    let server = Served::start(&site);
    let open = || {
        let sockets = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
        sockets.count()
    };
    let before = open();
    for half in [true, false] {
        for _ in 0..20 {
            let mut stream = server.send("GET", "/global/event", &[], None);
            let mut first = [0; 16];
            stream.read_exact(&mut first).unwrap();
            if half {
                stream.get_ref().shutdown(Shutdown::Write).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
            }
        }
    }
    let began = Instant::now();
    while open() > before + 4 {
        assert!(
            began.elapsed() < common::STEP_TIMEOUT,
            "{before} files were open, then {}",
            open()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    server.end();
}

/// A connection too many is answered with 503, and the others go on.
#[test]
fn connections_are_limited() {
    const MAX_CONNECTIONS: usize = 1_024;
    leftfold_runtime::raise_open_files();
    let site = site();
    let server = Served::start(&site);
    let mut feed = server.feed(None);
    let mut held: Vec<TcpStream> = Vec::new();
    let refused = loop {
        let mut stream = server.connect();
        // it waits for something that does not come
        let waits = "GET /tui/control/next HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let _ = stream.write_all(waits.as_bytes());
        stream.set_nonblocking(true).unwrap();
        held.push(stream);
        let answered = held.iter_mut().rev().take(50).find_map(|stream| {
            let mut first = [0; 1];
            let count = stream.read(&mut first).ok().filter(|count| *count > 0)?;
            Some(text_of(stream, &first[..count]))
        });
        if let Some(answered) = answered {
            break answered;
        }
        if held.len() > MAX_CONNECTIONS {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(held.len() < 3 * MAX_CONNECTIONS, "no connection is refused");
    };
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    let (_, body) = refused.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    assert!(body["data"]["message"].is_string(), "{body}");
    drop(held);
    // there is room again, and the feed was not cut off
    let began = Instant::now();
    let session = loop {
        let answered = Answered::status_of(server.connect(), "/global/health");
        if answered == 200 {
            break server.session();
        }
        assert!(began.elapsed() < common::STEP_TIMEOUT);
        std::thread::sleep(Duration::from_millis(50));
    };
    feed.until(|frame| {
        frame.kind == "session.created" && frame.properties["sessionID"] == session.as_str()
    });
    server.end();
}

/// Clients of the feed that never read share what they wait for: many more of them cost less than 256 KiB each,
/// though each tenth of them connects to another state. `LEFTFOLD_CLIENTS` sets their number (60).
#[test]
fn clients_that_never_read_cost_bounded_memory() {
    const EACH: u64 = 256;
    leftfold_runtime::raise_open_files();
    let more = common::number("LEFTFOLD_CLIENTS", 60);
    let site = site();
    let server = Served::start(&site);
    let session = server.session();
    let long =
        json!({ "noReply": true, "parts": [{ "type": "text", "text": "x".repeat(90 << 10) }] });
    for _ in 0..100 {
        server.post(&format!("/session/{session}/message"), long.clone()).ok();
    }
    let mut held = Vec::new();
    let mut connect = |count: usize| {
        for number in 0..count {
            if number % 10 == 0 {
                let title = json!({ "title": number.to_string() }).to_string();
                server.request("PATCH", &format!("/session/{session}"), &[JSON], Some(&title)).ok();
            }
            let mut stream = server.send("GET", "/global/event", &[], None);
            let mut first = [0; 16];
            stream.read_exact(&mut first).unwrap();
            held.push(stream);
        }
        memory(&server)
    };
    let (few, many) = (connect(50), connect(more));
    assert!(
        many < few + more as u64 * EACH,
        "{few} KiB with 50 clients, {many} KiB with {more} more"
    );
    // one that reads has the last state
    let mut feed = server.feed(None);
    let last = ((more - 1) / 10 * 10).to_string();
    feed.until(|frame| {
        frame.kind == "session.updated" && frame.properties["info"]["title"] == last
    });
    server.end();
}

fn text_of(stream: &mut TcpStream, begun: &[u8]) -> String {
    stream.set_nonblocking(false).unwrap();
    let mut bytes = begun.to_vec();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}
