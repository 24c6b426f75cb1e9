//! `leftfold stats` and `leftfold sessions prune` over all sessions.

use common::{Live, Site, asking, bash, says, script};
use serde_json::{Value, json};

fn stats(site: &Site, args: &[&str]) -> Value {
    let ran = site.run(&[&["stats", "--format", "json"], args].concat());
    serde_json::from_str(&ran.ok().stdout).unwrap()
}

#[test]
fn tokens_and_calls_are_counted_by_day_model_project_and_tool() {
    let usage = json!({ "input": 100, "output": 10 });
    let site = Site::scripted(&script(json!([
        { "parts": [{ "call": { "name": "bash", "input": { "command": "exit 3" } } }], "usage": usage },
        { "parts": [{ "text": "Done." }], "usage": usage },
    ])));
    assert_eq!(stats(&site, &[])["sessions"], 0);
    site.prompt("go").ok();
    site.prompt("again").ok();
    let all = stats(&site, &["--days", "1", "--project"]);
    assert_eq!((&all["sessions"], &all["turns"]), (&json!(2), &json!(2)));
    assert_eq!(
        (&all["total"]["requests"], &all["total"]["usage"]["input"]),
        (&json!(4), &json!(400))
    );
    let bash = &all["tools"]["bash"];
    assert_eq!(
        (&bash["calls"], &bash["errors"], &bash["failed"]),
        (&json!(2), &json!(0), &json!(2))
    );
    assert!(bash["ms"].as_u64() >= bash["longest_ms"].as_u64());
    for group in ["days", "models", "projects"] {
        let group = all[group].as_object().unwrap();
        assert_eq!(group.len(), 1, "{group:?}");
        assert!(group.values().all(|spent| spent["requests"] == 4), "{group:?}");
    }
    assert_eq!(all["messages"], 6);
    // the shared part of a fork is counted once
    site.run(&["fork", "last"]).ok();
    let forked = stats(&site, &[]);
    assert_eq!((&forked["sessions"], &forked["turns"]), (&json!(3), &json!(2)));
    assert_eq!((&forked["total"], &forked["tools"]), (&all["total"], &all["tools"]));
    let text = site.run(&["stats"]).ok().stdout;
    for part in [
        "3 sessions, 2 turns, 6 messages, 4 requests, 400 tokens in, 40 out",
        "by model",
        "bash  2 calls  0 errors  2 with an exit code other than 0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn one_project_and_the_most_called_tools_are_counted_alone() {
    let call = |name: &str, key: &str, value: &str| json!({ "call": { "name": name, "input": { key: value } } });
    let calls = [
        call("bash", "command", "true"),
        call("glob", "pattern", "a*"),
        call("glob", "pattern", "b*"),
        call("glob", "pattern", "c*"),
        call("grep", "pattern", "x"),
        call("grep", "pattern", "y"),
    ];
    let site = Site::scripted(&script(json!([{ "parts": calls }, says("Done.")])));
    site.prompt("go").ok();
    let other = site.path("project/other");
    std::fs::create_dir_all(other.join(".git")).unwrap();
    let there = |args: &[&str]| {
        let mut command = site.command(args);
        command.current_dir(&other);
        Live::start(command).wait()
    };
    there(&["run", "go"]).ok();
    assert_eq!(stats(&site, &[])["sessions"], 2);
    let path = other.display().to_string();
    for name in ["other", &path, "./other"] {
        let one = stats(&site, &["--project", name]);
        assert_eq!(
            (&one["sessions"], &one["tools"]["glob"]["calls"]),
            (&json!(1), &json!(3)),
            "{name}"
        );
        assert_eq!(one["projects"].as_object().unwrap().keys().collect::<Vec<_>>(), [&path]);
    }
    let current = there(&["stats", "--project", "--format", "json"]).ok().stdout;
    assert!(current.contains(&path) && current.contains(r#""sessions":1"#), "{current}");
    let why = "no session belongs to a project `othr`";
    site.run(&["stats", "--project", "othr"]).with(2).saying(&[why, &path]);
    for (most, expected) in
        [("0", &[][..]), ("2", &["glob", "grep"]), ("9", &["bash", "glob", "grep"])]
    {
        let found = stats(&site, &["--tools", most]);
        let names: Vec<&String> = found["tools"].as_object().unwrap().keys().collect();
        assert_eq!(names, expected, "{most}");
    }
    let text = site.run(&["stats", "--tools", "2"]).ok().stdout;
    let (_, tools) = text.split_once("by tool\n").unwrap();
    let names: Vec<&str> =
        tools.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["glob", "grep"]);
}

#[test]
fn the_longest_at_rest_go_first_and_a_running_one_stays() {
    let site = Site::scripted(&script(json!([bash("true"), says("Done.")])));
    for prompt in ["one", "two", "three"] {
        site.prompt(prompt).ok();
    }
    let ids = |site: &Site| -> Vec<String> {
        let list = site.run(&["sessions", "list", "--format", "json"]).ok().stdout;
        let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].to_string();
        list.lines().map(id).collect()
    };
    let before = ids(&site);
    assert_eq!(before.len(), 3);
    site.run(&["sessions", "prune"]).with(2).saying(&["--older-than"]);
    let young = site.run(&["sessions", "prune", "--older-than", "1"]).ok().stdout;
    assert_eq!(young, "0 bytes freed\n");
    // room for all sessions but one, by the command's own sizes
    let dry = site.run(&["sessions", "prune", "--max-size", "0", "--dry-run"]).ok().stdout;
    assert_eq!(ids(&site), before);
    let sizes: Vec<u64> =
        dry.lines().take(3).map(|l| l.split(' ').nth(4).unwrap().parse().unwrap()).collect();
    let most = (sizes[1] + sizes[2]).to_string();
    site.run(&["sessions", "prune", "--max-size", &most]).ok();
    assert_eq!(ids(&site), before[..2]);
}

#[test]
fn a_session_in_use_is_not_pruned() {
    let site = asking();
    let mut live = site.start(&common::ASK);
    live.until("permission.asked");
    let freed = site.run(&["sessions", "prune", "--max-size", "0"]).ok().stdout;
    assert_eq!(freed, "0 bytes freed\n");
    assert_eq!(site.sessions().len(), 1);
    site.run(&["permission", "answer", "last", "call_1_1", "once"]).ok();
    live.wait().ok();
}
