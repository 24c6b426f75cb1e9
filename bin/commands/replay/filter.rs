//! Selects the events to show, and marks the text that selected them.

use std::collections::HashMap;
use std::ops::Range;

use leftfold_events::event::{Event, Tool, Turn};
use leftfold_events::{Envelope, Seq, line, mask, rules};
use leftfold_view::clean::printable_line;
use serde_json::Value;

use crate::cli::Replay;

/// The most fields of an event to show with their marks.
const FIELDS: usize = 3;
/// The characters to show before and after a match.
const AROUND: usize = 40;

/// An event must match every given condition.
pub(super) struct Filter {
    /// Patterns with the wildcards of permission rules.
    kinds: Vec<String>,
    tool: Option<String>,
    /// In lower case.
    text: Option<String>,
    /// Whether a list has the bookkeeping too. A type or a text is asked for by name.
    pub(super) shows_bookkeeping: bool,
}

impl Filter {
    pub(super) fn of(args: &Replay) -> Self {
        let text = args.text.as_ref().map(|text| text.to_lowercase());
        let shows_bookkeeping = args.all || text.is_some() || !args.kinds.is_empty();
        Self { kinds: args.kinds.clone(), tool: args.tool.clone(), text, shows_bookkeeping }
    }

    /// For each event, whether it is selected.
    pub(super) fn picked(&self, events: &[Envelope]) -> Vec<bool> {
        let mut calls = Calls::default();
        let of_tool = |event: &Envelope| self.tool.as_deref() == calls.follow(event);
        let of_tool: Vec<bool> = match &self.tool {
            Some(_) => events.iter().map(of_tool).collect(),
            None => vec![true; events.len()],
        };
        let matches = |(event, of_tool): (&Envelope, bool)| {
            of_tool && self.is_of_kind(event) && self.says(event)
        };
        events.iter().zip(of_tool).map(matches).collect()
    }

    fn is_of_kind(&self, event: &Envelope) -> bool {
        if self.kinds.is_empty() {
            return true;
        }
        let kind = line::type_of(&event.event);
        self.kinds.iter().any(|glob| rules::matches(glob, &kind))
    }

    /// Whether the event's data, or the contents that it names, contain the text.
    fn says(&self, event: &Envelope) -> bool {
        let Some(text) = &self.text else { return true };
        let has = |words: &str| words.to_lowercase().contains(text);
        let payloads = event.event.payloads();
        has(&line::write(event)) || payloads.iter().any(|payload| has(payload.text()))
    }
}

impl Filter {
    /// The fields of the event that contain the text, as `data.output: … »match« …`. The event is
    /// masked first, so that no part of a token is shown.
    pub(super) fn hits(&self, event: &Envelope) -> Vec<String> {
        let Some(text) = self.text.as_ref().filter(|text| !text.is_empty()) else {
            return Vec::new();
        };
        let masked = mask::shown(event).masked;
        let event = masked.as_deref().unwrap_or(event);
        let mut hits = Hits { text, found: Vec::new() };
        hits.walk("", &with_contents(event));
        let more = hits.found.len().saturating_sub(FIELDS);
        hits.found.truncate(FIELDS);
        if more > 0 {
            hits.found.push(format!("and in {more} more fields"));
        }
        hits.found
    }
}

/// The event as JSON, with the contents that it names by hash in place of the hashes.
fn with_contents(event: &Envelope) -> Value {
    let mut value: Value = serde_json::from_str(&line::write(event)).unwrap_or_default();
    if let Event::Turn(Turn::Configured(_)) = &event.event {
        for payload in event.event.payloads() {
            let hash = payload.sha256().to_string();
            let fields = value["data"].as_object_mut().into_iter().flatten();
            for (_, field) in fields.filter(|(_, field)| field.as_str() == Some(&hash)) {
                *field = serde_json::from_str(payload.text()).unwrap_or_default();
            }
        }
    }
    value
}

/// The fields that contain a text.
struct Hits<'a> {
    /// In lower case.
    text: &'a str,
    found: Vec<String>,
}

impl Hits<'_> {
    fn walk(&mut self, path: &str, value: &Value) {
        let below = |key: &str| match path {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        };
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(key, value)| self.walk(&below(key), value));
            }
            Value::Array(items) => {
                let items = items.iter().enumerate();
                items.for_each(|(at, value)| self.walk(&below(&at.to_string()), value));
            }
            Value::String(text) => self.leaf(path, text),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.leaf(path, &value.to_string()),
        }
    }

    fn leaf(&mut self, path: &str, text: &str) {
        let Some(Range { start, end }) = find(text, self.text) else { return };
        let (before, hit, after) = (&text[..start], &text[start..end], &text[end..]);
        let from = before.char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let to = after.char_indices().nth(AROUND).map_or(after.len(), |(at, _)| at);
        let (open, close) =
            (if from > 0 { "…" } else { "" }, if to < after.len() { "…" } else { "" });
        let piece = format!("{open}{}»{hit}«{}{close}", &before[from..], &after[..to]);
        self.found.push(format!("{path}: {}", printable_line(&piece)));
    }
}

/// The first place of `wanted`, which is in lower case, in a text in upper or lower case.
fn find(text: &str, wanted: &str) -> Option<Range<usize>> {
    let ends_at = |start: usize| {
        let mut left = wanted.chars();
        for (at, c) in text[start..].char_indices() {
            if !c.to_lowercase().all(|lower| left.next() == Some(lower)) {
                return None;
            }
            if left.as_str().is_empty() {
                return Some(start + at + c.len_utf8());
            }
        }
        None
    };
    let mut starts = text.char_indices().map(|(start, _)| start);
    starts.find_map(|start| Some(start..ends_at(start)?))
}

/// The tool of each event: `of` leads from every event of a call to its `tool.called`.
#[derive(Default)]
struct Calls(HashMap<Seq, String>);

impl Calls {
    fn follow(&mut self, event: &Envelope) -> Option<&str> {
        let name = match &event.event {
            Event::Tool(Tool::Called { call } | Tool::Batched { call }) => Some(call.name.clone()),
            Event::Tool(_) | Event::Permission(_) | Event::Subagent(_) | Event::Todo(_) => {
                event.of.and_then(|of| self.0.get(&of).cloned())
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Compaction(_)
            | Event::Files(_)
            | Event::Hook(_) => None,
        };
        self.0.insert(event.seq, name?);
        self.0.get(&event.seq).map(String::as_str)
    }
}
