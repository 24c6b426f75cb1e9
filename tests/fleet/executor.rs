//! Calls that run beside a workspace on another machine: `leftfold executor` on the loopback, and nodes that use it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use common::postgres::shared;
use common::{
    Live, Site, all, bash, call, end, kinds, marked, only, root, says, script, skipped, wait_until,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::http_client::Served;
use crate::url;

const TOKEN: &str = "a-token-of-the-executors-tests";

fn tls(name: &str) -> PathBuf {
    root().join("tests/common/tls").join(name)
}

/// An executor with a workspace of its own in the site.
struct Executor {
    live: Live,
    address: String,
}

impl Executor {
    fn start(site: &Site, listen: &str) -> Self {
        Self::start_with(site, listen, "off")
    }

    fn start_with(site: &Site, listen: &str, sandbox: &str) -> Self {
        for folder in ["workspace", "executor"] {
            std::fs::create_dir_all(site.path(folder)).unwrap();
        }
        std::fs::write(site.path("token"), format!("{TOKEN}\n")).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let mut command = site.command(&[
            "executor",
            "--listen",
            listen,
            "--tls-cert",
            &text(tls("executor-cert.pem")),
            "--tls-key",
            &text(tls("executor-key.pem")),
            "--token-file",
            &text(site.path("token")),
            "--workspace",
            &text(site.path("workspace")),
            "--sandbox",
            sandbox,
        ]);
        command.env("LEFTFOLD_HOME", site.path("executor")).env_remove("LEFTFOLD_CONFIG_CONTENT");
        let mut live = Live::start(command);
        let line = live.line().unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { live, address }
    }

    fn kill(self) -> String {
        self.live.signal(Signal::KILL);
        self.live.wait();
        self.address
    }
}

/// A site whose model gives these replies, and an executor that its settings name `build`.
fn site(replies: Value) -> (Site, Executor) {
    let site = Site::scripted(&script(replies));
    let executor = Executor::start(&site, "127.0.0.1:0");
    with(site, executor)
}

fn with(site: Site, executor: Executor) -> (Site, Executor) {
    let site = site.setting("/permission", json!({ "bash": "allow" }));
    let said = json!({
        "address": executor.address, "token": TOKEN, "ca": tls("executor-ca.pem"),
    });
    (site.setting("/executors", json!({ "build": said })), executor)
}

fn prompt(site: &Site) -> Live {
    site.start(&["run", "--executor", "build", "--format", "json", "go"])
}

fn text(site: &Site, name: &str) -> String {
    std::fs::read_to_string(site.path("workspace").join(name)).unwrap_or_default()
}

/// The id of the only session, which is not one of the project here.
fn session(site: &Site) -> String {
    site.session().file_name().unwrap().to_str().unwrap().to_owned()
}

/// The outcomes that the executor keeps.
fn kept(site: &Site) -> Vec<String> {
    let sessions = std::fs::read_dir(site.path("executor/executor/sessions"));
    let calls = sessions.into_iter().flatten().map(|it| it.unwrap().path().join("calls"));
    let files = calls.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    let texts = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default());
    texts.collect()
}

/// The last session, which verifies, and runs again to equal events.
fn sound(site: &Site) -> Vec<Value> {
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
    let mut events = site.exported();
    events.retain(|event| event["type"].is_string());
    events
}

