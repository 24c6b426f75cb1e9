//! Explains one event of a log: the events it follows from, the reason, and its outcome.

use std::collections::BTreeSet;
use std::fmt::Write;

use leftfold_events::event::{
    Compaction, Event, Model, Permission, PromptPart, Subagent, Tool, Turn,
};
use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Seq, State, TurnConfig, line, mask, next};
use serde_json::{Value, json};

use super::links::Links;
use crate::clean::{printable, printable_line};
use crate::configuration;
use crate::event_line;
use crate::reason::reason;

/// The longest list of outcomes.
const OUTCOMES: usize = 8;

/// The causes of an event, and its consequences.
#[derive(Debug)]
pub struct EventLinks<'a> {
    /// For an intent, the fact on which it was decided.
    pub decided_on: Option<Seq>,
    pub reason: Option<String>,
    pub rule: Option<&'a Rule>,
    /// The settings file and line, or the part of Leftfold, that the rule comes from.
    pub rule_source: Option<String>,
    /// The events that it follows from, in order of seq.
    pub from: Vec<Seq>,
}

impl<'a> EventLinks<'a> {
    /// The links of the event at index `at`; `before` is the state right before it.
    pub fn new(links: &'a Links, before: &State, at: usize) -> Self {
        let event = &links.events[at];
        let rule = rule(&event.event);
        Self {
            decided_on: decided_on(&links.events, at).filter(|_| event.event.is_intent()),
            reason: reason(before, event),
            rule,
            rule_source: rule.and_then(|rule| configuration::of_rule(&before.config, rule)),
            from: Sources { links, at, found: BTreeSet::new() }.of(before),
        }
    }
}

/// The explanation of one event.
#[derive(Debug)]
pub struct EventReport<'a> {
    links: &'a Links,
    event: &'a Envelope,
    linked: EventLinks<'a>,
    then: Vec<Seq>,
    /// For an intent: whether today's code decides the same.
    same_today: bool,
    /// For a `turn.configured`, the configuration.
    config: Option<Box<TurnConfig>>,
    /// Whether it still waits for its outcome.
    waits: bool,
}

impl<'a> EventReport<'a> {
    /// Explains the event at index `at`; `before` is the state right before it.
    pub fn new(links: &'a Links, before: &State, at: usize) -> Self {
        let event = &links.events[at];
        let configured = || {
            let mut after = before.clone();
            after.apply(event);
            Box::new(after.config)
        };
        Self {
            links,
            event,
            linked: EventLinks::new(links, before, at),
            then: then(links, at),
            same_today: event.event.is_intent() && next(before).as_ref() == Some(event),
            config: matches!(event.event, Event::Turn(Turn::Configured(_))).then(configured),
            waits: links.is_open(event.seq),
        }
    }

    pub fn json(&self) -> Value {
        let each = |seqs: &[Seq]| -> Vec<Value> {
            let events = seqs.iter().filter_map(|seq| self.links.event(*seq));
            let as_json = |e: &Envelope| json!({ "seq": e.seq, "type": line::type_of(&e.event), "what": event_line::detail(&e.event) });
            events.map(as_json).collect()
        };
        json!({
            "seq": self.event.seq,
            "type": line::type_of(&self.event.event),
            "what": event_line::detail(&self.event.event),
            "decided_on": self.linked.decided_on,
            "same_today": self.linked.decided_on.map(|_| self.same_today),
            "reason": self.linked.reason,
            "rule": self.linked.rule,
            "rule_source": self.linked.rule_source,
            "configuration": self.config.as_deref().map(configuration::as_json),
            "from": each(&self.linked.from),
            "then": each(&self.then),
            "until": self.event.until,
            "waits": self.waits,
            "content": content(&self.event.event),
        })
    }

