//! Shared by `verify` and `rerun`: runs a check over several sessions and prints the divergences.

use std::process::ExitCode;

use leftfold_events::verify::Divergence;
use leftfold_events::{Envelope, POLICY, Seq};

use super::live_line::LiveLine;
use crate::cli::Format;
use leftfold_runtime::divergence::{as_values, policy_of};
use leftfold_runtime::session_paths::SessionPlace;

/// The result of a check of one session.
pub(super) struct Checked {
    /// For standard output, in the format that was asked for.
    pub(super) text: String,
    /// A note for standard error.
    pub(super) note: Option<String>,
    pub(super) is_same: bool,
}

/// Runs `work` on each session and prints its results; `doing` says what it does, for people who wait. Exits 1 if a
/// session is not the same, or has an error; the other sessions are still processed.
///
/// # Errors
/// An argument names no session; `work` has not run then. With a single session, its error.
pub(super) fn each(
    sessions: &[String],
    (doing, format): (&str, Format),
    work: impl Fn(&SessionPlace, &[Envelope]) -> anyhow::Result<Checked>,
) -> anyhow::Result<ExitCode> {
    let places = sessions.iter().map(|session| super::place(session));
    let places: Vec<SessionPlace> = places.collect::<anyhow::Result<_>>()?;
    let alone = places.len() == 1;
    let mut code = ExitCode::SUCCESS;
    for place in &places {
        let live = LiveLine::about(&format!("{doing} {}", place.session));
        let read = || Ok(leftfold_store::read(&place.store, place.session, Seq::MAX)?);
        let checked = read().and_then(|events| work(place, &events));
        drop(live);
        match checked {
            Ok(Checked { text, note, is_same }) => {
                note.iter().for_each(|note| leftfold_runtime::note(note));
                super::print_as(format, &text)?;
                if !is_same {
                    code = ExitCode::FAILURE;
                }
            }
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
