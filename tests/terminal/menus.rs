//! Menus, lists to choose from, and the commands of a conversation, on a pseudo-terminal.

use std::os::unix::fs::PermissionsExt;

use common::{Site, Terminal, all, bash, kinds, only, says, script};
use serde_json::{Value, json};

const CTRL_D: &str = "\x04";
const DOWN: &str = "\x1b[B";
const DELETE: &str = "\x1b[3~";
const SHIFT_TAB: &str = "\x1b[Z";

fn leave(terminal: &mut Terminal) {
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

/// Sends a prompt that gets this answer.
fn prompt(terminal: &mut Terminal, prompt: &str, answer: &str) {
    terminal.until_prompt().press(prompt).press("\r").until(answer).until_prompt();
}

fn texts(events: &[Value]) -> Vec<String> {
    let text = |prompt: &&Value| prompt["data"]["parts"][0]["text"].as_str().unwrap().to_owned();
    all(events, "turn.prompted").iter().map(text).collect()
}

#[test]
fn a_file_of_the_command_line_goes_with_the_first_prompt() {
    let site = Site::scripted(&script(json!([says("Read.")])));
    site.file("notes.md", "many words\n");
    let mut terminal = site.terminal(&["@notes.md"], 80);
    terminal.until("with the first prompt: notes.md").until_prompt();
    terminal.press("see\r").until("› see [notes.md]").until("Read.");
    assert!(!terminal.shown().contains("many words"), "{}", terminal.shown());
    leave(&mut terminal);
    let prompted = only(&site.exported(), "turn.prompted")["data"]["parts"].clone();
    assert!(prompted[1]["text"].as_str().unwrap().contains("many words"), "{prompted}");
}

#[test]
fn a_file_is_found_by_a_few_letters_and_goes_with_the_prompt() {
    let site = Site::scripted(&script(json!([says("Read.")])));
    site.file("src/main.rs", "fn main() {}\n");
    site.file("target/main.o", "no");
    site.file(".gitignore", "target\n");
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("see @sma").until("> @src/main.rs");
    assert!(!terminal.shown().contains("target"), "{}", terminal.shown());
    terminal.press("\t").until("› see @src/main.rs").press("now\r").until("Read.");
    leave(&mut terminal);
    let prompted = only(&site.exported(), "turn.prompted")["data"]["parts"].clone();
    assert_eq!(prompted[0]["text"], "see @src/main.rs now");
    assert!(prompted[1]["text"].as_str().unwrap().starts_with("<file path=\"src/main.rs\">"));
    site.assert_sound();
}

#[test]
fn what_is_not_attached_is_said_on_the_screen() {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    site.file("data.bin", [0, 159, 146, 150, 0, 1, 2, 3]);
    let mut terminal = site.terminal(&[], 80);
    for answer in ["One.", "Two."] {
        prompt(&mut terminal, "see @data.bin now", answer);
    }
    // each prompt says so, in whole rows
    let shown = terminal.shown();
    let said =
        shown.lines().filter(|line| line.starts_with("leftfold: `@data.bin` is not attached"));
    assert_eq!(said.count(), 2, "{shown}");
    leave(&mut terminal);
}

#[test]
fn a_model_is_chosen_from_a_list_with_its_price_and_window() {
    let models = json!({
        "m": { "limit": { "context": 100_000, "output": 8_000 } },
        "large": { "limit": { "context": 1_000_000, "output": 64_000 }, "cost": { "input": 3, "output": 15 } },
    });
    let site = Site::scripted(&script(json!([says("Here."), says("There.")])))
        .setting("/provider/double/models", models);
    for columns in [40, 80, 120] {
        let mut terminal = site.terminal(&[], columns);
        prompt(&mut terminal, "one", "Here.");
        terminal.press("/model\r").until("> double/m").until("double/large");
        let shown = terminal.shown();
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("double/large 1M / 64k $3 / $15"), "{shown}");
        assert_eq!(words.contains("context / answer"), columns > 40, "{shown}");
        assert_eq!(shown.contains("images"), columns > 40, "{shown}");
        terminal
            .press("lar")
            .until("1 of 3")
            .until("$3 in")
            .press("\r")
            .until("model: double/large");
        // the status line and the next prompt have it
        terminal.until("build · double/large");
        prompt(&mut terminal, "two", "There.");
        leave(&mut terminal);
        let events = site.exported();
        let prompts = all(&events, "turn.prompted");
        let models: Vec<&Value> =
            prompts.iter().map(|prompt| &prompt["data"]["model"]["id"]).collect();
        assert_eq!(models, [&json!("m"), &json!("large")]);
        site.assert_sound();
    }
}

