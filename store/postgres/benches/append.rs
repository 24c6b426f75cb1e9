//! Compares durable appends of 1 KiB to logs in PostgreSQL with single statements on the same server, and with logs in
//! sled on the same disk. Everything runs in one process, in interleaved blocks, so that a slow phase of the disk
//! affects every candidate. The server is started for it: `apt-get install postgresql`.
//!
//! Run it with `cargo bench -p leftfold-postgres --bench append`.
#![allow(clippy::print_stdout, reason = "its output is the point of a benchmark")]
#![allow(clippy::disallowed_methods, reason = "what a Session can do with a log is measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::postgres::{Cluster, own};
use leftfold_events::event::Session;
use leftfold_events::{Envelope, Notes, SessionId, Time};
use leftfold_postgres::{Address, Options, Postgres, PostgresEngine, migrate};
use leftfold_store::{Log, Store};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement};

const BLOCKS: usize = 5;
const APPENDS: usize = 400;
const SIZE: usize = 1_024;
/// Appends of each session, where many append at once.
const EACH: usize = 20;

fn main() {
    let Some(cluster) = own() else { return };
    let address = address(&cluster);
    migrate(&address).unwrap();
    let node = Postgres::open(&address, Options::default()).unwrap();
    let database =
        Store::with(Box::new(PostgresEngine::new(node)), &cluster.folder().join("files"));
    let folder = Store::open(&cluster.folder().join("sled")).unwrap();
    one(&cluster, &database, &folder);
    for sessions in [100, 1_000] {
        many(&database, &folder, sessions);
    }
}

/// Through a socket of the file system: no network, no password.
fn address(cluster: &Cluster) -> Address {
    let socket = cluster.folder().display().to_string().replace('/', "%2F");
    Address::parse(&format!("postgresql://app@{socket}:{}/logs", cluster.port())).unwrap()
}

fn event(session: SessionId, seq: u64) -> Envelope {
    let title = "x".repeat(SIZE - 40);
    let at = Time::from_millis(1_700_000_000_000 + seq);
    let (of, until, notes) = (None, None, Notes::default());
    Envelope { session, seq, at, of, until, event: Session::Titled { title }.into(), notes }
}

fn log(store: &Store, number: u64) -> Log {
    store
        .log(SessionId::default().child(number, Time::from_millis(1_700_000_000_000)), None)
        .unwrap()
}

/// One session that waits for each event, beside a row that is inserted in a transaction of its own.
fn one(cluster: &Cluster, database: &Store, folder: &Store) {
    let raw = Raw::connect(cluster);
    let (mut rows, mut folders) = (log(database, 1), log(folder, 1));
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..BLOCKS {
        times[0].extend(block(|| raw.insert()));
        times[1].extend(block(|| append(&mut rows)));
        times[2].extend(block(|| append(&mut folders)));
    }
    let [raw, database, folder] = times.map(Quantiles::of);
    println!("durable append of 1 KiB by one session, {BLOCKS} blocks of {APPENDS}:");
    println!("  a row of its own in PostgreSQL: {raw}");
    println!("  a log in PostgreSQL: {database}, {:.2} x a row", ratio(database.half, raw.half));
    println!(
        "  a log in sled: {folder}; PostgreSQL takes {:.2} x",
        ratio(database.half, folder.half)
    );
}

/// Many sessions that each wait for their own events.
fn many(database: &Store, folder: &Store, sessions: u64) {
    let logs = |store| (0..sessions).map(|n| log(store, 10_000 * sessions + n)).collect::<Vec<_>>();
    let (mut rows, mut folders) = (logs(database), logs(folder));
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..BLOCKS {
        rates[0].push(rounds(&mut rows));
        rates[1].push(rounds(&mut folders));
    }
    let [database, folder] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[BLOCKS / 2]
    });
    println!("{sessions} sessions: {database:.0} appends/s in PostgreSQL, {folder:.0} in sled");
}

/// A connection that inserts rows and nothing else.
struct Raw {
    runtime: Runtime,
    client: Client,
    insert: Statement,
    body: Vec<u8>,
}

impl Raw {
    fn connect(cluster: &Cluster) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = format!(
            "host={} port={} user=app dbname=logs",
            cluster.folder().display(),
            cluster.port()
        );
        let (client, insert) = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&settings, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("create table raw (body bytea)").await.unwrap();
            let insert = client.prepare("insert into raw values ($1)").await.unwrap();
            (client, insert)
        });
        Self { runtime, client, insert, body: vec![0x5a; SIZE] }
    }

    fn insert(&self) {
        self.runtime.block_on(self.client.execute(&self.insert, &[&self.body])).unwrap();
    }
}

fn block(mut append: impl FnMut()) -> Vec<Duration> {
    let timed = |_| {
        let start = Instant::now();
        append();
        start.elapsed()
    };
    (0..APPENDS).map(timed).collect()
}

fn append(log: &mut Log) {
    log.append_wait(&[event(log.session(), log.head() + 1)]).unwrap();
}

/// Each session appends its next event when its last one is acknowledged. Returns appends per second.
fn rounds(logs: &mut [Log]) -> f64 {
    let (sender, receiver) = mpsc::channel();
    let send = |log: &mut Log, n: usize| {
        let sender = sender.clone();
        let event = event(log.session(), log.head() + 1);
        log.append(&[event], move |result| {
            result.unwrap();
            sender.send(n).unwrap();
        });
    };
    let start = Instant::now();
    let mut left = vec![EACH - 1; logs.len()];
    logs.iter_mut().enumerate().for_each(|(n, log)| send(log, n));
    for _ in 0..logs.len() * EACH {
        let n = receiver.recv().unwrap();
        if left[n] > 0 {
            left[n] -= 1;
            send(&mut logs[n], n);
        }
    }
    (logs.len() * EACH) as f64 / start.elapsed().as_secs_f64()
}

#[derive(Clone, Copy)]
struct Quantiles {
    half: Duration,
    most: Duration,
}

impl Quantiles {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self { half: times[times.len() / 2], most: times[times.len() * 99 / 100] }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "p50 {:.2} ms, p99 {:.2} ms", ms(self.half), ms(self.most))
    }
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
