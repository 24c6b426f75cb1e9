//! The recent events of a watched session.

#![expect(
    clippy::disallowed_types,
    reason = "between the hub and the tasks that it owns: how far a sink is, and what was read last"
)]

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use leftfold_events::{Envelope, Seq, SessionId};
use leftfold_store::LiveReader;
use tokio::sync::{Mutex, watch};

use crate::recorded::Recorded;

/// The size of the recent events that are kept per session, in bytes. They serve sinks that are a
/// little behind, so that not each of them reads the log.
const RECENT: usize = 256 << 10;

/// As many sinks of a session get their events at once.
const FEW: usize = 8;

/// The time between two observations of a sink, for each sink beyond the few. Each wakes a task and usually a process,
/// so the more sinks there are, the more events share one observation.
const SINK_INTERVAL: Duration = Duration::from_micros(400);

/// The longest time between two observations of a sink that is ready. A person does not notice it.
const MAX_SINK_INTERVAL: Duration = Duration::from_millis(50);

/// The least time between two observations of one of `sinks`.
fn pace(sinks: usize) -> Duration {
    let more = u32::try_from(sinks.saturating_sub(FEW)).unwrap_or(u32::MAX);
    SINK_INTERVAL.saturating_mul(more).min(MAX_SINK_INTERVAL)
}

/// The last events read from the log. Sinks that need equal events share them and read one after
/// the other.
pub(super) type Shared = Arc<Mutex<Option<Weak<[Recorded]>>>>;

/// A session's feed, and the cursors of its sinks.
#[derive(Default)]
pub(super) struct Channel {
    feed: Arc<watch::Sender<Feed>>,
    /// Wakes the sinks of a closed session when its log grows, in a store that other nodes share.
    growth: Option<Box<dyn Send + Sync>>,
    /// The next seq of each sink. A sink that is gone has dropped its cursor.
    cursors: Vec<Arc<AtomicU64>>,
}

#[derive(Default)]
pub(super) struct Feed {
    /// `None` while the session is closed, unless the node keeps the store.
    store: Option<LiveReader>,
    folder: PathBuf,
    /// How often the store was opened: other nodes may have written to it in between.
    openings: u64,
    /// The last seq known to be in the log.
    head: Seq,
    /// The opening in which the session has announced it, while it is open; otherwise 0. Later events are announced too.
    announced: u64,
    /// The recent events, without gaps.
    recent: VecDeque<Recorded>,
    chunk: Shared,
    /// The least time between two observations of a sink.
    pace: Duration,
}

/// One sink's access to the feed.
pub(super) struct Subscription {
    pub(super) feed: watch::Receiver<Feed>,
    cursor: Arc<AtomicU64>,
    /// The opening whose log was read to its end.
    pub(super) looked: Option<u64>,
}

/// The next input of a sink.
pub(super) enum Next {
    Events(Arc<[Recorded]>),
    Log(Log),
    /// The sink has all events.
    Nothing,
}

/// The place to continue reading the log.
pub(super) struct Log {
    pub(super) from: Seq,
    /// `None`: read a copy of the folder's store.
    pub(super) store: Option<LiveReader>,
    pub(super) folder: PathBuf,
    pub(super) opening: u64,
    /// Whether the log is known to have more events.
    pub(super) promised: bool,
    pub(super) chunk: Shared,
}

impl Channel {
    pub(super) fn subscription(&mut self, from: Seq) -> Subscription {
        let cursor = Arc::new(AtomicU64::new(from));
        self.cursors.push(Arc::clone(&cursor));
        self.set_pace();
        Subscription { feed: self.feed.subscribe(), cursor, looked: None }
    }

    /// The place of the session's log.
    pub(super) fn place(&self) -> (Option<LiveReader>, PathBuf) {
        let feed = self.feed.borrow();
        (feed.store.clone(), feed.folder.clone())
    }

    /// Sets the place of the session's log.
    pub(super) fn placed(&mut self, (store, folder): (Option<LiveReader>, PathBuf)) {
        if let Some(store) = store {
            return self.opened(store);
        }
        self.feed.send_if_modified(|feed| {
            let new = feed.folder.as_os_str().is_empty();
            if new {
                feed.openings += 1;
                feed.folder = folder;
            }
            new
        });
    }

    pub(super) fn is_watched(&self) -> bool {
        !self.cursors.is_empty()
    }

    /// The session's store can be read.
    pub(super) fn opened(&mut self, store: LiveReader) {
        self.growth = None;
        self.feed.send_if_modified(|feed| {
            let new = feed.store.is_none();
            if new {
                feed.openings += 1;
                store.dir().clone_into(&mut feed.folder);
                feed.store = Some(store);
            }
            new
        });
    }

    /// The session is closed. In a folder that the node keeps, no other node can write meanwhile; in a database that it
    /// keeps, the log is read whenever it has grown.
    pub(super) fn closed(&mut self, session: SessionId, is_kept: bool) {
        self.forget();
        if is_kept {
            self.follow(session);
            return;
        }
        self.feed.send_modify(|feed| {
            feed.store = None;
            // from now on other nodes may write
            feed.announced = 0;
        });
    }

