//! Promise 14: a log replays without its secrets. Sessions that met canaries are read again in five other environments
//! of secrets. `verify`, `rerun`, `replay --state` and `explain --request` print the same bytes there. A turn that
//! goes on there uses the secrets of that environment; a call that names a secret which is gone fails and says so.

use std::io::Write;
use std::process::{Command, Stdio};

use common::corpus::logs;
use common::{
    Answer, Block, Live, Ran, Search, Server, Site, Split, Tally, all, bash, kind, message, only,
    says, script,
};
use leftfold_events::Envelope;
use leftfold_events::event::{Event, Model, Session};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::canaries::{planted, replies};

const DIFFERENT: &str = "outputs that differ";
const UNTOLD: &str = "calls that do not say which secret is gone";
const WRONG: &str = "calls with another value than that of their environment";
const UNSOUND: &str = "continued logs that do not verify";

/// The result of a call that names a secret that is not there.
const GONE: &str = "there is no secret named `CANARY_0`";

/// Which secrets a command knows.
#[derive(Clone, Copy, Debug)]
enum Environment {
    None,
    /// Other values of the names that the log has.
    OtherValues,
    /// The values that the log had, under other names.
    OtherNames,
    /// Values that are words of the log.
    Words,
    /// The secrets are those of the log. The provider has another key.
    OtherKey,
}

const ENVIRONMENTS: [Environment; 5] = [
    Environment::None,
    Environment::OtherValues,
    Environment::OtherNames,
    Environment::Words,
    Environment::OtherKey,
];

/// Words that are in each log: types of events, members, names of tools, a placeholder, the prompt.
const WORDS: [&str; 10] = [
    "turn.configured", "model.requested", "request_sha256", "filePath", "notes.txt",
    "{{secret:CANARY_1}}", "CANARY_1", "remember", "assistant", "canonical",
];

impl Environment {
    /// Changes what `command` finds in its settings and variables.
    fn set(self, command: &mut Command, search: &Search) {
        let content = command.get_envs().find(|(name, _)| *name == "LEFTFOLD_CONFIG_CONTENT");
        let content = content.unwrap().1.unwrap().to_str().unwrap();
        let mut settings: Value = serde_json::from_str(content).unwrap();
        let canaries = || search.canaries.iter().enumerate();
        let secrets: Value = match self {
            Self::None => json!({}),
            Self::OtherValues => {
                canaries().map(|(n, canary)| (canary.name.clone(), json!(other(n)))).collect()
            }
            Self::OtherNames => {
                canaries().map(|(n, canary)| (format!("OTHER_{n}"), json!(canary.value))).collect()
            }
            Self::Words => {
                let words = WORDS.iter().enumerate();
                words.map(|(n, word)| (format!("WORD_{n}"), json!(word))).collect()
            }
            Self::OtherKey => settings["secrets"].clone(),
        };
        settings["secrets"] = secrets;
        if !matches!(self, Self::OtherKey) {
            settings["environment"] = json!([]);
            for canary in &search.canaries {
                command.env_remove(&canary.name);
            }
        }
        if matches!(self, Self::Words | Self::OtherKey) {
            let key = if matches!(self, Self::Words) { "notes.txt" } else { "another-key-4711" };
            for provider in settings["provider"].as_object_mut().unwrap().values_mut() {
                provider["options"]["apiKey"] = json!(key);
            }
            command.env("OPENAI_API_KEY", "tool.finished");
        }
        command.env("LEFTFOLD_CONFIG_CONTENT", settings.to_string());
    }

    /// The value of `CANARY_0`.
    fn value(self, search: &Search) -> Option<String> {
        match self {
            Self::None | Self::OtherNames | Self::Words => None,
            Self::OtherValues => Some(other(0)),
            Self::OtherKey => Some(search.canaries[0].value.clone()),
        }
    }
}

/// Another value of the canary with this number.
fn other(number: usize) -> String {
    format!("other-value-of-{number}")
}

/// Runs the program in another environment; in that of the log if there is none.
fn run(site: &Site, search: &Search, environment: Option<Environment>, args: &[&str]) -> Ran {
    run_with(site, search, environment, args, "")
}

