//! Appends when connections, the server or the standby fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use leftfold_postgres::{Append, Error, Options, Postgres};

use crate::cluster::{MakesTables, own, shared};
use crate::helpers::{append, id, put, send, seqs, wait};
use common::postgres_proxy::{CUT_TIME, CUTS, Cut, Proxy};

#[test]
fn an_unknown_commit_is_looked_up() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let proxy = Proxy::before(cluster.port());
    let engine = Postgres::open(&tables.through(proxy.port()), Options::default()).unwrap();
    let claims: Vec<_> = (1..=3).map(|n| engine.claim(id(n)).unwrap()).collect();
    for round in 0..8 {
        for (n, cut) in (0..).zip(CUTS) {
            let seq = round * 3 + n + 1;
            proxy.cut(cut);
            let results: Vec<_> = claims
                .iter()
                .map(|claim| send(&engine, append(claim, claim.family, seq, seq)))
                .collect();
            for result in results {
                assert_eq!(wait(&result), Ok(()), "{cut:?}, round {round}");
            }
        }
    }
    assert_eq!(proxy.cuts(), 24);
    for claim in &claims {
        assert_eq!(seqs(engine.reader(), claim.family), (1..=24).collect::<Vec<_>>());
    }
    assert_eq!(tables.sql("select count(*) from batch where first <> last"), "0");
}

/// After the answer was lost, and before anybody can look it up, another node takes the session.
#[test]
fn an_unknown_commit_of_a_lost_session_is_fenced() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let proxy = Proxy::before(cluster.port());
    let engine = Postgres::open(&tables.through(proxy.port()), Options::default()).unwrap();
    for (n, cut) in (1..).zip([Cut::Before, Cut::After]) {
        let claim = engine.claim(id(n)).unwrap();
        put(&engine, append(&claim, id(n), 1, 1)).unwrap();
        proxy.cut(cut);
        proxy.refuse_connections(true);
        let result = send(&engine, append(&claim, id(n), 2, 2));
        sleep(CUT_TIME);
        assert!(result.try_recv().is_err());
        tables.sql("update session set epoch = 9, seq = 7, link = decode(repeat('ab', 16), 'hex')");
        proxy.refuse_connections(false);
        let error = wait(&result).unwrap_err();
        assert!(matches!(error, Error::Fenced { .. }), "{error}");
    }
}

/// The server goes on with a commit of which the connection is gone. Whoever looks it up has to wait
/// for that: a repetition would be refused, although the first attempt came through.
#[test]
fn looking_up_waits_for_a_commit_that_is_under_way() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let proxy = Proxy::before(cluster.port());
    let engine = Postgres::open(&tables.through(proxy.port()), Options::default()).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 1)).unwrap();
    let lock = format!(
        "set search_path to {}; begin; lock table batch in share mode; select pg_sleep(1.2); commit",
        tables.schema
    );
    let mut locker = cluster.psql("logs", &lock).spawn().unwrap();
    let waiting =
        "select count(*) from pg_locks where not granted and relation = 'batch'::regclass";
    while tables.sql(
        "select count(*) from pg_locks where mode = 'ShareLock' and relation = \
                      'batch'::regclass",
    ) == "0"
    {}
    let result = send(&engine, append(&claim, id(1), 2, 2));
    while tables.sql(waiting) == "0" {}
    proxy.disconnect();
    assert_eq!(wait(&result), Ok(()));
    locker.wait().unwrap();
    assert_eq!(tables.sql("select count(*) from batch where first = 2"), "1");
    put(&engine, append(&claim, id(1), 3, 3)).unwrap();
}

