//! `leftfold export`: prints the log as JSON lines, with the contents behind hashes.

use std::process::ExitCode;

use leftfold_events::Envelope;

use crate::cli::{Export, ExportFormat};
use leftfold_runtime::history::History;
use leftfold_runtime::lines::Lines;

pub(crate) fn export(args: &Export) -> anyhow::Result<ExitCode> {
    let ExportFormat::Jsonl = args.format;
    let (history, damage) = History::good(&super::place(&args.session)?)?;
    super::print_exact(&lines(&history.by_time(), args.unmasked))?;
    match damage {
        None => Ok(ExitCode::SUCCESS),
        Some(damage) => anyhow::bail!("the log is damaged after the last printed event: {damage}"),
    }
}

/// Events as lines. Each content is printed once, before the first event that names it.
fn lines(events: &[Envelope], unmasked: bool) -> String {
    let mut lines = Lines::default();
    let mut of = |event| if unmasked { lines.unmasked(event) } else { lines.of(event) };
    events.iter().flat_map(&mut of).map(|line| line + "\n").collect()
}