#[test]
fn what_does_not_exist_is_not_chosen() {
    let site = Site::scripted(&script(json!([says("Never.")])));
    let mut terminal = site.terminal(&[], 100);
    for (line, said) in [
        ("/model nowhere/x\r", "there is no provider `nowhere`"),
        ("/agent nobody\r", "there is no agent `nobody`"),
        ("/variant huge\r", "has no variant `huge`: choose one of default"),
        ("/permissions none\r", "there is no mode `none`: choose one of ask"),
        ("/theme pink\r", "there is no theme `pink`: choose one of auto"),
        ("/quti\r", "There is no command /quti: did you mean /quit?"),
        ("/login double word\r", "a key is typed when you are asked for it"),
        ("/login nowhere\r", "leftfold: there is no provider `nowhere`"),
        ("/sessions 01NOTHING\r", "/sessions: "),
        ("/fork\r", "There is no earlier prompt."),
        ("/fork x\r", "/fork [SEQ] [files]: "),
        ("/revert x\r", "/revert [SEQ]: "),
        ("/rename \r", "/rename TITLE: "),
        ("/undo\r", "/undo: the session has only begun"),
        ("/context\r", "/context: the session has only begun"),
        ("/copy\r", "/copy: the session has only begun"),
        ("/why\r", "/why: the session has only begun"),
        ("/export\r", "/export: the session has only begun"),
    ] {
        terminal.until_prompt().press(line).until(said);
    }
    leave(&mut terminal);
    assert_eq!(site.sessions().len(), 0);
}

#[test]
fn keys_change_the_agent_and_the_permissions() {
    let helper = json!({ "mode": "primary", "description": "Helps" });
    let site = Site::scripted(&script(json!([says("Planned.")]))).setting("/agent/helper", helper);
    let mut terminal = site.terminal(&[], 120);
    terminal.until_prompt().until("build · double/m").press("\t").until("agent: plan");
    terminal.press("\x1b[D").until("plan · double/m");
    terminal.press("\t").until("agent: helper").press("\t").until("agent: build");
    terminal
        .press(SHIFT_TAB)
        .until("permissions: accept-edits")
        .press("\x1b[D")
        .until("accepts edits");
    terminal.press(SHIFT_TAB).until("permissions: sandbox");
    terminal.press(SHIFT_TAB).until("permissions: plan, for the next prompts of the agent plan");
    prompt(&mut terminal, "one", "Planned.");
    terminal
        .press("/permissions ask\r")
        .until("permissions: ask, for the next prompts of the agent build");
    // the agent that had the prompts gets them again
    terminal.until_prompt().press("/agent helper\r").until("agent: helper").until_prompt();
    terminal.press("/permissions plan\r").until("plan, for the next prompts of the agent plan");
    terminal.until_prompt().press(SHIFT_TAB).until("ask, for the next prompts of the agent helper");
    leave(&mut terminal);
    assert_eq!(only(&site.exported(), "turn.prompted")["data"]["agent"], "plan");
    site.assert_sound();
}

