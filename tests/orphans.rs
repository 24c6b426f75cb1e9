//! Promise 5: a node is killed at some point while its commands fork, leave their group and session, and
//! refuse to end: the next start ends all of them, and nobody else.
//!
//! `LEFTFOLD_KILLS` says how many nodes are killed (12 if it is not set), `LEFTFOLD_SEED` with which seed
//! the series begins.
#![cfg(test)]

mod common;

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Site, bash, end, says, script, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

/// Ten times what is promised for the next start, for machines that are busy.
const SOON: Duration = Duration::from_secs(30);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Ids of running processes whose command line has this text.
fn running(text: &str) -> Vec<u32> {
    let table = std::fs::read_dir("/proc").unwrap();
    let pids = table.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        // a process that has ended has no command line
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

/// A process that is nobody's of these, and that does not outlive its test.
struct Stranger(Child);

impl Stranger {
    fn start(args: &[&str], mark: Option<&str>) -> Self {
        let mut command = Command::new(args[0]);
        command.args(&args[1..]).stdin(Stdio::null()).process_group(0);
        command.envs(mark.map(|mark| ("LEFTFOLD_CALL", mark)));
        Self(command.spawn().unwrap())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // it may have been ended, which is what is tested
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ways of a command to leave something behind; `NAP` is how long that sleeps.
const WAYS: [&str; 8] = [
    "sleep NAP &",
    "setsid sleep NAP &",
    // twice forked, in a session of its own, with nothing of its parent's open
    "(setsid sh -c 'exec sleep NAP </dev/null >/dev/null 2>&1' &) &",
    "sh -c 'trap \"\" TERM HUP INT; while :; do sleep NAP; done' &",
    "setsid sh -c 'trap \"\" TERM; (sleep NAP; sleep NAP) & sleep NAP' &",
    "nohup sleep NAP >/dev/null 2>&1 &",
    // without the marks, among others of the call
    "env -i sleep NAP &",
    // never done with forking
    "sh -c 'while :; do sleep NAP & sleep 0.02; done' &",
];

/// Commands that leave something behind and end, one that is still running, and one that keeps the next
/// node there.
fn forking(token: &str) -> Value {
    let ways = |ways: &[&str]| ways.join("\n").replace("NAP", token);
    let mut waits = bash("while [ ! -e go ]; do sleep 0.02; done");
    waits["parts"].as_array_mut().unwrap().insert(0, json!({ "text": "Wait." }));
    script(json!([
        bash(&format!("{}\ntrue", ways(&WAYS[..3]))),
        bash(&format!("{}\ntrue", ways(&WAYS[3..5]))),
        bash(&format!("{}\nwait", ways(&WAYS[5..]))),
        waits,
        says("The end."),
    ]))
}

/// Lines that a run prints until it waits in its third command, more or less.
const LINES: u64 = 20;

/// How many processes a killed node has left, and how long the next one took to end them.
fn kill_and_start_again(seed: u64) -> (usize, Duration) {
    // no other test and no other run sleeps as long
    let token = format!("{}.{seed}", 100_000 + std::process::id());
    let site = Site::scripted(&forking(&token));
    let strangers = [
        Stranger::start(&["sleep", &token], None),
        Stranger::start(&["sleep", &token], Some("another-store:S:1:1")),
        Stranger::start(&["sh", "-c", &format!("sleep {token}; true")], None),
    ];
    wait_until("the strangers run", || running(&token).len() > strangers.len());
    let strange = running(&token);
    let left = || running(&token).into_iter().filter(|pid| !strange.contains(pid)).count();
    let mut live = site.start(&["run", "--yes", "--format", "json", "go"]);
    let lines = 1 + seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LINES;
    for _ in 0..lines {
        // the last command has no end
        if left() > 20 || live.line().is_none() {
            break;
        }
    }
    live.signal(Signal::KILL);
    live.wait();
    let orphans = left();
    let start = Instant::now();
    let mut next = site.start(&["resume", "--yes", "--format", "json", "last"]);
    wait_until("the next start has ended all of them", || left() == 0);
    let took = start.elapsed();
    site.file("go", "");
    while next.line().is_some() {}
    let ran = next.wait();
    if !site.sessions().is_empty() && ran.code == 0 {
        assert_eq!(end(&ran.events())["text"], "The end.");
        site.assert_sound();
    }
    assert_eq!(left(), 0, "seed {seed}: something was left, or came again");
    assert_eq!(running(&token), strange, "seed {seed}: a stranger was touched");
    (orphans, took)
}

#[test]
fn the_next_start_ends_what_a_killed_node_has_left_and_nobody_else() {
    let (kills, seed) = (number("LEFTFOLD_KILLS", 12), number("LEFTFOLD_SEED", 1));
    let (mut orphans, mut longest) = (0, Duration::ZERO);
    for n in 0..kills {
        let (left, took) = kill_and_start_again(seed + n);
        assert!(took < SOON, "seed {}: it took {took:?}", seed + n);
        orphans += left;
        longest = longest.max(took);
    }
    println!(
        "promise 5: {kills} kills, {orphans} processes left by them and ended, the slowest start took \
         {longest:?}, no stranger touched"
    );
    assert!(orphans as u64 >= kills, "the kills left too little to show anything: {orphans}");
}
