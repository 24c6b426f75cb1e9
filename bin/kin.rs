//! What the children of a session do, as people see it: a line for each of their calls, under the
//! call of the session's own that started them.

use std::collections::BTreeMap;

use leftfold_events::event::{Cost, EndReason, Event, Permission, Subagent, Tool, Turn};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq, SessionId};

use crate::text::{brief, first_line};

/// Follows a root session and those that descend from it.
#[derive(Debug)]
pub(crate) struct Kin {
    root: SessionId,
    members: BTreeMap<SessionId, Member>,
    /// What the children of the turn under way, or of the last one, have cost.
    pub(crate) cost: Cost,
}

/// One that descends from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) agent: String,
    /// The `model.called` of the root's call that it works for.
    pub(crate) under: Seq,
    /// 1 for the root's own children.
    pub(crate) depth: usize,
    pub(crate) works: bool,
    pub(crate) calls: usize,
    /// Its last call.
    pub(crate) last: String,
}

impl Kin {
    pub(crate) fn new(root: SessionId) -> Self {
        Self { root, members: BTreeMap::new(), cost: 0.0 }
    }

    pub(crate) fn is_root(&self, event: &Envelope) -> bool {
        event.session == self.root
    }

    pub(crate) fn member(&self, session: SessionId) -> Option<&Member> {
        self.members.get(&session)
    }

    /// Those that are at work.
    pub(crate) fn at_work(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.works)
    }

    /// The line that says what an event of a child is about, if it is worth one.
    pub(crate) fn follow(&mut self, event: &Envelope) -> Option<String> {
        match &event.event {
            Event::Subagent(subagent) => self.subagent(subagent, event),
            Event::Turn(Turn::Prompted { .. }) if self.is_root(event) => self.cost = 0.0,
            Event::Turn(Turn::Ended(_)) if self.is_root(event) => {
                self.members.values_mut().for_each(|member| member.works = false);
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Plugin(_) => {}
        }
        if self.is_root(event) {
            return None;
        }
        // one that a node before this one has spawned
        let member = self.members.entry(event.session).or_insert_with(|| Member::new("subagent"));
        let said = member.said(&event.event)?;
        Some(format!("{}{} {said}", "  ".repeat(member.depth), member.agent))
    }

    fn subagent(&mut self, subagent: &Subagent, event: &Envelope) {
        match subagent {
            Subagent::Spawned { session, agent, .. } => {
                let parent = self.members.get(&event.session);
                let (under, depth) = parent.map_or((event.of.unwrap_or_default(), 1), |parent| {
                    (parent.under, parent.depth + 1)
                });
                self.members.insert(*session, Member { under, depth, ..Member::new(agent) });
            }
            Subagent::Ended { session, cost, .. } => {
                if self.is_root(event) {
                    self.cost += cost;
                }
                self.ended(*session);
            }
            Subagent::EndedUncounted { session, .. } => self.ended(*session),
        }
    }

    fn ended(&mut self, session: SessionId) {
        if let Some(member) = self.members.get_mut(&session) {
            member.works = false;
        }
    }
}

impl Member {
    fn new(agent: &str) -> Self {
        let (agent, last) = (agent.to_owned(), String::new());
        Self { agent, under: 0, depth: 1, works: true, calls: 0, last }
    }

    fn said(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Tool(Tool::Resolved(resolution)) => {
                let call = format!("{} {}", resolution.name, brief(&resolution.input.value()));
                self.calls += 1;
                call.trim_end().clone_into(&mut self.last);
                Some(match &resolution.error {
                    None => format!("● {}", self.last),
                    Some(error) => format!("✗ {}: {}", self.last, first_line(error)),
                })
            }
            Event::Permission(Permission::Ruled { action: Action::Deny, .. }) => {
                Some(format!("✗ {}: denied", self.last))
            }
            Event::Permission(Permission::Asked { permission, patterns, .. }) => {
                Some(format!("asks for {permission}: {}", patterns.join(", ")))
            }
            Event::Turn(Turn::Ended(ended)) => {
                self.works = false;
                let how = match ended.reason {
                    EndReason::Completed => return None,
                    EndReason::Blocked => "was stopped: a call was rejected",
                    EndReason::Error => "failed",
                    EndReason::Aborted => "was interrupted",
                    EndReason::MaxSteps => "has used up its steps",
                    EndReason::Limit => "has reached a limit",
                };
                Some(how.to_owned())
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Plugin(_) => None,
        }
    }
}
