//! Inputs and outputs of `run` besides the prompt: standard input, `--output`, denials and timeouts.

use std::io::Write;
use std::process::Stdio;

use common::{Live, Ran, Site, Terminal, all, bash, call, end, only, says, script};
use serde_json::{Value, json};

fn site() -> Site {
    Site::scripted(&script(json!([says("Fine.")])))
}

/// Runs with these bytes on a pipe.
fn piped(site: &Site, args: &[&str], input: &[u8]) -> Ran {
    let mut command = site.command(args);
    let (reader, mut writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader));
    let live = Live::start(command);
    // a run that refuses its arguments does not read
    let _ = writer.write_all(input);
    drop(writer);
    live.wait()
}

fn parts(ran: Ran) -> Vec<Value> {
    only(&ran.ok().events(), "turn.prompted")["data"]["parts"].as_array().unwrap().clone()
}

#[test]
fn text_on_a_pipe_is_added_to_the_prompt() {
    let run = ["run", "--format", "json", "Review this"];
    let parts_of = parts(piped(&site(), &run, b"-old\n+new\n"));
    assert_eq!(parts_of[0]["text"], "Review this");
    assert_eq!(parts_of[1]["text"], "<stdin>\n-old\n+new\n\n</stdin>");
    for blank in [&b""[..], b" \n"] {
        assert_eq!(parts(piped(&site(), &run, blank)).len(), 1);
    }
    let image = b"\x89PNG\r\n\x1a\n0000";
    let parts_of = parts(piped(&site(), &["run", "--format", "json", "--file", "-", "See"], image));
    assert_eq!(parts_of[1]["mime"], "image/png");
    // standard input answers questions
    let asks = ["run", "--format", "json", "--permission-mode", "ask", "Review this"];
    assert_eq!(parts(piped(&site(), &asks, b"o\n")).len(), 1);
}

/// Arguments and input that make no run, and what the message says.
#[test]
fn input_that_makes_no_run() {
    let site = site();
    site.file("folder/a", "");
    for (args, input, said) in [
        (&["run", "Review this"][..], &[0xff, 0x00, 0xfe][..], "standard input: is neither text"),
        (&["run", "-"], b"\xff\xfe", "not UTF-8 text"),
        (&["run", "-"], b"", "the prompt is empty"),
        (&["run", "--file", "-"], b"x", "cannot be both the prompt and a file"),
        (&["run", "--file", "-", "--file", "-", "x"], b"x", "given twice"),
        (&["run", "--output", "none/a.txt", "x"], b"", "none/a.txt cannot be written"),
        (&["run", "--output", "folder", "x"], b"", "folder is a folder"),
        (&["run", "one", "two"], b"", "leftfold run \"one two\""),
    ] {
        piped(&site, args, input).with(2).saying(&[said]);
    }
    assert!(site.sessions().is_empty());
}

#[test]
fn an_open_pipe_is_waited_for_and_the_user_learns_it() {
    let site = site();
    let mut command = site.command(&["run", "--format", "json", "Review this"]);
    let (reader, writer) = std::io::pipe().unwrap();
    command.stdin(Stdio::from(reader)).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
    assert!(line.contains("waiting for the end of standard input"), "{line}");
    drop(writer);
    assert!(child.wait().unwrap().success());
}

/// In each way in which `run` reads it. An answer in time is waited for.
#[test]
fn an_open_pipe_is_waited_for_until_the_timeout() {
    let site = site();
    for args in [&["Review this"][..], &[], &["-"], &["--file", "-", "Review this"]] {
        let mut command = site.command(&[&["run", "--timeout", "1"], args].concat());
        let (reader, writer) = std::io::pipe().unwrap();
        let ran = command.stdin(Stdio::from(reader)).output().unwrap();
        drop(writer);
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(4), "{args:?}: {said}");
        assert!(said.contains("before standard input ended"), "{args:?}: {said}");
    }
}

#[test]
fn the_final_answer_goes_to_a_file_as_a_whole() {
    let replies = json!([
        { "parts": [{ "text": "I look. " }, { "call": { "name": "bash", "input": { "command": "true" } } }] },
        says("All is well.\n"),
    ]);
    let site = Site::scripted(&script(replies));
    let ran = site.run(&["run", "--output", "answer.txt", "go"]).ok();
    assert!(ran.stdout.contains("All is well."), "{ran:?}");
    assert_eq!(site.text("answer.txt"), "All is well.\n");
    // only a completed turn has a final answer
    site.run(&["run", "--output", "answer.txt", "--max-steps", "1", "go"]).with(4);
    assert_eq!(site.text("answer.txt"), "All is well.\n");
    let left = std::fs::read_dir(site.project()).unwrap();
    assert_eq!(left.count(), 1, "a half-written file");
}

#[test]
fn an_answer_by_a_schema_goes_to_a_file_too() {
    let answer = call("StructuredOutput", json!({ "colour": "red" }));
    let site = Site::scripted(&script(json!([answer])));
    let schema = json!({ "type": "object", "properties": { "colour": { "type": "string" } },
        "required": ["colour"] });
    site.file("schema.json", schema.to_string());
    let args = ["run", "--output-schema", "schema.json", "-o", "answer.json", "Which colour?"];
    let ran = site.run(&args).ok();
    let written: Value = serde_json::from_str(&site.text("answer.json")).unwrap();
    assert_eq!(written, json!({ "colour": "red" }));
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), written);
}

