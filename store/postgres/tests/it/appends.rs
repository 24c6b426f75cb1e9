//! The promises of an append.

use std::collections::HashSet;
use std::sync::{Arc, Barrier};

use leftfold_events::Sha256;
use leftfold_postgres::{Append, Claim, End, Error, Operator, Options, Postgres};
use leftfold_store::engine::StoredEvent;

use crate::cluster::{MakesTables, shared};
use crate::helpers::{append, end, event, id, link, put, send, seqs, wait};

fn open(tables: &crate::cluster::Tables<'_>) -> Postgres {
    Postgres::open(&tables.address(), Options::default()).unwrap()
}

#[test]
fn events_come_back_in_order_and_from_any_seq() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claim = engine.claim(id(1)).unwrap();
    let results: Vec<_> =
        (0..200).map(|n| send(&engine, append(&claim, id(1), n * 2 + 1, n * 2 + 2))).collect();
    results.iter().for_each(|result| wait(result).unwrap());
    assert_eq!(seqs(engine.reader(), id(1)), (1..=400).collect::<Vec<_>>());
    let page = engine.reader().events(id(1), 250, 1).unwrap();
    assert_eq!(page.events.first(), Some(&Ok(event(250))));
    assert_eq!(engine.reader().events(id(1), 401, 1).unwrap().events, []);
    assert_eq!(engine.reader().first(id(1), 77).unwrap(), Some(Ok(event(77))));
    assert_eq!(engine.reader().link(id(1), 78).unwrap(), Some(link(78, 1)));
    assert_eq!(engine.reader().link(id(1), 401).unwrap(), None);
    let head = engine.reader().head(id(1)).unwrap().unwrap();
    assert_eq!((head.end, head.head.as_slice()), (end(400), &b"head 400"[..]));
}

#[test]
fn what_waits_is_committed_in_groups() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claims: Vec<_> = (1..=100).map(|n| engine.claim(id(n)).unwrap()).collect();
    let commits = || -> u64 {
        let count = "select count(distinct xmin::text) from batch";
        tables.sql(count).parse().unwrap()
    };
    let mut results = Vec::new();
    for seq in 1..=20 {
        for claim in &claims {
            results.push(send(&engine, append(claim, claim.family, seq, seq)));
        }
    }
    results.iter().for_each(|result| wait(result).unwrap());
    for claim in &claims {
        assert_eq!(seqs(engine.reader(), claim.family), (1..=20).collect::<Vec<_>>());
    }
    assert!(commits() < 200, "{} commits for 2,000 appends", commits());
}

#[test]
fn a_batch_is_there_entirely_or_not_at_all() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let (good, bad) = (engine.claim(id(1)).unwrap(), engine.claim(id(2)).unwrap());
    let payload = (Sha256::digest(b"contents"), Arc::from(&b"contents"[..]));
    let with = |append| Append { payloads: vec![payload.clone()], ..append };
    put(&engine, append(&bad, id(2), 1, 1)).unwrap();
    // the second session's batch does not follow its last event
    let fine = send(&engine, append(&good, id(1), 1, 3));
    let refused = send(&engine, with(append(&bad, id(2), 3, 5)));
    wait(&fine).unwrap();
    assert!(matches!(wait(&refused), Err(Error::Fenced { .. })));
    assert_eq!(seqs(engine.reader(), id(2)), [1]);
    assert_eq!(engine.reader().payload(payload.0).unwrap(), None);
    // later ones of the same epoch would leave a gap
    assert!(matches!(put(&engine, append(&bad, id(2), 2, 2)), Err(Error::Poisoned { .. })));
    let again = engine.claim(id(2)).unwrap();
    put(&engine, with(append(&again, id(2), 2, 2))).unwrap();
    // and once more, as another session may have the same contents
    put(&engine, with(append(&good, id(1), 4, 4))).unwrap();
    assert_eq!(engine.reader().payload(payload.0).unwrap().as_deref(), Some(&b"contents"[..]));
    assert_eq!(tables.sql("select count(*) from content"), "1");
}

#[test]
fn the_link_is_compared_too() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 2)).unwrap();
    let other = End { seq: 2, link: link(2, 9) };
    let append = Append { expected: other, ..append(&claim, id(1), 3, 3) };
    assert!(matches!(put(&engine, append), Err(Error::Fenced { .. })));
    assert_eq!(seqs(engine.reader(), id(1)), [1, 2]);
}

