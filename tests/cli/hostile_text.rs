//! A hostile project and a hostile log: whichever command prints what they say, no character of theirs
//! controls the terminal or hides.

use std::io::Write;
use std::process::Stdio;

use common::{Live, Site, Terminal, bash, call, says, script};
use leftfold_view::clean::{escape_json, printable};
use serde_json::{Value, json};

/// Escape sequences of both widths, controls, bidi controls, and invisible characters.
const TRICK: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}P\u{1b}\\\r\u{8}\u{7f}\u{9b}31m\u{9d}0;x\u{9c}\u{85}\
    \u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{200d}\u{2060}\u{2064}\u{feff}\
    \u{180e}\u{ad}\u{3164}\u{34f}\u{fe0f}\u{e0041}\u{2028}\u{2029}\u{fff9}";

fn hostile(text: &str) -> String {
    format!("{text}{TRICK}{text}")
}

/// No text of this output drives a terminal or hides.
fn assert_clean(what: &str, text: &str) {
    for line in text.lines() {
        assert_eq!(printable(line), line, "{what}: {}", line.escape_debug());
    }
}

/// Runs a command with pipes and on a terminal. With pipes, events are exact, so they are only looked
/// at on the terminal.
fn run(site: &Site, args: &[&str], input: &str) -> String {
    let exact = args.contains(&"export") || args[0] == "run" && args.contains(&"json");
    let mut command = site.command(args);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    let mut keys = live.input();
    keys.write_all(input.as_bytes()).unwrap();
    drop(keys);
    let ran = live.wait();
    assert!(ran.code >= 0, "{args:?}: {}", ran.stderr);
    assert_clean(&format!("{args:?}"), &ran.stderr);
    if !exact {
        assert_clean(&format!("{args:?}"), &ran.stdout);
    }
    let shell = "printf '%s' \"$KEYS\" | \"$0\" \"$@\"";
    let mut command = site.command(args);
    let program = command.get_program().to_owned();
    let mut on_terminal = std::process::Command::new("/bin/sh");
    on_terminal.args(["-c", shell]).arg(program).args(command.get_args()).env_clear();
    on_terminal.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    on_terminal.env("KEYS", input).env("PAGER", "cat").current_dir(site.project());
    command.stdin(Stdio::null());
    let mut terminal = Terminal::start(on_terminal, 200);
    terminal.wait();
    let shown = without_colours(&terminal.raw.replace("\r\n", "\n"));
    assert_clean(&format!("{args:?} on a terminal"), &shown);
    format!("{}{}", ran.stdout, ran.stderr)
}

/// The text without Leftfold's own colours, and without the codes that erase its live line. [`TRICK`] has none of them.
fn without_colours(text: &str) -> String {
    let colours = ["0", "1", "2", "31", "32", "33", "34", "35", "36"];
    let text = text.replace("\r\x1b[K", "\n");
    colours.iter().fold(text, |text, code| text.replace(&format!("\x1b[{code}m"), ""))
}

/// Settings that name everything in a hostile way.
fn hostile_settings(site: &Site) {
    let name = hostile("n");
    let broken = json!({ "type": "local", "command": [format!("./no-such-{name}")] });
    let settings = json!({
        "agent": { &name: { "description": &name, "model": format!("evil/{name}"), "prompt": &name } },
        "command": { &name: { "template": &name, "description": &name } },
        "provider": {
            "evil": {
                "wire": "openai-chat", "name": &name,
                "options": { "baseURL": "http://127.0.0.1:9", "apiKey": "k" },
                "models": { &name: { "name": &name, "variants": { &name: {} } } },
            },
            &name: { "wire": "openai-chat", "options": { "baseURL": "http://127.0.0.1:9" }, "models": { "m": {} } },
        },
        "mcp": { &name: broken, "remote": { "type": "remote", "url": format!("http://127.0.0.1:9/{name}") } },
        "plugin": [{ "command": [format!("./no-such-{name}")] }],
        "permission": { "bash": { &name: "allow", "*": "allow" }, &name: "deny" },
        "instructions": [&name],
        "username": &name,
    });
    site.file_of_stranger("leftfold.json", settings.to_string());
    site.file_of_stranger(
        &format!(".leftfold/agents/{}.md", hostile("f")),
        format!("---\ndescription: {}\nmodel: evil/m\n---\n{name}", "text"),
    );
    site.file_of_stranger("AGENTS.md", &name);
}

