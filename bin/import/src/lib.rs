//! Imports sessions of other agents as logs of Leftfold.
//!
//! A reader for each format turns a file into a [`Transcript`], and `log_builder` turns that into a
//! log. Messages of users, models and tools become facts, settled one by one, and every intent
//! between them is decided by `next`. So the log folds to the same conversation, is sound whatever
//! the file contains, and ends at rest or waiting for a model.
//!
//! `session.imported{through}` says up to where no decision was made by Leftfold; `verify` begins
//! after it.

mod claude;
mod codex;
mod log_builder;
mod opencode;
mod order;
mod sidechains;
mod storage;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use leftfold_events::Time;
use leftfold_events::event::{
    Attachment, CallSpec, Cost, Finish, ModelRef, PromptKind, PromptPart, Usage,
};
use serde_json::Value;

pub use claude::chosen as chosen_by_claude;
pub use log_builder::{LogStart, build_logs};

/// A file cannot be imported: which file, where, and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnreadableFile(pub String);

/// The agent that wrote a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Origin {
    /// The output of `leftfold export`
    Leftfold,
    /// A file in ~/.claude/projects
    Claude,
    /// A rollout in ~/.codex/sessions
    Codex,
    /// The output of `opencode export`, or a session's file in its storage
    Opencode,
}

impl Origin {
    /// The program's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leftfold => "Leftfold",
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "OpenCode",
        }
    }
}

/// A session of another agent, in the order in which its model has seen it.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The other program's id of the session.
    pub id: String,
    /// The other program's version.
    pub version: String,
    pub directory: Option<PathBuf>,
    pub title: Option<String>,
    pub items: Vec<Item>,
    /// Sessions that calls of this one have started, by the calls' ids.
    pub children: HashMap<String, Transcript>,
    pub left_out: LeftOut,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub at: Time,
    pub what: ItemKind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ItemKind {
    Prompt(Vec<PromptPart>),
    Reply(Reply),
    Outcome(Outcome),
    /// Replaces everything said before.
    Summary(String),
    /// The user has interrupted the turn.
    Interrupted,
    /// A request to the model failed.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The id that connects parts of a reply that are apart in the file.
    pub id: String,
    pub model: ModelRef,
    pub parts: Vec<MessagePart>,
    pub finish: Finish,
    pub usage: Usage,
    pub cost: Cost,
}

#[derive(Clone, Debug, PartialEq)]
pub enum MessagePart {
    Text(String),
    /// A signature is kept only if it may be sent back.
    Reasoning {
        text: String,
        signature: Option<String>,
        redacted: bool,
    },
    Call(CallSpec),
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Outcome {
    pub call: String,
    pub title: String,
    pub output: String,
    pub is_error: bool,
    pub attachments: Vec<Attachment>,
}

impl Reply {
    fn has_calls(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, MessagePart::Call(_)))
    }
}

/// Content that a log cannot hold or a reader did not understand.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Bad lines with their numbers.
    pub bad: Vec<String>,
    /// The count of each kind of content.
    pub kinds: BTreeMap<String, usize>,
}

impl Transcript {
    /// Puts items into an order that a log allows, and adds the children's left-out content to its
    /// own.
    fn put_in_order(&mut self) {
        self.items = order::put(std::mem::take(&mut self.items));
        self.children.values_mut().for_each(Self::put_in_order);
        self.children.retain(|_, child| child.says_something());
        let left_out = self.children.values_mut().map(|child| std::mem::take(&mut child.left_out));
        left_out.for_each(|left_out| self.left_out.add(left_out));
    }

    fn says_something(&self) -> bool {
        let is_word = |item: &Item| matches!(item.what, ItemKind::Prompt(_) | ItemKind::Reply(_));
        self.items.iter().any(is_word)
    }
}

impl LeftOut {
    fn add(&mut self, other: Self) {
        self.bad.extend(other.bad);
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }

    fn bad(&mut self, name: &str, line: usize, why: impl std::fmt::Display) {
        self.bad.push(format!("{name}, line {line}: {why}"));
    }

    fn one(&mut self, kind: impl Into<String>) {
        *self.kinds.entry(kind.into()).or_default() += 1;
    }
}

/// Reads a session of another agent. `name` is the file's name in errors, `path` its place, if it
/// is a file.
///
/// # Errors
/// The file has no session.
pub fn read(
    origin: Origin,
    text: &str,
    name: &str,
    path: Option<&Path>,
) -> Result<Transcript, UnreadableFile> {
    let mut transcript = match origin {
        Origin::Leftfold => Transcript::default(),
        Origin::Claude => claude::read(text, name, path),
        Origin::Codex => codex::read(text, name),
        Origin::Opencode => opencode::read(text, name, path)?,
    };
    transcript.put_in_order();
    if transcript.says_something() {
        return Ok(transcript);
    }
    let bad = transcript.left_out.bad.first();
    let bad = bad.map_or_else(String::new, |bad| format!("; {bad}"));
    Err(UnreadableFile(format!("{name}: the file has no conversation of {}{bad}", origin.name())))
}

/// The agent that wrote a file, recognized by its content; Leftfold if nothing points to another
/// one.
pub fn origin(text: &str) -> Origin {
    const ENOUGH: usize = 200;
    let by_line = text.lines().take(ENOUGH).filter(|line| !line.trim().is_empty());
    let found = by_line.filter_map(|line| serde_json::from_str(line).ok()).find_map(|v| of(&v));
    found.or_else(|| of(&opencode::json_value(text)?)).unwrap_or(Origin::Leftfold)
}

fn of(value: &Value) -> Option<Origin> {
    let has = |key: &str| value.get(key).is_some();
    let kind = value["type"].as_str().unwrap_or_default();
    if value["v"].is_u64() {
        return Some(Origin::Leftfold);
    }
    if has("info") && has("messages")
        || value["id"].as_str().is_some_and(|id| id.starts_with("ses_"))
    {
        return Some(Origin::Opencode);
    }
    if codex::KINDS.contains(&kind) && has("payload") || has("record_type") {
        return Some(Origin::Codex);
    }
    if kind.is_empty() && has("id") && has("timestamp") && has("instructions") {
        return Some(Origin::Codex);
    }
    let is_claude = has("sessionId") || has("leafUuid") || has("parentUuid") || has("messageId");
    (is_claude && !kind.is_empty()).then_some(Origin::Claude)
}

/// Each line that is a JSON object, with its number from 1; other lines are noted as bad.
fn objects(text: &str, name: &str, left_out: &mut LeftOut) -> Vec<(usize, Value)> {
    let mut objects = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() => objects.push((at + 1, value)),
            Ok(_) => left_out.bad(name, at + 1, "not an object"),
            Err(error) => left_out.bad(name, at + 1, format!("not JSON: {error}")),
        }
    }
    objects
}

/// A text field of an object; empty if it has none.
pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// An RFC 3339 time; `before` if there is none.
fn time(value: &Value, before: Time) -> Time {
    serde_json::from_value(value.clone()).unwrap_or(before)
}

fn media(mime: &str, name: &str, base64: &str) -> PromptPart {
    PromptPart {
        kind: PromptKind::Media,
        text: base64.to_owned(),
        mime: Some(mime.to_owned()),
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
    }
}

/// The media type and the contents of a `data:` URL in base64.
pub fn data_url(url: &str) -> Option<(&str, &str)> {
    let (head, base64) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, base64))
}
