//! Finds subagents of Claude Code. Their records are among the session's or in a file of their own.
//! The call that started one is known by its result, which names the subagent, or by its prompt if
//! no other call has that prompt.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{LeftOut, objects, text};

/// One subagent's records.
pub(super) struct Sidechain {
    /// The call that has started it.
    pub(super) call: String,
    pub(super) records: Vec<Value>,
    /// The indices of its records among those of its parent session.
    pub(super) at: Vec<usize>,
    /// Its own file.
    pub(super) path: Option<PathBuf>,
}

/// The subagents of the session with these records, whose file is at `path` if it has one. `seen`
/// are files that are being read already.
pub(super) fn find(
    records: &[Value],
    path: Option<&Path>,
    seen: &mut HashSet<PathBuf>,
    left_out: &mut LeftOut,
) -> Vec<Sidechain> {
    let asides = asides(records);
    let mut found = Vec::new();
    let mut known: HashSet<usize> = HashSet::new();
    for (call, agent) in results(records, &asides) {
        let at: Vec<usize> =
            asides.iter().copied().filter(|at| text(&records[*at], "agentId") == agent).collect();
        if !at.is_empty() {
            known.extend(&at);
            found.push(beside(call, records, at));
        } else if let Some(path) = file(path, agent).filter(|path| seen.insert(path.clone())) {
            found.extend(own_file(call, path, left_out));
        }
    }
    let started: HashSet<String> = found.iter().map(|chain| chain.call.clone()).collect();
    let rest: Vec<usize> = asides.iter().copied().filter(|at| !known.contains(at)).collect();
    for (call, at) in by_prompt(records, &asides, &rest) {
        if !started.contains(&call) {
            found.push(beside(call, records, at));
        }
    }
    found
}

fn beside(call: String, records: &[Value], at: Vec<usize>) -> Sidechain {
    let own = at.iter().map(|at| records[*at].clone()).collect();
    Sidechain { call, records: own, at, path: None }
}

fn own_file(call: String, path: PathBuf, left_out: &mut LeftOut) -> Option<Sidechain> {
    let bytes = fs::read(&path).ok()?;
    let name = path.display().to_string();
    let records = objects(&String::from_utf8_lossy(&bytes), &name, left_out);
    let records = records.into_iter().map(|(_, record)| record).collect();
    Some(Sidechain { call, records, at: Vec::new(), path: Some(path) })
}

/// The records of subagents; none in a subagent's own file, which consists of them.
fn asides(records: &[Value]) -> Vec<usize> {
    let is_aside = |record: &Value| record["isSidechain"].as_bool().unwrap_or_default();
    let is_message = |record: &Value| record["message"].is_object();
    let any_main = records.iter().any(|record| is_message(record) && !is_aside(record));
    let at = records.iter().enumerate().filter(|(_, record)| any_main && is_aside(record));
    at.map(|(at, _)| at).collect()
}

fn mains<'a>(records: &'a [Value], asides: &[usize]) -> impl Iterator<Item = &'a Value> {
    let asides: HashSet<usize> = asides.iter().copied().collect();
    let mains = records.iter().enumerate().filter(move |(at, _)| !asides.contains(at));
    mains.map(|(_, record)| record)
}

/// Calls whose results name a subagent.
fn results<'a>(records: &'a [Value], asides: &[usize]) -> Vec<(String, &'a str)> {
    let named = mains(records, asides).filter_map(|record| {
        let agent = record["toolUseResult"]["agentId"].as_str()?;
        let blocks = record["message"]["content"].as_array()?;
        let call = blocks.iter().find_map(|block| block["tool_use_id"].as_str())?;
        Some((call.to_owned(), agent))
    });
    named.collect()
}

/// The file of a subagent, if it exists.
fn file(path: Option<&Path>, agent: &str) -> Option<PathBuf> {
    let is_plain =
        !agent.is_empty() && agent.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let path = path.filter(|_| is_plain)?;
    let name = format!("agent-{agent}.jsonl");
    let places = [path.with_extension("").join("subagents"), path.parent()?.to_owned()];
    places.into_iter().map(|place| place.join(&name)).find(|path| path.is_file())
}

/// The records among `at` that begin with the prompt of exactly one call.
fn by_prompt(records: &[Value], asides: &[usize], at: &[usize]) -> Vec<(String, Vec<usize>)> {
    let mut calls: HashMap<&str, Vec<&str>> = HashMap::new();
    let blocks =
        mains(records, asides).filter_map(|record| record["message"]["content"].as_array());
    for block in blocks.flatten() {
        if let (Some(prompt), Some(id)) = (block["input"]["prompt"].as_str(), block["id"].as_str())
        {
            calls.entry(prompt).or_default().push(id);
        }
    }
    let mut chains: HashMap<usize, Vec<usize>> = HashMap::new();
    for at in at {
        chains.entry(root(records, *at)).or_default().push(*at);
    }
    let mut by_text: HashMap<String, Vec<Vec<usize>>> = HashMap::new();
    for (root, at) in chains {
        by_text.entry(prompt(&records[root])).or_default().push(at);
    }
    let mut found = Vec::new();
    for (text, mut chains) in by_text {
        if let (Some([call]), 1, Some(chain)) =
            (calls.get(text.as_str()).map(Vec::as_slice), chains.len(), chains.pop())
        {
            found.push(((*call).to_owned(), chain));
        }
    }
    found.sort();
    found
}

/// The first record of the chain of the record at `at`.
fn root(records: &[Value], at: usize) -> usize {
    let mut root = at;
    // A parent comes before its children, so this loop ends.
    while let Some(parent) = records[root]["parentUuid"].as_str() {
        let before = records[..root].iter().rposition(|record| text(record, "uuid") == parent);
        match before.filter(|at| records[*at]["isSidechain"].as_bool().unwrap_or_default()) {
            Some(before) => root = before,
            None => break,
        }
    }
    root
}

fn prompt(record: &Value) -> String {
    let content = &record["message"]["content"];
    let blocks = content.as_array().into_iter().flatten();
    let joined =
        || blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n");
    content.as_str().map_or_else(joined, str::to_owned)
}
