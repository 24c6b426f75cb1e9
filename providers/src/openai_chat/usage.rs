//! Reads token counts from the places that vendors use.

use leftfold_events::event::Usage;
use serde_json::Value;

use crate::shape;
use crate::vendors::Vendor;

/// Places of tokens that were read from a cache: OpenAI and most, DeepSeek, Moonshot, Mistral.
const CACHE_READ: &[&str] = &[
    "/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens",
    "/num_cached_tokens",
];

/// Places of tokens that were written to a cache: OpenRouter, Alibaba.
const CACHE_WRITE: &[&str] = &[
    "/prompt_tokens_details/cache_write_tokens",
    "/prompt_tokens_details/cache_creation_input_tokens",
    "/cache_creation_input_tokens",
];

/// Places of tokens spent on reasoning: OpenAI and most, Perplexity.
const REASONING: &[&str] = &["/completion_tokens_details/reasoning_tokens", "/reasoning_tokens"];

/// Usage in the wire's terms.
#[derive(Debug, Default)]
pub(super) struct Counts {
    prompt: u64,
    completion: u64,
    total: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

impl Counts {
    /// `None` for anything but a usage object: many chunks have `null` in its place.
    pub(super) fn read(usage: &Value) -> Option<Self> {
        usage.as_object().filter(|usage| !usage.is_empty())?;
        let first = |paths: &[&str]| {
            let found = paths.iter().filter_map(|path| usage.pointer(path)).find_map(Value::as_f64);
            found.map(shape::count).unwrap_or_default()
        };
        Some(Self {
            prompt: first(&["/prompt_tokens"]),
            completion: first(&["/completion_tokens"]),
            total: first(&["/total_tokens"]),
            cache_read: first(CACHE_READ),
            cache_write: first(CACHE_WRITE),
            reasoning: first(REASONING),
        })
    }

    /// Converts the counts: on the wire the prompt includes the cache, and the completion includes
    /// reasoning. If the sum shows otherwise (or, if it does not show it, the vendor is known to
    /// differ), reasoning is counted separately.
    pub(super) fn neutral(&self, vendor: &Vendor) -> Usage {
        let cache_read = self.cache_read.min(self.prompt);
        let cache_write = self.cache_write.min(self.prompt - cache_read);
        let reasoning = self.reasoning;
        let output = if self.is_reasoning_apart(vendor) {
            self.completion
        } else {
            self.completion.saturating_sub(reasoning)
        };
        let input = self.prompt - cache_read - cache_write;
        Usage { input, output, reasoning, cache_read, cache_write }
    }

    fn is_reasoning_apart(&self, vendor: &Vendor) -> bool {
        let sum = self.prompt.saturating_add(self.completion);
        if self.reasoning > self.completion || self.total == sum.saturating_add(self.reasoning) {
            true
        } else if self.total == sum {
            false
        } else {
            vendor.excludes_reasoning
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vendors;

    /// Returns input, output, reasoning, cache read, cache write.
    fn read(vendor: &str, usage: &Value) -> [u64; 5] {
        let vendor = vendors::named(vendor).unwrap();
        let usage = Counts::read(usage).unwrap().neutral(vendor);
        [usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write]
    }

    #[test]
    fn usage_of_many_vendors() {
        for (vendor, usage, expected) in [
            (
                "openai",
                json!({"prompt_tokens":100,"completion_tokens":30,"total_tokens":130,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":20}}),
                [40, 10, 20, 60, 0],
            ),
            (
                "azure",
                json!({"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":null,"completion_tokens_details":null}),
                [9, 3, 0, 0, 0],
            ),
            (
                "xai",
                json!({"prompt_tokens":12,"completion_tokens":2,"total_tokens":354,"completion_tokens_details":{"reasoning_tokens":340}}),
                [12, 2, 340, 0, 0],
            ),
            (
                "xai",
                json!({"prompt_tokens":10,"completion_tokens":50,"completion_tokens_details":{"reasoning_tokens":20}}),
                [10, 50, 20, 0, 0],
            ),
            (
                "xai",
                json!({"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,"completion_tokens_details":{"reasoning_tokens":20}}),
                [10, 30, 20, 0, 0],
            ),
            (
                "generic",
                json!({"prompt_tokens":10,"completion_tokens":50,"total_tokens":80,"completion_tokens_details":{"reasoning_tokens":20}}),
                [10, 50, 20, 0, 0],
            ),
            (
                "deepseek",
                json!({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}),
                [2, 5, 0, 8, 0],
            ),
            (
                "moonshot",
                json!({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cached_tokens":4}),
                [6, 5, 0, 4, 0],
            ),
            (
                "openrouter",
                json!({"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":2}}),
                [5, 5, 0, 3, 2],
            ),
            (
                "perplexity",
                json!({"prompt_tokens":33,"completion_tokens":70,"total_tokens":103,"reasoning_tokens":194}),
                [33, 70, 194, 0, 0],
            ),
        ] {
            assert_eq!(read(vendor, &usage), expected, "{vendor} {usage}");
        }
    }

    #[test]
    fn counts_that_make_no_sense_do_no_harm() {
        for (vendor, usage, expected) in [
            (
                "generic",
                json!({"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":9}}),
                [0, 2, 0, 3, 0],
            ),
            (
                "generic",
                json!({"prompt_tokens":-3,"completion_tokens":"two","total_tokens":null}),
                [0, 0, 0, 0, 0],
            ),
            (
                "generic",
                json!({"prompt_tokens":3.0,"completion_tokens":1e99}),
                [3, u64::MAX, 0, 0, 0],
            ),
        ] {
            assert_eq!(read(vendor, &usage), expected, "{vendor} {usage}");
        }
    }

    #[test]
    fn what_is_no_usage() {
        for value in [Value::Null, json!({}), json!([1]), json!(3)] {
            assert!(Counts::read(&value).is_none(), "{value}");
        }
    }
}
