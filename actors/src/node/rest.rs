//! Closes sessions that are not in use and releases their stores, and opens them again at their
//! next use. A session rests after a minute without a turn and without messages, and sooner if many
//! are open. Its store is closed unless another session uses it. Observers continue at their cursors. The timer runs only
//! while a session is open.

use std::path::PathBuf;
use std::time::Duration;

use leftfold_events::SessionId;
use leftfold_events::event::Session as SessionEvent;
use ractor::ActorRef;
use tokio::sync::watch;
use tokio::time::Instant;

use super::opening::{Then, Waiting};
use super::{Entry, LOG_RELEASE_TIMEOUT, Sessions};
use crate::messages::{Error, NodeMessage, ObserversMessage, OpenSession, SessionMessage};
use crate::world::World;

/// How long a session is unused before it is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// With more open sessions than these, two that were unused for [`UNUSED_DELAY`] rest when another is opened. An open session
/// takes up some 0.6 MiB, and the allocator keeps most of it: so this bounds the memory of a node that has served many.
const MANY: usize = 16;
const UNUSED_DELAY: Duration = Duration::from_secs(2);

/// How many sessions are asked whether they are at rest when another is opened. Two, so that fewer and fewer are open. To
/// ask all of them made opening a thousand cost the square of that.
const ASKED: usize = 2;

/// The data for opening a session again.
#[derive(Debug)]
pub(super) struct Resting {
    store: PathBuf,
    /// Without servers and plugins.
    world: World,
    created_event: SessionEvent,
    pub(super) closed: watch::Sender<Option<String>>,
}

impl Sessions {
    pub(super) fn sweep_later(&mut self, node: &ActorRef<NodeMessage>) {
        if std::mem::replace(&mut self.sweeping, true) {
            return;
        }
        let node = node.clone();
        self.tasks.spawn(tokio::time::sleep(IDLE_TIMEOUT), move |_| {
            let _ = node.cast(NodeMessage::Sweep { idle: IDLE_TIMEOUT });
        });
    }

    /// Asks the unused sessions whether they are at rest, if there are many.
    pub(super) fn rest_if_many(&mut self, node: &ActorRef<NodeMessage>) {
        if self.open.len() > MANY {
            self.ask_to_rest(node, UNUSED_DELAY, ASKED);
        }
    }

    /// Asks the unused sessions whether they are at rest.
    pub(super) fn sweep(&mut self, node: &ActorRef<NodeMessage>, idle: Duration) {
        self.sweeping = false;
        if self.open.is_empty() {
            return;
        }
        self.sweep_later(node);
        self.ask_to_rest(node, idle, usize::MAX);
    }

    /// Asks sessions that were left alone for so long whether they are at rest: at most so many, those that were left
    /// alone and not asked for longest. One that was asked may be in a long turn.
    pub(super) fn ask_to_rest(
        &mut self,
        node: &ActorRef<NodeMessage>,
        idle: Duration,
        most: usize,
    ) {
        let Self { open, tasks, .. } = self;
        let now = Instant::now();
        let is_alone = |entry: &Entry| now.duration_since(entry.used) >= idle;
        let mut alone: Vec<_> = open.iter_mut().filter(|(_, entry)| is_alone(entry)).collect();
        if alone.len() > most {
            alone.select_nth_unstable_by_key(most, |(_, entry)| entry.used.max(entry.asked));
            alone.truncate(most);
        }
        for (session, entry) in alone {
            entry.asked = now;
            let (node, actor) = (node.clone(), entry.actor.clone());
            let (session, sent, cut_off) = (*session, entry.sent, entry.cut_off);
            let is_dead = entry.closed.borrow().is_some();
            let asked = async move {
                // a turn that was cut off does not go on by itself
                cut_off
                    || is_dead
                    || ractor::call!(actor, SessionMessage::AtRest).is_ok_and(|at_rest| at_rest)
            };
            tasks.spawn(asked, move |at_rest| {
                if at_rest == Some(true) {
                    let _ = node.cast(NodeMessage::Rest { session, sent });
                }
            });
        }
    }

    /// Closes a session, unless it was sent another message meanwhile.
    pub(super) async fn rest(&mut self, session: SessionId, sent: u64) {
        if self.open.get(&session).is_none_or(|entry| entry.sent != sent) {
            return;
        }
        self.close(session).await;
    }

    /// Closes a session. Its next use opens it again.
    pub(super) async fn close(&mut self, session: SessionId) {
        let Some(entry) = self.open.remove(&session) else { return };
        let Entry { store, world, created_event, actor, closed, .. } = entry;
        let is_kept = self.kept.iter().any(|kept| kept.dir() == store.dir());
        if self.observers.cast(ObserversMessage::Closed { session, is_kept }).is_err() {
            tracing::warn!("the observer hub is gone: observers get no events");
        }
        // before the lock is released: the next holder may serve clients there
        if self.held(store.dir()).is_none() {
            self.holds.rest(store.dir());
        }
        if actor.stop_and_wait(None, Some(LOG_RELEASE_TIMEOUT)).await.is_err() {
            tracing::debug!(%session, "it does not stop at once");
        }
        let store = store.dir().to_owned();
        let world = world.at_rest();
        self.resting.insert(session, Resting { store, world, created_event, closed });
    }

    /// Opens a resting session again and performs `then`.
    pub(super) fn wake(&mut self, node: &ActorRef<NodeMessage>, session: SessionId, then: Then) {
        let Some(resting) = self.resting.get(&session) else {
            tracing::warn!("{}", Error::NotOpen(session));
            return;
        };
        let Resting { store, world, created_event, .. } = resting;
        let (store, world, created_event) = (store.clone(), world.clone(), created_event.clone());
        let waiting = Waiting {
            open: Box::new(OpenSession { store, session, world, created_event, fork_of: None }),
            then,
        };
        let folder = waiting.open.store.clone();
        if let Some(others) = self.opening.get_mut(&folder) {
            others.push(waiting);
        } else if let Some(held) = self.held(&folder) {
            self.opening.insert(folder.clone(), vec![waiting]);
            let opened = NodeMessage::StoreOpened { store: folder, outcome: Ok(held) };
            // the node may be gone
            let _ = node.cast(opened);
        } else {
            self.admit(node, waiting);
        }
    }
}
