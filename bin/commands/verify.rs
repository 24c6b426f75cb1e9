//! `leftfold verify`: checks whether today's code makes the decisions that the log has.

use std::process::ExitCode;

use leftfold_events::{Envelope, POLICY};

use crate::cli::{Format, Verify};
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_view::words;

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, |place, events| {
        let mut divergences = leftfold_events::verify(events);
        if !args.all {
            divergences.truncate(1);
        }
        let text = match args.format {
            Format::Json => {
                note_imported(place, events);
                super::divergences_as_json(&divergences, events)?
            }
            Format::Text if divergences.is_empty() => same(place, events),
            Format::Text => super::divergences_as_text(&divergences, events),
        };
        super::print_as(args.format, &text)?;
        Ok(divergences.is_empty())
    })
}

/// The note on imported events, whose decisions are not Leftfold's.
fn imported_note(place: &SessionPlace, through: u64, from: &str) -> String {
    let session = place.session;
    format!(
        "{session}: events 1 to {through} are imported from {from}, whose decisions are not compared"
    )
}

fn note_imported(place: &SessionPlace, events: &[Envelope]) {
    let (through, from) = leftfold_events::verify::imported(events);
    if through > 0 {
        leftfold_runtime::note(&format!("leftfold: {}", imported_note(place, through, from)));
    }
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
