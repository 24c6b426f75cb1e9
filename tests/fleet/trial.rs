//! The trial that docs/fleet.md offers.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Live, asking, program, root, skipped, wait_until};
use rustix::process::{Pid, Signal, kill_process_group};

/// Of Debian's package `postgresql`.
const PG_VIRTUALENV: &str = "/usr/bin/pg_virtualenv";

/// The first of three ports in a row that nobody has.
fn ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if first < u16::MAX - 2 && (first..first + 3).all(is_free) {
            return first;
        }
    }
}

/// The processes of the trial, which end with the test in any case.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

#[test]
fn three_nodes_share_a_database_until_the_trial_is_interrupted() {
    if !Path::new(PG_VIRTUALENV).exists() {
        return skipped(
            "the programs of PostgreSQL are not installed: `apt-get install postgresql`",
        );
    }
    let site = asking();
    let mut command = Command::new(PG_VIRTUALENV);
    let set = ["-t", "-o", "fsync=on", "-o", "full_page_writes=on"];
    command.args(set).arg("sh").arg(root().join("examples/fleet/trial.sh"));
    command.arg(ports().to_string()).env("LEFTFOLD", program());
    for (name, value) in site.command(&[]).get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.process_group(0);
    let mut trial = Live::start(command);
    let group = Group(Pid::from_raw(trial.id().try_into().unwrap()).unwrap());
    let (mut listening, mut exports) = (0, Vec::new());
    while listening < 3 || exports.len() < 2 {
        let line = trial.line().expect("three nodes");
        listening += usize::from(line.contains("listening on"));
        let export = line.trim().strip_prefix("export ").and_then(|export| export.split_once('='));
        exports.extend(export.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    let site = exports.iter().fold(asking(), |site, (name, value)| site.env(name, value));
    wait_until("three nodes have leases", || {
        site.run(&["fleet", "nodes"]).ok().stdout.lines().count() == 3
    });
    kill_process_group(group.0, Signal::INT).unwrap();
    trial.wait();
    site.run(&["fleet", "nodes"]).with(1).saying(&["cannot be reached"]);
}
