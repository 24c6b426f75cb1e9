//! `leftfold verify`: would today's code have decided the same?

use std::process::ExitCode;

use leftfold_events::{POLICY, fold};

use crate::cli::{Format, Verify};

pub(crate) fn verify(args: &Verify) -> anyhow::Result<ExitCode> {
    let mut output = String::new();
    let mut code = ExitCode::SUCCESS;
    for session in &args.sessions {
        let (place, events) = super::events(session)?;
        let mut divergences = leftfold_events::verify(&events);
        if !args.all {
            divergences.truncate(1);
        }
        if !divergences.is_empty() {
            code = ExitCode::FAILURE;
        }
        if args.format == Format::Json {
            for divergence in &divergences {
                output.push_str(&serde_json::to_string(divergence)?);
                output.push('\n');
            }
            continue;
        }
        if divergences.is_empty() {
            let decisions = events.iter().filter(|event| event.event.is_intent()).count();
            let count = events.len();
            output.push_str(&format!(
                "{}: {decisions} decisions in {count} events, all the same\n",
                place.session
            ));
            continue;
        }
        let policy = fold(&events).policy;
        if policy != POLICY {
            output.push_str(&format!(
                "{}: written under policy {policy}, verified under {POLICY}\n",
                place.session
            ));
        }
        for d in divergences {
            output.push_str(&format!(
                "{}: seq {}, {}: expected {}, found {}\n",
                d.session, d.seq, d.field, d.expected, d.found
            ));
        }
    }
    super::print(&output)?;
    Ok(code)
}
