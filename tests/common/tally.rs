//! The count of a test that holds a promise of `docs/guarantees.md`.
//!
//! A test declares its counts and the violations that must never happen. It adds up what it tries and checks each
//! case. At its end it prints one line: every count, then how often each violation was found. So each zero in that
//! line was computed. The test fails at a violation, and also if a violation was never looked for.
//!
//! Uses the standard library and `serde_json` only: the tests of `events`, `store` and `import` include this file.
#![allow(dead_code, unreachable_pub, reason = "no test program uses all of it")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "the count is the result")]
#![allow(missing_debug_implementations, reason = "nobody prints it but itself")]

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value, json};

/// Violations that are printed with their reasons.
const SHOWN: usize = 3;

/// The counts of one test. All threads of the test share it.
pub struct Tally {
    promise: Option<u8>,
    name: &'static str,
    start: Instant,
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    counts: Vec<(&'static str, u64)>,
    never: Vec<Violation>,
    known: HashSet<(&'static str, String)>,
}

struct Violation {
    kind: &'static str,
    looked: u64,
    reasons: Vec<String>,
}

impl Tally {
    /// The tally of a test for the promise with this number.
    pub fn promise(number: u8, name: &'static str) -> Self {
        Self { promise: Some(number), name, start: Instant::now(), counted: Mutex::default() }
    }

    /// The tally of a test for a guarantee that is none of the numbered promises.
    pub fn also(name: &'static str) -> Self {
        Self { promise: None, name, start: Instant::now(), counted: Mutex::default() }
    }

    /// Declares what is counted, in the order of the line.
    #[must_use]
    pub fn counts(self, counts: &[&'static str]) -> Self {
        self.counted().counts.extend(counts.iter().map(|count| (*count, 0)));
        self
    }

    /// Declares the violations, in the order of the line.
    #[must_use]
    pub fn never(self, kinds: &[&'static str]) -> Self {
        let violation = |kind: &&'static str| Violation { kind, looked: 0, reasons: Vec::new() };
        self.counted().never.extend(kinds.iter().map(violation));
        self
    }

    /// A thread that panicked leaves whole counts.
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to a count.
    pub fn add(&self, count: &str, more: usize) {
        *self.counted().count(count) += more as u64;
    }

    /// Raises a count to this number.
    pub fn raise(&self, count: &str, to: usize) {
        let mut counted = self.counted();
        let count = counted.count(count);
        *count = (*count).max(to as u64);
    }

    /// Counts this value unless the count has it already. Returns whether it is new.
    pub fn distinct(&self, count: &'static str, value: impl Display) -> bool {
        let mut counted = self.counted();
        let new = counted.known.insert((count, value.to_string()));
        *counted.count(count) += u64::from(new);
        new
    }

    pub fn get(&self, count: &str) -> usize {
        usize::try_from(*self.counted().count(count)).unwrap()
    }

    /// Looks for a violation once: `why` describes it if the case does not hold. Returns `holds`.
    pub fn check(&self, kind: &str, holds: bool, why: impl FnOnce() -> String) -> bool {
        let why = (!holds).then(why);
        let mut counted = self.counted();
        let violation = counted.violation(kind);
        violation.looked += 1;
        violation.reasons.extend(why);
        holds
    }

    /// Checks that two values are equal. Returns whether they are.
    pub fn equal<T: PartialEq + std::fmt::Debug>(
        &self,
        kind: &str,
        found: &T,
        expected: &T,
        place: impl Display,
    ) -> bool {
        self.check(kind, found == expected, || format!("{place}: {found:?} is not {expected:?}"))
    }

    /// Counts a violation for each reason.
    pub fn none(&self, kind: &str, reasons: impl IntoIterator<Item = String>) {
        let mut counted = self.counted();
        let violation = counted.violation(kind);
        violation.looked += 1;
        violation.reasons.extend(reasons);
    }

    /// Runs one case. A panic is a violation of this kind.
    pub fn attempt<T>(
        &self,
        kind: &str,
        place: impl Display,
        case: impl FnOnce() -> T,
    ) -> Option<T> {
        let result = std::panic::catch_unwind(AssertUnwindSafe(case));
        let why = result.as_ref().err().map(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("it panicked").to_owned()
        });
        self.check(kind, why.is_none(), || format!("{place}: {}", why.unwrap_or_default()));
        result.ok()
    }

    /// How many violations of all kinds were found.
    pub fn broken(&self) -> usize {
        self.counted().never.iter().map(|violation| violation.reasons.len()).sum()
    }

    /// How many violations of this kind were found.
    pub fn found(&self, kind: &str) -> usize {
        self.counted().violation(kind).reasons.len()
    }

    /// Prints the line, appends it as JSON to the file that `LEFTFOLD_COUNTS` names, and fails if a violation was
    /// found or never looked for.
    pub fn finish(self) {
        let counted = self.counted.into_inner().unwrap_or_else(PoisonError::into_inner);
        let numbers: Vec<(&str, u64)> = counted
            .counts
            .iter()
            .copied()
            .chain(
                counted
                    .never
                    .iter()
                    .map(|violation| (violation.kind, violation.reasons.len() as u64)),
            )
            .collect();
        let parts = numbers.iter().map(|(name, number)| format!("{} {name}", grouped(*number)));
        let line = parts.collect::<Vec<_>>().join(", ");
        let title = match self.promise {
            Some(number) => format!("promise {number}, {}", self.name),
            None => self.name.to_owned(),
        };
        println!("{title}: {line}");
        let seconds = self.start.elapsed().as_secs_f64();
        let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), number.into()));
        let numbers = Value::Object(numbers.collect::<Map<String, Value>>());
        record(&json!({
            "promise": self.promise, "name": self.name, "line": line, "numbers": numbers,
            "seconds": (seconds * 10.0).round() / 10.0,
        }));
        let unseen = counted.never.iter().filter(|violation| violation.looked == 0);
        let unseen: Vec<&str> = unseen.map(|violation| violation.kind).collect();
        let broken = counted.never.iter().flat_map(|violation| {
            violation.reasons.iter().take(SHOWN).map(|why| format!("{}: {why}", violation.kind))
        });
        let broken: Vec<String> = broken.collect();
        assert!(broken.is_empty(), "{title}:\n{}", broken.join("\n"));
        assert!(unseen.is_empty(), "{title}: never looked for: {unseen:?}");
    }
}

impl Counted {
    fn count(&mut self, name: &str) -> &mut u64 {
        let count = self.counts.iter_mut().find(|(known, _)| *known == name);
        &mut count.unwrap_or_else(|| panic!("`{name}` was not declared")).1
    }

    fn violation(&mut self, kind: &str) -> &mut Violation {
        let violation = self.never.iter_mut().find(|violation| violation.kind == kind);
        violation.unwrap_or_else(|| panic!("`{kind}` was not declared"))
    }
}

/// Appends a line to the file that `LEFTFOLD_COUNTS` names.
fn record(counts: &Value) {
    let Some(path) = std::env::var_os("LEFTFOLD_COUNTS") else { return };
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    // in one write, because several test programs may append
    file.write_all(format!("{counts}\n").as_bytes()).unwrap();
}

/// The number with a comma before each group of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
