//! `leftfold stats`: sums up tokens, cost and tool calls of all sessions, read from their logs.

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;
use std::time::SystemTime;

use leftfold_events::event::{Event, Model, Session, Started, Tool, Turn, Usage};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_store::Reader;
use serde::Serialize;

use crate::cli::{Format, Stats};
use leftfold_runtime::session_paths;
use leftfold_view::clean;

const DAY: u64 = 24 * 60 * 60 * 1_000;

pub(crate) fn stats(args: &Stats) -> anyhow::Result<ExitCode> {
    let directory = std::env::current_dir()?;
    let worktree = leftfold_config::worktree_of(&directory);
    let only = args.project.then(|| worktree.display().to_string());
    let now = Time::from(SystemTime::now()).millis();
    let days = args.days.map(|days| days.saturating_mul(DAY));
    let since = days.map(|days| Time::from_millis(now.saturating_sub(days)));
    let mut totals = Totals::default();
    for store in session_paths::stores()? {
        let read = Reader::open(&store).map(|reader| {
            for session in reader.sessions() {
                let (events, damage) = reader.read_good(session);
                totals.take(session, &events, since, only.as_deref());
                if let Some(damage) = damage {
                    leftfold_runtime::note(&format!(
                        "leftfold: {session} is damaged and counted only up to there: {damage}"
                    ));
                }
            }
        });
        if let Err(error) = read {
            leftfold_runtime::note(&format!("leftfold: not counted: {error}"));
        }
    }
    let text = match args.format {
        Format::Json => format!("{}\n", serde_json::to_string(&totals)?),
        Format::Text => totals.text(),
    };
    super::print_as(args.format, &text)
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
        only: Option<&str>,
    ) {
        let project = events.iter().find_map(|event| {
            let Event::Session(Session::Created { worktree, .. }) = &event.event else {
                return None;
            };
            Some(worktree.as_str())
        });
        let project = project.unwrap_or_default();
        let recent = |event: &&Envelope| {
            event.session == session && since.is_none_or(|since| event.at >= since)
        };
        if only.is_some_and(|only| only != project) || !events.iter().any(|event| recent(&event)) {
            return;
        }
        self.sessions += 1;
        let mut asked: HashMap<Seq, String> = HashMap::new();
        let mut started: HashMap<Seq, String> = HashMap::new();
        for event in events.iter().filter(recent) {
            let of = event.of.unwrap_or_default();
            if let Event::Model(Model::Requested { model, .. }) = &event.event {
                asked.insert(event.seq, model.to_string());
            } else if let Event::Model(Model::Finished { usage, cost, .. }) = &event.event {
                let model = asked.remove(&of).unwrap_or_else(|| "unknown".to_owned());
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

    fn text(&self) -> String {
        let mut text =
            format!("{} sessions, {} turns, {}\n", self.sessions, self.turns, line(&self.total));
        let groups = [("day", &self.days), ("model", &self.models), ("project", &self.projects)];
        for (name, group) in groups {
            text += &format!("\nby {name}\n");
            for (key, spent) in group {
                let key = clean::printable_line(key);
                text += &format!("  {key:<32} {}\n", line(spent));
            }
        }
        text += "\nby tool\n";
        for (name, Calls { calls, errors }) in &self.tools {
            let name = clean::printable_line(name);
            text += &format!("  {name:<32} {calls} calls, {errors} errors\n");
        }
        text
    }
}

fn line(Spent { requests, usage, cost }: &Spent) -> String {
    let Usage { input, output, reasoning, cache_read, cache_write } = usage;
    let out = output.saturating_add(*reasoning);
    format!(
        "{requests} requests, {input} tokens in, {out} out, {cache_read} cached, {cache_write} to the \
         cache, ${cost:.4}"
    )
}
