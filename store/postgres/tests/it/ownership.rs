//! Claims, leases and the inbox.

use std::thread::sleep;
use std::time::{Duration, Instant};

use leftfold_events::{MessageId, SessionId};
use leftfold_postgres::{Append, Error, Options, Postgres};
use leftfold_store::engine::Progress;

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

fn message(n: u128) -> MessageId {
    MessageId::from_bytes(n.to_be_bytes())
}

/// The messages that a node may take now.
fn waiting(node: &Postgres) -> Vec<(MessageId, SessionId)> {
    let waiting = node.waiting(true, &[], 100).unwrap();
    waiting.into_iter().map(|waiting| (waiting.message, waiting.session)).collect()
}

/// A message is settled exactly once, with the append that says so.
#[test]
fn messages_are_settled_with_the_append() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let owner = Postgres::open(&tables.address(), Options::default()).unwrap();
    let edge = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = owner.claim(id(1)).unwrap();
    for n in [1, 2, 1] {
        edge.post(id(1), message(n), vec![n as u8]).unwrap();
    }
    assert_eq!(waiting(&owner), [(message(1), id(1)), (message(2), id(1))]);
    assert_eq!(owner.waiting(false, &[id(1)], 100).unwrap(), []);
    assert_eq!(waiting(&edge), []);
    assert_eq!(owner.body(message(2)).unwrap(), Some(vec![2]));
    assert_eq!(edge.progress(message(1)).unwrap(), Progress::Waits);
    let settle = |n, seq| {
        let append = append(&claim, id(1), seq, seq);
        Append { settles: vec![message(n)], ..append }
    };
    put(&owner, settle(1, 1)).unwrap();
    assert_eq!(waiting(&owner), [(message(2), id(1))]);
    assert!(matches!(edge.progress(message(1)).unwrap(), Progress::Settled(_)));
    // its sender puts it there again, because the first answer was lost
    edge.post(id(1), message(1), vec![1]).unwrap();
    assert_eq!(waiting(&owner), [(message(2), id(1))]);
    // a refusal does not count any more, and everything is known until the sender has read it
    owner.conclude(message(1), b"no".to_vec(), true).unwrap();
    assert!(matches!(edge.progress(message(1)).unwrap(), Progress::Settled(_)));
    owner.conclude(message(1), b"yes".to_vec(), false).unwrap();
    assert_eq!(edge.progress(message(1)).unwrap(), Progress::Concluded(b"yes".to_vec()));
    assert!(!edge.withdraw(message(1)).unwrap());
    edge.forget(message(1)).unwrap();
    assert_eq!(edge.progress(message(1)).unwrap(), Progress::Gone);
    let error = put(&owner, settle(1, 2)).unwrap_err();
    assert!(error.to_string().contains("settled already"), "{error}");
    assert_eq!(seqs(owner.reader(), id(1)), [1]);
    // an append that is refused settles nothing
    let claim = owner.claim(id(1)).unwrap();
    let wrong = Append { settles: vec![message(2)], ..append(&claim, id(1), 5, 5) };
    assert!(matches!(put(&owner, wrong), Err(Error::Fenced { .. })));
    assert_eq!(waiting(&owner), [(message(2), id(1))]);
    // the append of another session of the family settles it too
    owner.add(id(1), claim.epoch, id(2)).unwrap();
    let fork = Append { settles: vec![message(2)], ..append(&claim, id(2), 1, 1) };
    put(&owner, fork).unwrap();
    assert_eq!(waiting(&owner), []);
    for n in 3..=66 {
        edge.post(id(1), message(n), Vec::new()).unwrap();
    }
    let error = edge.post(id(1), message(67), Vec::new()).unwrap_err();
    assert!(matches!(error, Error::InboxFull { .. }), "{error}");
    edge.post(id(1), message(66), Vec::new()).unwrap();
    assert!(edge.withdraw(message(66)).unwrap());
    owner.conclude(message(65), b"no".to_vec(), true).unwrap();
    assert_eq!(edge.progress(message(65)).unwrap(), Progress::Concluded(b"no".to_vec()));
    let large = vec![0; (16 << 20) + 1];
    assert!(matches!(edge.post(id(1), message(68), large), Err(Error::Unstorable { .. })));
    tables.sql(&format!(
        "insert into inbox (id, session, body) select '{}', session, repeat('x', {})::bytea from inbox limit 1",
        uuid::Uuid::from_u128(69),
        (16 << 20) + 1
    ));
    assert_eq!(owner.body(message(69)).unwrap(), None);
}

/// Without an owner, only nodes of its place take a session's messages, and others know that it is elsewhere.
#[test]
fn messages_wait_for_the_place_of_their_session() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let at = |place: &str| Options { place: place.into(), ..Options::default() };
    let here = Postgres::open(&tables.address(), at("here")).unwrap();
    let sibling = Postgres::open(&tables.address(), at("here")).unwrap();
    let there = Postgres::open(&tables.address(), at("there")).unwrap();
    let claim = here.claim(id(1)).unwrap();
    put(&here, append(&claim, id(1), 1, 1)).unwrap();
    assert_eq!(here.elsewhere(id(1)).unwrap(), None);
    assert!(sibling.elsewhere(id(1)).unwrap().unwrap().node.is_some());
    assert_eq!(sibling.elsewhere(id(9)).unwrap(), None);
    there.post(id(1), message(1), Vec::new()).unwrap();
    assert_eq!(there.reader().status().unwrap().waiting, 0);
    here.release(id(1), claim.epoch).unwrap();
    assert_eq!(there.reader().status().unwrap().waiting, 1);
    assert_eq!(sibling.elsewhere(id(1)).unwrap(), None);
    let elsewhere = there.elsewhere(id(1)).unwrap().unwrap();
    assert_eq!((elsewhere.node, elsewhere.place.as_deref()), (None, Some("here")));
    assert_eq!(waiting(&there), []);
    assert_eq!(waiting(&sibling), [(message(1), id(1))]);
    assert!(!sibling.waiting(true, &[], 1).unwrap()[0].is_mine);
    assert_eq!(sibling.waiting(false, &[], 100).unwrap(), []);
}
