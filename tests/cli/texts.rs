//! Texts that models obey, and that a call has changed: nobody obeys them before a person has seen the difference.

use common::{Answer, Block, Editor, Server, Site, Split, bash, message, script};
use serde_json::{Value, json};

const TOLD: &str = "until you have seen that, those from before are in force: ";

/// Texts of the project, each with the word that tells whether it is in force.
fn old(site: &Site) {
    site.file("AGENTS.md", "OLD-instructions\n");
    site.file("a/b/c/d/AGENTS.md", "OLD-deep\n");
    for n in 1..=6 {
        site.file(&format!("a/b/c/d/{n}.txt"), "x\n");
    }
    site.file(".leftfold/agents/helper.md", "---\ndescription: Helps.\n---\nOLD-agent\n");
    site.file(".leftfold/commands/c.md", "OLD-command\n");
    site.file(".leftfold/skills/s/SKILL.md", "---\ndescription: S.\n---\nOLD-skill\n");
    site.file("change.sh", CHANGE);
}

/// It changes each of them, and makes new ones.
const CHANGE: &str = "set -e
for f in AGENTS.md a/b/c/d/AGENTS.md .leftfold/agents/helper.md .leftfold/commands/c.md .leftfold/skills/s/SKILL.md
do sed -i s/OLD/NEW/ $f; done
mkdir -p e/f/g/h; printf NEW-made > e/f/g/h/AGENTS.md; printf x > e/f/g/h/x.txt
printf NEW-made > .leftfold/commands/made.md
";

/// The line that runs it does not show what it changes.
const WRITE: &str = "printf '%s\\n' $1 > AGENTS.md\n";

