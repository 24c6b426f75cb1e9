//! Questions answered from outside, the effect of "always", and `permission check`.

use common::{ASK, Live, Site, all, asking, bash, call, end, only, says, script};
use rustix::process::Signal;
use serde_json::{Value, json};

fn waiting(site: &Site, args: &[&str]) -> (Live, String) {
    let mut live = site.start(args);
    let asked = live.until("permission.asked");
    (live, asked["seq"].to_string())
}

#[test]
fn the_first_answer_counts_and_the_next_is_told_who_gave_it() {
    let site = asking();
    let (live, seq) = waiting(&site, &ASK);
    let answer = |call: &str| site.run(&["permission", "answer", "last", call, "once"]);
    answer("nonsense").with(1).saying(&["call `nonsense` has no open question"]);
    answer(&seq).ok();
    let events = live.wait().ok().events();
    let by = only(&events, "permission.answered")["data"]["by"].as_str().unwrap();
    assert!(by.starts_with("leftfold permission answer (pid "), "{by}");
    // by the seq, and by the model's call id
    answer(&seq).with(1).saying(&["already answered by", by]);
    answer("call_1_1").with(1).saying(&["already answered by", by]);
    answer("nonsense").with(1).saying(&["no node runs", "leftfold resume"]);
    assert_eq!(end(&events)["permission_denials"], json!([]));
}

#[test]
fn a_rejection_with_feedback_is_told_to_the_model() {
    for (feedback, code, reason) in [(Some("use git"), 0, "completed"), (None, 3, "blocked")] {
        let site = asking();
        let (live, seq) = waiting(&site, &ASK);
        let mut args = vec!["permission", "answer", "last", &seq, "reject"];
        args.extend(feedback.iter().flat_map(|text| ["--feedback", text]));
        site.run(&args).ok();
        let events = live.wait().with(code).events();
        assert_eq!(end(&events)["reason"], reason);
        assert_eq!(only(&events, "permission.answered")["data"]["feedback"], json!(feedback));
        assert!(all(&events, "tool.started").is_empty());
    }
}

#[test]
fn a_pending_question_survives_a_kill_and_is_answered_after_the_resume() {
    let site = asking();
    let (live, seq) = waiting(&site, &ASK);
    live.signal(Signal::KILL);
    live.wait();
    let answer = ["permission", "answer", "last", &seq, "once"];
    site.run(&answer).with(1).saying(&["no node runs", "leftfold resume"]);
    let resume = ["resume", "last", "--format", "json", "--permission-mode", "ask"];
    let mut live = site.start(&resume);
    live.until("session.resumed");
    site.run(&answer).ok();
    assert_eq!(end(&live.wait().ok().events())["reason"], "completed");
    let events = site.exported();
    assert_eq!(all(&events, "permission.asked").len(), 1);
    assert_eq!(only(&events, "permission.answered")["of"].to_string(), seq);
    assert_eq!(all(&events, "tool.finished").len(), 1);
    site.assert_sound();
}

#[test]
fn an_always_may_name_its_pattern_and_a_wrong_one_leaves_the_question_open() {
    let replies =
        json!([bash("cargo test a"), says("Tested."), bash("cargo test b"), says("Yes.")]);
    let site = Site::scripted(&script(replies))
        .setting("/permission/bash", json!({ "*": "ask", "cargo publish *": "deny" }));
    let (live, seq) = waiting(&site, &ASK);
    let answer = |reply: &str, pattern: &str| {
        site.run(&["permission", "answer", "last", &seq, reply, "--pattern", pattern])
    };
    for (reply, pattern, why) in [
        ("always", "cargo build *", "`cargo build *` does not match `cargo test a`"),
        ("always", "cargo *", "would also allow `cargo publish *`, which a rule denies"),
        ("always", " ", "there is no pattern to allow"),
        ("once", "cargo test *", "only an answer `always` takes patterns"),
    ] {
        answer(reply, pattern).with(2).saying(&["the question is still open", why]);
    }
    let why = site.run(&["why", "last"]).ok().stdout;
    assert!(why.contains("`always` allows bash: cargo test *"), "{why}");
    answer("always", "cargo t*").ok();
    let events = live.wait().ok().events();
    let answered = &only(&events, "permission.answered")["data"];
    assert_eq!(answered["always"], json!(["cargo t*"]));
    assert_eq!(answered["reply"], "always");
    let listed = site.run(&["permission", "list"]).ok().stdout;
    assert!(listed.ends_with(" bash: cargo t*\n"), "{listed}");
    let replayed = site.run(&["replay", "last", "--type", "permission.*"]).ok().stdout;
    assert!(replayed.contains("for `cargo t*`"), "{replayed}");
    // another session of the project asks no more
    assert_eq!(verdict(&site), "allow");
    site.assert_sound();
    site.run(&["rerun", "last"]).ok();
}

/// Runs a turn whose question is answered with "always".
fn approve(site: &Site) {
    let (live, seq) = waiting(site, &ASK);
    site.run(&["permission", "answer", "last", &seq, "always"]).ok();
    live.wait().ok();
}

