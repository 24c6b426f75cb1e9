//! A session and its children as one stream: the root's end comes last, also where the events of
//! different sessions arrive by different ways.

use std::collections::HashMap;

use leftfold_actors::Recorded;
use leftfold_events::event::{Event, Subagent, Turn};
use leftfold_events::{Envelope, SessionId};

/// Follows the events of a root and its children.
#[derive(Debug)]
pub struct Family {
    root: SessionId,
    /// For each child, the ends that its parent knows of and that have not come themselves.
    missing: HashMap<SessionId, i64>,
    /// The root's end, and what came after it.
    held: Vec<Recorded>,
}

impl Family {
    pub fn new(root: SessionId) -> Self {
        Self { root, missing: HashMap::new(), held: Vec::new() }
    }

    pub fn is_root(&self, event: &Envelope) -> bool {
        event.session == self.root
    }

    /// What may be shown, now that `events` have come.
    pub fn take(&mut self, events: &[Recorded]) -> Vec<Recorded> {
        let mut ready = Vec::new();
        for event in events {
            self.count(event);
            let ends = self.is_root(event) && matches!(event.event, Event::Turn(Turn::Ended(_)));
            let waits = ends && self.missing.values().any(|count| *count > 0);
            if waits || self.is_root(event) && !self.held.is_empty() {
                self.held.push(event.clone());
            } else {
                ready.push(event.clone());
            }
        }
        if !self.missing.values().any(|count| *count > 0) {
            ready.append(&mut self.held);
        }
        ready
    }

    fn count(&mut self, event: &Envelope) {
        if let Event::Subagent(
            Subagent::Ended { session, .. } | Subagent::EndedUncounted { session, .. },
        ) = &event.event
        {
            *self.missing.entry(*session).or_default() += 1;
        } else if matches!(event.event, Event::Turn(Turn::Ended(_))) && !self.is_root(event) {
            *self.missing.entry(event.session).or_default() -= 1;
        } else if matches!(event.event, Event::Turn(Turn::Prompted { .. }))
            && self.is_root(event)
            && self.is_holding()
        {
            // whoever goes on waits for no end of the turn before
            self.missing.clear();
        }
    }

    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// A child that could not even begin has no end of its own.
    pub fn give_up(&mut self) -> Vec<Recorded> {
        self.missing.clear();
        std::mem::take(&mut self.held)
    }
}