    fn follow(&mut self, session: SessionId) {
        let Some(inbox) = self.feed.borrow().store.as_ref().and_then(LiveReader::inbox) else {
            return;
        };
        // other nodes may have gone on with it, and may do so any time
        let look_again = |feed: &mut Feed| {
            feed.announced = 0;
            feed.openings += 1;
        };
        self.feed.send_modify(look_again);
        let feed = Arc::downgrade(&self.feed);
        let wake = move || {
            if let Some(feed) = feed.upgrade() {
                feed.send_modify(look_again);
            }
        };
        let growth = inbox.with(|inboxes| Ok(inboxes.on_growth(session, Arc::new(wake))));
        // nothing can fail in it
        self.growth = growth.ok();
    }

    /// Adds a batch. False: no sink watches any more.
    pub(super) fn happened(&mut self, batch: &Arc<[Envelope]>) -> bool {
        self.forget();
        self.feed.send_modify(|feed| feed.add(batch));
        // changed in place, while sinks may be reading
        self.feed.send_if_modified(|feed| {
            feed.shrink();
            false
        });
        !self.cursors.is_empty()
    }

    /// Fits the pace to the number of sinks.
    fn set_pace(&self) {
        let pace = pace(self.cursors.len());
        self.feed.send_if_modified(|feed| {
            feed.pace = pace;
            false
        });
    }

    /// Drops sinks that are gone, and the events that all others have.
    pub(super) fn forget(&mut self) {
        let before = self.cursors.len();
        self.cursors.retain(|cursor| Arc::strong_count(cursor) > 1);
        if self.cursors.len() < before {
            self.set_pace();
        }
        let had = self.cursors.iter().map(|cursor| cursor.load(Ordering::Acquire)).min();
        let had = had.unwrap_or(Seq::MAX);
        self.feed.send_if_modified(|feed| {
            while feed.recent.front().is_some_and(|event| event.seq < had) {
                feed.recent.pop_front();
            }
            false
        });
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // a sink that does not answer must not hold the store open
        self.feed.send_modify(|feed| feed.store = None);
    }
}

impl Feed {
    fn add(&mut self, batch: &Arc<[Envelope]>) {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return };
        if self.recent.back().is_some_and(|event| event.seq + 1 != first.seq) {
            self.recent.clear();
        }
        (self.head, self.announced) = (last.seq, self.openings);
        self.recent.extend(Recorded::all(batch));
    }

    /// Drops the oldest events over the limit. The newest one stays, whatever its size.
    fn shrink(&mut self) {
        let mut weight = 0;
        let heavy = self.recent.iter().rev().position(|event| {
            weight += event.weight();
            weight > RECENT
        });
        if let Some(kept) = heavy {
            self.recent.drain(..self.recent.len() - kept.max(1));
        }
    }

    /// The recent events from `from` on.
    fn recent(&self, from: Seq) -> Option<Arc<[Recorded]>> {
        let skipped = from.checked_sub(self.recent.front()?.seq)?;
        let events = self.recent.range(usize::try_from(skipped).ok()?.min(self.recent.len())..);
        (events.len() > 0).then(|| events.cloned().collect())
    }
}

impl Subscription {
    pub(super) fn next(&mut self) -> Next {
        let from = self.cursor.load(Ordering::Acquire);
        let feed = self.feed.borrow_and_update();
        if let Some(events) = feed.recent(from) {
            return Next::Events(events);
        }
        let promised = from <= feed.head;
        let is_known = self.looked == Some(feed.openings) || feed.announced == feed.openings;
        if !promised && is_known {
            return Next::Nothing;
        }
        Next::Log(Log {
            from,
            store: feed.store.clone(),
            folder: feed.folder.clone(),
            opening: feed.openings,
            promised,
            chunk: Arc::clone(&feed.chunk),
        })
    }

    /// The least time between two observations now.
    pub(super) fn pace(&self) -> Duration {
        self.feed.borrow().pace
    }

    /// The sink is being sent the events before `seq`.
    pub(super) fn advance(&self, seq: Seq) {
        self.cursor.store(seq, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use leftfold_store::Store;

    use super::*;

    #[test]
    fn what_sinks_of_a_closed_session_miss_is_read_from_the_open_store_if_the_node_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        for is_kept in [true, false] {
            let mut channel = Channel::default();
            channel.opened(store.reader());
            let mut sink = channel.subscription(1);
            channel.closed(SessionId::default(), is_kept);
            let Next::Log(log) = sink.next() else { panic!("the log was not read yet") };
            assert_eq!(log.store.is_some(), is_kept);
        }
    }

    #[test]
    fn many_sinks_take_more_events_at_a_time() {
        for (sinks, micros) in [(0, 0), (1, 0), (8, 0), (9, 400), (50, 16_800), (1_000, 50_000)] {
            assert_eq!(pace(sinks), Duration::from_micros(micros), "{sinks}");
        }
        let mut channel = Channel::default();
        let first = channel.subscription(1);
        let more: Vec<_> = (1..FEW).map(|_| channel.subscription(1)).collect();
        assert_eq!(first.pace(), Duration::ZERO);
        let last = channel.subscription(1);
        assert_eq!((first.pace(), more.len()), (SINK_INTERVAL, FEW - 1));
        drop(last);
        channel.forget();
        assert_eq!(first.pace(), Duration::ZERO);
    }
}
