//! How many stores a node has open at once. Each takes up files and two threads. When there are as many as
//! the limit of open files allows, the next session waits until another one rests.
//!
//! Without this, whichever file is opened next fails: a log, settings, a socket, the pipe of a command.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use leftfold_store::Store;
use ractor::ActorRef;
use tokio::time::Instant;

use super::Sessions;
use super::opening::Waiting;
use crate::messages::{Error, NodeMessage};

/// Open files of a session in a store of its own: the database three times, its head and its socket; and
/// those of a turn: a connection to the provider, the pipes of a command.
const EACH: usize = 8;

/// Open files that are left for everything else: standard streams, clients, servers, what is being read.
const SPARE: usize = 128;

/// Stores that may be open however low the limit is.
const LEAST: usize = 4;

/// How long a session waits to be opened before whoever wants it is refused.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a session that waits looks for room, and how long another one must have been left alone to
/// make room for it.
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Sessions that wait for room, and how much there is.
#[derive(Debug)]
pub(super) struct Admission {
    stores: usize,
    queue: VecDeque<(Instant, Waiting)>,
    /// Whether [`NodeMessage::Admit`] is on its way.
    due: bool,
}

impl Admission {
    /// For a process that may open `files`; `None`: as many as it likes.
    pub(super) fn for_files(files: Option<usize>) -> Self {
        Self { stores: files.map_or(usize::MAX, stores), queue: VecDeque::new(), due: false }
    }
}

/// Stores that may be open at once in a process that may open `files`.
fn stores(files: usize) -> usize {
    (files.saturating_sub(SPARE) / EACH).max(LEAST)
}

impl Sessions {
    /// Opens the store of a session, as soon as there is room for it.
    pub(super) fn admit(&mut self, node: &ActorRef<NodeMessage>, waiting: Waiting) {
        if self.admission.queue.is_empty() && self.has_room() {
            self.open_store(node, waiting);
            return;
        }
        self.admission.queue.push_back((Instant::now(), waiting));
        self.make_room(node);
    }

    /// Opens the sessions for which there is room now, in the order in which they were wanted.
    pub(super) async fn admit_waiting(&mut self, node: &ActorRef<NodeMessage>) {
        while let Some((since, waiting)) = self.admission.queue.pop_front() {
            let folder = &waiting.open.store;
            let is_here = self.opening.contains_key(folder) || self.held(folder).is_some();
            if is_here {
                Box::pin(self.open(node, waiting)).await;
            } else if self.has_room() {
                self.open_store(node, waiting);
            } else if since.elapsed() >= OPEN_TIMEOUT {
                let stores = self.admission.stores;
                self.refuse(waiting.open.session, waiting.then, Error::Crowded { stores });
            } else {
                self.admission.queue.push_front((since, waiting));
                break;
            }
        }
        self.make_room(node);
    }

    fn has_room(&self) -> bool {
        let open: HashSet<&Path> = self.stores().map(Store::dir).collect();
        open.len() + self.opening.len() < self.admission.stores
    }

    /// Closes one idle session for each waiting one, and looks again in a moment.
    fn make_room(&mut self, node: &ActorRef<NodeMessage>) {
        let wanted = self.admission.queue.len();
        if wanted == 0 || std::mem::replace(&mut self.admission.due, true) {
            return;
        }
        self.ask_to_rest(node, ROOM_POLL_INTERVAL, wanted);
        let node = node.clone();
        self.tasks.spawn(tokio::time::sleep(ROOM_POLL_INTERVAL), move |_| {
            // a node that is gone opens nothing
            let _ = node.cast(NodeMessage::Admit);
        });
    }

    /// The timer of [`make_room`](Self::make_room) is over.
    pub(super) async fn look_for_room(&mut self, node: &ActorRef<NodeMessage>) {
        self.admission.due = false;
        self.admit_waiting(node).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_files_says_how_many_stores_fit() {
        for (files, most) in [(0, 4), (64, 4), (200, 9), (1_024, 112), (65_536, 8_176)] {
            assert_eq!(stores(files), most, "{files}");
            assert_eq!(Admission::for_files(Some(files)).stores, most, "{files}");
        }
        assert_eq!(Admission::for_files(None).stores, usize::MAX);
    }
}
