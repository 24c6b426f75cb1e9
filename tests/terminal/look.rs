//! Settings of the conversation: its keys and its colours.

use std::time::Duration;

use common::{Site, Terminal, says, script};
use serde_json::{Value, json};

const CTRL_D: &str = "\x04";
/// The colours of the sign before a prompt and of its text: for a light and a dark background, and for one that is not
/// known.
const LIGHT: [&str; 2] = ["1;38;2;111;66;193;48;2;234;238;242", "48;2;234;238;242"];
const DARK: [&str; 2] = ["1;38;2;199;155;240;48;2;42;47;56", "48;2;42;47;56"];
const UNKNOWN: [&str; 2] = ["1;35;48;2;42;47;56", "38;2;208;215;222;48;2;42;47;56"];
const QUESTION: &str = "\x1b]11;?\x07";

fn colourful(replies: Value) -> Site {
    Site::scripted(&script(replies)).env("COLORTERM", "truecolor")
}

/// A prompt that was sent, with its codes.
fn sent([sign, text]: [&str; 2], prompt: &str) -> String {
    format!("\x1b[{sign}m› \x1b[0m\x1b[{text}m{prompt}\x1b[0m")
}

/// Takes what was drawn since the last time.
fn drawn(terminal: &mut Terminal) -> String {
    std::mem::take(&mut terminal.raw)
}

#[test]
fn the_theme_follows_the_background_and_no_key_is_lost() {
    for (answer, colours) in [
        ("\x1b]11;rgb:ffff/ffff/ffff\x07", LIGHT),
        ("\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\", DARK),
        ("", UNKNOWN),
        // answers that say nothing
        ("\x1b]11;rgb:zz/zz/zz\x07", UNKNOWN),
        ("\x1b]11;?\x07\x1b]10;rgb:ffff/ffff/ffff\x07", UNKNOWN),
    ] {
        let site = colourful(json!([says("Heard.")]));
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt();
        assert!(terminal.raw.contains(QUESTION), "{answer:?}");
        drawn(&mut terminal);
        terminal.press(&format!("he{answer}llo")).until("› hello").press("\r").until("Heard.");
        assert!(drawn(&mut terminal).contains(&sent(colours, "hello")), "{answer:?}");
        terminal.until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
    }
}

#[test]
fn an_answer_in_pieces_types_nothing_and_a_late_one_counts_from_then_on() {
    let site = colourful(json!([says("One."), says("Two.")]));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press("first\r").until("One.").until_prompt();
    assert!(drawn(&mut terminal).contains(&sent(UNKNOWN, "first")));
    // a slow line
    terminal.press("\x1b]11;rgb:ffff/ff").read_for(Duration::from_millis(100));
    terminal.press("ff/ffff\x07second").until("› second").press("\r").until("Two.");
    assert!(drawn(&mut terminal).contains(&sent(LIGHT, "second")));
    // one that never ends, and keys
    terminal.until_prompt().press("\x1b]11;rgb:00");
    terminal.read_for(Duration::from_millis(700));
    terminal.press("keys").until("› keys").press("\x15").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn nothing_is_asked_where_the_answer_changes_nothing() {
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb"), ("TERM", "xterm")] {
        let site = Site::scripted(&script(json!([says("never")]))).env(name, value);
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        assert!(!terminal.raw.contains("\x1b]11"), "{name}={value}");
    }
    let site = colourful(json!([says("never")])).setting("/terminal/theme", json!("dark"));
    let mut terminal = site.terminal(&[], 80);
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.raw.contains("\x1b]11"));
}

#[test]
fn settings_choose_the_keys_and_every_text_names_them() {
    let keys = json!({
        "cancel": "ctrl+q", "expand": "f5", "send": ["enter", "alt+s"], "newline": "ctrl+x", "leave": "none",
    });
    let lines = "printf '1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n10\\n11\\n12\\n13\\n14\\n'";
    let site = Site::scripted(&script(json!([common::bash(lines), says("Done.")])))
        .setting("/terminal/keys", keys);
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("draft").until("› draft").press("\x11");
    terminal.until("Cleared; Up brings it back. Ctrl-Q again leaves.").until_prompt();
    // the old keys do nothing
    terminal.press("\x03\x04").press("one\x18two").until("› one\n  two").press("\x1bs");
    terminal.until("… 9 lines above, F5 shows all").until("Done.").until_prompt();
    terminal.press("\x1b[15~").until("\n  1\n  2\n  3");
    terminal.press("/help\r").until("Enter, Alt-S").until("Ctrl-Q").until_prompt();
    terminal.press("/help keys\r").until("Keys in the text").until("cut to the end");
    assert!(!terminal.shown().contains("Ctrl-O"), "{}", terminal.shown());
    terminal.until_prompt().press("\x11").until("press Ctrl-Q again, or type /exit").press("\x11");
    assert_eq!(terminal.wait(), 0);

    let site = Site::scripted(&script(json!([says("never")])))
        .setting("/terminal/keys", json!({ "editr": "ctrl+x" }));
    let mut terminal = site.terminal(&[], 200);
    terminal.until("`terminal.keys.editr` is not a setting").until("did you mean `editor`?");
    assert_eq!(terminal.wait(), 2);
}

