//! How often those who watch through sockets are told. Each piece of news wakes a process, and many
//! of them would take the machine away from the session that they watch.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// For each that watches: all of them together are told some 500 times a second at most.
const SHARE: Duration = Duration::from_millis(2);
/// Nobody waits longer for what has happened: about as long as pieces of text are gathered.
const LONGEST: Duration = Duration::from_millis(100);

/// How many watch, in all of this process's stores.
static WATCHING: AtomicU32 = AtomicU32::new(0);

/// One that watches, while it does.
pub(super) struct Pace(());

impl Pace {
    pub(super) fn new() -> Self {
        WATCHING.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    /// Waits until it is this one's turn again, which was told something at `began`. What happens
    /// after a silence is told at once; what happens in this time goes out in one piece.
    pub(super) async fn keep(&self, began: Instant) {
        let share = SHARE.saturating_mul(WATCHING.load(Ordering::Relaxed));
        tokio::time::sleep_until(began + share.min(LONGEST)).await;
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
    }
}
