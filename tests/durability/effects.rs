//! Promise 2, intent before effect: whatever leaves the program stands in the log on the disk by then. Each commit is
//! delayed, so that an effect which does not wait for it comes far too early. What effects leave outside is
//! looked at while they happen, and the log is read from the disk at that moment.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use common::aftermath::assert_told;
use common::corpus::{Logs, SERVER, scenario};
use common::mcp;
use common::plugin::{self, double};
use common::{Answer, Block, Live, Server, Site, Split, Tally, message};
use leftfold_events::Envelope;
use leftfold_events::event::{
    CallSpec, Event, Files, Hook, Model, Purpose, Session, Subagent, Tool, Turn,
};
use leftfold_store::Reader;
use serde_json::{Value, json};

/// By how much each commit is delayed, in milliseconds.
const DELAY: &str = "150";
const EARLY: &str = "effects before their intents";
const LOOK: Duration = Duration::from_millis(5);
const PLUGIN: &str = "effects::the_plugin_answers";
/// The prompt of the child.
const TASK: &str = "CHILD";

#[test]
fn the_plugin_answers() {
    plugin::serve_if_asked();
}

/// The logs below this home as they are on the disk.
pub(crate) fn on_disk(home: &Path) -> Logs {
    let folders = std::fs::read_dir(home.join("sessions")).into_iter().flatten();
    let mut stores: Vec<PathBuf> = folders.map(|folder| folder.unwrap().path()).collect();
    stores.push(home.join("store"));
    let mut logs = Vec::new();
    for store in stores.iter().filter(|store| store.join("db").exists()) {
        let reader = Reader::open(store).unwrap();
        for session in reader.sessions().unwrap() {
            logs.push((session, reader.read(session, 1).unwrap()));
        }
    }
    logs
}

fn count(logs: &Logs, wanted: impl Fn(&Event) -> bool) -> usize {
    let events = logs.iter().flat_map(|(_, log)| log);
    events.filter(|event| wanted(&event.event)).count()
}

/// Whether a call has started whose arguments have this text.
fn has_started(logs: &Logs, text: &str) -> bool {
    let called = |log: &[Envelope], of: u64| {
        let event = log.iter().find(|event| event.seq == of).map(|event| &event.event);
        let Some(Event::Tool(Tool::Called { call } | Tool::Batched { call })) = event else {
            return false;
        };
        let CallSpec { input, .. } = call;
        input.as_str().contains(text)
    };
    logs.iter().any(|(_, log)| {
        let mut started = log
            .iter()
            .filter(|event| matches!(&event.event, Event::Tool(tool) if tool.started().is_some()));
        started.any(|event| called(log, event.of.unwrap_or_default()))
    })
}

/// A command that goes on when somebody has seen that it runs.
fn noticed(name: &str) -> String {
    format!("touch at-{name}; while [ ! -e go-{name} ]; do sleep 0.02; done")
}