#[test]
fn accepted_edits_ask_no_more() {
    let write = |file: &str| {
        let input = json!({ "filePath": file, "content": "x" });
        json!({ "parts": [{ "call": { "name": "write", "input": input } }] })
    };
    let site = Site::scripted(&script(json!([write("a"), says("A."), write("b"), says("B.")])))
        .setting("/permission", json!({ "edit": "ask" }));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("one\r").until("[o]nce").press("o").until("A.").until_prompt();
    terminal
        .press("/permissions\r")
        .until("> ask")
        .press("acc\r")
        .until("permissions: accept-edits");
    prompt(&mut terminal, "two", "B.");
    leave(&mut terminal);
    only(&site.exported(), "permission.asked");
    assert!(common::exists(&site.project().join("b")));
}

#[test]
fn an_approval_is_taken_back_in_the_list() {
    let site = Site::scripted(&script(json!([bash("echo 1"), says("Done.")])))
        .setting("/permission", json!({ "bash": "ask" }));
    let mut terminal = site.terminal(&[], 100);
    terminal
        .until_prompt()
        .press("one\r")
        .until("[o]nce")
        .press("a")
        .until("[y] allows")
        .press("y");
    terminal.until("Done.").until_prompt();
    assert!(site.run(&["permission", "list"]).ok().stdout.contains("echo *"));
    terminal
        .press("/permissions\r")
        .until("bash echo *")
        .until("always allowed")
        .until("Delete remove");
    terminal.press("echo").until("> ").until("1 of 5").press(DELETE).until("of 4");
    terminal.press("\x1b");
    leave(&mut terminal);
    assert!(!site.run(&["permission", "list"]).ok().stdout.contains("echo"));
}

#[test]
fn sessions_are_begun_named_found_and_continued() {
    let answer = |prompt: &str, text: &str| json!({ "match": { "prompt": prompt }, "parts": [{ "text": text }] });
    let replies = json!([answer("first", "One."), answer("second", "Two.")]);
    let site = Site::scripted(&script(replies));
    let mut terminal = site.terminal(&[], 120);
    prompt(&mut terminal, "first", "One.");
    terminal.press("/rename The older one\r").until("title: The older one").until_prompt();
    terminal.press("/new\r").until("[a new session; `leftfold --session ");
    prompt(&mut terminal, "second", "Two.");
    terminal.press("/sessions\r").until("> second").until("The older one");
    let shown = terminal.shown();
    assert!(
        shown.lines().any(|line| {
            line.contains("The older one") && line.contains("project") && line.contains("completed")
        }),
        "{shown}"
    );
    terminal.press("older").until("1 of 2").press("\r").until("› first\n\nOne.").until_prompt();
    terminal.press("/fork here\r").until("[a fork; `leftfold --session ").until_prompt();
    terminal.press("/undo\r").until("took back: first").until("› first").press("\x15");
    terminal.until_prompt().press("/redo\r").until("brought back: first").until_prompt();
    terminal.press("/sessions\r").until("(fork #1)").until("3 of 3").press("\x1b");
    leave(&mut terminal);
    assert_eq!(site.run(&["sessions"]).ok().stdout.lines().count(), 3);
}

