//! MCP servers that violate the protocol: the usable part is used, and nobody waits for the rest.

use std::time::Instant;

use common::{Editor, STEP_TIMEOUT, Site, all, call, end, exists, mcp, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A shell script that is a server: it answers by method, `$id` is the request's id.
const SERVER: &str = r#"
say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
        *'"method":"initialize"'*) INITIALIZE ;;
        *'"method":"tools/list"'*) LIST ;;
        *'"method":"tools/call"'*) CALL ;;
    esac
done
"#;

const BEGINS: &str = r#"say '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}'"#;

const LISTS: &str = r#"say '"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}'"#;

const CALLED: &str = r#"say '"result":{"content":[{"type":"text","text":"fine"}]}'"#;

/// A model that calls the tool `t` of a server with these reactions to `initialize`, to listing its
/// tools, and to a call.
fn site(begins: &str, lists: &str, called: &str) -> Site {
    let server = SERVER.replace("INITIALIZE", begins).replace("LIST", lists);
    let server = server.replace("CALL", called);
    // longer than any test waits, so that errors are not timeouts
    let limit = u64::try_from(STEP_TIMEOUT.as_millis()).unwrap() * 5;
    let server = json!({ "command": ["sh", "-c", server], "timeout": limit });
    let site = Site::scripted(&script(json!([call("m_t", json!({})), says("So be it.")])));
    site.setting("/mcp", json!({ "m": server })).setting("/permission", json!("allow"))
}

/// The result of the call. Checks that no process of the server is left.
fn result(site: &Site) -> Value {
    let began = Instant::now();
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    let events = live.wait().ok().events();
    assert!(began.elapsed() < STEP_TIMEOUT * 4, "the limit of the call was waited for");
    assert_eq!(end(&events)["text"], "So be it.");
    assert_eq!(mcp::servers_of(node), [0; 0]);
    site.assert_sound();
    all(&events, "tool.finished")[0]["data"].clone()
}

#[test]
fn an_answer_that_can_not_be_read_fails_its_call_at_once() {
    for called in [
        r#"say '"result":{"structuredContent":{"n":NaN}}'"#,
        r#"printf '{"result":{"x":"%s"},"jsonrpc":"2.0","id":%s}\n' "$(head -c 17000000 /dev/zero | tr '\0' x)" "$id""#,
    ] {
        let result = result(&site(BEGINS, LISTS, called));
        let said = result["output"].as_str().unwrap();
        assert!(said.contains("answer cannot be read") && result["is_error"] == true, "{said}");
    }
}

/// 300,000 parts take up some hundred megabytes as values. The server stays in use.
#[test]
fn an_answer_of_too_many_parts_is_not_read() {
    let part = r#",{"type":"text","text":"x"}"#;
    let parts = format!("yes '{part}' | head -n 300000 | tr -d '\\n'");
    let begin = r#"printf '{"result":{"content":[{"type":"text","text":"x"}'"#;
    let end = r#"printf ']},"jsonrpc":"2.0","id":%s}\n' "$id""#;
    let result = result(&site(BEGINS, LISTS, &format!("{begin}; {parts}; {end}")));
    let said = result["output"].as_str().unwrap();
    assert!(said.contains("more than 262144 values") && result["is_error"] == true, "{said}");
}