/// The commands that are running, or have been.
fn running(site: &Site) -> Vec<String> {
    let files = std::fs::read_dir(site.project()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut running: Vec<String> =
        names.filter_map(|name| name.strip_prefix("at-").map(str::to_owned)).collect();
    running.sort();
    running
}

/// The hooks that were put to the plugin.
fn hooks(site: &Site) -> usize {
    let asked = plugin::asked(&site.project()).into_iter();
    asked.filter(|message| message["method"] != "initialize" && !message["id"].is_null()).count()
}

/// Runs `run` and meanwhile looks at `effects`; whenever these change, `missing` says which intents are
/// not on the disk.
fn watched<E: PartialEq + Default>(
    run: impl FnOnce() + Send,
    effects: impl Fn() -> E,
    missing: impl Fn(&E) -> Vec<String>,
) -> Vec<String> {
    let mut found = Vec::new();
    thread::scope(|scope| {
        let run = scope.spawn(run);
        let mut seen = E::default();
        while !run.is_finished() {
            let now = effects();
            if now != seen {
                found.extend(missing(&now));
                seen = now;
            }
            thread::sleep(LOOK);
        }
        run.join().unwrap();
    });
    found
}

/// A reply of the model to this request; `Err` is what is missing on the disk.
fn answer(body: &Value, logs: &Logs) -> (Vec<Block>, Vec<String>) {
    let messages = body["messages"].to_string();
    let mut missing = Vec::new();
    if body["messages"].as_array().unwrap().len() == 1 && messages.contains(TASK) {
        let begun = |event: &Event| {
            matches!(event, Event::Session(Session::Created { parent: Some(_), .. }))
        };
        let prompted = |event: &Event| matches!(event, Event::Turn(Turn::Prompted { by, .. }) if by.starts_with("session"));
        let spawned = |event: &Event| matches!(event, Event::Subagent(Subagent::Spawned { .. }));
        if [count(logs, spawned), count(logs, begun), count(logs, prompted)] != [1; 3] {
            missing.push("a child that nobody has spawned".to_owned());
        }
        return (vec![Block::Text("The child is done.")], missing);
    }
    let blocks = if !messages.contains("tool_result") {
        let command = json!({ "command": noticed("call") }).to_string();
        let write = json!({ "filePath": "made.txt", "content": "made\n" }).to_string();
        vec![Block::Call("a", "bash", command), Block::Call("b", "write", write)]
    } else if !messages.contains(TASK) {
        let task = json!({ "description": "A part", "prompt": TASK, "subagentType": "general" });
        vec![Block::Call("c", "task", task.to_string())]
    } else {
        vec![Block::Text("All is done.")]
    };
    (blocks, missing)
}

const KINDS: [&str; 13] = [
    "commands", "requests", "hooks", "snapshots", "files", "subagents", "titles",
    "session summaries", "summaries of a conversation", "pages", "calls of an MCP server",
    "answers to forms", "restores",
];

#[test]
fn no_effect_comes_before_its_intent_is_on_the_disk() {
    if cfg!(not(debug_assertions)) {
        return common::skipped("only debug builds delay commits");
    }
    let tally = Tally::promise(2, "effects").counts(&KINDS).never(&[EARLY]);
    thread::scope(|scope| {
        scope.spawn(|| effects_of_a_turn(&tally));
        scope.spawn(|| effects_on_servers_people_and_files(&tally));
    });
    let unseen = KINDS.into_iter().filter(|kind| tally.get(kind) == 0);
    let unseen: Vec<&str> = unseen.collect();
    tally.finish();
    assert!(unseen.is_empty(), "no effect of these kinds was seen: {unseen:?}");
}

/// Commands, requests, hooks, snapshots, a changed file and a child.
fn effects_of_a_turn(tally: &Tally) {
    let home: Arc<OnceLock<PathBuf>> = Arc::default();
    let early: Arc<Mutex<Vec<String>>> = Arc::default();
    let requests = Mutex::new(0);
    let (place, told) = (Arc::clone(&home), Arc::clone(&early));
    let server = Server::answering(move |request| {
        let logs = on_disk(place.get().unwrap());
        let mut requests = requests.lock().unwrap();
        *requests += 1;
        let asked = count(&logs, |event| matches!(event, Event::Model(Model::Requested { .. })));
        let (blocks, mut missing) = answer(&request.body, &logs);
        if asked < *requests {
            missing.push(format!("request {requests} of a model: {asked} are in the log"));
        }
        told.lock().unwrap().extend(missing);
        Answer::Stream(message(&blocks), Split::Whole)
    });
    let hooks_of = ["tool.execute.before", "tool.execute.after"];
    let template = format!("It says <!`{}`>.", noticed("line"));
    let site = Site::served(&server)
        .setting("/snapshot", json!(true))
        .setting("/command", json!({ "say": { "template": template } }))
        .setting(
            "/plugin",
            json!([double(PLUGIN, json!({ "name": "d", "hooks": hooks_of }), json!({}))]),
        )
        .env("LEFTFOLD_SLOW_COMMITS", DELAY);
    home.set(site.path("home")).unwrap();
    let snapshots = site.path("home/snapshots");
    let effects = || {
        let made = site.project().join("made.txt").exists();
        (running(&site), hooks(&site), snapshots.exists(), made)
    };
    let missing = |(running, asked, kept, made): &(Vec<String>, usize, bool, bool)| {
        let logs = on_disk(&site.path("home"));
        let mut missing = Vec::new();
        for name in running {
            if !has_started(&logs, &format!("at-{name}")) {
                missing.push(format!("the command `{name}`"));
            }
            site.file(&format!("go-{name}"), "");
        }
        let called = count(&logs, |event| matches!(event, Event::Hook(Hook::Called { .. })));
        if called < *asked {
            missing.push(format!("{asked} hooks, of which {called} are in the log"));
        }
        let taken = count(&logs, |event| matches!(event, Event::Files(Files::SnapshotStarted {})));
        if *kept && taken == 0 {
            missing.push("a snapshot".to_owned());
        }
        if *made && !has_started(&logs, "made.txt") {
            missing.push("a file that is written".to_owned());
        }
        missing
    };
    let run = || drop(site.run(&["run", "/say"]).ok());
    let mut found = watched(run, effects, missing);
    found.extend(early.lock().unwrap().drain(..));
    // all of them have been there
    let (running, asked, kept, made) = effects();
    tally.add("commands", running.len());
    tally.add("requests", server.requests().len());
    tally.add("hooks", asked);
    tally.add("snapshots", usize::from(kept));
    tally.add("files", usize::from(made));
    let spawned = |event: &Event| matches!(event, Event::Subagent(Subagent::Spawned { .. }));
    tally.add("subagents", count(&on_disk(&site.path("home")), spawned));
    tally.none(EARLY, found);
    assert_eq!((running, kept, made), (vec!["call".to_owned(), "line".to_owned()], true, true));
    assert!(asked >= 4 && server.requests().len() == 4, "{asked} hooks");
    site.assert_sound();
}

/// A page, and whatever `look` finds when it is fetched.
fn pages(look: impl Fn(&str) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(&stream);
            reader.read_line(&mut line).unwrap();
            look(line.split(' ').nth(1).unwrap_or_default());
            // the client has said everything with an empty line
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close";
            // the client may be gone
            let _ = write!(&stream, "{head}\r\ncontent-length: 5\r\n\r\npage\n");
        }
    });
    url
}

