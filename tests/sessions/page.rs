//! `leftfold export --format html`: the page of a run, as a file and in Chromium.

use std::path::Path;
use std::process::Command;

use common::browser::chromium;
use common::peers::Peers;
use common::{Live, Random, Site, all, bash, call, filled, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The bytes of a page without a run.
const OWN_SIZE: usize = 1 << 20;
/// The states of a session that are compared.
const STATES: usize = 20;
const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
/// Runs if any of it becomes markup or an address that is opened.
const HOSTILE: &str = "</script><script>planted=1</script><!--<script>planted=2</script>\
    <img src=x onerror=planted=3><svg onload=planted=4><a href=\"javascript:planted=5\">x</a>\
    [x](javascript:planted=6) ]]> &lt;b&gt; `${planted=7}` \u{202e}dlrow\u{2066} \u{2028}\u{2029}\u{0}\u{1b}[31m \
    $1 $$2 __proto__";

/// A session that the page is tested with.
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) site: Site,
    /// Words that the page has, and words that the file must not have.
    pub(super) shows: Vec<&'static str>,
    pub(super) hides: Vec<&'static str>,
}

pub(super) fn plain() -> Site {
    let change =
        json!({ "filePath": "notes.txt", "oldString": "old words", "newString": "new words" });
    let todo = json!({ "todos": [{ "content": "Repair it", "status": "in_progress", "priority": "high" }] });
    let site = Site::scripted(&script(json!([
        call("todowrite", todo),
        call("read", json!({ "filePath": "notes.txt" })),
        call("edit", change),
        bash("echo ran; exit 3"),
        says("It is **done**."),
    ])));
    site.file("notes.txt", "old words\n");
    site.prompt("Repair the notes.").ok();
    site
}

fn parallel() -> Site {
    let ran =
        |command: &str| json!({ "call": { "name": "bash", "input": { "command": command } } });
    let calls =
        json!({ "parts": [ran("sleep 0.2; echo a"), ran("sleep 0.1; echo b"), ran("echo c")] });
    let site = Site::scripted(&script(json!([calls, says("All three ran.")])));
    site.prompt("go").ok();
    site
}

pub(super) fn subagents() -> Site {
    let task = |prompt: &str| {
        json!({ "call": { "name": "task", "input": {
        "description": "Look around", "prompt": prompt, "subagentType": "general" } } })
    };
    let read = json!([{ "call": { "name": "read", "input": { "filePath": "a.txt" } } }]);
    let site = Site::scripted(&script(json!([
        { "parts": [task("look at one"), task("look at two")] },
        says("The parent has heard."),
        { "match": { "prompt": "look at one", "answers": 0 }, "parts": read },
        { "match": { "prompt": "look at one", "answers": 1 }, "parts": [{ "text": "One is there." }] },
        { "match": { "prompt": "look at two", "answers": 0 }, "parts": [{ "text": "Two is not." }] },
    ])));
    site.file("a.txt", "one\n");
    site.prompt("go").ok();
    site
}

pub(super) fn crashed() -> Site {
    let site = Site::scripted(&script(json!([bash("sleep 60"), says("It went on.")])));
    let mut live = site.start(&["run", "--format", "json", "go"]);
    live.until("tool.started");
    live.signal(Signal::KILL);
    live.wait();
    site.run(&["resume", "last"]).ok();
    site
}

pub(super) fn compacted() -> Site {
    let site = filled();
    site.prompt("go").ok();
    site
}

pub(super) fn denied() -> Site {
    let read = call("read", json!({ "filePath": ".env" }));
    let site = Site::scripted(&script(json!([bash("rm -r everything"), read, says("So be it.")])))
        .setting("permission", json!({ "bash": { "*": "allow", "rm *": "deny" } }));
    site.file(".env", "COLOUR=blue\n");
    site.prompt("go").ok();
    site
}

fn reverted() -> Site {
    let site = plain();
    let prompted = all(&site.exported(), "turn.prompted")[0]["seq"].to_string();
    site.run(&["revert", "last", "--to", &prompted]).ok();
    site
}

/// Its data is packed, and its texts need several blocks.
fn huge() -> Site {
    let mut random = Random::new(7);
    let mut text = || (0..90_000).map(|_| random.word(6) + " ").collect::<String>();
    let replies = script(json!([says(&text()), says(&text())]));
    let site = Site::scripted(&json!({}));
    // more than a variable may have
    let path = site.file("script.json", replies.to_string());
    let site = site.setting("/provider/double/options/script", json!(path));
    site.prompt("go").ok();
    site.run(&["run", "--continue", "--format", "json", "Once more."]).ok();
    site
}

fn hostile() -> Site {
    let site = Site::scripted(&script(json!([
        bash("printf 'bad \\377\\376 bytes'; echo \"$HOSTILE\""),
        call("read", json!({ "filePath": format!("{HOSTILE}.txt") })),
        call("write", json!({ "filePath": "<script>planted=8<", "content": HOSTILE })),
        json!({ "parts": [{ "reasoning": HOSTILE }, { "text": HOSTILE }] }),
    ])))
    .env("HOSTILE", HOSTILE.replace('\0', ""))
    .setting("environment", json!(["HOSTILE"]));
    site.file("AGENTS.md", format!("{HOSTILE}\n{TOKEN}\n"));
    site.prompt(&format!("{} {TOKEN}", HOSTILE.replace('\0', ""))).ok();
    site
}

