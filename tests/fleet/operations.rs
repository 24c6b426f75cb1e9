//! The commands of operators: the nodes, the numbers, and the check of a database.

use common::postgres::{PASSWORD, own, shared};
use common::{ASK, Site, asking};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{on, url};

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
    assert!(text.contains("lease ran out 60 s ago"), "{text}");
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
                revoke insert on SCHEMA.payload from app",
            code: 1,
            says: "may not write to all tables",
        },
        Setting {
            change: "grant insert on SCHEMA.payload to app; update SCHEMA.version set number = 99",
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
