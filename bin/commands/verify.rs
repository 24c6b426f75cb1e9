//! `leftfold verify`: would today's code have decided the same?

use std::process::ExitCode;

use leftfold_events::{Envelope, POLICY};

use crate::cli::{Format, Verify};
use leftfold_runtime::session_paths::Place;

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, |place, events| {
        let mut divergences = leftfold_events::verify(events);
        if !args.all {
            divergences.truncate(1);
        }
        let told = match args.format {
            Format::Json => {
                note_imported(place, events);
                super::divergences_as_json(&divergences, events)?
            }
            Format::Text if divergences.is_empty() => same(place, events),
            Format::Text => super::divergences_as_text(&divergences, events),
        };
        super::print(&told)?;
        Ok(divergences.is_empty())
    })
}

/// Of decisions that were not made by Leftfold there is nothing to be said.
fn told(place: &Place, through: u64, from: &str) -> String {
    let session = place.session;
    format!(
        "{session}: events 1 to {through} are taken over from {from}, where Leftfold decided nothing"
    )
}

fn note_imported(place: &Place, events: &[Envelope]) {
    let (through, from) = leftfold_events::verify::imported(events);
    if through > 0 {
        leftfold_runtime::note(&format!("leftfold: {}", told(place, through, from)));
    }
}

fn same(place: &Place, events: &[Envelope]) -> String {
    let decisions = events.iter().filter(|event| event.event.is_intent()).count();
    let session = place.session;
    let (through, from) = leftfold_events::verify::imported(events);
    if through > 0 {
        let own = events.iter().filter(|event| event.seq > through && event.event.is_intent());
        return format!(
            "{}; {} decisions since, all the same\n",
            told(place, through, from),
            own.count()
        );
    }
    let count = events.len();
    let other = match super::policy_of(events) {
        POLICY => String::new(),
        policy => format!(" (written under policy {policy}, verified under {POLICY})"),
    };
    format!("{session}: {decisions} decisions in {count} events, all the same{other}\n")
}