/// Settings, a call, and what the user reads about its denial.
#[test]
fn a_denied_call_names_the_rule_its_place_and_what_would_allow_it() {
    let edit = || call("write", json!({ "filePath": "a.txt", "content": "x" }));
    for (rules, reply, said) in [
        (
            "{\n  \"permission\": {\n    \"bash\": { \"touch *\": \"deny\" }\n  }\n}",
            bash("touch made"),
            vec![
                "the rule deny bash `touch *` (",
                "leftfold.json:3:",
                "to allow it: change that rule",
                "{\"permission\":{\"bash\":{\"touch made\":\"allow\"}}}",
            ],
        ),
        (
            "{ \"permission\": { \"edit\": \"ask\" } }",
            edit(),
            vec![
                "the rule ask edit `*` (",
                "leftfold.json:1:",
                "nobody can be asked here",
                "run this on a terminal and answer, or with `--permission-mode accept-edits`, `--yes`",
            ],
        ),
    ] {
        let site = Site::scripted(&script(json!([reply, says("Then not.")])));
        site.file("leftfold.json", rules);
        let ran = site.run(&["run", "go"]).ok();
        for part in ["denied"].iter().chain(&said) {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        assert_eq!(site.text("a.txt") + &site.text("made"), "");
        let ruled = site.run(&["replay", "--type", "permission.ruled"]).ok().stdout;
        let seq = ruled.split_whitespace().next().unwrap().to_owned();
        let explained = site.run(&["explain", "last", &seq]).ok().stdout;
        assert!(explained.contains(said[1]), "{explained}");
    }
}

#[test]
fn a_question_on_a_terminal_names_its_rule() {
    let site = Site::scripted(&script(json!([bash("touch made"), says("Done.")])));
    site.file("leftfold.json", "{ \"permission\": { \"bash\": \"ask\" } }");
    let mut terminal = site.terminal(&["run", "go"], 200);
    terminal.until("asked because of the rule ask bash `*` (").until("leftfold.json:1:");
    terminal.until("[o]nce").press("o\r").until("Done.");
    assert_eq!(terminal.wait(), 0);
    assert!(common::exists(&site.project().join("made")));
}

#[test]
fn a_question_on_a_terminal_shows_the_change_in_colours() {
    let edit = json!({ "filePath": "a", "oldString": "one", "newString": "ONE" });
    let site = Site::scripted(&script(json!([call("edit", edit), says("Done.")])))
        .setting("/permission", json!({ "edit": "ask" }));
    for (variable, is_coloured) in [("HAS_COLOR", true), ("NO_COLOR", false)] {
        site.file("a", "one\n");
        let mut command = site.command(&["run", "go"]);
        command.env(variable, "1");
        let mut terminal = Terminal::start(command, 100);
        terminal.until("    -one\n    +ONE\n").until("allow edit on a?").until("[o]nce");
        terminal.press("o\r").until("Done.");
        assert_eq!(terminal.wait(), 0);
        let red = terminal.raw.contains("\x1b[31m-one\x1b[0m");
        assert_eq!(red, is_coloured, "{:?}", terminal.raw);
    }
}

#[test]
fn time_that_is_over_is_called_a_timeout() {
    let site = Site::scripted(&script(json!([bash("sleep 60"), says("never")])));
    let ran = site.run(&["run", "--timeout", "1s", "go"]).with(4);
    assert!(ran.stderr.contains("timeout: the limit of time is 1s"), "{ran:?}");
    let events = site.exported();
    assert_eq!(all(&events, "turn.ended").len(), 1);
    assert_eq!(end(&events)["reason"], "limit");
}

#[test]
fn a_long_command_shows_that_it_runs_on_a_terminal_only() {
    let waits = "echo begun; while [ ! -e go ]; do sleep 0.01; done; echo over";
    let site = Site::scripted(&script(json!([bash(waits), says("Done.")])));
    let mut terminal = site.terminal(&["run", "go"], 120);
    terminal.until("1 s").until("begun");
    site.file("go", "");
    terminal.until("Done.");
    assert_eq!(terminal.wait(), 0);
    let shown = terminal.shown();
    assert!(!shown.contains(" · 1 s"), "the line is left behind: {shown}");
    assert!(shown.contains("● bash") && shown.contains("over"), "{shown}");
}

#[test]
fn arguments_that_are_no_text_and_streams_that_are_not_there() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    site.prompt("go").ok();
    for args in [&["run"][..], &["replay"], &["sessions", "show"], &[]] {
        let mut command = site.command(args);
        command.arg(OsStr::from_bytes(b"\xff"));
        Live::start(command).wait().with(2).saying(&["invalid UTF-8"]);
    }
    for (redirect, args, code, said) in [
        ("<&-", &["run", "--format", "json", "more"][..], 0, ""),
        ("<&-", &["run", "-"], 2, "the prompt is empty"),
        (">/dev/full", &["replay", "last"], 1, "standard output cannot be written: No space left"),
        (">/dev/full", &["export", "last"], 1, "standard output cannot be written: No space left"),
        (">&-", &["replay", "last"], 0, ""),
    ] {
        let inner = site.command(args);
        let mut shell = std::process::Command::new("bash");
        shell.args(["-c", &format!("exec \"$@\" {redirect}"), "bash"]);
        shell.arg(inner.get_program()).args(inner.get_args()).current_dir(site.project());
        shell.env_clear().stdin(Stdio::null());
        shell.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = Live::start(shell).wait();
        assert!(ran.code == code && ran.stderr.contains(said), "{redirect} {args:?}: {ran:?}");
    }
}
