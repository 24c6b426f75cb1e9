//! `leftfold rerun`: runs the real actors on the recorded outcomes, and compares the log that they
//! write.

use std::process::ExitCode;

use anyhow::Context;
use leftfold_actors::{Reran, WireCounts};
use leftfold_events::event::{Event, Session};

use super::Checked;
use crate::cli::{Format, Rerun};
use leftfold_runtime::Usage;
use leftfold_view::words::counted;

pub(crate) fn rerun(args: &Rerun) -> anyhow::Result<ExitCode> {
    super::each(&args.sessions, ("running again", args.format), |place, events| {
        let (session, count) = (place.session, events.len());
        if let Some((through, from)) = leftfold_events::verify::imported(events) {
            anyhow::bail!(Usage(format!(
                "{session}: events 1 to {through} are imported from {from}, so it cannot be run again; \
                 `leftfold verify` compares the decisions after them"
            )));
        }
        if let [only] = events
            && matches!(only.event, Event::Session(Session::Created { .. }))
        {
            anyhow::bail!(Usage(format!(
                "{session}: its log has only `session.created` and no prompt, so there is nothing to run again"
            )));
        }
        let folder = tempfile::Builder::new().prefix("leftfold-rerun-").tempdir()?;
        let store = args.wire.then_some(place.store.as_path());
        let work = leftfold_actors::rerun(session, events.to_vec(), folder.path(), store);
        let Reran { divergence, wire } =
            leftfold_runtime::run_async(work)?.with_context(|| format!("session {session}"))?;
        let found = divergence.as_slice();
        let wire = wire.map(|counts| format!("; {}", on_the_wire(counts))).unwrap_or_default();
        let text = match args.format {
            Format::Json => super::divergences_as_json(found, events)?,
            Format::Text if found.is_empty() => {
                format!("{session}: {}, all the same{wire}\n", counted(count, "event"))
            }
            Format::Text => super::divergences_as_text(found, events),
        };
        Ok(Checked { text, note: None, is_same: found.is_empty() })
    })
}

/// How far the rerun came with bodies and answers.
fn on_the_wire(counts: WireCounts) -> String {
    let WireCounts { bodies, equal, unchecked, answers, unrecorded, without_wire, .. } = counts;
    let mut parts = vec![
        format!("{equal} of {bodies} bodies rebuilt"),
        format!("{} decoded again", counted(answers, "answer")),
    ];
    if unchecked > 0 {
        let bodies = if unchecked == 1 { "body" } else { "bodies" };
        parts.push(format!("{unchecked} {bodies} without a hash in the log"));
    }
    if unrecorded > 0 {
        parts.push(format!("{} without a record", counted(unrecorded, "answer")));
    }
    if without_wire > 0 {
        parts.push(format!("{} without a wire format", counted(without_wire, "request")));
    }
    parts.join(", ")
}
