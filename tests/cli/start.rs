//! `leftfold` with a prompt and files: the start of a conversation, and what is no prompt.

use std::io::{Read, Write};
use std::net::TcpListener;

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
    site.file("a.bin", [0xfe, 0x00, 0xff]);
    for (args, said) in [
        (&["sesions"][..], "did you mean `leftfold sessions`?"),
        (&["login"], "did you mean `leftfold auth login`?"),
        (&["refactor"], "run `leftfold run refactor`"),
        (&["fix", "the", "bug"], "leftfold \"fix the bug\""),
        (&["modles", "local"], "did you mean `models`?"),
        (&["--agent", "build", "sessions"], "its options go after it"),
        (&["@none.md", "Read it."], "none.md: "),
        (&["@a.bin", "Read it."], "a.bin: is neither text"),
        (&[" "], "the prompt is empty"),
        (&["Fix it."], "a conversation needs a terminal"),
    ] {
        site.run(args).with(2).saying(&[said]);
    }
    assert!(site.sessions().is_empty());
}

/// A server that lists a model for everyone who asks. Answers its base address.
fn lists_a_model() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let list =
                json!({ "data": [{ "id": "small-model" }, { "id": "embed-model" }] }).to_string();
            let head = format!("content-length: {}\r\nconnection: close\r\n\r\n", list.len());
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{head}{list}");
        }
    });
    base
}

fn without_a_model(ollama: &str) -> Site {
    let nowhere = "http://127.0.0.1:9/v1";
    Site::bare()
        .env("OLLAMA_BASE_URL", ollama)
        .env("LMSTUDIO_BASE_URL", nowhere)
        .env("LLAMACPP_BASE_URL", nowhere)
}

#[test]
fn without_a_model_one_of_this_machine_is_offered_and_kept() {
    let site = without_a_model(&lists_a_model());
    let mut terminal = site.terminal(&[], 100);
    terminal.until("1  small-model (Ollama on this machine)").until("Your choice: ");
    assert!(!terminal.shown().contains("embed-model"), "{}", terminal.shown());
    terminal.press("1\r").until("Stored in ").until("ollama/small-model").until_prompt();
    terminal.press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    let kept = std::fs::read_to_string(site.path("config/leftfold/leftfold.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&kept).unwrap()["model"],
        "ollama/small-model"
    );
    // the next start asks nothing
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
}

#[test]
fn without_a_model_a_key_can_be_stored() {
    let site = without_a_model("http://127.0.0.1:9/v1");
    let mut terminal = site.terminal(&[], 100);
    terminal.until("no provider has a key yet").until("Your choice: ").press("x\r");
    terminal.until("Your choice: x").press("k\r").until("Provider [anthropic]: ").press("\r");
    terminal.until("Key of anthropic").press("sk-ant-0123456789-abcdef\r");
    terminal.until("is stored in").until("anthropic/").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.shown().contains("sk-ant"), "{}", terminal.shown());
}

#[test]
fn without_a_model_one_may_leave() {
    let site = without_a_model("http://127.0.0.1:9/v1");
    let mut terminal = site.terminal(&[], 100);
    terminal.until("Your choice: ").press("q\r");
    assert_eq!(terminal.wait(), 2);
    assert!(site.sessions().is_empty());
}

#[test]
fn a_conversation_adds_a_provider_and_keeps_the_key_unseen() {
    let site = site()
        .env("OLLAMA_BASE_URL", lists_a_model())
        .env("LMSTUDIO_BASE_URL", "http://127.0.0.1:9/v1")
        .env("LLAMACPP_BASE_URL", "http://127.0.0.1:9/v1");
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("/login\r").until("Add a provider");
    terminal.until("ollama/small-model").until("Ollama on this machine").until("ChatGPT");
    terminal.press("anthropic").until("> anthropic").press("\r");
    terminal.until("Key of anthropic (it is not shown): ").press("sk-ant-0123456789-abcdef\r");
    terminal.until("is stored in").until("context / answer").press("opus");
    terminal.until("> anthropic/claude-opus").press("\r").until("model: anthropic/claude-opus");
    // a key on the line is refused, and is not kept
    terminal.until_prompt().press("/connect openai sk-ant-9876543210-fedcba\r");
    terminal.until("a key is typed when you are asked for it").until_prompt().press(CTRL_D);
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.raw.contains("0123456789"), "{}", terminal.raw);
    let kept = std::fs::read_to_string(site.path("home/history")).unwrap();
    assert!(kept.contains("/connect") && !kept.contains("sk-ant"), "{kept}");
    assert!(site.run(&["auth", "list"]).ok().stdout.contains("****cdef"));
    assert!(site.sessions().is_empty());
}
