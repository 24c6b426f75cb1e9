//! All logs of a run as named blocks of JSON, which `web/source.js` reads: `run` at the start, the
//! others when they are needed.

use serde_json::{Value, json};

use crate::log_data::LogData;
use crate::pool::{Blocks, Pool};
use crate::{Log, PageError};

/// A named block of data.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: String,
    pub(crate) data: Value,
}

/// The blocks of a run; the first log is that of the root session.
pub(crate) fn blocks(logs: &[Log<'_>]) -> Result<Vec<Block>, PageError> {
    let mut pool = Pool::default();
    let mut types = Vec::new();
    let mut summaries = Vec::new();
    let mut chunks = Vec::new();
    for (index, (session, events)) in logs.iter().enumerate() {
        let log = LogData::new(*session, events, &mut types, &mut pool)?;
        summaries.push(log.summary);
        let named = |(at, data)| Block { name: format!("chunk-{index}-{at}"), data };
        chunks.extend(log.chunks.into_iter().enumerate().map(named));
    }
    let run = json!({
        "types": types,
        "texts": pool.texts.starts,
        "values": pool.values.starts,
        "logs": summaries,
    });
    let run = Block { name: "run".to_owned(), data: run };
    let pooled = |name: &'static str, blocks: Blocks| {
        let named = move |(at, items): (usize, Vec<Value>)| Block {
            name: format!("{name}-{at}"),
            data: Value::Array(items),
        };
        blocks.blocks.into_iter().enumerate().map(named)
    };
    let texts = pooled("texts", pool.texts);
    let values = pooled("values", pool.values);
    Ok([run].into_iter().chain(chunks).chain(texts).chain(values).collect())
}
