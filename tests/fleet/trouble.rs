//! Trouble with a database: each says what is wrong and what to do, and no text has the password.

use std::io::ErrorKind;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use common::postgres::{Cluster, PASSWORD, own, shared};
use common::postgres_proxy::Proxy;
use common::{Site, all, bash, end, says, script, skipped};
use rustix::process::Signal;
use serde_json::json;

use crate::{old_server, on, session_of, url};

fn site() -> Site {
    let replies = json!([bash("sleep 2"), says("Done."), says("Done.")]);
    let site = Site::scripted(&script(replies)).setting("/permission", json!({ "bash": "allow" }));
    // no log has a password either
    site.env("LEFTFOLD_LOG", "trace")
}

/// A change of the database before the command, and its reversal after it.
struct Trouble {
    what: &'static str,
    url: String,
    before: &'static str,
    after: &'static str,
    code: i32,
    says: &'static str,
}

#[test]
fn each_trouble_says_what_to_do() {
    let Some(cluster) = own() else { return };
    let site = site();
    let url = url(&cluster);
    site.run(&["fleet", "init", &url]).ok();
    let session = session_of(&on(&url, &site, &["run", "--format", "json", "go"]).ok());
    let schema = url.rsplit_once("schema=").unwrap().1.to_owned();
    cluster.sql(&format!("create role guest login password '{PASSWORD}'"));
    let port = cluster.port().to_string();
    let none =
        |what, url: String, code, says| Trouble { what, url, before: "", after: "", code, says };
    let newer = |number: &str| format!("update {schema}.version set number = {number}");
    let (break_version, mend_version) = (newer("99"), newer("8"));
    for Trouble { what, url, before, after, code, says } in [
        none("no URL of PostgreSQL", "mysql://db/logs".into(), 2, "postgresql://"),
        none("a doubled @", url.replace("app:", "app@x:"), 2, "%40"),
        none(
            "no such host",
            url.replace("127.0.0.1", "no.such.host.invalid") + "&sslmode=disable",
            1,
            "check the host",
        ),
        none("nobody listens", url.replace(&port, "1"), 1, "check the host, the port"),
        none("a wrong password", url.replace(PASSWORD, "wr0ng"), 1, "check user and password"),
        none("no such database", url.replace("/logs", "/absent"), 1, "createdb"),
        none("no tables", url.replace(&schema, "absent"), 1, "leftfold fleet init"),
        none("no rights", url.replace("app:", "guest:"), 1, "usage of schema"),
        none("no TLS there", url.clone() + "&sslmode=verify-full", 1, "does not speak TLS"),
        Trouble {
            what: "newer tables",
            url: url.clone(),
            before: "newer",
            after: "older",
            code: 1,
            says: "use a newer leftfold",
        },
    ] {
        let change = |change: &str| match change {
            "newer" => drop(cluster.logs(&break_version)),
            "older" => drop(cluster.logs(&mend_version)),
            _ => {}
        };
        change(before);
        for args in
            [&["run", "go"][..], &["replay", &session], &["sessions"], &["observe", &session]]
        {
            let ran = on(&url, &site, args);
            assert_eq!(ran.code, code, "{what}, {args:?}: {ran:?}");
            assert!(!ran.stderr.contains("wr0ng"), "{what}: {ran:?}");
            let ran = ran.saying(&[says]);
            // a database that is away is no empty one, and no damaged one
            assert!(
                !ran.stderr.contains("no sessions yet") && !ran.stderr.contains("damaged"),
                "{ran:?}"
            );
        }
        change(after);
    }
    let guests = url.replace("app:", "guest:").replace(&schema, "guests");
    let refused = on(&guests, &site, &["fleet", "init"]).with(1);
    refused.saying(&["create schema", "grant create"]);
    let refused = on(&url.replace("app:", "guest:"), &site, &["fleet", "init"]).with(1);
    refused.saying(&["usage of schema", &schema]);
    // a server says that it listens once the database lets it in, also if that takes a while
    let proxy = Proxy::before(cluster.port());
    proxy.delay_answers(Duration::from_millis(50));
    let slow = url.replace(&port, &proxy.port().to_string());
    let refused = on(&slow.replace("app:", "guest:"), &site, &["serve", "--port", "0"]).with(1);
    assert_eq!(refused.stdout, "", "{refused:?}");
    // a standby, or a database that was made so, is read but not written
    cluster.logs("alter database logs set default_transaction_read_only = on");
    on(&url, &site, &["replay", &session]).ok();
    on(&url, &site, &["run", "go"]).with(1).saying(&["only reads"]);
    cluster.sql("alter database logs reset default_transaction_read_only");
    on(&url, &site, &["check", &session]).ok();
    // a server that may lose what it has acknowledged is not used at all
    cluster.end();
    cluster.set("fsync = off");
    cluster.begin();
    on(&url, &site, &["run", "go"]).with(1).saying(&["fsync = off", "postgresql.conf"]);
}

