//! `leftfold` with a prompt and files: the start of a conversation, and what is no prompt.

use common::{Site, only, says, script};
use serde_json::json;

const CTRL_D: &str = "\x04";

fn site() -> Site {
    Site::scripted(&script(json!([says("Very well.")])))
}

#[test]
fn a_prompt_and_files_begin_a_conversation() {
    let site = site();
    site.file("notes.md", "Buy milk.\n");
    let mut terminal = site.terminal(&["@notes.md", "What do I need?"], 80);
    terminal.until("Very well.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let parts = only(&events, "turn.prompted")["data"]["parts"].as_array().unwrap();
    assert_eq!(parts[0]["text"], "What do I need?");
    assert!(parts[1]["text"].as_str().unwrap().contains("Buy milk."), "{parts:?}");
    site.assert_sound();
}

#[test]
fn a_single_word_is_a_prompt_on_a_terminal_only() {
    let site = site();
    let mut terminal = site.terminal(&["refactor"], 80);
    terminal.until("Very well.").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let prompted = &only(&site.exported(), "turn.prompted")["data"]["parts"][0]["text"].clone();
    assert_eq!(prompted, "refactor");
}

/// Arguments that begin no conversation, and what the message says.
#[test]
fn what_is_no_start_of_a_conversation() {
    let site = site();
    site.file("a.bin", [0xfe, 0xff]);
    for (args, said) in [
        (&["sesions"][..], "did you mean `leftfold sessions`?"),
        (&["login"], "did you mean `leftfold auth login`?"),
        (&["refactor"], "run `leftfold run refactor`"),
        (&["fix", "the", "bug"], "leftfold \"fix the bug\""),
        (&["modles", "local"], "did you mean `models`?"),
        (&["--agent", "build", "sessions"], "its options go after it"),
        (&["@none.md", "Read it."], "none.md: "),
        (&["@a.bin", "Read it."], "a.bin: is neither UTF-8 text"),
        (&[" "], "the prompt is empty"),
        (&["Fix it."], "a conversation needs a terminal"),
    ] {
        site.run(args).with(2).saying(&[said]);
    }
    assert!(site.sessions().is_empty());
}
