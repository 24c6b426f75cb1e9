//! Texts and values that are stored once. A long text in the data is written as `"$12"`: the text 12
//! of the pool. A short text that begins with `$` is written with another `$` before it.

use std::collections::HashMap;

use leftfold_events::{Sha256, mask};
use serde::Serialize;
use serde_json::Value;

/// The shortest text, in bytes, that is kept in the pool.
const LONG: usize = 64;
/// The size of a block in bytes, after which the next begins.
const BLOCK: usize = 256 << 10;

/// Texts or values, in blocks that the page reads one at a time.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The index of the first item of each block.
    pub(crate) starts: Vec<usize>,
    pub(crate) blocks: Vec<Vec<Value>>,
    count: usize,
    size: usize,
}

impl Blocks {
    fn push(&mut self, item: Value, size: usize) -> usize {
        if self.blocks.is_empty() || self.size > BLOCK {
            self.starts.push(self.count);
            self.blocks.push(Vec::new());
            self.size = 0;
        }
        if let Some(block) = self.blocks.last_mut() {
            block.push(item);
        }
        self.size += size;
        self.count += 1;
        self.count - 1
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) texts: Blocks,
    pub(crate) values: Blocks,
    known_texts: HashMap<Sha256, usize>,
    known_values: HashMap<Sha256, usize>,
}

impl Pool {
    /// The value with its long texts in the pool.
    pub(crate) fn encode(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.into_iter().map(|item| self.encode(item)).collect(),
            Value::Object(map) => {
                Value::Object(map.into_iter().map(|(k, v)| (k, self.encode(v))).collect())
            }
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
        }
    }

    fn text(&mut self, text: String) -> String {
        if text.len() < LONG {
            return if text.starts_with('$') { format!("${text}") } else { text };
        }
        let hash = Sha256::of(text.as_bytes());
        let texts = &mut self.texts;
        let at = *self.known_texts.entry(hash).or_insert_with(|| {
            let size = text.len();
            texts.push(Value::String(text), size)
        });
        format!("${at}")
    }

    /// The number of a value; equal values have the same.
    pub(crate) fn value(&mut self, value: Value) -> usize {
        let encoded = self.encode(value);
        let json = encoded.to_string();
        let (hash, values) = (Sha256::of(json.as_bytes()), &mut self.values);
        *self.known_values.entry(hash).or_insert_with(|| values.push(encoded, json.len()))
    }
}

/// A value as JSON with its tokens masked, as `leftfold replay --state` masks a state.
pub(crate) fn masked(value: &impl Serialize) -> Result<Value, serde_json::Error> {
    let json = serde_json::to_string(value)?;
    match mask::mask(&json) {
        Some(masked) => serde_json::from_str(&masked),
        None => serde_json::from_str(&json),
    }
}

/// Numbers in order as runs of first and count.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Runs(Vec<(usize, usize)>);

impl FromIterator<usize> for Runs {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for number in numbers {
            match runs.last_mut() {
                Some((first, count)) if *first + *count == number => *count += 1,
                _ => runs.push((number, 1)),
            }
        }
        Self(runs)
    }
}
