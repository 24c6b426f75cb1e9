//! Finds out whether the system still starts threads, before code that would hang or panic without them.
//!
//! Limits of processes (`ulimit -u`, a container's `--pids-limit`) count threads. Libraries take for
//! granted that theirs start: tokio panics, and a parallel walk waits for ever for a thread that never
//! came.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of stack for a thread that only waits.
const STACK: usize = 64 * 1_024;

/// Starts `count` threads at once and ends them again.
///
/// # Errors
/// The system does not start so many.
pub fn can_start(count: usize) -> io::Result<()> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
    let mut started = Vec::with_capacity(count);
    let mut outcome = Ok(());
    for _ in 0..count {
        let gate = Arc::clone(&gate);
        let probe = thread::Builder::new().name("leftfold-probe".into()).stack_size(STACK);
        match probe.spawn(move || drop(gate.lock())) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                outcome = Err(refused(&error));
                break;
            }
        }
    }
    drop(closed);
    for thread in started {
        // it only waited, and cannot panic
        let _ = thread.join();
    }
    outcome
}

/// The error with what to do about it.
pub fn refused(error: &io::Error) -> io::Error {
    let advice = "raise the limit of processes (`ulimit -u`, or `--pids-limit` of a container)";
    io::Error::new(error.kind(), format!("no thread can be started: {error}; {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_threads_can_always_be_started() {
        can_start(0).unwrap();
        can_start(9).unwrap();
    }

    #[test]
    fn a_refusal_says_which_limit_to_raise() {
        let error = refused(&io::Error::from_raw_os_error(11));
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("`ulimit -u`"), "{error}");
    }
}
