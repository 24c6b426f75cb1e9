//! Totals of tokens, cost, calls and denials, as `leftfold stats` and the page show them.

use std::collections::{BTreeMap, HashMap};

use leftfold_events::event::{
    Event, Model, Permission, Purpose, Session, Started, Tool, Turn, Usage,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use serde::Serialize;

/// The root of the session's project.
pub fn project_of(events: &[Envelope]) -> &str {
    let created = events.iter().find_map(|event| {
        let Event::Session(Session::Created { worktree, .. }) = &event.event else { return None };
        Some(worktree.as_str())
    });
    created.unwrap_or_default()
}

/// Tokens sent to and from models, and their cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spent {
    pub requests: u64,
    pub usage: Usage,
    /// US dollars.
    pub cost: f64,
}

impl Spent {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.usage += other.usage;
        self.cost += other.cost;
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Calls {
    pub calls: u64,
    pub errors: u64,
    /// Commands that ran and exited with a code other than 0. A model may expect that, as of a test that fails.
    pub failed: u64,
    /// How long they ran, all together and the longest, in milliseconds.
    pub ms: u64,
    pub longest_ms: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    pub sessions: u64,
    pub turns: u64,
    /// Prompts and replies, without titles and summaries.
    pub messages: u64,
    pub total: Spent,
    pub days: BTreeMap<String, Spent>,
    pub models: BTreeMap<String, Spent>,
    pub projects: BTreeMap<String, Spent>,
    pub tools: BTreeMap<String, Calls>,
    /// How often each rule has denied a call.
    pub denied: BTreeMap<String, u64>,
}

/// The totals of one session, to which the next events of its log can be added. Events that a fork shares count for the
/// session they come from.
#[derive(Debug)]
pub struct SessionTotals {
    pub totals: Totals,
    /// The last event of the log that was taken, counted or not.
    pub seq: Seq,
    session: SessionId,
    since: Option<Time>,
    /// The root of the session's project.
    project: String,
    /// Open requests and calls, by their events.
    asked: HashMap<Seq, (String, Purpose)>,
    started: HashMap<Seq, (String, Time)>,
}

impl SessionTotals {
    /// Counts events since this time, or all.
    pub fn new(session: SessionId, since: Option<Time>) -> Self {
        Self {
            totals: Totals::default(),
            seq: 0,
            session,
            since,
            project: String::new(),
            asked: HashMap::new(),
            started: HashMap::new(),
        }
    }

    /// Takes the next event of the log.
    pub fn push(&mut self, event: &Envelope) {
        self.seq = event.seq;
        if let Event::Session(Session::Created { worktree, .. }) = &event.event {
            self.project.clone_from(worktree);
        }
        let is_recent = self.since.is_none_or(|since| event.at >= since);
        if event.session != self.session || !is_recent {
            return;
        }
        let Self { totals, project, asked, started, .. } = self;
        totals.sessions = 1;
        if let Event::Model(Model::Requested { model, purpose, .. }) = &event.event {
            asked.insert(event.seq, (model.to_string(), *purpose));
        } else if let Event::Model(Model::Finished { usage, cost, .. }) = &event.event {
            let unknown = || ("unknown".to_owned(), Purpose::Turn);
            let (model, purpose) =
                event.of.and_then(|of| asked.remove(&of)).unwrap_or_else(unknown);
            totals.messages += u64::from(purpose == Purpose::Turn);
            let day = event.at.to_string().chars().take(10).collect();
            for spent in [
                &mut totals.total,
                totals.days.entry(day).or_default(),
                totals.models.entry(model).or_default(),
                totals.projects.entry(project.clone()).or_default(),
            ] {
                spent.requests += 1;
                spent.usage += *usage;
                spent.cost += *cost;
            }
        } else if let Event::Turn(Turn::Prompted { .. }) = &event.event {
            totals.messages += 1;
        } else if let Event::Turn(Turn::Ended(_)) = &event.event {
            totals.turns += 1;
        } else if let Event::Tool(tool) = &event.event
            && let Some(Started { name, .. }) = tool.started()
        {
            started.insert(event.seq, (name.to_owned(), event.at));
        } else if let Event::Tool(Tool::Finished(finished)) = &event.event {
            let unknown = || ("unknown".to_owned(), event.at);
            let (name, began) = event.of.and_then(|of| started.remove(&of)).unwrap_or_else(unknown);
            let ms = event.at.since(began);
            let calls = totals.tools.entry(name).or_default();
            calls.calls += 1;
            calls.errors += u64::from(finished.is_error);
            // parsed only if it is there
            let has_exit = finished.metadata.as_str().contains("\"exit\"");
            let exit = has_exit.then(|| finished.metadata.value()["exit"].as_i64()).flatten();
            calls.failed += u64::from(!finished.is_error && exit.is_some_and(|exit| exit != 0));
            calls.ms += ms;
            calls.longest_ms = calls.longest_ms.max(ms);
        } else if let Event::Permission(Permission::Ruled { action: Action::Deny, rule, .. }) =
            &event.event
        {
            let rule = rule.as_ref().map_or_else(|| "no rule".to_owned(), in_words);
            *totals.denied.entry(rule).or_default() += 1;
        }
    }
}

impl Totals {
    /// Adds the totals of other sessions.
    pub fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.turns += other.turns;
        self.messages += other.messages;
        self.total.add(&other.total);
        for (all, more) in [
            (&mut self.days, &other.days),
            (&mut self.models, &other.models),
            (&mut self.projects, &other.projects),
        ] {
            more.iter().for_each(|(key, spent)| all.entry(key.clone()).or_default().add(spent));
        }
        for (name, more) in &other.tools {
            let calls = self.tools.entry(name.clone()).or_default();
            calls.calls += more.calls;
            calls.errors += more.errors;
            calls.failed += more.failed;
            calls.ms += more.ms;
            calls.longest_ms = calls.longest_ms.max(more.longest_ms);
        }
        for (rule, count) in &other.denied {
            *self.denied.entry(rule.clone()).or_default() += count;
        }
    }
}

fn in_words(rule: &Rule) -> String {
    format!("{} {}", rule.permission, rule.pattern)
}
