//! The suite of all engines, on PostgreSQL.

use std::path::Path;
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leftfold_events::{Seq, SessionId, Time};
use leftfold_postgres::{
    FurtherPlaces, Options, Postgres, PostgresEngine, PostgresReader, migrate,
};
use leftfold_store::engine::{Append, Engine, Epoch, ReadEngine};
use leftfold_store::{Error, Head, Summary};

use crate::cluster::{MakesTables, Tables, shared};
use crate::conformance::EnginePlace;
use crate::helpers::{event, id, quick};

struct Database(Tables<'static>, tempfile::TempDir);

/// `None` without PostgreSQL.
fn database() -> Option<Database> {
    Some(Database(shared()?.tables(), tempfile::tempdir().unwrap()))
}

impl EnginePlace for Database {
    fn open(&self) -> Result<Box<dyn Engine>, Error> {
        let node = Postgres::open(&self.0.address(), Options::default()).unwrap();
        Ok(Box::new(PostgresEngine::new(node)))
    }

    fn read(&self) -> Box<dyn ReadEngine> {
        Box::new(PostgresReader::open(&self.0.address()).unwrap())
    }

    fn dir(&self) -> &Path {
        self.1.path()
    }
}

crate::conformance::conformance!(match database() {
    Some(database) => database,
    None => return,
});

/// Sends one event, and answers what became of it.
fn send(engine: &dyn Engine, session: SessionId, epoch: Epoch, seq: Seq) -> Result<(), Error> {
    send_wanting(engine, session, epoch, seq, false)
}

fn send_wanting(
    engine: &dyn Engine,
    session: SessionId,
    epoch: Epoch,
    seq: Seq,
    wants: bool,
) -> Result<(), Error> {
    let (sender, receiver) = mpsc::channel();
    engine.append(Append {
        session,
        epoch,
        expected: Some(seq - 1).filter(|last| *last > 0),
        events: vec![event(seq)],
        payloads: Vec::new(),
        head: Vec::new(),
        usage: None,
        wants,
        settles: Vec::new(),
        done: Box::new(move |result| drop(sender.send(result))),
    });
    receiver.recv().unwrap()
}

fn open(tables: &Tables<'_>, options: Options) -> PostgresEngine {
    PostgresEngine::new(Postgres::open(&tables.address(), options).unwrap())
}

fn is_taken<T: std::fmt::Debug>(claim: &Result<T, Error>) -> bool {
    matches!(claim, Err(Error::Taken { .. }))
}

/// A root, its child and its fork have one owner and one epoch, whichever of them is claimed first.
#[test]
fn a_family_is_claimed_and_given_back_as_a_whole() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let (first, second) = (open(&tables, Options::default()), open(&tables, Options::default()));
    let [root, child, fork] = [1, 2, 3].map(id);
    let epoch = first.claim(root, None).unwrap();
    send(&first, root, epoch, 1).unwrap();
    // those that begin later join it
    for (session, from) in [(child, root), (fork, child)] {
        assert_eq!(first.claim(session, Some(from)).unwrap(), epoch);
        assert_eq!(first.family(session), root);
        send(&first, session, epoch, 1).unwrap();
        assert!(is_taken(&second.claim(session, None)));
    }
    // one session after the other rests, and the family stays
    first.release(root, epoch);
    first.release(child, epoch);
    assert!(is_taken(&second.claim(root, None)));
    assert_eq!(first.claim(child, Some(root)).unwrap(), epoch);
    send(&first, child, epoch, 2).unwrap();
    first.release(child, epoch);
    first.release(fork, epoch);
    // the last one gives all of it back
    let deadline = Instant::now() + Duration::from_secs(10);
    let later = loop {
        match second.claim(child, Some(root)) {
            Ok(epoch) => break epoch,
            Err(error) => assert!(is_taken(&Err::<(), _>(error)) && Instant::now() < deadline),
        }
    };
    assert!(later > epoch);
    let epochs = tables.sql("select distinct epoch, count(*) from session group by epoch");
    assert_eq!(epochs, format!("{later}|3"));
    for session in [root, fork] {
        assert!(is_taken(&first.claim(session, None)));
    }
}

