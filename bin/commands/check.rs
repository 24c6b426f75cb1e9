//! `leftfold check`: is everything as it was written?

use std::process::ExitCode;

use leftfold_store::{Damage, Reader};

use crate::cli::{Check, Format};

pub(crate) fn check(args: &Check) -> anyhow::Result<ExitCode> {
    let mut output = String::new();
    let mut code = ExitCode::SUCCESS;
    for session in &args.sessions {
        let place = super::place(session)?;
        let mut report = leftfold_store::check(&place.store)?;
        if report.damage.is_empty() {
            report.damage.extend(unfoldable(&place.store)?);
        }
        if !report.damage.is_empty() {
            code = ExitCode::FAILURE;
        }
        for damage in &report.damage {
            output.push_str(&serde_json::to_string(damage)?);
            output.push('\n');
        }
        if args.format == Format::Json {
            continue;
        }
        for spill in &report.spills {
            output.push_str(&format!(
                "note: the full text at seq {} is {}: {}\n",
                spill.seq, spill.what, spill.path
            ));
        }
        if report.damage.is_empty() {
            output.push_str(&format!("{}: {} events, no damage\n", place.session, report.events));
        }
    }
    super::print(&output)?;
    Ok(code)
}

/// Events that are each intact but do not make a session: one must begin it.
fn unfoldable(store: &std::path::Path) -> anyhow::Result<Vec<Damage>> {
    let reader = Reader::open(store)?;
    let mut damage = Vec::new();
    for session in reader.sessions() {
        let events = reader.read(session, 1)?;
        let begun = events.is_empty() || leftfold_events::fold(&events).origin.is_some();
        if !begun {
            damage.push(Damage {
                file: "db".to_owned(),
                offset: None,
                session: Some(session),
                seq: Some(1),
                what: "the log does not begin with session.created".to_owned(),
            });
        }
    }
    Ok(damage)
}
