//! Brings the events of sessions that other nodes of a shared store run into the feed.
//!
//! Nodes tell each other which logs have grown. A node polls once a second in case a notification was lost: it looks at the
//! sessions that other nodes own, at those that have begun since the last look, and at those that clients know. A node lets
//! go of a session some seconds after a turn, so that no turn is too short for that.
//!
//! A client behind a load balancer hears of events from one node and gets the answer to its prompt from another. It may
//! end with the answer, so a node that answers waits until the others have told that their clients were sent everything.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use anyhow::anyhow;
use leftfold_events::{SessionId, Time};
use leftfold_runtime::socket::SessionRegistry;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::feed::Feed;
use crate::journal::SKEW;
use crate::opencode::Projection;

/// How often it looks for sessions that run elsewhere.
const SESSION_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Growth is collected for so long, so that a session that works costs little.
const COLLECT_DELAY: Duration = Duration::from_millis(20);

/// How long an answer waits for other nodes, of which one may be gone.
const NODES_TIMEOUT: Duration = Duration::from_secs(1);

/// How much longer than the answer the last frame may need to the client: it comes by another node and another connection.
const DELIVERY_DELAY: Duration = Duration::from_millis(50);

/// Sessions of each kind that are looked at.
const MAX_SESSIONS: usize = 256;

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
    let weak = (Arc::downgrade(sessions), Arc::downgrade(feed));
    let runtime = Handle::current();
    let shows = inbox.with(|inboxes| {
        inboxes.on_show(Box::new(move |session| {
            if let (Some(sessions), Some(feed)) = (weak.0.upgrade(), weak.1.upgrade()) {
                runtime.spawn(show(sessions, feed, session));
            }
        }));
        Ok(())
    });
    if let Err(error) = shows {
        tracing::warn!("clients of other nodes wait for those of this one: {error}");
    }
    tokio::spawn(run(Arc::downgrade(sessions), Arc::clone(feed), grown));
}

/// Waits until the clients of all nodes were sent what the log of a session has, for a second at most.
pub(crate) async fn shown(sessions: &Arc<SessionRegistry>, feed: &Feed, session: SessionId) {
    feed.taken().await;
    let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox()) else { return };
    let wait = move || inbox.with(|inboxes| inboxes.wait_for_others(session, NODES_TIMEOUT));
    let waited = tokio::task::spawn_blocking(wait).await;
    tracing::debug!("clients of other nodes were sent session {session}: {waited:?}");
}

/// Has the clients of this node sent what the log of a session has, and tells the node that waits for that.
async fn show(sessions: Arc<SessionRegistry>, feed: Arc<Feed>, session: SessionId) {
    if feed.has_clients() {
        // whoever waits does not wait for longer
        let sent = timeout(NODES_TIMEOUT, send_all(&sessions, &feed, session)).await;
        if !matches!(sent, Ok(Ok(()))) {
            tracing::debug!("the log of session {session} may not have reached clients: {sent:?}");
        }
    }
    let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox()) else { return };
    let told = inbox.with(|inboxes| {
        inboxes.shown(session);
        Ok(())
    });
    if let Err(error) = told {
        tracing::debug!("a node waits in vain for session {session}: {error}");
    }
}

async fn send_all(
    sessions: &Arc<SessionRegistry>,
    feed: &Arc<Feed>,
    session: SessionId,
) -> anyhow::Result<()> {
    let known = Arc::clone(feed);
    let look = move || (known.root_of(session).unwrap_or(session), known.end_of(session));
    let (root, end) = tokio::task::spawn_blocking(look).await?;
    if !feed.is_live(root) {
        bring(sessions, feed, root).await?;
    }
    let is_there = |tree: &Projection| (tree.seq(session) >= end).then_some(());
    feed.when(session, is_there).await.map_err(|error| anyhow!("{error:?}"))?;
    feed.taken().await;
    sleep(DELIVERY_DELAY).await;
    Ok(())
}

async fn run(sessions: Weak<SessionRegistry>, feed: Arc<Feed>, grown: Arc<Grown>) {
    let mut looked = Instant::now();
    loop {
        let _ = timeout(SESSION_POLL_INTERVAL, grown.more.notified()).await;
        let Some(sessions) = sessions.upgrade().filter(|sessions| !sessions.is_ending()) else {
            return;
        };
        let mut found =
            std::mem::take(&mut *grown.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        // also while others are told: the one hint that is lost may be among them
        if looked.elapsed() >= SESSION_POLL_INTERVAL
            && let Some(inbox) = sessions.kept_store().and_then(|store| store.inbox())
        {
            // this process may have stood still
            let since = SystemTime::now() - looked.elapsed() - SKEW;
            looked = Instant::now();
            let since = SessionId::first_at(Time::from(since));
            let known = feed.resting(MAX_SESSIONS);
            let look =
                move || inbox.with(|inboxes| inboxes.ends_elsewhere(since, &known, MAX_SESSIONS));
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
        sleep(COLLECT_DELAY).await;
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