/// The old owner's appends to any session of the family fail after a claim, and its effects do not begin.
#[test]
fn a_zombie_is_fenced_in_all_of_the_family() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let (zombie, next) = (open(&tables, Options::default()), open(&tables, Options::default()));
    let epoch = zombie.claim(id(1), None).unwrap();
    assert_eq!(zombie.claim(id(2), Some(id(1))).unwrap(), epoch);
    for session in [id(1), id(2)] {
        send(&zombie, session, epoch, 1).unwrap();
        assert!(zombie.holds(session, epoch).is_some());
    }
    // as if its lease had run out long ago, and it had slept
    tables.sql("update session set owner = null");
    let later = next.claim(id(2), None).unwrap();
    assert!(matches!(send(&zombie, id(1), epoch, 2), Err(Error::Fenced { .. })));
    assert!(matches!(send(&zombie, id(2), epoch, 2), Err(Error::Fenced { .. })));
    zombie.release(id(1), epoch);
    zombie.release(id(2), epoch);
    send(&next, id(2), later, 2).unwrap();
    assert!(is_taken(&zombie.claim(id(1), None)));
    assert!(zombie.holds(id(1), epoch).is_none() && next.holds(id(2), later).is_some());
}

/// After its lease has run out, a node asks whether a session is still its own.
#[test]
fn a_lapse_of_the_lease_is_noticed() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let (node, other) = (open(&tables, quick()), open(&tables, Options::default()));
    let mine = node.claim(id(1), None).unwrap();
    let lost = node.claim(id(2), None).unwrap();
    // it cannot renew, and then it can
    tables.sql("create function refuse() returns trigger language plpgsql as $$ begin perform pg_sleep(2.5); return new; end $$; \
         create trigger slow before update on node for each row execute function refuse();");
    sleep(Duration::from_millis(1_800));
    tables.sql(&format!("update session set owner = null where id = '{}'", uuid(id(2))));
    other.claim(id(2), None).unwrap();
    tables.sql("drop trigger slow on node");
    assert!(node.holds(id(1), mine).is_some());
    assert!(node.holds(id(2), lost).is_none());
}

