//! Reads token counts from chunks.

use leftfold_events::event::Usage;
use serde::Deserialize;
use serde_json::Value;

use crate::shape;

/// The counts so far. Each chunk has running totals, but not every chunk has all of them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    prompt: Option<u64>,
    of_tools: Option<u64>,
    cached: Option<u64>,
    answer: Option<u64>,
    thoughts: Option<u64>,
    total: Option<u64>,
}

/// The counts of a chunk that is parsed without a tree of values.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlainCounts {
    prompt_token_count: Option<f64>,
    tool_use_prompt_token_count: Option<f64>,
    cached_content_token_count: Option<f64>,
    candidates_token_count: Option<f64>,
    thoughts_token_count: Option<f64>,
    total_token_count: Option<f64>,
}

impl Counts {
    pub(super) fn update_plainly(&mut self, plain: &PlainCounts) {
        for (count, new) in [
            (&mut self.prompt, plain.prompt_token_count),
            (&mut self.of_tools, plain.tool_use_prompt_token_count),
            (&mut self.cached, plain.cached_content_token_count),
            (&mut self.answer, plain.candidates_token_count),
            (&mut self.thoughts, plain.thoughts_token_count),
            (&mut self.total, plain.total_token_count),
        ] {
            *count = new.map(shape::count).or(*count);
        }
    }

    pub(super) fn update(&mut self, usage: &Value) {
        for (count, name) in [
            (&mut self.prompt, "promptTokenCount"),
            (&mut self.of_tools, "toolUsePromptTokenCount"),
            (&mut self.cached, "cachedContentTokenCount"),
            (&mut self.answer, "candidatesTokenCount"),
            (&mut self.thoughts, "thoughtsTokenCount"),
            (&mut self.total, "totalTokenCount"),
        ] {
            *count = usage.get(name).and_then(Value::as_f64).map(shape::count).or(*count);
        }
    }

    /// Converts the counts: on the wire the prompt includes the cache, and the answer excludes
    /// thoughts unless the sum shows that it includes them.
    pub(super) fn neutral(&self) -> Usage {
        let count = Option::unwrap_or_default;
        let prompt = count(self.prompt).saturating_add(count(self.of_tools));
        let cache_read = count(self.cached).min(prompt);
        let (answer, reasoning) = (count(self.answer), count(self.thoughts));
        let within = self.total == Some(prompt.saturating_add(answer)) && reasoning <= answer;
        let output = if within { answer - reasoning } else { answer };
        Usage { input: prompt - cache_read, output, reasoning, cache_read, cache_write: 0 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns input, output, reasoning, cache read.
    fn read(chunks: &[Value]) -> [u64; 4] {
        let mut counts = Counts::default();
        chunks.iter().for_each(|usage| counts.update(usage));
        let usage = counts.neutral();
        [usage.input, usage.output, usage.reasoning, usage.cache_read]
    }

    #[test]
    fn cache_and_thoughts_are_counted_apart_and_totals_replace_each_other() {
        for (chunks, expected) in [
            (
                vec![
                    json!({"trafficType":"ON_DEMAND"}),
                    json!({"promptTokenCount":9,"candidatesTokenCount":5,"totalTokenCount":199,"thoughtsTokenCount":185}),
                    json!({"promptTokenCount":9,"candidatesTokenCount":23,"totalTokenCount":217,"thoughtsTokenCount":185}),
                ],
                [9, 23, 185, 0],
            ),
            (
                vec![
                    json!({"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":4}),
                    json!({}),
                ],
                [40, 4, 0, 60],
            ),
            (
                vec![
                    json!({"promptTokenCount":10,"toolUsePromptTokenCount":5,"candidatesTokenCount":4,
                    "thoughtsTokenCount":3,"totalTokenCount":22}),
                ],
                [15, 4, 3, 0],
            ),
            (
                vec![
                    json!({"promptTokenCount":10,"candidatesTokenCount":9,"thoughtsTokenCount":4,"totalTokenCount":19}),
                ],
                [10, 5, 4, 0],
            ),
            (vec![json!({"promptTokenCount":3,"cachedContentTokenCount":9})], [0, 0, 0, 3]),
            (vec![json!({"promptTokenCount":-3,"candidatesTokenCount":"two"})], [0, 0, 0, 0]),
            (
                vec![json!({"promptTokenCount":3.0,"candidatesTokenCount":1e99})],
                [3, u64::MAX, 0, 0],
            ),
            (vec![Value::Null], [0, 0, 0, 0]),
        ] {
            assert_eq!(read(&chunks), expected, "{chunks:?}");
        }
    }
}
