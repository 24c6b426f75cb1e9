//! Serves one sink: one observation at a time, the next one after an acknowledgement.

use std::sync::{Arc, Weak};

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::Reader;
use ractor::ActorRef;
use tokio::time::Instant;

use super::feed::{Log, Next, Subscription};
use crate::messages::{Observation, ObserversMessage, Watch, WatchScope};
use crate::recorded::Recorded;
use crate::tasks;

/// The most events in one observation that is read from the log.
const CHUNK: usize = 128;

/// Serves until the sink or the hub ends. With `own`, the shared events of a fork are omitted.
pub(super) async fn serve(
    mut subscription: Subscription,
    watch: Watch,
    hub: ActorRef<ObserversMessage>,
    own: bool,
) {
    let (session, sink) = (watch.session, watch.sink.clone());
    let mut next_at = Instant::now();
    while subscription.feed.has_changed().is_ok() {
        let events = match subscription.next() {
            Next::Events(events) => events,
            Next::Nothing => {
                // the hub may be gone
                let _ = subscription.feed.changed().await;
                if Instant::now() < next_at {
                    // events that happen until then come together
                    tokio::time::sleep_until(next_at).await;
                }
                continue;
            }
            Next::Log(log) => {
                let (opening, promised) = (log.opening, log.promised);
                match read(log, session).await {
                    Ok(events) if !events.is_empty() => events,
                    Ok(_) if !promised => {
                        subscription.looked = Some(opening);
                        continue;
                    }
                    Ok(_) => return give_up(&sink, "the log ends before what was announced"),
                    Err(why) => return give_up(&sink, &why),
                }
            }
        };
        if let Some(last) = events.last() {
            subscription.advance(last.seq + 1);
        }
        let events = if own { of(session, events) } else { events };
        if events.is_empty() {
            continue;
        }
        let spawned = spawned(&events, &watch.family);
        next_at = Instant::now() + subscription.pace();
        let (done, acknowledged) = ractor::concurrency::oneshot();
        // a dead sink drops its port, which counts as an answer
        let _ = sink.cast(Observation { events, done: done.into() });
        if acknowledged.await.is_err() {
            return;
        }
        // only after the acknowledgement: a child comes after the event that spawned it
        for (session, from) in spawned {
            let descend = ObserversMessage::Descend {
                parent: watch.session,
                watch: Watch { session, from, ..watch.clone() },
            };
            // the hub may be gone
            let _ = hub.cast(descend);
        }
    }
}

/// Only the session's own events.
fn of(session: SessionId, events: Arc<[Recorded]>) -> Arc<[Recorded]> {
    if events.iter().all(|event| event.session == session) {
        return events;
    }
    events.iter().filter(|event| event.session == session).cloned().collect()
}

/// The sessions that these events add to the sink, and the seqs at which they begin for it.
fn spawned(events: &[Recorded], family: &WatchScope) -> Vec<(SessionId, Seq)> {
    let spawned = events.iter().filter_map(|event| {
        let session = event.spawned()?;
        let first = event.session.child(event.seq, event.at) == session;
        Some((session, family.begins(session, first)?))
    });
    spawned.collect()
}

/// Stops a sink that cannot be served, so that the code that waits for it notices.
pub(super) fn give_up(sink: &ActorRef<Observation>, why: &str) {
    tracing::error!("an observer cannot be served from the log: {why}");
    sink.stop(Some(why.to_owned()));
}

/// Reads the next events of the log.
async fn read(log: Log, session: SessionId) -> Result<Arc<[Recorded]>, String> {
    let Log { from, store, folder, chunk, .. } = log;
    let mut chunk = chunk.lock().await;
    let last = chunk.as_ref().and_then(Weak::upgrade);
    if let Some(last) = last.filter(|last| last.first().is_some_and(|event| event.seq == from)) {
        return Ok(last);
    }
    let read = tasks::blocking(move || match store {
        Some(store) => store.read(session, from, CHUNK),
        None => Reader::open(&folder)?.read(session, from),
    });
    let events = read.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
    let events: Arc<[Envelope]> = events.into();
    let events: Arc<[Recorded]> = Recorded::all(&events).take(CHUNK).collect();
    *chunk = Some(Arc::downgrade(&events));
    Ok(events)
}