#[test]
fn a_session_of_another_project_asks_whether_its_settings_are_trusted() {
    for (key, shown, standing) in
        [("n", "One.", "new "), ("\x03", "not switched", "new "), ("y", "One.", "trusted ")]
    {
        let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
        let other = site.path("other");
        std::fs::create_dir(&other).unwrap();
        let in_other = |args: &[&str]| site.command(args).current_dir(&other).output().unwrap();
        assert!(in_other(&["run", "first"]).status.success());
        std::fs::write(other.join("leftfold.json"), r#"{"permission": "allow"}"#).unwrap();
        let mut terminal = site.terminal(&[], 100);
        terminal.until_prompt().press("/sessions\r").until("> first").press("\r");
        terminal.until("other can run programs").until("Trust these settings? [y/N]").press(key);
        terminal.until(shown).until_prompt();
        // where the next prompt goes
        prompt(&mut terminal, "second", if shown == "One." { "Two." } else { "One." });
        leave(&mut terminal);
        let shown = String::from_utf8(in_other(&["trust", "--show"]).stdout).unwrap();
        assert!(shown.starts_with(standing), "{key:?}: {shown}");
    }
}

#[test]
fn prompts_are_taken_back_and_brought_back_one_by_one() {
    let site = Site::scripted(&script(json!([
        bash("echo 1 > a"),
        says("One."),
        bash("echo 2 > a"),
        says("Two.")
    ])))
    .setting("/snapshot", json!(true));
    let mut terminal = site.terminal(&[], 100);
    prompt(&mut terminal, "first", "One.");
    prompt(&mut terminal, "second", "Two.");
    let clear = "\x15";
    terminal.press("/undo\r").until("took back: second").until("› second").press(clear);
    terminal
        .until_prompt()
        .press("/undo\r")
        .until("took back: first")
        .until("› first")
        .press(clear);
    let file = site.project().join("a");
    common::wait_until("the file is gone", || !common::exists(&file));
    terminal.until_prompt().press("/redo\r").until("brought back: first").until_prompt();
    common::wait_until("the file is as after the first prompt", || site.text("a") == "1\n");
    terminal.press("/redo\r").until("brought back: second").until_prompt();
    common::wait_until("the file is as after the second prompt", || site.text("a") == "2\n");
    terminal.press("/redo\r").until("/redo: ");
    leave(&mut terminal);
    site.assert_sound();
}

#[test]
fn commands_show_what_the_session_is() {
    let reply = json!({ "parts": [{ "text": "The *answer*." }],
        "usage": { "input": 1_000, "output": 50 } });
    let site = Site::scripted(&script(json!([reply])))
        .setting("/provider/double/models/m/cost", json!({ "input": 3, "output": 15 }));
    let mut terminal = site.terminal(&[], 100);
    prompt(&mut terminal, "go", "The answer.");
    terminal.press("/context\r").until("of 100,000 tokens").until("instructions").until_prompt();
    terminal.press("/cost\r").until("1,000 in (0 cached), 50 out").until("$0.0037").until_prompt();
    terminal.press("/why\r").until("idle; last turn: completed").until_prompt();
    terminal.press("/todo\r").until("there are no tasks").until_prompt();
    terminal.press("/mcp\r").until("no MCP servers are configured").until_prompt();
    let asked = only(&site.exported(), "model.requested")["seq"].to_string();
    terminal.press(&format!("/explain {asked}\r")).until("double/m").until_prompt();
    terminal.press("/copy\r").until("copied 13 characters").until_prompt();
    // VGhlICphbnN3ZXIqLg== is "The *answer*."
    assert!(terminal.raw.contains("\x1b]52;c;VGhlICphbnN3ZXIqLg==\x07"));
    terminal.press("/export out.jsonl\r").until("written to ").until("out.jsonl").until_prompt();
    assert!(site.text("out.jsonl").contains("turn.prompted"));
    terminal.press("/export out.jsonl\r").until("out.jsonl exists").until_prompt();
    terminal.press("/help\r").until("Ctrl-Z").until_prompt();
    let help = without_codes(&terminal.raw);
    for part in ["  Model and agent\n  /model [NAME]", "Shift-Tab, /approvals\n"] {
        assert!(help.contains(part), "{help:?}");
    }
    terminal
        .press("/settings title\r")
        .until("title")
        .until("LEFTFOLD_CONFIG_CONTENT:")
        .until_prompt();
    leave(&mut terminal);
    site.assert_sound();
}

#[test]
fn a_summary_follows_the_instructions_that_were_typed() {
    let wanted = json!({ "purpose": "compaction", "prompt": "Keep the numbers." });
    let summary = json!({ "match": wanted, "parts": [{ "text": "42." }] });
    let site = Site::scripted(&json!({ "replies": [summary, says("Hello.")] }));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "go", "Hello.");
    terminal.press("/compact Keep the numbers.\r").until("[compacting: ").until_prompt();
    leave(&mut terminal);
    let events = site.exported();
    assert_eq!(only(&events, "compaction.asked")["data"]["instructions"], "Keep the numbers.");
    assert_eq!(only(&events, "compaction.finished")["data"]["summary"], "42.");
    site.assert_sound();
}