fn run_with(
    site: &Site,
    search: &Search,
    environment: Option<Environment>,
    args: &[&str],
    input: &str,
) -> Ran {
    let mut command = site.command(args);
    if let Some(environment) = environment {
        environment.set(&mut command, search);
    }
    if input.is_empty() {
        return Live::start(command).wait();
    }
    command.stdin(Stdio::piped());
    let mut live = Live::start(command);
    live.input().write_all(input.as_bytes()).unwrap();
    live.wait()
}

/// The commands that read `session`.
fn readings(session: &str, log: &[Envelope], wire: bool) -> Vec<Vec<String>> {
    let mut readings: Vec<Vec<&str>> = vec![
        vec!["verify", "--all", "--format", "json", session],
        vec!["rerun", session],
        vec!["rerun", "--wire", session],
        vec!["replay", session, "--state"],
        vec!["export", session, "--unmasked"],
    ];
    // a fork's log begins with the requests of its parent, which are read there
    let forked = |event: &Envelope| matches!(event.event, Event::Session(Session::Forked { .. }));
    let own = log.iter().rposition(forked).unwrap_or(0);
    let is_request =
        |event: &&Envelope| matches!(event.event, Event::Model(Model::Requested { .. }));
    let requests = log[own..].iter().filter(is_request);
    let seqs: Vec<String> = requests.map(|event| event.seq.to_string()).collect();
    for seq in &seqs {
        readings.push(vec!["explain", session, seq, "--request"]);
        if wire {
            readings.push(vec!["explain", session, seq, "--request", "--wire"]);
        }
    }
    readings.into_iter().map(|args| args.into_iter().map(str::to_owned).collect()).collect()
}

/// Reads all sessions of a site in other environments, each command in the next ones, and compares with the environment
/// of the log. `LEFTFOLD_ENVIRONMENTS=5` has each command in all of them.
fn read_again(tally: &Tally, search: &Search, site: &Site, wire: bool) {
    for (session, log) in logs(site) {
        tally.add("sessions", 1);
        for (number, args) in readings(&session.to_string(), &log, wire).iter().enumerate() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let expected = run(site, search, None, &args);
            let is_sound = expected.code == 0;
            tally.check(DIFFERENT, is_sound, || format!("{args:?}: {expected:?}"));
            let environments = ENVIRONMENTS.into_iter().cycle().skip(number);
            for environment in environments.take(common::number("LEFTFOLD_ENVIRONMENTS", 2)) {
                let found = run(site, search, Some(environment), &args);
                let equal = (found.code, &found.stdout, &found.stderr)
                    == (expected.code, &expected.stdout, &expected.stderr);
                tally.check(DIFFERENT, equal, || format!("{environment:?}, {args:?}: {found:?}"));
                tally.add("outputs", 1);
                tally.add("KiB compared", found.stdout.len() / 1_024);
            }
        }
    }
}

/// Checks what became of the call in `events`, which names `CANARY_0`.
fn look_at_call(
    tally: &Tally,
    search: &Search,
    environment: Environment,
    site: &Site,
    events: &[Value],
) {
    let used = site.text("used.txt");
    match environment.value(search) {
        Some(value) => {
            tally.equal(WRONG, &used, &value, format!("{environment:?}"));
            let text = format!("{events:?}");
            tally.check(WRONG, !text.contains(&value), || format!("{environment:?}: {text}"));
            tally.add("calls with a value", 1);
        }
        None => {
            let told = events.iter().any(|event| {
                kind(event).starts_with("tool.") && event["data"].to_string().contains(GONE)
            });
            tally.check(UNTOLD, told, || format!("{environment:?}: {events:?}"));
            tally.equal(WRONG, &used, &String::new(), format!("{environment:?}"));
            tally.add("calls without", 1);
        }
    }
}

/// Checks that the last session verifies with its first secrets, and with words of the log as secrets.
fn verifies(tally: &Tally, search: &Search, site: &Site, place: &str) {
    for environment in [None, Some(Environment::Words)] {
        for command in ["verify", "rerun"] {
            let ran = run(site, search, environment, &[command, "last"]);
            tally.check(UNSOUND, ran.code == 0, || {
                format!("{place}, {environment:?}, {command}: {ran:?}")
            });
        }
    }
}

fn call() -> Value {
    bash("printf %s '{{secret:CANARY_0}}' > used.txt; echo gone on")
}