    pub fn text(&self) -> String {
        let mut text = format!("event {}\n", event_text(self.event));
        let linked = &self.linked;
        let _ = match linked.decided_on {
            Some(fact) if self.same_today => {
                writeln!(text, "decided on event {fact}, and today's code decides the same")
            }
            Some(fact) => {
                writeln!(text, "decided on event {fact}; today's code does NOT decide the same")
            }
            None => writeln!(text, "{}", source(self.event)),
        };
        if let Some(reason) = &linked.reason {
            let is_time = !self.event.event.is_intent() && reason.starts_with("after ");
            let label = if is_time { "came" } else { "because" };
            let _ = writeln!(text, "{label}: {}", printable_line(reason));
        }
        if let Some(rule) = linked.rule {
            let source = linked.rule_source.as_ref();
            let source = source.map(|source| format!(" ({})", printable_line(source)));
            let source = source.unwrap_or_default();
            let _ = writeln!(text, "rule: {}{source}", configuration::shown(rule));
        }
        if let Some(until) = self.event.until {
            let how = if self.waits { "waits" } else { "waited at most" };
            let _ = writeln!(text, "{how} until {until}");
        }
        for (name, seqs) in [("from", &linked.from), ("then", &self.then)] {
            if !seqs.is_empty() {
                let _ = writeln!(text, "{name}:");
            }
            for event in seqs.iter().filter_map(|seq| self.links.event(*seq)) {
                let _ = writeln!(text, "  {}", event_text(event));
            }
        }
        if let Some(config) = &self.config {
            text += &configuration::text(config);
        }
        if let Some(content) = content(&self.event.event) {
            text += "content:\n";
            for line in content.lines() {
                let _ = writeln!(text, "  {}", printable(line));
            }
        }
        text
    }
}

/// The whole text of an event of which lists show the beginning, with tokens masked: the arguments of a call, its
/// output, a prompt, a reply, a summary.
fn content(event: &Event) -> Option<String> {
    let joined = |parts: &[PromptPart]| {
        parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n")
    };
    let text = match event {
        Event::Tool(Tool::Called { call } | Tool::Batched { call }) => {
            serde_json::to_string_pretty(&call.input.value()).ok()?
        }
        Event::Tool(Tool::Finished(finished)) => finished.output.to_string(),
        Event::Turn(Turn::Prompted { parts, .. } | Turn::Noted { parts, .. }) => joined(parts),
        Event::Turn(Turn::Ended(ended)) => ended.text.clone(),
        Event::Model(Model::Streamed { parts }) => {
            parts.iter().map(|part| part.text.as_str()).collect()
        }
        Event::Compaction(Compaction::Finished { summary }) => summary.clone(),
        Event::Subagent(
            Subagent::Ended { answer, .. } | Subagent::EndedUncounted { answer, .. },
        ) => answer.clone(),
        Event::Permission(
            Permission::Answered { feedback, .. } | Permission::RejectedWith { feedback, .. },
        ) => feedback.clone()?,
        _ => return None,
    };
    let text = mask::mask(&text).unwrap_or(text);
    (!text.trim().is_empty()).then_some(text)
}

fn event_text(event: &Envelope) -> String {
    let detail = event_line::detail(&event.event);
    let line = format!("{}: {} {detail}", event.seq, line::type_of(&event.event));
    printable_line(line.trim_end()).into_owned()
}

/// Says where a fact comes from.
fn source(event: &Envelope) -> String {
    match event.of {
        Some(of) => format!("recorded as an outcome of event {of}"),
        None => "recorded from outside: no decision of the session led to it".to_owned(),
    }
}

fn rule(event: &Event) -> Option<&Rule> {
    let Event::Permission(Permission::Ruled { rule, .. }) = event else { return None };
    rule.as_ref()
}

/// The last fact before the event; an intent was decided on it.
pub fn decided_on(events: &[Envelope], at: usize) -> Option<Seq> {
    events[..at].iter().rfind(|event| !event.event.is_intent()).map(|event| event.seq)
}

/// The intents decided on the fact at index `at`, or the outcomes of the intent there without streamed pieces.
pub fn then(links: &Links, at: usize) -> Vec<Seq> {
    let (event, later) = (&links.events[at], &links.events[at + 1..]);
    if let Event::Tool(Tool::Called { .. } | Tool::Batched { .. }) = &event.event {
        return way_on(links, event.seq);
    }
    if !event.event.is_intent() {
        let decided = later.iter().take_while(|event| event.event.is_intent());
        return decided.take(OUTCOMES).map(|event| event.seq).collect();
    }
    let outcomes = links.about(event.seq).filter(|event| !is_piece(&event.event));
    outcomes.take(OUTCOMES).map(|event| event.seq).collect()
}

