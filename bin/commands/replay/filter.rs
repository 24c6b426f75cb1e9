//! Selects the events to show.

use std::collections::HashMap;

use leftfold_events::event::{Event, Tool};
use leftfold_events::{Envelope, Seq, line, rules};

use crate::cli::Replay;

/// An event must match every given condition.
pub(super) struct Filter {
    /// Patterns with the wildcards of permission rules.
    kinds: Vec<String>,
    tool: Option<String>,
    /// In lower case.
    text: Option<String>,
}

impl Filter {
    pub(super) fn of(args: &Replay) -> Self {
        let text = args.text.as_ref().map(|text| text.to_lowercase());
        Self { kinds: args.kinds.clone(), tool: args.tool.clone(), text }
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
