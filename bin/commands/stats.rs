//! `leftfold stats`: sums up tokens, cost and tool calls of all sessions, read from their logs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use leftfold_events::Time;
use leftfold_events::event::Usage;
use leftfold_store::Reader;

use super::live_line::LiveLine;
use super::pages;
use crate::cli::{Format, Stats};
use leftfold_runtime::stats::{Calls, SessionTotals, Spent, Totals, project_of};
use leftfold_runtime::{Usage as BadUsage, session_paths};
use leftfold_view::clean;
use leftfold_view::words::counted;
use unicode_width::UnicodeWidthStr;

const DAY: u64 = 24 * 60 * 60 * 1_000;

pub(crate) fn stats(args: &Stats) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let only = args.project.as_ref().map(|name| ProjectFilter::new(name.as_deref(), &directory));
    let now = Time::from(SystemTime::now()).millis();
    let days = args.days.map(|days| days.saturating_mul(DAY));
    let since = days.map(|days| Time::from_millis(now.saturating_sub(days)));
    let live = LiveLine::about("reading all sessions");
    let mut totals = Totals::default();
    let mut projects = BTreeSet::new();
    for store in session_paths::stores()? {
        let read = Reader::open(&store).and_then(|reader| {
            for session in reader.sessions()? {
                let (events, damage) = reader.read_good(session);
                let project = project_of(&events);
                if only.as_ref().is_none_or(|only| only.matches(project)) {
                    let mut own = SessionTotals::new(session, since);
                    events.iter().for_each(|event| own.push(event));
                    totals.add(&own.totals);
                }
                projects.insert(project.to_owned());
                if let Some(damage) = damage {
                    let _aside = live.aside();
                    leftfold_runtime::note(&format!(
                        "leftfold: {session} is damaged and counted only up to there: {damage}"
                    ));
                }
            }
            Ok(())
        });
        if let Err(error) = read {
            // then there is no other store
            if session_paths::is_in_database(&store) {
                return Err(error.into());
            }
            let _aside = live.aside();
            leftfold_runtime::note(&format!("leftfold: not counted: {error}"));
        }
    }
    drop(live);
    if let Some(only) = &only {
        only.check(&projects)?;
    }
    if let Some(most) = args.tools {
        let dropped: Vec<String> =
            most_called(&totals).into_iter().skip(most).map(|(name, _)| name.clone()).collect();
        totals.tools.retain(|name, _| !dropped.contains(name));
    }
    let text = match args.format {
        Format::Json => format!("{}\n", serde_json::to_string(&totals)?),
        Format::Text => text(&totals),
    };
    pages::page(&args.page, args.format, &text, pages::grouped_line)
}

/// The sessions that `--project` selects.
pub(super) enum ProjectFilter {
    /// Sessions of the current project, by its folder.
    Current(String),
    /// Sessions whose folder is `path`, or is called `name`.
    Named { name: String, path: String },
}

impl ProjectFilter {
    pub(super) fn new(name: Option<&str>, directory: &Path) -> Self {
        let Some(name) = name else {
            return Self::Current(leftfold_config::worktree_of(directory).display().to_string());
        };
        let path = directory.join(name);
        let path = path.canonicalize().unwrap_or(path).display().to_string();
        Self::Named { name: name.to_owned(), path }
    }

    /// Checks that a named project is one of those that have sessions.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check(&self, projects: &BTreeSet<String>) -> Result<(), BadUsage> {
        let Self::Named { name, .. } = self else { return Ok(()) };
        if projects.iter().any(|project| self.matches(project)) {
            return Ok(());
        }
        let known: Vec<&str> = projects.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(BadUsage(format!(
            "no session belongs to a project `{name}`; projects with sessions: {known}"
        )))
    }

    /// Whether this is the root of such a project.
    pub(super) fn matches(&self, project: &str) -> bool {
        match self {
            Self::Current(path) => project == path,
            Self::Named { name, path } => {
                project == path
                    || Path::new(project).file_name().is_some_and(|it| it == name.as_str())
            }
        }
    }
}

/// The tools, those with the most calls first.
fn most_called(totals: &Totals) -> Vec<(&String, &Calls)> {
    let mut tools: Vec<(&String, &Calls)> = totals.tools.iter().collect();
    tools.sort_by_key(|(_, calls)| Reverse(calls.calls));
    tools
}

fn text(totals: &Totals) -> String {
    let Totals { sessions, turns, messages, total, .. } = totals;
    let mut text = format!(
        "{}, {}, {}, {}\n",
        counted(sessions, "session"),
        counted(turns, "turn"),
        counted(messages, "message"),
        cells(total).into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(", "),
    );
    let groups = [("day", &totals.days), ("model", &totals.models), ("project", &totals.projects)];
    for (name, group) in groups.into_iter().filter(|(_, group)| !group.is_empty()) {
        let rows = group.iter().map(|(key, spent)| (key.as_str(), cells(spent).to_vec()));
        text += &table(&format!("by {name}"), rows);
    }
    let tools = most_called(totals).into_iter().map(|(name, calls)| {
        let Calls { calls, errors, failed, .. } = calls;
        let failed = (*failed > 0).then(|| format!("{failed} with an exit code other than 0"));
        let cells = [counted(calls, "call"), counted(errors, "error"), failed.unwrap_or_default()];
        (name.as_str(), cells.to_vec())
    });
    text + &table("by tool", tools)
}

/// Rows of a name and cells, with their columns below each other: numbers end at the same place.
fn table<'a>(heading: &str, rows: impl Iterator<Item = (&'a str, Vec<String>)>) -> String {
    let rows: Vec<(String, Vec<String>)> =
        rows.map(|(name, cells)| (clean::printable_line(name).into_owned(), cells)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let names = rows.iter().map(|(name, _)| name.width()).max().unwrap_or(0);
    let count = rows.iter().map(|(_, cells)| cells.len()).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(column));
        cells.map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let mut text = format!("\n{heading}\n");
    for (name, cells) in rows {
        let mut line = format!("  {name}{}", " ".repeat(names.saturating_sub(name.width())));
        for (cell, width) in cells.iter().zip(&widths).filter(|(_, width)| **width > 0) {
            line += &format!("  {}{cell}", " ".repeat(width.saturating_sub(cell.width())));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn cells(Spent { requests, usage, cost }: &Spent) -> [String; 6] {
    let Usage { input, output, reasoning, cache_read, cache_write } = usage;
    let out = output.saturating_add(*reasoning);
    // a model without a price
    let cost = if *cost > 0.0 { format!("${cost:.4}") } else { String::new() };
    [
        counted(requests, "request"),
        format!("{} in", counted(input, "token")),
        format!("{out} out"),
        format!("{cache_read} cached"),
        format!("{cache_write} to the cache"),
        cost,
    ]
}