/// Sessions that want a node are found by nodes of their place, once nobody lives who owns them.
#[test]
fn sessions_without_an_owner_are_found_where_they_belong() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let of = |place: &str| Options { place: place.into(), ..quick() };
    let owner = open(&tables, of("host:a"));
    let (near, far) = (open(&tables, of("host:a")), open(&tables, of("host:b")));
    let (woken, wakes) = mpsc::channel();
    near.on_release(Box::new(move || woken.send(()).is_ok()));
    let wanting = [id(1), id(2), id(3)];
    let epochs = wanting.map(|session| owner.claim(session, None).unwrap());
    for (session, epoch) in wanting.into_iter().zip(epochs) {
        send_wanting(&owner, session, epoch, 1, true).unwrap();
    }
    // the last batch decides
    send_wanting(&owner, id(3), epochs[2], 2, false).unwrap();
    assert_eq!(near.unowned(&[], 10).unwrap(), []);
    owner.release(id(1), epochs[0]);
    wakes.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(near.unowned(&[], 10).unwrap(), [id(1)]);
    assert_eq!(near.unowned(&[], 0).unwrap(), []);
    assert_eq!(far.unowned(&[], 10).unwrap(), []);
    // that node stands still, and the others wait for its lease and a whole one of their own
    tables.sql(
        "create function refuse() returns trigger language plpgsql as $$ begin return null; end $$; \
         create trigger stop before update on node for each row \
         when (old.labels = '{stopped}') execute function refuse(); \
         update node set labels = '{stopped}' where id = (select owner from session where seq = 2)",
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    while near.unowned(&[], 10).unwrap() != [id(1), id(2)] {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(far.unowned(&[], 10).unwrap(), []);
    near.claim(id(2), None).unwrap();
    assert_eq!(near.unowned(&[id(2)], 10).unwrap(), [id(1)]);
    // its own one, with which nobody goes on
    assert_eq!(near.unowned(&[], 10).unwrap(), [id(1), id(2)]);
    // an owner that leaves gives the rest back, and takes nothing more
    near.leave();
    assert!(near.claim(id(1), None).is_err());
    let late = open(&tables, of("host:a"));
    assert_eq!(late.unowned(&[], 10).unwrap(), [id(1), id(2)]);
}

/// A family that was bound to an executor goes on at any node that knows it, and stays bound to it.
#[test]
fn sessions_at_an_executor_belong_to_the_nodes_that_know_it() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let of = |place: &str, known: &'static [&str]| {
        let further =
            FurtherPlaces::new(move || known.iter().map(|name| (*name).to_owned()).collect());
        open(&tables, Options { place: place.into(), further, ..quick() })
    };
    let owner = of("host:a", &["executor:build"]);
    let far = of("host:b", &["executor:other", "executor:build"]);
    let unknowing = of("host:a", &["executor:other"]);
    let place = |session| owner.reader().owner(id(session)).unwrap().place;
    let epoch = owner.claim(id(1), None).unwrap();
    assert!(owner.bind(id(1), epoch + 1, "executor:build").is_err());
    owner.bind(id(1), epoch, "executor:build").unwrap();
    let child = owner.claim(id(2), Some(id(1))).unwrap();
    send_wanting(&owner, id(1), epoch, 1, true).unwrap();
    assert_eq!((place(1), place(2)), (Some("executor:build".into()), place(1)));
    owner.release(id(1), epoch);
    owner.release(id(2), child);
    let deadline = Instant::now() + Duration::from_secs(10);
    while far.unowned(&[], 10).unwrap() != [id(1)] {
        assert!(Instant::now() < deadline);
    }
    assert_eq!(unknowing.unowned(&[], 10).unwrap(), []);
    let elsewhere = |node: &PostgresEngine| node.inboxes().unwrap().elsewhere(id(1)).unwrap();
    assert_eq!(elsewhere(&far), None);
    assert_eq!(elsewhere(&unknowing).unwrap().place, Some("executor:build".into()));
    // also one that was named takes it, and the place stays
    let epoch = unknowing.claim(id(1), None).unwrap();
    assert_eq!(place(1), Some("executor:build".into()));
    unknowing.release(id(1), epoch);
    while far.unowned(&[], 10).unwrap() != [id(1)] {
        assert!(Instant::now() < deadline);
    }
    far.claim(id(1), None).unwrap();
    assert!(owner.bind(id(1), epoch, "executor:other").is_err());
    assert_eq!(place(1), Some("executor:build".into()));
}

/// Tables of an earlier version have each session in a family of its own.
#[test]
fn sessions_of_earlier_versions_join_their_families() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let node = open(&tables, Options::default());
    let head = |session, parent, fork_of| {
        let summary = Some(Summary { parent, fork_of, ..Summary::default() });
        let at = Time::from_millis(1);
        Head { session, seq: 1, chain: event(1).link, at, summary }.encode()
    };
    for (session, parent, fork_of) in
        [(1, None, None), (2, Some(1), None), (3, None, Some(2)), (4, None, Some(9))]
    {
        let session = id(session);
        let epoch = node.claim(session, None).unwrap();
        let (sender, receiver) = mpsc::channel();
        node.append(Append {
            session,
            epoch,
            expected: None,
            events: vec![event(1)],
            payloads: Vec::new(),
            head: head(session, parent.map(id), fork_of.map(id)),
            usage: None,
            wants: false,
            settles: Vec::new(),
            done: Box::new(move |result| drop(sender.send(result))),
        });
        receiver.recv().unwrap().unwrap();
    }
    drop(node);
    tables.sql(
        "update version set number = 2; drop table outcome; alter table node drop column lease; \
         alter table node drop column draining; \
         alter table content drop column named; alter table content rename to payload; drop table mention; \
         alter table session drop column trouble; alter table session drop column troubled; \
         alter table session drop column project, drop column first_prompt, drop column last_day, drop column last_cost; \
         drop index session_wanting; \
         alter table session add column due timestamptz; \
         create index session_waiting on session (due) where wants and owner is null",
    );
    for _ in 0..2 {
        migrate(&tables.address()).unwrap();
        let families = tables.sql("select family from session order by id");
        let expected = [1, 1, 1, 4].map(|family| uuid(id(family)).to_string()).join("\n");
        assert_eq!(families, expected);
    }
}

fn uuid(session: SessionId) -> uuid::Uuid {
    uuid::Uuid::from_bytes(session.to_bytes())
}
