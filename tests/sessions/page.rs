//! `leftfold export --format html`: the page of a run, as a file and in Chromium.

use std::process::Command;
use std::time::Instant;

use common::browser::chromium;
use common::peers::Peers;
use common::plugin::{double, serve_if_asked};
use common::{Live, Random, Site, all, bash, call, filled, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

/// The bytes of a page without a run.
const OWN_SIZE: usize = 1 << 20;
/// The states of a session that are compared, and the number with `LEFTFOLD_PAGE=all`.
const STATES: usize = 5;
const ALL_STATES: usize = 20;
const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
/// Runs if any of it becomes markup or an address that is opened.
const HOSTILE: &str = "</script><script>planted=1</script><!--<script>planted=2</script>\
    <img src=x onerror=planted=3><svg onload=planted=4><a href=\"javascript:planted=5\">x</a>\
    [x](javascript:planted=6) ]]> &lt;b&gt; `${planted=7}` \u{202e}dlrow\u{2066} \u{2028}\u{2029}\u{0}\u{1b}[31m \
    $1 $$2 __proto__";

/// The test that starts this program again as a plugin.
const PLUGIN: &str = "page::the_plugin_answers";
/// Bytes of a call's output in the hostile session.
const OUTPUT: usize = 10 << 20;

/// A session that the page is tested with.
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) site: Site,
    /// As commands name it.
    pub(super) session: String,
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

/// A session and its fork, which goes on differently from the last prompt on.
fn forked() -> (Site, String) {
    let reply = |prompt: &str, text: &str| json!({ "match": { "prompt": prompt }, "parts": [{ "text": text }] });
    let replies = json!([
        reply("begin", "It began."),
        reply("go left", "It went left."),
        reply("go right", "It went right.")
    ]);
    let site = Site::scripted(&script(replies));
    site.prompt("begin").ok();
    let shared = site.exported().len().to_string();
    site.run(&["run", "--continue", "--format", "json", "go left"]).ok();
    let fork = site.run(&["fork", "last", "--at", &shared]).ok().stdout.trim().to_owned();
    site.run(&["run", "--session", &fork, "--format", "json", "go right"]).ok();
    (site, fork)
}

/// A plan, which a person accepts.
fn planned() -> Site {
    let write = |path: &str| call("write", json!({ "filePath": path, "content": "Written.\n" }));
    let exit = call("plan_exit", json!({}));
    let site = Site::scripted(&script(json!([
        write(".leftfold/plans/x.md"),
        exit,
        write("src.txt"),
        says("It is built."),
    ])));
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    let args = ["run", "--format", "json", "--permission-mode", "ask", "--agent", "plan", "go"];
    let mut live = site.start(&args);
    while let Some(line) = live.line() {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "permission.asked" {
            let seq = event["seq"].to_string();
            let yes = ["permission", "answer", "last", &seq, "once", "--feedback", "Yes"];
            site.run(&yes).ok();
        }
    }
    live.wait();
    site
}

/// One call is allowed by a person, the other one is rejected.
fn asked() -> Site {
    let site = Site::scripted(&script(json!([
        call("read", json!({ "filePath": ".env" })),
        call("read", json!({ "filePath": ".env.local" })),
        says("So be it."),
    ])));
    site.file(".env", "COLOUR=blue\n");
    site.file(".env.local", "COLOUR=red\n");
    let mut live = site.start(&common::ASK);
    for answer in ["once", "reject"] {
        let seq = live.until("permission.asked")["seq"].to_string();
        site.run(&["permission", "answer", "last", &seq, answer]).ok();
    }
    live.wait();
    site
}

fn hooked() -> Site {
    let handshake = json!({ "name": "p", "hooks": ["tool.execute.before"] });
    let plugin = double(PLUGIN, handshake, json!({ "tool.execute.before": {} }));
    let site = Site::scripted(&script(json!([bash("echo one"), says("Done.")])))
        .setting("/plugin", json!([plugin]));
    site.prompt("go").ok();
    site
}

