//! Canaries: secrets planted in every place where a session may meet one. They must not appear in
//! the log, in the files beside it, or in anything printed, sent or shown. Parts of them count, and
//! so do their base64, JSON and percent encodings.
//!
//! `LEFTFOLD_CANARIES` sets their number (default and minimum 12), `LEFTFOLD_SEED` their values.

use common::{
    Answer, Canary, Editor, Peer, Search, Server, Site, Tally, all, base64, bash, call, says,
    script, url,
};
use serde_json::{Value, json};

/// Settings with all canaries, which commands also have in their environment.
pub(crate) fn planted(mut site: Site, search: &Search) -> Site {
    let names: Vec<&str> = search.canaries.iter().map(|canary| canary.name.as_str()).collect();
    site = site.setting("environment", json!(names)).setting("secrets", json!({}));
    for (index, Canary { name, value, .. }) in search.canaries.iter().enumerate() {
        let given = if index % 3 == 0 { json!(value) } else { json!(format!("{{env:{name}}}")) };
        site = site.setting(&format!("secrets/{name}"), given).env(name, value);
    }
    let everything = search.everything();
    site.file("notes.txt", format!("first\n{everything}\nlast\n"));
    site.file("notes.json", json!({ "notes": everything }).to_string());
    site.file("notes.url", url(&everything));
    site.file("AGENTS.md", format!("Remember {everything}.\n"));
    site
}

/// A session that meets all canaries, with the place that each step covers.
fn steps(search: &Search) -> Vec<(&'static str, Value)> {
    let everything = search.everything();
    let first = &search.canaries[0].value;
    let todo =
        json!({ "todos": [{ "content": everything, "status": "pending", "priority": "low" }] });
    let task = json!({ "description": "Look", "prompt": format!("child {everything}"), "subagentType": "general" });
    let entry = json!({ "tool": "read", "parameters": { "filePath": "notes.json" } });
    let encoded =
        "for skip in '' x xx; do (printf '%s' \"$skip\"; cat notes.txt) | base64 -w0; echo; done";
    let named =
        search.canaries.iter().map(|c| format!("printf '%s\\n' '{{{{secret:{}}}}}'", c.name));
    // a quote in a canary would end the value
    let named: Vec<String> = named.step_by(2).collect();
    vec![
        (
            "text and reasoning in pieces",
            json!({ "chunk": 3, "parts": [
                { "reasoning": everything, "signature": "s" },
                { "text": everything },
                { "call": { "name": "read", "input": { "filePath": "notes.txt" } } },
            ] }),
        ),
        ("a file in JSON", call("read", json!({ "filePath": "notes.json" }))),
        ("a file, percent-encoded", call("read", json!({ "filePath": "notes.url" }))),
        ("matching lines", call("grep", json!({ "pattern": "[a-z]" }))),
        ("a pattern", call("grep", json!({ "pattern": everything }))),
        (
            "output and errors of a command",
            bash("cat notes.txt; cat notes.json >&2; cat notes.url"),
        ),
        ("the environment", bash("env; export")),
        ("base64", bash(encoded)),
        ("output that is too long", bash("for i in $(seq 200); do cat notes.txt; done")),
        ("a command", bash(&format!("cat <<'EOF'\n{everything}\nEOF"))),
        ("arguments by name", bash(&named.join("; "))),
        ("a new file", call("write", json!({ "filePath": "new.txt", "content": everything }))),
        (
            "a change",
            call(
                "edit",
                json!({ "filePath": "notes.txt", "oldString": first, "newString": format!("{first}!") }),
            ),
        ),
        ("a folder", call("read", json!({ "filePath": "." }))),
        ("a path that does not exist", call("read", json!({ "filePath": format!("x/{first}") }))),
        ("a tool that does not exist", call(first, json!({ "x": everything }))),
        ("arguments that do not fit", call("edit", json!({ "filePath": first, "x": everything }))),
        ("a list of things to do", call("todowrite", todo)),
        ("a batch", call("batch", json!({ "tool_calls": [entry] }))),
        ("a child", call("task", task)),
        ("the answer", says(&everything)),
    ]
}

