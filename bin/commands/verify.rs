//! `leftfold verify`: checks whether today's code makes the decisions that the log has.

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;

use leftfold_events::verify::Divergence;
use leftfold_events::{Envelope, POLICY};

use super::Checked;
use crate::cli::{Format, Verify};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_view::words;

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, ("verifying", args.format), |place, events| {
        let mut divergences = divergences(events);
        if !args.all {
            divergences.truncate(1);
        }
        let (text, note) = match args.format {
            Format::Json => {
                (super::divergences_as_json(&divergences, events)?, note_of_import(place, events))
            }
            Format::Text if divergences.is_empty() => (same(place, events), None),
            Format::Text => (super::divergences_as_text(&divergences, events), None),
        };
        Ok(Checked { text, note, is_same: divergences.is_empty() })
    })
}

/// The number of events that one thread verifies at a time. Each part hashes its first request as a
/// whole, so parts are not small.
const PART: usize = 20_000;

/// Every divergence, in order, found by as many threads as there are processors.
fn divergences(events: &[Envelope]) -> Vec<Divergence> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = cores.min(events.len() / PART);
    if threads < 2 {
        return leftfold_events::verify(events);
    }
    let parts = Mutex::new(leftfold_events::verify::parts(events, PART).enumerate());
    let work = || {
        let mut found = Vec::new();
        loop {
            // one thread folds the next part while others verify
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((index, part)) = next else { return found };
            found.push((index, part.verify()));
        }
    };
    let mut found = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).filter_map(start).collect();
        let mut found = work();
        for other in others {
            match other.join() {
                Ok(more) => found.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        found
    });
    found.sort_by_key(|(index, _)| *index);
    found.into_iter().flat_map(|(_, divergences)| divergences).collect()
}

/// The note on imported events, whose decisions are not Leftfold's.
fn imported_note(place: &SessionPlace, through: u64, from: &str) -> String {
    let session = place.session;
    format!(
        "{session}: events 1 to {through} are imported from {from}, whose decisions are not compared"
    )
}

fn note_of_import(place: &SessionPlace, events: &[Envelope]) -> Option<String> {
    let (through, from) = leftfold_events::verify::imported(events)?;
    Some(format!("leftfold: {}", imported_note(place, through, from)))
}

fn same(place: &SessionPlace, events: &[Envelope]) -> String {
    let decisions = events.iter().filter(|event| event.event.is_intent()).count();
    let session = place.session;
    if let Some((through, from)) = leftfold_events::verify::imported(events) {
        let own = events.iter().filter(|event| event.seq > through && event.event.is_intent());
        return format!(
            "{}; {} since, all the same\n",
            imported_note(place, through, from),
            words::counted(own.count(), "decision")
        );
    }
    let (count, decisions) =
        (words::counted(events.len(), "event"), words::counted(decisions, "decision"));
    let other = match super::policy_of(events) {
        POLICY => String::new(),
        policy => format!(" (written under policy {policy}, verified under {POLICY})"),
    };
    format!("{session}: {decisions} in {count}, all the same{other}\n")
}