/// A scripted session with all canaries and its fork. Both are read, and go on, in each environment.
fn canaries_and_fork(tally: &Tally, search: &Search) {
    let mut replies = replies(search);
    let list = replies.as_array_mut().unwrap();
    for (result, text) in [("gone on", "It ran."), ("no secret named", "It is gone.")] {
        list.push(json!({ "match": { "prompt": "again", "result": result }, "parts": [{ "text": text }] }));
    }
    list.push(json!({ "match": { "prompt": "in a fork", "result": "gone on" }, "parts": [{ "text": "Forked." }] }));
    list.push(json!({ "match": { "prompt": "in a fork" }, "parts": call()["parts"] }));
    list.push(json!({ "match": { "prompt": "again" }, "parts": call()["parts"] }));
    let site = planted(Site::scripted(&script(&replies)), search);
    let prompt = format!("remember {}", search.everything());
    let events = site.prompt(&prompt).ok().events();
    let middle = all(&events, "tool.finished")[10]["seq"].to_string();
    site.run(&["fork", "last", "--at", &middle, "--format", "json", "in a fork"]).ok();
    assert_eq!(site.text("used.txt"), search.canaries[0].value);
    std::fs::remove_file(site.project().join("used.txt")).unwrap();
    read_again(tally, search, &site, false);
    let saved = site.save();
    for environment in ENVIRONMENTS {
        site.restore(&saved);
        let args = ["run", "--continue", "--format", "json", "again"];
        let ran = run(&site, search, Some(environment), &args).ok();
        look_at_call(tally, search, environment, &site, &ran.events());
        verifies(tally, search, &site, "after a prompt");
    }
}

/// A session of a server, with records of its answers.
fn recorded(tally: &Tally, search: &Search) {
    let read = json!({ "filePath": "notes.txt" }).to_string();
    let named = json!({ "command": "printf %s '{{secret:CANARY_0}}'; cat notes.json" }).to_string();
    let replies = [
        vec![
            Block::Thinking("I read assistant and canonical first.", "c2lnbmF0dXJl"),
            Block::Call("call_1", "read", read),
        ],
        vec![Block::Text("Now with the value."), Block::Call("call_2", "bash", named)],
        vec![Block::Text("I remember {{secret:CANARY_1}} in notes.txt.")],
    ];
    let answers = replies.map(|blocks| Answer::Stream(message(&blocks), Split::Whole));
    let server = Server::start(answers.into());
    let site = planted(Site::served(&server), search).setting("record", json!("wire"));
    site.prompt(&format!("remember {}", search.everything())).ok();
    let ran = site.run(&["rerun", "--wire", "last"]).ok();
    assert!(ran.stdout.contains("3 of 3 bodies rebuilt, 3 answers decoded again"), "{ran:?}");
    read_again(tally, search, &site, true);
}

/// A session that is killed while it asks whether a call may run, and is resumed in each environment.
fn resumed(tally: &Tally, search: &Search) {
    let site = planted(Site::scripted(&script(json!([call(), says("The end.")]))), search)
        .setting("permission", json!({ "bash": "ask" }));
    let args = ["--permission-mode", "ask", "--format", "json"];
    let mut live = site.start(&[&["run", "remember"], &args[..]].concat());
    live.until("permission.asked");
    live.signal(Signal::KILL);
    live.wait();
    let saved = site.save();
    for environment in ENVIRONMENTS {
        site.restore(&saved);
        let resume = [&["resume", "last"], &args[..]].concat();
        let ran = run_with(&site, search, Some(environment), &resume, "once\n").ok();
        let events = ran.events();
        look_at_call(tally, search, environment, &site, &events);
        assert_eq!(only(&events, "turn.ended")["data"]["text"], "The end.");
        verifies(tally, search, &site, "resumed");
        tally.add("resumes", 1);
    }
}

#[test]
fn a_log_reads_the_same_under_other_secrets() {
    let search = Search::begin();
    let tally = Tally::promise(14, "other secrets")
        .counts(&[
            "environments", "sessions", "outputs", "KiB compared", "resumes", "calls with a value",
            "calls without",
        ])
        .never(&[DIFFERENT, UNTOLD, WRONG, UNSOUND]);
    tally.add("environments", ENVIRONMENTS.len());
    std::thread::scope(|scope| {
        scope.spawn(|| canaries_and_fork(&tally, &search));
        scope.spawn(|| recorded(&tally, &search));
        scope.spawn(|| resumed(&tally, &search));
    });
    tally.finish();
}