#[test]
fn on_a_terminal_a_page_becomes_a_file() {
    let site = plain();
    let mut terminal = site.terminal(&["export", "last", "--format", "html"], 120);
    terminal.until("leftfold: open leftfold-").until(".html in a browser");
    assert_eq!(terminal.wait(), 0);
    let session = all(&site.exported(), "session.created")[0]["session"].clone();
    let page = site.text(&format!("leftfold-{}.html", session.as_str().unwrap()));
    assert!(page.starts_with("<!doctype html>"), "{page}");
}

#[test]
fn the_plugin_answers() {
    serve_if_asked();
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
    let much =
        format!("head -c {OUTPUT} /dev/zero | tr '\\0' x; printf '<script>planted=9</script>'");
    let site = Site::scripted(&script(json!([
        bash("printf 'bad \\377\\376 bytes'; echo \"$HOSTILE\""),
        bash(&much),
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

fn shown(name: &'static str, site: Site, shows: &[&'static str]) -> Shown {
    let session = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    Shown { name, site, session, shows: shows.to_vec(), hides: Vec::new() }
}

pub(super) fn sessions() -> Vec<Shown> {
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

/// All sessions that a page is made of.
fn of_pages() -> Vec<Shown> {
    let (fork_site, fork) = forked();
    let more = vec![
        Shown { session: fork, ..shown("forked", fork_site, &["It began.", "It went right."]) },
        shown("planned", planned(), &["plan_exit", "It is built."]),
        shown("asked", asked(), &["permission.answered"]),
        shown("hooked", hooked(), &["hook.called"]),
    ];
    sessions().into_iter().chain(more).collect()
}

fn exported(site: &Site, session: &str) -> String {
    site.run(&["export", session, "--format", "html"]).ok().stdout
}

/// Whether each session is looked at, at many places.
fn is_whole() -> bool {
    std::env::var("LEFTFOLD_PAGE").is_ok_and(|page| page == "all")
}

/// Places of the page, each with the state that `replay` prints for it.
fn states(Shown { name, site, session, .. }: &Shown, random: &mut Random) -> Vec<Value> {
    let events = site.run(&["export", session]).ok().events();
    // a fork's log has shared events, too
    let log = |event: &Value| match *name {
        "forked" => session.clone(),
        _ => event["session"].as_str().unwrap().to_owned(),
    };
    let mut places: Vec<(String, u64)> =
        events.iter().map(|event| (log(event), event["seq"].as_u64().unwrap())).collect();
    random.shuffle(&mut places);
    // a browser takes seconds to lay out a state of megabytes
    places.truncate(match *name {
        "huge" | "hostile" => 3,
        _ if is_whole() => ALL_STATES,
        _ => STATES,
    });
    let state = |(log, seq): &(String, u64)| {
        let at = seq.to_string();
        let printed = site.run(&["replay", log, "--at", &at, "--state"]);
        let place = if log == session { at } else { format!("{log}.{at}") };
        let state: Value = serde_json::from_str(&printed.ok().stdout).unwrap();
        json!({ "place": place, "state": state })
    };
    places.iter().map(state).collect()
}

/// The findings of `why`.
fn findings(Shown { site, session, .. }: &Shown) -> Vec<Value> {
    let why = site.run(&["why", session, "--format", "json"]).ok().stdout;
    let why: Value = serde_json::from_str(&why).unwrap();
    let found = why["findings"].as_array().unwrap().iter();
    // as they are shown: white space is not told apart, and hidden characters are named
    let words = |what: &Value| {
        what.as_str().unwrap().split(['\u{202e}', '\n', '\t']).next().unwrap().to_owned()
    };
    found.map(|finding| json!(words(&finding["what"]).trim_end())).collect()
}

/// The data of a block of a page.
fn block(page: &str, name: &str) -> Value {
    let begin = format!("<script type=\"application/json\" id=\"{name}\">");
    let (_, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("there is no block {name}"));
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

/// The bars of the timeline, each as its kind and its end. The pause before a retry is part of the compacted session.
#[test]
fn the_timeline_shows_what_happened() {
    let (fork_site, fork) = forked();
    let last = "last".to_owned();
    for (name, site, session, expected) in [
        (
            "asked",
            asked(),
            &last,
            vec!["wait ok", "wait denied", "call ok", "call denied", "turn denied"],
        ),
        ("forked", fork_site, &fork, vec!["mark ok", "turn ok", "request ok"]),
        ("hooked", hooked(), &last, vec!["hook ok", "call ok"]),
        ("compacted", compacted(), &last, vec!["retry ok", "compaction ok", "request failed"]),
        ("crashed", crashed(), &last, vec!["crash lost", "call lost", "turn ok"]),
        ("subagents", subagents(), &last, vec!["subagent ok"]),
        ("denied", denied(), &last, vec!["call denied"]),
        ("reverted", reverted(), &last, vec!["mark ok", "files ok"]),
    ] {
        let run = block(&exported(&site, session), "run");
        let spans = run["logs"][0]["spans"].as_array().unwrap();
        let of = |span: &Value| {
            let span = &span[1];
            format!("{} {}", span["kind"].as_str().unwrap(), span["end"].as_str().unwrap())
        };
        let found: Vec<String> = spans.iter().map(of).collect();
        for wanted in expected {
            assert!(found.iter().any(|span| span == wanted), "{name}: {wanted} of {found:?}");
        }
        assert!(!found.iter().any(|span| span.ends_with(" open")), "{name}: {found:?}");
    }
}

/// What a page shows of a request is what `explain` says of it.
#[test]
fn a_request_is_the_one_that_was_sent() {
    for site in [plain(), compacted(), planned(), reverted()] {
        let page = exported(&site, "last");
        let run = block(&page, "run");
        let messages = block(&page, "messages-0");
        let texts = block(&page, "texts-0");
        let text = |value: &Value| {
            let text = value.as_str().unwrap();
            match text.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()) {
                Some(number) => texts[number].clone(),
                None => value.clone(),
            }
        };
        let mut requests = 0;
        for chunk in 0..run["logs"][0]["chunks"].as_array().unwrap().len() {
            let chunk = block(&page, &format!("chunk-0-{chunk}"));
            let first = chunk["first"].as_u64().unwrap() + 1;
            for (seq, about) in (first..).zip(chunk["about"].as_array().unwrap()) {
                let request = &about["request"];
                if request.is_null() {
                    continue;
                }
                requests += 1;
                assert_eq!(request["as_logged"], true, "{seq}");
                let explained =
                    site.run(&["explain", "last", &seq.to_string(), "--format", "json"]);
                let explained: Value = serde_json::from_str(&explained.ok().stdout).unwrap();
                let expected = explained["messages"].as_array().unwrap();
                let runs = request["messages"].as_array().unwrap().iter();
                let shown = runs.flat_map(|run| {
                    let (first, count) = (run[0].as_u64().unwrap(), run[1].as_u64().unwrap());
                    first..first + count
                });
                let shown: Vec<&Value> =
                    shown.map(|number| &messages[usize::try_from(number).unwrap()]).collect();
                assert_eq!(shown.len(), expected.len(), "{seq}");
                for (shown, expected) in shown.iter().zip(expected) {
                    for field in ["role", "from", "bytes"] {
                        assert_eq!(shown[field], expected[field], "{seq} {field}");
                    }
                    assert_eq!(text(&shown["text"]), expected["text"], "{seq}");
                }
            }
        }
        assert!(requests > 1);
    }
}

#[test]
fn two_sessions_are_compared_as_diff_compares_them() {
    let (site, fork) = forked();
    let root = site.session().file_name().unwrap().to_str().unwrap().to_owned();
    let args = ["export", &root, "--compare", &fork, "--format", "html"];
    let page = site.run(&args).ok().stdout;
    let compared = block(&page, "compare");
    let diff = site.run(&["diff", &root, &fork, "--format", "json"]).with(1).stdout;
    let diff: Value = serde_json::from_str(&diff).unwrap();
    assert_eq!(compared["part"], diff["part"]);
    let rows = compared["rows"].as_array().unwrap();
    let same = rows.iter().take_while(|row| row[2] == 1).count() as u64;
    assert_eq!(Some(same + 1), diff["part"]["seq"].as_u64());
    // each event of both stands in one row, in order
    for (side, session) in [(0, &root), (1, &fork)] {
        let shown: Vec<i64> =
            rows.iter().filter_map(|row| row[side].as_i64()).filter(|at| *at >= 0).collect();
        let count = site.run(&["export", session]).ok().events().len() as i64;
        assert_eq!(shown, (0..count).collect::<Vec<_>>());
    }
    site.run(&["export", &root, "--compare", &fork]).with(2).saying(&["--format html"]);
    let equal = ["export", &root, "--compare", &root, "--format", "html"];
    assert_eq!(block(&site.run(&equal).ok().stdout, "compare")["part"], Value::Null);
}

#[test]
fn a_page_is_one_harmless_file() {
    for Shown { name, site, session, hides, .. } in of_pages() {
        let page = exported(&site, &session);
        let jsonl = site.run(&["export", &session]).ok().stdout;
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
        assert_eq!(page, exported(&site, &session), "{name}");
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
    assert_eq!(std::fs::read_to_string(file).unwrap(), exported(&site, "last"));
}

/// The page in Chromium shows each session, with the states that the command line prints, and
/// nothing in it runs. `LEFTFOLD_SEED` chooses every other one; with `LEFTFOLD_PAGE=all` it is all of them.
#[test]
fn the_page_in_a_browser() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::installed() else { return };
    let mut random = Random::seeded();
    let folder = tempfile::tempdir().unwrap();
    let mut plan = Vec::new();
    let mut compared = 0;
    let seed = common::number("LEFTFOLD_SEED", 1);
    for (at, shown) in of_pages().into_iter().enumerate() {
        if !is_whole() && shown.name != "hostile" && !(at + seed).is_multiple_of(2) {
            continue;
        }
        let states = states(&shown, &mut random);
        let found = findings(&shown);
        let Shown { name, site, session, shows, hides } = shown;
        let file = folder.path().join(format!("{name}.html"));
        std::fs::write(&file, exported(&site, &session)).unwrap();
        assert!(states.len() >= 3, "{name}");
        compared += states.len();
        plan.push(json!({
            "name": name, "file": file, "states": states, "shows": shows, "hides": hides,
            "findings": found,
        }));
    }
    assert!(compared >= 20, "{compared}");
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
    common::browser::keep_screenshots(folder.path());
    assert!(failed.is_empty() && done, "{passed} passed\n{failed:#?}");
    assert!(passed >= plan.len() * 7, "{passed}");
}

/// A session whose log was not written by a run.
fn long(events: usize) -> (Site, String) {
    let site = Site::scripted(&json!({}));
    let log = common::long_log::session(events);
    let session = log[0].session.to_string();
    let folder = site.path(&format!("home/sessions/{session}"));
    leftfold_store::Store::open(&folder).unwrap().import(log[0].session, &log).unwrap();
    (site, session)
}

/// A page of a long session is written in time that grows as its events do, and the browser shows it at once.
/// `LEFTFOLD_PAGE_EVENTS=100000` measures a longer one.
#[test]
fn a_long_session_is_shown_at_once() {
    let Some(chromium) = chromium() else { return };
    let Some(peers) = Peers::installed() else { return };
    let (site, session) = long(common::number("LEFTFOLD_PAGE_EVENTS", 3_000));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.html");
    let began = Instant::now();
    let args = ["export", &session, "--format", "html", "-o", file.to_str().unwrap()];
    // of a longer session this takes longer than a test waits for a line
    assert!(site.command(&args).status().unwrap().success());
    let exported = began.elapsed();
    let mut command = Command::new(peers.node());
    command.arg(common::root().join("tests/peers/long_page.mjs"));
    command.arg(chromium).arg(folder.path()).arg(&file).env("HOME", folder.path());
    let measured = Live::start(command).wait();
    common::browser::keep_screenshots(folder.path());
    let measured: Value = serde_json::from_str(&measured.ok().stdout).unwrap();
    let bytes = std::fs::metadata(&file).unwrap().len();
    eprintln!("exported in {exported:?}, {bytes} bytes, {measured}");
    assert_eq!(measured["problem"], "");
    // the times of an idle machine: others run tests on this one
    let slack = 3.0;
    let opened = measured["opened"].as_f64().unwrap();
    assert!(opened < 2_000.0 * slack, "opened in {opened} ms");
    for panel in ["Event", "State", "Request", "Context"] {
        let sought = measured["sought"][panel].as_f64().unwrap();
        assert!(sought < 100.0 * slack, "{panel}: {sought} ms");
    }
}