#[test]
fn a_fork_begins_behind_the_events_of_another_session() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claim = engine.claim(id(1)).unwrap();
    engine.add(claim.family, claim.epoch, id(2)).unwrap();
    let fork = Append { expected: End::default(), ..append(&claim, id(2), 40, 41) };
    put(&engine, fork).unwrap();
    put(&engine, append(&claim, id(2), 42, 42)).unwrap();
    assert_eq!(seqs(engine.reader(), id(2)), [40, 41, 42]);
    assert_eq!(engine.reader().first(id(2), 1).unwrap(), Some(Ok(event(40))));
}

#[test]
fn batches_that_make_no_sense_are_refused_before_they_are_sent() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let events = [vec![], vec![event(4)], vec![event(3), event(3)], vec![event(3), event(5)]];
    for (n, events) in (1..).zip(events) {
        let claim = engine.claim(id(n)).unwrap();
        put(&engine, append(&claim, id(n), 1, 2)).unwrap();
        let wrong = Append { events, ..append(&claim, id(n), 3, 3) };
        assert!(matches!(put(&engine, wrong), Err(Error::Unstorable { .. })));
        assert_eq!(seqs(engine.reader(), id(n)), [1, 2]);
    }
}

#[test]
fn large_events_and_contents_come_back() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claim = engine.claim(id(1)).unwrap();
    // bytes that do not compress
    let mut state = 7_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(9 << 20)
    .collect();
    let large = StoredEvent { body: bytes.clone(), ..event(1) };
    let hash = Sha256::digest(&bytes);
    let first = Append {
        events: vec![large.clone()],
        payloads: vec![(hash, bytes.clone().into())],
        ..append(&claim, id(1), 1, 1)
    };
    put(&engine, first).unwrap();
    put(&engine, append(&claim, id(1), 2, 2)).unwrap();
    let page = engine.reader().events(id(1), 1, 1_000).unwrap();
    assert_eq!((page.events, page.next), (vec![Ok(large)], Some(2)));
    assert_eq!(engine.reader().payload(hash).unwrap(), Some(bytes));
    assert!(engine.reader().size().unwrap() > 18 << 20);
}

/// Two nodes that both believe that they own sessions append to them as fast as they can. Each is told
/// the truth, and nobody waits for a deadlock to be found, which takes the server a second.
#[test]
fn rivals_are_told_the_truth() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engines = [open(&tables), open(&tables)];
    let sessions: Vec<_> = (1..=2_000).map(id).collect();
    for some in sessions.chunks(500) {
        let rows = some.iter().map(|session| {
            let id = uuid::Uuid::from_bytes(session.to_bytes());
            format!("('{id}', '{id}', decode(repeat('00', 16), 'hex'), 1)")
        });
        let rows = rows.collect::<Vec<_>>().join(", ");
        tables.sql(&format!("insert into session (id, family, link, epoch) values {rows}"));
    }
    let together = Barrier::new(2);
    let append_all = |node: usize| {
        let mut won = HashSet::new();
        for some in sessions.chunks(100) {
            together.wait();
            // in opposite orders, so that locks taken as they come would deadlock
            let mut order = some.to_vec();
            if node == 1 {
                order.reverse();
            }
            let results: Vec<_> = order
                .into_iter()
                .map(|session| {
                    let claim = Claim { family: session, epoch: 1, sessions: Vec::new() };
                    let mut append = append(&claim, session, 1, 1);
                    append.events[0].link = link(1, u8::try_from(node).unwrap());
                    (session, send(&engines[node], append))
                })
                .collect();
            for (session, result) in results {
                match wait(&result) {
                    Ok(()) => assert!(won.insert(session)),
                    Err(error) => assert!(matches!(error, Error::Fenced { .. }), "{error}"),
                }
            }
        }
        won
    };
    let won: [HashSet<_>; 2] = std::thread::scope(|scope| {
        let append_all = &append_all;
        [0, 1].map(|node| scope.spawn(move || append_all(node))).map(|all| all.join().unwrap())
    });
    for session in &sessions {
        let stored = engines[0].reader().link(*session, 1).unwrap();
        let winner = usize::from(won[1].contains(session));
        assert!(won[winner].contains(session) && !won[1 - winner].contains(session));
        assert_eq!(stored, Some(link(1, u8::try_from(winner).unwrap())));
    }
    assert!(!cluster.log().contains("deadlock detected"));
}