/// A session in which the model and its tools say everything in a hostile way.
fn hostile_session() -> Site {
    let printf = "printf 'out\\033[2J\\033]0;owned\\007\\r\\b\\302\\23331m\\342\\200\\256\\342\\200\\213end\\n'; exit 3";
    let replies = json!([
        { "parts": [{ "text": hostile("hello") }, { "call": { "name": "bash", "input": { "command": printf } } }] },
        bash(&format!("true {TRICK}")),
        call("read", json!({ "filePath": hostile("missing") })),
        call("write", json!({ "filePath": "file\u{202e}\u{9b}2J.txt", "content": hostile("content") })),
        call(&hostile("tool"), json!({ "x": TRICK })),
        call("todowrite", json!({ "todos": [{ "content": TRICK, "status": "pending", "priority": "high" }] })),
        { "parts": [{ "text": hostile("bye") }],
          "faults": [{ "class": "overloaded", "message": hostile("busy"), "retry_after": 1 }] },
    ]);
    Site::scripted(&json!({ "replies": replies }))
        .setting("/permission", json!({ "*": "allow", "unreadable": "allow" }))
}

/// Every command that reads a session.
fn inspect_session(site: &Site, session: &str) {
    let log = site.run(&["export", session]).ok().events();
    for args in [
        &["replay", session][..],
        &["replay", session, "--state"],
        &["replay", session, "--type", TRICK],
        &["sessions"],
        &["sessions", "--format", "json"],
        &["sessions", "show", session],
        &["sessions", "--format", "json", "show", session],
        &["why", session],
        &["why", session, "--format", "json"],
        &["check", session],
        &["verify", session],
        &["verify", session, "--format", "json"],
        &["rerun", session],
        &["stats"],
        &["stats", "--format", "json"],
        &["export", session],
        &["export", session, "--unmasked"],
        &["permission", "answer", session, TRICK, "once"],
        &["fork", session],
        &["diff", session, "last"],
        &["diff", session, "last", "--format", "json"],
    ] {
        let said = run(site, args, "");
        // it is the escape of something hostile that is shown
        let shows = matches!(args, ["replay", _] | ["sessions", "show", _]);
        assert!(!shows || said.contains(r"\x1b[2J"), "{args:?}: {said}");
    }
    run(site, &["replay", session, "--step"], "n\nn\ns\ne\n\u{1b}[A\nq\n");
    for event in &log {
        let seq = event["seq"].to_string();
        if seq == "null" {
            continue;
        }
        for format in ["text", "json"] {
            let ran = site.run(&["explain", session, &seq, "--format", format]);
            assert_clean(&format!("explain {seq}"), &(ran.stdout + &ran.stderr));
        }
    }
    for format in ["text", "json"] {
        let last = log.last().unwrap()["seq"].to_string();
        let mut terminal = site.terminal(&["observe", session, "--format", format], 200);
        let end = if format == "json" { format!("\"seq\":{last}") } else { "bye".to_owned() };
        terminal.until_so(&end, |screen| screen.contents().replace('\n', "").contains(&end));
        assert_clean("observe", &terminal.raw.replace("\r\n", "\n"));
    }
}

#[test]
fn nothing_of_a_hostile_session_controls_the_terminal() {
    let site = hostile_session();
    let said = run(&site, &["run", &hostile("Hello")], "");
    assert!(said.contains("hello") && said.contains("bye"), "{said}");
    run(&site, &["run", "--format", "json", &hostile("Hello")], "");
    inspect_session(&site, "last");
}

/// Leftfold asks the terminal for its background colour.
const ASKS_BACKGROUND: &str = "\u{1b}]11;?\u{7}";

/// Everything but the codes of Leftfold's own screen.
fn without_own_codes(raw: &str) -> String {
    let raw = raw.replace(ASKS_BACKGROUND, "");
    let mut pieces = raw.split("\u{1b}[");
    let mut out = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        let (codes, rest) = (&piece[..=end], &piece[end + 1..]);
        let numbers = codes.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let known = match &codes[end..] {
            "m" => is_style(numbers),
            "A" | "B" | "C" | "J" | "K" => numbers.parse::<u16>().is_ok() || numbers.is_empty(),
            "h" | "l" => matches!(numbers, "?2004" | "?2026" | "?1004" | "?25" | "?7"),
            "u" => matches!(numbers, ">1" | "<"),
            _ => false,
        };
        assert!(known && codes != "2J", "{codes:?} in {raw:?}");
        out += rest;
    }
    out.replace('\r', "")
}

