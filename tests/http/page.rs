//! Leftfold's own page: `leftfold serve` at `/`, and `leftfold view`.

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use common::browser::chromium;
use common::peers::Peers;
use common::{Live, Random, Site, all, script};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Served;
use crate::proxy::Proxy;

const LOGIN: &str = "Basic b3BlbmNvZGU6c2VjcmV0";

fn site() -> Site {
    // `answers` counts those of the whole conversation
    let step = |prompt: &str, answers: u32, part: Value| json!({ "match": { "prompt": prompt, "answers": answers }, "parts": [part] });
    let reply =
        |prompt: &str, part: Value| json!({ "match": { "prompt": prompt }, "parts": [part] });
    let call = |name: &str, input: Value| json!({ "call": { "name": name, "input": input } });
    let todo = json!({ "todos": [{ "content": "Look", "status": "pending", "priority": "high" }] });
    let bash = |command: &str| call("bash", json!({ "command": command }));
    let site = Site::scripted(&script(json!([
        step("Fill the list.", 0, call("todowrite", todo)),
        step("Fill the list.", 1, json!({ "text": "It is full." })),
        step("Remove it.", 0, bash("rm a")),
        step("Remove it.", 1, json!({ "text": "I may not." })),
        step("Read the file.", 2, call("read", json!({ "filePath": ".env" }))),
        step("Read the file.", 3, json!({ "text": "It is blue." })),
        reply("Sleep.", bash("sleep 60")),
        reply("Say more.", json!({ "text": "More." })),
    ])))
    .setting("permission", json!({ "bash": { "*": "allow", "rm *": "deny" } }));
    site.file(".env", "COLOUR=blue\n");
    site
}

/// A server with the sessions of two prompts; the second one was denied a call.
fn served(site: &Site) -> Served {
    let server = Served::start(site);
    for prompt in ["Remove it.", "Fill the list."] {
        server.prompt(&server.session(), prompt);
    }
    server
}

fn overview(server: &Served) -> Value {
    let read = || server.get("/leftfold/overview").ok();
    common::wait_until("all logs are read", || read()["is_all"] == true);
    read()
}