/// An owner that was stopped for longer than its lease appends with its old epoch.
#[test]
fn a_stale_epoch_is_fenced() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let old = engine.claim(id(1)).unwrap();
    put(&engine, append(&old, id(1), 1, 1)).unwrap();
    let new = engine.claim(id(1)).unwrap();
    assert_eq!((new.epoch, new.sessions[0].end), (old.epoch + 1, end(1)));
    let error = put(&engine, append(&old, id(1), 2, 2)).unwrap_err();
    assert!(error.to_string().contains("its epoch is 2"), "{error}");
    put(&engine, append(&new, id(1), 2, 2)).unwrap();
    assert_eq!(seqs(engine.reader(), id(1)), [1, 2]);
}

#[test]
fn closing_waits_for_what_was_appended() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let claim = engine.claim(id(1)).unwrap();
    let results: Vec<_> = (1..=300).map(|n| send(&engine, append(&claim, id(1), n, n))).collect();
    drop(engine);
    for result in results {
        assert_eq!(result.try_recv(), Ok(Ok(())));
    }
    assert_eq!(tables.sql("select seq, owner is null from session"), "300|t");
    assert_eq!(tables.sql("select count(*) from node"), "0");
}

/// Contents that no session names go after a while. A session that names them at that moment keeps or writes them.
#[test]
fn contents_stay_as_long_as_a_session_names_them() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let operator = Operator::open(&tables.address()).unwrap();
    let payload = (Sha256::digest(b"contents"), Arc::from(&b"contents"[..]));
    let naming = |append| Append { payloads: vec![payload.clone()], ..append };
    let is_there = || engine.reader().payload(payload.0).unwrap().is_some();
    let removed = || operator.collect(None, false).unwrap().contents;
    let age = || drop(tables.sql("update content set named = named - interval '3 days'"));
    let claims = [1, 2, 3].map(|number| engine.claim(id(number)).unwrap());
    put(&engine, naming(append(&claims[0], id(1), 1, 1))).unwrap();
    age();
    assert_eq!((removed(), is_there()), (0, true));
    engine.remove(&[id(1)]).unwrap();
    // named again: as it is, although nobody has named it for days
    put(&engine, naming(append(&claims[1], id(2), 1, 1))).unwrap();
    tables.sql("delete from mention");
    assert_eq!((removed(), is_there()), (0, true), "it was named right now");
    age();
    assert_eq!((removed(), is_there()), (1, false));
    put(&engine, naming(append(&claims[2], id(3), 1, 1))).unwrap();
    age();
    assert_eq!((removed(), is_there()), (0, true));
    // of a time when nobody kept account
    tables.sql("delete from mention; update content set named = null");
    put(&engine, naming(append(&claims[1], id(2), 2, 2))).unwrap();
    tables.sql("delete from mention");
    assert_eq!((removed(), is_there()), (0, true));
}

/// An append that names contents waits for their removal, and then writes them.
#[test]
fn contents_that_are_being_removed_are_written_again() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let engine = open(&tables);
    let payload = (Sha256::digest(b"contents"), Arc::from(&b"contents"[..]));
    let naming = |append| Append { payloads: vec![payload.clone()], ..append };
    let claims = [1, 2].map(|number| engine.claim(id(number)).unwrap());
    put(&engine, naming(append(&claims[0], id(1), 1, 1))).unwrap();
    tables.sql("update content set named = named - interval '3 days'");
    std::thread::scope(|scope| {
        let removal = || tables.sql("begin; delete from content; select pg_sleep(1.5); commit");
        let removal = scope.spawn(removal);
        let removing = "select count(*) from pg_stat_activity \
                        where wait_event = 'PgSleep' and query like '%delete from content;%'";
        while !removal.is_finished() && tables.sql(removing) == "0" {}
        put(&engine, naming(append(&claims[1], id(2), 1, 1))).unwrap();
    });
    assert_eq!(engine.reader().payload(payload.0).unwrap().as_deref(), Some(&b"contents"[..]));
}
