//! `leftfold stats`: sums up tokens, cost and tool calls of all sessions, read from their logs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use leftfold_events::event::{Event, Model, Purpose, Session, Started, Tool, Turn, Usage};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_store::Reader;
use serde::Serialize;

use super::live_line::LiveLine;
use super::pages;
use crate::cli::{Format, Stats};
use leftfold_runtime::{Usage as BadUsage, session_paths};
use leftfold_view::clean;
use leftfold_view::words::counted;

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
        let read = Reader::open(&store).map(|reader| {
            for session in reader.sessions() {
                let (events, damage) = reader.read_good(session);
                let project = project_of(&events);
                if only.as_ref().is_none_or(|only| only.matches(project)) {
                    totals.take(session, &events, since, project);
                }
                projects.insert(project.to_owned());
                if let Some(damage) = damage {
                    let _aside = live.aside();
                    leftfold_runtime::note(&format!(
                        "leftfold: {session} is damaged and counted only up to there: {damage}"
                    ));
                }
            }
        });
        if let Err(error) = read {
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
            totals.most_called().into_iter().skip(most).map(|(name, _)| name.clone()).collect();
        totals.tools.retain(|name, _| !dropped.contains(name));
    }
    let text = match args.format {
        Format::Json => format!("{}\n", serde_json::to_string(&totals)?),
        Format::Text => totals.text(),
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

/// The root of the session's project.
fn project_of(events: &[Envelope]) -> &str {
    let created = events.iter().find_map(|event| {
        let Event::Session(Session::Created { worktree, .. }) = &event.event else { return None };
        Some(worktree.as_str())
    });
    created.unwrap_or_default()
}

/// Tokens sent to and from models, and their cost.
#[derive(Default, Serialize)]
struct Spent {
    requests: u64,
    usage: Usage,
    /// US dollars.
    cost: f64,
}

#[derive(Default, Serialize)]
struct Calls {
    calls: u64,
    errors: u64,
}

#[derive(Default, Serialize)]
struct Totals {
    sessions: u64,
    turns: u64,
    /// Prompts and replies, without titles and summaries.
    messages: u64,
    total: Spent,
    days: BTreeMap<String, Spent>,
    models: BTreeMap<String, Spent>,
    projects: BTreeMap<String, Spent>,
    tools: BTreeMap<String, Calls>,
}

impl Totals {
    /// Counts the session's own events; the events that a fork shares count for the session they
    /// come from.
    fn take(
        &mut self,
        session: SessionId,
        events: &[Envelope],
        since: Option<Time>,
        project: &str,
    ) {
        let recent = |event: &&Envelope| {
            event.session == session && since.is_none_or(|since| event.at >= since)
        };
        if !events.iter().any(|event| recent(&event)) {
            return;
        }
        self.sessions += 1;
        let mut asked: HashMap<Seq, (String, Purpose)> = HashMap::new();
        let mut started: HashMap<Seq, String> = HashMap::new();
        for event in events.iter().filter(recent) {
            let of = event.of.unwrap_or_default();
            if let Event::Model(Model::Requested { model, purpose, .. }) = &event.event {
                asked.insert(event.seq, (model.to_string(), *purpose));
            } else if let Event::Model(Model::Finished { usage, cost, .. }) = &event.event {
                let unknown = || ("unknown".to_owned(), Purpose::Turn);
                let (model, purpose) = asked.remove(&of).unwrap_or_else(unknown);
                self.messages += u64::from(purpose == Purpose::Turn);
                let day = event.at.to_string().chars().take(10).collect();
                for spent in [
                    &mut self.total,
                    self.days.entry(day).or_default(),
                    self.models.entry(model).or_default(),
                    self.projects.entry(project.to_owned()).or_default(),
                ] {
                    spent.requests += 1;
                    spent.usage += *usage;
                    spent.cost += *cost;
                }
            } else if let Event::Turn(Turn::Prompted { .. }) = &event.event {
                self.messages += 1;
            } else if let Event::Turn(Turn::Ended(_)) = &event.event {
                self.turns += 1;
            } else if let Event::Tool(tool) = &event.event
                && let Some(Started { name, .. }) = tool.started()
            {
                started.insert(event.seq, name.to_owned());
            } else if let Event::Tool(Tool::Finished(finished)) = &event.event {
                let name = started.remove(&of).unwrap_or_else(|| "unknown".to_owned());
                let calls = self.tools.entry(name).or_default();
                calls.calls += 1;
                calls.errors += u64::from(finished.is_error);
            }
        }
    }

    /// The tools, those with the most calls first.
    fn most_called(&self) -> Vec<(&String, &Calls)> {
        let mut tools: Vec<(&String, &Calls)> = self.tools.iter().collect();
        tools.sort_by_key(|(_, calls)| Reverse(calls.calls));
        tools
    }

    fn text(&self) -> String {
        let Self { sessions, turns, messages, total, .. } = self;
        let total = line(total);
        let mut text = format!(
            "{}, {}, {}, {total}\n",
            counted(sessions, "session"),
            counted(turns, "turn"),
            counted(messages, "message"),
        );
        let groups = [("day", &self.days), ("model", &self.models), ("project", &self.projects)];
        for (name, group) in groups.into_iter().filter(|(_, group)| !group.is_empty()) {
            text += &format!("\nby {name}\n");
            for (key, spent) in group {
                let key = clean::printable_line(key);
                text += &format!("  {key:<32} {}\n", line(spent));
            }
        }
        if !self.tools.is_empty() {
            text += "\nby tool\n";
        }
        for (name, Calls { calls, errors }) in self.most_called() {
            let name = clean::printable_line(name);
            let (calls, errors) = (counted(calls, "call"), counted(errors, "error"));
            text += &format!("  {name:<32} {calls}, {errors}\n");
        }
        text
    }
}

fn line(Spent { requests, usage, cost }: &Spent) -> String {
    let Usage { input, output, reasoning, cache_read, cache_write } = usage;
    let out = output.saturating_add(*reasoning);
    // a model without a price
    let cost = if *cost > 0.0 { format!(", ${cost:.4}") } else { String::new() };
    format!(
        "{}, {} in, {out} out, {cache_read} cached, {cache_write} to the cache{cost}",
        counted(requests, "request"),
        counted(input, "token"),
    )
}
