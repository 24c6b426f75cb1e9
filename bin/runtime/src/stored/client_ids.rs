//! The ids of sessions in the form that OpenCode's clients expect. They hold the whole ULID, and are read wherever a user
//! names a session.
//!
//! An id is `ses_`, 12 hexadecimal digits and 14 digits of base 62. The hexadecimal ones are the complement of the low 48
//! bits of milliseconds × 4096 + a random number, so that the newest sorts first.

use leftfold_events::SessionId;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Hexadecimal digits of an id.
pub const HEX: usize = 12;
/// Digits of base 62 of an id.
pub const TAIL: usize = 14;
/// The bits that the hexadecimal digits show.
pub const LOW_48: u128 = (1 << 48) - 1;
/// Bits of a ULID that follow its time.
const RANDOM: u32 = 80;
/// Random bits of a ULID that stand in the hexadecimal digits, after the low 36 bits of its time.
const SORTED: u32 = 12;
const LOW_RANDOM: u128 = (1 << (RANDOM - SORTED)) - 1;

/// The client's id of a session.
pub fn of_session(session: SessionId) -> String {
    let bits = u128::from_be_bytes(session.to_bytes());
    let sorted = (bits >> (RANDOM - SORTED)) & LOW_48;
    let time_high = bits >> (RANDOM - SORTED + 48);
    let rest = (time_high << (RANDOM - SORTED)) | (bits & LOW_RANDOM);
    format!("ses_{:012x}{}", !sorted & LOW_48, base62(rest))
}

/// The session with this id of a client.
pub fn session(id: &str) -> Option<SessionId> {
    let digits = id.strip_prefix("ses_").filter(|digits| digits.len() == HEX + TAIL)?;
    let (hex, tail) = (digits.get(..HEX)?, digits.get(HEX..)?);
    let sorted = !u128::from_str_radix(hex, 16).ok()? & LOW_48;
    let rest = from_base62(tail).filter(|rest| rest >> RANDOM == 0)?;
    let (time_high, random_low) = (rest >> (RANDOM - SORTED), rest & LOW_RANDOM);
    let bits = (time_high << (RANDOM - SORTED + 48)) | (sorted << (RANDOM - SORTED)) | random_low;
    let session = SessionId::from_bytes(bits.to_be_bytes());
    // capital digits and signs would name the same session
    (of_session(session) == id).then_some(session)
}

/// The last digits of an id.
pub fn base62(mut number: u128) -> String {
    let mut digits = [b'0'; TAIL];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(number % 62) as usize];
        number /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// The session that a text names, as Leftfold or OpenCode's clients write ids.
pub fn named(text: &str) -> Option<SessionId> {
    session(text).or_else(|| text.parse().ok())
}

fn from_base62(digits: &str) -> Option<u128> {
    digits.bytes().try_fold(0_u128, |number, digit| {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        number.checked_mul(62)?.checked_add(value as u128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulid(bits: u128) -> SessionId {
        SessionId::from_bytes(bits.to_be_bytes())
    }

    #[test]
    fn sessions_are_read_back_and_the_newest_sorts_first() {
        // the order begins anew every 795 days, as it does for OpenCode
        let times = [1_u128 << 40, 1_790_000_000_000, 1_790_000_000_001, 1_800_000_000_000];
        let mut ids = Vec::new();
        for time in times {
            for random in [0, 1, (1 << 80) - 1, 0x1234_5678_9abc_def0_1234] {
                let known = ulid((time << 80) | random);
                let id = of_session(known);
                assert_eq!(id.len(), 4 + HEX + TAIL);
                assert_eq!(session(&id), Some(known), "{id}");
                ids.push(id);
            }
        }
        assert_eq!(session(&of_session(ulid(u128::MAX))), Some(ulid(u128::MAX)));
        let firsts: Vec<&String> = ids.iter().step_by(4).skip(1).collect();
        assert!(firsts.is_sorted_by(|a, b| a > b), "{firsts:?}");
    }

    #[test]
    fn other_texts_name_no_session() {
        let good = of_session(ulid(1_780_000_000_000 << 80 | 7));
        let capital = good.replace(['a', 'b', 'c', 'd', 'e', 'f'], "A");
        let huge = format!("ses_{}{}", "0".repeat(HEX), "z".repeat(TAIL));
        for text in [
            "",
            "ses_",
            "msg_000000000000",
            "ses_+00000000000aaaaaaaaaaaaaa",
            &good[4..],
            &capital,
            &huge,
        ] {
            assert_eq!(session(text), None, "{text}");
        }
        assert_eq!(session(&format!("{good}0")), None);
    }
}
