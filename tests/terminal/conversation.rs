//! Conversations on a pseudo-terminal: typed text, the screen, and the log.

use std::os::unix::fs::PermissionsExt;

use common::{Site, Terminal, all, bash, end, kinds, marked, only, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A site where commands need permission.
fn asking(replies: Value) -> Site {
    Site::scripted(&script(replies)).setting("/permission", json!({ "bash": "ask" }))
}

/// Text that takes longer than any test waits.
fn endless(prompt: &str) -> Value {
    json!({ "match": { "prompt": prompt }, "chunk": 5, "delay_ms": 20, "parts": [{ "text": "word ".repeat(20_000) }] })
}

/// Reads a prompt and answers it with text.
fn prompt(terminal: &mut Terminal, prompt: &str, answer: &str) {
    terminal.until_prompt().press(prompt).press("\r").until(answer);
}

#[test]
fn a_conversation_with_a_question_and_an_interrupt() {
    let site = asking(json!([
        bash("printf 'made by a tool'"),
        says("# Done\n\nIt is **made**."),
        endless("go on"),
        json!({ "match": { "prompt": "enough" }, "parts": [{ "text": "As you like." }] }),
    ]));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "make it", "[o]nce");
    assert!(terminal.shown().contains("? bash printf 'made by a tool'"), "{}", terminal.shown());
    terminal.press("o").until("allowed once").until("✓ bash printf").until("    made by a tool");
    terminal.until("\nDone\n").until("It is made.");
    prompt(&mut terminal, "go on for ever", "word word");
    terminal.press(CTRL_C).until("interrupted");
    prompt(&mut terminal, "enough", "As you like.");
    terminal.until_prompt().press(CTRL_D).until("leftfold --session");
    assert_eq!(terminal.wait(), 0);

    let events = site.exported();
    let prompts = all(&events, "turn.prompted");
    assert_eq!(prompts.len(), 3);
    assert!(prompts.iter().all(|prompt| prompt["data"]["by"] == "terminal"));
    let answered = &only(&events, "permission.answered")["data"];
    assert_eq!((&answered["reply"], &answered["by"]), (&json!("once"), &json!("terminal")));
    assert_eq!(only(&events, "tool.finished")["data"]["output"], "made by a tool");
    let reasons = all(&events, "turn.ended").into_iter().map(|ended| &ended["data"]["reason"]);
    assert!(reasons.eq([&json!("completed"), &json!("aborted"), &json!("completed")]));
    site.assert_sound();
    let history = site.path("home/history");
    assert_eq!(history.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(history).unwrap().contains("go on for ever"));
}

#[test]
fn no_because() {
    let site = asking(json!([bash("touch made"), says("Then not.")]));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "make it", "[o]nce");
    // a cursor key is not an answer, although its sequence ends in a letter that is one
    terminal.press("\x1b[A").press("b").until("because:").press("not today\r").until("Then not.");
    terminal.until("rejected: not today").until_prompt().press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    let answered = &only(&site.exported(), "permission.answered")["data"].clone();
    assert_eq!(
        (&answered["reply"], &answered["feedback"]),
        (&json!("reject"), &json!("not today"))
    );
    assert!(!common::exists(&site.project().join("made")));
}

