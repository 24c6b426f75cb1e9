//! A node is killed: everything that was acknowledged as durable is there, and every event is
//! complete.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::common::{envelope, id, text};
use leftfold_events::{Envelope, Seq};
use leftfold_store::{Store, check};

const DIR: &str = "LEFTFOLD_CRASH_DIR";

fn event(seq: Seq) -> Envelope {
    envelope(id(1), seq, text(seq, [50, 1_000, 4_000, 20_000][(seq % 4) as usize]))
}

/// Batches of three events.
fn batch(first: Seq) -> Vec<Envelope> {
    (first..first + 3).map(event).collect()
}

/// Not a test of its own: the node that [`kill_after`] kills. Without the folder's variable it does
/// nothing.
#[test]
fn node() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let store = Store::open(dir.as_ref()).unwrap();
    let mut log = store.log(id(1), None).unwrap();
    loop {
        log.append_wait(&batch(log.head() + 1)).unwrap();
        writeln!(std::io::stdout(), "acknowledged {}", log.head()).unwrap();
    }
}

/// Seq of the last event that was acknowledged to the node as durable.
fn kill_after(dir: &std::path::Path, batches: usize) -> Seq {
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::node", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let mut acknowledged = lines.filter_map(|line| {
        line.unwrap().rsplit_once("acknowledged ").map(|(_, seq)| seq.parse::<Seq>().unwrap())
    });
    let last = acknowledged.by_ref().nth(batches - 1).unwrap();
    node.kill().unwrap();
    node.wait().unwrap();
    // its output up to the kill is still in the pipe
    acknowledged.last().unwrap_or(last)
}

#[test]
fn nothing_acknowledged_is_lost_and_no_batch_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let mut reached = 0;
    for round in 1..=12 {
        let acknowledged = kill_after(dir.path(), round);
        assert!(acknowledged > reached, "the node goes on where the last one was killed");
        let report = check(dir.path()).unwrap();
        assert_eq!(report.damage, [], "round {round}");
        assert!(report.events >= acknowledged, "{} < {acknowledged}", report.events);
        assert_eq!(report.events % 3, 0, "a batch is there or not");
        reached = report.events;
    }
    let store = Store::open(dir.path()).unwrap();
    let read = store.log(id(1), None).unwrap().read().unwrap();
    assert_eq!(read, (1..=reached).map(event).collect::<Vec<_>>());
}
