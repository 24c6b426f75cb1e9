//! The commands of operators: the nodes, the numbers, and the check of a database.

use common::postgres::{PASSWORD, own, shared};
use common::{ASK, Site, asking};
use leftfold_events::SessionId;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{on, session_of, url};

fn json_lines(site: &Site, url: &str, args: &[&str]) -> Vec<Value> {
    let ran = site.run(&[args, &[url, "--format", "json"]].concat()).ok();
    assert!(!ran.stdout.contains(PASSWORD), "{ran:?}");
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_nodes_and_their_sessions_are_counted() {
    let Some(cluster) = shared() else { return };
    let (site, url) = (asking(), url(cluster));
    site.run(&["fleet", "init", &url]).ok();
    let mut node = site.start(&[&ASK[..], &["--store", &url]].concat());
    node.until("permission.asked");
    let nodes = json_lines(&site, &url, &["fleet", "nodes"]);
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    let labels = nodes[0]["labels"].to_string();
    assert!(labels.contains(&format!("pid {}", node.id())), "{labels}");
    assert_eq!(nodes[0]["sessions"], 1);
    let lease = nodes[0]["lease_s"].as_f64().unwrap();
    assert!((5.0..=15.1).contains(&lease), "{lease}");
    let status = |expected: Value| {
        let found = json_lines(&site, &url, &["fleet", "status"]).remove(0);
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}: {found}");
        }
        assert!(found["bytes"].as_u64().unwrap() > 0, "{found}");
    };
    status(json!({ "nodes": 1, "sessions": 1, "owned": 1, "waiting": 0, "messages": 0 }));
    let text = on(&url, &site, &["fleet", "status"]).ok().stdout;
    assert!(text.contains("1 session: 1 owned, 0 without an owner"), "{text}");
    node.signal(Signal::KILL);
    node.wait();
    let schema = url.rsplit_once("schema=").unwrap().1;
    cluster.logs(&format!("update {schema}.node set until = clock_timestamp() - interval '1 min'"));
    status(json!({ "nodes": 0, "sessions": 1, "owned": 0 }));
    let text = on(&url, &site, &["fleet", "nodes"]).ok().stdout;
    // the machine may be busy
    assert!(text.contains("lease ran out 6"), "{text}");
    // those that are there come first, although they came last
    cluster.logs(&format!(
        "insert into {schema}.node (until, since, labels) \
         values (clock_timestamp() + interval '10 min', clock_timestamp(), '{{late}}')"
    ));
    let text = on(&url, &site, &["fleet", "nodes"]).ok().stdout;
    let (living, gone) = text.split_once("\nNo longer there:\n").unwrap();
    assert!(living.contains("late") && gone.contains("lease ran out"), "{text}");
    for command in ["status", "nodes"] {
        site.run(&["fleet", command]).with(2).saying(&["postgresql://USER@HOST/DATABASE"]);
    }
}

/// A change of the server, the exit code of `doctor` after it, and a text of its findings.
struct Setting {
    change: &'static str,
    code: i32,
    says: &'static str,
}

#[test]
fn doctor_looks_at_the_database() {
    let Some(cluster) = own() else { return };
    let (site, url) = (asking(), url(&cluster));
    site.run(&["fleet", "init", &url]).ok();
    let schema = url.rsplit_once("schema=").unwrap().1;
    let doctor = |code, says: &str| {
        let ran = on(&url, &site, &["doctor"]).with(code);
        assert!(ran.stdout.contains(says), "{says}: {}", ran.stdout);
    };
    for says in ["an answer takes", "notifications arrive", "has no standby", "no data checksums"] {
        doctor(0, says);
    }
    for Setting { change, code, says } in [
        Setting {
            change: "alter role app set default_transaction_read_only = on",
            code: 0,
            says: "only reads",
        },
        Setting {
            change: "alter role app reset default_transaction_read_only; \
                revoke insert on SCHEMA.content from app",
            code: 1,
            says: "may not write to all tables",
        },
        Setting {
            change: "grant insert on SCHEMA.content to app; update SCHEMA.version set number = 99",
            code: 1,
            says: "use a newer leftfold",
        },
        Setting { change: "drop schema SCHEMA cascade", code: 1, says: "leftfold fleet init" },
    ] {
        cluster.logs(&change.replace("SCHEMA", schema));
        doctor(code, says);
    }
    cluster.end();
    doctor(1, "cannot be reached");
    cluster.set("fsync = off");
    cluster.begin();
    doctor(1, "postgresql.conf");
}

