//! Days, as quotas count them.

use leftfold_events::Time;

/// A day of UTC: days since 1970-01-01.
pub type Day = u32;

pub(crate) const MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// The day of a moment.
pub fn day_of(time: Time) -> Day {
    Day::try_from(time.millis() / MILLIS).unwrap_or(Day::MAX)
}

/// The end of a day, which is midnight of UTC.
pub fn end_of(day: Day) -> Time {
    Time::from_millis((u64::from(day) + 1) * MILLIS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_begin_at_midnight_of_utc() {
        assert_eq!(day_of(Time::from_millis(0)), 0);
        assert_eq!(day_of(Time::from_millis(MILLIS - 1)), 0);
        assert_eq!((day_of(end_of(0)), end_of(0)), (1, Time::from_millis(MILLIS)));
    }
}