#[test]
fn calls_run_in_the_workspace_of_the_executor() {
    let (site, executor) = site(json!([
        bash("pwd; cat a.txt; echo made > b.txt"),
        call("edit", json!({ "filePath": "a.txt", "oldString": "here", "newString": "there" })),
        call("grep", json!({ "pattern": "there" })),
        says("Done."),
        says("Again."),
    ]));
    let workspace = site.path("workspace");
    std::fs::write(workspace.join("AGENTS.md"), "Use tabs everywhere.\n").unwrap();
    std::fs::write(workspace.join("a.txt"), "it is here\n").unwrap();
    // settings there count for nobody
    std::fs::write(workspace.join("leftfold.json"), r#"{"permission":{"bash":"deny"}}"#).unwrap();
    let ran = prompt(&site).wait().ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    let outputs: Vec<_> = all(&ran.events(), "tool.finished")
        .iter()
        .map(|it| it["data"]["output"].to_string())
        .collect();
    assert!(outputs[0].contains(&format!("{}\\nit is here", workspace.display())), "{outputs:?}");
    assert!(outputs[2].contains("it is there"), "{outputs:?}");
    assert_eq!(
        (text(&site, "a.txt"), text(&site, "b.txt")),
        ("it is there\n".into(), "made\n".into())
    );
    assert_eq!(std::fs::read_dir(site.project()).unwrap().count(), 0);
    let log = site.run(&["export", "last"]).ok().stdout;
    assert!(log.contains("Use tabs everywhere."), "{log}");
    assert!(!log.contains(TOKEN) && !ran.stderr.contains(TOKEN));
    sound(&site);
    // the process may have ended before the executor knew that the log has the last one
    wait_until("the executor forgets the outcomes", || kept(&site).len() <= 1);
    site.run(&["run", "--session", &session(&site), "go on"]).ok();
    assert!(kept(&site).is_empty());
    drop(executor);
}

#[test]
fn a_wrong_token_and_a_wrong_certificate_are_refused() {
    let (site, executor) = site(json!([bash("echo made > b.txt"), says("Done.")]));
    let wrong = |key: &str, value: Value| {
        let mut said = json!({
            "address": executor.address, "token": TOKEN, "ca": tls("executor-ca.pem"),
        });
        said[key] = value;
        said.to_string()
    };
    for (said, why) in [
        (wrong("token", json!("another-token-than-this")), "the token is wrong"),
        (wrong("ca", json!(tls("cert.pem"))), "UnknownIssuer"),
        (wrong("address", json!("127.0.0.1:1")), "cannot be reached"),
        (wrong("token", json!("{env:NOT_SET_HERE}")), "NOT_SET_HERE"),
    ] {
        let mut command = site.command(&["run", "--executor", "build", "go"]);
        let settings = command.get_envs().find(|(name, _)| *name == "LEFTFOLD_CONFIG_CONTENT");
        let mut settings: Value =
            serde_json::from_str(settings.unwrap().1.unwrap().to_str().unwrap()).unwrap();
        settings["executors"]["build"] = serde_json::from_str(&said).unwrap();
        command.env("LEFTFOLD_CONFIG_CONTENT", settings.to_string());
        let ran = Live::start(command).wait();
        assert!(ran.code != 0 && ran.stderr.contains(why), "{why}: {ran:?}");
        assert!(!ran.stderr.contains("another-token-than-this"), "{ran:?}");
    }
    let ran = site.run(&["run", "--executor", "other", "go"]).with(2);
    assert!(ran.stderr.contains("your settings name build"), "{ran:?}");
    assert_eq!((text(&site, "b.txt"), site.sessions().len()), (String::new(), 0));
}

#[test]
fn the_settings_of_a_project_name_no_executor() {
    let (site, executor) = site(json!([says("Done.")]));
    let said = json!({ "executors": { "theirs": {
        "address": executor.address, "token": TOKEN, "ca": tls("executor-ca.pem"),
    } } });
    // not even if the user trusts them
    site.file("leftfold.json", said.to_string());
    let ran = site.run(&["run", "--executor", "theirs", "go"]).with(2);
    assert!(ran.stderr.contains("there is no executor `theirs`"), "{ran:?}");
}

#[test]
fn the_outcome_of_a_call_whose_node_was_killed_is_kept() {
    let (site, executor) = site(json!([
        bash("echo begun >> log; sleep 1; echo ended >> log; echo the result"),
        says("Done."),
        says("Again."),
    ]));
    let node = prompt(&site);
    wait_until("the command", || !text(&site, "log").is_empty());
    node.signal(Signal::KILL);
    node.wait();
    wait_until("the outcome", || kept(&site).iter().any(|it| it.contains("the result")));
    let ran = site.run(&["resume", &session(&site), "--format", "json"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    let events = sound(&site);
    let finished = only(&events, "tool.finished");
    assert_eq!(finished["data"]["output"], "the result\n");
    assert_eq!(finished["notes"]["recovered"], true);
    assert!(!kinds(&events).contains(&"tool.lost"));
    assert_eq!(text(&site, "log"), "begun\nended\n");
    // on a busy machine the process ends before the executor knows; the next one says it again
    if !kept(&site).is_empty() {
        site.run(&["run", "--session", &session(&site), "again"]).ok();
    }
    wait_until("the executor forgets the outcome", || kept(&site).is_empty());
    drop(executor);
}

#[test]
fn the_next_owner_ends_the_calls_of_a_node_that_was_killed() {
    let (site, executor) =
        site(json!([bash("echo begun >> log; sleep 600; echo lived >> log"), says("Done.")]));
    let node = prompt(&site);
    wait_until("the command", || !text(&site, "log").is_empty());
    let id = session(&site);
    node.signal(Signal::KILL);
    node.wait();
    assert!(!marked(&id).is_empty(), "the executor goes on with the command");
    let ran = site.run(&["resume", &session(&site), "--format", "json"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    assert_eq!(all(&sound(&site), "tool.lost").len(), 1);
    assert!(marked(&id).is_empty());
    assert_eq!((text(&site, "log").as_str(), kept(&site).len()), ("begun\n", 0));
    drop(executor);
}

#[test]
fn the_outcome_of_a_call_whose_executor_was_killed_is_unknown() {
    let (site, executor) = site(json!([bash("echo begun >> log; sleep 600"), says("Done.")]));
    let node = prompt(&site);
    wait_until("the command", || !text(&site, "log").is_empty());
    let address = executor.kill();
    let executor = Executor::start(&site, &address);
    let ran = node.wait().ok();
    assert_eq!(end(&ran.events())["reason"], "completed", "{ran:?}");
    let events = sound(&site);
    let finished = only(&events, "tool.finished");
    assert_eq!(finished["data"]["metadata"]["error_kind"], "lost");
    assert!(finished["data"]["output"].as_str().unwrap().contains("unknown"), "{finished}");
    assert_eq!(text(&site, "log"), "begun\n");
    assert!(marked(&session(&site)).is_empty(), "the command outlived its executor");
    drop(executor);
}

#[test]
fn a_session_waits_for_its_executor() {
    let (site, executor) = site(json!([bash("echo begun >> log; sleep 600"), says("Done.")]));
    let node = prompt(&site);
    wait_until("the command", || !text(&site, "log").is_empty());
    node.signal(Signal::KILL);
    node.wait();
    let address = executor.kill();
    let before = site.exported();
    let ran = site.run(&["resume", &session(&site)]).with(1);
    assert!(ran.stderr.contains("`build`") && ran.stderr.contains("cannot be reached"), "{ran:?}");
    assert_eq!(site.exported(), before);
    let why = site.run(&["why", &session(&site)]).ok().stdout;
    assert!(why.contains("the executor `build`") && why.contains("cannot be reached"), "{why}");
    let executor = Executor::start(&site, &address);
    let why = site.run(&["why", &session(&site)]).ok().stdout;
    assert!(!why.contains("cannot be reached"), "{why}");
    site.run(&["resume", &session(&site)]).ok();
    assert_eq!(all(&sound(&site), "tool.lost").len(), 1);
    std::thread::sleep(Duration::from_millis(10));
    drop(executor);
}

/// A command that runs in a namespace in which the host has this name. `None` if the machine allows no namespaces.
fn on_host(host: &str, command: &Command) -> Option<Command> {
    let probe = Command::new("unshare").args(["-Ur", "--uts", "hostname", host]).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        skipped("a host of another name: `unshare` may not make one");
        return None;
    }
    let mut there = Command::new("unshare");
    there.args(["-Ur", "--uts", "sh", "-c", "hostname \"$0\" && exec \"$@\"", host]);
    there.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => there.env(name, value),
            None => there.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        there.current_dir(folder);
    }
    Some(there)
}

/// A server with files of its own.
fn server(site: &Site, home: &str) -> Command {
    let mut command = site.command(&["serve", "--port", "0"]);
    command.env("LEFTFOLD_HOME", site.path(home));
    command
}

/// The command without the executors of its settings.
fn without_executors(mut command: Command) -> Command {
    let (_, settings) =
        command.get_envs().find(|(name, _)| *name == "LEFTFOLD_CONFIG_CONTENT").unwrap();
    let mut settings: Value = serde_json::from_str(settings.unwrap().to_str().unwrap()).unwrap();
    settings.as_object_mut().unwrap().remove("executors").unwrap();
    command.env("LEFTFOLD_CONFIG_CONTENT", settings.to_string());
    command
}

#[test]
fn a_node_of_another_host_that_knows_the_executor_goes_on() {
    let Some(cluster) = shared() else { return };
    let (site, executor) = site(json!([
        bash("echo begun >> log; sleep 1; echo ended >> log; echo the result"),
        says("Done."),
    ]));
    let site = site.env("LEFTFOLD_STORE", format!("{}&lease=2", url(cluster)));
    site.run(&["fleet", "init"]).ok();
    let started = |command| {
        let mut server = Live::start(command);
        server.line().unwrap();
        server
    };
    let unknowing = started(without_executors(server(&site, "unknowing")));
    let mut killed = prompt(&site);
    let begun = killed.until("tool.started");
    let session = begun["session"].as_str().unwrap().to_owned();
    wait_until("the command", || !text(&site, "log").is_empty());
    killed.signal(Signal::KILL);
    killed.wait();
    wait_until("the end of the lease", || {
        !site.run(&["why", &session]).ok().stdout.contains("owner: host")
    });
    let why = site.run(&["why", &session]).ok();
    assert!(why.stdout.contains("a node whose settings name the executor `build`"), "{why:?}");
    let status = site.run(&["fleet", "status", "--format", "json"]).ok().events().remove(0);
    assert_eq!(status["waiting_at"], json!({ "executor:build": 1 }), "{status}");
    let before = site.run(&["export", &session]).ok().stdout;
    // for longer than a node waits before it takes over
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(site.run(&["export", &session]).ok().stdout, before, "the node without it took it");
    let far = server(&site, "far");
    let far = started(on_host("elsewhere", &far).unwrap_or(far));
    let mut events = Vec::new();
    wait_until("the end of the turn", || {
        events = site.run(&["export", &session]).ok().events();
        kinds(&events).contains(&"turn.ended")
    });
    assert_eq!(end(&events)["reason"], "completed");
    assert_eq!(all(&events, "session.resumed").len(), 1);
    assert_eq!(only(&events, "tool.finished")["notes"]["recovered"], true);
    assert_eq!(text(&site, "log"), "begun\nended\n");
    for command in ["check", "verify"] {
        site.run(&[command, &session]).ok();
    }
    drop((far, unknowing, executor));
}

#[test]
fn files_at_an_executor_are_shown_and_reverted() {
    let edit = json!({ "filePath": "a.txt", "oldString": "here", "newString": "there" });
    let (site, executor) =
        site(json!([call("edit", edit), bash("echo made > b.txt"), says("Done.")]));
    let site = site.setting("/snapshot", json!(true));
    std::fs::write(site.path("workspace/a.txt"), "it is here\n").unwrap();
    let events = prompt(&site).wait().ok().events();
    assert_eq!(end(&events)["reason"], "completed");
    assert_eq!(all(&events, "files.snapshotted").len(), 4, "{events:#?}");
    sound(&site);
    let id = session(&site);
    let diff = site.run(&["diff", &id]).ok().stdout;
    for line in ["-it is here", "+it is there", "b.txt", "+made"] {
        assert!(diff.contains(line), "{diff}");
    }
    // they are kept beside the workspace alone
    assert!(site.path("executor/executor/snapshots").is_dir());
    assert!(!site.path("home").join("snapshots").exists());
    let files = || (text(&site, "a.txt"), text(&site, "b.txt"));
    site.run(&["revert", &id, "--to", "3"]).ok();
    assert_eq!(files(), ("it is here\n".into(), String::new()));
    site.run(&["unrevert", &id]).ok();
    assert_eq!(files(), ("it is there\n".into(), "made\n".into()));
    site.assert_sound();
    let address = executor.kill();
    let diff = site.run(&["diff", &id]);
    assert!(format!("{diff:?}").contains("cannot be reached"), "{diff:?}");
    drop(Executor::start(&site, &address));
}

#[test]
fn a_command_in_the_sandbox_of_an_executor_sees_no_secrets_of_it() {
    let key = tls("executor-key.pem");
    let probe = format!(
        "cat ../token; cat {}; find ../executor -type f; echo x > ../executor/forged; echo x > ../outside; \
         echo inside > made; true",
        key.display()
    );
    let site = Site::scripted(&script(json!([bash("sh probe.sh"), says("Done.")])));
    let executor = Executor::start_with(&site, "127.0.0.1:0", "on");
    std::fs::write(site.path("workspace/probe.sh"), probe).unwrap();
    let (site, executor) = with(site, executor);
    let ran = prompt(&site).wait().ok();
    let events = ran.events();
    let backend = &only(&events, "tool.started")["data"]["sandbox"]["backend"];
    if backend.is_null() || backend == "none" {
        return skipped(&format!("the sandbox of an executor: {}", ran.stderr));
    }
    let output = only(&events, "tool.finished")["data"]["output"].as_str().unwrap().to_owned();
    let begin = std::fs::read_to_string(&key).unwrap();
    let begin = begin.lines().nth(1).unwrap();
    assert!(!output.contains(TOKEN) && !output.contains(begin), "{output}");
    // the state, with the calls that have begun
    assert!(!output.contains("calls/"), "{output}");
    for path in ["outside", "executor/forged"] {
        assert!(!site.path(path).exists(), "{path}: {output}");
    }
    assert_eq!(text(&site, "made"), "inside\n", "{output}");
    drop(executor);
}

#[test]
fn a_server_begins_sessions_at_its_executor() {
    let Some(cluster) = shared() else { return };
    let (site, executor) = site(json!([bash("pwd > where"), says("Done.")]));
    let site = site.env("LEFTFOLD_STORE", url(cluster));
    site.run(&["fleet", "init"]).ok();
    let serve = |home| {
        let mut command = server(&site, home);
        command.args(["--executor", "build"]);
        Served::from_command(command)
    };
    let (one, other) = (serve("one"), serve("other"));
    let workspace = site.path("workspace");
    // as a client that knows only what the server has said
    let directory = one.get("/path").ok()["directory"].as_str().unwrap().to_owned();
    assert_eq!(directory, workspace.to_str().unwrap());
    let begun = one.post(&format!("/session?directory={directory}"), json!({})).ok();
    assert_eq!(begun["directory"], *directory);
    let id = begun["id"].as_str().unwrap().to_owned();
    // its log has no turn yet, and another node runs the first one
    one.end();
    let answer = other.prompt(&id, "go");
    assert!(answer["parts"].to_string().contains("Done."), "{answer}");
    assert_eq!(text(&site, "where").trim(), directory);
    assert_eq!(std::fs::read_dir(site.project()).unwrap().count(), 0);
    let events = sound(&site);
    assert_eq!(only(&events, "session.created")["notes"]["executor"], "build");
    other.end();
    drop(executor);
    let without = site.run(&["serve", "--port", "0", "--executor", "other"]).with(2);
    assert!(without.stderr.contains("your settings name build"), "{without:?}");
    site.run(&["serve", "--port", "0", "--executor", "build"])
        .with(1)
        .saying(&["cannot be reached"]);
}
