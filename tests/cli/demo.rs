//! `leftfold demo`: a tour without a key that repairs a real project.

use common::{Live, Site, all, end};
use serde_json::Value;

fn exits(finished: &[&Value], command: &str) -> Vec<Value> {
    let test = finished.iter().filter(|event| event["data"]["title"] == command);
    test.map(|event| event["data"]["metadata"]["exit"].clone()).collect()
}

#[test]
fn the_tests_go_red_and_then_green_and_the_replay_works() {
    let site = Site::bare();
    let ran = site.run(&["demo"]).ok();
    assert!(ran.stdout.contains("All four tests pass"), "{ran:?}");
    // the command that it names works from the caller's folder
    let command = ran.stderr.lines().find(|line| line.contains(" replay ")).unwrap();
    let command = command.split_once("log:").unwrap().1.trim();
    let mut replay = std::process::Command::new("sh");
    let like = site.command(&[]);
    replay.args(["-c", command]).env_clear().current_dir(site.project());
    replay.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let replayed = Live::start(replay).wait().ok().stdout;
    assert!(replayed.contains("completed after 5 steps"), "{replayed}");
    // the project is kept and named, and its tests pass
    let kept = ran.stderr.lines().find(|line| line.contains("is kept in ")).unwrap();
    let folder = kept.split_once("is kept in ").unwrap().1;
    let test =
        std::process::Command::new("sh").arg("test.sh").current_dir(folder).output().unwrap();
    assert!(test.status.success(), "{test:?}");
}

#[test]
fn the_files_are_really_read_and_edited() {
    let site = Site::bare();
    let directory = site.path("tour");
    let args = ["demo", "--format", "json", "--directory", directory.to_str().unwrap()];
    let events = site.run(&args).ok().events();
    assert_eq!(end(&events)["reason"], "completed");
    let finished = all(&events, "tool.finished");
    let exits = exits(&finished, "Run the tests");
    assert_eq!(exits.len(), 2);
    assert!(exits[0] != 0 && exits[1] == 0, "{exits:?}");
    let edit = all(&events, "tool.started").into_iter().find(|e| e["data"]["name"] == "edit");
    assert_eq!(edit.unwrap()["data"]["class"], "write");
    let repaired = std::fs::read_to_string(directory.join("slug.sh")).unwrap();
    assert!(repaired.contains("tr -cs"), "{repaired}");
    assert!(!all(&events, "model.streamed").is_empty());
    let session = events[0]["session"].as_str().unwrap();
    for command in ["check", "verify"] {
        site.run(&[command, session]).ok();
    }
    // a second tour does not touch the project of the first
    site.run(&args).with(2).saying(&[directory.to_str().unwrap()]);
}
