//! The fold of a root session and its subagents into what people see.

use std::collections::BTreeMap;

use leftfold_events::event::{Cost, Event, Subagent, Tool, Turn};
use leftfold_events::rules::Rule;
use leftfold_events::turn_config::RuleSource;
use leftfold_events::{Envelope, Seq, SessionId};

use crate::change::Change;
use crate::question::OpenQuestion;
use crate::session::SessionView;
use crate::turn_rules::TurnRules;
use crate::words::heading;

/// The fold of the events of a root session and of its descendants.
///
/// Each event counts once: an event that arrives again, after a new watch, changes nothing.
#[derive(Debug)]
pub struct Transcript {
    root: SessionId,
    /// Whether events of another session before any of the root's belong to the root: a fork shares
    /// them with its origin.
    prefix: bool,
    keeps_messages: bool,
    sessions: BTreeMap<SessionId, (SessionView, SubagentStatus)>,
    /// The rules of the root, until the log says them.
    rules: TurnRules,
    /// The cost of the subagents in this turn or the last one.
    pub subagent_cost: Cost,
}

/// The status of a descendant of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStatus {
    pub agent: String,
    /// The session that has spawned it, if the transcript has that event.
    pub parent: Option<SessionId>,
    /// The seq of the root's call that it works for; 0 if unknown.
    pub under: Seq,
    /// 1 for the root's own children.
    pub depth: usize,
    pub works: bool,
    /// The number of its calls since it was spawned.
    pub calls: usize,
    /// Its last call, in one line.
    pub last: String,
}

impl SubagentStatus {
    fn new(agent: &str) -> Self {
        let (agent, last) = (agent.to_owned(), String::new());
        Self { agent, parent: None, under: 0, depth: 1, works: true, calls: 0, last }
    }
}

impl Transcript {
    /// A transcript for live output: it has the calls and questions of the current turn, and keeps
    /// no messages.
    pub fn live(root: SessionId) -> Self {
        let (sessions, rules) = (BTreeMap::new(), TurnRules::default());
        Self { root, prefix: false, keeps_messages: false, sessions, rules, subagent_cost: 0.0 }
    }

    /// A transcript that keeps all messages with their parts, calls and results.
    pub fn full(root: SessionId) -> Self {
        Self { keeps_messages: true, ..Self::live(root) }
    }

    /// For a log that is applied from its first event on, including a fork's shared events.
    pub fn from_start(self) -> Self {
        Self { prefix: true, ..self }
    }

    /// Sets the rules of the root's next turn with the places where they stand, for questions that come before the log
    /// has said them.
    pub fn set_rules(&mut self, rules: Vec<Rule>, sources: Vec<RuleSource>) {
        self.rules = TurnRules::with_sources(rules, sources);
        if let Some((view, _)) = self.sessions.get_mut(&self.root) {
            view.set_rules(&self.rules);
        }
    }

    /// The session whose transcript an event belongs to.
    pub fn session_of(&self, event: &Envelope) -> SessionId {
        if self.prefix { self.root } else { event.session }
    }

    pub fn is_root(&self, event: &Envelope) -> bool {
        self.session_of(event) == self.root
    }

    /// `None` before its first event.
    pub fn session(&self, id: SessionId) -> Option<&SessionView> {
        self.sessions.get(&id).map(|(view, _)| view)
    }

    pub fn root(&self) -> Option<&SessionView> {
        self.session(self.root)
    }

    /// `None` for the root, and before the session was spawned.
    pub fn subagent(&self, id: SessionId) -> Option<&SubagentStatus> {
        let status = self.sessions.get(&id).map(|(_, status)| status);
        status.filter(|_| id != self.root)
    }

    /// Every subagent; each names its `parent`.
    pub fn subagents(&self) -> impl Iterator<Item = (SessionId, &SubagentStatus)> {
        let all = self.sessions.iter().filter(|(id, _)| **id != self.root);
        all.map(|(id, (_, status))| (*id, status))
    }

    /// The running subagents.
    pub fn at_work(&self) -> impl Iterator<Item = &SubagentStatus> {
        self.subagents().map(|(_, status)| status).filter(|status| status.works)
    }

    /// Every open question, in the order in which they were asked. After a crash, questions of a
    /// subagent count once it is resumed.
    pub fn open_questions(&self) -> impl Iterator<Item = &OpenQuestion> {
        let resumed = self.root().map(|root| root.resumed).unwrap_or_default();
        let children = self.sessions.values().map(|(view, _)| view);
        let children = children.filter(move |view| view.id != self.root && view.at >= resumed);
        let all = self.root().into_iter().chain(children).flat_map(SessionView::open_questions);
        let mut all: Vec<&OpenQuestion> = all.collect();
        all.sort_by_key(|open| open.at);
        all.into_iter()
    }

    /// Applies an event. Returns the changes for people in the event's session, in the order in
    /// which they see them.
    pub fn apply(&mut self, event: &Envelope) -> Vec<Change> {
        self.prefix &= event.session != self.root;
        let id = self.session_of(event);
        let keeps_messages = self.keeps_messages;
        let new = || {
            let mut view = SessionView::new(id, keeps_messages);
            if id == self.root {
                view.set_rules(&self.rules);
            }
            (view, SubagentStatus::new("subagent"))
        };
        let (view, status) = self.sessions.entry(id).or_insert_with(new);
        if event.seq <= view.seq {
            return Vec::new();
        }
        let changes = view.apply(event);
        match &event.event {
            Event::Tool(Tool::Resolved(resolution)) => {
                status.calls += 1;
                status.last = heading(&resolution.name, &resolution.input.value());
            }
            Event::Subagent(subagent) => self.subagent_event(subagent, id, event),
            Event::Turn(Turn::Ended(_)) if id != self.root => status.works = false,
            Event::Turn(Turn::Prompted { .. }) if id == self.root => self.subagent_cost = 0.0,
            Event::Turn(Turn::Ended(_)) => self.rest(),
            _ => {}
        }
        changes
    }

    /// Ends all subagents: none outlives the root's turn.
    fn rest(&mut self) {
        for (_, (view, status)) in self.sessions.iter_mut().filter(|(id, _)| **id != self.root) {
            status.works = false;
            view.rest();
        }
    }

    fn subagent_event(&mut self, subagent: &Subagent, parent: SessionId, event: &Envelope) {
        match subagent {
            Subagent::Spawned { session, agent, .. } => {
                let Some(call) = event.of else { return };
                let (under, depth) = match self.subagent(parent) {
                    Some(parent) => (parent.under, parent.depth + 1),
                    None => (call, 1),
                };
                let spawned = SubagentStatus {
                    parent: Some(parent),
                    under,
                    depth,
                    ..SubagentStatus::new(agent)
                };
                let keeps_messages = self.keeps_messages;
                let new = || (SessionView::new(*session, keeps_messages), spawned.clone());
                self.sessions.entry(*session).or_insert_with(new).1 = spawned.clone();
            }
            Subagent::Ended { session, cost, .. } => {
                if parent == self.root {
                    self.subagent_cost += cost;
                }
                self.ended(*session);
            }
            Subagent::EndedUncounted { session, .. } => self.ended(*session),
        }
    }

    fn ended(&mut self, session: SessionId) {
        if let Some((_, status)) = self.sessions.get_mut(&session) {
            status.works = false;
        }
    }
}