/// The model that each purpose asks, and the name of its requests.
const MODELS: [(&str, Purpose, &str); 4] = [
    ("m", Purpose::Turn, "requests"),
    ("t", Purpose::Title, "titles"),
    ("s", Purpose::SessionSummary, "session summaries"),
    ("c", Purpose::Compaction, "summaries of a conversation"),
];

/// The model's reply in a turn that has so many results.
fn reply_after(results: usize, page: &str) -> Block {
    let form = json!({ "ask": { "message": "Which row?", "requestedSchema": {
        "type": "object", "required": ["row"], "properties": { "row": { "type": "integer" } },
    } } });
    let (tool, input) = match results {
        0 => ("webfetch", json!({ "url": format!("{page}/page"), "format": "text" })),
        1 => ("m_mark", json!({ "mark": "marked" })),
        2 => ("m_ask", form),
        3 => ("write", json!({ "filePath": "made.txt", "content": "made\n" })),
        _ => return Block::Text("All is done."),
    };
    Block::Call("call", tool, input.to_string())
}

/// A page, calls of an MCP server, a person's answer to its form, a title, both summaries, and files that are restored.
fn effects_on_servers_people_and_files(tally: &Tally) {
    let site = Site::bare();
    let home = site.path("home");
    let early: Arc<Mutex<Vec<String>>> = Arc::default();
    let (place, told) = (home.clone(), Arc::clone(&early));
    let fetched = Arc::new(AtomicUsize::new(0));
    let fetches = Arc::clone(&fetched);
    let page = pages(move |path| {
        fetches.fetch_add(1, Ordering::Relaxed);
        if !has_started(&on_disk(&place), path) {
            told.lock().unwrap().push(format!("the page {path}"));
        }
    });
    let (place, told, url) = (home.clone(), Arc::clone(&early), page.clone());
    let asked: Arc<Mutex<BTreeMap<&str, usize>>> = Arc::default();
    let requests = Arc::clone(&asked);
    let server = Server::answering(move |request| {
        let model = request.body["model"].as_str().unwrap();
        let (model, purpose, name) =
            MODELS.into_iter().find(|(known, ..)| *known == model).unwrap();
        let logs = on_disk(&place);
        let mut requests = requests.lock().unwrap();
        let sent = requests.entry(name).or_default();
        *sent += 1;
        let intended = count(&logs, |event| {
            matches!(event, Event::Model(Model::Requested { model: of, purpose: why, .. })
                if of.id == model && *why == purpose)
        });
        if intended < *sent {
            told.lock().unwrap().push(format!("{sent} {name}: {intended} are in the log"));
        }
        let results = request.body["messages"].to_string().matches("\"tool_result\"").count();
        let block = match purpose {
            Purpose::Turn => reply_after(results, &url),
            Purpose::Title | Purpose::SessionSummary | Purpose::Compaction => {
                Block::Text("In short.")
            }
        };
        Answer::Stream(message(&[block]), Split::Whole)
    });
    let limits = json!({ "limit": { "context": 100_000, "output": 8_000 } });
    let site = site
        .setting("model", json!("local/m"))
        .setting("title", json!(true))
        .setting("summary", json!(true))
        .setting("snapshot", json!(true))
        .setting(
            "provider/local",
            json!({
                "wire": "anthropic",
                "options": { "baseURL": server.url(), "apiKey": "sk-test-0123456789" },
                "models": { "m": limits, "t": limits, "s": limits, "c": limits },
            }),
        )
        .setting(
            "agent",
            json!({
                "title": { "model": "local/t" },
                "summary": { "model": "local/s" },
                "compaction": { "model": "local/c" },
            }),
        )
        .setting("webfetch", json!({ "private": true }))
        .setting("permission", json!({ "host": "allow", "m_*": "allow" }))
        .setting("/mcp", json!({ "m": mcp::local(SERVER, "noting") }))
        .env("LEFTFOLD_SLOW_COMMITS", DELAY);
    let marked = || site.text("marks").lines().count();
    let answered = || site.text("answered").lines().count();
    let is_made = || site.project().join("made.txt").exists();
    // calls, answers and restores that were compared with the log
    let seen = Mutex::new([0; 3]);
    let missing = |(calls, answers, made, restores): &(usize, usize, bool, usize)| {
        let logs = on_disk(&home);
        let mut missing = Vec::new();
        for (seen, now) in seen.lock().unwrap().iter_mut().zip([calls, answers, restores]) {
            *seen = (*seen).max(*now);
        }
        if *calls > 0 && !has_started(&logs, "\"mark\":\"marked\"") {
            missing.push("a call of an MCP server".to_owned());
        }
        let of_people =
            count(&logs, |event| matches!(event, Event::Tool(Tool::ElicitationAnswered { .. })));
        if of_people < *answers {
            missing.push(format!("{answers} answers to a form: {of_people} are in the log"));
        }
        let intended =
            count(&logs, |event| matches!(event, Event::Files(Files::RestoreStarted { .. })));
        if intended < *restores {
            missing.push(format!("{restores} restores: {intended} are in the log"));
        }
        if *made && !has_started(&logs, "made.txt") {
            missing.push("a file that is written".to_owned());
        }
        missing
    };
    let (calls, mut found) = (|| (marked(), answered(), is_made(), 0), Vec::new());
    let prompt = || {
        let mut command =
            site.command(&["run", "--format", "json", "--permission-mode", "ask", "go"]);
        command.stdin(Stdio::piped());
        let mut live = Live::start(command);
        live.input().write_all(b"3\n").unwrap();
        live.wait().ok();
    };
    found.extend(watched(prompt, calls, missing));
    assert!(is_made());
    let prompted = |event: &&Envelope| matches!(event.event, Event::Turn(Turn::Prompted { .. }));
    let logs = on_disk(&home);
    let seq = logs[0].1.iter().find(prompted).unwrap().seq.to_string();
    // the file goes with the first restore, and comes back with the second
    let gone = || (marked(), answered(), is_made(), usize::from(!is_made()));
    let revert = || drop(site.run(&["revert", "last", "--to", &seq]).ok());
    found.extend(watched(revert, gone, missing));
    assert!(!is_made());
    let back = || (marked(), answered(), is_made(), 1 + usize::from(is_made()));
    let unrevert = || drop(site.run(&["unrevert", "last"]).ok());
    found.extend(watched(unrevert, back, missing));
    assert!(is_made());
    site.run(&["compact", "last"]).ok();

    found.extend(early.lock().unwrap().drain(..));
    tally.none(EARLY, found);
    for (name, sent) in asked.lock().unwrap().iter() {
        tally.add(name, *sent);
    }
    tally.add("pages", fetched.load(Ordering::Relaxed));
    let [calls, answers, restores] = *seen.lock().unwrap();
    tally.add("calls of an MCP server", calls);
    tally.add("answers to forms", answers);
    tally.add("restores", restores);
    tally.add("files", 1);
    site.assert_sound();
}

