//! Commands: `/NAME ARGUMENTS` in a prompt stands for a text from settings or a Markdown file.

use common::{Editor, Site, only, says, script};
use serde_json::{Value, json};

fn site() -> Site {
    Site::scripted(&script(json!([says("One."), says("Two."), says("Three.")])))
}

/// The texts of the one prompt of a run.
fn prompted(events: &[Value]) -> Vec<String> {
    let parts = only(events, "turn.prompted")["data"]["parts"].as_array().unwrap().clone();
    parts.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect()
}

fn run(site: &Site, prompt: &str) -> Vec<String> {
    prompted(&site.prompt(prompt).ok().events())
}

fn refused(site: &Site, args: &[&str], said: &str) {
    let ran = site.run(&[&["run"], args].concat());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains(said), "{said}: {ran:?}");
}

#[test]
fn commands_come_from_markdown_and_settings() {
    let site = site().setting("command", json!({ "fix": { "template": "Fix $1: $2" } }));
    site.file(
        ".opencode/command/git/log.md",
        "---\ndescription: History\n---\n\nLog of $ARGUMENTS.\n",
    );
    site.file(".leftfold/commands/plain.md", "No head.");
    assert_eq!(run(&site, "/fix a.rs it is \"very broken\""), ["Fix a.rs: it is very broken"]);
    assert_eq!(run(&site, "/git/log main"), ["Log of main."]);
    assert_eq!(run(&site, "/plain and more"), ["No head.\n\nand more"]);
    site.assert_sound();
}

#[test]
fn what_is_no_command() {
    let site = site().setting("command", json!({ "review": { "template": "R" }, "empty": {} }));
    refused(&site, &["/reviwe x"], "there is no command `/reviwe`; did you mean `/review`?");
    refused(&site, &["/empty"], "the command `/empty` has no template");
    assert_eq!(site.sessions().len(), 0);
    for text in ["/etc/hosts: what is it?", " /reviwe x", "/* why */"] {
        assert_eq!(run(&site, text), [text]);
    }
    let none = self::site();
    refused(&none, &["/x-y-z"], ".leftfold/commands/NAME.md");
}

#[test]
fn files_are_attached_and_not_searched() {
    let site = site()
        .setting("command", json!({ "see": { "template": "See @a.txt and @none.txt, @b.txt" } }));
    site.file("a.txt", "alpha @b.txt\n");
    site.file("b.txt", "beta @see\n");
    site.file("c.txt", "gamma\n");
    let parts = run(&site, "/see @c.txt");
    assert_eq!(parts[0], "See @a.txt and @none.txt, @b.txt\n\n@c.txt");
    assert_eq!(parts.len(), 4, "{parts:?}");
    for (part, name, text) in
        [(1, "a.txt", "alpha @b.txt"), (2, "b.txt", "beta @see"), (3, "c.txt", "gamma")]
    {
        assert!(parts[part].starts_with(&format!("<file path=\"{name}\">")), "{parts:?}");
        assert!(parts[part].contains(text), "{parts:?}");
    }
}

#[test]
fn files_that_rules_do_not_allow_are_not_sent() {
    let site = site().setting(
        "command",
        json!({ "leak": { "template": "@.env" }, "out": { "template": "@../out.txt" } }),
    );
    site.file(".env", "PASSWORD=very-secret\n");
    std::fs::write(site.path("out.txt"), "very-secret").unwrap();
    refused(&site, &["/leak"], "the rules do not allow read `.env`");
    refused(&site, &["/out"], "external_directory");
    assert_eq!(site.sessions().len(), 0);
    let parts = prompted(&site.run(&["run", "--yes", "--format", "json", "/leak"]).ok().events());
    assert!(parts[1].contains("very-secret"), "{parts:?}");
}