/// Whether a screen with 256 colours draws text in this style.
fn is_style(codes: &str) -> bool {
    let mut codes = codes.split(';');
    while let Some(code) = codes.next() {
        let is_known = match code {
            "" | "0" | "1" | "2" | "3" | "4" | "7" | "9" => true,
            "38" | "48" => {
                codes.next() == Some("5") && codes.next().is_some_and(|n| n.parse::<u8>().is_ok())
            }
            _ => code.parse().is_ok_and(|n: u8| (30..38).contains(&n)),
        };
        if !is_known {
            return false;
        }
    }
    true
}

#[test]
fn nothing_of_a_hostile_session_controls_a_conversation() {
    let site = hostile_session();
    let mut terminal = site.terminal(&[], 120);
    terminal.until_prompt().press("Hello\r").until("bye").until_prompt();
    for (list, first) in
        [("/agent", "> build"), ("/sessions", "Session › "), ("/revert", "> Hello")]
    {
        terminal.press(list).press("\r").until(first).press("\x1b").until_prompt();
    }
    for (mark, first) in [("/", "> /model"), ("@", "> @")] {
        terminal.press(mark).until(first).press("\x1b");
        terminal.until_so("closed", |screen| !screen.contents().contains(first));
        terminal.press("\x15").until_prompt();
    }
    terminal.press("/help\r").until("/exit").until_prompt();
    terminal.press("\u{4}");
    terminal.wait();
    assert!(terminal.raw.contains(r"true \x1b[2J"), "{}", terminal.raw);
    assert_clean("conversation", &without_own_codes(&terminal.raw));
    // what the log has of it
    let mut terminal = site.terminal(&["--continue"], 120);
    terminal.until_prompt().press("\u{4}");
    terminal.wait();
    assert_clean("conversation", &without_own_codes(&terminal.raw));
}

#[test]
fn nothing_of_a_hostile_log_controls_the_terminal() {
    let site = hostile_session();
    site.run(&["run", "Hello"]);
    let log = site.run(&["export", "last"]).ok().stdout;
    let session = site.session().file_name().unwrap().to_string_lossy().into_owned();
    site.run(&["sessions", "rm", &session]).ok();
    // every word in the log that is not one of Leftfold's own
    let words =
        ["agent", "by", "error", "message", "name", "text", "title", "tail", "output", "prompt"];
    let mut lines = String::new();
    for line in log.lines() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        spoil(&mut event["data"], &words);
        lines += &format!("{event}\n");
    }
    let file = site.file("hostile.jsonl", &lines);
    let said = run(&site, &["import", file.to_str().unwrap()], "");
    assert!(said.contains(&session), "{said}");
    inspect_session(&site, &session);
    // what cannot be read is quoted
    for broken in [format!("{{\"v\":1,\"x\":\"{TRICK}\n"), format!("{{\"{TRICK}\":1}}\n")] {
        site.file("broken.jsonl", &broken);
        run(&site, &["import", "broken.jsonl"], "");
        run(&site, &["import", "--from", "claude", "broken.jsonl"], "");
    }
    run(&site, &["import", &hostile("no-such-file")], "");
}

