//! A session's clock: the system's, but never behind its own log and never slower than time
//! passes. So a system clock that is set back delays no deadline, and one that has run on while
//! the machine slept is believed.

use std::time::{Instant, SystemTime};

use leftfold_events::Time;

#[derive(Debug)]
pub(crate) struct Clock {
    base: Time,
    since: Instant,
}

impl Clock {
    /// A clock that goes on from `last`, the time of the last event.
    pub(crate) fn after(last: Time) -> Self {
        Self { base: system().max(last), since: Instant::now() }
    }

    pub(crate) fn now(&self) -> Time {
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
        let clock = Clock::after(future);
        assert!(clock.now() >= future);
        assert!(clock.now() < future.plus(60_000));
    }
}