#[test]
fn old_sessions_and_what_nobody_needs_are_removed() {
    let Some(cluster) = shared() else { return };
    let (site, url) = (asking(), url(cluster));
    site.run(&["fleet", "init", &url]).ok();
    let schema = url.rsplit_once("schema=").unwrap().1;
    let sql =
        |sql: &str| cluster.logs(&format!("set search_path to {schema}; set role app; {sql}"));
    // one that has ended, with a fork; one whose turn was cut off; and one that a node has
    let old = session_of(&on(
        &url,
        &site,
        &["run", "--format", "json", "--permission-mode", "deny", "go"],
    ));
    let fork = on(&url, &site, &["fork", &old]).ok().stdout.trim().to_owned();
    let mut cut_off = site.start(&[&ASK[..], &["--store", &url]].concat());
    cut_off.until("permission.asked");
    cut_off.signal(Signal::KILL);
    let cut_off = session_of(&cut_off.wait());
    let mut living = site.start(&[&ASK[..], &["--store", &url]].concat());
    let owned = living.until("permission.asked")["session"].as_str().unwrap().to_owned();
    // later than its node has removed such rows, which each one does at its start
    let owner = format!("(select owner from session where id = '{}')", uuid(&cut_off));
    sql(&format!(
        "update node set until = clock_timestamp() - interval '2 days' where id = {owner}"
    ));
    sql("create table batch_2020_01 partition of batch \
         for values from ('016f5e66-e800-0000-0000-000000000000') to ('016ffe0e-f400-0000-0000-000000000000')");
    sql("update content set named = named - interval '3 days'");
    let only_old = "insert into content values ('\\xaa', 'contents', clock_timestamp() - interval '3 days'); \
        insert into mention values";
    sql(&format!("{only_old} ('{}', '\\xaa')", uuid(&old)));
    let gc = |args: &[&str]| json_lines(&site, &url, &[&["fleet", "gc"], args].concat()).remove(0);
    let nothing_old = gc(&["--dry-run"]);
    assert_eq!((&nothing_old["sessions"], &nothing_old["nodes"]), (&json!(0), &json!(1)));
    assert_eq!(gc(&["--dry-run", "--older-than", "1"])["sessions"], 0);
    let mut counted = gc(&["--dry-run", "--older-than", "0"]);
    let events = sql("select sum(last - first + 1) from batch");
    for (name, count) in [("families", 1), ("sessions", 2), ("nodes", 1), ("partitions", 1)] {
        assert_eq!(counted[name], count, "{name}: {counted}");
    }
    assert!(counted["events"].as_u64().unwrap() > 5 && counted["bytes"].as_u64().unwrap() > 0);
    let contents = |of| sql(&format!("select count(*) from content where sha256 = '{of}'"));
    assert!(counted["contents"].as_u64().unwrap() >= 1 && contents("\\xaa") == "1");
    // it has changed nothing
    assert_eq!(sql("select sum(last - first + 1) from batch"), events);
    on(&url, &site, &["check", &old]).ok();
    let removed = gc(&["--older-than", "0"]);
    counted["dry_run"] = false.into();
    assert_eq!(removed, counted);
    assert_eq!(contents("\\xaa"), "0");
    for gone in [&old, &fork] {
        on(&url, &site, &["replay", gone]).with(2);
    }
    for kept in [&cut_off, &owned] {
        on(&url, &site, &["check", kept]).ok();
        on(&url, &site, &["verify", kept]).ok();
    }
    let again = gc(&["--older-than", "0"]);
    for name in ["families", "events", "contents", "nodes", "partitions", "bytes"] {
        assert_eq!(again[name], 0, "{name}: {again}");
    }
    // a session that begins now finds or writes all that it names
    let new = session_of(&on(
        &url,
        &site,
        &["run", "--format", "json", "--permission-mode", "deny", "go"],
    ));
    on(&url, &site, &["check", &new]).ok();
    living.signal(Signal::KILL);
    living.wait();
    let text = on(&url, &site, &["fleet", "gc", "--dry-run"]).ok().stdout;
    assert!(text.starts_with("would be removed: 0 sessions with 0 events"), "{text}");
}

/// The id of a session as the database has it.
fn uuid(session: &str) -> String {
    let session: SessionId = session.parse().unwrap();
    session.to_bytes().map(|byte| format!("{byte:02x}")).concat()
}
