//! Counts of a node's work with its database, which cost an append a few atomic additions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The bounds of the histograms, in events, bytes and microseconds.
const EVENTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096];
const BYTES: &[u64] =
    &[256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864];
const MICROSECONDS: &[u64] = &[
    500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_000_000,
    2_000_000, 4_000_000, 8_000_000, 16_000_000,
];

/// The counts of one process. A node adds to those of its [`Options`](crate::Options).
#[derive(Debug)]
pub struct Metrics {
    began: SystemTime,
    appends: AtomicU64,
    failures: AtomicU64,
    events: AtomicU64,
    commit_events: Histogram,
    commit_bytes: Histogram,
    commit_duration: Histogram,
    node: Mutex<Option<Lease>>,
}

#[derive(Clone, Debug)]
struct Lease {
    node: String,
    renewed: Instant,
}

/// The counts at one moment, since `began`.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    pub began: SystemTime,
    /// Appends that are durable.
    pub appends: u64,
    /// Appends that were refused or have failed.
    pub failures: u64,
    /// Events of durable appends.
    pub events: u64,
    /// Events of each commit.
    pub commit_events: Distribution,
    /// Bytes of each commit: events and their contents.
    pub commit_bytes: Distribution,
    /// Seconds from the statement to the answer that it is durable.
    pub commit_duration: Distribution,
    /// The id of the node that was registered last.
    pub node: Option<String>,
    /// How long ago that node renewed its lease.
    pub lease_age: Option<Duration>,
}

/// The values of a histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper bounds of all ranges but the last; a bound belongs to its range.
    pub bounds: Vec<f64>,
    /// How many values are in each range: one more than bounds.
    pub counts: Vec<u64>,
    pub sum: f64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            began: SystemTime::now(),
            appends: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            events: AtomicU64::new(0),
            commit_events: Histogram::new(EVENTS),
            commit_bytes: Histogram::new(BYTES),
            commit_duration: Histogram::new(MICROSECONDS),
            node: Mutex::default(),
        }
    }
}

impl Metrics {
    /// The counts now.
    pub fn counts(&self) -> Counts {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let lease = self.node.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Counts {
            began: self.began,
            appends: count(&self.appends),
            failures: count(&self.failures),
            events: count(&self.events),
            commit_events: self.commit_events.values(1.0),
            commit_bytes: self.commit_bytes.values(1.0),
            commit_duration: self.commit_duration.values(1e6),
            lease_age: lease.as_ref().map(|lease| lease.renewed.elapsed()),
            node: lease.map(|lease| lease.node),
        }
    }

    /// So many appends are durable, with so many events in all.
    pub(crate) fn appended(&self, appends: usize, events: u64) {
        add(&self.appends, appends as u64);
        add(&self.events, events);
    }

    pub(crate) fn failed(&self, appends: usize) {
        add(&self.failures, appends as u64);
    }

    pub(crate) fn committed(&self, events: u64, bytes: usize, took: Duration) {
        self.commit_events.add(events);
        self.commit_bytes.add(bytes as u64);
        self.commit_duration.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// The node has asked for its lease at that moment, and has it.
    pub(crate) fn renewed(&self, node: String, renewed: Instant) {
        let mut lease = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        *lease = Some(Lease { node, renewed });
    }
}

fn add(to: &AtomicU64, number: u64) {
    to.fetch_add(number, Ordering::Relaxed);
}

#[derive(Debug)]
struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0) }
    }

    fn add(&self, value: u64) {
        let range = self.bounds.partition_point(|bound| *bound < value);
        add(&self.counts[range], 1);
        add(&self.sum, value);
    }

    /// In units of so many of its own.
    fn values(&self, unit: f64) -> Distribution {
        Distribution {
            bounds: self.bounds.iter().map(|bound| *bound as f64 / unit).collect(),
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed) as f64 / unit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_in_the_range_that_ends_with_their_bound() {
        let metrics = Metrics::default();
        for (events, bytes, millis) in [(1, 256, 1), (2, 257, 3), (5_000, 1 << 30, 60_000)] {
            metrics.committed(events, bytes, Duration::from_millis(millis));
        }
        metrics.appended(3, 5_003);
        metrics.failed(1);
        let counts = metrics.counts();
        assert_eq!((counts.appends, counts.events, counts.failures), (3, 5_003, 1));
        assert_eq!((counts.node, counts.lease_age), (None, None));
        let ranges = |of: &Distribution| {
            assert_eq!(of.counts.len(), of.bounds.len() + 1);
            let filled = of.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            filled.map(|(range, _)| of.bounds.get(range).copied()).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&counts.commit_events), [Some(1.0), Some(2.0), None]);
        assert_eq!(ranges(&counts.commit_bytes), [Some(256.0), Some(1_024.0), None]);
        assert_eq!(ranges(&counts.commit_duration), [Some(0.001), Some(0.004), None]);
        assert_eq!(counts.commit_duration.sum, 60.004);
    }

    #[test]
    fn a_lease_grows_older_until_it_is_renewed() {
        let metrics = Metrics::default();
        let past = Instant::now().checked_sub(Duration::from_secs(7)).unwrap();
        metrics.renewed("a".into(), past);
        let counts = metrics.counts();
        assert_eq!(counts.node.as_deref(), Some("a"));
        assert_eq!(counts.lease_age.unwrap().as_secs(), 7);
    }
}
