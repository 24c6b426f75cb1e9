//! Selects the events to show, and marks the text that selected them.

use std::collections::HashMap;
use std::ops::Range;

use leftfold_events::event::{Event, Tool, Turn};
use leftfold_events::turn_config::{Options, PromptPiece};
use leftfold_events::{Envelope, Seq, line, mask, rules};
use leftfold_view::clean::printable_line;
use leftfold_view::words;
use serde_json::Value;

use crate::cli::Replay;

/// The most places of an event to show with their marks.
const PLACES: usize = 5;
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
    pub(super) fn from_args(args: &Replay) -> Self {
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

    /// The text that is searched, if one is.
    pub(super) fn searched(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.is_empty())
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
    /// The places in the event that contain the text, as `data.output: … »match« …`; in the system prompt, the
    /// file that the place is from. The event is masked first, so that no part of a token is shown.
    pub(super) fn hits(&self, event: &Envelope) -> Vec<String> {
        let Some(text) = self.text.as_ref().filter(|text| !text.is_empty()) else {
            return Vec::new();
        };
        let masked = mask::shown(event).masked;
        let event = masked.as_deref().unwrap_or(event);
        let mut hits = Hits { text, pieces: pieces(event), found: Vec::new() };
        hits.walk("", &with_contents(event));
        let more = hits.found.len().saturating_sub(PLACES);
        hits.found.truncate(PLACES);
        if more > 0 {
            hits.found.push(format!("and {}", words::counted(more, "more place")));
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

/// The pieces of the event's system prompt.
fn pieces(event: &Envelope) -> Vec<PromptPiece> {
    let Event::Turn(Turn::Configured(configured)) = &event.event else { return Vec::new() };
    let options: Option<Options> = serde_json::from_str(configured.options.text()).ok();
    options.unwrap_or_default().sources.system
}

/// The places that contain a text.
struct Hits<'a> {
    /// In lower case.
    text: &'a str,
    pieces: Vec<PromptPiece>,
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
        let mut from = 0;
        while let Some(Range { start, end }) = find(&text[from..], self.text) {
            let (start, end) = (from + start, from + end);
            let (before, hit, after) = (&text[..start], &text[start..end], &text[end..]);
            let left = before.char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
            let right = after.char_indices().nth(AROUND).map_or(after.len(), |(at, _)| at);
            let (open, close) =
                (if left > 0 { "…" } else { "" }, if right < after.len() { "…" } else { "" });
            let piece = format!("{open}{}»{hit}«{}{close}", &before[left..], &after[..right]);
            let place = self.place(path, start);
            self.found.push(printable_line(&format!("{place}: {piece}")).into_owned());
            // a match that the piece already shows needs no line of its own
            from = end + right;
        }
    }

    /// The path of a field; in a block of the system prompt, the file with the byte `at`.
    fn place(&self, path: &str, at: usize) -> String {
        let block = path.strip_prefix("data.system.").and_then(|block| block.parse::<usize>().ok());
        let here = |piece: &&PromptPiece| {
            Some(piece.block) == block && (piece.from..piece.to).contains(&at)
        };
        let piece = self.pieces.iter().find(here);
        match piece.and_then(|piece| piece.path.as_deref().or(piece.name.as_deref())) {
            Some(source) => format!("{path} ({source})"),
            None => path.to_owned(),
        }
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
            _ => None,
        };
        self.0.insert(event.seq, name?);
        self.0.get(&event.seq).map(String::as_str)
    }
}