fn calls(calls: &[(&'static str, Value)]) -> Answer {
    let blocks: Vec<Block> = calls
        .iter()
        .enumerate()
        .map(|(n, (tool, input))| Block::Call(["c0", "c1", "c2"][n], tool, input.to_string()))
        .collect();
    Answer::Stream(message(&blocks), Split::Whole)
}

fn says(text: &'static str) -> Answer {
    Answer::Stream(message(&[Block::Text(text)]), Split::Whole)
}

fn text() -> Answer {
    says("Done.")
}

fn read(n: usize) -> (&'static str, Value) {
    ("read", json!({ "filePath": format!("a/b/c/d/{n}.txt") }))
}

/// All that the model was sent, request by request.
fn sent(server: &Server) -> Vec<String> {
    let request = |body: &Value| format!("{}{}", body["system"], body["messages"]);
    server.requests().iter().map(|sent| request(&sent.body)).collect()
}

#[test]
fn what_a_command_has_changed_is_not_obeyed_unseen_and_survives_new_turns_forks_and_sessions() {
    let change = || ("bash", json!({ "command": "sh change.sh" }));
    let made = ("read", json!({ "filePath": "e/f/g/h/x.txt" }));
    let skill = ("skill", json!({ "name": "s" }));
    let task = json!({ "description": "d", "prompt": "p", "subagentType": "helper" });
    let server = Server::start(vec![
        calls(&[change()]),
        // in the turn that changes them
        calls(&[read(1), made.clone(), skill.clone()]),
        calls(&[("task", task)]),
        text(),
        text(),
        // later ones
        calls(&[read(2), made.clone(), skill.clone()]),
        text(),
        text(),
        text(),
        text(),
        // once they are accepted
        calls(&[read(3), made, skill]),
        text(),
        text(),
    ]);
    let site = Site::served(&server);
    old(&site);
    let told = |args: &[&str]| {
        let ran = site.run(args).ok();
        let line = ran.stderr.lines().find(|line| line.contains(TOLD));
        let line = line.unwrap_or_else(|| panic!("{args:?}: {}", ran.stderr)).to_owned();
        for name in
            ["AGENTS.md", "a/b/c/d/AGENTS.md", ".leftfold/commands/made.md", "e/f/g/h/AGENTS.md"]
        {
            assert!(line.contains(name), "{args:?}: {line}");
        }
    };
    told(&["run", "go"]);
    let prompts = [&["run", "--continue", "on"][..], &["run", "/c"], &["run", "a new session"]];
    prompts.into_iter().for_each(told);
    let fork = site.run(&["fork", "last", "--at", "3"]).ok().stdout;
    told(&["run", "--session", fork.trim(), "the fork"]);
    let ran = site.run(&["run", "/made"]);
    assert!(ran.stderr.contains("there is no command"), "{}", ran.stderr);
    for (n, request) in sent(&server).iter().enumerate() {
        // the texts of files that are read are no orders
        assert!(!request.contains("NEW"), "{n}: {request}");
        assert!(request.contains("OLD-instructions"), "{n}: {request}");
    }
    let all = sent(&server).concat();
    for word in ["OLD-deep", "OLD-agent", "OLD-command", "OLD-skill"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    // the log tells which text was in force
    let log = site.run(&["export", "last"]).ok().stdout;
    assert!(log.contains("OLD-instructions") && log.contains(r#"\"held\":["#), "{log}");

    let shown = site.run(&["trust", "--show"]).ok().stdout;
    for line in
        ["-OLD-deep", "+NEW-deep", "+NEW-made", ".leftfold/commands/made.md: new, 1 lines added"]
    {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    site.run(&["trust"]).with(2);
    let before = sent(&server).len();
    site.run(&["trust", "--yes"]).ok();
    let ran = site.run(&["run", "new"]).ok();
    assert!(!ran.stderr.contains(TOLD), "{}", ran.stderr);
    site.run(&["run", "/c"]).ok();
    let all = sent(&server)[before..].concat();
    for word in ["NEW-instructions", "NEW-deep", "NEW-made", "NEW-skill", "NEW-command"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!all.contains("OLD"), "{all}");
    site.assert_sound();
}

#[test]
fn what_the_person_asks_for_or_changes_is_obeyed_at_once() {
    let server = Server::start(vec![
        calls(&[("bash", json!({ "command": "sh write.sh NEW; cd sub; sh ../write.sh EVIL" }))]),
        text(),
        text(),
        text(),
        text(),
    ]);
    let site = Site::served(&server);
    site.file("AGENTS.md", "OLD");
    site.file("sub/AGENTS.md", "OLD");
    site.file("write.sh", WRITE);
    let ran = site.run(&["run", "Write `AGENTS.md`, please."]).ok();
    assert!(ran.stderr.contains(&format!("{TOLD}sub/AGENTS.md (")), "{}", ran.stderr);
    site.run(&["run", "two"]).ok();
    assert!(sent(&server)[2].contains("NEW"));
    site.file("AGENTS.md", "MINE");
    site.run(&["run", "--continue", "three"]).ok();
    assert!(sent(&server)[3].contains("MINE"));
}

#[test]
fn init_is_obeyed_at_once_unless_the_project_says_what_it_does() {
    for is_strange in [false, true] {
        let write = bash("sh write.sh NEW");
        let site =
            Site::scripted(&script(json!([write, common::says("Done."), common::says("Done.")])));
        site.file("write.sh", WRITE);
        if is_strange {
            site.file(".leftfold/commands/init.md", "Write AGENTS.md.");
        }
        let ran = site.run(&["run", "/init"]).ok();
        assert_eq!(ran.stderr.contains(TOLD), is_strange, "{}", ran.stderr);
        let ran = site.run(&["run", "on"]).ok();
        assert_eq!(ran.stderr.contains(TOLD), is_strange, "{}", ran.stderr);
    }
}

fn changing() -> (Site, Server) {
    let write =
        |text: &str| calls(&[("bash", json!({ "command": format!("sh write.sh {text}") }))]);
    let edit = calls(&[("write", json!({ "filePath": "AGENTS.md", "content": "EDITED\n" }))]);
    let server = Server::start(vec![
        write("NEW"),
        says("Changed."),
        says("Second."),
        write("NEWER"),
        says("Changed again."),
        says("Fourth."),
        edit,
        says("Edited."),
        says("Sixth."),
    ]);
    let site = Site::served(&server);
    site.file("AGENTS.md", "OLD\n");
    site.file("write.sh", WRITE);
    (site, server)
}

/// The instructions in each request.
fn in_force(server: &Server) -> Vec<String> {
    let words = ["OLD", "NEWER", "NEW", "EDITED"];
    let word =
        |sent: &str| words.into_iter().find(|word| sent.contains(&format!("AGENTS.md\\n{word}")));
    sent(server).iter().map(|sent| word(sent).unwrap_or("none").to_owned()).collect()
}

#[test]
fn a_conversation_asks_with_the_difference_before_the_next_prompt() {
    let (site, server) = changing();
    let mut terminal = site.terminal(&[], 100);
    terminal.until_prompt().press("one\r").until("are in force: AGENTS.md").until_prompt();
    terminal.press("two\r");
    terminal.until("-OLD").until("+NEW").until("AGENTS.md: 1 lines added, 1 removed");
    terminal.until("Obey these texts? [y/N]").press("n\r").until("Second.");
    // it is not asked again about the same
    terminal.until_prompt().press("three\r").until("Changed again.").until_prompt().press("\u{4}");
    assert_eq!(terminal.wait(), 0);
    let mut terminal = site.terminal(&["--continue"], 100);
    terminal.until_prompt().press("four\r").until("+NEWER");
    terminal.until("Obey these texts? [y/N]").press("y\r").until("Fourth.");
    // who has allowed an edit has seen it
    terminal.until_prompt().press("five\r").until("[o]nce").press("o").until("Edited.");
    terminal.until_prompt().press("six\r").until("Sixth.").until_prompt().press("\u{4}");
    assert_eq!(terminal.wait(), 0);
    let expected = ["OLD", "OLD", "OLD", "OLD", "OLD", "NEWER", "NEWER", "NEWER", "EDITED"];
    assert_eq!(in_force(&server), expected);
    site.assert_sound();
}

#[test]
fn an_editor_is_asked_with_the_difference() {
    let (site, server) = changing();
    let mut editor = Editor::start(&site, &[]);
    let session = editor.session(&site);
    let prompt = editor.prompt(&session, "one");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    let prompt = editor.prompt(&session, "two");
    let question = editor.question(&session);
    let text = question.to_string();
    assert!(text.contains("-OLD") && text.contains("+NEW"), "{text}");
    editor.choose(&question, "allow_always");
    assert_eq!(editor.stop_reason(prompt), "end_turn");
    editor.leave();
    assert_eq!(in_force(&server), ["OLD", "OLD", "NEW"]);
}
