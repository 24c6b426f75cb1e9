//! `leftfold export`: the log as JSON lines, with the contents behind hashes.

use std::collections::HashSet;
use std::process::ExitCode;

use leftfold_events::{Envelope, Sha256, line};
use leftfold_store::Reader;

use crate::cli::{Export, ExportFormat};

pub(crate) fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let ExportFormat::Jsonl = args.format;
    let place = super::place(&args.session)?;
    let reader = Reader::open(&place.store)?;
    let (events, damage) = reader.read_good(place.session);
    super::print(&lines(&events))?;
    match damage {
        None => Ok(ExitCode::SUCCESS),
        Some(damage) => anyhow::bail!("the log is damaged after that: {damage}"),
    }
}

/// Events as lines; contents stand once, before the first event that names them.
fn lines(events: &[Envelope]) -> String {
    let mut told: HashSet<Sha256> = HashSet::new();
    let mut text = String::new();
    for event in events {
        for payload in event.event.payloads() {
            if told.insert(payload.sha256()) {
                text.push_str(&line::write_payload(payload));
                text.push('\n');
            }
        }
        text.push_str(&line::write(event));
        text.push('\n');
    }
    text
}
