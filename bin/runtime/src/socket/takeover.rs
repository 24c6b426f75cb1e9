//! Goes on with the sessions of a shared store that want a node and have none, because theirs has died or has handed
//! them over, or because this node owns them and is not at work in them. Closes those that other nodes have taken,
//! because this one stood still for longer than its lease.
//!
//! The engine knows which sessions these are, and gives each to one node. A session is opened and resumed as
//! `leftfold resume` does it, with the permission mode that its turn had.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use leftfold_events::SessionId;
use leftfold_store::Inbox;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::inbox::take_messages;
use super::sessions::SessionRegistry;
use crate::redact_output;

/// How often it looks for sessions, if nothing wakes it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The length to which a note about a session is cut, in characters.
const MAX_TROUBLE: usize = 500;

/// With so many sessions open, this node takes no more.
const MAX_SESSIONS: usize = 256;

/// A session that fails again and again is tried after pauses that become longer, from [`POLL_INTERVAL`] up to this.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(600);

/// From now on until it ends, the node goes on with sessions of its store that want a node and have none, and takes the
/// messages of other nodes, if it shares the store with them.
pub fn take_over_unowned(sessions: &Arc<SessionRegistry>) {
    if sessions.kept_store().is_some_and(|store| store.is_shared()) {
        tokio::spawn(run(Arc::downgrade(sessions)));
        if let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox()) {
            take_messages(sessions, &inbox, true);
        }
    }
}

async fn run(sessions: Weak<SessionRegistry>) {
    let wake = Arc::new(Notify::new());
    let mut attempts = Attempts::default();
    // sessions that are being taken
    let mut taking: HashMap<SessionId, JoinHandle<()>> = HashMap::new();
    // several nodes look at the same moment, so each begins with other sessions
    let order = RandomState::new();
    if let Some(store) = sessions.upgrade().and_then(|sessions| sessions.kept_store()) {
        let wake = Arc::downgrade(&wake);
        let woken = move || wake.upgrade().map(|wake| wake.notify_one()).is_some();
        store.on_release(Box::new(woken));
    }
    loop {
        let _ = timeout(POLL_INTERVAL, wake.notified()).await;
        let Some(sessions) = sessions.upgrade().filter(|sessions| !sessions.is_ending()) else {
            return;
        };
        let Some(store) = sessions.kept_store() else { return };
        let Ok(open) = sessions.list_open().await else { return };
        if let Err(error) = sessions.close_lost(&open).await {
            tracing::warn!("it is not known which sessions belong to other nodes: {error:#}");
        }
        let at_work = open.iter().filter(|listed| listed.is_at_work);
        let at_work: Vec<SessionId> = at_work.map(|listed| listed.session).collect();
        let inbox = store.inbox();
        let look = move || store.unowned(&at_work, MAX_SESSIONS);
        let mut found = match tokio::task::spawn_blocking(look).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                tracing::warn!("it is not known which sessions want a node: {error}");
                continue;
            }
            Err(error) => {
                tracing::error!("looking for sessions failed unexpectedly: {error}");
                continue;
            }
        };
        taking.retain(|_, task| !task.is_finished());
        found.retain(|session| !taking.contains_key(session));
        found.sort_by_cached_key(|session| order.hash_one(session));
        for session in attempts.due(found, Instant::now()) {
            let (sessions, inbox) = (Arc::clone(&sessions), inbox.clone());
            let take = async move {
                match sessions.claim(session).await {
                    Ok(true) => tracing::info!("session {session} goes on here"),
                    Ok(false) => tracing::debug!("session {session} goes on at another node"),
                    Err(error) => {
                        tracing::warn!("session {session} is not taken over: {error:#}");
                        note_trouble(inbox, session, &error).await;
                    }
                }
            };
            taking.insert(session, tokio::spawn(take));
        }
    }
}

/// Notes in the database why this node cannot go on with a session, for `leftfold why` anywhere.
async fn note_trouble(inbox: Option<Inbox>, session: SessionId, error: &anyhow::Error) {
    let Some(inbox) = inbox else { return };
    let why = redact_output::masked(&format!("{error:#}")).into_owned();
    let why: String = why.chars().filter(|letter| *letter != '\0').take(MAX_TROUBLE).collect();
    let note = move || inbox.with(|inboxes| inboxes.note_trouble(session, why));
    if let Ok(Err(error)) = tokio::task::spawn_blocking(note).await {
        tracing::warn!("nobody learns why session {session} waits: {error}");
    }
}

/// When each session was last tried, and the pause after that.
#[derive(Debug, Default)]
struct Attempts(HashMap<SessionId, (Instant, Duration)>);

impl Attempts {
    /// Those of the sessions that may be tried now.
    fn due(&mut self, found: Vec<SessionId>, now: Instant) -> Vec<SessionId> {
        // long enough ago to count no more
        self.0.retain(|_, (last, pause)| now < *last + *pause + MAX_RETRY_DELAY);
        let mut due = found;
        due.retain(|session| match self.0.get_mut(session) {
            Some((last, pause)) if now < *last + *pause => false,
            Some((last, pause)) => {
                (*last, *pause) = (now, (*pause * 2).min(MAX_RETRY_DELAY));
                true
            }
            None => {
                self.0.insert(*session, (now, POLL_INTERVAL));
                true
            }
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_fails_is_tried_after_longer_and_longer_pauses() {
        let mut attempts = Attempts::default();
        let (session, start) = (SessionId::default(), Instant::now());
        let mut tried = Vec::new();
        for second in 0..3_000 {
            let now = start + Duration::from_secs(second);
            if !attempts.due(vec![session], now).is_empty() {
                tried.push(second);
            }
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1_023, 1_623, 2_223, 2_823]);
        let later = start + Duration::from_secs(9_000);
        assert_eq!(attempts.due(vec![session], later), [session]);
        // it begins anew
        assert_eq!(attempts.due(vec![session], later + POLL_INTERVAL), [session]);
    }
}
