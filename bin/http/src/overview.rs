//! The overview of all sessions for the page: a list, from heads, and totals, from logs. Of a log that has grown, only
//! the new events are read.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leftfold_events::SessionId;
use leftfold_runtime::session_list;
use leftfold_runtime::stats::{SessionTotals, Totals};
use leftfold_store::Head;
use leftfold_view::clean::printable_line;
use serde_json::{Value, json};

use crate::feed::Feed;

/// How long one request reads logs.
const READ_TIMEOUT: Duration = Duration::from_millis(700);

#[derive(Debug, Default)]
pub(crate) struct Overview {
    totals: Mutex<HashMap<SessionId, SessionTotals>>,
}

impl Overview {
    /// Reads the disk, for a moment: `is_all` is false if there are more logs to read. Sessions whose logs cannot be
    /// read count nothing.
    pub(crate) fn read(&self, feed: &Feed) -> anyhow::Result<Value> {
        let late = Instant::now() + READ_TIMEOUT;
        let mut is_all = true;
        let heads = feed.heads()?;
        let costs = costs(&heads);
        let mut counted = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let present: HashSet<SessionId> = heads.iter().map(|head| head.session).collect();
        counted.retain(|session, _| present.contains(session));
        let mut totals = Totals::default();
        let mut listed = Vec::new();
        for head in &heads {
            let begun = counted.entry(head.session);
            let own = begun.or_insert_with(|| SessionTotals::new(head.session, None));
            if own.seq > head.seq {
                // another log has taken the place of the one that was read
                *own = SessionTotals::new(head.session, None);
            }
            while own.seq < head.seq {
                if Instant::now() > late {
                    is_all = false;
                    break;
                }
                let more = feed.events_after(head.session, own.seq).unwrap_or_else(|error| {
                    tracing::warn!("session {} is not counted: {error:#}", head.session);
                    Vec::new()
                });
                let known = own.seq;
                let new = more.iter().take_while(|event| event.seq <= head.seq);
                new.for_each(|event| own.push(event));
                if own.seq == known {
                    // a log that cannot be read is tried again when it has grown
                    own.seq = head.seq;
                }
            }
            let own = &own.totals;
            totals.add(own);
            let cost = costs.get(&head.session).copied().unwrap_or_default();
            listed.extend(of_session(feed, head, own, cost));
        }
        listed.sort_by_key(|session| std::cmp::Reverse(session["updated"].as_u64()));
        let read = json!({ "sessions": listed, "totals": totals, "is_all": is_all }).to_string();
        let masked = leftfold_runtime::redact_output::masked(&read);
        Ok(serde_json::from_str(&masked)?)
    }
}

/// The cost of each root session with its subagents.
fn costs(heads: &[Head]) -> HashMap<SessionId, f64> {
    let parent = |head: &Head| head.summary.as_ref().and_then(|summary| summary.parent);
    let parents: HashMap<SessionId, SessionId> =
        heads.iter().filter_map(|head| Some((head.session, parent(head)?))).collect();
    let mut costs = HashMap::new();
    for head in heads {
        let mut root = head.session;
        // a damaged head could name a circle
        for _ in 0..parents.len() {
            let Some(above) = parents.get(&root) else { break };
            root = *above;
        }
        let own = head.summary.as_ref().map_or(0.0, |summary| summary.cost);
        *costs.entry(root).or_default() += own;
    }
    costs
}

/// A root session in the list, with the totals of its log as far as it was read.
fn of_session(feed: &Feed, head: &Head, own: &Totals, cost: f64) -> Option<Value> {
    let summary = head.summary.as_ref()?;
    if summary.parent.is_some() {
        return None;
    }
    let store = feed.store_of(head.session);
    let models: Vec<&String> = own.models.keys().collect();
    Some(json!({
        "session": head.session,
        "title": printable_line(&session_list::title(head)),
        "agent": printable_line(&summary.agent),
        "project": printable_line(&summary.worktree),
        "state": session_list::state(&store, head),
        "models": models,
        "turns": summary.turns,
        "cost": cost,
        "fork_of": summary.fork_of,
        "created": summary.created.millis(),
        "updated": head.at.millis(),
    }))
}
