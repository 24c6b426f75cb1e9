//! Several servers and editors on one store: one process is the node, the others pass their clients on
//! to it, and one of them takes over when it ends.

use std::process::Command;

use common::{Editor, Site, bash, exists, says, script, skipped, wait_until};
use rustix::process::Signal;
use serde_json::json;

use crate::client::{Answered, Served, SseFrame, SseReader};

fn site() -> Site {
    Site::scripted(&script(json!([says("Hello.")])))
        .setting("provider/double/options/script/on_end", json!("repeat"))
}

/// Sessions run a command until a file `go` is there, and then answer.
fn waiting() -> Site {
    let command = "touch ready; while [ ! -e go ]; do sleep 0.02; done; echo went";
    let turn = [bash(command), says("Done.")];
    Site::scripted(&script(json!([turn.clone(), turn].concat())))
        .setting("provider/double/options/script/on_end", json!("repeat"))
        .setting("/permission", json!({ "*": "allow", "unreadable": "allow" }))
}

fn is_idle(frame: &SseFrame) -> bool {
    frame.kind == "session.idle"
}

/// A feed that has begun.
fn feed(server: &Served) -> SseReader {
    let mut feed = server.feed(None);
    assert_eq!(feed.next().unwrap().kind, "server.connected");
    feed
}

/// The text that the frames stream.
fn streamed(frames: &[SseFrame]) -> String {
    let deltas = frames.iter().filter(|frame| frame.kind == "message.part.delta");
    deltas.filter_map(|frame| frame.properties["delta"].as_str()).collect()
}

#[test]
fn a_second_server_has_the_sessions_of_the_first() {
    let site = site();
    let first = Served::start(&site);
    let one = first.session();
    let second = Served::start(&site);
    let two = second.session();
    let mut feed = feed(&first);
    // each answers prompts in the session of the other, and the feed has both
    for (server, session) in [(&second, &one), (&first, &two), (&second, &two)] {
        let answer = server.prompt(session, "hi");
        assert!(answer["parts"].to_string().contains("Hello."), "{answer}");
        assert!(streamed(&feed.until(is_idle)).contains("Hello."));
    }
    assert_eq!(first.sessions(), second.sessions());
    assert_eq!(first.sessions().len(), 2);
    assert_eq!(site.sessions(), [site.path("home/store")]);
    first.end();
    // the second one has the store now
    assert!(second.prompt(&one, "again")["parts"].to_string().contains("Hello."));
    let third = Served::start(&site);
    assert_eq!(third.sessions(), second.sessions());
    second.end();
    assert!(third.prompt(&two, "again")["parts"].to_string().contains("Hello."));
    third.end();
}

/// Several wait for the store: one gets it, and the others go on through that one.
#[test]
fn whichever_server_is_killed_the_others_go_on() {
    let site = site();
    let mut servers: Vec<Served> = (0..4).map(|_| Served::start(&site)).collect();
    let session = servers[3].session();
    while servers.len() > 1 {
        servers.remove(0).kill();
        for server in &servers {
            assert!(server.prompt(&session, "hi")["parts"].to_string().contains("Hello."));
        }
    }
    let messages = servers[0].get(&format!("/session/{session}/message")).ok();
    assert_eq!(messages.as_array().unwrap().len(), 2 * (3 + 2 + 1), "{messages}");
    servers.remove(0).end();
}

