//! Reads.

use leftfold_postgres::{Options, Postgres, PostgresReader};

use crate::cluster::{MakesTables, shared};
use crate::helpers::{append, event, id, put, seqs};

#[test]
fn heads_come_in_pages() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let mut sessions: Vec<_> = (1..=25).map(id).collect();
    for session in &sessions {
        let claim = engine.claim(*session).unwrap();
        put(&engine, append(&claim, *session, 1, 2)).unwrap();
    }
    // without events it is no session yet
    engine.claim(id(99)).unwrap();
    sessions.sort();
    let reader = PostgresReader::open(&tables.address()).unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = reader.heads(after, 10).unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.session);
        found.extend(page.into_iter().map(|head| head.session));
    }
    assert_eq!(found, sessions);
    assert_eq!(reader.head(id(99)).unwrap(), None);
    assert_eq!(reader.identity(), engine.reader().identity());
    assert!(reader.identity().ends_with(&format!("/logs/{}", tables.schema)));
}

#[test]
fn damage_of_one_event_leaves_the_others() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 3)).unwrap();
    put(&engine, append(&claim, id(1), 4, 4)).unwrap();
    // a byte in the body of the first event
    tables.sql("update batch set body = set_byte(body, 35, 7) where first = 1");
    let page = engine.reader().events(id(1), 1, 1_000_000).unwrap();
    let fault = page.events[0].as_ref().unwrap_err();
    assert_eq!(fault.seq, Some(1));
    assert_eq!(page.events[1..], [Ok(event(2)), Ok(event(3)), Ok(event(4))]);
}

/// Sessions of this month have a partition, and others go to one for all; when their month comes, they
/// move.
#[test]
fn months_have_partitions() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis();
    let now = leftfold_events::Time::from_millis(u64::try_from(now).unwrap());
    let current = leftfold_events::SessionId::default().child(1, now);
    for session in [current, id(1)] {
        let claim = engine.claim(session).unwrap();
        put(&engine, append(&claim, session, 1, 1)).unwrap();
    }
    let partitions = "select count(distinct tableoid) from batch";
    assert_eq!(tables.sql(partitions), "2");
    let old = "select tableoid::regclass from batch where session < '018fffff-0000-0000-0000-000000000000'";
    assert_eq!(tables.sql(old), "batch_other");
    let months = "select count(*) from pg_inherits where inhparent = 'batch'::regclass";
    assert_eq!(tables.sql(months), "5");
    // this month's partition is lost, and its sessions arrive before the next one
    tables.sql(
        "do $$ declare name text; begin \
         select tableoid::regclass into name from batch where tableoid <> 'batch_other'::regclass; \
         execute format('alter table batch detach partition %I', name); \
         execute format('insert into batch_other select * from %I', name); \
         execute format('drop table %I', name); end $$",
    );
    assert_eq!(tables.sql(partitions), "1");
    leftfold_postgres::migrate(&tables.address()).unwrap();
    assert_eq!(tables.sql(partitions), "2");
    assert_eq!(seqs(engine.reader(), current), [1]);
}