/// A repository may have such a folder, and its server may ask for the user's password.
#[test]
fn a_folder_from_elsewhere_reaches_no_database() {
    let site = site();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let url = format!("postgresql://app@{}/logs", server.local_addr().unwrap());
    let folder = site.project().join("store");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("engine"), format!("{url}\n")).unwrap();
    let (folder, id) = (folder.to_str().unwrap(), "01M8D09H2W34P68TFX7Q0VRMMH");
    // also where there are folders of databases
    for _ in 0..2 {
        for args in [&["verify", folder][..], &["replay", id, "--store", folder]] {
            site.run(args).with(1).saying(&["--store URL"]);
        }
        assert_eq!(server.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        on("postgresql://app@127.0.0.1:1/logs", &site, &["sessions"]).with(1);
    }
}

/// The number of schemas that were made for Leftfold.
fn schemas(cluster: &Cluster) -> String {
    cluster.logs("select count(*) from pg_namespace where nspname like 'fleet%'")
}

#[test]
fn an_old_server_is_refused_with_its_version() {
    let port = old_server::start(140_011, "14.11");
    let url = format!("postgresql://app:{PASSWORD}@127.0.0.1:{port}/logs");
    let site = site();
    let local = session_of(&site.prompt("here").ok());
    for args in
        [&["fleet", "init"][..], &["run", "go"], &["sessions"], &["replay", &local], &["doctor"]]
    {
        let ran = on(&url, &site, args).with(1);
        let said = ran.stderr + &ran.stdout;
        assert!(
            said.contains("is PostgreSQL 14.11, and 15 or later is needed"),
            "{args:?}: {said}"
        );
        assert!(said.contains("upgrade the server"), "{args:?}: {said}");
    }
    site.run(&["check", &local]).ok();
}