/// Makes the strings below these keys hostile.
fn spoil(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if let Value::String(text) = value
                    && keys.contains(&key.as_str())
                {
                    text.push_str(TRICK);
                }
                spoil(value, keys);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| spoil(item, keys)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn nothing_of_a_hostile_project_controls_the_terminal() {
    let site = Site::scripted(&script(json!([says("Hello."), says("Hello.")])))
        .setting("/retry", json!({ "attempts": 1 }));
    hostile_settings(&site);
    let name = hostile("n");
    for trusted in [false, true] {
        if trusted {
            run(&site, &["trust", "--yes"], "");
        }
        for args in [
            &["agents"][..],
            &["models"],
            &["models", "evil"],
            &["models", &name],
            &["mcp"],
            &["mcp", "probe", &name],
            &["mcp", "logout", "remote"],
            &["plugins"],
            &["config"],
            &["config", "agent"],
            &["config", &name],
            &["doctor"],
            &["permission", "check", "bash", &name],
            &["trust", "--show"],
            &["auth", "list"],
        ] {
            let said = run(&site, args, "");
            let is_shown = [r"\x1b]0;owned", r"\u{1b}]0;owned", r"\u001b]0;owned"];
            let is_shown = is_shown.iter().any(|shown| said.contains(shown));
            let applies = matches!(args[0], "agents" | "models" | "mcp" | "config" | "trust");
            assert!(is_shown || !applies, "{args:?} {trusted}: {said}");
            if !matches!(args[0], "trust") && !matches!(args, ["mcp", _, ..] | ["permission", ..]) {
                let json = [&[args[0], "--format", "json"], &args[1..]].concat();
                let said = site.run(&json).stdout;
                assert_eq!(escape_json(&said), said, "{json:?}");
                run(&site, &json, "");
            }
        }
        for args in [
            &["run", "--agent", &name, "Hello"][..],
            &["run", "--model", &name, "Hello"],
            &["run", "--variant", &name, "Hello"],
            &["run", "--file", &name, "Hello"],
            &["run", &format!("/{name}")],
            &["replay", &name],
            &["tool", &name],
            &["tool", "read", "--args", &json!({ "filePath": &name }).to_string()],
            &["auth", "logout", &name],
            &["man", &name],
            &[&name],
            &["agents", &format!("--{name}")],
            &["agents", "--format", &name],
        ] {
            run(&site, args, "");
        }
    }
    let site = site.env("LEFTFOLD_LOG", "debug");
    run(&site, &["run", &name], "");
    let unknown = json!({ &name: 1 }).to_string();
    for broken in [format!("{{ \"{name}\": }}"), json!({ "model": [name] }).to_string(), unknown] {
        site.file_of_stranger("leftfold.json", broken);
        run(&site, &["agents"], "");
        run(&site, &["doctor"], "");
        run(&site, &["config"], "");
        run(&site, &["run", "Hello"], "");
    }
}

#[test]
fn a_question_shows_what_would_run() {
    let command = format!("echo {TRICK} x");
    let replies = json!([bash(&command), says("Done."), bash(&command), says("Done.")]);
    let site = Site::scripted(&script(replies)).setting("/permission", json!({ "*": "ask" }));
    let shown = r"\x1b[2J\x1b]0;owned\x07";
    let mut terminal = site.terminal(&["run", "--permission-mode", "ask", "Hello"], 1000);
    terminal.until("[o]nce");
    assert!(terminal.shown().contains(shown), "{}", terminal.shown());
    assert!(terminal.shown().contains(r"\u{202e}\u{2066}"), "{}", terminal.shown());
    terminal.press("n\r");
    terminal.wait();
    assert_clean("question", &terminal.raw.replace("\r\n", "\n"));
    let mut terminal = site.terminal(&[], 1000);
    terminal.until_prompt().press("Hello\r").until("[o]nce");
    assert!(terminal.shown().contains(shown), "{}", terminal.shown());
    assert!(!terminal.raw.contains("\u{202e}") && !terminal.raw.contains("owned\u{7}"));
}

#[test]
fn names_of_any_length_are_cut_on_the_screen_and_not_in_json() {
    let site = Site::bare();
    let name = "x".repeat(200_000);
    let settings = json!({
        "agent": { &name: { "description": &name, "prompt": "p" } },
        "provider": { "local": { "wire": "openai-chat", "options": { "baseURL": "http://127.0.0.1:9" },
                                 "models": { &name: {} } } },
        "mcp": { &name: { "type": "local", "command": ["true"], "enabled": false } },
        "model": "local/m",
    });
    site.file("leftfold.json", settings.to_string());
    for command in ["agents", "models", "mcp", "config"] {
        let text = site.run(&[command]).ok();
        assert!(text.stdout.lines().all(|line| line.len() < 10_000), "{command}");
        assert!(text.stderr.lines().all(|line| line.len() < 10_000), "{command}");
        assert!(text.stdout.contains("xxx…"), "{command}: {}", text.stdout);
        let json = site.run(&[command, "--format", "json"]).ok().stdout;
        assert!(json.contains(&name), "{command}");
    }
}
