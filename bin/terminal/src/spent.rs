//! What a turn has cost.

use leftfold_events::event::Ended;

use super::calls::duration;

/// Tokens, money and time.
pub(super) fn spent(ended: &Ended, millis: u64) -> String {
    let usage = &ended.usage;
    let input = usage.input + usage.cache_read + usage.cache_write;
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} cached)", thousands(cached)),
    };
    let mut parts = Vec::new();
    if usage.total() > 0 {
        parts.push(format!("{} in{cached}", thousands(input)));
        parts.push(format!("{} out", thousands(usage.output + usage.reasoning)));
    }
    if ended.cost > 0.0 {
        parts.push(format!("${:.4}", ended.cost));
    }
    parts.push(duration(millis));
    parts.join(" · ")
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
