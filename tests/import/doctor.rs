//! `leftfold doctor --session`: what breaks a session of another agent is reported with its place,
//! and mended in a copy.

use std::time::{Duration, SystemTime};

use common::foreign::import;
use common::{Ran, Site};
use serde_json::Value;

/// A call without a result before a prompt, an answer whose reasoning has no signature, and half a
/// line.
const CLAUDE: &str = r#"{"type":"user","uuid":"1","parentUuid":null,"isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T10:00:00Z","message":{"role":"user","content":"Go."}}
{"type":"assistant","uuid":"2","parentUuid":"1","isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T10:00:01Z","message":{"id":"m1","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","uuid":"3","parentUuid":"2","isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T10:00:02Z","message":{"role":"user","content":"And now?"}}
{"type":"assistant","uuid":"4","parentUuid":"3","isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T10:00:03Z","message":{"id":"m2","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"thinking","thinking":"Hm.","signature":""}]}}
{"type":"assistant","uuid":"5","parentUuid":"4","isSidechain":false,"sessionId":"s","timestamp":"2026-03-01T10:00:03Z","message":{"id":"m2","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"Well."}]}}
{"type":"user","uuid":"6","parentUuid":"5","isSidechain":false,"sess
"#;

/// Makes a file look as if nobody had written to it for a while.
fn rest(site: &Site, file: &str) {
    let file = std::fs::File::options().write(true).open(site.project().join(file)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
}

fn findings(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_problem_is_named_with_line_field_and_change() {
    let site = Site::bare();
    site.file("theirs.jsonl", CLAUDE);
    let ran = site.run(&["doctor", "--session", "theirs.jsonl", "--format", "json"]).with(1);
    let found = findings(&ran);
    let seen: Vec<(u64, &str, &str, &str)> = found
        .iter()
        .map(|finding| {
            let text = |key: &str| finding[key].as_str().unwrap();
            (finding["line"].as_u64().unwrap(), text("kind"), text("field"), text("status"))
        })
        .collect();
    assert_eq!(
        seen,
        [
            (2, "orphan-call", "message.content[0]", "error"),
            (4, "unsigned-reasoning", "message.content[0].signature", "error"),
            (6, "broken-line", "", "warning"),
        ]
    );
    assert_eq!((&found[0]["id"], &found[0]["mended"]), (&"2".into(), &false.into()));
    let text = site.run(&["doctor", "--session", "theirs.jsonl"]).with(1).stdout;
    for part in [
        "theirs.jsonl:2, message.content[0]: the call has no result (t1 of Bash) [orphan-call]",
        "-> a result is added: the outcome is unknown",
        "2 errors, 1 warning.",
        "`--mend` writes a copy",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(site.text("theirs.jsonl"), CLAUDE);
    assert!(!site.project().join("theirs.jsonl.mended").exists());
}

#[test]
fn a_mended_copy_has_no_problem_and_is_imported() {
    let site = Site::bare();
    site.file("theirs.jsonl", CLAUDE);
    let said = site.run(&["doctor", "--session", "theirs.jsonl", "--mend"]).ok().stdout;
    assert!(said.contains("3 problems mended: theirs.jsonl.mended"), "{said}");
    assert_eq!(site.text("theirs.jsonl"), CLAUDE);
    let again = site.run(&["doctor", "--session", "theirs.jsonl.mended"]).ok().stdout;
    assert!(again.contains("a session of Claude Code\n\nNo problems found."), "{again}");
    let mended = site.text("theirs.jsonl.mended");
    let (old, new): (Vec<&str>, Vec<&str>) = (CLAUDE.lines().collect(), mended.lines().collect());
    // the two first lines and the answer's text have their bytes, but for the link
    assert_eq!((new[..2] == old[..2], new.len()), (true, 5));
    let (session, said) = import(&site, "theirs.jsonl.mended");
    assert!(!said.contains("cannot be read"), "{said}");
    let log = site.run(&["export", &session]).ok().stdout;
    assert!(log.contains("The outcome of this call is unknown"), "{log}");
    // nothing is overwritten
    let ran = site.run(&["doctor", "--session", "theirs.jsonl", "--mend"]).with(2);
    assert!(ran.stderr.contains("theirs.jsonl.mended exists already"), "{}", ran.stderr);
    site.run(&["doctor", "--session", "theirs.jsonl", "--mend", "-o", "other.jsonl"]).ok();
    assert_eq!(site.text("other.jsonl"), mended);
    let json = ["doctor", "--session", "theirs.jsonl", "--mend", "-o", "a", "--format", "json"];
    let found = findings(&site.run(&json).ok());
    assert!(found.iter().all(|finding| finding["mended"] == true), "{found:?}");
}

#[test]
fn a_file_is_mended_in_place_once_nobody_writes_to_it() {
    let site = Site::bare();
    site.file("theirs.jsonl", CLAUDE);
    let args = ["doctor", "--session", "theirs.jsonl", "--mend", "--in-place"];
    let ran = site.run(&args).with(2);
    assert!(ran.stderr.contains("was changed just now"), "{}", ran.stderr);
    if cfg!(target_os = "linux") {
        let held = std::fs::File::options().append(true).open(site.project().join("theirs.jsonl"));
        rest(&site, "theirs.jsonl");
        let ran = site.run(&args).with(2);
        assert!(ran.stderr.contains("has theirs.jsonl open for writing"), "{}", ran.stderr);
        drop(held);
    }
    assert_eq!(site.text("theirs.jsonl"), CLAUDE);
    rest(&site, "theirs.jsonl");
    site.run(&args).ok();
    assert_eq!(site.text("theirs.jsonl.bak"), CLAUDE);
    site.run(&["doctor", "--session", "theirs.jsonl"]).ok();
    // a healthy file is left alone
    std::fs::remove_file(site.project().join("theirs.jsonl.bak")).unwrap();
    site.run(&args).ok();
    assert!(!site.project().join("theirs.jsonl.bak").exists());
    let left: Vec<String> = std::fs::read_dir(site.project())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_that_cannot_be_examined_is_refused_with_advice() {
    let site = Site::bare();
    site.file("notes.txt", "Nothing.\n");
    site.file("ours.jsonl", "{\"v\":1,\"session\":\"x\"}\n");
    site.file("stored.json", "{\"id\":\"ses_1\",\"directory\":\"/\",\"time\":{}}");
    site.file("cut.json", "{\"info\":{\"id\":\"ses_1\"},\"mess");
    for (args, part) in [
        (&["notes.txt"][..], "`--from` names the agent"),
        (&["ours.jsonl"], "`leftfold check SESSION` examines it"),
        (&["stored.json"], "opencode export ses_1 > FILE"),
        (&["cut.json"], "not what `opencode export` prints"),
        (&["notes.txt", "--from", "claude"], "no line of it is a JSON object"),
        (&["nothing.jsonl"], "nothing.jsonl"),
        (&["."], "is a folder"),
        (&["-", "--mend"], "`--output PATH`"),
        (&["notes.txt", "--online"], "--online"),
    ] {
        let ran = site.run(&[&["doctor", "--session"], args].concat()).with(2);
        assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn an_export_of_opencode_that_a_pipe_has_cut_off_is_closed() {
    let site = Site::bare();
    let message = |id: &str, role: &str| {
        format!(
            "{{\"info\":{{\"id\":\"{id}\",\"sessionID\":\"ses_1\",\"role\":\"{role}\",\"time\":{{\"created\":1,\"completed\":2}}}},\
             \"parts\":[{{\"id\":\"p{id}\",\"type\":\"text\",\"text\":\"Words of {id}.\"}}]}}"
        )
    };
    let (asked, said) = (message("m1", "user"), message("m2", "assistant"));
    site.file(
        "theirs.json",
        format!("Exporting session: ses_1\n{{\"info\":{{\"id\":\"ses_1\"}},\"messages\":[{asked},{said},{{\"in"),
    );
    let ran = site.run(&["doctor", "--session", "theirs.json", "--mend"]).ok();
    assert!(ran.stdout.contains("text precedes the session"), "{}", ran.stdout);
    assert!(ran.stdout.contains("theirs.json:2: the session is cut off"), "{}", ran.stdout);
    let (session, _) = import(&site, "theirs.json.mended");
    let log = site.run(&["export", &session]).ok().stdout;
    assert!(log.contains("Words of m1.") && log.contains("Words of m2."), "{log}");
}