#[test]
fn no_ends_the_turn_and_always_asks_no_more() {
    let site = asking(json!([bash("echo 1"), bash("echo 2"), bash("echo 2"), says("Both.")]));
    let mut terminal = site.terminal(&[], 200);
    prompt(&mut terminal, "one", "[o]nce");
    terminal.press("n").until("stopped: a call was rejected");
    prompt(&mut terminal, "two", "[o]nce");
    // the second key: any other one leads back
    terminal.press("a").until("bash: echo *\n").until("[y] allows it").press("n");
    terminal.until("[o]nce").press("a").until("[y] allows it").press("y");
    terminal.until("allowed from now on: echo *").until("Both.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    assert_eq!(all(&events, "permission.asked").len(), 2, "{:?}", kinds(&events));
    assert_eq!(all(&events, "turn.ended")[0]["data"]["reason"], "blocked");
    site.assert_sound();
}

#[test]
fn what_always_allows_is_edited_before_it_counts() {
    let site = asking(json!([bash("echo 1"), bash("echo 2"), bash("echo 3"), says("All.")]))
        .setting("/permission/bash", json!({ "*": "ask", "env *": "deny" }));
    for columns in [40, 80, 120] {
        let mut terminal = site.terminal(&[], columns);
        prompt(&mut terminal, "go", "[o]nce");
        terminal.press("a").until("bash: echo *\n").until("[e] edits").press("e");
        terminal.until("allow: echo *").until("Enter allows these");
        // unchanged patterns leave nothing behind
        terminal.press("\x1b").until("[o]nce");
        assert!(!terminal.shown().contains("aside"), "{}", terminal.shown());
        terminal.press("a").until("[e] edits").press("e").until("allow: echo *");
        // neither of these is allowed, and the text stays
        for (typed, shown, why) in [
            ("\x7f\x7f 2", "allow: echo 2", "`echo 2` does not match"),
            ("\x7f\x7f\x7f\x7f\x7f\x7f*", "allow: *", "`*` would also allow"),
        ] {
            terminal.press(typed).until(shown).press("\r").until(why).until(shown);
        }
        // Esc leads back, with nothing allowed
        terminal.press("\x1b").until("aside: *").until("[o]nce").press("a").until("[e] edits");
        terminal.press("e").until("allow: echo *").press("\x7f?\r");
        terminal.until("allowed from now on: echo ?").until("All.");
        // the draft that was put aside
        terminal.until("› *").press("\x15").until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        let events = site.exported();
        let answered = &only(&events, "permission.answered")["data"];
        assert_eq!(answered["always"], json!(["echo ?"]));
        let listed = site.run(&["permission", "list"]).ok().stdout;
        assert!(listed.ends_with(" bash: echo ?\n"), "{listed}");
        site.run(&["permission", "forget", "--all"]).ok();
        site.assert_sound();
    }
}

#[test]
fn typing_while_a_question_appears_neither_answers_it_nor_gets_lost() {
    let site = asking(json!([bash("sleep 0.3; touch made"), says("Made."), says("Docs too.")]));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("make it\r").until("make it\n");
    for key in "also add docs".split_inclusive(' ') {
        terminal.press(key);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    terminal.until("› also add docs").until("keys do not answer while you write");
    std::thread::sleep(std::time::Duration::from_millis(900));
    terminal.press(", a").until("› also add docs, a").press("\x7f\x7f\x7f");
    // the cursor is drawn after it
    terminal.until("› also add docs \n");
    assert!(!terminal.shown().contains("[o]nce"), "{}", terminal.shown());
    // the text is the next prompt, which waits for the end of the turn
    terminal.press("\r").until("queued: also add docs").until("[o]nce");
    assert!(!common::exists(&site.project().join("made")));
    terminal.press("o").until("Made.").until("› also add docs").until("Docs too.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let answered = &only(&events, "permission.answered")["data"];
    assert_eq!((&answered["reply"], &answered["feedback"]), (&json!("once"), &Value::Null));
    let prompts = all(&events, "turn.prompted");
    assert_eq!(prompts[1]["data"]["parts"][0]["text"], "also add docs");
    site.assert_sound();
}

#[test]
fn a_paste_answers_no_question_and_becomes_a_draft() {
    let site = asking(json!([bash("touch made"), says("Made."), says("Well.")]));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("make it\r").until("[o]nce");
    let (on, off) = (terminal.raw.rfind("\x1b[?2004h"), terminal.raw.rfind("\x1b[?2004l"));
    assert!(on > off, "pastes are not marked");
    terminal.press("\x1b[200~o\x1b[201~").until("› o").until("keys do not answer");
    terminal.press("\x1b").until("aside: o").until("[o]nce");
    terminal.press("a").until("[y] allows it from now on");
    terminal.press("\x1b[200~y\x1b[201~").until("› y");
    terminal.press("\x1b").until("aside: o … 1 more lines").until("[o]nce");
    assert!(!common::exists(&site.project().join("made")));
    std::thread::sleep(std::time::Duration::from_millis(900));
    terminal.press("o").until("Made.").until("› o\n  y").press("\r").until("Well.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let prompts = site.exported();
    assert_eq!(all(&prompts, "turn.prompted")[1]["data"]["parts"][0]["text"], "o\ny");
    site.assert_sound();
}

/// Two questions at once.
fn asking_two() -> Site {
    let two = json!({ "parts": [
        { "call": { "name": "bash", "input": { "command": "touch first" } } },
        { "call": { "name": "bash", "input": { "command": "touch second" } } },
    ] });
    asking(json!([two, says("Both.")]))
}

/// Answers the question on the screen from elsewhere. Returns the command of the other one.
fn answer_from_elsewhere(site: &Site, terminal: &Terminal) -> &'static str {
    wait_until("both ask", || all(&site.exported(), "permission.asked").len() == 2);
    let shown = terminal.shown();
    // calls are resolved at once, in any order
    let (shown_one, other) = match shown.contains("touch first") {
        true => ("touch first", "touch second"),
        false => ("touch second", "touch first"),
    };
    assert!(shown.contains(shown_one) && !shown.contains(other), "{shown}");
    let events = site.exported();
    let asked = all(&events, "permission.asked").into_iter();
    let asked = asked.filter(|asked| asked["data"]["patterns"][0] == shown_one);
    let seq = only(&asked.cloned().collect::<Vec<_>>(), "permission.asked")["seq"].to_string();
    site.run(&["permission", "answer", "last", &seq, "once"]).ok();
    other
}

#[test]
fn a_question_that_another_terminal_answers_says_so_and_the_next_is_drawn_whole() {
    let site = asking_two();
    let mut terminal = site.terminal(&[], 100);
    prompt(&mut terminal, "make them", "[o]nce");
    let other = answer_from_elsewhere(&site, &terminal);
    let question = format!("? bash {other}");
    terminal.until("closed: answered elsewhere").until(&question).until("[o]nce");
    let shown = terminal.shown();
    let (_, last) = shown.split_once(&question).unwrap();
    assert!(!last.contains("touch"), "{shown}");
    assert_eq!(shown.matches("[o]nce").count(), 1, "{shown}");
    terminal.press("o").until("Both.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

#[test]
fn a_run_on_a_terminal_takes_no_line_that_was_typed_before() {
    let site = asking(json!([bash("touch made"), says("Done.")]));
    let mut terminal = site.terminal(&["run", "make it"], 100);
    terminal.until("allow bash on touch made?").press("a\r");
    // the question says it once
    assert!(!terminal.shown().contains("asks for"), "{}", terminal.shown());
    terminal.until("[o]nce, [a]lways, [n]o");
    assert!(!common::exists(&site.project().join("made")));
    terminal.press("a\r").until("bash: touch *").until("[y] allows it").press("e\r");
    terminal.until("the pattern to allow instead").press("rm *\r").until("does not match");
    terminal.until("allow bash on touch made? [o]nce").press("a\r").until("[e]dit").press("e\r");
    terminal.until("the pattern to allow instead").press("touch m*\r").until("Done.");
    assert_eq!(terminal.wait(), 0);
    let answered = &only(&site.exported(), "permission.answered")["data"].clone();
    assert_eq!((&answered["reply"], &answered["always"]), (&json!("always"), &json!(["touch m*"])));
}

#[test]
fn a_run_on_a_terminal_shows_nothing_else_while_it_asks() {
    let site = asking_two();
    let mut terminal = site.terminal(&["run", "make them"], 100);
    terminal.until("or say why not: ");
    let other = answer_from_elsewhere(&site, &terminal);
    terminal.until("closed: answered elsewhere");
    terminal.until(&format!("allow bash on {other}? [o]nce")).press("o\r").until("Both.");
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

#[test]
fn an_empty_line_says_how_to_leave() {
    let site = Site::scripted(&script(json!([says("never")])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("half a line").until("half a line").press(CTRL_C);
    terminal.until_prompt().press("/nonsense\r").until("There is no command /nonsense: see /help");
    terminal.until_prompt().press("/help\r").until("interrupt the turn");
    terminal.until_prompt().press(CTRL_C).until("To leave, press Ctrl-C again");
    terminal.until_prompt().press(CTRL_C);
    assert_eq!(terminal.wait(), 0);
    // nothing was said, so there is no session
    assert_eq!(site.sessions().len(), 0);
}

#[test]
fn several_lines_are_one_prompt() {
    let site = Site::scripted(&script(json!([says("Heard."), says("Again.")])));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "first \\\rsecond", "Heard.");
    prompt(&mut terminal, "\x1b[200~pasted one\npasted two\x1b[201~", "Again.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let texts = all(&events, "turn.prompted").into_iter();
    let texts = texts.map(|prompt| prompt["data"]["parts"][0]["text"].as_str().unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["first \nsecond", "pasted one\npasted two"]);
}

#[test]
fn a_terminal_that_goes_leaves_a_turn_that_can_be_resumed() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::KILL, -9)] {
        // the end of the first call ends its processes, and no other
        let site = Site::scripted(&script(json!([
            bash("true"),
            bash("touch ready; sleep 1000"),
            says("Nobody knows."),
        ])));
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press("go\r");
        wait_until("the command runs", || common::exists(&site.project().join("ready")));
        // the cursor is drawn while a turn runs
        terminal.until_so("hidden", vt100::Screen::hide_cursor);
        assert!(!terminal.is_usual());
        terminal.signal(signal);
        assert_eq!(terminal.wait(), code);
        assert!(terminal.is_usual(), "{signal:?}");
        assert!(terminal.raw.contains("\x1b[?1004l\x1b[<u\x1b[?2004l"), "{signal:?}");
        let events = site.exported();
        assert_eq!(all(&events, "tool.finished").len(), 1, "{signal:?}");
        assert!(all(&events, "turn.ended").is_empty(), "{signal:?}");
        if signal != Signal::KILL {
            assert_eq!(marked(events[0]["session"].as_str().unwrap()), [], "left behind");
        }
        let mut terminal = site.terminal(&["--continue"], 80);
        terminal.until("The last turn was interrupted.").until("[y]es").press("y");
        terminal.until("outcome unknown").until("Nobody knows.").until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        site.assert_sound();
    }
}

#[test]
fn a_turn_that_is_not_resumed_is_closed_by_the_next_prompt() {
    let site = Site::scripted(&script(json!([bash("touch ready; sleep 1000"), says("New.")])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("go\r");
    wait_until("the command runs", || common::exists(&site.project().join("ready")));
    terminal.signal(Signal::KILL);
    terminal.wait();
    let id = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let mut terminal = site.terminal(&["--session", &id], 80);
    terminal.until("[y]es").press("n").until("Your next prompt closes it.");
    prompt(&mut terminal, "something else", "New.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    assert_eq!(all(&events, "turn.ended")[0]["data"]["reason"], "aborted");
    assert_eq!(end(&events)["reason"], "completed");
    site.assert_sound();
}

#[test]
fn a_question_survives_the_terminal_that_asked_it() {
    let site = asking(json!([bash("echo answered"), says("At last.")]));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "go", "[o]nce");
    terminal.signal(Signal::KILL);
    terminal.wait();
    let mut terminal = site.terminal(&["-c"], 80);
    terminal.until("[y]es").press("y").until("[o]nce").press("o").until("At last.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    only(&events, "permission.asked");
    only(&events, "permission.answered");
    site.assert_sound();
}

#[test]
fn a_tool_does_not_drive_the_terminal() {
    let evil = "printf '\\033]0;evil\\007\\033[2Jshown\\033[31m\\n'";
    let site = Site::scripted(&script(json!([bash(evil), says("\u{1b}[5mcalm\u{1b}[0m")])));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "go", "calm");
    terminal.until("    shown").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    for code in ["\x1b]0;", "\x1b[2J", "\x1b[5m"] {
        assert!(!terminal.raw.contains(code), "{code:?} in {:?}", terminal.raw);
    }
}

#[test]
fn plain_where_colours_are_not_wanted() {
    let replies = script(json!([says("# Title\n\nsome **bold** word\n\n`code`")]));
    for (name, value, text) in
        [("NO_COLOR", "1", "some bold word"), ("TERM", "dumb", "some **bold** word")]
    {
        let site = Site::scripted(&replies).env(name, value);
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press("go\r");
        terminal.until("Title").until(text).until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        let is_colour = |code: &str| {
            let end = code.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(code.len());
            let codes = code[..end].split(';').filter_map(|code| code.parse::<u8>().ok());
            code[end..].starts_with('m') && codes.into_iter().any(|code| code >= 30)
        };
        let colours = terminal.raw.split("\x1b[").skip(1).filter(|code| is_colour(code));
        assert_eq!(colours.count(), 0, "{:?}", terminal.raw);
        assert!(name != "TERM" || !terminal.raw.contains('\x1b'), "{:?}", terminal.raw);
    }
}

#[test]
fn a_pipe_is_sent_to_run() {
    let site = Site::scripted(&script(json!([says("never")])));
    site.run(&[]).with(2).saying(&["terminal", "`leftfold run -`"]);
    site.run(&["--continue"]).with(2).saying(&["`leftfold run -`"]);
}

#[test]
fn the_changes_of_a_turn_and_of_the_session_are_shown() {
    let of = |prompt: &str, answers: usize, mut reply: Value| {
        reply["match"] = json!({ "prompt": prompt, "answers": answers });
        reply
    };
    let site = Site::scripted(&script(json!([
        of("one", 0, bash("printf 'first\\x1b[2J\\n' > a")),
        of("one", 1, says("Done one.")),
        of("two", 2, bash("echo second > b")),
        of("two", 3, says("Done two.")),
        of("three", 4, says("Done three.")),
    ])))
    .setting("/snapshot", json!(true));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("/diff\r").until("the session has only begun");
    terminal
        .until_prompt()
        .press("/diff tree\r")
        .until("no git repository, and the session has no");
    prompt(&mut terminal, "one", "Done one.");
    prompt(&mut terminal, "two", "Done two.");
    terminal.until_prompt().press("/diff\r").until("b (new) +1 -0").until("1 + second");
    terminal.until("1 file changed, +1 -0").until_prompt();
    terminal.press("/diff 1\r").until("1 + first\\x1b[2J").until("1 file changed, +1 -0");
    // a turn without changes
    prompt(&mut terminal, "three", "Done three.");
    terminal.until_prompt().press("/diff\r").until("b (new) +1 -0");
    terminal.until("the last turn has changed no file").until("2 files changed, +2 -0");
    terminal.until_prompt().press("/diff session\r").until("a (new) +1 -0").until("b (new) +1 -0");
    terminal.until("2 files changed, +2 -0");
    terminal.until_prompt().press("/diff 4\r").until("there is no turn 4: the session has 3");
    terminal.until_prompt().press("/diff x\r").until("/diff [N|session|tree]: ");
    // whoever has changed them, since the first snapshot
    site.file("c", "third\n");
    terminal.until_prompt().press("/diff tree\r").until("c (new) +1 -0");
    terminal.until("compared with the session's first snapshot").until("3 files changed, +3 -0");
    terminal.until_prompt().press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
}

#[test]
fn a_dumb_terminal_asks_and_shows_what_is_typed() {
    let site = asking(json!([bash("echo 1"), says("Done.")])).env("TERM", "dumb");
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("make itt").until("› make itt").press("\x7f");
    terminal.until_so("shorter", |screen| screen.contents().trim_end().ends_with("› make it"));
    terminal.press("\r").until("? bash echo 1").until("[o]nce").press("a").until("[y] allows it");
    terminal
        .press("n")
        .until_so("the keys again", |screen| screen.contents().matches("[o]nce").count() == 2);
    terminal.press("o").until("allowed once").until("Done.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.raw.contains('\x1b'), "{:?}", terminal.raw);
    site.assert_sound();
}

#[test]
fn prompts_are_queued_while_the_model_works_and_come_back_after_an_interrupt() {
    let site = Site::scripted(&script(json!([
        bash("while [ ! -e go ]; do sleep 0.05; done"),
        says("First."),
        says("Second."),
        endless("third"),
    ])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("first\r").until("bash while");
    terminal.press("second\r").until("queued: second").press("third\r").until("queued: third");
    // the last one is changed
    terminal.press("\x1b[A").until("› third").press(" one\r").until("queued: third one");
    site.file("go", "");
    terminal.until("First.").until("› second").until("Second.").until("› third one");
    terminal.until("word word").press("fourth\r").until("queued: fourth").press("draft");
    terminal.until("› draft").press(CTRL_C).until("Cleared").press(CTRL_C).until("interrupted");
    terminal.until("› fourth").press("\x15").until_prompt().press("\x1b[A").until("› draft");
    terminal.press(CTRL_C).until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let prompts = all(&events, "turn.prompted").into_iter();
    let prompts = prompts.map(|prompt| prompt["data"]["parts"][0]["text"].as_str().unwrap());
    assert_eq!(prompts.collect::<Vec<_>>(), ["first", "second", "third one"]);
    site.assert_sound();
}

#[test]
fn the_text_can_be_written_while_a_server_starts_and_the_screen_says_so() {
    let server = json!({ "type": "local", "command": ["sh", "-c", "sleep 4; exit 1"] });
    let site = Site::scripted(&script(json!([says("Heard.")]))).setting("/mcp/slow", server);
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("go\r").until("starting the MCP server slow");
    terminal.press("more").until("› more");
    assert!(terminal.shown().contains("starting the MCP server slow"), "{}", terminal.shown());
    terminal.until("Heard.").press("\x15").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_resize_draws_the_live_rows_again() {
    let site = Site::scripted(&script(json!([endless("go")]))).env("XTERM_VERSION", "vt100");
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("go\r").until("word word").press("a draft");
    for columns in [40, 30, 1, 120] {
        terminal.resize(columns).press(".");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    terminal.until("› a draft....");
    terminal.until_so("one composer", |screen| screen.contents().matches("› a draft").count() == 1);
    terminal.press(CTRL_C).press(CTRL_C).until("interrupted").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn a_command_line_of_the_user_runs_without_a_question_and_the_model_reads_it() {
    let site = asking(json!([says("I see.")]));
    let mut terminal = site.terminal(&[], 80);
    terminal
        .until_prompt()
        .press("!printf 'by hand'\r")
        .until("✓ bash printf")
        .until("    by hand");
    terminal.until_prompt();
    assert!(!terminal.shown().contains("[o]nce"), "{}", terminal.shown());
    assert!(all(&site.exported(), "model.requested").is_empty());
    terminal.press("well?\r").until("I see.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(only(&site.exported(), "tool.finished")["data"]["output"], "by hand");
    site.assert_sound();
}

#[test]
fn the_prompt_is_written_in_an_editor() {
    let site = Site::scripted(&script(json!([says("Heard.")])));
    let editor = site.file("editor", "#!/bin/sh\nprintf ' and more\\nlines\\n' >> \"$1\"\n");
    std::fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).unwrap();
    let site = site.env("VISUAL", editor.to_str().unwrap());
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("some text").until("› some text").press("\x07");
    terminal.until("› some text and more\n  lines").press("\r").until("Heard.");
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let text = only(&site.exported(), "turn.prompted")["data"]["parts"][0]["text"].clone();
    assert_eq!(text, "some text and more\nlines");
}

#[test]
fn an_earlier_prompt_is_taken_back() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])))
        .setting("/snapshot", json!(true));
    let mut terminal = site.terminal(&[], 80);
    prompt(&mut terminal, "first", "One.");
    prompt(&mut terminal, "second", "Two.");
    terminal.until_prompt().press("\x1b").until("Esc again").press("\x1b").until("> second");
    terminal.press("\x1b[B").until("> first").press("\r").until("> take it back").press("\r");
    terminal.until("took back: first").until("[no file had to be restored]").until("› first");
    terminal.press(" again\r").until("\n› first again\n\nOne.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    only(&site.exported(), "files.revert_asked");
    site.assert_sound();
}

#[test]
fn a_killed_conversation_leaves_a_terminal_that_the_next_one_repairs() {
    let site = Site::scripted(&script(json!([says("One.")])));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt();
    for code in ["\x1b[?2004h", "\x1b[?1004h", "\x1b[>1u"] {
        assert!(terminal.raw.contains(code), "{code:?}");
    }
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    for code in ["\x1b[?2004l", "\x1b[?1004l", "\x1b[<u", "\x1b[?25h"] {
        assert!(terminal.raw.contains(code), "{code:?}");
    }
}

#[test]
fn a_fork_continues_before_an_earlier_prompt() {
    let site = Site::scripted(&script(json!([says("One."), says("Two."), says("Another.")])));
    let mut terminal = site.terminal(&[], 100);
    prompt(&mut terminal, "first", "One.");
    prompt(&mut terminal, "second", "Two.");
    terminal.until_prompt().press("\x1b").until("Esc again").press("\x1b").until("> second");
    terminal.press("\r").until("> take it back").press("\x1b[B").until("> fork before it, leave");
    terminal.press("\r").until("[a fork; `leftfold --session ").until("› second");
    terminal.press(" again\r").until("› second again").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert_eq!(site.run(&["sessions"]).ok().stdout.lines().count(), 2, "{}", terminal.shown());
}
