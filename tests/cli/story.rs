//! The story in the README: a run claims success and has failed, and its log shows why.

use std::path::Path;
use std::process::{Command, Output};

use common::{Live, Ran, Site, all, end};
use serde_json::{Value, json};

fn tests_of(project: &Path) -> Output {
    Command::new("sh").arg("test.sh").current_dir(project).output().unwrap()
}

fn in_project(site: &Site, project: &Path, args: &[&str]) -> Ran {
    let mut command = site.command(args);
    command.current_dir(project);
    Live::start(command).wait()
}

#[test]
fn a_failed_run_is_understood_by_replay_explain_and_fork() {
    let site = Site::bare().setting("permission", json!({ "edit": "deny" }));
    let project = site.path("demo");
    let said = site.run(&["demo", "--directory", project.to_str().unwrap()]).ok();
    assert!(said.stdout.contains("All four tests pass."));
    assert!(!tests_of(&project).status.success(), "it was not repaired");

    // the result of the edit
    let replay = in_project(&site, &project, &["replay", "last", "--tool", "edit"]).ok();
    let ruled = replay.stdout.lines().find(|line| line.contains("permission.ruled")).unwrap();
    assert!(ruled.contains("deny by edit"), "{ruled}");

    // the result that the model saw
    let events = in_project(&site, &project, &["export", "last"]).ok().events();
    let denied = all(&events, "permission.ruled");
    let denied = denied.into_iter().find(|event| event["data"]["action"] == "deny").unwrap();
    let requests = all(&events, "model.requested");
    let seq = |event: &Value| event["seq"].as_u64().unwrap();
    let next = requests.iter().find(|request| seq(request) > seq(denied)).unwrap();
    let explain = in_project(&site, &project, &["explain", "last", &seq(next).to_string()]).ok();
    assert!(explain.stdout.contains("Permission denied: edit on slug.sh"), "{}", explain.stdout);

    // run again from before the edit, without the rule
    let before = requests.iter().rfind(|request| seq(request) < seq(denied)).unwrap();
    let at = (seq(before) - 1).to_string();
    let site = site.setting("permission", json!({}));
    let args = ["fork", "last", "--at", &at, "--format", "json", "Repair it."];
    let fork = in_project(&site, &project, &args).ok().events();
    assert_eq!(end(&fork)["reason"], "completed");
    assert!(tests_of(&project).status.success());
}
