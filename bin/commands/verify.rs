//! `leftfold verify`: would today's code have decided the same?

use std::process::ExitCode;

use leftfold_events::{Envelope, POLICY};

use crate::cli::{Format, Verify};
use crate::home::Place;

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, |place, events| {
        let mut divergences = leftfold_events::verify(events);
        if !args.all {
            divergences.truncate(1);
        }
        let told = match args.format {
            Format::Json => super::divergences_as_json(&divergences, events)?,
            Format::Text if divergences.is_empty() => same(place, events),
            Format::Text => super::divergences_as_text(&divergences, events),
        };
        super::print(&told)?;
        Ok(divergences.is_empty())
    })
}

fn same(place: &Place, events: &[Envelope]) -> String {
    let decisions = events.iter().filter(|event| event.event.is_intent()).count();
    let (session, count) = (place.session, events.len());
    let other = match super::policy_of(events) {
        POLICY => String::new(),
        policy => format!(" (written under policy {policy}, verified under {POLICY})"),
    };
    format!("{session}: {decisions} decisions in {count} events, all the same{other}\n")
}