pub(super) fn sessions() -> Vec<Shown> {
    let shown = |name, site, shows: &[&'static str]| Shown {
        name,
        site,
        shows: shows.to_vec(),
        hides: Vec::new(),
    };
    vec![
        shown("plain", plain(), &["Repair the notes."]),
        shown("parallel", parallel(), &["All three ran."]),
        shown("subagents", subagents(), &["The parent has heard."]),
        shown("crashed", crashed(), &["session.resumed"]),
        shown("compacted", compacted(), &["Half is done."]),
        shown("denied", denied(), &["rm -r everything"]),
        shown("huge", huge(), &["Once more."]),
        shown("reverted", reverted(), &["files.restored"]),
        Shown { hides: vec![TOKEN], ..shown("hostile", hostile(), &["ghp_…[masked]"]) },
    ]
}

fn exported(site: &Site) -> String {
    site.run(&["export", "last", "--format", "html"]).ok().stdout
}

/// Places of the page, each with the state that `replay` prints for it.
fn states(site: &Site, random: &mut Random, most: usize) -> Vec<Value> {
    let events = site.exported();
    let root = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let mut places: Vec<(String, u64)> = events
        .iter()
        .filter_map(|event| Some((event["session"].as_str()?.to_owned(), event["seq"].as_u64()?)))
        .collect();
    random.shuffle(&mut places);
    places.truncate(most);
    let state = |(session, seq): &(String, u64)| {
        let at = seq.to_string();
        let printed = if *session == root {
            site.run(&["replay", "last", "--at", &at, "--state"])
        } else {
            site.run(&["replay", session, "--at", &at, "--state"])
        };
        let place = if *session == root { at } else { format!("{session}.{at}") };
        let state: Value = serde_json::from_str(&printed.ok().stdout).unwrap();
        json!({ "place": place, "state": state })
    };
    places.iter().map(state).collect()
}

#[test]
fn a_page_is_one_harmless_file() {
    for Shown { name, site, hides, .. } in sessions() {
        let page = exported(&site);
        let jsonl = site.run(&["export", "last"]).ok().stdout;
        assert!(page.len() < OWN_SIZE + jsonl.len(), "{name}: {} bytes", page.len());
        for hidden in hides {
            assert!(!page.contains(hidden), "{name}: {hidden}");
        }
        assert!(page.contains("default-src 'none'; script-src 'sha256-"), "{name}");
        assert!(!page.contains("unsafe-"), "{name}");
        // all elements are ours, and none of the data's text ends one
        let (blocks, ends) = (page.matches("<script").count(), page.matches("</script").count());
        assert_eq!(blocks, ends, "{name}");
        let kind = if name == "huge" { "zlib" } else { "json" };
        let data = page.matches(&format!("<script type=\"application/{kind}\"")).count();
        assert_eq!(data + 1, blocks, "{name}");
        assert!(!page.contains("<!--") && !page.contains("onerror=planted=3>\""), "{name}");
        // and the same file again
        assert_eq!(page, exported(&site), "{name}");
    }
}

#[test]
fn a_page_is_always_masked() {
    let site = Site::scripted(&script(json!([says("Hello.")])));
    site.prompt("hi").ok();
    for option in ["--unmasked", "--bundle"] {
        site.run(&["export", "last", "--format", "html", option])
            .with(2)
            .saying(&["always masked"]);
    }
    let file = site.path("run.html");
    site.run(&["export", "last", "--format", "html", "-o", file.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read_to_string(file).unwrap(), exported(&site));
}

/// The page in Chromium shows each session, with the states that the command line prints, and
/// nothing in it runs.
#[test]
fn the_page_in_a_browser() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::installed() else { return };
    let mut random = Random::seeded();
    let folder = tempfile::tempdir().unwrap();
    let mut plan = Vec::new();
    for Shown { name, site, shows, hides } in sessions() {
        let file = folder.path().join(format!("{name}.html"));
        std::fs::write(&file, exported(&site)).unwrap();
        // a browser takes seconds to lay out a state of a megabyte
        let most = if name == "huge" { 3 } else { STATES };
        let states = states(&site, &mut random, most);
        assert!(states.len() >= 3, "{name}");
        plan.push(json!({
            "name": name, "file": file, "states": states, "shows": shows, "hides": hides,
        }));
    }
    let planned = folder.path().join("plan.json");
    std::fs::write(&planned, json!(plan).to_string()).unwrap();
    let mut command = Command::new(peers.node());
    command.arg(common::root().join("tests/peers/page.mjs"));
    command.arg(chromium).arg(folder.path()).arg(planned).env("HOME", folder.path());
    let mut browser = Live::start(command);
    let (mut passed, mut failed, mut done) = (0, Vec::new(), false);
    while let Some(line) = browser.line() {
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        if said["done"] == true {
            done = true;
        } else if said["error"].is_string() {
            failed.push(said);
        } else {
            passed += 1;
        }
    }
    keep_screenshots(folder.path());
    assert!(failed.is_empty() && done, "{passed} passed\n{failed:#?}");
    assert!(passed >= plan.len() * 7, "{passed}");
}

fn keep_screenshots(folder: &Path) {
    let Some(keep) = std::env::var_os("LEFTFOLD_SCREENSHOTS") else { return };
    for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|kind| kind == "png" || kind == "html") {
            std::fs::copy(&entry, Path::new(&keep).join(entry.file_name().unwrap())).unwrap();
        }
    }
}