#[test]
fn no_mark_of_the_corpus_comes_before_its_call_has_started_on_the_disk() {
    if cfg!(not(debug_assertions)) {
        return common::skipped("only debug builds delay commits");
    }
    let tally = Tally::promise(2, "marks of the corpus")
        .counts(&["sessions", "marks", "calls lost and told"])
        .never(&[EARLY]);
    for name in
        ["tools", "parallel", "children", "fork", "queued", "mixed", "mcp", "plugins", "cut"]
    {
        let mut scenario = scenario(name);
        scenario.site = scenario.site.env("LEFTFOLD_SLOW_COMMITS", "50");
        let site = &scenario.site;
        let missing = |marks: &String| {
            let logs = on_disk(&site.path("home"));
            let has_started = |mark: &str| {
                has_started(&logs, &format!("echo {mark} "))
                    || has_started(&logs, &format!("\"mark\":\"{mark}\""))
            };
            let early = marks.lines().filter(|mark| !has_started(mark));
            early.map(|mark| format!("{name}: {mark}")).collect()
        };
        let run = || {
            for act in &scenario.acts {
                act.play(site, None).with(act.code);
            }
        };
        let found = watched(run, || site.text("marks"), missing);
        tally.add("sessions", 1);
        tally.add("marks", site.text("marks").lines().count());
        for (_, log) in on_disk(&site.path("home")) {
            tally.add("calls lost and told", assert_told(&log));
        }
        tally.none(EARLY, found);
        assert!(!site.text("marks").is_empty(), "{name}");
    }
    tally.finish();
}

