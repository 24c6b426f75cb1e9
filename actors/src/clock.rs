//! A session's clock: the system's, but never behind its own log and never slower than time
//! passes. So a system clock that is set back delays no deadline, and one that has run on while
//! the machine slept is believed.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leftfold_events::{Seq, State, Time};

use crate::rerun::Tape;

#[derive(Debug)]
pub(crate) struct Clock {
    base: Time,
    since: Instant,
    /// The times of a log that is run again, in place of the system's.
    tape: Option<Arc<Tape>>,
}

impl Clock {
    /// A clock that goes on from `last`, the time of the last event.
    pub(crate) fn after(last: Time, tape: Option<Arc<Tape>>) -> Self {
        Self { base: system().max(last), since: Instant::now(), tape }
    }

    /// The time of what comes next in a session that is in `state`.
    pub(crate) fn now(&self, state: &State) -> Time {
        self.tape.as_ref().map_or_else(|| self.time(), |tape| tape.now(state))
    }

    /// The intents whose waits are over.
    pub(crate) fn overdue(&self, state: &State) -> Vec<Seq> {
        let live = || state.overdue(self.time());
        self.tape.as_ref().map_or_else(live, |tape| tape.overdue(state))
    }

    /// How long it is until the first wait is over.
    pub(crate) fn wait(&self, state: &State) -> Option<Duration> {
        let due = state.due().filter(|_| self.tape.is_none())?;
        Some(Duration::from_millis(due.since(self.time())))
    }

    fn time(&self) -> Time {
        let passed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        system().max(self.base.plus(passed))
    }
}

fn system() -> Time {
    Time::from(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_from_the_future_is_gone_on_from() {
        let future = system().plus(3_600_000);
        let clock = Clock::after(future, None);
        assert!(clock.time() >= future);
        assert!(clock.time() < future.plus(60_000));
    }
}
