//! Claims, leases and the inbox.

use std::thread::sleep;
use std::time::{Duration, Instant};

use leftfold_postgres::{Append, Error, Options, Postgres};
use uuid::Uuid;

use crate::cluster::{MakesTables, shared};
use crate::helpers::{append, end, id, put, quick, seqs};

#[test]
fn a_family_has_one_owner_and_one_epoch() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let first = Postgres::open(&tables.address(), Options::default()).unwrap();
    let second = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = first.claim(id(1)).unwrap();
    put(&first, append(&claim, id(1), 1, 3)).unwrap();
    first.add(claim.family, claim.epoch, id(2)).unwrap();
    put(&first, append(&claim, id(2), 1, 1)).unwrap();
    let error = second.claim(id(1)).unwrap_err();
    assert!(matches!(error, Error::Taken { .. }), "{error}");
    let error = second.claim(id(2)).unwrap_err();
    assert!(error.to_string().contains("belongs to the family of"), "{error}");
    // only its owner adds to a family
    assert!(matches!(second.add(claim.family, claim.epoch, id(3)), Err(Error::Fenced { .. })));
    first.release(id(1), claim.epoch).unwrap();
    let taken = second.claim(id(1)).unwrap();
    let mut ends: Vec<_> = taken.sessions.iter().map(|head| (head.session, head.end)).collect();
    ends.sort_by_key(|(_, end)| end.seq);
    assert_eq!(ends, [(id(2), end(1)), (id(1), end(3))]);
    // the old owner is fenced in all of the family, and cannot make children
    for session in [id(1), id(2)] {
        let next = if session == id(1) { 4 } else { 2 };
        let error = put(&first, append(&claim, session, next, next)).unwrap_err();
        assert!(matches!(error, Error::Fenced { .. }), "{error}");
        put(&second, append(&taken, session, next, next)).unwrap();
    }
    assert!(matches!(first.add(claim.family, claim.epoch, id(3)), Err(Error::Fenced { .. })));
    // and an old release does not take it away
    first.release(id(1), claim.epoch).unwrap();
    assert!(matches!(first.claim(id(1)), Err(Error::Taken { .. })));
}

#[test]
fn many_nodes_want_one_family_and_one_gets_it() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let nodes: Vec<_> =
        (0..4).map(|_| Postgres::open(&tables.address(), Options::default()).unwrap()).collect();
    for family in 1..=20 {
        let claims: Vec<_> = std::thread::scope(|scope| {
            let claim = |node| scope.spawn(move || Postgres::claim(node, id(family)));
            let claims: Vec<_> = nodes.iter().map(claim).collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
        let refused = claims.iter().filter_map(|claim| claim.as_ref().err());
        refused.for_each(|error| assert!(matches!(error, Error::Taken { .. }), "{error}"));
    }
}

/// A node that is gone loses its sessions when its lease has run out, and not before.
#[test]
fn a_lease_that_runs_out_is_taken_over() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let owner = Postgres::open(&tables.address(), quick()).unwrap();
    let claim = owner.claim(id(1)).unwrap();
    put(&owner, append(&claim, id(1), 1, 1)).unwrap();
    let other = Postgres::open(&tables.address(), quick()).unwrap();
    // longer than a lease: it is renewed
    sleep(Duration::from_millis(2_000));
    assert!(matches!(other.claim(id(1)), Err(Error::Taken { .. })));
    assert!(owner.lease_left() > Duration::from_millis(700), "{:?}", owner.lease_left());
    // the node stands still: nothing renews its lease, and nothing says goodbye
    tables.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin return null; end $$; \
         create trigger stop before update on node for each row \
         when (old.labels = '{stopped}') execute function refuse(); \
         update node set labels = '{stopped}' where id = (select owner from session)",
    );
    let stopped = Instant::now();
    let taken = loop {
        match other.claim(id(1)) {
            Ok(claim) => break claim,
            Err(error) => assert!(matches!(error, Error::Taken { .. }), "{error}"),
        }
    };
    let took = stopped.elapsed();
    let expected = Duration::from_millis(900)..Duration::from_millis(2_200);
    assert!(expected.contains(&took), "{took:?}");
    assert!(owner.lease_left().is_zero());
    // a stopped process that goes on has no effect, because its next append fails
    let error = put(&owner, append(&claim, id(1), 2, 2)).unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    put(&other, append(&taken, id(1), 2, 2)).unwrap();
}

/// After the database was away, all leases have run out. Nobody takes anything before its owner had
/// the time to renew.
#[test]
fn nobody_takes_over_right_after_the_database_was_away() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let owner = Postgres::open(&tables.address(), quick()).unwrap();
    let claim = owner.claim(id(1)).unwrap();
    let other = Postgres::open(&tables.address(), quick()).unwrap();
    sleep(Duration::from_millis(1_700));
    // as if nobody had renewed for long, or the clock had jumped
    for jump in ["- interval '1 hour'", "+ interval '1 hour'"] {
        tables.sql(&format!("update node set until = until {jump}"));
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(1_000) {
            let error = other.claim(id(1)).unwrap_err();
            assert!(matches!(error, Error::Taken { .. } | Error::TooEarly { .. }), "{error}");
        }
    }
    put(&owner, append(&claim, id(1), 1, 1)).unwrap();
    // a node that has just begun waits too
    tables.sql("update session set owner = gen_random_uuid()");
    let late = Postgres::open(&tables.address(), quick()).unwrap();
    let start = Instant::now();
    let error = late.claim(id(1)).unwrap_err();
    assert!(matches!(error, Error::TooEarly { .. }), "{error}");
    while late.claim(id(1)).is_err() {}
    assert!(start.elapsed() > Duration::from_millis(1_000), "{:?}", start.elapsed());
}

/// A message is settled exactly once, with the append that says so.
#[test]
fn messages_are_settled_with_the_append() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let owner = Postgres::open(&tables.address(), Options::default()).unwrap();
    let edge = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = owner.claim(id(1)).unwrap();
    let message = |n: u128| Uuid::from_u128(n);
    for n in [1, 2, 1] {
        edge.post(id(1), message(n), vec![n as u8]).unwrap();
    }
    let waiting = owner.inbox(id(1)).unwrap();
    let waiting: Vec<_> = waiting.iter().map(|m| (m.id, m.body.as_slice())).collect();
    assert_eq!(waiting, [(message(1), &[1][..]), (message(2), &[2][..])]);
    let settle = |n, seq| {
        let append = append(&claim, id(1), seq, seq);
        Append { settles: vec![message(n)], ..append }
    };
    put(&owner, settle(1, 1)).unwrap();
    assert_eq!(owner.inbox(id(1)).unwrap().len(), 1);
    let error = put(&owner, settle(1, 2)).unwrap_err();
    assert!(error.to_string().contains("settled already"), "{error}");
    assert_eq!(seqs(owner.reader(), id(1)), [1]);
    // an append that is refused settles nothing
    let claim = owner.claim(id(1)).unwrap();
    let wrong = Append { settles: vec![message(2)], ..append(&claim, id(1), 5, 5) };
    assert!(matches!(put(&owner, wrong), Err(Error::Fenced { .. })));
    assert_eq!(owner.inbox(id(1)).unwrap().len(), 1);
    for n in 3..=65 {
        edge.post(id(1), message(n), Vec::new()).unwrap();
    }
    let error = edge.post(id(1), message(66), Vec::new()).unwrap_err();
    assert!(matches!(error, Error::InboxFull { .. }), "{error}");
    edge.post(id(1), message(65), Vec::new()).unwrap();
}
