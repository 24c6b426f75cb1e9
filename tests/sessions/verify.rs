//! `verify`: compares each log with today's decisions; an unreadable log among others.

use common::{Site, bash, kind, says, script};
use leftfold_events::POLICY;
use serde_json::{Value, json};

/// The last session's export with each event changed, imported into a home of its own.
fn changed(site: &Site, change: impl Fn(&mut Value)) -> (Site, String) {
    let lines = site.run(&["export", "last"]).ok().stdout;
    let lines = lines.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        change(&mut event);
        event.to_string() + "\n"
    });
    let other = Site::bare();
    let file = other.file("log.jsonl", lines.collect::<String>());
    let id = other.run(&["import", file.to_str().unwrap()]).ok().stdout.trim().to_owned();
    (other, id)
}

fn one() -> Site {
    let site = Site::scripted(&script(json!([bash("true"), says("Done.")])));
    site.prompt("go").ok();
    site
}

#[test]
fn another_policy_is_named_with_todays() {
    let site = one();
    let older = |event: &mut Value| {
        if kind(event) == "session.created" {
            event["data"]["policy"] = json!(POLICY - 1);
        }
    };
    let (other, id) = changed(&site, older);
    let same = other.run(&["verify", &id]).ok().stdout;
    let both = format!("written under policy {}, verified under {POLICY}", POLICY - 1);
    assert!(same.contains(&both), "{same}");
    let (other, id) = changed(&site, |event| {
        older(event);
        if kind(event) == "permission.ruled" {
            event["data"]["action"] = json!("deny");
        }
    });
    for command in ["verify", "rerun"] {
        let text = other.run(&[command, &id]).with(1).stdout;
        let both = format!("written under policy {}, compared under policy {POLICY}", POLICY - 1);
        assert!(text.contains(&both) && text.contains("data.action"), "{command}: {text}");
        let json = other.run(&[command, "--format", "json", &id]).with(1).stdout;
        let line: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(line["policy"], json!({ "log": POLICY - 1, "now": POLICY }), "{command}");
    }
}

#[test]
fn a_log_that_can_not_be_read_keeps_no_other_from_being_looked_at() {
    let site = one();
    for _ in 0..2 {
        site.prompt("go").ok();
    }
    let mut folders = site.sessions();
    folders.sort();
    let ids: Vec<&str> = folders.iter().map(|f| f.file_name().unwrap().to_str().unwrap()).collect();
    std::fs::write(folders[1].join("db"), "this is no database").unwrap();
    for command in ["verify", "rerun"] {
        let ran = site.run(&[&[command], &ids[..]].concat()).with(1).saying(&[ids[1]]);
        assert!(!ran.stdout.contains(ids[1]), "{ran:?}");
        for well in [ids[0], ids[2]] {
            assert!(ran.stdout.contains(well), "{command}: {ran:?}");
        }
        assert_eq!(ran.stdout.matches("all the same").count(), 2, "{ran:?}");
    }
}
