//! Resources of MCP servers that prompts name as `@SERVER:URI`.

use std::io::Write;

use common::{Editor, Site, mcp, only, says, script};
use serde_json::{Value, json};

const SERVER: &str = "mention::the_server_answers";
const PNG: &str = "iVBORw0KGgo=";
const SECRET: &str = "canary-0123456789";

#[test]
fn the_server_answers() {
    if std::env::var_os("LEFTFOLD_TEST_MCP").is_some() {
        for line in std::io::stdin().lines() {
            let message = serde_json::from_str(&line.unwrap()).unwrap_or_default();
            if let Some(answer) = answer(&message) {
                writeln!(std::io::stdout().lock(), "{answer}").unwrap();
            }
        }
        std::process::exit(0);
    }
    let asked = json!({ "id": 1, "method": "resources/read", "params": { "uri": "note:///none" } });
    assert!(answer(&asked).unwrap()["error"].is_object());
}

/// The test server of the other tests, with resources.
fn answer(message: &Value) -> Option<Value> {
    let uri = message["params"]["uri"].as_str().unwrap_or_default();
    let text = |text: &str| json!({ "contents": [{ "uri": uri, "text": text }] });
    let result = match (message["method"].as_str()?, uri) {
        ("initialize", _) => {
            let mut answer = mcp::answer(message)?;
            answer["result"]["capabilities"]["resources"] = json!({});
            return Some(answer);
        }
        ("resources/list", _) => json!({ "resources": [
            { "uri": "note:///a", "name": "a", "description": "The first note\u{1b}[2J" },
            { "uri": "note:///b c", "name": "cannot be mentioned" },
        ] }),
        ("resources/read", "note:///a") => text("alpha, see @m:note:///b"),
        ("resources/read", "note:///long") => text(&"a long line\n".repeat(3_000)),
        ("resources/read", "note:///secret") => text(&format!("It is {SECRET}.")),
        ("resources/read", "note:///picture") => {
            json!({ "contents": [{ "uri": uri, "mimeType": "image/png", "blob": PNG }] })
        }
        ("resources/read", _) => {
            let error = json!({ "code": -32002, "message": "there is no such note" });
            return Some(json!({ "jsonrpc": "2.0", "id": message["id"], "error": error }));
        }
        _ => return mcp::answer(message),
    };
    Some(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
}

/// A site with the server `m`, and one that is disabled.
fn site() -> Site {
    let site = Site::scripted(&script(json!([says("One."), says("Two.")])));
    let off = json!({ "command": ["no-such-program-anywhere"], "enabled": false });
    site.setting("/mcp", json!({ "m": mcp::local(SERVER, ""), "off": off }))
}

/// The parts of the only prompt.
fn parts(events: &[Value]) -> Vec<Value> {
    only(events, "turn.prompted")["data"]["parts"].as_array().unwrap().clone()
}

fn texts(site: &Site, prompt: &str) -> Vec<String> {
    let parts = parts(&site.prompt(prompt).ok().events());
    parts.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect()
}

const ALPHA: &str =
    "<resource server=\"m\" uri=\"note:///a\">\nalpha, see @m:note:///b\n</resource>";

#[test]
fn a_resource_is_attached_once_and_not_searched() {
    let site = site();
    let prompt = "Look at @m:note:///a, and again at @m:note:///a.";
    assert_eq!(texts(&site, prompt), [prompt, ALPHA]);
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}

#[test]
fn a_conversation_completes_them() {
    let site = site();
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("Hello\r").until("One.").until_prompt();
    terminal.press("See @m:").until("> @m:note:///a").until("The first note");
    assert!(!terminal.shown().contains("note:///b c"), "{}", terminal.shown());
    terminal.press("\t").until("› See @m:note:///a").press("\r").until("Two.");
    terminal.until_prompt().press("\u{4}");
    assert_eq!(terminal.wait(), 0);
    assert!(!terminal.raw.contains("\u{1b}[2J"), "{:?}", terminal.raw);
    let events = site.exported();
    let last = common::all(&events, "turn.prompted").pop().unwrap();
    assert_eq!(last["data"]["parts"][1]["text"], ALPHA);
    site.assert_sound();
}

#[test]
fn what_names_no_server_that_is_there_stays_text() {
    let site = site();
    for prompt in ["@x:note:///a, ann@m:note:///a and @m: too", "`@m:note:///a`", "@off:note:///a"]
    {
        assert_eq!(texts(&site, prompt), [prompt]);
    }
}

#[test]
fn one_that_can_not_be_read_stays_text_and_the_user_is_told() {
    let site = site();
    let ran = site.prompt("See @m:note:///none").ok();
    assert!(ran.stderr.contains("`@m:note:///none` is not attached: "), "{}", ran.stderr);
    assert!(ran.stderr.contains("there is no such note"), "{}", ran.stderr);
    assert_eq!(parts(&ran.events()).len(), 1);
}

#[test]
fn it_is_cut_and_has_its_secrets_hidden_as_results_of_tools_are() {
    let site = site().setting("/secrets", json!({ "DEPLOY": SECRET }));
    let texts = texts(&site, "@m:note:///long @m:note:///secret");
    assert!(texts[1].contains("(Output cut: the first 2000 of 3000 lines"), "{}", texts[1]);
    assert_eq!(
        texts[2],
        "<resource server=\"m\" uri=\"note:///secret\">\nIt is {{secret:DEPLOY}}.\n</resource>"
    );
    let exported = site.run(&["export", "--unmasked", "last"]).ok().stdout;
    assert!(!exported.contains(SECRET), "{exported}");
}

#[test]
fn a_picture_is_one() {
    let parts = parts(&site().prompt("What is on @m:note:///picture?").ok().events());
    assert_eq!(parts.len(), 3, "{parts:?}");
    assert_eq!(
        (&parts[2]["type"], &parts[2]["mime"], &parts[2]["text"]),
        (&json!("media"), &json!("image/png"), &json!(PNG))
    );
}

#[test]
fn rules_for_the_tool_that_reads_it_hold() {
    let site = site().setting("/permission", json!({ "m_read_resource": "deny" }));
    let ran = site.prompt("See @m:note:///a").with(2);
    let said = "the prompt: the rules do not allow m_read_resource";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(site.sessions().is_empty());
}

#[test]
fn commands_name_files_and_resources_alike() {
    let site =
        site().setting("/command", json!({ "see": { "template": "See @m:note:///a, @a.txt" } }));
    site.file("a.txt", "a file\n");
    let texts = texts(&site, "/see");
    assert_eq!(texts[..2], ["See @m:note:///a, @a.txt", ALPHA]);
    assert!(texts[2].starts_with("<file path=\"a.txt\">"), "{texts:?}");
}

#[test]
fn an_editors_words_are_searched_and_what_it_embeds_is_not() {
    let site = site();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = json!([
        { "type": "resource", "resource": { "uri": "file:///b", "text": "@m:note:///secret" } },
        { "type": "text", "text": "and @m:note:///a" },
    ]);
    let asked = editor.ask("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(editor.stop_reason(asked), "end_turn");
    let parts = parts(&site.run(&["export", &session]).ok().events());
    let texts: Vec<&str> = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[1..], ["and @m:note:///a", ALPHA]);
    editor.leave();
}
