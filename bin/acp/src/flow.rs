//! Limits how much may be queued between a node and its client, in both directions. A client that
//! reads slowly delays its observers, which then catch up from the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Updates of one session that may be queued before its observer has to wait.
const BACKLOG: u64 = 256;

/// Unanswered requests before no further line is read.
const REQUESTS: u64 = 1024;

/// Lines, and their bytes, that are read while a client does not read its output.
const UNREAD: u64 = 1024;
const UNREAD_BYTES: usize = 64 << 20;

/// Counts updates handed to the connection and updates written. A slow client makes its observers
/// wait instead of growing this process.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    handed: Arc<AtomicU64>,
    written: watch::Receiver<Written>,
}

/// The amounts written so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) updates: u64,
    /// Answers to requests of the client.
    pub(super) answers: u64,
    /// Whether a write is in progress, so that it is not known whether the client reads.
    pub(super) busy: bool,
}

impl Flow {
    pub(super) fn new(written: watch::Receiver<Written>) -> Self {
        Self { handed: Arc::default(), written }
    }

    /// Counts one more update as handed over.
    pub(super) fn hand(&self) {
        self.handed.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until the queue has room.
    pub(super) async fn room(&mut self) {
        let handed = self.handed.load(Ordering::Acquire);
        // If the writer is gone, nobody has to wait.
        let _ = self.written.wait_for(|written| written.updates + BACKLOG >= handed).await;
    }
}

/// Counts the input read. A client that sends requests without reading has to wait, instead of
/// growing this process.
pub(super) struct ReadBudget {
    written: watch::Receiver<Written>,
    requests: u64,
    /// Lines since the client last had read everything.
    lines: u64,
    bytes: usize,
}

impl ReadBudget {
    pub(super) fn new(written: watch::Receiver<Written>) -> Self {
        Self { written, requests: 0, lines: 0, bytes: 0 }
    }

    /// Counts a line; `request` says whether it waits for an answer.
    pub(super) fn take(&mut self, request: bool, bytes: usize) {
        self.requests += u64::from(request);
        self.lines += 1;
        self.bytes += bytes;
    }

    /// Waits until another line may be read.
    pub(super) async fn room(&mut self) {
        let (requests, lines, bytes) = (self.requests, self.lines, self.bytes);
        let fits = |written: &Written| {
            let few = lines < UNREAD && bytes < UNREAD_BYTES;
            written.answers + REQUESTS > requests && (few || !written.busy)
        };
        // If the writer is gone, nobody has to wait.
        if let Ok(written) = self.written.wait_for(fits).await
            && !written.busy
        {
            (self.lines, self.bytes) = (0, 0);
        }
    }
}