/// Each server has its own address, password and pages, whichever process answers.
#[test]
fn requests_through_a_second_server_are_checked_by_its_own_rules() {
    let site = site();
    let first = Served::start(&site);
    let page = "https://app.example";
    let second = Served::from_command(site.command(&["serve", "--port", "0", "--cors", page]));
    let mut command = site.command(&["serve", "--port", "0"]);
    command.env("LEFTFOLD_SERVER_PASSWORD", "secret");
    let mut locked = Served::from_command(command);
    let status = |server: &Served, headers: &[(&str, &str)]| {
        server.request("GET", "/session", headers, None).status
    };
    for headers in [
        [("host", "evil.example")],
        [("origin", "http://localhost:3000")],
        [("origin", "null")],
        [("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!((status(&first, &headers), status(&second, &headers)), (403, 403));
    }
    // the page of one server is not that of the other, and an own origin has its own port
    let own = format!("http://127.0.0.1:{}", second.port);
    for (origin, expected) in [(page, (403, 200)), (own.as_str(), (403, 200))] {
        let headers = [("origin", origin)];
        assert_eq!((status(&first, &headers), status(&second, &headers)), expected, "{origin}");
    }
    assert_eq!(status(&locked, &[]), 401);
    // opencode:Secret
    assert_eq!(status(&locked, &[("authorization", "Basic b3BlbmNvZGU6U2VjcmV0")]), 401);
    locked.login = Some("Basic b3BlbmNvZGU6c2VjcmV0".to_owned());
    assert_eq!(status(&locked, &[]), 200);
    assert_eq!(status(&locked, &[("host", "evil.example")]), 403);
    // also once it has the store itself
    first.kill();
    second.kill();
    assert_eq!(status(&locked, &[]), 200);
    locked.login = None;
    assert_eq!(status(&locked, &[]), 401);
    locked.end();
}

/// Each server has a front end of its own.
#[test]
fn a_second_server_has_its_own_front_end_and_directory() {
    let site = site();
    site.file("web/index.html", "<p>a page</p>");
    let first = Served::start(&site);
    let folder = site.project().join("web");
    let args = ["serve", "--port", "0", "--web", "web", "--directory", "web"];
    let second = Served::from_command(site.command(&args));
    assert!(first.get("/").body.contains("<title>Leftfold</title>"));
    assert_eq!(second.get("/").body, "<p>a page</p>");
    let of = |server: &Served| server.get("/path").ok()["directory"].clone();
    assert_eq!(of(&second), json!(folder.canonicalize().unwrap()));
    assert_eq!(of(&first), json!(site.project().canonicalize().unwrap()));
    first.end();
    second.end();
}

/// Asks the node over its socket to carry HTTP, as a second server does, with a guard of its own.
const CLIENT: &str = r#"
import json, os, socket, sys
os.chdir(os.path.join(os.environ["HOME"], "..", "home", "store"))
node = socket.socket(socket.AF_UNIX)
node.connect("socket")
options = {"hostname": "127.0.0.1", "cors": [], "credentials": None, "web": None, "directory": "/"}
params = {"protocol": "http", "options": options}
request = {"jsonrpc": "2.0", "id": 1, "method": "_leftfold/speak", "params": params}
node.sendall((json.dumps(request) + "\n").encode())
answer = json.loads(node.makefile("r").readline())
print("socket:", answer["error"]["code"] if "error" in answer else "ok")
"#;

/// A command of a session gets nothing: not from the second server, and not from the node's socket.
#[test]
fn a_command_of_a_session_gets_nothing_from_a_second_server() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("python3 is not installed");
        return;
    }
    let command = "python3 client.py; for port in $(cat ports); do exec 3<>/dev/tcp/127.0.0.1/$port && \
        printf 'GET /session HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && cat <&3; echo; done";
    let site = Site::scripted(&script(json!([bash(command), says("Done.")])))
        .setting("/permission", json!({ "*": "allow", "unreadable": "allow" }))
        .unsandboxed();
    let first = Served::start(&site);
    let second = Served::start(&site);
    site.file("client.py", CLIENT);
    site.file("ports", format!("{} {}", first.port, second.port));
    let session = second.session();
    second.prompt(&session, "go");
    let messages = second.get(&format!("/session/{session}/message")).ok().to_string();
    assert!(messages.contains("socket: -32003"), "{messages}");
    assert_eq!(messages.matches("HTTP/1.1 403 Forbidden").count() % 2, 0, "{messages}");
    assert!(messages.contains("403 Forbidden") && !messages.contains("200 OK"), "{messages}");
    // the client that the command imitates is answered if it is a person's
    let asked = Command::new("python3")
        .arg(site.project().join("client.py"))
        .env("HOME", site.path("home"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "socket: ok\n", "{asked:?}");
    first.end();
    second.end();
}

/// An editor's process has the store. Its running turn is shown as running, and goes on; when the
/// editor is killed, the server takes over, shows the turn as cut off, and resumes it.
#[test]
fn a_server_works_through_the_node_of_an_editor() {
    let site = waiting();
    let (ready, go) = (site.project().join("ready"), site.project().join("go"));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "go");
    wait_until("its command runs", || exists(&ready));

    let server = Served::start(&site);
    let sessions = server.sessions();
    let of_editor = sessions.first().unwrap();
    let busy = server.get("/session/status").ok();
    assert_eq!(busy[of_editor]["type"], "busy", "{busy}");
    let mut feed = feed(&server);
    site.file("go", "");
    let frames = feed.until(is_idle);
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    assert!(streamed(&frames).contains("Done."), "{frames:#?}");
    // the editor sees what comes over HTTP
    std::fs::remove_file(&go).unwrap();
    std::fs::remove_file(&ready).unwrap();
    server.begin(of_editor, "and from HTTP");
    editor.until(|message| message.to_string().contains("and from HTTP"));
    wait_until("its command runs again", || exists(&ready));
    let running = |frame: &SseFrame| frame.properties["part"]["state"]["status"] == "running";
    let last = feed.until(running).pop().unwrap();

    editor.live.signal(Signal::KILL);
    editor.live.wait();
    let mut feed = server.feed(Some(&last.id));
    feed.until(is_idle);
    assert_eq!(server.get("/session/status").ok(), json!({}));
    site.file("go", "");
    assert_eq!(server.post(&format!("/session/{of_editor}/resume"), json!({})).ok(), json!(true));
    assert_eq!(streamed(&feed.until(is_idle)), "Done.");
    server.end();
    site.run(&["check", &session]).ok();
    site.run(&["verify", &session]).ok();
}

