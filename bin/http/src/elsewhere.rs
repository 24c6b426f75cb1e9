//! Brings the events of sessions that other nodes of a shared store run into the feed.
//!
//! Nodes tell each other which logs have grown. What is not told is found within about a second: by a look at the sessions
//! that other nodes own. One rests for some seconds before its node lets go of it, so that no turn is too short for that.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use leftfold_events::SessionId;
use leftfold_runtime::socket::SessionRegistry;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::feed::Feed;

/// How often it looks for sessions that run elsewhere.
const LOOK: Duration = Duration::from_secs(1);

/// Growth is collected for so long, so that a session that works costs little.
const COLLECT: Duration = Duration::from_millis(20);

/// Sessions of other nodes that are looked at.
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
            looked = Instant::now();
            let look = move || inbox.with(|inboxes| inboxes.owned_elsewhere(MOST));
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(owned)) => {
                    let grown = owned.into_iter().filter(|one| feed.last_of(one.session) < one.seq);
                    found.extend(grown.map(|one| one.session));
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
    let show = move || {
        feed.show_new(root);
        feed.load(root)
    };
    tokio::task::spawn_blocking(show).await?;
    Ok(())
}
