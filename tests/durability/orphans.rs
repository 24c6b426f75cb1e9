//! Promise 12: a node is killed while its commands fork, leave their group and session, and refuse
//! to end, and while an MCP server and a plugin run that have children of their own. The next start ends all of them
//! and no other process. Every second node runs its commands in the sandbox, which ends with the node.
//!
//! `LEFTFOLD_KILLS` sets how many nodes are killed (default 12), `LEFTFOLD_SEED` the first seed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::corpus::{PLUGIN, SERVER};
use common::mcp;
use common::plugin::double;
use common::{Live, Site, Tally, bash, end, script, wait_until};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

/// Ten times the promise for the next start, for busy machines.
const START_TIMEOUT: Duration = Duration::from_secs(30);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Ids of running processes whose command line contains this text.
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

/// Whether this is `sleep` itself, not a shell that names it.
fn sleeps(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep\0"))
}

/// A process that belongs to no node and ends with its test.
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
        // the test may have ended it
        if let Ok(Some(pid)) = self.0.id().try_into().map(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Commands that leave a process behind; it sleeps for `NAP`.
const WAYS: [&str; 8] = [
    "sleep NAP &",
    "setsid sleep NAP &",
    // forked twice, in a session of its own, with nothing inherited open
    "(setsid sh -c 'exec sleep NAP </dev/null >/dev/null 2>&1' &) &",
    "sh -c 'trap \"\" TERM HUP INT; while :; do sleep NAP; done' &",
    "setsid sh -c 'trap \"\" TERM; (sleep NAP; sleep NAP) & sleep NAP' &",
    "nohup sleep NAP >/dev/null 2>&1 &",
    // without the marks, among other processes of the call
    "env -i sleep NAP &",
    // never stops forking
    "sh -c 'while :; do sleep NAP & sleep 0.02; done' &",
];

/// Commands that leave a process behind and end, and one that does not end. The next prompt has one
/// that keeps its node running.
fn forking(nap: &str) -> Value {
    let ways =
        |ways: &[&str], end: &str| bash(&format!("{}\n{end}", ways.join("\n")).replace("NAP", nap));
    let waits = bash("while [ ! -e go ]; do sleep 0.02; done; echo gone on");
    script(json!([
        { "match": { "prompt": "next", "result": "gone on" }, "parts": [{ "text": "The end." }] },
        { "match": { "prompt": "next" }, "parts": waits["parts"] },
        ways(&WAYS[..3], "true"),
        ways(&WAYS[3..5], "true"),
        ways(&WAYS[5..], "wait"),
    ]))
}

/// Lines that a run prints until its third command runs; more may never come.
const LINES: u64 = 26;

/// Processes with a sleep time that no other test uses: strangers that belong to no node, and
/// processes that the node's commands have left.
struct Sleepers {
    nap: String,
    strangers: Vec<Stranger>,
    strange: Vec<u32>,
}

impl Sleepers {
    fn start(seed: u64) -> Self {
        // no sleep time is the beginning of another
        let nap = format!("{}.{seed:06}", 100_000 + std::process::id());
        let strangers = vec![
            Stranger::start(&["sleep", &nap], None),
            Stranger::start(&["sleep", &nap], Some("another-store:S:1:1")),
            Stranger::start(&["sh", "-c", &format!("sleep {nap}; true")], None),
        ];
        // the shell's child first has the shell's command line, briefly none, then its own, so a
        // list is only complete if all three sleep at one moment
        let mut strange = Vec::new();
        wait_until("the strangers run", || {
            strange = running(&nap);
            strange.iter().filter(|pid| sleeps(**pid)).count() == strangers.len()
        });
        Self { nap, strangers, strange }
    }

    /// Number of sleepers that are not strangers.
    fn left(&self) -> usize {
        running(&self.nap).into_iter().filter(|pid| !self.strange.contains(pid)).count()
    }

    /// Counts the strangers that no longer run.
    fn look_at_strangers(&self, tally: &Tally) {
        let now = running(&self.nap);
        for pid in &self.strange {
            tally.check("strangers touched", now.contains(pid), || format!("{} {pid}", self.nap));
        }
        tally.raise("strangers beside each", self.strangers.len());
    }
}

/// Digits after the sleep time of commands that mark the processes of the MCP server and of the plugin.
const OF_SERVER: &str = "7";
const OF_PLUGIN: &str = "8";

/// This command line, with the sleep time in it, after a child that sleeps. It ignores SIGTERM.
fn sleeping_beside(command: &Value, nap: &str) -> Value {
    let mut all = vec![
        json!("sh"),
        json!("-c"),
        json!(format!("trap '' TERM; sleep {nap} & exec \"$@\"")),
        json!("sh"),
    ];
    all.extend(command.as_array().unwrap().iter().cloned());
    all.extend([json!("--skip"), json!(nap)]);
    json!(all)
}

/// The session of these sleepers, with an MCP server that ends neither with its input nor at SIGTERM, and a plugin.
fn site(sleepers: &Sleepers) -> Site {
    let mut server = mcp::local(SERVER, "deaf");
    server["command"] =
        sleeping_beside(&server["command"], &format!("{}{OF_SERVER}", sleepers.nap));
    let handshake = json!({ "name": "d", "tools": [{ "name": "job" }] });
    let mut plugin = double(PLUGIN, handshake, json!({}));
    plugin["command"] =
        sleeping_beside(&plugin["command"], &format!("{}{OF_PLUGIN}", sleepers.nap));
    Site::scripted(&forking(&sleepers.nap))
        .setting("/mcp", json!({ "m": server }))
        .setting("/plugin", json!([plugin]))
}

/// The next start in this site. Its own processes have another sleep time.
fn next(site: &Site, sleepers: &Sleepers, other: &str, session: &str) -> Live {
    let args = ["run", "--yes", "--format", "json", "--session", session, "next"];
    let mut command = site.command(&args);
    let content = command.get_envs().find(|(name, _)| *name == "LEFTFOLD_CONFIG_CONTENT");
    let content = content.unwrap().1.unwrap().to_str().unwrap().replace(&sleepers.nap, other);
    command.env("LEFTFOLD_CONFIG_CONTENT", content);
    Live::start(command)
}

/// Kills a node and starts the next.
fn kill_and_start_again(tally: &Tally, seed: u64) {
    let sleepers = Sleepers::start(seed);
    let is_sandboxed = seed.is_multiple_of(2);
    let site = site(&sleepers);
    let site = if is_sandboxed { site.sandboxed() } else { site.unsandboxed() };
    let mut live = site.start(&["run", "--yes", "--format", "json", "go"]);
    let chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let lines = 1 + chance % (LINES + 8);
    for _ in 0..lines.min(LINES) {
        live.line();
    }
    if lines > LINES {
        let many = (chance / 64 % 16) as usize;
        wait_until("the command forks on and on", || sleepers.left() > many);
    }
    live.signal(Signal::KILL);
    let shown = live.wait().stdout;
    let left = sleepers.left();
    let of = |kind: &str| running(&format!("{}{kind}", sleepers.nap)).len();
    let (of_server, of_plugin) = (of(OF_SERVER), of(OF_PLUGIN));
    let first: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    let session = first["session"].as_str().unwrap();
    let start = Instant::now();
    let other = sleepers.nap.replace('.', ".9");
    let mut next = next(&site, &sleepers, &other, session);
    next.until("tool.started");
    while sleepers.left() > 0 && start.elapsed() < START_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (took, still) = (start.elapsed(), sleepers.left());
    tally.check("kills with processes that did not end", still == 0, || {
        format!("seed {seed}: {still} after {took:?}")
    });
    tally.add("kills", 1);
    tally.add("in the sandbox", usize::from(is_sandboxed));
    tally.add("processes left by them", left);
    tally.add("of MCP servers", of_server);
    tally.add("of plugins", of_plugin);
    tally.raise("ms the slowest start took", took.as_millis().try_into().unwrap());
    sleepers.look_at_strangers(tally);
    site.file("go", "");
    assert_eq!(end(&next.wait().ok().events())["text"], "The end.");
    sleepers.look_at_strangers(tally);
    let ended = Instant::now();
    while !running(&other).is_empty() && ended.elapsed() < START_TIMEOUT {
        std::thread::sleep(Duration::from_millis(5));
    }
    let still = running(&other).len();
    tally.check("ends of a node with processes that did not end", still == 0, || {
        format!("seed {seed}: {still}")
    });
    site.assert_sound();
}

#[test]
fn the_next_start_ends_what_a_killed_node_has_left_and_nobody_else() {
    let (kills, seed) = (number("LEFTFOLD_KILLS", 12), number("LEFTFOLD_SEED", 1));
    let next = AtomicU64::new(0);
    let tally = Tally::promise(12, "orphans")
        .counts(&[
            "kills", "in the sandbox", "processes left by them", "of MCP servers", "of plugins",
            "strangers beside each", "ms the slowest start took",
        ])
        .never(&[
            "kills with processes that did not end",
            "ends of a node with processes that did not end",
            "strangers touched",
        ]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= kills {
                        return;
                    }
                    eprintln!("kill {n} of {kills}: seed {}", seed + n);
                    kill_and_start_again(&tally, seed + n);
                }
            });
        }
    });
    let [orphans, of_servers, of_plugins] =
        ["processes left by them", "of MCP servers", "of plugins"].map(|kind| tally.get(kind));
    tally.finish();
    // a sandbox ends with its node
    assert!(orphans as u64 >= kills / 2, "the kills left too little to show anything: {orphans}");
    assert!(of_servers > 0 && of_plugins > 0, "{of_servers} of servers, {of_plugins} of plugins");
}
