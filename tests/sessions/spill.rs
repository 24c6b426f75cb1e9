//! Full texts of long outputs are deleted after a week; the log keeps its part.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use common::{Site, bash, only, says, script};
use serde_json::json;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn age(path: &Path, days: u32) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - DAY * days).unwrap();
}

/// A session with one long output, and the file with its full text.
fn session() -> (Site, PathBuf) {
    let turn = json!([bash("seq 1 5000"), says("Done."), says("Again.")]);
    let site = Site::scripted(&script(&turn));
    let events = site.prompt("go").ok().events();
    let spill = &only(&events, "tool.finished")["data"]["spill"]["path"];
    let spill = PathBuf::from(spill.as_str().unwrap());
    assert!(spill.starts_with(site.session().join("spill")), "{}", spill.display());
    (site, spill)
}

#[test]
fn a_session_that_is_opened_drops_what_is_older_than_a_week() {
    let (site, spill) = session();
    let other = site.path("home/sessions/other/spill/call.txt");
    std::fs::create_dir_all(other.parent().unwrap()).unwrap();
    std::fs::write(&other, "of another session").unwrap();
    age(&other, 30);
    age(&spill, 6);
    site.run(&["run", "--continue", "on"]).ok();
    assert!(spill.exists(), "it is younger than a week");
    age(&spill, 8);
    site.run(&["export", "last"]).ok();
    site.run(&["check", "last"]).ok();
    assert!(spill.exists(), "whoever only looks changes nothing");
    site.run(&["run", "--continue", "on"]);
    assert!(!spill.exists());
    assert!(other.exists(), "it belongs to another session");
    let check = site.run(&["check", "last"]).ok();
    assert!(format!("{check:?}").contains("pruned"), "{check:?}");
    site.assert_sound();
}

#[test]
fn tools_without_a_session_keep_theirs_for_a_week_too() {
    let site = Site::bare();
    let run = || site.run(&["tool", "bash", "--args", r#"{"command":"seq 1 5000"}"#]).ok();
    run();
    let folder = site.path("home/spill");
    let names = || std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let first: Vec<PathBuf> = names().collect();
    assert_eq!(first.len(), 1);
    age(&first[0], 8);
    run();
    let second: Vec<PathBuf> = names().collect();
    assert_eq!(second.len(), 1, "{second:?}");
    let written = second[0].metadata().unwrap().modified().unwrap();
    assert!(written > SystemTime::now() - DAY, "{written:?}");
}
