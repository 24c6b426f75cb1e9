//! Shared by `verify` and `rerun`: runs a check over several sessions and prints the divergences.

use std::process::ExitCode;

use leftfold_events::verify::Divergence;
use leftfold_events::{Envelope, POLICY, Seq};

use leftfold_runtime::divergence::{as_values, policy_of};
use leftfold_runtime::session_paths::SessionPlace;

/// Runs `work` on each session. Exits 1 if `work` answers false or an error for any of them; the
/// other sessions are still processed.
///
/// # Errors
/// An argument names no session; `work` has not run then. With a single session, its error.
pub(super) fn each(
    sessions: &[String],
    work: impl Fn(&SessionPlace, &[Envelope]) -> anyhow::Result<bool>,
) -> anyhow::Result<ExitCode> {
    let places = sessions.iter().map(|session| super::place(session));
    let places: Vec<SessionPlace> = places.collect::<anyhow::Result<_>>()?;
    let alone = places.len() == 1;
    let mut code = ExitCode::SUCCESS;
    for place in &places {
        let read = || Ok(leftfold_store::read(&place.store, place.session, Seq::MAX)?);
        match read().and_then(|events| work(place, &events)) {
            Ok(true) => {}
            Ok(false) => code = ExitCode::FAILURE,
            Err(error) if alone => return Err(error),
            Err(error) => {
                leftfold_runtime::note(&format!("leftfold: {}: {error:#}", place.session));
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// One JSON line for each divergence; each names both policies if the log was written under another
/// one.
pub(super) fn divergences_as_json(
    divergences: &[Divergence],
    events: &[Envelope],
) -> anyhow::Result<String> {
    let lines = as_values(divergences, events)?;
    Ok(lines.iter().map(|line| format!("{line}\n")).collect())
}

pub(super) fn divergences_as_text(divergences: &[Divergence], events: &[Envelope]) -> String {
    let policy = policy_of(events);
    let mut text = String::new();
    if policy != POLICY
        && let Some(first) = divergences.first()
    {
        text += &format!(
            "{}: written under policy {policy}, compared under policy {POLICY}\n",
            first.session
        );
    }
    for Divergence { session, seq, field, expected, found } in divergences {
        text += &format!("{session}: seq {seq}, {field}: expected {expected}, found {found}\n");
    }
    text
}