/// A server that is killed while eight sessions append loses nothing that was acknowledged, although
/// its operator has turned waiting for the disk off, and the engine goes on by itself.
#[test]
fn a_killed_server_loses_nothing_and_the_engine_goes_on() {
    let Some(cluster) = own() else { return };
    cluster.sql("alter database logs set synchronous_commit = off");
    cluster.set("wal_writer_delay = 10s");
    cluster.sql("select pg_reload_conf()");
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    const SESSIONS: u64 = 8;
    let claims: Vec<_> = (1..=SESSIONS).map(|n| engine.claim(id(n)).unwrap()).collect();
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for claim in &claims {
            scope.spawn(|| {
                for seq in 1.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    put(&engine, append(claim, claim.family, seq, seq)).unwrap();
                    acknowledged.lock().unwrap().insert(claim.family, seq);
                }
            });
        }
        let sum = || acknowledged.lock().unwrap().values().sum::<u64>();
        for _ in 0..2 {
            sleep(CUT_TIME);
            cluster.kill();
            sleep(CUT_TIME);
            let before = sum();
            cluster.begin();
            let start = Instant::now();
            while sum() < before + SESSIONS * 5 {
                assert!(start.elapsed() < Duration::from_secs(10), "the engine does not go on");
                sleep(Duration::from_millis(5));
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    for (session, last) in acknowledged {
        assert_eq!(seqs(engine.reader(), session), (1..=last).collect::<Vec<_>>());
    }
}

/// The database is away for longer than anybody waits. Nothing is said to be durable, and what comes
/// after it in the same epoch is refused.
#[test]
fn patience_ends() {
    let Some(cluster) = own() else { return };
    let tables = cluster.tables();
    let options = Options { patience: Duration::from_millis(400), ..Options::default() };
    let engine = Postgres::open(&tables.address(), options).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 1)).unwrap();
    cluster.end();
    let error = put(&engine, append(&claim, id(1), 2, 2)).unwrap_err();
    assert!(!matches!(error, Error::Fenced { .. }), "{error}");
    let error = put(&engine, append(&claim, id(1), 3, 3)).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    cluster.begin();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 2, 2)).unwrap();
    // a server that answers slowly
    let lock = format!(
        "set search_path to {}; begin; lock table session; select pg_sleep(1); commit",
        tables.schema
    );
    let mut locker = cluster.psql("logs", &lock).spawn().unwrap();
    while tables.sql(
        "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and relation = \
                      'session'::regclass",
    ) == "0"
    {}
    let error = put(&engine, append(&claim, id(1), 3, 3)).unwrap_err();
    assert!(matches!(error, Error::Slow { .. }), "{error}");
    locker.wait().unwrap();
}

/// The database says that a commit has not reached the standby that it has to reach.
#[test]
fn a_commit_without_its_standby_stops_the_engine() {
    let Some(cluster) = own() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 1)).unwrap();
    cluster.set("synchronous_standby_names = 'absent'");
    cluster.sql("select pg_reload_conf()");
    while cluster.sql("show synchronous_standby_names") != "absent" {}
    let result = send(&engine, append(&claim, id(1), 2, 2));
    let waits = "from pg_stat_activity where wait_event = 'SyncRep' and query like 'with a as (%'";
    while cluster.sql(&format!("select count(*) {waits}")) == "0" {}
    assert!(result.try_recv().is_err());
    cluster.sql(&format!("select pg_cancel_backend(pid) {waits}"));
    assert_eq!(wait(&result), Err(Error::Unsynced));
    // also for other sessions, and for good
    let error = put(&engine, append(&claim, id(1), 2, 2)).unwrap_err();
    assert_eq!(error, Error::Unsynced);
    cluster.set("synchronous_standby_names = ''");
    cluster.sql("select pg_reload_conf()");
    assert_eq!(put(&engine, append(&claim, id(2), 1, 1)), Err(Error::Unsynced));
}

/// A wrong append does not fail the others of its group.
#[test]
fn one_refused_append_fails_alone() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claims: Vec<_> = (1..=20).map(|n| engine.claim(id(n)).unwrap()).collect();
    // a rule of the database that only one of them breaks
    tables.sql("alter table batch add constraint small check (octet_length(body) < 100000)");
    let results: Vec<_> = claims
        .iter()
        .map(|claim| {
            let mut append = append(claim, claim.family, 1, 1);
            if claim.family == id(7) {
                append.events[0].body = vec![0; 200_000];
            }
            send(&engine, Append { ..append })
        })
        .collect();
    for (n, result) in (1..).zip(&results) {
        assert_eq!(wait(result).is_ok(), n != 7, "{n}");
    }
}

/// A panic of a callback does not take the engine down.
#[test]
fn a_panic_in_a_callback_is_caught() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = Arc::new(Postgres::open(&tables.address(), Options::default()).unwrap());
    let claim = engine.claim(id(1)).unwrap();
    let panics = Append { done: Box::new(|_| panic!("on purpose")), ..append(&claim, id(1), 1, 1) };
    engine.append(panics);
    put(&engine, append(&claim, id(1), 2, 2)).unwrap();
    // the last owner of the engine is a callback on its own thread
    let (sender, dropped) = std::sync::mpsc::channel();
    let last = Arc::clone(&engine);
    let mut append = append(&claim, id(1), 3, 3);
    append.done = Box::new(move |result| {
        drop(last);
        sender.send(result).unwrap();
    });
    let weak = Arc::downgrade(&engine);
    engine.append(append);
    drop(engine);
    assert_eq!(dropped.recv_timeout(Duration::from_secs(10)).unwrap(), Ok(()));
    assert!(weak.upgrade().is_none());
}