#[test]
fn output_of_the_shell_is_put_in_by_calls_that_rules_judge() {
    let site = site()
        .setting(
            "command",
            json!({
                "say": { "template": "It says <!`echo \"$1\"; pwd`>." },
                "rm": { "template": "!`rm a.txt`" },
                "put": { "template": "$ARGUMENTS" },
                "fails": { "template": "!`echo partly; exit 3`" },
            }),
        )
        .setting("permission", json!({ "bash": { "rm *": "deny" } }));
    site.file("a.txt", "");
    let project = site.project().display().to_string();
    let sent = |prompt: &str| {
        let ran = site.run(&["run", "--format", "json", prompt]).ok().events();
        let requested = ran.iter().find(|event| event["data"]["purpose"] == "turn").unwrap();
        let seq = requested["seq"].to_string();
        let request = site.run(&["explain", "last", &seq, "--request"]).ok();
        let request: Value = serde_json::from_str(&request.stdout).unwrap();
        (request["messages"][0]["parts"][0]["text"].as_str().unwrap().to_owned(), ran)
    };
    let (prompt, ran) = sent("/say hello");
    assert_eq!(prompt, format!("It says <hello\n{project}>."));
    let kinds: Vec<&str> = ran.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let at = |kind: &str| kinds.iter().position(|known| *known == kind).unwrap();
    assert!(
        at("tool.started") < at("tool.finished") && at("tool.finished") < at("model.requested")
    );
    let (prompt, ran) = sent("/rm");
    assert!(prompt.contains("rm *") && common::exists(&site.project().join("a.txt")), "{prompt}");
    let denials = &only(&ran, "turn.ended")["data"]["permission_denials"];
    assert_eq!(denials[0]["patterns"][0], "rm a.txt", "{denials}");
    assert_eq!(run(&site, "/put !`rm a.txt`"), ["!`rm a.txt`"]);
    assert_eq!(sent("/fails").0, "partly\n(exit code 3)");
}

#[test]
fn a_command_names_agent_and_model() {
    let site = site()
        .setting("provider/double/models/n", json!({ "limit": { "context": 100_000 } }))
        .setting(
            "command",
            json!({
                "plan": { "template": "Plan!", "agent": "plan", "model": "double/n" },
                "lost": { "template": "x", "agent": "nobody" },
            }),
        );
    let of = |args: &[&str]| {
        let events = site.run(&[&["run", "--format", "json"], args].concat()).ok().events();
        let data = &only(&events, "turn.prompted")["data"];
        (
            data["agent"].as_str().unwrap().to_owned(),
            data["model"]["id"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(of(&["/plan"]), ("plan".into(), "n".into()));
    assert_eq!(
        of(&["--agent", "build", "--model", "double/m", "/plan"]),
        ("build".into(), "m".into())
    );
    assert_eq!(of(&["go"]), ("build".into(), "m".into()));
    refused(&site, &["/lost"], "the command `/lost`: there is no agent `nobody`");
}

#[test]
fn an_editors_prompts_are_commands_too() {
    let site =
        site().setting("command", json!({ "plan": { "template": "Plan $1", "agent": "plan" } }));
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    for (text, agent) in [("/plan this", "plan"), ("go", "build")] {
        let prompt = editor.prompt(&session, text);
        assert_eq!(editor.stop_reason(prompt), "end_turn");
        let events = site.run(&["export", &session]).ok().events();
        let last = *common::all(&events, "turn.prompted").last().unwrap();
        assert_eq!(last["data"]["agent"], agent);
    }
    let wrong = editor.prompt(&session, "/paln");
    assert!(editor.error(wrong).to_string().contains("did you mean `/plan`"));
    editor.leave();
}

#[test]
fn a_conversations_prompts_are_commands_too() {
    let site = site()
        .setting(
            "command",
            json!({
                "hello": { "template": "Say hello to $ARGUMENTS", "description": "Says hello." },
                "rm": { "template": "!`rm a`" },
            }),
        )
        .setting("permission", json!({ "bash": { "rm *": "deny" } }));
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("/help\r").until("/hello ").until("Says hello.");
    terminal.until_prompt().press("/rm\r").until("rm a").until("One.");
    terminal.until_prompt().press("/hello you all\r").until("Two.");
    terminal.until_prompt().press("/exit\r");
    assert_eq!(terminal.wait(), 0);
    let events = site.exported();
    let last = common::all(&events, "turn.prompted").last().unwrap()["data"]["parts"].clone();
    assert_eq!(last[0]["text"], "Say hello to you all");
}
