//! Faults of a database, and the advice of each error.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use leftfold_postgres::{Address, Error, Options, Postgres, PostgresReader, migrate};

use crate::cluster::{MakesTables, PASSWORD, own, shared};
use crate::helpers::{append, id, put, seqs};
use common::postgres_proxy::Proxy;

fn open(url: &str) -> Result<Postgres, Error> {
    let opened = Address::parse(url).and_then(|url| Postgres::open(&url, Options::default()));
    if let Err(error) = &opened {
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(!text.contains(PASSWORD) && !text.contains("wr0ng"), "{text}");
        }
    }
    opened
}

#[test]
fn each_wrong_url_says_what_to_do() {
    let Some(cluster) = shared() else { return };
    let port = cluster.port();
    let url = cluster.url(port, "leftfold");
    for (url, expected) in [
        (url.replace(PASSWORD, "wr0ng-pw"), "check user and password"),
        (url.replace(&format!(":{PASSWORD}"), ""), "check user and password"),
        (url.replace("app:", "nobody:"), "check user and password"),
        (url.replace("/logs", "/absent"), "createdb"),
        (url.replace(&port.to_string(), "1"), "check the host, the port"),
        (url.replace("127.0.0.1", "no.such.host.invalid") + "&sslmode=disable", "check the host"),
        (url.clone() + "&sslmode=require", "does not speak TLS"),
        (url.replace("schema=leftfold", "schema=absent"), "leftfold fleet init"),
    ] {
        let error = open(&url).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_user_without_rights_is_told_which() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    cluster.sql(&format!("create role guest login password '{PASSWORD}'"));
    let url = cluster.url(cluster.port(), &tables.schema).replace("app:", "guest:");
    let error = open(&url).map(drop).unwrap_err();
    // without `usage` of a schema, its tables are not seen at all
    assert!(matches!(error, Error::NoSchema { .. } | Error::Rights { .. }), "{error}");
    tables.sql(&format!("grant usage on schema {} to guest", tables.schema));
    let error = open(&url).map(drop).unwrap_err();
    assert!(matches!(error, Error::Rights { .. }), "{error}");
    let error = migrate(&Address::parse(&url.replace("schema=", "schema=new_")).unwrap());
    assert!(matches!(error, Err(Error::Rights { .. })), "{error:?}");
}

#[test]
fn migrating_is_idempotent_and_refuses_newer_tables() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let several: Vec<_> = std::thread::scope(|scope| {
        let migrations: Vec<_> =
            (0..4).map(|_| scope.spawn(|| migrate(&tables.address()))).collect();
        migrations.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(several.iter().all(Result::is_ok), "{several:?}");
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 1)).unwrap();
    migrate(&tables.address()).unwrap();
    assert_eq!(seqs(engine.reader(), id(1)), [1]);
    drop(engine);
    tables.sql("update version set number = 99");
    for result in [
        migrate(&tables.address()),
        Postgres::open(&tables.address(), Options::default()).map(drop),
        PostgresReader::open(&tables.address()).map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("use a newer leftfold"), "{error}");
    }
    assert_eq!(tables.sql("select number from version"), "99");
    tables.sql("delete from version");
    let error = PostgresReader::open(&tables.address()).map(drop).unwrap_err();
    assert!(matches!(error, Error::NoSchema { .. }), "{error}");
}

