//! Brings the events of sessions that other nodes of a shared store run into the feed.
//!
//! Nodes tell each other which logs have grown. What is not told is found within about a second: by a look at the sessions
//! that other nodes own, at those that have begun since the last look, and at those that clients know. A node lets go of
//! a session some seconds after a turn, so that no turn is too short for that.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use leftfold_events::{SessionId, Time};
use leftfold_runtime::socket::SessionRegistry;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::feed::Feed;
use crate::journal::SKEW;

/// How often it looks for sessions that run elsewhere.
const LOOK: Duration = Duration::from_secs(1);

/// Growth is collected for so long, so that a session that works costs little.
const COLLECT: Duration = Duration::from_millis(20);

/// Sessions of each kind that are looked at.
const MOST: usize = 256;

/// The sessions that have grown.
#[derive(Default)]
struct Grown {
    sessions: Mutex<HashSet<SessionId>>,
    more: Notify,
}

/// From now on the feed has the events of sessions that other nodes run, if nodes share the store.
pub(crate) fn follow(sessions: &Arc<SessionRegistry>, feed: &Arc<Feed>) {
    let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox()) else { return };
    let grown = Arc::new(Grown::default());
    let weak = Arc::downgrade(&grown);
    let hear = move |session| {
        let Some(grown) = weak.upgrade() else { return false };
        grown.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
        grown.more.notify_one();
        true
    };
    let ended = hear.clone();
    // what was heard of it meanwhile was left to its watch
    feed.tells_of_ends(Box::new(move |root| {
        // it is told as long as this follows
        let _: bool = ended(root);
    }));
    let hears = inbox.with(|inboxes| {
        inboxes.on_any_growth(Box::new(hear));
        Ok(())
    });
    if let Err(error) = hears {
        tracing::warn!("events of other nodes come late: {error}");
    }
    tokio::spawn(run(Arc::downgrade(sessions), Arc::clone(feed), grown));
}

async fn run(sessions: Weak<SessionRegistry>, feed: Arc<Feed>, grown: Arc<Grown>) {
    let mut looked = Instant::now();
    loop {
        let _ = timeout(LOOK, grown.more.notified()).await;
        let Some(sessions) = sessions.upgrade().filter(|sessions| !sessions.is_ending()) else {
            return;
        };
        let mut found =
            std::mem::take(&mut *grown.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        // also while others are told: the one hint that is lost may be among them
        if looked.elapsed() >= LOOK
            && let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox())
        {
            // this process may have stood still
            let since = SystemTime::now() - looked.elapsed() - SKEW;
            looked = Instant::now();
            let since = SessionId::first_at(Time::from(since));
            let known = feed.resting(MOST);
            let look = move || inbox.with(|inboxes| inboxes.ends_elsewhere(since, &known, MOST));
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(ends)) => {
                    let grown = ends.into_iter().filter(|end| feed.last_of(end.session) < end.seq);
                    found.extend(grown.map(|end| end.session));
                }
                Ok(Err(error)) => tracing::warn!("it is not known what runs elsewhere: {error}"),
                Err(error) => tracing::error!("looking for sessions failed: {error}"),
            }
        }
        let known = Arc::clone(&feed);
        let roots = move || {
            let roots = found.into_iter().map(|session| known.root_of(session).unwrap_or(session));
            let quiet = roots.filter(|root| !known.is_live(*root));
            quiet.collect::<HashSet<SessionId>>()
        };
        let Ok(roots) = tokio::task::spawn_blocking(roots).await else { return };
        for root in roots {
            if let Err(error) = bring(&sessions, &feed, root).await {
                tracing::warn!("events of session {root} do not reach the feed: {error:#}");
            }
        }
        sleep(COLLECT).await;
    }
}

async fn bring(
    sessions: &Arc<SessionRegistry>,
    feed: &Arc<Feed>,
    root: SessionId,
) -> anyhow::Result<()> {
    if let Some(client) = sessions.running(root).await? {
        return feed.follow(&client, None).await;
    }
    // its node has let go of it already
    let feed = Arc::clone(feed);
    tokio::task::spawn_blocking(move || feed.load(root)).await?;
    Ok(())
}