fn memory(site: &Site) -> std::path::PathBuf {
    let projects = std::fs::read_dir(site.path("home/projects")).unwrap();
    let folders: Vec<_> = projects.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let files = std::fs::read_dir(&folders[0]).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "json")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// The verdict in a new session of the same project.
fn verdict(site: &Site) -> String {
    let events = site.prompt("again").ok().events();
    only(&events, "permission.ruled")["data"]["action"].as_str().unwrap().to_owned()
}

#[test]
fn always_is_remembered_for_the_project_and_never_beats_a_deny() {
    let site = asking();
    assert_eq!(verdict(&site), "deny", "nobody is there to be asked");
    approve(&site);
    let rules: Value = serde_json::from_slice(&std::fs::read(memory(&site)).unwrap()).unwrap();
    assert_eq!(rules, json!([{ "permission": "read", "pattern": ".env", "action": "allow" }]));
    assert_eq!(verdict(&site), "allow");
    let why = site.run(&["why", "last"]).ok().stdout;
    assert!(
        why.contains("ran without a question: “always” in another session (allow read `.env`)"),
        "{why}"
    );
    site.assert_sound();
    // the approval is in the log, so deleting it later changes no replay
    std::fs::remove_file(memory(&site)).unwrap();
    site.assert_sound();
    assert_eq!(verdict(&site), "deny");
    approve(&site);
    let site = site.setting("permission", json!({ "read": { "*.env": "deny" } }));
    assert_eq!(verdict(&site), "deny");
}

/// The verdict on the next prompt of the last session.
fn next_verdict(site: &Site) -> String {
    let ran = site.run(&["run", "--continue", "--format", "json", "again"]).ok();
    only(&ran.events(), "permission.ruled")["data"]["action"].as_str().unwrap().to_owned()
}

#[test]
fn an_always_is_listed_and_taken_back_also_from_the_session_that_gave_it() {
    let read = call("read", json!({ "filePath": ".env" }));
    let replies: Vec<Value> = (0..4).flat_map(|_| [read.clone(), says("Read.")]).collect();
    let site = Site::scripted(&script(json!(replies)));
    std::fs::write(site.project().join(".env"), "A=1\n").unwrap();
    site.run(&["permission", "list"]).ok();
    site.run(&["permission", "forget", "01234567"]).with(2).saying(&["permission list"]);
    approve(&site);
    assert_eq!(next_verdict(&site), "allow");
    let listed = site.run(&["permission", "list", "--format", "json"]).ok().stdout;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let id = listed["id"].as_str().unwrap();
    assert_eq!(id.len(), 8);
    assert_eq!(listed, json!({ "id": id, "permission": "read", "pattern": ".env" }));
    let text = site.run(&["permission", "list"]).ok().stdout;
    assert_eq!(text, format!("{id} read: .env\n"));

    let check = |site: &Site| -> Value {
        let ran = site.run(&["permission", "check", "read", ".env"]).ok();
        serde_json::from_str(&ran.stdout).unwrap()
    };
    let rule = json!({ "permission": "read", "pattern": ".env", "action": "allow" });
    assert_eq!(check(&site), json!({ "action": "allow", "rule": rule, "approved": true }));
    let config = site.run(&["config", "permission", "--format", "json"]).ok().stdout;
    let config: Value = serde_json::from_str(&config).unwrap();
    let last = config["values"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["source"], &last["rule"]), (&json!("approved"), &rule));
    let doctor = |site: &Site| site.run(&["doctor"]).stdout;
    assert!(doctor(&site).contains("1 in this project: `leftfold permission list`"));

    site.run(&["permission", "forget", id]).ok().stdout.contains("asks again: read: .env");
    assert_eq!(site.run(&["permission", "list"]).ok().stdout, "");
    assert_eq!((&check(&site)["action"], &check(&site)["approved"]), (&json!("ask"), &Value::Null));
    assert!(doctor(&site).contains("`always` has allowed nothing"));
    // the session's own answer counts no longer
    assert_eq!(next_verdict(&site), "deny");
    assert_eq!(verdict(&site), "deny");
    site.assert_sound();
    // a later "always" counts again, at once and from then on
    approve(&site);
    assert_eq!(next_verdict(&site), "allow");
    assert_eq!(verdict(&site), "allow");
    site.run(&["permission", "forget", "--all"]).ok();
    assert_eq!(verdict(&site), "deny");
    site.assert_sound();
}

#[test]
fn another_project_is_asked_again() {
    let site = asking();
    approve(&site);
    std::fs::create_dir(site.path("other")).unwrap();
    std::fs::write(site.path("other/.env"), "A=1\n").unwrap();
    let mut command = site.command(&["run", "--format", "json", "go"]);
    command.current_dir(site.path("other"));
    let events = Live::start(command).wait().ok().events();
    assert_eq!(only(&events, "permission.ruled")["data"]["action"], "deny");
}