/// Leftfold's id of the session that was changed last.
fn last(server: &Served) -> String {
    overview(server)["sessions"][0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn the_page_is_protected_as_the_api_is() {
    let site = site().env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let mut server = Served::start(&site);
    for path in ["/", "/leftfold/page.css", "/leftfold/overview", "/leftfold/run/x/block/run"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    server.login = Some(LOGIN.to_owned());
    server.prompt(&server.session(), "Fill the list.");
    let run = format!("/leftfold/run/{}", last(&server));
    let page = server.get("/");
    assert_eq!(page.status, 200, "{page:?}");
    for part in ["content-type: text/html", "default-src 'none'", "script-src 'self';"] {
        assert!(page.headers.contains(part), "{part}: {page:?}");
    }
    assert!(!page.headers.contains("unsafe-"), "{page:?}");
    // everything that the page and its modules ask for is there
    let mut wanted: Vec<String> = vec!["page.css".to_owned(), "live.js".to_owned()];
    let mut known = 0;
    while let Some(name) = wanted.get(known).cloned() {
        known += 1;
        let file = server.get(&format!("/leftfold/{name}"));
        let kind = if name.ends_with(".css") { "text/css" } else { "text/javascript" };
        assert_eq!(file.status, 200, "{name}");
        assert!(file.headers.contains(&format!("content-type: {kind}")), "{file:?}");
        let imports = file.body.lines().filter_map(|line| {
            line.strip_prefix("import ")?.split("\"./").nth(1)?.strip_suffix('"')
        });
        let new: Vec<String> = imports.map(str::to_owned).collect();
        wanted.extend(new.into_iter().filter(|name| !wanted.contains(name)).collect::<Vec<_>>());
    }
    assert!(known > 15, "{wanted:?}");
    for path in ["/leftfold/none.js", "/leftfold/../page.css", "/index.html"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
    for name in ["none", "chunk-0-99", "chunk-9-0", "texts-99", "chunk--1", "run-1", "compare"] {
        assert_eq!(server.get(&format!("{run}/block/{name}")).status, 404, "{name}");
    }
    assert_eq!(server.get(&format!("{run}/block/run?epoch=other")).status, 409);
    let json = ("content-type", "application/json");
    for (headers, status) in [
        (vec![json, ("origin", "https://evil.example")], 403),
        (vec![json, ("host", "evil.example")], 403),
        (vec![json, ("sec-fetch-site", "cross-site")], 403),
        (vec![("content-type", "text/plain")], 415),
    ] {
        for (what, body) in [("fork", r#"{"at":3}"#), ("revert", r#"{"to":3}"#)] {
            let refused = server.request("POST", &format!("{run}/{what}"), &headers, Some(body));
            assert_eq!(refused.status, status, "{what} {headers:?}: {refused:?}");
        }
    }
    server.end();
}

/// Reads frames of a page's feed up to the first of this kind, with its cursor.
fn frame(stream: &mut impl BufRead, kind: &str) -> (String, Value) {
    let (mut event, mut id) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the feed ended");
        if let Some(name) = line.strip_prefix("event: ") {
            name.trim().clone_into(&mut event);
        } else if let Some(cursor) = line.strip_prefix("id: ") {
            cursor.trim().clone_into(&mut id);
        } else if let Some(data) = line.strip_prefix("data: ")
            && event == kind
        {
            return (id, serde_json::from_str(data).unwrap());
        }
    }
}

#[test]
fn a_page_goes_on_from_its_cursor() {
    let site = site();
    let server = served(&site);
    let (session, run) = (last(&server), format!("/leftfold/run/{}", last(&server)));
    let first = server.get(&format!("{run}/block/run")).ok();
    let cursor = first["cursor"].as_str().unwrap().to_owned();
    let count = |data: &Value| data["logs"][0]["columns"]["at"].as_array().unwrap().len();
    let known = count(&first);
    let api = server.get("/session").ok();
    let id = api[0]["id"].as_str().unwrap();
    let feed = |path: &str, last: &str| server.send("GET", path, &[("last-event-id", last)], None);
    let mut reader = feed(&format!("{run}/feed?after={cursor}"), &cursor);
    server.prompt(id, "Say more.");
    let (mut end, mut seen) = (cursor.clone(), 0);
    while seen == 0 || !frame_is_last(&server, &run, known + seen) {
        let (id, data) = frame(&mut reader, "run");
        assert_eq!(data["logs"][0]["from"], known + seen);
        seen += count(&data);
        end = id;
    }
    // the header of a browser that connects again counts, and not the cursor in its address
    let path = format!("{run}/feed?after={cursor}");
    let mut again = feed(&path, &end);
    server.prompt(id, "Say more.");
    assert_eq!(frame(&mut again, "run").1["logs"][0]["from"], known + seen);
    // after a kill the run is read again, and the page is told
    server.kill();
    let server = Served::start(&site);
    let mut other = server.send("GET", &path, &[("last-event-id", &end)], None);
    frame(&mut other, "reload");
    let whole = server.get(&format!("{run}/block/run")).ok();
    let exported = site.run(&["export", &session]).ok().events();
    assert_eq!(count(&whole), exported.len());
    server.end();
}

/// Whether the run has this many events.
fn frame_is_last(server: &Served, run: &str, count: usize) -> bool {
    let whole = server.get(&format!("{run}/block/run")).ok();
    whole["logs"][0]["columns"]["at"].as_array().unwrap().len() == count
}

#[test]
fn a_run_of_another_process_is_shown_while_it_goes_on() {
    let site = site();
    let mut live = site.start(&["run", "--format", "json", "Sleep."]);
    live.until("tool.started");
    let server = Served::start(&site);
    let run = format!("/leftfold/run/{}", last(&server));
    let first = server.get(&format!("{run}/block/run")).ok();
    assert_eq!(first["logs"][0]["running"], true);
    let cursor = first["cursor"].as_str().unwrap();
    let mut reader = server.send("GET", &format!("{run}/feed?after={cursor}"), &[], None);
    live.signal(Signal::INT);
    let mut ended = Value::Null;
    while ended.is_null() {
        ended = frame(&mut reader, "run").1["logs"][0]["ended"].clone();
    }
    assert_eq!(ended, "aborted");
    live.wait();
    server.end();
}

#[test]
fn view_prints_the_address_of_a_page() {
    let site = site();
    site.prompt("Say more.").ok();
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    for (args, query) in
        [(vec!["view"], String::new()), (vec!["view", "last"], format!("?session={id}"))]
    {
        let mut live = site.start(&[args, vec!["--no-open"]].concat());
        let line = live.line().unwrap();
        let url = line.trim();
        let port = url.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next());
        assert!(url.ends_with(&format!("/{query}")), "{url}");
        let mut stream =
            std::net::TcpStream::connect(("127.0.0.1", port.unwrap().parse().unwrap())).unwrap();
        let request =
            format!("GET /{query} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let page = crate::client::Answered::read(stream);
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.body.contains("/leftfold/live.js"), "{page:?}");
        live.signal(Signal::TERM);
        live.wait();
    }
    site.run(&["view", "none", "--no-open"]).with(2);
}

/// Everything that the page can do, with a password, through a connection that is cut.
#[test]
fn the_live_page_in_a_browser() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::installed() else { return };
    let site = site().env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let serve = |port: &str| {
        let mut server = Served::from_command(site.command(&["serve", "--port", port]));
        server.login = Some(LOGIN.to_owned());
        server
    };
    let mut server = serve("0");
    for prompt in ["Remove it.", "Fill the list."] {
        server.prompt(&server.session(), prompt);
    }
    overview(&server);
    let port = server.port.to_string();
    let proxy = Proxy::to(server.port);
    let folder = site.path("browser");
    std::fs::create_dir(&folder).unwrap();
    let mut command = Command::new(peers.node());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/live_page.mjs"));
    command.arg(chromium).arg(&folder);
    command.arg(format!("http://opencode:secret@127.0.0.1:{}/", proxy.port));
    command.env("HOME", &folder).stdin(Stdio::piped());
    let mut client = Live::start(command);
    let mut input = client.input();
    let mut random = Random::seeded();
    let (mut passed, mut failed, mut done) = (Vec::new(), Vec::new(), false);
    while let Some(line) = client.line() {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let text = |name: &str| said[name].as_str().unwrap_or_default();
        let answer = match text("ask") {
            "states" => {
                let most = usize::try_from(said["most"].as_u64().unwrap()).unwrap();
                states(&site, text("session"), &mut random, most)
            }
            "cut" => {
                proxy.cut();
                proxy.mend();
                json!({})
            }
            "restart" => {
                proxy.cut();
                server.kill();
                server = serve(&port);
                proxy.mend();
                json!({})
            }
            "diff" => {
                let ran = site.run(&["diff", text("a"), text("b"), "--format", "json"]);
                serde_json::from_str(&ran.with(1).stdout).unwrap()
            }
            "last_prompt" => {
                let events = site.run(&["export", text("session")]).ok().events();
                let prompts = all(&events, "turn.prompted");
                json!({ "seq": prompts.last().unwrap()["seq"] })
            }
            _ => {
                if said["error"].is_string() {
                    failed.push(said);
                } else if said["done"] == true {
                    done = true;
                } else {
                    passed.push(said["step"].clone());
                }
                continue;
            }
        };
        writeln!(input, "{answer}").unwrap();
    }
    common::browser::keep_screenshots(&folder);
    assert!(failed.is_empty() && done, "passed: {passed:?}\n{failed:#?}");
    assert!(passed.len() >= 11, "{passed:?}");
    server.end();
}

/// Seqs of a session, each with the state that `replay` prints.
fn states(site: &Site, session: &str, random: &mut Random, most: usize) -> Value {
    let events = site.run(&["export", session]).ok().events();
    let mut seqs: Vec<u64> = (1..=events.len() as u64).collect();
    random.shuffle(&mut seqs);
    let state = |seq: &u64| {
        let at = seq.to_string();
        let printed = site.run(&["replay", session, "--at", &at, "--state"]).ok().stdout;
        json!({ "seq": seq, "state": serde_json::from_str::<Value>(&printed).unwrap() })
    };
    json!({ "states": seqs.iter().take(most).map(state).collect::<Vec<_>>() })
}
