//! `leftfold check`: finds damage in the logs of sessions, and salvages what is left.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use leftfold_events::SessionId;
use leftfold_runtime::session_paths;
use leftfold_store::{Damage, Reader, Report};
use leftfold_view::{clean, words};

use super::live_line::LiveLine;
use super::salvage::Target;
use crate::cli::{Check, Format};

pub(crate) fn check(args: &Check) -> anyhow::Result<ExitCode> {
    let mut places: Vec<(PathBuf, SessionId)> = Vec::new();
    for session in &args.sessions {
        let place = place(session, args.salvage.is_some())?;
        // Each store is checked once, however many of its sessions are named.
        if args.salvage.is_none() || places.iter().all(|(store, _)| *store != place.0) {
            places.push(place);
        }
    }
    let target =
        args.salvage.as_ref().map(|folder| Target::new(folder, places.len())).transpose()?;
    let mut code = ExitCode::SUCCESS;
    for (store, session) in places {
        let live = LiveLine::about(&format!("checking {session}"));
        let report = report(&store, session)?;
        drop(live);
        if !report.damage.is_empty() {
            code = ExitCode::FAILURE;
        }
        super::print(&lines(&report, session, args.format)?)?;
        if let Some(target) = &target {
            let live = LiveLine::about(&format!("saving what can be read of {session}"));
            let lines = target.salvage(&store, session, args.format)?;
            drop(live);
            for line in lines {
                super::print_as(args.format, &(line + "\n"))?;
            }
        }
    }
    Ok(code)
}

/// The store and the session that the argument names. With `--salvage` a folder is accepted even if
/// its sessions cannot be read.
fn place(text: &str, salvage: bool) -> anyhow::Result<(PathBuf, SessionId)> {
    match super::place(text) {
        Ok(place) => Ok((place.store, place.session)),
        Err(_) if salvage && leftfold_store::exists(Path::new(text)) => {
            let store = Path::new(text).canonicalize()?;
            let heads = leftfold_store::heads(&store)?;
            Ok((store, heads.first().map(|head| head.session).unwrap_or_default()))
        }
        Err(error) => Err(error),
    }
}

/// The damage of a store; if a database keeps it, of the session and its descendants.
fn report(store: &Path, session: SessionId) -> anyhow::Result<Report> {
    let in_database = session_paths::is_in_database(store);
    let mut report = match in_database {
        true => leftfold_store::check_tree(store, session)?,
        false => leftfold_store::check(store)?,
    };
    if report.damage.is_empty() {
        let reader = Reader::open(store)?;
        let sessions = if in_database { vec![session] } else { reader.sessions()? };
        report.damage.extend(unfoldable(&reader, sessions)?);
    }
    Ok(report)
}

fn lines(report: &Report, session: SessionId, format: Format) -> anyhow::Result<String> {
    let mut output = String::new();
    for damage in &report.damage {
        output.push_str(&clean::escape_json(&serde_json::to_string(damage)?));
        output.push('\n');
    }
    if format == Format::Json {
        return Ok(output);
    }
    for spill in &report.spills {
        let file = if spill.is_record { "record of the request" } else { "full text" };
        output.push_str(&format!(
            "note: the {file} at seq {} is {}: {}\n",
            spill.seq, spill.what, spill.path
        ));
    }
    if report.damage.is_empty() {
        let count = words::counted(report.events, "event");
        output.push_str(&format!("{session}: {count}, no damage\n"));
    }
    Ok(output)
}

/// Finds logs whose events are intact but that do not begin with `session.created`.
fn unfoldable(reader: &Reader, sessions: Vec<SessionId>) -> anyhow::Result<Vec<Damage>> {
    let mut damage = Vec::new();
    for session in sessions {
        let events = reader.read(session, 1)?;
        let begun = events.is_empty() || leftfold_events::fold(&events).origin.is_some();
        if !begun {
            damage.push(Damage::event(session, 1, "the log does not begin with session.created"));
        }
    }
    Ok(damage)
}
