//! Brings the events of sessions that other nodes of a shared store run into the feed.
//!
//! Nodes tell each other which logs have grown. What is not told is found within about a second: by a look at the sessions
//! whose turns run elsewhere.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

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
    loop {
        let is_told = timeout(LOOK, grown.more.notified()).await.is_ok();
        let Some(sessions) = sessions.upgrade().filter(|sessions| !sessions.is_ending()) else {
            return;
        };
        let mut found =
            std::mem::take(&mut *grown.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        if !is_told && let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox()) {
            let look = move || inbox.with(|inboxes| inboxes.running_elsewhere(MOST));
            match tokio::task::spawn_blocking(look).await {
                Ok(Ok(running)) => found.extend(running),
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
