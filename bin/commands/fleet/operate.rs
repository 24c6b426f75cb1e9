//! `leftfold fleet drain`: changes what the nodes of a database do.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use leftfold_postgres::{Address, Operator};
use leftfold_runtime::only_people;
use leftfold_view::words::counted;

use super::super::live_line::LiveLine;
use crate::cli::Drain;

/// How often it looks whether a node has ended.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn drain(address: &Address, args: &Drain) -> anyhow::Result<ExitCode> {
    only_people::require("leftfold fleet drain")?;
    let operator = Operator::open(address)?;
    let node = operator.drain(&args.node)?;
    let live = LiveLine::about("draining");
    let began = Instant::now();
    let mut had = 0;
    while let Some(status) = operator.node(&node)? {
        had = had.max(status.sessions);
        let left = counted(status.sessions, "session");
        if status.lease < 0.0 {
            bail!(
                "node {node} has died with {left}: other nodes take them over within two leases, 30 s by default"
            );
        }
        if began.elapsed() >= Duration::from_millis(args.timeout) {
            bail!(
                "node {node} still has {left} after {} s; it goes on handing them over: look again with `leftfold \
                 fleet nodes`",
                began.elapsed().as_secs()
            );
        }
        live.say("draining", &left);
        std::thread::sleep(LOOK);
    }
    drop(live);
    super::super::print(&format!(
        "node {node} has handed over {} and ended\n",
        counted(had, "session")
    ))
}
