//! A runtime that says so when the system starts no more threads.
//!
//! tokio takes blocking work onto threads of a pool. Without a thread in it, it panics; if all of them are
//! busy for good and none can be added, the work waits for ever. So a thread of its own hands the pool
//! some work now and then: that keeps a thread in it, and shows when nothing moves any more.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::note;

/// Threads that must be free at the start: two workers, one of the pool, the one that watches, and as many
/// again, since a thread that has ended counts for a moment longer.
const AT_START: usize = 8;

/// How often the pool is handed work. A thread of the pool stays for twice as long without any.
const PULSE_INTERVAL: Duration = Duration::from_secs(10);

/// How long that work may wait before it counts that no thread can be started.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn runtime() -> io::Result<Runtime> {
    // without threads the runtime panics, and hangs when it is dropped
    leftfold_process::can_start(AT_START)?;
    let mut builder = Builder::new_multi_thread();
    let runtime =
        builder.worker_threads(2).thread_keep_alive(2 * PULSE_INTERVAL).enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new()
        .name("leftfold-pulse".into())
        .spawn(move || watch(&handle))
        .map_err(|error| leftfold_process::refused(&error))?;
    Ok(runtime)
}

/// Returns when the runtime is shut down.
fn watch(runtime: &Handle) {
    loop {
        let (sender, answered) = mpsc::channel();
        // whoever waited may have given up
        let pulse = move || _ = sender.send(());
        // it panics where the pool has no thread and gets none
        let handed = catch_unwind(AssertUnwindSafe(|| drop(runtime.spawn_blocking(pulse))));
        match handed.map(|()| answered.recv_timeout(START_TIMEOUT)) {
            Ok(Ok(())) => thread::sleep(PULSE_INTERVAL),
            Ok(Err(RecvTimeoutError::Disconnected)) => return,
            // the pool may just be busy
            Ok(Err(RecvTimeoutError::Timeout)) | Err(_) => {
                if let Err(error) = leftfold_process::can_start(1) {
                    give_up(&error);
                }
                thread::sleep(PULSE_INTERVAL);
            }
        }
    }
}

/// Turns under way stay cut off in their logs, as after a crash.
fn give_up(error: &io::Error) {
    note(&format!("leftfold: {error}; `leftfold resume` goes on with what was cut off"));
    std::process::exit(1);
}
