//! Differences between a log's decisions and those of today's code, as JSON for scripts and
//! clients.

use leftfold_events::event::{Event, Session};
use leftfold_events::verify::Divergence;
use leftfold_events::{Envelope, POLICY};
use serde_json::{Value, json};

/// The policy under which the latest node wrote the log.
pub fn policy_of(events: &[Envelope]) -> u16 {
    let policy = events.iter().rev().find_map(|event| {
        let Event::Session(
            Session::Created { policy, .. }
            | Session::Resumed { policy, .. }
            | Session::ResumedImported { policy, .. },
        ) = &event.event
        else {
            return None;
        };
        Some(*policy)
    });
    policy.unwrap_or_default()
}

/// The first divergence of a log, or all.
pub fn divergences(events: &[Envelope], all: bool) -> anyhow::Result<Vec<Value>> {
    let mut divergences = leftfold_events::verify(events);
    if !all {
        divergences.truncate(1);
    }
    as_values(&divergences, events)
}

/// One JSON object for each divergence, with both policies if the log was written under another
/// one.
///
/// # Errors
/// A divergence cannot be written as JSON.
pub fn as_values(divergences: &[Divergence], events: &[Envelope]) -> anyhow::Result<Vec<Value>> {
    let policy = policy_of(events);
    let line = |divergence: &Divergence| {
        let mut line = serde_json::to_value(divergence)?;
        if policy != POLICY {
            line["policy"] = json!({ "log": policy, "now": POLICY });
        }
        Ok(line)
    };
    divergences.iter().map(line).collect()
}