#[test]
fn several_nodes_may_create_the_tables_at_once() {
    let Some(cluster) = shared() else { return };
    let address = Address::parse(&cluster.url(cluster.port(), "at_once")).unwrap();
    let results: Vec<_> = std::thread::scope(|scope| {
        let migrations: Vec<_> = (0..4).map(|_| scope.spawn(|| migrate(&address))).collect();
        migrations.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    Postgres::open(&address, Options::default()).unwrap();
}

/// A server that is set up wrongly, one setting after the other; a database that only reads; and one
/// with a certificate.
#[test]
fn servers_that_are_not_safe_are_refused() {
    let Some(cluster) = own() else { return };
    let tables = cluster.tables();
    let engine = Postgres::open(&tables.address(), Options::default()).unwrap();
    let claim = engine.claim(id(1)).unwrap();
    put(&engine, append(&claim, id(1), 1, 1)).unwrap();
    drop(engine);
    let reopen = || Postgres::open(&tables.address(), Options::default()).map(drop);
    cluster.sql("alter database logs set default_transaction_read_only = on");
    let error = reopen().unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(matches!(migrate(&tables.address()), Err(Error::ReadOnly { .. })));
    // reading is possible
    assert_eq!(seqs(&PostgresReader::open(&tables.address()).unwrap(), id(1)), [1]);
    cluster.sql("alter database logs reset default_transaction_read_only");
    reopen().unwrap();
    for setting in ["fsync", "full_page_writes"] {
        cluster.set(&format!("{setting} = off"));
        cluster.sql("select pg_reload_conf()");
        while cluster.sql(&format!("show {setting}")) != "off" {}
        let error = reopen().unwrap_err();
        assert!(error.to_string().contains(&format!("{setting} = off")), "{error}");
        cluster.set(&format!("{setting} = on"));
        cluster.sql("select pg_reload_conf()");
        while cluster.sql(&format!("show {setting}")) != "on" {}
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(certificate) = cluster.speak_tls(dir.path(), "localhost") else { return };
    let certificate = certificate.display();
    let url = cluster.url(cluster.port(), &tables.schema);
    let trusting = format!("{url}&sslmode=verify-full&sslrootcert={certificate}");
    // nobody knows its authority; it names another host; both are right
    let error = open(&format!("{url}&sslmode=verify-full")).map(drop).unwrap_err();
    assert!(matches!(error, Error::Certificate { .. }), "{error}");
    let error = open(&trusting).map(drop).unwrap_err();
    assert!(error.to_string().contains("name the host as its certificate does"), "{error}");
    let engine = open(&trusting.replace("127.0.0.1", "localhost")).unwrap();
    assert_eq!(seqs(engine.reader(), id(1)), [1]);
    let encrypted = "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) \
                     where application_name = 'leftfold'";
    assert_eq!(tables.sql(encrypted), "t");
    let error = open(&format!("{url}&sslmode=verify-full&sslrootcert=/absent")).map(drop);
    assert!(matches!(error, Err(Error::Roots { .. })), "{error:?}");
}

/// A pooler in transaction mode does not pass notifications on.
#[test]
fn a_pooler_that_breaks_notifications_is_found() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let proxy = Proxy::before(cluster.port());
    let through = tables.through(proxy.port());
    Postgres::open(&through, Options::default()).unwrap();
    proxy.swallow_notifications();
    let error = Postgres::open(&through, Options::default()).map(drop).unwrap_err();
    assert!(matches!(error, Error::Pooler { .. }), "{error}");
}

/// A stuck server acknowledges what it is sent, so that only a time limit finds it.
#[test]
fn a_server_that_gets_stuck_holds_no_reader_for_ever() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let proxy = Proxy::before(cluster.port());
    let reader = PostgresReader::open(&tables.through(proxy.port())).unwrap();
    proxy.hold_answers(true);
    let start = Instant::now();
    let error = reader.head(id(1)).map(drop).unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    proxy.hold_answers(false);
    assert_eq!(reader.head(id(1)), Ok(None));
}

#[test]
fn of_several_servers_a_stuck_one_is_passed_over() {
    let Some(cluster) = shared() else { return };
    let tables = cluster.tables();
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!("{},127.0.0.1:{}", stuck.local_addr().unwrap(), cluster.port());
    let one = format!("127.0.0.1:{}", cluster.port());
    let url = cluster.url(cluster.port(), &tables.schema).replace(&one, &hosts);
    let reader = PostgresReader::open(&Address::parse(&url).unwrap()).unwrap();
    assert_eq!(reader.head(id(1)), Ok(None));
}
