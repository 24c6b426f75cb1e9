//! Decides when a failed request is repeated, and after which back-off.

use crate::id::{Seq, SessionId};
use crate::payload::Sha256;
use crate::state::{Failure, State, words};
use crate::turn_config::AskMode;

/// The back-off after the first failed attempt, in milliseconds.
const FIRST_BACKOFF: u64 = 2_000;
/// The longest back-off without its random part, in milliseconds.
const MAX_BACKOFF: u64 = 30_000;
/// The longest wait that is accepted from a server, in milliseconds: about 24 days.
const MAX_RETRY_AFTER: u64 = 2_147_483_647;

/// Whether another attempt makes sense after `attempt` attempts.
pub(super) fn is_worth(s: &State, failure: &Failure, attempts: u32) -> bool {
    failure.retryable && attempts <= s.config.options.retries && !is_too_long(s, failure)
}

/// Whether the server asks for a longer wait than a turn without a person accepts.
fn is_too_long(s: &State, failure: &Failure) -> bool {
    let options = &s.config.options;
    let is_long = |max| failure.retry_after.is_some_and(|wait| wait > max);
    failure.retryable && options.ask != AskMode::Ask && options.max_wait.is_some_and(is_long)
}

/// The error of a request that is not repeated after `attempts` attempts. It says when a limit passes that is not waited for.
pub(super) fn error(s: &State, failure: &Failure, attempts: u32) -> String {
    let mut error = failure.message.clone();
    if let Some(wait) = failure.retry_after.filter(|_| is_too_long(s, failure)) {
        error = words::long_wait(&error, s.at.plus(wait));
    }
    with_attempts(&error, attempts)
}

pub(super) fn with_attempts(error: &str, attempts: u32) -> String {
    match attempts {
        0 | 1 => error.to_owned(),
        _ => format!("{error} (after {attempts} attempts)"),
    }
}

/// The back-off, in milliseconds, after failed attempt number `attempt` (from 1). A server's hint is used
/// unchanged. Otherwise it is 2 s, doubled each time up to 30 s, plus up to a quarter. The
/// additional part comes from a hash of the place in the log, so that every replay has the same
/// wait.
pub(super) fn backoff(attempt: u32, hint: Option<u64>, session: SessionId, seq: Seq) -> u64 {
    if let Some(hint) = hint {
        return hint.min(MAX_RETRY_AFTER);
    }
    let doublings = attempt.saturating_sub(1).min(10);
    let base = (FIRST_BACKOFF << doublings).min(MAX_BACKOFF);
    let mut place = session.to_bytes().to_vec();
    place.extend(seq.to_be_bytes());
    let drawn = u64::from(Sha256::digest(&place).as_bytes()[0]);
    base + base * drawn / 4 / 255
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_to_the_cap_with_at_most_a_quarter_of_jitter() {
        for (attempt, base) in [(1, 2_000), (2, 4_000), (4, 16_000), (5, 30_000), (900, 30_000)] {
            for seq in 1..50 {
                let delay = backoff(attempt, None, SessionId::default(), seq);
                assert!((base..=base + base / 4).contains(&delay), "{attempt}: {delay}");
            }
        }
    }

    #[test]
    fn a_hint_is_taken_up_to_its_cap() {
        let id = SessionId::default();
        assert_eq!(backoff(3, Some(7), id, 1), 7);
        assert_eq!(backoff(1, Some(u64::MAX), id, 1), 2_147_483_647);
    }
}
