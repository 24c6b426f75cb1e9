//! Texts and values that are stored once. A long text in the data is written as `"$12"`: the text 12
//! of the pool. A short text that begins with `$` is written with another `$` before it.

use std::collections::HashMap;

use leftfold_events::{Sha256, mask};
use serde::Serialize;
use serde_json::Value;

/// The shortest text, in bytes, that is kept in the pool.
const LONG: usize = 64;
/// The bytes of JSON after which a block is full.
const BLOCK: usize = 256 << 10;

/// Texts or values as JSON, in blocks that the page reads one at a time.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// The index of the first item of each block.
    pub(crate) starts: Vec<usize>,
    /// The items of each block with commas between them.
    blocks: Vec<String>,
    count: usize,
}

impl Blocks {
    fn push(&mut self, item: &str) -> usize {
        match self.blocks.last_mut().filter(|block| block.len() <= BLOCK) {
            Some(block) => {
                block.push(',');
                block.push_str(item);
            }
            None => {
                self.starts.push(self.count);
                self.blocks.push(item.to_owned());
            }
        }
        self.count += 1;
        self.count - 1
    }

    /// The JSON of a block.
    pub(crate) fn block(&self, at: usize) -> Option<String> {
        self.blocks.get(at).map(|items| format!("[{items}]"))
    }

    pub(crate) fn size(&self) -> usize {
        self.blocks.iter().map(String::len).sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pub(crate) texts: Blocks,
    pub(crate) values: Blocks,
    /// Messages of requests. They have numbers of their own, so that those of a request follow each other.
    pub(crate) messages: Blocks,
    known_texts: HashMap<Sha256, usize>,
    known_values: HashMap<Sha256, usize>,
    known_messages: HashMap<Sha256, usize>,
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
        let hash = Sha256::digest(text.as_bytes());
        let texts = &mut self.texts;
        let push = || texts.push(&Value::String(text).to_string());
        format!("${}", self.known_texts.entry(hash).or_insert_with(push))
    }

    /// The number of a value; equal values have the same.
    pub(crate) fn value(&mut self, value: Value) -> usize {
        let json = self.encode(value).to_string();
        let values = &mut self.values;
        let hash = Sha256::digest(json.as_bytes());
        *self.known_values.entry(hash).or_insert_with(|| values.push(&json))
    }

    /// The number of a message of a request.
    pub(crate) fn message(&mut self, message: Value) -> usize {
        let json = self.encode(message).to_string();
        let messages = &mut self.messages;
        let hash = Sha256::digest(json.as_bytes());
        *self.known_messages.entry(hash).or_insert_with(|| messages.push(&json))
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
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Runs(Vec<(usize, usize)>);

impl Runs {
    pub(crate) fn push(&mut self, number: usize) {
        match self.0.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => self.0.push((number, 1)),
        }
    }
}

impl FromIterator<usize> for Runs {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut runs = Self::default();
        numbers.into_iter().for_each(|number| runs.push(number));
        runs
    }
}
