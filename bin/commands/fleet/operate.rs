//! `leftfold fleet drain`, `move` and `gc`: change what the nodes of a database do, and what it keeps.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use leftfold_postgres::{Address, Draining, Error, Moved, Operator, Removed};
use leftfold_runtime::{Usage, client_ids, note, only_people};
use leftfold_view::{clean, words, words::counted};
use serde_json::json;

use super::super::live_line::LiveLine;
use crate::cli::{Drain, Format, Gc, Move};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often it looks whether a node has ended.
const NODE_POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn drain(address: &Address, args: &Drain) -> anyhow::Result<ExitCode> {
    only_people::require("leftfold fleet drain")?;
    let operator = Operator::open(address)?;
    let Draining { node, sessions } = operator.drain(&args.node)?;
    let live = LiveLine::about("draining");
    let began = Instant::now();
    while let Some(status) = operator.node(&node)? {
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
        std::thread::sleep(NODE_POLL_INTERVAL);
    }
    drop(live);
    super::super::print(&format!(
        "node {node} has handed over {} and ended\n",
        counted(sessions, "session")
    ))
}

pub(super) fn move_session(address: &Address, args: &Move) -> anyhow::Result<ExitCode> {
    only_people::require("leftfold fleet move")?;
    let host = args.to.trim();
    if host.is_empty() || host.contains(char::is_control) {
        bail!(Usage("--to: name a host, as `leftfold fleet nodes` shows it".into()));
    }
    if args.session == "last" {
        bail!(Usage(
            "`last` would depend on the folder: name the session by its id, which `leftfold sessions --store URL` lists"
                .into()
        ));
    }
    let named = client_ids::session(&args.session)
        .map_or(args.session.clone(), |session| session.to_string());
    let moved = match Operator::open(address)?.move_to(&named, host) {
        Err(Error::Taken { session, node, .. }) => bail!(
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

pub(super) fn gc(address: &Address, args: &Gc) -> anyhow::Result<ExitCode> {
    only_people::require("leftfold fleet gc")?;
    let live = LiveLine::about("looking for what nobody needs");
    let older_than = args.older_than.map(|days| DAY * days);
    let removed = Operator::open(address)?.collect(older_than, args.dry_run)?;
    drop(live);
    let Removed {
        families,
        sessions,
        events,
        contents,
        bytes,
        nodes,
        outcomes,
        messages,
        partitions,
    } = removed;
    if args.format == Format::Json {
        let line = json!({
            "families": families, "sessions": sessions, "events": events, "contents": contents, "bytes": bytes,
            "nodes": nodes, "outcomes": outcomes, "messages": messages, "partitions": partitions,
            "dry_run": args.dry_run,
        });
        return super::super::print_json(&format!("{line}\n"));
    }
    super::super::print(&format!(
        "{}: {} with {}, {} that nothing refers to, {}\n  {}, {}, {}, {}\n",
        if args.dry_run { "would be removed" } else { "removed" },
        counted(sessions, "session"),
        counted(events, "event"),
        counted(contents, "content"),
        words::bytes(bytes),
        counted(nodes, "dead node"),
        counted(outcomes, "old outcome"),
        counted(messages, "message") + " to sessions that are gone",
        counted(partitions, "empty partition"),
    ))
}
