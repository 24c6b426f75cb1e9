//! The frames that a client has missed, read from the logs in the order of the journal.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;

use leftfold_events::{Envelope, Seq, SessionId, Time};

use crate::journal::{self, Record, RecordKind, Records};
use crate::opencode::{Frame, Projection};

use super::logs::Logs;
use super::sent::Sent;

/// Records whose frames are made at a time.
const CHUNK: usize = 64;

/// Folds the sessions again, from where a client has them to where it got its place in the feed.
pub(super) struct Replay {
    logs: Logs,
    journal: u64,
    /// The record and the number of the last frame that the client has.
    after: (u64, usize),
    missed: std::vec::IntoIter<(u64, Record)>,
    /// The last events before the missed records.
    seen: HashMap<SessionId, Seq>,
    /// The roots of sessions.
    roots: HashMap<SessionId, SessionId>,
    trees: HashMap<SessionId, ReplayedTree>,
    /// How many of a tree's records are left. A tree without any leaves memory.
    left: HashMap<SessionId, usize>,
}

impl Replay {
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn new(
        logs: Logs,
        mut roots: HashMap<SessionId, SessionId>,
        records: &Records,
        after: (u64, usize),
    ) -> io::Result<Self> {
        let (earlier, missed): (Vec<_>, Vec<_>) =
            records.read()?.into_iter().partition(|(at, _)| *at < after.0);
        let mut left = HashMap::<SessionId, usize>::new();
        for (_, Record { session, .. }) in &missed {
            if !roots.contains_key(session)
                && let Some(root) = logs.root_of(*session)
            {
                roots.insert(*session, root);
            }
            if let Some(root) = roots.get(session) {
                *left.entry(*root).or_default() += 1;
            }
        }
        Ok(Self {
            logs,
            journal: records.journal,
            after,
            missed: missed.into_iter(),
            seen: journal::last_seqs(&earlier),
            roots,
            trees: HashMap::new(),
            left,
        })
    }

    /// The frames of the next records; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Vec<Sent>> {
        let records: Vec<(u64, Record)> = self.missed.by_ref().take(CHUNK).collect();
        if records.is_empty() {
            return None;
        }
        let mut frames = Vec::new();
        for (position, record) in records {
            let Some(root) = self.roots.get(&record.session).copied() else { continue };
            let tree = self.trees.entry(root).or_insert_with(|| {
                let events = self.logs.events_of_tree(root).unwrap_or_default();
                let projection = Projection::new(root, self.logs.fork_number(root));
                ReplayedTree::new(projection, events, &self.seen)
            });
            let (at, of_record) = tree.frames(record);
            for (number, frame) in of_record.into_iter().enumerate() {
                if position == self.after.0 && number <= self.after.1 {
                    continue;
                }
                let known = tree.projection.session(frame.session);
                let place = known.map(|known| known.place().clone()).unwrap_or_default();
                let cursor = (self.journal, position, number);
                frames.push(Sent::of_event(cursor, at, place, &frame));
            }
            if let Some(left) = self.left.get_mut(&root) {
                *left -= 1;
                if *left == 0 {
                    self.trees.remove(&root);
                }
            }
        }
        Some(frames)
    }
}

struct ReplayedTree {
    projection: Projection,
    /// The events that follow, in the order of each session.
    rest: BTreeMap<SessionId, VecDeque<Envelope>>,
}

impl ReplayedTree {
    fn new(projection: Projection, events: Vec<Envelope>, seen: &HashMap<SessionId, Seq>) -> Self {
        let mut tree = Self { projection, rest: BTreeMap::new() };
        for event in events {
            let session = tree.projection.session_of(&event);
            if event.seq <= seen.get(&session).copied().unwrap_or_default() {
                tree.projection.apply(&event);
            } else {
                tree.rest.entry(session).or_default().push_back(event);
            }
        }
        tree
    }

    /// The frames of a record, and the time of its event.
    fn frames(&mut self, record: Record) -> (Time, Vec<Frame>) {
        let (mut at, mut frames) = (self.projection.at(record.session), Vec::new());
        let rest = self.rest.entry(record.session).or_default();
        while rest.front().is_some_and(|event| event.seq <= record.seq) {
            let Some(event) = rest.pop_front() else { break };
            let of_event = self.projection.apply(&event);
            at = event.at;
            if record.kind == RecordKind::Sent {
                frames.extend(of_event);
            }
        }
        if record.kind == RecordKind::CutOff {
            (at, frames) = (self.projection.at(record.session), self.projection.cut_off());
        }
        (at, frames)
    }
}
