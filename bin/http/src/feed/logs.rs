//! The logs of a store, as the feed reads them.

use std::collections::HashSet;
use std::sync::Arc;

use leftfold_actors::Recorded;
use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::{Head, LiveReader};

/// Events that are read at a time.
const CHUNK: usize = 512;

#[derive(Clone, Debug)]
pub(super) struct Logs(pub(super) LiveReader);

impl Logs {
    /// The events of a root session and of all its subagents, by time.
    pub(super) fn events_of_tree(&self, root: SessionId) -> anyhow::Result<Vec<Envelope>> {
        let (mut events, mut known, mut next) = (Vec::new(), HashSet::new(), vec![root]);
        while let Some(session) = next.pop() {
            if !known.insert(session) {
                continue;
            }
            let own = self.read(session, 1)?;
            next.extend(own.iter().filter_map(Envelope::spawned));
            events.extend(own);
        }
        events.sort_by_key(|event| event.at);
        Ok(events)
    }

    /// All events of a session as they are in the log: secrets are not masked.
    pub(super) fn unmasked(&self, session: SessionId) -> anyhow::Result<Vec<Envelope>> {
        let (mut events, mut from) = (Vec::new(), 1);
        loop {
            let chunk = self.0.read(session, from, CHUNK)?;
            let Some(last) = chunk.last() else { return Ok(events) };
            from = last.seq + 1;
            events.extend(chunk);
        }
    }

    fn read(&self, session: SessionId, mut from: Seq) -> anyhow::Result<Vec<Envelope>> {
        let mut events = Vec::new();
        loop {
            let chunk = self.0.read(session, from, CHUNK)?;
            let Some(last) = chunk.last() else { return Ok(events) };
            from = last.seq + 1;
            // secrets are masked as they are for every observer
            let chunk: Arc<[Envelope]> = chunk.into();
            events.extend(Recorded::all(&chunk).map(|event| event.masked().clone()));
        }
    }

    /// The root of a session, by heads.
    pub(super) fn root_of(&self, session: SessionId) -> Option<SessionId> {
        let mut head = self.0.head(session)?;
        let mut seen = HashSet::new();
        // a damaged head could name a circle
        while seen.insert(head.session)
            && let Some(parent) = head.summary.as_ref().and_then(|summary| summary.parent)
        {
            match self.0.head(parent) {
                Some(above) => head = above,
                None => return Some(parent),
            }
        }
        Some(head.session)
    }

    pub(super) fn heads(&self) -> Vec<Head> {
        self.0.heads()
    }
}
