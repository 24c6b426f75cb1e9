//! A small store that contains every kind of file and record, and helpers to change its files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use leftfold_events::event::{EndReason, Finished, Session, Spill, Subagent, Tool, Turn, Usage};
use leftfold_events::{Envelope, Payload, SessionId, Sha256};
use leftfold_store::{Reader, Store};
use tempfile::TempDir;

use crate::common::{configured, created, envelope, finished, id, prompted, text};

pub type Logs = Vec<(SessionId, Vec<Envelope>)>;

pub const SPILL: &[u8] = b"the full text of a long output\n";

/// A root with a child, contents behind hashes, an event of several parts, one in a file and one
/// with a full text beside the log; and a fork of it. The batches are in the order of writing.
pub fn batches(dir: &Path) -> Vec<Vec<Envelope>> {
    let (root, child, fork) = (id(1), id(2), id(3));
    let mut config = configured();
    config.system = Payload::new("You are a test. ".repeat(300));
    let path = dir.join("spill/c1.txt").to_string_lossy().into_owned();
    let spill = Some(Spill { path, sha256: Sha256::digest(SPILL), bytes: SPILL.len() as u64 });
    let spawned = Subagent::Spawned {
        call: "c".into(),
        session: child,
        agent: "explore".into(),
        max_cost: None,
    };
    let ended = Subagent::Ended {
        session: child,
        answer: "42".into(),
        reason: EndReason::Completed,
        usage: Usage::default(),
        cost: 0.0,
    };
    vec![
        vec![
            envelope(root, 1, created(None)),
            envelope(root, 2, Turn::Configured(config)),
            envelope(root, 3, prompted()),
        ],
        vec![envelope(root, 4, text(4, 30)), envelope(root, 5, spawned)],
        vec![envelope(child, 1, created(Some(root))), envelope(child, 2, prompted())],
        vec![envelope(child, 3, text(33, 5_000))],
        vec![envelope(root, 6, ended)],
        vec![envelope(root, 7, text(7, 66_000))],
        vec![envelope(fork, 7, Session::Forked { from: root, at: 6 })],
        vec![envelope(root, 8, Tool::Finished(Box::new(Finished { spill, ..finished() })))],
        vec![envelope(fork, 8, text(88, 40)), envelope(fork, 9, text(99, 3_500))],
        vec![envelope(root, 9, text(9, 40))],
    ]
}

/// The store, opened and written three times, so that sled has a snapshot and a log after it.
pub fn store() -> TempDir {
    let dir = memory();
    let batches = batches(dir.path());
    for opening in batches.chunks(4) {
        let store = Store::open(dir.path()).unwrap();
        for batch in opening {
            store.log(batch[0].session, None).unwrap().append_wait(batch).unwrap();
        }
    }
    fs::create_dir(dir.path().join("spill")).unwrap();
    fs::write(dir.path().join("spill/c1.txt"), SPILL).unwrap();
    dir
}

/// The events of each session.
pub fn logs(dir: &Path) -> Logs {
    let reader = Reader::open(dir).unwrap();
    let read = |session| (session, reader.read(session, 1).unwrap());
    reader.sessions().unwrap().into_iter().map(read).collect()
}

/// A folder in memory, if the machine has one.
pub fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Paths relative to the store, and contents, of all files.
pub fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

/// A random generator: equal seeds give equal numbers.
pub struct Random(u64);

impl Random {
    /// Seeds from `LEFTFOLD_SEED`, and prints the seed so that a failure can be repeated.
    pub fn new() -> Self {
        let seed = std::env::var("LEFTFOLD_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or(7);
        println!("LEFTFOLD_SEED={seed}");
        Self(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % end as u64).unwrap()
    }

    /// Chooses `count` of the items, each at most once.
    pub fn some<T>(&mut self, mut of: Vec<T>, count: usize) -> Vec<T> {
        let count = count.min(of.len());
        for n in 0..count {
            let other = n + self.below(of.len() - n);
            of.swap(n, other);
        }
        of.truncate(count);
        of
    }
}

/// A count from the environment; `all` means everything.
pub fn count(name: &str, default: usize) -> usize {
    match std::env::var(name).as_deref() {
        Ok("all") => usize::MAX,
        Ok(count) => count.parse().unwrap(),
        Err(_) => default,
    }
}

/// Runs the cases on as many threads as there are cores.
pub fn in_parallel<T: Sync, R: Send>(
    cases: &[T],
    run: impl Fn(&mut Vec<&T>) -> R + Sync,
) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(2, Into::into);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (mut mine, run) = (cases.iter().skip(n).step_by(threads).collect(), &run);
                scope.spawn(move || run(&mut mine))
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}
