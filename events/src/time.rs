//! Points in time in the log: whole milliseconds since the Unix epoch.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Milliseconds since 1970-01-01T00:00:00Z. The core never reads a clock: the actors stamp facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn millis(self) -> u64 {
        self.0
    }

    /// This time plus `millis`, at most the last time that RFC 3339 can write (year 9999).
    #[must_use]
    pub fn plus(self, millis: u64) -> Self {
        const LAST: u64 = 253_402_300_799_999;
        Self(self.0.saturating_add(millis).min(LAST))
    }

    /// Milliseconds from `earlier` to this time; 0 if it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clamped = Self(0).plus(self.0);
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(clamped.0)).fmt(f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            humantime::parse_rfc3339(&text).map(Self::from).map_err(|e| {
                de::Error::custom(format!("`{text}` is not an RFC 3339 UTC time: {e}"))
            })
        } else {
            u64::deserialize(deserializer).map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_form_is_rfc_3339_with_milliseconds() {
        let at = Time::from_millis(1_795_291_762_123);
        let json = serde_json::to_string(&at).unwrap();
        assert_eq!(json, "\"2026-11-21T20:09:22.123Z\"");
        assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), at);
    }

    #[test]
    fn far_future_stays_writable() {
        let at = Time::from_millis(u64::MAX).plus(u64::MAX);
        assert_eq!(at.to_string(), "9999-12-31T23:59:59.999Z");
    }
}