/// The feed cannot be opened in the node: the server says so, and tries again with the next client.
#[test]
fn a_feed_that_failed_opens_again() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    editor.session(&site);
    let journal = site.path("home/store/feed");
    std::fs::create_dir(&journal).unwrap();
    let server = Served::start(&site);
    for _ in 0..2 {
        assert_ne!(Answered::status_of(server.connect(), "/session"), 200);
    }
    std::fs::remove_dir(&journal).unwrap();
    let session = server.session();
    server.prompt(&session, "go");
    assert!(server.sessions().contains(&session));
    assert_eq!(feed(&server).next().unwrap().kind, "session.updated");
    server.end();
}

#[test]
fn three_editors_and_a_server_share_a_store() {
    let site = waiting();
    let server = Served::start(&site);
    let mut editors: Vec<(Editor, String, u64)> = Vec::new();
    for name in ["a", "b", "c"] {
        let folder = site.project().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let mut editor = Editor::start(&site, &[]);
        let id = editor.ask("session/new", json!({ "cwd": folder, "mcpServers": [] }));
        let session = editor.result(id)["sessionId"].as_str().unwrap().to_owned();
        let prompt = editor.prompt(&session, "go");
        wait_until("its command runs", || exists(&folder.join("ready")));
        editors.push((editor, session, prompt));
    }
    let busy = server.get("/session/status").ok();
    assert_eq!(busy.as_object().unwrap().len(), 3, "{busy}");
    // one of the editors takes over, and the server works through it
    let second = Served::start(&site);
    server.kill();
    for name in ["a", "b", "c"] {
        site.file(&format!("{name}/go"), "");
    }
    for (editor, session, prompt) in &mut editors {
        assert_eq!(editor.stop_reason(*prompt), "end_turn");
        assert!(editor.text(session, "agent_message_chunk").ends_with("Done."));
    }
    let folder = site.project().join("c");
    let listed = second.get(&format!("/session?directory={}", folder.display())).ok();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let own = second.session();
    site.file("go", "");
    assert!(second.prompt(&own, "go")["parts"].to_string().contains("Done."));
    let sessions: Vec<String> = editors
        .into_iter()
        .map(|(editor, session, _)| {
            editor.leave();
            session
        })
        .collect();
    assert!(second.prompt(&own, "again")["parts"].to_string().contains("Done."));
    second.end();
    for session in &sessions {
        site.run(&["check", session]).ok();
        site.run(&["verify", session]).ok();
    }
}
