//! `leftfold fleet drain` and `leftfold fleet move`: change what the nodes of a database do.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use leftfold_postgres::{Address, Error, Moved, Operator};
use leftfold_runtime::{Usage, note, only_people};
use leftfold_view::{clean, words::counted};

use super::super::live_line::LiveLine;
use crate::cli::{Drain, Move};

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

pub(super) fn move_session(address: &Address, args: &Move) -> anyhow::Result<ExitCode> {
    only_people::require("leftfold fleet move")?;
    let host = args.to.trim();
    if host.is_empty() || host.contains(char::is_control) {
        bail!(Usage("--to: name a host, as `leftfold fleet nodes` shows it".into()));
    }
    let moved = match Operator::open(address)?.move_to(&args.session, host) {
        Err(Error::Taken { session, node }) => bail!(
            "session {session} belongs to a living node ({node}), so it stays: end that node with `leftfold fleet \
             drain` first, or wait for the end of its lease if its host is dead"
        ),
        moved => moved?,
    };
    let Moved { family, sessions, from, wants, is_awaited } = moved;
    let from = from.unwrap_or_default();
    let from = clean::printable_line(from.strip_prefix("host:").unwrap_or(&from)).into_owned();
    if !is_awaited {
        note(&format!(
            "leftfold: no node of host {host} lives now: the session waits until one starts there"
        ));
    }
    note(&format!(
        "leftfold: no files have moved: what {from} has of the project, of its snapshots and of long outputs stays there"
    ));
    let next = if wants { "; a node there goes on with its turn" } else { "" };
    super::super::print(&format!(
        "session {family}: {} moved from host {from} to host {host}{next}\n",
        counted(usize::try_from(sessions).unwrap_or(usize::MAX), "session"),
    ))
}
