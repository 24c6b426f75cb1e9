//! `leftfold rerun`: do the real actors, on what the log was told, write the same log?

use std::process::ExitCode;

use anyhow::Context;
use leftfold_events::{POLICY, fold};

use crate::cli::{Format, Rerun};

pub(crate) fn rerun(args: &Rerun) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    let sessions = args.sessions.iter().map(|session| super::events(session));
    // a name that means nothing is told before anything is run
    for (place, events) in sessions.collect::<anyhow::Result<Vec<_>>>()? {
        let (session, count, policy) = (place.session, events.len(), fold(&events).policy);
        let folder = tempfile::Builder::new().prefix("leftfold-rerun-").tempdir()?;
        let work = leftfold_actors::rerun(session, events, folder.path());
        let divergence = crate::run_async(work)?.with_context(|| format!("session {session}"))?;
        let json = args.format == Format::Json;
        let line = match divergence {
            None if json => continue,
            None => format!("{session}: {count} events, all the same\n"),
            Some(d) if json => {
                code = ExitCode::FAILURE;
                serde_json::to_string(&d)? + "\n"
            }
            Some(d) => {
                code = ExitCode::FAILURE;
                let other =
                    format!("{session}: written under policy {policy}, run under {POLICY}\n");
                let other = if policy == POLICY { String::new() } else { other };
                let (seq, field) = (d.seq, d.field);
                let (expected, found) = (d.expected, d.found);
                format!(
                    "{other}{session}: seq {seq}, {field}: expected {expected}, found {found}\n"
                )
            }
        };
        super::print(&line)?;
    }
    Ok(code)
}
