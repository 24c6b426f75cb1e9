//! A session and its subagents: which call each works for, and a line for each thing that it does.

use std::collections::BTreeMap;

use leftfold_events::event::{Cost, EndReason, Event, Permission, Subagent, Tool, Turn};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq, SessionId};

use crate::words::{brief, first_line};

/// A root session and the sessions that descend from it.
#[derive(Debug)]
pub struct SessionTree {
    root: SessionId,
    members: BTreeMap<SessionId, SubagentStatus>,
    /// Cost of the subagents in the current turn, or in the last one.
    pub cost: Cost,
}

/// A session that descends from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubagentStatus {
    pub agent: String,
    /// The seq of the root's call that it works for.
    pub under: Seq,
    /// 1 for the root's own children.
    pub depth: usize,
    pub works: bool,
    pub calls: usize,
    /// Its last call, in one line.
    pub last: String,
}

impl SessionTree {
    pub fn new(root: SessionId) -> Self {
        Self { root, members: BTreeMap::new(), cost: 0.0 }
    }

    pub fn is_root(&self, event: &Envelope) -> bool {
        event.session == self.root
    }

    pub fn member(&self, session: SessionId) -> Option<&SubagentStatus> {
        self.members.get(&session)
    }

    /// The subagents that are at work.
    pub fn at_work(&self) -> impl Iterator<Item = &SubagentStatus> {
        self.members.values().filter(|member| member.works)
    }

    /// Takes an event in. Returns the line for people that it is worth, if a subagent did it.
    pub fn follow(&mut self, event: &Envelope) -> Option<String> {
        if let Event::Subagent(subagent) = &event.event {
            self.subagent(subagent, event);
        }
        if self.is_root(event) {
            self.root(event);
            return None;
        }
        // one that a node before this one has spawned
        let member =
            self.members.entry(event.session).or_insert_with(|| SubagentStatus::new("subagent"));
        let said = member.said(&event.event)?;
        Some(format!("{}{} {said}", "  ".repeat(member.depth), member.agent))
    }

    fn root(&mut self, event: &Envelope) {
        if let Event::Turn(Turn::Prompted { .. }) = &event.event {
            self.cost = 0.0;
        } else if let Event::Turn(Turn::Ended(_)) = &event.event {
            self.members.values_mut().for_each(|member| member.works = false);
        }
    }

    fn subagent(&mut self, subagent: &Subagent, event: &Envelope) {
        match subagent {
            Subagent::Spawned { session, agent, .. } => {
                let parent = self.members.get(&event.session);
                let (under, depth) = parent.map_or((event.of.unwrap_or_default(), 1), |parent| {
                    (parent.under, parent.depth + 1)
                });
                self.members.insert(
                    *session,
                    SubagentStatus { under, depth, ..SubagentStatus::new(agent) },
                );
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

impl SubagentStatus {
    fn new(agent: &str) -> Self {
        let (agent, last) = (agent.to_owned(), String::new());
        Self { agent, under: 0, depth: 1, works: true, calls: 0, last }
    }

    fn said(&mut self, event: &Event) -> Option<String> {
        if let Event::Tool(Tool::Resolved(resolution)) = event {
            let call = format!("{} {}", resolution.name, brief(&resolution.input.value()));
            self.calls += 1;
            call.trim_end().clone_into(&mut self.last);
            Some(match &resolution.error {
                None => format!("● {}", self.last),
                Some(error) => format!("✗ {}: {}", self.last, first_line(error)),
            })
        } else if let Event::Permission(Permission::Ruled { action: Action::Deny, .. }) = event {
            Some(format!("✗ {}: denied", self.last))
        } else if let Event::Permission(Permission::Asked { permission, patterns, .. }) = event {
            Some(format!("asks for {permission}: {}", patterns.join(", ")))
        } else if let Event::Turn(Turn::Ended(ended)) = event {
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
        } else {
            None
        }
    }
}
