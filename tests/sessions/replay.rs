//! `leftfold replay` with `--step`, `--type`, `--tool` and `--text`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use common::{Live, Site, bash, call, says, script};
use serde_json::{Value, json};

fn finished() -> Site {
    let read = call("read", json!({ "filePath": "a.txt" }));
    let site = Site::scripted(&script(json!([read, bash("echo HELLO"), says("Done.")])));
    site.file("a.txt", "alpha\n");
    site.prompt("go").ok();
    site
}

fn replayed(site: &Site, args: &[&str]) -> Vec<String> {
    let replay = site.run(&[&["replay", "last"], args].concat()).ok();
    replay.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn events_are_picked_by_type_tool_and_text() {
    let site = finished();
    let whole = replayed(&site, &["--all"]);
    for (args, parts) in [
        (vec!["--type", "tool.started"], vec!["tool.started of", "tool.started of"]),
        (
            vec!["--type", "session.*", "--type", "turn.ended"],
            vec!["session.created", "turn.ended"],
        ),
        (
            vec!["--tool", "bash", "--type", "*ed"],
            vec![
                "tool.called", "tool.resolve_started", "tool.resolved", "permission.ruled",
                "tool.started", "tool.finished",
            ],
        ),
        (vec!["--text", "ALPHA"], vec!["tool.finished"]),
        (vec!["--text", "nowhere to be found"], vec![]),
    ] {
        let mut lines = replayed(&site, &args);
        lines.retain(|line| !line.contains('»'));
        assert_eq!(lines.len(), parts.len(), "{args:?}: {lines:?}");
        for (line, part) in lines.iter().zip(parts) {
            assert!(line.contains(part) && whole.contains(line), "{args:?}: {line}");
        }
    }
}

#[test]
fn bookkeeping_is_counted_and_not_shown_unless_it_is_asked_for() {
    let site = finished();
    let whole = replayed(&site, &["--all"]);
    let ran = site.run(&["replay", "last"]).ok();
    let shown: Vec<&str> = ran.stdout.lines().collect();
    assert!(shown.iter().all(|line| whole.iter().any(|all| all == line)), "{shown:?}");
    for (kind, is_shown) in [
        ("tool.called of", true),
        ("tool.finished of", true),
        ("turn.ended", true),
        ("tool.resolve_started", false),
        ("tool.resolved", false),
        ("permission.ruled", false),
        ("tool.started", false),
    ] {
        assert!(whole.iter().any(|line| line.contains(kind)), "{kind}");
        assert_eq!(shown.iter().any(|line| line.contains(kind)), is_shown, "{kind}");
    }
    let hidden = whole.len() - shown.len();
    assert!(ran.stderr.contains(&format!("{hidden} bookkeeping events not shown")), "{ran:?}");
    let asked_for = site.run(&["replay", "last", "--type", "permission.*"]).ok();
    assert!(asked_for.stdout.contains("permission.ruled") && asked_for.stderr.is_empty());
}

#[test]
fn a_denied_call_keeps_its_line() {
    let site = Site::scripted(&script(json!([bash("echo no"), says("Then not.")])))
        .setting("permission", json!({ "bash": "deny" }));
    site.prompt("go").ok();
    let shown = replayed(&site, &[]);
    assert!(shown.iter().any(|line| line.contains("permission.ruled of")), "{shown:?}");
}

#[test]
fn the_text_that_was_found_is_marked_in_its_field() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let long = format!("{} Straße NEEDLE end {}", "x".repeat(60), "y".repeat(60));
    let replies = json!([bash(&format!("echo needle {token}")), says(&long)]);
    let site = Site::scripted(&script(replies));
    site.file("AGENTS.md", "The\nneedle\x1b[2J is here.\n");
    site.prompt("Find the Needle!").ok();
    let lines = replayed(&site, &["--text", "needle"]);
    let marked = lines.iter().filter(|line| line.contains('»')).map(|line| line.trim());
    let marked: Vec<&str> = marked.collect();
    for expected in [
        "data.parts.0.text: Find the »Needle«!",
        "data.call.input.command: echo »needle« ghp_…[masked]",
        "data.text: …xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx Straße »NEEDLE« end yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…",
    ] {
        assert!(marked.contains(&expected), "{expected}: {marked:#?}");
    }
    let instructions = marked.iter().find(|line| line.starts_with("data.system.1 ("));
    let instructions = instructions.unwrap();
    assert!(instructions.contains("/AGENTS.md): "), "{instructions}");
    assert!(instructions.contains("The\\x0a»needle«\\x1b[2J is here."), "{instructions}");
    let lines = replayed(&site, &["--text", "STRASSE"]);
    assert_eq!(lines, [""; 0], "no other spelling");
    let lines = replayed(&site, &["--text", "straße", "--type", "turn.ended"]);
    assert!(lines[1].contains(" »Straße« NEEDLE"), "{lines:?}");
    let secret = replayed(&site, &["--text", &token[10..20], "--type", "tool.called"]);
    assert!(secret.len() == 1 && !secret[0].contains('»'), "{secret:?}");
}