#[test]
fn who_looks_elsewhere_is_called_as_settings_say() {
    for (notify, call) in [
        ("bell", "\x07"),
        ("osc9", "\x1b]9;Leftfold has finished\x07"),
        ("osc777", "\x1b]777;notify;Leftfold;Leftfold has finished\x07"),
        ("off", ""),
    ] {
        let site = Site::scripted(&script(json!([says("One."), says("Two.")])))
            .setting("/terminal/notify", json!(notify))
            .setting("/terminal/theme", json!("dark"));
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press("first\r").until("One.").until_prompt();
        terminal.read_for(Duration::from_millis(100));
        let at_the_screen = drawn(&mut terminal);
        assert!(!at_the_screen.contains('\x07'), "{notify}: {at_the_screen:?}");
        terminal.press("\x1b[Osecond\r").until("Two.").until_prompt();
        terminal.read_for(Duration::from_millis(100));
        let elsewhere = drawn(&mut terminal);
        assert_eq!(elsewhere.contains('\x07'), notify != "off", "{notify}: {elsewhere:?}");
        assert!(elsewhere.contains(call), "{notify}: {elsewhere:?}");
        terminal.press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
    }
}

#[test]
fn the_status_line_has_the_parts_that_settings_name() {
    let says = json!({ "parts": [{ "text": "One." }], "usage": { "input": 500, "output": 20 } });
    for (status, shown, hidden) in [
        (Value::Null, &["build · double/m", "asks"][..], &["queued"][..]),
        (
            json!(["permissions", "model"]),
            &["asks outside the project · double/m"],
            &["build", "queued"],
        ),
        (json!([]), &[], &["build", "asks", "double/m"]),
    ] {
        let mut site = Site::scripted(&script(json!([says])));
        if !status.is_null() {
            site = site.setting("/terminal/status", status.clone());
        }
        let mut terminal = site.terminal(&[], 80);
        terminal.until_prompt().press("go\r").until("One.").until_prompt();
        let screen = terminal.shown();
        let (_, below) = screen.rsplit_once("\n›").unwrap_or_default();
        for text in shown {
            assert!(below.contains(text), "{status}: {screen}");
        }
        for text in hidden {
            assert!(!below.contains(text), "{status}: {screen}");
        }
        terminal.press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
    }
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let replies = script(json!([common::bash("printf 'ünï'"), says("# T\n\n- »x« – 漢")]));
    let site = Site::scripted(&replies).env("LC_ALL", "C");
    let mut terminal = site.terminal(&[], 80);
    terminal.until("\n> ").press("go\r").until("+ bash printf").until("?x? - ??").until("\n> ");
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.raw.is_ascii(), "{:?}", terminal.raw);
}

#[test]
fn ten_megabytes_are_pasted_and_sent_whole() {
    let site = Site::scripted(&script(json!([says("Heard.")])));
    let mut terminal = site.terminal(&[], 80);
    let line = "0123456789 abcdefghij 0123456789 abcdefghij 0123456789 abcdefghi\n";
    let text = line.repeat(10 * 1024 * 1024 / line.len());
    let lines = text.lines().count();
    terminal.until_prompt().press(&format!("\x1b[200~{text}\x1b[201~"));
    terminal.until(&format!("[pasted {lines} lines]"));
    drawn(&mut terminal);
    terminal.press(" and so on\r").until("Heard.").until_prompt();
    let written = drawn(&mut terminal).len();
    assert!(written < 20_000, "{written} bytes for the screen");
    terminal.until("more lines, Ctrl-O shows all").press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let sent = &common::only(&events, "turn.prompted")["data"]["parts"][0]["text"];
    assert_eq!(sent.as_str().unwrap().len(), text.len() + " and so on".len());
    let history = site.path("home/history").metadata().map_or(0, |file| file.len());
    assert!(history < 100_000, "{history} bytes of history");
}
