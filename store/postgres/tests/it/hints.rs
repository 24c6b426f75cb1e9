//! Hints that logs have grown.

use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use leftfold_events::MessageId;
use leftfold_postgres::{Hint, Options, Postgres, PostgresReader};

use crate::cluster::{MakesTables, shared};
use crate::helpers::{append, id, put, seqs};
use common::postgres_proxy::Proxy;

const HINT_TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn other_nodes_hear_of_appends_and_messages() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let writer = Postgres::open(&tables.address(), Options::default()).unwrap();
    let observer = Postgres::open(&tables.address(), Options::default()).unwrap();
    let (to, hints) = sync_channel(10_000);
    observer.reader().hints(to);
    let (to, own) = sync_channel(10_000);
    writer.reader().hints(to);
    // more sessions than fit into one notification
    let claims: Vec<_> = (1..=600).map(|n| writer.claim(id(n)).unwrap()).collect();
    let results: Vec<_> = claims
        .iter()
        .map(|claim| crate::helpers::send(&writer, append(claim, claim.family, 1, 1)))
        .collect();
    results.iter().for_each(|result| crate::helpers::wait(result).unwrap());
    let mut missing: std::collections::HashSet<_> = claims.iter().map(|c| c.family).collect();
    let mut mine = missing.clone();
    while !missing.is_empty() {
        let Hint::Grown(session) = hints.recv_timeout(HINT_TIMEOUT).unwrap() else { continue };
        if missing.remove(&session) {
            assert_eq!(seqs(observer.reader(), session), [1]);
        }
    }
    while !mine.is_empty() {
        let Hint::Grown(session) = own.recv_timeout(HINT_TIMEOUT).unwrap() else { continue };
        mine.remove(&session);
    }
    observer.post(id(1), MessageId::from_bytes([1; 16]), b"hello".to_vec()).unwrap();
    while own.recv_timeout(HINT_TIMEOUT).unwrap() != Hint::Message(id(1)) {}
}

/// A node that hears nothing any more finds out within about a second, for what it watches.
#[test]
fn a_lost_hint_costs_a_second() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let writer = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = writer.claim(id(1)).unwrap();
    let proxy = Proxy::before(cluster.port());
    let observer = Postgres::open(&tables.through(proxy.port()), Options::default()).unwrap();
    proxy.swallow_notifications();
    let reader = PostgresReader::open(&tables.address()).unwrap();
    for observer in [observer.reader(), &reader] {
        let (to, hints) = sync_channel(100);
        observer.hints(to);
        let watch = observer.watch(id(1));
        let next = seqs(observer, id(1)).len() as u64 + 1;
        // what was there when it began to watch
        while hints.recv_timeout(Duration::from_millis(1_200)).is_ok() {}
        let start = Instant::now();
        put(&writer, append(&claim, id(1), next, next)).unwrap();
        assert_eq!(hints.recv_timeout(HINT_TIMEOUT).unwrap(), Hint::Grown(id(1)));
        assert!(start.elapsed() < Duration::from_millis(1_800), "{:?}", start.elapsed());
        drop(watch);
        put(&writer, append(&claim, id(1), next + 1, next + 1)).unwrap();
        assert!(hints.recv_timeout(Duration::from_millis(1_300)).is_err());
    }
}