/// The events of a call after it: how it was judged, ran and ended.
fn way_on(links: &Links, call: Seq) -> Vec<Seq> {
    let steps = links.about(call).flat_map(|step| {
        let outcomes = links.about(step.seq).filter(|outcome| !is_piece(&outcome.event));
        std::iter::once(step).chain(outcomes)
    });
    let steps =
        steps.filter(|step| !matches!(step.event, Event::Tool(Tool::ResolveStarted { .. })));
    let mut seqs: Vec<Seq> = steps.map(|step| step.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    seqs
}

/// Whether the event is a piece of an outcome that is still to come.
fn is_piece(event: &Event) -> bool {
    matches!(
        event,
        Event::Model(Model::Streamed { .. })
            | Event::Tool(Tool::Progressed { .. } | Tool::InputStreamed { .. })
    )
}

/// Collects the events that an event follows from.
struct Sources<'a> {
    links: &'a Links,
    at: usize,
    found: BTreeSet<Seq>,
}

impl Sources<'_> {
    fn of(mut self, before: &State) -> Vec<Seq> {
        let event = &self.links.events[self.at];
        let call = self.follow(event.of);
        if event.event.is_intent() {
            self.found.extend(decided_on(&self.links.events, self.at));
            let way = call.map(|call| self.way_of(call)).unwrap_or_default();
            self.found.extend(way);
            let turn = before.turn.as_ref();
            let more = match &event.event {
                Event::Turn(Turn::Ended(_)) | Event::Model(_) => {
                    let asked = turn.map(|turn| turn.asked).filter(|asked| *asked > 0);
                    [turn.map(|turn| turn.prompted), asked]
                }
                Event::Permission(Permission::Ruled { rule, .. }) => {
                    let config = self.last(|e| matches!(e, Event::Turn(Turn::Configured(_))));
                    [config, rule.as_ref().and_then(|rule| self.links.approval(rule, event.seq))]
                }
                Event::Compaction(Compaction::Started { .. }) => {
                    [self.last(|e| matches!(e, Event::Model(Model::Finished { .. }))), None]
                }
                _ => [None, None],
            };
            self.found.extend(more.into_iter().flatten());
        }
        self.found.remove(&event.seq);
        self.found.into_iter().collect()
    }

    /// Follows `of` from event to event, and collects them. Answers the call at the end, if there
    /// is one.
    fn follow(&mut self, of: Option<Seq>) -> Option<Seq> {
        let before = self.links.events[self.at].seq;
        let mut next = of;
        let mut call = None;
        while let Some(seq) = next.filter(|seq| self.found.insert(*seq)) {
            let about = self.links.event(seq).filter(|about| about.seq < before)?;
            if let Event::Tool(Tool::Called { .. } | Tool::Batched { .. }) = &about.event {
                call = Some(seq);
            }
            next = about.of;
        }
        call
    }

    /// The events so far that resolved, judged and answered a call.
    fn way_of(&self, call: Seq) -> Vec<Seq> {
        let before = |event: &&Envelope| event.seq < self.links.events[self.at].seq;
        let of_call = || self.links.about(call).filter(before);
        let intents = of_call().filter(|event| event.event.is_intent());
        let answers = intents.flat_map(|intent| self.links.about(intent.seq)).filter(before);
        let counts = |event: &&Envelope| {
            matches!(
                &event.event,
                Event::Tool(Tool::Resolved(_) | Tool::ElicitationRequested { .. })
                    | Event::Permission(
                        Permission::Ruled { .. }
                            | Permission::Answered { .. }
                            | Permission::AnsweredFor { .. }
                            | Permission::RejectedWith { .. }
                    )
            )
        };
        of_call().chain(answers).filter(counts).map(|event| event.seq).collect()
    }

    fn last(&self, wanted: impl Fn(&Event) -> bool) -> Option<Seq> {
        let found = self.links.events[..self.at].iter().rfind(|event| wanted(&event.event));
        found.map(|event| event.seq)
    }
}