#[test]
fn a_continued_session_gets_the_prompt_of_the_command_line() {
    let says = |text: &str| {
        let usage = json!({ "input": 1_000, "output": 50 });
        json!({ "parts": [{ "text": text }], "usage": usage })
    };
    let site = Site::scripted(&script(json!([says("Zero."), says("One."), says("Two.")])));
    let mut terminal = site.terminal(&["before"], 80);
    // a prompt that is sent before would steer this turn
    terminal.until("Zero.");
    prompt(&mut terminal, "first", "One.");
    leave(&mut terminal);
    let mut terminal = site.terminal(&["-c", "and the second"], 80);
    terminal.until("› first\n\nOne.").until("› and the second").until("Two.").until_prompt();
    terminal.press("\x1b[A").until("› and the second").press("\x15").until_prompt();
    // of the turns that are not on the screen too
    terminal.press("/status\r").until("3,000 in, 150 out");
    leave(&mut terminal);
    assert_eq!(texts(&site.exported()), ["before", "first", "and the second"]);
    site.assert_sound();
}

#[test]
fn the_prompt_of_the_command_line_waits_until_it_is_clear_whether_to_resume() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000"), says("New.")])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("go\r");
    common::wait_until("the command runs", || common::exists(&site.project().join("ready")));
    terminal.signal(rustix::process::Signal::KILL);
    terminal.wait();
    let mut terminal = site.terminal(&["--continue", "something else"], 80);
    terminal.until("The last turn was interrupted.").until("queued: something else");
    terminal.until("[y]es").press("n").until("New.");
    leave(&mut terminal);
    let events = site.exported();
    assert_eq!(texts(&events), ["go", "something else"], "{:?}", kinds(&events));
    site.assert_sound();
}

#[test]
fn a_command_of_the_project_is_in_the_menu_and_comes_before_one_that_yields() {
    let site = Site::scripted(&script(json!([says("Written."), says("Explained.")])));
    site.file(
        ".leftfold/commands/changelog.md",
        "---\ndescription: Write the changelog\n---\nWrite it.",
    );
    site.file(".leftfold/commands/explain.md", "Explain the project.");
    site.file(".leftfold/commands/model.md", "Never sent.");
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("/chlog").until("> /changelog").until("Write the changelog");
    terminal.press("\r").until("Written.").until_prompt().press("/explain\r").until("Explained.");
    terminal.until_prompt().press("/model\r").until("> double/m").press("\x1b");
    leave(&mut terminal);
    assert_eq!(texts(&site.exported()), ["Write it.", "Explain the project."]);
}

#[test]
fn a_terminal_without_codes_lists_what_there_is() {
    let site = Site::scripted(&script(json!([says("One.")]))).env("TERM", "dumb");
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("/model\r").until("/model double/m: double/m · 100k / 8k");
    terminal.until_prompt().press("go\r").until("One.").until_prompt();
    terminal.press("/revert\r").until("/revert 3: go").until_prompt().press("/copy\r");
    terminal.until("this terminal takes no control codes");
    leave(&mut terminal);
    assert!(!terminal.raw.contains('\x1b'), "{:?}", terminal.raw);
}

/// The text among the bytes of a terminal.
fn without_codes(raw: &str) -> String {
    let mut pieces = raw.split("\x1b[");
    let first = pieces.next().unwrap_or_default().to_owned();
    let rest =
        pieces.map(|piece| piece.trim_start_matches(|c: char| !c.is_ascii_alphabetic()).get(1..));
    (first + &rest.flatten().collect::<String>()).replace('\r', "")
}

