//! Ids in the form that OpenCode's clients expect, derived from the log alone.
//!
//! An id is a prefix, 12 hexadecimal digits and 14 digits of base 62. The hexadecimal ones are the
//! low 48 bits of milliseconds × 4096 + a counter, and clients sort messages and parts by them. They are numbered in the
//! order in which the fold of a log makes them: the same log always has the same ids. Ids of sessions are those of
//! [`leftfold_runtime::client_ids`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use leftfold_events::{Seq, SessionId, Time};
use leftfold_runtime::client_ids::{HEX, LOW_48, base62};
pub(crate) use leftfold_runtime::client_ids::{named, of_session};

/// The id of a frame: by the time of its event, its position in the journal and its number among the frames of the event.
/// A client that gets a frame again gets the same id.
pub(crate) fn of_frame(at: Time, position: u64, frame: usize) -> String {
    let tail = (u128::from(position & ((1 << 48) - 1)) << 24) | (frame as u128 & ((1 << 24) - 1));
    event(at, position, tail)
}

/// The id of a frame that comes from no event: of a snapshot, of a connection, about a directory.
pub(crate) fn of_moment() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    /// Set in no id of [`of_frame`].
    const MOMENT: u128 = 1 << 80;
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    event(Time::from(SystemTime::now()), made, MOMENT | u128::from(made))
}

fn event(at: Time, number: u64, tail: u128) -> String {
    let hex = ((u128::from(at.millis()) << 12) | u128::from(number & 0xfff)) & LOW_48;
    format!("evt_{hex:012x}{}", base62(tail))
}

/// Numbers the messages, parts and questions of one session.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    session: u128,
    last: u64,
}

impl Ids {
    pub(crate) fn new(session: SessionId) -> Self {
        Self { session: u128::from_be_bytes(session.to_bytes()) & ((1 << 40) - 1), last: 0 }
    }

    /// A new id that sorts after all earlier ones of the session. `seq` is the event that it is for.
    pub(crate) fn next(&mut self, prefix: &str, seq: Seq, at: Time) -> String {
        self.last = (self.last + 1).max(at.millis() << 12);
        let hex = u128::from(self.last) & LOW_48;
        // the session and the event, so that ids of two sessions differ
        let tail = (self.session << 40) | u128::from(seq & ((1 << 40) - 1));
        format!("{prefix}_{hex:012x}{}", base62(tail))
    }

    /// Later ids sort after `id`, which a client has chosen, unless its clock is far ahead.
    pub(crate) fn pass(&mut self, id: &str, at: Time) {
        /// Milliseconds by which a client's clock may be ahead.
        const MAX_CLOCK_LEAD: u64 = 24 * 60 * 60 * 1_000;
        let Some(low) = low_48(id) else { return };
        let now = at.millis() << 12;
        let ahead = low.wrapping_sub(now) & (LOW_48 as u64);
        if ahead < MAX_CLOCK_LEAD << 12 {
            self.last = self.last.max(now + ahead);
        }
    }
}

/// When a client made an id, if that was just before `at` by this machine's clock.
pub(crate) fn made(id: &str, at: Time) -> Option<Time> {
    /// Milliseconds that a prompt may need to the log.
    const UNDERWAY: u64 = 10_000;
    /// The milliseconds in an id without the bits that it leaves out.
    const LOW_36: u64 = (1 << 36) - 1;
    let low = low_48(id)? >> 12;
    let ago = (at.millis() & LOW_36).wrapping_sub(low) & LOW_36;
    (ago <= UNDERWAY).then(|| Time::from_millis(at.millis() - ago))
}

/// The hexadecimal digits of an id.
fn low_48(id: &str) -> Option<u64> {
    let digits = id.split_once('_')?.1.get(..HEX)?;
    u64::from_str_radix(digits, 16).ok()
}

/// Whether a client may give this id to what `prefix` names.
pub(crate) fn is_given(id: &str, prefix: &str) -> bool {
    /// Bytes of the longest id.
    const MAX: usize = 100;
    let rest = id.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('_'));
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric();
    id.len() <= MAX && rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulid(bits: u128) -> SessionId {
        SessionId::from_bytes(bits.to_be_bytes())
    }

    #[test]
    fn ids_sort_in_the_order_in_which_they_are_made() {
        let mut ids = Ids::new(ulid(5));
        let at = |millis| Time::from_millis(millis);
        let mut made = vec![ids.next("msg", 1, at(1_780_000_000_000))];
        for seq in 2..5_000 {
            made.push(ids.next("msg", seq, at(1_780_000_000_000)));
        }
        made.push(ids.next("msg", 5_000, at(1_780_000_000_100)));
        assert!(made.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn ids_of_frames_differ_and_carry_their_time() {
        let at = |millis| Time::from_millis(millis);
        let mut made = Vec::new();
        for position in 0..9_000 {
            made.extend(
                (0..3).map(|frame| of_frame(at(1_780_000_000_000 + position / 4), position, frame)),
            );
        }
        assert!(made.is_sorted_by(|a, b| a < b));
        assert!(of_frame(at(1_780_000_000_000), 7, 0) > of_frame(at(1_779_999_999_999), 9, 5));
        let moments = [of_moment(), of_moment()];
        assert!(moments[0] != moments[1] && moments.iter().all(|id| id.len() == made[0].len()));
        assert!(super::made(&moments[0], Time::from(SystemTime::now())).is_some());
    }

    #[test]
    fn an_id_tells_when_a_client_made_it() {
        let at = 1_790_000_000_000;
        for (then, expected) in [
            (at, Some(at)),
            (at - 3, Some(at - 3)),
            (at - 10_000, Some(at - 10_000)),
            (at - 10_001, None),
            (at - 90_000, None),
        ] {
            let id = Ids::new(ulid(1)).next("msg", 1, Time::from_millis(then));
            let made = made(&id, Time::from_millis(at));
            assert_eq!(made.map(|time| time.millis()), expected, "{then}");
        }
        let ahead = Ids::new(ulid(1)).next("msg", 1, Time::from_millis(at + 1));
        for id in [ahead.as_str(), "", "msg", "msg_", "msg_zz", "msg_000000000001"] {
            assert_eq!(made(id, Time::from_millis(at)), None, "{id}");
        }
    }

    #[test]
    fn answers_sort_behind_the_question_of_a_client_with_another_clock() {
        let now = Time::from_millis(1_790_000_000_000);
        let mut other = Ids::new(ulid(1));
        for (ahead, follows) in [(0, true), (60_000, true), (300 * 24 * 3_600_000, false)] {
            let theirs = other.next("msg", 1, Time::from_millis(1_790_000_000_000 + ahead));
            let mut ids = Ids::new(ulid(2));
            ids.pass(&theirs, now);
            assert_eq!(ids.next("msg", 2, now) > theirs, follows, "{ahead}");
        }
        let mut ids = Ids::new(ulid(2));
        for text in ["", "msg", "msg_", "msg_zz", "msg_ünïcödeünïcöde"] {
            ids.pass(text, now);
        }
    }
}