#[test]
fn another_repository_at_the_same_path_has_no_approvals() {
    let site = asking();
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    approve(&site);
    assert_eq!(verdict(&site), "allow");
    // the new one is made first, so that it has another inode
    std::fs::rename(site.project().join(".git"), site.path("old")).unwrap();
    site.file(".git/HEAD", "ref: refs/heads/main\n");
    assert_eq!(verdict(&site), "deny");
    assert_eq!(site.run(&["permission", "list"]).ok().stdout, "");
    std::fs::remove_dir_all(site.project().join(".git")).unwrap();
    std::fs::rename(site.path("old"), site.project().join(".git")).unwrap();
    assert_eq!(verdict(&site), "allow");
}

#[test]
fn once_is_not_remembered() {
    let site = asking();
    let (live, seq) = waiting(&site, &ASK);
    site.run(&["permission", "answer", "last", &seq, "once"]).ok();
    live.wait().ok();
    assert!(!common::exists(&site.path("home/projects")));
}

#[test]
fn a_memory_that_can_not_be_read_is_named_kept_and_asks_again() {
    let site = asking();
    approve(&site);
    std::fs::write(memory(&site), "[{]").unwrap();
    let ran = site.prompt("again").ok().saying(&["approved-", "line 1", "repair or remove"]);
    assert_eq!(only(&ran.events(), "permission.ruled")["data"]["action"], "deny");
    approve(&site);
    assert_eq!(std::fs::read_to_string(memory(&site)).unwrap(), "[{]");
}

#[test]
fn approvals_of_sessions_that_run_at_once_are_all_remembered() {
    let sites = asking();
    let start = |args: &[&str]| waiting(&sites, args);
    let running: Vec<(Live, String)> = (0..4).map(|_| start(&ASK)).collect();
    for (live, seq) in &running {
        let first: Value = serde_json::from_str(live.seen.lines().next().unwrap()).unwrap();
        let session = first["session"].as_str().unwrap();
        sites.run(&["permission", "answer", session, seq, "always"]).ok();
    }
    running.into_iter().for_each(|(live, _)| drop(live.wait().ok()));
    let rules: Value = serde_json::from_slice(&std::fs::read(memory(&sites)).unwrap()).unwrap();
    assert_eq!(rules.as_array().unwrap().len(), 1, "{rules}");
}

#[test]
fn check_says_what_the_rules_say() {
    let site = Site::bare()
        .setting("permission", json!({ "bash": { "*": "ask", "git *": "allow" } }))
        .setting("agent", json!({ "plan": { "permission": { "edit": "deny" } } }));
    let rules = |rules: Value| rules.to_string();
    let (two, none) = (
        rules(json!([
            { "permission": "*", "pattern": "*", "action": "allow" },
            { "permission": "bash", "pattern": "rm *", "action": "deny" },
        ])),
        rules(json!([])),
    );
    for (args, action, pattern) in [
        (&["read", "src/main.rs"][..], "allow", Some("*")),
        (&["read", "x/.env"], "ask", Some("*.env")),
        (&["bash", "ls"], "ask", Some("*")),
        (&["bash", "git"], "allow", Some("git *")),
        (&["edit", "a"], "allow", Some("*")),
        (&["--agent", "plan", "edit", "a"], "deny", Some("*")),
        (&["issues_create", "*"], "allow", Some("*")),
        (&["--agent", "plan", "issues_create", "*"], "ask", Some("*")),
        // a line is judged as a run does
        (&["--rules", &two, "bash", "env rm x"], "deny", Some("rm *")),
        (&["--rules", &two, "bash", "echo $(rm x)"], "deny", Some("rm *")),
        (&["--rules", &two, "bash", "$t x"], "ask", Some("rm *")),
        (&["--rules", &two, "bash", "ls | sort"], "allow", Some("*")),
        (&["--rules", &two, "bash", "rm -rf /"], "deny", Some("rm *")),
        (&["--rules", &two, "bash", "git log"], "allow", Some("*")),
        (&["--rules", &none, "read", "a"], "ask", None),
    ] {
        // people get words
        let words = [&["permission", "check", "--format", "text"], args].concat();
        let said = match action {
            "allow" => "\n  allowed: ",
            "ask" => "\n  ask: ",
            _ => "\n  denied: ",
        };
        assert!(site.run(&words).ok().stdout.contains(said), "{args:?}");
        let ran = site.run(&[&["permission", "check"], args].concat()).ok();
        let verdict: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(verdict["action"], action, "{args:?}");
        assert_eq!(verdict["rule"]["pattern"].as_str(), pattern, "{args:?}");
    }
    for (args, part) in [
        (&["--rules", "[{}]", "a", "b"][..], "permission"),
        (&["--rules", "{", "a", "b"], "--rules"),
        (&["--agent", "nobody", "a", "b"], "no agent `nobody`"),
    ] {
        site.run(&[&["permission", "check"], args].concat()).with(2).saying(&[part]);
    }
}