#[test]
fn the_help_fits_any_width() {
    let site = Site::scripted(&script(json!([says("Never.")])));
    for (columns, expected) in [
        (40, "  /undo\n    take back the last prompt and its\n    changes to files\n"),
        (80, "  /undo                    take back the last prompt and its changes to files\n"),
    ] {
        let mut terminal = site.terminal(&[], columns);
        terminal.until_prompt().press("/help\r").until("Ctrl-Z").until_prompt();
        terminal.press("/status\r").until("permissions").until_prompt();
        // what has scrolled away is among the bytes
        let lines = without_codes(&terminal.raw);
        assert!(lines.contains(expected), "{lines:?}");
        leave(&mut terminal);
    }
}

#[test]
fn the_menu_moves_with_the_keys() {
    let site = Site::scripted(&script(json!([says("Never.")])));
    let mut terminal = site.terminal(&[], 40);
    terminal.until_prompt().press("/").until("> /model").until("more");
    terminal.press(DOWN).until("> /variant").press("\x1b[A").until("> /model");
    terminal.press("\x1b").until_so("closed", |screen| !screen.contents().contains("/agent"));
    terminal.press("\x15");
    leave(&mut terminal);
}

#[test]
fn the_image_of_the_clipboard_is_attached() {
    let site = Site::scripted(&script(json!([says("A shot.")])));
    // a program of the project would not be started
    let program = site.path("bin/xclip");
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    std::fs::write(&program, "#!/bin/sh\nprintf '\\211PNG\\r\\n\\032\\n'\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path =
        format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let site = site.env("PATH", path).env("DISPLAY", ":9").env("WAYLAND_DISPLAY", "");
    let mut terminal = site.terminal(&[], 100);
    let control_v = "\x16";
    terminal.until_prompt().press(control_v).until("› [image 1]").press("what is it?\r");
    terminal.until("A shot.").until_prompt();
    std::fs::write(&program, "#!/bin/sh\necho text\n").unwrap();
    terminal.press(control_v).until("Nothing is pasted: there is no image in the clipboard.");
    leave(&mut terminal);
    let parts = only(&site.exported(), "turn.prompted")["data"]["parts"].clone();
    assert_eq!(parts[0]["text"], "[image 1] what is it?");
    assert_eq!(
        (&parts[1]["mime"], &parts[1]["text"]),
        (&json!("image/png"), &json!("iVBORw0KGgo="))
    );
}

#[test]
fn a_pasted_path_of_an_image_attaches_it_as_long_as_its_marker_is_there() {
    let site = Site::scripted(&script(json!([says("A shot."), says("None.")])));
    let shot = site.file("my shot.png", [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 1, 2]);
    let note = site.file("note.png", "no picture");
    let mut terminal = site.terminal(&[], 100);
    let paste = format!("\x1b[200~'{}'\x1b[201~", shot.display());
    terminal.until_prompt().press(&paste).until("› [image 1: my shot.png]");
    terminal.press("what is it?\r").until("A shot.").until_prompt().press(&paste);
    terminal.until("[image 2: my shot.png]").press("\x15").until_prompt();
    // what is no image stays text
    terminal.press(&format!("\x1b[200~{}\x1b[201~", note.display())).until("note.png");
    terminal.press(" is text\r").until("None.");
    leave(&mut terminal);
    let events = site.exported();
    let prompts = all(&events, "turn.prompted");
    let parts = &prompts[0]["data"]["parts"];
    assert_eq!(parts[0]["text"], "[image 1: my shot.png] what is it?");
    assert_eq!(
        (&parts[1]["mime"], &parts[1]["text"]),
        (&json!("image/png"), &json!("iVBORw0KGgoBAg=="))
    );
    assert_eq!(prompts[1]["data"]["parts"].as_array().unwrap().len(), 1);
    site.assert_sound();
}
