//! A session's clock. It follows the system's clock, but never goes behind its log, never goes
//! back, and is never slower than real time. So setting the system clock back, even after it was
//! set ahead, delays no deadline. A clock that has advanced while the machine slept is accepted.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use leftfold_events::{Seq, State, Time};

use crate::world::Recording;

#[derive(Debug)]
pub(crate) struct Clock {
    base: Time,
    since: Instant,
    /// The times of a log in a rerun, instead of the system's.
    recording: Option<Arc<dyn Recording>>,
}

impl Clock {
    /// A clock that continues from `last`, the time of the last event.
    pub(crate) fn after(last: Time, recording: Option<Arc<dyn Recording>>) -> Self {
        Self { base: system().max(last), since: Instant::now(), recording }
    }

    /// Whether a recorded log is run again.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// The time of the next event of a session in `state`.
    pub(crate) fn now(&mut self, state: &State) -> Time {
        match &self.recording {
            Some(recording) => recording.now(state),
            None => self.time(),
        }
    }

    /// The intents whose deadlines have passed.
    pub(crate) fn overdue(&mut self, state: &State) -> Vec<Seq> {
        match &self.recording {
            Some(recording) => recording.overdue(state),
            None => state.overdue(self.time()),
        }
    }

    /// The time until the first deadline.
    pub(crate) fn wait(&mut self, state: &State) -> Option<Duration> {
        let due = state.due().filter(|_| self.recording.is_none())?;
        Some(Duration::from_millis(due.since(self.time())))
    }

    fn time(&mut self) -> Time {
        self.at(system(), Instant::now())
    }

    /// The clock's time if the system says `system` at the moment `now`.
    fn at(&mut self, system: Time, now: Instant) -> Time {
        let passed = now.saturating_duration_since(self.since).as_millis();
        let steady = self.base.plus(u64::try_from(passed).unwrap_or(u64::MAX));
        if system > steady {
            (self.base, self.since) = (system, now);
        }
        system.max(steady)
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
        let mut clock = Clock::after(future, None);
        assert!(clock.time() >= future);
        assert!(clock.time() < future.plus(60_000));
    }
    #[test]
    fn it_goes_on_steadily_wherever_the_systems_clock_is_set() {
        let mut clock = Clock::after(Time::default(), None);
        let (base, since) = (clock.base, clock.since);
        // milliseconds that have passed, the system's clock, and the clock's result
        for (passed, system, told) in [
            (0, 0, 0),
            (10, -3_600_000, 10),
            (20, 3_600_000, 3_600_000),
            (30, 30, 3_600_010),
            (1_030, -9_000_000, 3_601_010),
            (1_040, 3_601_500, 3_601_500),
            (2_040, 0, 3_602_500),
        ] {
            let set = Time::from_millis(base.millis().saturating_add_signed(system));
            let now = since + Duration::from_millis(passed);
            assert_eq!(clock.at(set, now), base.plus(told), "after {passed}");
        }
    }
}