#[test]
fn a_search_counts_each_place_and_names_subagents() {
    let task =
        json!({ "description": "typo", "prompt": "Mend dates_us.py.", "subagent_type": "general" });
    let site = Site::scripted(&script(json!([
        { "match": { "prompt": "Mend dates_us.py.", "answers": 0 }, "parts": [{ "text": "Mended dates_us.py." }] },
        { "match": { "prompt": "go", "answers": 0 }, "parts": [{ "call": { "name": "task", "input": task } }] },
        { "match": { "prompt": "go", "answers": 1 }, "parts": [{ "text": "tea, and two words, and forty more words, and then: tea" }] },
    ])));
    site.run(&["run", "--yes", "go"]).ok();
    let lines = replayed(&site, &["--type", "tool.called"]);
    assert!(lines[0].ends_with("  task general: typo, \"Mend dates_us.py.\""), "{lines:?}");
    let lines = replayed(&site, &["--text", "tea", "--type", "turn.ended"]);
    assert_eq!(lines.iter().filter(|line| line.contains("»tea«")).count(), 2, "{lines:?}");
    let search = site.run(&["replay", "last", "--text", "dates_us"]).ok();
    assert!(
        search.stderr.contains("more events in a subagent: `leftfold replay "),
        "{}",
        search.stderr
    );
}

#[test]
fn a_walk_goes_forward_and_back_and_shows_the_state_there() {
    let site = finished();
    let whole = replayed(&site, &["--all"]);
    let last = whole.len();
    let mut command = site.command(&["replay", "last", "--step", "--at", "3"]);
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    write!(live.input(), "n\n\np\n{last}\nn\n1\np\ns\nwhat?\n999\ne\nq\nn\n").unwrap();
    let shown = live.wait().ok().stdout;
    let told = |seq: &usize| shown.lines().filter(|line| *line == whole[seq - 1]).count();
    assert_eq!([3, 4, 5, last, 1].iter().map(told).collect::<Vec<_>>(), [1, 2, 1, 1, 1], "{shown}");
    for part in ["that was the last", "that was the first", "Enter or n: next", "no event at 999"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let objects: Vec<Value> =
        shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let state = site.run(&["replay", "last", "--at", "1", "--state"]).ok().stdout;
    assert_eq!(objects[0], serde_json::from_str::<Value>(&state).unwrap());
    assert_eq!(objects[1]["type"], "session.created");
    assert_eq!(objects.len(), 2);
}

#[test]
fn a_walk_answers_each_line_before_it_reads_the_next() {
    let site = finished();
    let mut command = site.command(&["replay", "last", "--step"]);
    let mut walk = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = walk.stdin.take().unwrap();
    let mut lines = BufReader::new(walk.stdout.take().unwrap()).lines();
    let mut line = || lines.next().unwrap().unwrap();
    for seq in 1..=3 {
        assert!(line().trim_start().starts_with(&format!("{seq} ")), "{seq}");
        assert!(line().contains(" message"));
        writeln!(input).unwrap();
    }
    drop(input);
    assert!(walk.wait().unwrap().success());
}

#[test]
fn a_run_that_failed_says_why_at_each_decision() {
    let edit = json!({ "filePath": "a.txt", "oldString": "alpha", "newString": "beta" });
    let busy = json!([{ "class": "overloaded", "message": "busy", "retry_after": 1 }]);
    let wrong = json!({ "filePath": "a.txt", "oldString": "nowhere", "newString": "x" });
    let site = Site::scripted(&script(json!([
        { "parts": [{ "call": { "name": "read", "input": { "filePath": "a.txt" } } }], "faults": busy },
        call("edit", wrong),
        call("edit", edit),
        bash("echo 1 passed; echo assertion failed; exit 3"),
        bash("rm -r build"),
        call("read", json!({ "filePath": ".env" })),
        says("It does not work."),
    ])))
    .setting("permission", json!({ "bash": { "*": "allow", "rm *": "deny" } }));
    site.file("a.txt", "alpha\n");
    site.file(".env", "A=b\n");
    site.prompt("mend it").ok();
    let text = replayed(&site, &["--all"]).join("\n");
    for part in [
        "after attempt 1: busy (again in 0.001 s, as the server requested)",
        "attempt 2 (the step is retried)",
        "step 2 (the calls of the last reply have finished)",
        "failed: ",
        "\n                 -alpha\n                 +beta\n",
        "exit 3",
        "\n                 assertion failed\n",
        "deny by bash `rm *` (bash `rm -r build`; edit `build`)",
        "the rules say ask, but nobody can be asked",
        "completed after 7 steps (the model answered without a call; denied bash `rm -r build`; ",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
}
