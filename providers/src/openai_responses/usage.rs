//! Reads token counts from a response.

use leftfold_events::event::Usage;
use serde_json::Value;

use crate::shape;

/// Converts the counts: on the wire the input includes the cache, and the output includes reasoning
/// unless the sum shows that reasoning comes on top.
pub(super) fn neutral(usage: &Value) -> Usage {
    let count = |path: &str| usage.pointer(path).and_then(Value::as_f64).map_or(0, shape::count);
    let (prompt, answer) = (count("/input_tokens"), count("/output_tokens"));
    let cache_read = count("/input_tokens_details/cached_tokens").min(prompt);
    let cache_write = count("/input_tokens_details/cache_write_tokens").min(prompt - cache_read);
    let reasoning = count("/output_tokens_details/reasoning_tokens");
    let on_top = prompt.saturating_add(answer).saturating_add(reasoning);
    let is_apart = reasoning > answer || reasoning > 0 && count("/total_tokens") == on_top;
    Usage {
        input: prompt - cache_read - cache_write,
        output: if is_apart { answer } else { answer - reasoning },
        reasoning,
        cache_read,
        cache_write,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns input, output, reasoning, cache read, cache write.
    fn read(usage: &Value) -> [u64; 5] {
        let usage = neutral(usage);
        [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write]
    }

    #[test]
    fn cache_and_reasoning_are_counted_apart() {
        for (usage, expected) in [
            (
                json!({"input_tokens":100,"input_tokens_details":{"cached_tokens":60},
                    "output_tokens":30,"output_tokens_details":{"reasoning_tokens":20},"total_tokens":130}),
                [40, 10, 20, 60, 0],
            ),
            (
                json!({"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},
                    "output_tokens":5,"output_tokens_details":null}),
                [10, 5, 0, 60, 30],
            ),
            (
                json!({"input_tokens":10,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":23}),
                [10, 4, 9, 0, 0],
            ),
            (
                json!({"input_tokens":10,"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":23}),
                [10, 9, 4, 0, 0],
            ),
            (json!({"input_tokens":3,"input_tokens_details":{"cached_tokens":9}}), [0, 0, 0, 3, 0]),
            (json!({"input_tokens":-3,"output_tokens":"two"}), [0, 0, 0, 0, 0]),
            (json!({"input_tokens":3.0,"output_tokens":1e99}), [3, u64::MAX, 0, 0, 0]),
            (Value::Null, [0, 0, 0, 0, 0]),
        ] {
            assert_eq!(read(&usage), expected, "{usage}");
        }
    }
}