/// The flushes of a run with one call: up to the first request, those of the call, and the end.
fn flushes(call: &Value) -> usize {
    let replies =
        json!([{ "parts": [{ "text": "I look." }, call] }, { "parts": [{ "text": "Done." }] }]);
    let site = Site::scripted(&json!({ "replies": replies }));
    site.file("a.txt", "hello\n");
    let count = site.path("groups");
    let site = site.env("LEFTFOLD_COUNT_GROUPS", count.display().to_string());
    site.run(&["run", "--yes", "go"]).ok();
    std::fs::read(count).unwrap().len()
}

#[test]
fn a_call_that_reads_shares_one_flush_with_the_next_request() {
    if cfg!(not(debug_assertions)) {
        return common::skipped("only debug builds count flushes");
    }
    let call = |name: &str, input: Value| json!({ "call": { "name": name, "input": input } });
    let command = call("bash", json!({ "command": "true" }));
    // a batch waits no longer than a flush takes: a search, and on a busy machine everything, may take longer
    for (call, expected) in [
        (call("read", json!({ "filePath": "a.txt" })), 3),
        (call("glob", json!({ "pattern": "*.txt" })), 4),
        (call("grep", json!({ "pattern": "hello" })), 4),
        (command, 4),
    ] {
        let mut counts = Vec::new();
        while counts.len() < 100 && counts.last().is_none_or(|count| *count > expected) {
            counts.push(flushes(&call));
        }
        assert!(counts.iter().any(|count| *count <= expected), "{call}: {counts:?}");
    }
}
