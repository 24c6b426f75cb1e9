//! Parsers for amounts on the command line: dollars, durations, sizes.

use leftfold_config::NEVER;

/// Parses an amount of US dollars.
///
/// # Errors
/// The text is not a finite number of 0 or more; the error says which form is expected.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let amount: Option<f64> = text.trim_start_matches('$').parse().ok();
    let valid = amount.filter(|amount| amount.is_finite() && *amount >= 0.0);
    valid.ok_or_else(|| "expected US dollars, such as 0.50".to_owned())
}

/// Parses a duration into milliseconds: a number of seconds, or a number with `s`, `m` or `h`.
///
/// # Errors
/// The text is not a duration above 0; the error says which form is expected.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1_000),
        Some((at, 'm')) => (&text[..at], 60_000),
        Some((at, 'h')) => (&text[..at], 3_600_000),
        Some(_) | None => (text, 1_000),
    };
    let number: Option<u64> = number.parse().ok();
    let time = number.map(|number| number.saturating_mul(unit).min(NEVER));
    time.filter(|time| *time > 0)
        .ok_or_else(|| "expected a time above 0: seconds, or something like 90s, 5m, 1h".to_owned())
}

/// Parses a size into bytes: a number, or a number with `K`, `M` or `G` for powers of 1024.
///
/// # Errors
/// The text is not a size; the error says which form is expected.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'K' | 'k')) => (&text[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&text[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&text[..at], 1 << 30),
        Some(_) | None => (text, 1),
    };
    let size = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
    size.ok_or_else(|| "expected bytes, or something like 500K, 200M, 2G".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, size) in [("0", 0), ("17", 17), ("2K", 2048), ("3m", 3 << 20), ("1G", 1 << 30)] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for wrong in ["", "K", "-1", "1.5G", "2T", "99999999999G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, time) in
            [("90", 90_000), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("1", 1_000)]
        {
            assert_eq!(milliseconds(text), Ok(time), "{text}");
        }
        assert_eq!(milliseconds("99999999999999999999"), milliseconds("soon"));
        assert_eq!(milliseconds("9999999999999999h"), Ok(NEVER));
        for wrong in ["", "0", "0s", "s", "-5", "1.5", "5d", "5 m", "é"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_are_finite_and_not_below_zero() {
        assert_eq!(dollars("0.5"), dollars("$0.50"));
        assert!(dollars("0").is_ok());
        for wrong in ["", "NaN", "inf", "-1", "much"] {
            assert!(dollars(wrong).is_err(), "{wrong}");
        }
    }
}
