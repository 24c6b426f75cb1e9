//! `webfetch`, against well-behaved and misbehaving servers on this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::{Site, call, only, says, script};
use serde_json::{Value, json};

const LIMIT: usize = 5 * 1024 * 1024;

/// Answers each request with the output of `answer` for its target, and hangs up.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer) = (stream.unwrap(), answer.clone());
            std::thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> =
                    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let Some(line) = head.first() else { return };
                let target = line.split(' ').nth(1).unwrap().to_owned();
                assert!(
                    head.contains(&format!("user-agent: leftfold/{}", env!("CARGO_PKG_VERSION")))
                );
                answer(&target, &mut stream);
            });
        }
    });
    address
}

/// A client may hang up at any time.
pub(crate) fn send(stream: &mut TcpStream, bytes: impl AsRef<[u8]>) {
    let _ = stream.write_all(bytes.as_ref());
}

pub(crate) fn ok(stream: &mut TcpStream, content_type: &str, body: impl AsRef<[u8]>) {
    let (body, length) = (body.as_ref(), body.as_ref().len());
    send(
        stream,
        format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n"
        ),
    );
    send(stream, body);
}

pub(crate) fn redirect(stream: &mut TcpStream, to: &str) {
    send(
        stream,
        format!(
            "HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        ),
    );
}

pub(crate) fn until_gone(stream: &mut TcpStream) {
    while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
}

fn pages(target: &str, stream: &mut TcpStream) {
    match target {
        "/page" => ok(
            stream,
            "text/html; charset=iso-8859-1",
            b"<title>T</title><nav>menu</nav><h1>Gr\xfc\xdfe</h1><p>See <a href='/x'>x</a>.<script>y</script>",
        ),
        "/json" => ok(stream, "application/json", r#"{"a": [1, 2]}"#),
        "/empty" => ok(stream, "text/html", ""),
        "/picture.png?x" => ok(stream, "text/plain", b"\x89PNG\r\n\x1a\n...."),
        "/zip" => ok(stream, "application/zip", b"PK\x03\x04\0\0\0\0"),
        "/full" => ok(stream, "text/plain", "0123456\n".repeat(LIMIT / 8)),
        "/over" => ok(stream, "text/plain", "x".repeat(LIMIT + 1)),
        "/absurd" => send(stream, "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nx"),
        "/short" => send(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes."),
        "/long" => send(stream, "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nten bytes."),
        "/gzip" => send(stream, "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x0b"),
        "/chunked" => send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nt: x\r\n\r\n"),
        "/cut-chunk" => send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nff\r\nc"),
        "/nonsense" => send(stream, "I am no HTTP server.\r\n\r\n"),
        "/gone" => send(stream, "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<h1>No</h1> such <b>page</b>."),
        "/error" => send(stream, "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n"),
        "/error-stalls" => {
            send(stream, "HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\nlater");
            until_gone(stream);
        }
        "/endless" => {
            send(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
            while stream.write_all(chunk.as_bytes()).is_ok() {}
        }
        "/endless-head" => {
            send(stream, "HTTP/1.1 200 OK\r\n");
            let header = format!("x: {}\r\n", "x".repeat(1_000));
            while stream.write_all(header.as_bytes()).is_ok() {}
        }
        "/silent" => until_gone(stream),
        "/stalls" => {
            send(stream, "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonce");
            until_gone(stream);
        }
        "/loop" => redirect(stream, "/loop#x"),
        "/hop/0" => ok(stream, "text/plain", "arrived"),
        "/to-metadata" => redirect(stream, "http://169.254.169.254/latest/"),
        "/to-file" => redirect(stream, "file:///etc/passwd"),
        "/to-login" => redirect(stream, "http://me:pw@localhost/"),
        "/to-nowhere" => redirect(stream, "http://[/"),
        "/to-nothing" => send(stream, "HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n"),
        hop => {
            let n: u32 = hop.strip_prefix("/hop/").unwrap().parse().unwrap();
            redirect(stream, &format!("{}", n - 1));
        }
    }
}

/// A project whose settings allow addresses of this machine, by a file.
fn site() -> Site {
    let site = Site::bare();
    site.file("leftfold.json", r#"{ "webfetch": { "private": true } }"#);
    site
}

fn fetch(site: &Site, args: &Value) -> Value {
    let ran = site.run(&["tool", "webfetch", "--args", &args.to_string()]);
    let output: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, i32::from(output["is_error"] == true), "{ran:?}");
    output
}

#[test]
fn a_proxy_from_which_all_hosts_are_excepted_is_not_used() {
    let page = format!("http://{}/json", serve(pages));
    let site = site().env("HTTP_PROXY", "http://127.0.0.1:1").env("NO_PROXY", "*");
    let output = fetch(&site, &json!({ "url": page, "format": "text" }));
    assert!(summary(&output).contains("[1, 2]"), "{output}");
}

/// The output of a success, or the kind of an error and the output.
fn summary(output: &Value) -> String {
    let text = output["output"].as_str().unwrap();
    match output["metadata"]["error_kind"].as_str() {
        Some(kind) => format!("{kind}: {text}"),
        None => text.to_owned(),
    }
}

/// Path, format, and the expected output; only its beginning if it ends in `…`.
const ANSWERS: &[(&str, &str, &str)] = &[
    ("page", "markdown", "# Grüße\n\nSee [x](http://SERVER/x)."),
    ("page", "text", "Grüße\n\nSee x."),
    (
        "page",
        "html",
        "<title>T</title><nav>menu</nav><h1>Grüße</h1><p>See <a href='/x'>x</a>.<script>y</script>",
    ),
    ("json", "markdown", r#"{"a": [1, 2]}"#),
    ("empty", "markdown", "(The page has no text.)"),
    ("chunked", "text", "abc"),
    ("long", "text", "ten"),
    ("hop/10", "text", "arrived"),
    (
        "zip",
        "text",
        "binary: http://SERVER/zip is not text (application/zip, 8 bytes), so it is not shown.",
    ),
    (
        "gzip",
        "text",
        "binary: http://SERVER/gzip answers with the encoding \"gzip\", which was not requested.",
    ),
    (
        "over",
        "text",
        "too_large: http://SERVER/over has 5242881 bytes; at most 5242880 can be fetched.",
    ),
    (
        "endless",
        "text",
        "too_large: http://SERVER/endless has more than 5242880 bytes; at most 5242880 can be fetched.",
    ),
    ("short", "text", "network: The answer of http://SERVER/short broke off: …"),
    ("absurd", "text", "network: The answer of http://SERVER/absurd broke off: …"),
    ("cut-chunk", "text", "network: The answer of http://SERVER/cut-chunk broke off: …"),
    ("nonsense", "text", "network: The answer of http://SERVER/nonsense broke off: …"),
    ("endless-head", "text", "network: The answer of http://SERVER/endless-head broke off: …"),
    ("gone", "text", "http_status: http://SERVER/gone answers 404 Not Found:\nNo\nsuch page."),
    ("error", "text", "http_status: http://SERVER/error answers 500 Internal Server Error."),
    (
        "error-stalls",
        "text",
        "http_status: http://SERVER/error-stalls answers 503 Service Unavailable.",
    ),
    (
        "loop",
        "text",
        "network: http://SERVER/loop redirects more than 10 times, at last to http://SERVER/loop.",
    ),
    ("hop/11", "text", "network: http://SERVER/hop/11 redirects more than 10 times…"),
    (
        "to-metadata",
        "text",
        "address_refused: http://169.254.169.254/latest/: it is the address of a metadata service…",
    ),
    ("to-file", "text", "address_refused: file:///etc/passwd: only http and https…"),
    (
        "to-login",
        "text",
        "address_refused: http://localhost/: an address with a user name or password…",
    ),
    (
        "to-nowhere",
        "text",
        "network: http://SERVER/to-nowhere redirects to \"http://[/\", which is not an address…",
    ),
    ("to-nothing", "text", "http_status: http://SERVER/to-nothing answers 302 Found."),
];

#[test]
fn what_servers_answer() {
    let (site, server) = (site(), serve(pages));
    for (path, format, expected) in ANSWERS {
        let url = format!("http://{server}/{path}");
        let told = summary(&fetch(&site, &json!({ "url": url, "format": format })));
        let expected = expected.replace("SERVER", &server.to_string());
        let same = match expected.strip_suffix('…') {
            Some(start) => told.starts_with(start),
            None => told == expected,
        };
        assert!(same, "{path}: {told}");
    }
}

#[test]
fn attachments_metadata_and_long_texts() {
    let (site, server) = (site(), serve(pages));
    let url = format!("http://{server}/picture.png?x");
    let output = fetch(&site, &json!({ "url": url }));
    assert_eq!(output["attachments"][0]["mime"], "image/png");
    assert_eq!(output["attachments"][0]["name"], "picture.png");
    assert_eq!(output["attachments"][0]["base64"], "iVBORw0KGgouLi4u");
    let output = fetch(&site, &json!({ "url": format!("http://{server}/hop/1") }));
    let expected = json!({
        "status": 200, "url": format!("http://{server}/hop/0"), "content_type": "text/plain", "bytes": 7,
    });
    assert_eq!(output["metadata"], expected);
    let output = fetch(&site, &json!({ "url": format!("http://{server}/full") }));
    assert_eq!(output["metadata"]["truncated"], true);
    let spill = std::fs::read(output["spill"].as_str().unwrap()).unwrap();
    assert_eq!(spill.len(), LIMIT);
}

#[test]
fn a_server_that_takes_too_long_is_left() {
    let (site, server) = (site(), serve(pages));
    for path in ["silent", "stalls"] {
        let start = Instant::now();
        let url = format!("http://{server}/{path}");
        let told = summary(&fetch(&site, &json!({ "url": url, "timeout": 1 })));
        assert!(told.starts_with("timeout: The call did not end within 1000 ms."), "{told}");
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
    // nobody listens there any more
    let url =
        format!("http://{}/", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let told = summary(&fetch(&site, &json!({ "url": url })));
    assert!(told.starts_with(&format!("network: No connection to {url}: ")), "{told}");
}

#[test]
fn addresses_of_this_machine_need_a_setting() {
    let server = serve(|_, _| panic!("it was reached"));
    for site in [Site::bare(), Site::bare().setting("webfetch", json!({ "private": false }))] {
        let port = server.port();
        for host in
            ["127.0.0.1", "localhost", "LocalHost.", "2130706433", "[::ffff:127.0.0.1]", "0"]
        {
            let told = summary(&fetch(&site, &json!({ "url": format!("http://{host}:{port}/") })));
            assert!(
                told.starts_with("address_refused: ") && told.contains("\"private\": true"),
                "{told}"
            );
        }
    }
    let wrong = Site::bare().setting("webfetch", json!({ "privat": true }));
    wrong
        .run(&["tool", "webfetch", "--args", "{}"])
        .with(2)
        .saying(&["`webfetch.privat`", "`private`"]);
}

#[test]
fn behind_a_proxy_what_is_asked_of_it_is_checked() {
    let proxy = serve(|target, stream| match target {
        "http://example.com/" => ok(stream, "text/plain", "by the proxy"),
        "http://example.com/inwards" => redirect(stream, "http://10.0.0.1/"),
        other => panic!("{other} was asked for"),
    });
    let port = proxy.port();
    let site = Site::bare().env("http_proxy", format!("http://localhost:{port}"));
    for (url, expected) in [
        ("http://example.com/", "by the proxy".to_owned()),
        (
            "http://example.com/inwards",
            "address_refused: http://10.0.0.1/: it is not a public".to_owned(),
        ),
        (
            "http://192.168.0.1/",
            "address_refused: http://192.168.0.1/: it is not a public".to_owned(),
        ),
        ("http://LOCALHOST:PORT/", "address_refused: http://localhost:PORT/: it is not".to_owned()),
    ] {
        let [url, expected] = [url, &expected].map(|text| text.replace("PORT", &port.to_string()));
        let told = summary(&fetch(&site, &json!({ "url": url })));
        assert!(told.starts_with(&expected), "{told}");
    }
}

#[test]
fn a_model_fetches_by_permission() {
    let server = serve(pages);
    let url = format!("http://{server}/page");
    let turn = json!([call("webfetch", json!({ "url": url })), says("Done.")]);
    let site = Site::scripted(&script(&turn)).setting("webfetch", json!({ "private": true }));
    // the prompt names the host
    let events = site.prompt(&format!("Read http://{server}/ and more.")).ok().events();
    let finished = only(&events, "tool.finished");
    assert_eq!(finished["data"]["is_error"], false, "{finished}");
    assert!(finished["data"]["output"].as_str().unwrap().starts_with("# Grüße"));
    let resolved = &only(&events, "tool.resolved")["data"];
    assert_eq!((&resolved["class"], &resolved["timeout"]), (&json!("read"), &json!(30_000)));
    let access = json!([
        { "permission": "webfetch", "patterns": [url], "always": [format!("http://{server}/*")] },
        { "permission": "host", "patterns": [url], "always": [server.to_string()] },
    ]);
    assert_eq!(resolved["access"], access);
    let denied = Site::scripted(&script(&turn))
        .setting("webfetch", json!({ "private": true }))
        .setting("permission", json!({ "webfetch": { format!("http://{server}/*"): "deny" } }));
    let events = denied.prompt(&format!("Read {url}")).ok().events();
    assert_eq!(common::all(&events, "tool.started").len(), 0);
    site.assert_sound();
}

/// A model that fetches the address, in a project whose settings allow addresses of this machine.
fn fetching(url: &str, host_rules: &Value) -> Site {
    let turn = json!([call("webfetch", json!({ "url": url, "format": "text" })), says("Done.")]);
    Site::scripted(&script(&turn))
        .setting("webfetch", json!({ "private": true }))
        .setting("permission", json!({ "host": host_rules }))
}

#[test]
fn a_host_that_nobody_has_named_is_refused_where_nobody_is_asked() {
    let server = serve(pages);
    let url = format!("http://{server}/page?key=1");
    let site = fetching(&url, &json!({}));
    let setting = json!({ "permission": { "host": { server.to_string(): "allow" } } }).to_string();
    site.run(&["run", "go"]).ok().saying(&[&setting]);
    let events = site.prompt("go").ok().events();
    let denial = &common::end(&events)["permission_denials"][0];
    assert_eq!((&denial["permission"], &denial["patterns"]), (&json!("host"), &json!([url])));
    assert_eq!(common::all(&events, "tool.started").len(), 0);
    site.assert_sound();
    // its own settings, `--yes` and a command's argument allow it; a command's text does not
    for (rules, arguments, fetched) in [
        (json!({ server.to_string(): "allow" }), vec!["go"], true),
        (json!({}), vec!["--yes", "go"], true),
        (json!({}), vec!["/look"], false),
        (json!({}), vec![&format!("/look http://{server}/")], true),
    ] {
        let site = fetching(&url.replace("?key=1", ""), &rules);
        let template = if fetched { "Look.\n".to_owned() } else { format!("Look at {url}.\n") };
        site.file(".leftfold/commands/look.md", template);
        let run = [&["run", "--format", "json"], arguments.as_slice()].concat();
        let events = site.run(&run).ok().events();
        assert_eq!(
            common::all(&events, "tool.started").len(),
            usize::from(fetched),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_redirect_to_another_host_is_judged_as_well() {
    let other = serve(|_, stream| ok(stream, "text/plain", "the other host"));
    let to = format!("http://localhost:{}/x?key=1", other.port());
    let target = to.clone();
    let server = serve(move |_, stream| redirect(stream, &target));
    for (rules, expected) in [
        (json!({}), "redirects to another host, which was not allowed: "),
        (json!({ "localhost:*": "deny" }), "redirects to another host, which was not allowed: "),
        (json!({ "localhost:*": "allow" }), "the other host"),
    ] {
        let site = fetching(&format!("http://{server}/a"), &rules);
        let events = site.prompt(&format!("Read http://{server}/.")).ok().events();
        let output = only(&events, "tool.finished")["data"]["output"].to_string();
        assert!(output.contains(expected), "{output}");
        site.assert_sound();
    }
    // a person at a shell has allowed it
    let output = fetch(&site(), &json!({ "url": format!("http://{server}/a") }));
    assert_eq!(summary(&output), "the other host");
}
