//! How much may wait between a node and its client, in both directions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Updates of one session that may wait to be written before its observer is kept waiting.
const BACKLOG: u64 = 256;

/// Requests that wait for their answers before no further line is read.
const REQUESTS: u64 = 1024;

/// Lines, and their bytes, that are read while a client does not read what it was sent.
const UNREAD: u64 = 1024;
const UNREAD_BYTES: usize = 64 << 20;

/// What was handed to the connection and what has been written, in updates: so that a client that
/// reads slowly makes its observers wait, and not this process grow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    handed: Arc<AtomicU64>,
    written: watch::Receiver<Written>,
}

/// What has been written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) updates: u64,
    /// To requests of the client's.
    pub(super) answers: u64,
    /// Whether something is being written, so that nobody knows whether the client reads.
    pub(super) busy: bool,
}

impl Flow {
    pub(super) fn new(written: watch::Receiver<Written>) -> Self {
        Self { handed: Arc::default(), written }
    }

    /// One more update is on its way.
    pub(super) fn hand(&self) {
        self.handed.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits until not too much waits.
    pub(super) async fn room(&mut self) {
        let handed = self.handed.load(Ordering::Acquire);
        // a writer that is gone makes nobody wait
        let _ = self.written.wait_for(|written| written.updates + BACKLOG >= handed).await;
    }
}

/// What was read, so that a client that asks and does not read has to wait, and not this process
/// grow.
pub(super) struct Taken {
    written: watch::Receiver<Written>,
    requests: u64,
    /// Since the client was last seen to have read everything.
    lines: u64,
    bytes: usize,
}

impl Taken {
    pub(super) fn new(written: watch::Receiver<Written>) -> Self {
        Self { written, requests: 0, lines: 0, bytes: 0 }
    }

    /// A line was read; whether it is a `request` that waits for its answer.
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
        // a writer that is gone makes nobody wait
        if let Ok(written) = self.written.wait_for(fits).await
            && !written.busy
        {
            (self.lines, self.bytes) = (0, 0);
        }
    }
}