/// A script of [`steps`], with its child, title and summary.
pub(crate) fn replies(search: &Search) -> Value {
    let everything = search.everything();
    let mut replies: Vec<Value> = steps(search).into_iter().map(|(_, reply)| reply).collect();
    let of_child = |answers: usize, parts: Value| json!({ "match": { "prompt": "child", "answers": answers }, "parts": parts });
    let read = json!([{ "call": { "name": "read", "input": { "filePath": "notes.txt" } } }]);
    replies.push(of_child(0, read));
    replies.push(of_child(1, json!([{ "text": everything }])));
    let of = |purpose: &str| json!({ "match": { "purpose": purpose }, "parts": [{ "text": everything }] });
    // cut within the value
    let title = format!("{} {}", "x".repeat(74), search.canaries[0].value);
    replies.push(json!({ "match": { "purpose": "title" }, "parts": [{ "text": title }] }));
    replies.push(of("compaction"));
    json!(replies)
}

/// Runs one prompt with JSON lines and one with text, and searches everything that shows them.
fn in_sessions(search: &mut Search) {
    let site =
        planted(Site::scripted(&script(replies(search))), search).setting("title", json!(true));
    let prompt = format!("go {}", search.everything());
    let ran = site.prompt(&prompt).ok();
    search.look_at("run --format json", &ran);
    let events = ran.events();
    let output = |at: usize| all(&events, "tool.finished")[at]["data"]["output"].to_string();
    assert!(output(0).contains("{{secret:CANARY_1}}"), "{}", output(0));
    assert!(all(&events, "tool.finished").len() >= 18, "{events:?}");
    search.look_back(&site);
    let ran = site.run(&["compact", "last", "--format", "json"]).ok();
    search.look_at("compact", &ran);
    search.look_back(&site);
    assert!(site.text("new.txt").contains(&search.canaries[1].value), "the file has the values");

    let site =
        planted(Site::scripted(&script(replies(search))), search).env("LEFTFOLD_LOG", "trace");
    let ran = site.run(&["run", &prompt]).ok();
    search.look_at("run", &ran);
    let args = format!(r#"{{"command":"cat notes.txt; env; echo {}"}}"#, "'{{secret:CANARY_0}}'");
    search.look_at("tool", &site.run(&["tool", "bash", "--args", &args]).ok());
    search.look_below(&site.path("home"));
    search.places.extend(steps(search).into_iter().map(|(place, _)| place));
    search
        .places
        .extend(["the prompt", "instructions", "the title", "a summary", "a child's file"]);
}

/// Keys, headers, and texts that a server sends back.
fn at_a_provider(search: &mut Search) {
    let values: Vec<String> = search.canaries.iter().map(|canary| canary.value.clone()).collect();
    // a header must be one line
    let lines: Vec<String> =
        values.into_iter().filter(|v| v.is_ascii() && !v.contains('\n')).collect();
    let lines = &lines[..5];
    let [key, authorization, own, stored, variable] = lines else { unreachable!() };
    // the last is cut within the key
    for (status, before) in [(400, 0), (401, 0), (403, 0), (429, 0), (500, 0), (400, 985)] {
        let echo = format!("{}{}", "x".repeat(before), lines.join(", "));
        let error = json!({ "type": "authentication_error", "message": echo });
        let body = json!({ "error": error }).to_string();
        let header = format!("x-echo: {echo}");
        let answer = || Answer::Status(status, vec![header.clone()], body.clone());
        let server = Server::start(vec![answer(), answer()]);
        let site = Site::served(&server)
            .setting("retry/attempts", json!(1))
            .setting("provider/local/options/apiKey", json!(key))
            .setting(
                "provider/local/options/headers",
                json!({ "x-own": own, "Authorization": format!("Bearer {authorization}") }),
            )
            .env("OPENAI_API_KEY", variable)
            .env("LEFTFOLD_LOG", "trace");
        let keys = json!({ "xai": { "type": "api", "key": stored } });
        let file = site.path("home/auth.json");
        std::fs::write(&file, keys.to_string()).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
        let ran = site.prompt(&format!("go {stored} {variable} {own} {authorization} {key}"));
        assert_eq!(ran.code, 1, "{ran:?}");
        search.look_at(&format!("run, answered with {status}"), &ran);
        search.look_at("export", &site.run(&["export", "last"]).ok());
        search.look_below(&site.path("home"));
        search.look_at("run as text", &site.run(&["run", "again"]));
    }
    search.places.extend([
        "a key", "a header", "an Authorization", "a stored key", "a variable", "a server's error",
    ]);
}

/// Updates and questions sent to editors.
fn in_an_editor(search: &mut Search) {
    let everything = search.everything();
    let first = search.canaries[0].value.clone();
    let replies = json!([
        bash(&format!("echo '{first}'; cat notes.txt")),
        call(
            "edit",
            json!({ "filePath": "notes.txt", "oldString": first, "newString": "{{secret:CANARY_3}} new" })
        ),
        says(&everything),
    ]);
    let site = planted(Site::scripted(&script(&replies)), search)
        .setting("permission", json!({ "bash": "ask", "edit": "ask" }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, &format!("go {everything}"));
    for _ in 0..2 {
        let question = editor.question(&session);
        editor.choose(&question, "allow_once");
    }
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let mut peer = Peer::connect(&site.path("home/store"));
    let read = peer.call("_leftfold/read", &json!({ "session": session, "from": 1 }));
    search.look("_leftfold/read", read.to_string());
    search.look("what an editor was sent", &editor.live.seen);
    editor.leave();
    let mut editor = Editor::start(&site, &[]);
    let params = json!({ "sessionId": session, "cwd": site.project(), "mcpServers": [] });
    let load = editor.ask("session/load", params);
    editor.result(load);
    search.look("what an editor loaded", &editor.live.seen);
    editor.leave();
    let changed = site.text("notes.txt");
    assert!(changed.contains(&format!("{} new", search.canaries[3].value)), "{changed}");
    search.look_back(&site);
    search.places.extend(["a question about a command", "a question about a change", "a load"]);
}

/// Output of a socket's watcher, an observer and a conversation.
fn in_a_terminal(search: &mut Search) {
    let everything = search.everything();
    let replies = json!([
        { "chunk": 2, "parts": [{ "reasoning": everything, "signature": "s" }, { "text": everything },
          { "call": { "name": "bash", "input": { "command": "cat notes.txt; env" } } }] },
        { "chunk": 2, "parts": [{ "text": format!("{everything}\n\nThat was all of it.") }] },
        says("Once more."),
    ]);
    let site = planted(Site::scripted(&script(&replies)), search)
        .setting("permission", json!({ "bash": "ask" }));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until("[o]nce");
    let session = site.session();
    let mut observer = site.start(&["observe", session.to_str().unwrap(), "--format", "json"]);
    let id = session.file_name().unwrap().to_str().unwrap().to_owned();
    let mut peer = Peer::connect(&session);
    peer.call("_leftfold/watch", &json!({ "session": id, "from": 1 }));
    terminal.press("o").until("That was all of it.").until_prompt();
    loop {
        let line = peer.line().unwrap();
        search.look("_leftfold/watch", line.to_string());
        if line["params"]["type"] == "turn.ended" {
            break;
        }
    }
    observer.until("turn.ended");
    search.look("observe", &observer.seen);
    search.look("a terminal", &terminal.raw);
    // typed text is echoed, but stored nowhere
    terminal.press(&search.canaries[0].value).press("\r").until("Once more.");
    terminal.until_prompt().press("\x04").until("leftfold --session");
    assert_eq!(terminal.wait(), 0);
    search.look_back(&site);
    search.places.extend(["a watch", "an observer", "a conversation", "a line that is typed"]);
}

#[test]
fn no_canary_is_ever_found() {
    let mut search = Search::begin();
    in_sessions(&mut search);
    at_a_provider(&mut search);
    in_an_editor(&mut search);
    in_a_terminal(&mut search);
    let Search { canaries, places, texts, bytes, found, .. } = search;
    let tally = Tally::promise(14, "canaries")
        .counts(&["canaries", "places", "texts searched", "KiB"])
        .never(&["canaries found"]);
    tally.add("canaries", canaries.len());
    tally.add("places", places.len());
    tally.add("texts searched", texts);
    tally.add("KiB", bytes / 1024);
    tally.none("canaries found", found);
    tally.finish();
}

/// Checks that the search can find a canary at all.
#[test]
fn a_canary_that_is_there_is_found() {
    let mut search = Search::begin();
    let values: Vec<String> = search.canaries.iter().map(|canary| canary.value.clone()).collect();
    for value in values {
        let forms =
            [value.clone(), json!(value).to_string(), url(&value), base64(&format!("ab{value}cd"))];
        for form in forms {
            let before = search.found.len();
            search.look("a test", format!("<{form}>"));
            assert!(search.found.len() > before, "{form}");
        }
    }
}
