//! `leftfold verify`: checks whether today's code makes the decisions that the log has.

use std::process::ExitCode;

use leftfold_events::{Envelope, POLICY};

use super::Checked;
use crate::cli::{Format, Verify};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_view::words;

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, ("verifying", args.format), |place, events| {
        let mut divergences = leftfold_events::verify(events);
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

/// The note on imported events, whose decisions are not Leftfold's.
fn imported_note(place: &SessionPlace, through: u64, from: &str) -> String {
    let session = place.session;
    format!(
        "{session}: events 1 to {through} are imported from {from}, whose decisions are not compared"
    )
}

fn note_of_import(place: &SessionPlace, events: &[Envelope]) -> Option<String> {
    let (through, from) = leftfold_events::verify::imported(events);
    (through > 0).then(|| format!("leftfold: {}", imported_note(place, through, from)))
}

fn same(place: &SessionPlace, events: &[Envelope]) -> String {
    let decisions = events.iter().filter(|event| event.event.is_intent()).count();
    let session = place.session;
    let (through, from) = leftfold_events::verify::imported(events);
    if through > 0 {
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
