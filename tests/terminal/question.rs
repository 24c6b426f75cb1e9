//! Questions of the model on a pseudo-terminal.

use common::{Site, Terminal, all, call, end, only, says, script};
use serde_json::{Value, json};

const CTRL_D: &str = "\x04";

fn site(multiple: bool) -> Site {
    let questions = json!({ "questions": [{
        "question": "Which database should the service keep its sessions in, now that there are \
                     many of them?",
        "header": "Database",
        "options": [
            { "label": "PostgreSQL", "description": "a server of its own" },
            { "label": "SQLite" },
            { "label": "None" },
        ],
        "multiple": multiple,
    }] });
    Site::scripted(&script(json!([call("question", questions), says("So be it.")])))
}

/// The terminal at the question.
fn asked(site: &Site, columns: u16) -> Terminal {
    let mut terminal = site.terminal(&[], columns);
    terminal.until_prompt().press("go\r").until("[Ctrl-D] dismisses");
    terminal
}

/// Leaves the conversation. Returns the event of the answer.
fn answered(site: &Site, mut terminal: Terminal) -> Value {
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    site.assert_sound();
    only(&site.exported(), "permission.answered")["data"].clone()
}

#[test]
fn digits_choose_and_enter_answers() {
    let site = site(false);
    let mut terminal = asked(&site, 80);
    assert!(
        terminal.shown().contains(
            "? [Database] Which database should the service keep its sessions in, now that\n  there \
             are many of them?\n  1. PostgreSQL – a server of its own\n  2. SQLite\n  3. None\n"
        ),
        "{}",
        terminal.shown()
    );
    terminal.press("1").until("[Enter] answers 1: PostgreSQL");
    terminal.press("2").until("[Enter] answers 2: SQLite").press("\r").until("→ SQLite");
    terminal.until("So be it.");
    assert!(!terminal.shown().contains("[Enter]"), "{}", terminal.shown());
    let answer = answered(&site, terminal);
    assert_eq!((&answer["reply"], &answer["feedback"]), (&json!("once"), &json!("SQLite")));
}

#[test]
fn several_may_be_chosen_where_the_question_says_so() {
    let site = site(true);
    let mut terminal = asked(&site, 200);
    terminal.press("3").until("answers 3: None").press("1").until("answers 1, 3: PostgreSQL, None");
    terminal.press("\r").until("So be it.");
    assert_eq!(answered(&site, terminal)["feedback"], "PostgreSQL, None");
}

#[test]
fn a_letter_begins_an_answer_in_words() {
    let site = site(false);
    let mut terminal = asked(&site, 80);
    terminal.press("N").until("answer: N").press("either of them\r").until("So be it.");
    assert!(terminal.shown().contains("→ Neither of them"), "{}", terminal.shown());
    let answer = answered(&site, terminal);
    assert_eq!(
        (&answer["reply"], &answer["feedback"]),
        (&json!("once"), &json!("Neither of them"))
    );
}

#[test]
fn words_keep_their_first_character() {
    for words in
        ["only the second", "a few", "no", "by hand", "3 of them please", "über alles", "y"]
    {
        let site = site(false);
        let mut terminal = asked(&site, 80);
        // in one piece, then key by key
        let (start, mut rest) = words.split_at(words.chars().next().unwrap().len_utf8());
        terminal.press(start);
        if words.starts_with('3') {
            terminal.until("answers 3: None").press(" ");
            rest = rest.trim_start();
        }
        terminal.until(&format!("answer: {start}")).press(rest).press("\r");
        terminal.until("So be it.");
        assert_eq!(answered(&site, terminal)["feedback"], words);
    }
    let site = site(false);
    let mut terminal = asked(&site, 80);
    terminal.press("3 of them please").until("answer: 3 of them please").press("\r");
    terminal.until("So be it.");
    assert_eq!(answered(&site, terminal)["feedback"], "3 of them please");
}

#[test]
fn pasted_text_begins_an_answer_in_words() {
    for text in ["2", "neither\nof them\n"] {
        let site = site(false);
        let mut terminal = asked(&site, 80);
        terminal
            .press(&format!("\x1b[200~{text}\x1b[201~"))
            .until(&format!("answer: {}", &text[..1]));
        assert!(all(&site.exported(), "permission.answered").is_empty());
        terminal.press("\r").until("So be it.");
        let expected = if text == "2" { "SQLite" } else { text.trim() };
        assert_eq!(answered(&site, terminal)["feedback"], expected);
    }
}

#[test]
fn a_question_is_dismissed_or_its_turn_interrupted() {
    for (key, reason, shown) in
        [(CTRL_D, "blocked", "→ dismissed"), ("\x03", "aborted", "interrupted")]
    {
        let site = site(false);
        let mut terminal = asked(&site, 80);
        terminal.press(key).until(shown).until_prompt().press(CTRL_D);
        assert_eq!(terminal.wait(), 0);
        let events = site.exported();
        assert_eq!(end(&events)["reason"], reason);
        assert!(all(&events, "tool.started").is_empty());
    }
}