#[test]
fn what_can_be_mended_in_an_answer_is() {
    for (called, said) in [
        (r#"say '"result":{"content":[{"type":"text","text":"a \ud83d b"}]}'"#, "a \u{fffd} b"),
        (r#"say '"result":{"content":[{"type":"new"},{"type":"text","text":"b"}]}'"#, "\nb"),
        (r#"say '"result":{}'"#, "(no output)"),
    ] {
        let result = result(&site(BEGINS, LISTS, called));
        let told = result["output"].as_str().unwrap();
        assert!(told.ends_with(said) && result["is_error"] == false, "{told:?}");
    }
}

/// The server is also silent when asked for its prompts.
#[test]
fn what_is_wrong_with_its_lists_takes_no_tool_away() {
    for lists in [
        r#"say '"result":{"tools":[{"name":"t"},{"inputSchema":{}}]}'"#,
        r#"say '"result":{"nextCursor":"c","tools":[{"name":"t","inputSchema":{"type":"object"}}]}'"#,
    ] {
        let begins = BEGINS.replace(r#""tools":{}"#, r#""tools":{},"prompts":{}"#);
        assert_eq!(result(&site(&begins, lists, CALLED))["output"], "fine");
    }
}

#[test]
fn nothing_is_fetched_because_a_schema_refers_to_it() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refers = format!(r#"{{"$ref":"http://{}/x"}}"#, listener.local_addr().unwrap());
    let schema = format!(r#"{{"type":"object","properties":{{"a":{refers}}}}}"#);
    let lists = format!(
        r#"say '"result":{{"tools":[{{"name":"t","inputSchema":{schema},"outputSchema":{refers}}}]}}'"#
    );
    let called = r#"say '"result":{"content":[],"structuredContent":{"a":1}}'"#;
    assert_eq!(result(&site(BEGINS, &lists, called))["is_error"], false);
    listener.set_nonblocking(true).unwrap();
    let reached = listener.accept().err().map(|error| error.kind());
    assert_eq!(reached, Some(std::io::ErrorKind::WouldBlock));
}

/// Warnings are shown by default. A conversation writes them to a file to keep its terminal clean.
#[test]
fn warnings_are_seen_without_a_setting() {
    let lists = r#"say '"result":{"tools":[{"name":"t"},{"name":7,"inputSchema":{}},{"name":8,"inputSchema":{}}]}'"#;
    let warning = "WARN a server's tool 7 is left out";
    let site = site(BEGINS, lists, CALLED);
    let ran = site.run(&["run", "--format", "json", "go"]).ok();
    assert_eq!(ran.stderr.matches("WARN").count(), 1, "{ran:?}");
    assert!(ran.stderr.contains(warning), "{ran:?}");
    let log = site.path("home/leftfold.log");
    assert!(!exists(&log));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until("So be it.");
    terminal.until_prompt().press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.shown().contains("WARN"), "{}", terminal.shown());
    let logged = std::fs::read_to_string(&log).unwrap();
    assert!(logged.contains(warning), "{logged}");
}

/// `LEFTFOLD_LOG` shows which session, turn and call a line belongs to.
#[test]
fn lines_of_the_log_say_what_they_belong_to() {
    let site = site(BEGINS, LISTS, CALLED).env("LEFTFOLD_LOG", "leftfold=debug");
    let ran = site.run(&["run", "--format", "json", "go"]).ok();
    let session = ran.events()[0]["session"].as_str().unwrap().to_owned();
    for part in ["seq=3}:request{seq=4 purpose=Turn", "seq=3}:call{seq=5 tool=m_t attempt=1}"] {
        let line = format!("turn{{session={session} {part}");
        assert!(ran.stderr.contains(&line), "{line}: {}", ran.stderr);
    }
}

#[test]
fn why_it_does_not_begin_is_told() {
    let refuses = r#"say '"error":{"code":-32603,"message":"no licence"}'"#;
    for (begins, why) in [
        (refuses, "it refused `initialize`: "),
        (refuses, "no licence"),
        (r#"say '"result":{}'"#, "its answer to `initialize`"),
    ] {
        let site = site(begins, LISTS, CALLED);
        let ran = site.run(&["mcp"]);
        assert!(ran.stdout.contains(why), "{ran:?}");
    }
}

#[test]
fn what_is_being_started_ends_with_an_interrupt() {
    let server = json!({ "command": ["sh", "-c", "touch started; sleep 1000"], "cwd": "{project}", "timeout": 600_000 });
    let site = Site::scripted(&script(json!([says("Done.")])));
    let site = site.setting("/mcp", json!({})).setting("/mcp", json!({ "m": server }));
    let live = site.start(&["run", "--format", "json", "go"]);
    let node = live.id();
    wait_until("the server is started", || exists(&site.project().join("started")));
    live.signal(Signal::INT);
    assert_eq!(live.wait().code, 130);
    wait_until("the server is gone", || mcp::servers_of(node).is_empty());
}

#[test]
fn an_editor_is_shown_a_session_whose_server_does_not_start() {
    let site = Site::scripted(&script(json!([says("So be it.")])));
    let events = site.prompt("go").ok().events();
    let session = events[0]["session"].as_str().unwrap();
    // longer than anything here waits
    let server = json!({ "command": ["sleep", "1000"], "timeout": 3_600_000 });
    let site = site.setting("/mcp", json!({ "m": server }));
    for method in ["session/load", "session/resume"] {
        let mut editor = Editor::start(&site, &[]);
        let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
        let asked = editor.ask(method, params);
        editor.result(asked);
        editor.leave();
    }
}
