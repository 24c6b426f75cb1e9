//! `leftfold export`: the log as JSON lines, with the contents behind hashes.

use std::collections::BTreeSet;
use std::process::ExitCode;

use leftfold_events::event::{Event, Subagent};
use leftfold_events::{Envelope, SessionId};
use leftfold_store::{Damage, Reader};

use crate::cli::{Export, ExportFormat};
use crate::lines::Lines;

pub(crate) fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let ExportFormat::Jsonl = args.format;
    let place = super::place(&args.session)?;
    let reader = Reader::open(&place.store)?;
    let mut events = Vec::new();
    let damage = family(&reader, place.session, &mut events);
    // each session keeps its own order
    events.sort_by_key(|event: &Envelope| event.at);
    super::print(&lines(&events))?;
    match damage {
        None => Ok(ExitCode::SUCCESS),
        Some(damage) => anyhow::bail!("the log is damaged after that: {damage}"),
    }
}

/// The good part of a session's log and of its children's; what is wrong first.
fn family(reader: &Reader, session: SessionId, events: &mut Vec<Envelope>) -> Option<Damage> {
    let (own, mut damage) = reader.read_good(session);
    let children = own.iter().filter_map(|event| match &event.event {
        Event::Subagent(Subagent::Spawned { session, .. }) => Some(*session),
        Event::Session(_)
        | Event::Turn(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Permission(_)
        | Event::Compaction(_)
        | Event::Subagent(_)
        | Event::Todo(_)
        | Event::Files(_) => None,
    });
    let children: BTreeSet<SessionId> = children.collect();
    events.extend(own);
    for child in children {
        // one that is here already was gone on with
        if !events.iter().any(|event| event.session == child) {
            damage = damage.or(family(reader, child, events));
        }
    }
    damage
}

/// Events as lines; contents stand once, before the first event that names them.
fn lines(events: &[Envelope]) -> String {
    let mut lines = Lines::default();
    events.iter().flat_map(|event| lines.of(event)).map(|line| line + "\n").collect()
}