#[test]
fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgresql://app:{PASSWORD}@{}/logs", server.local_addr().unwrap());
    let (site, start) = (site(), Instant::now());
    let mut commands = Vec::new();
    for args in [&["fleet", "init"][..], &["run", "go"], &["sessions"]] {
        commands.push(site.start(&[args, &["--store", &url]].concat()));
    }
    for command in commands {
        let ran = command.wait().with(1);
        assert!(!ran.stderr.contains(PASSWORD) && !ran.stderr.contains("no sessions"), "{ran:?}");
        ran.saying(&["did not answer within 30 s", "look whether PostgreSQL is stuck"]);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn a_slow_server_is_waited_for() {
    let Some(cluster) = shared() else { return };
    let (site, proxy, url) = (site(), Proxy::before(cluster.port()), url(cluster));
    site.run(&["fleet", "init", &url]).ok();
    let slow = url.replace(&cluster.port().to_string(), &proxy.port().to_string());
    proxy.delay_answers(Duration::from_millis(150));
    let mut run = site.start(&["run", "--format", "json", "go", "--store", &slow]);
    run.until("tool.started");
    // the tool ends while nothing comes through
    proxy.hold_answers(true);
    std::thread::sleep(Duration::from_secs(4));
    proxy.hold_answers(false);
    let ran = run.wait().ok();
    assert_eq!(end(&ran.events())["reason"], "completed");
    let session = session_of(&ran);
    for command in ["check", "verify"] {
        on(&slow, &site, &[command, &session]).ok();
    }
}

#[test]
fn a_certificate_for_another_host_is_refused() {
    let Some(cluster) = own() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(certificate) = cluster.speak_tls(dir.path(), "other.example") else { return };
    let (site, url) = (site(), url(&cluster));
    let local = session_of(&site.prompt("here").ok());
    let checked = format!("{url}&sslmode=verify-full&sslrootcert={}", certificate.display());
    for args in [&["fleet", "init"][..], &["run", "go"], &["sessions"], &["replay", &local]] {
        let ran = on(&checked, &site, args).with(1);
        ran.saying(&["the certificate of 127.0.0.1", "name the host as its certificate does"]);
    }
    assert_eq!(schemas(&cluster), "0");
    site.run(&["check", &local]).ok();
}

#[test]
fn a_full_database_says_so_and_takes_events_again_once_there_is_room() {
    let Some(cluster) = own() else { return };
    let Some(disk) = cluster.tables_on_disk(24) else {
        return skipped("no file system can be mounted here, so no database is full");
    };
    let site = Site::scripted(&script(json!(vec![says("Done."); 50])));
    let url = url(&cluster);
    site.run(&["fleet", "init", &url]).ok();
    let kept = session_of(&on(&url, &site, &["run", "--format", "json", "go"]).ok());
    disk.fill();
    let mut failed = Vec::new();
    // a few more events may fit into pages that are there
    for _ in 0..40 {
        let text = "word ".repeat(20_000);
        let ran = on(&url, &site, &["run", "--format", "json", "--session", &kept, &text]);
        if ran.code == 1 {
            failed.push(ran);
            break;
        }
        ran.ok();
    }
    let full = failed.pop().expect("the database was never full");
    full.saying(&["is full", "make room there"]);
    // reading needs no room, and what was acknowledged is there
    on(&url, &site, &["check", &kept]).ok();
    disk.free();
    let ran = on(&url, &site, &["run", "--format", "json", "--session", &kept, "again"]).ok();
    assert_eq!(end(&ran.events())["reason"], "completed");
    for command in ["check", "verify"] {
        on(&url, &site, &[command, &kept]).ok();
    }
    let prompts = on(&url, &site, &["export", &kept]).ok().events();
    let is_again = |event: &&serde_json::Value| event.to_string().contains("again");
    assert_eq!(
        all(&prompts, "turn.prompted").into_iter().filter(|event| is_again(event)).count(),
        1
    );
    cluster.end();
}

fn gap(cluster: &Cluster, pause: Duration) {
    cluster.kill();
    std::thread::sleep(pause);
    cluster.begin();
}

#[test]
fn a_run_waits_for_a_database_that_comes_back() {
    let Some(cluster) = own() else { return };
    let (site, url) = (site(), url(&cluster));
    site.run(&["fleet", "init", &url]).ok();
    let mut run = site.start(&["run", "--format", "json", "go", "--store", &url]);
    run.until("tool.started");
    // the tool ends while the database is away
    gap(&cluster, Duration::from_secs(4));
    let ran = run.wait().ok();
    assert_eq!(end(&ran.events())["reason"], "completed");
    let session = session_of(&ran);
    for command in ["check", "verify"] {
        on(&url, &site, &[command, &session]).ok();
    }
}

#[test]
fn a_turn_whose_node_was_killed_is_resumed_once_its_lease_is_over() {
    let Some(cluster) = shared() else { return };
    let (site, url) = (site(), url(cluster));
    site.run(&["fleet", "init", &url]).ok();
    let mut run = site.start(&["run", "--format", "json", "go", "--store", &url]);
    let session = run.until("tool.started")["session"].as_str().unwrap().to_owned();
    run.signal(Signal::KILL);
    run.wait().with(-1);
    // it may still live, as far as anybody else can tell
    on(&url, &site, &["resume", &session]).with(1).saying(&["another node", "pid", "try again"]);
    let schema = url.rsplit_once("schema=").unwrap().1;
    // as if the lease had run out; then this node waits for a whole lease of its own
    cluster.logs(&format!("update {schema}.node set until = clock_timestamp() - interval '1 s'"));
    let resumed = on(&url, &site, &["resume", &session]).ok();
    resumed.saying(&["taking it over"]);
    for command in ["check", "verify"] {
        on(&url, &site, &[command, &session]).ok();
    }
}
