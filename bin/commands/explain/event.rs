//! Explains one event of a log: the events it follows from, the reason, and its outcome.

use std::collections::BTreeSet;
use std::fmt::Write;

use leftfold_events::event::{Compaction, Event, Model, Permission, Tool, Turn};
use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Seq, State, TurnConfig, fold, line, next};
use leftfold_view::clean::printable_line;
use leftfold_view::event_line;
use serde_json::{Value, json};

use super::configuration;

/// The longest list of outcomes.
const OUTCOMES: usize = 8;

/// The explanation of one event.
pub(super) struct EventReport<'a> {
    events: &'a [Envelope],
    event: &'a Envelope,
    /// For an intent: the fact on which it was decided, and whether today's code decides the same.
    decided: Option<(Seq, bool)>,
    reason: Option<String>,
    rule: Option<&'a Rule>,
    /// The settings file and line, or the part of Leftfold, that the rule comes from.
    rule_source: Option<String>,
    /// For a `turn.configured`, the configuration.
    config: Option<Box<TurnConfig>>,
    /// The events that it follows from, in order of seq.
    from: Vec<Seq>,
    /// For a fact, the intents decided on it; for an intent, its outcomes.
    then: Vec<Seq>,
    /// Whether it still waits for its outcome.
    waits: bool,
}

impl<'a> EventReport<'a> {
    /// Explains the event at index `at`.
    pub(super) fn new(events: &'a [Envelope], at: usize) -> Self {
        let event = &events[at];
        let before = fold(&events[..at]);
        let decided = decided_on(events, at).filter(|_| event.event.is_intent());
        let same = || next(&before).as_ref() == Some(event);
        let open = fold(events).open();
        Self {
            events,
            event,
            decided: decided.map(|fact| (fact, same())),
            reason: leftfold_view::reason(&before, event),
            rule: rule(&event.event),
            rule_source: rule(&event.event)
                .and_then(|rule| configuration::of_rule(&before.config, rule)),
            config: matches!(event.event, Event::Turn(Turn::Configured(_)))
                .then(|| Box::new(fold(&events[..=at]).config)),
            from: Sources { events, at, found: BTreeSet::new() }.of(&before),
            then: then(events, at),
            waits: open.iter().any(|(_, wait)| wait.intent == event.seq),
        }
    }

    fn named(&self, seq: Seq) -> Option<&Envelope> {
        self.events.iter().find(|event| event.seq == seq)
    }

    pub(super) fn json(&self) -> Value {
        let each = |seqs: &[Seq]| -> Vec<Value> {
            let events = seqs.iter().filter_map(|seq| self.named(*seq));
            let as_json = |e: &Envelope| json!({ "seq": e.seq, "type": line::type_of(&e.event), "what": event_line::detail(&e.event) });
            events.map(as_json).collect()
        };
        json!({
            "seq": self.event.seq,
            "type": line::type_of(&self.event.event),
            "what": event_line::detail(&self.event.event),
            "decided_on": self.decided.map(|(fact, _)| fact),
            "same_today": self.decided.map(|(_, same)| same),
            "reason": self.reason,
            "rule": self.rule,
            "rule_source": self.rule_source,
            "configuration": self.config.as_deref().map(configuration::as_json),
            "from": each(&self.from),
            "then": each(&self.then),
            "until": self.event.until,
            "waits": self.waits,
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("event {}\n", event_text(self.event));
        let _ = match self.decided {
            Some((fact, true)) => {
                writeln!(text, "decided on event {fact}, and today's code decides the same")
            }
            Some((fact, false)) => {
                writeln!(text, "decided on event {fact}; today's code does NOT decide the same")
            }
            None => writeln!(text, "{}", source(self.event)),
        };
        if let Some(reason) = &self.reason {
            let _ = writeln!(text, "because: {}", printable_line(reason));
        }
        if let Some(rule) = self.rule {
            let source = self.rule_source.as_ref();
            let source = source.map(|source| format!(" ({})", printable_line(source)));
            let source = source.unwrap_or_default();
            let _ = writeln!(text, "rule: {}{source}", configuration::shown(rule));
        }
        if let Some(until) = self.event.until {
            let how = if self.waits { "waits" } else { "waited at most" };
            let _ = writeln!(text, "{how} until {until}");
        }
        for (name, seqs) in [("from", &self.from), ("then", &self.then)] {
            if !seqs.is_empty() {
                let _ = writeln!(text, "{name}:");
            }
            for event in seqs.iter().filter_map(|seq| self.named(*seq)) {
                let _ = writeln!(text, "  {}", event_text(event));
            }
        }
        if let Some(config) = &self.config {
            text += &configuration::text(config);
        }
        text
    }
}

fn event_text(event: &Envelope) -> String {
    let detail = event_line::detail(&event.event);
    let line = format!("{}: {} {detail}", event.seq, line::type_of(&event.event));
    printable_line(line.trim_end()).into_owned()
}

/// Says where a fact comes from.
fn source(event: &Envelope) -> String {
    match event.of {
        Some(of) => format!("a fact: the outcome of event {of}"),
        None => "a fact from outside the session, not a decision".to_owned(),
    }
}

fn rule(event: &Event) -> Option<&Rule> {
    let Event::Permission(Permission::Ruled { rule, .. }) = event else { return None };
    rule.as_ref()
}

/// The last fact before the event; an intent was decided on it.
pub(super) fn decided_on(events: &[Envelope], at: usize) -> Option<Seq> {
    events[..at].iter().rfind(|event| !event.event.is_intent()).map(|event| event.seq)
}

/// The intents decided on a fact, or the outcomes of an intent without streamed pieces.
fn then(events: &[Envelope], at: usize) -> Vec<Seq> {
    let (event, later) = (&events[at], &events[at + 1..]);
    if !event.event.is_intent() {
        let decided = later.iter().take_while(|event| event.event.is_intent());
        return decided.take(OUTCOMES).map(|event| event.seq).collect();
    }
    let is_piece = |event: &Event| {
        matches!(
            event,
            Event::Model(Model::Streamed { .. })
                | Event::Tool(Tool::Progressed { .. } | Tool::InputStreamed { .. })
        )
    };
    let outcome = |e: &&Envelope| e.of == Some(event.seq) && !is_piece(&e.event);
    later.iter().filter(outcome).take(OUTCOMES).map(|event| event.seq).collect()
}

/// Collects the events that an event follows from.
struct Sources<'a> {
    events: &'a [Envelope],
    at: usize,
    found: BTreeSet<Seq>,
}

impl Sources<'_> {
    fn of(mut self, before: &State) -> Vec<Seq> {
        let event = &self.events[self.at];
        let call = self.follow(event.of);
        if event.event.is_intent() {
            self.found.extend(decided_on(self.events, self.at));
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
                    [config, rule.as_ref().and_then(|rule| self.approval(rule))]
                }
                Event::Compaction(Compaction::Started { .. }) => {
                    [self.last(|e| matches!(e, Event::Model(Model::Finished { .. }))), None]
                }
                Event::Session(_)
                | Event::Turn(_)
                | Event::Tool(_)
                | Event::Permission(_)
                | Event::Compaction(_)
                | Event::Subagent(_)
                | Event::Todo(_)
                | Event::Files(_)
                | Event::Hook(_) => [None, None],
            };
            self.found.extend(more.into_iter().flatten());
        }
        self.found.remove(&event.seq);
        self.found.into_iter().collect()
    }

    /// Follows `of` from event to event, and collects them. Answers the call at the end, if there
    /// is one.
    fn follow(&mut self, of: Option<Seq>) -> Option<Seq> {
        let mut next = of;
        let mut call = None;
        while let Some(seq) = next.filter(|seq| self.found.insert(*seq)) {
            let about = self.events[..self.at].iter().find(|event| event.seq == seq)?;
            if let Event::Tool(Tool::Called { .. } | Tool::Batched { .. }) = &about.event {
                call = Some(seq);
            }
            next = about.of;
        }
        call
    }

    /// The events so far that resolved, judged and answered a call.
    fn way_of(&self, call: Seq) -> Vec<Seq> {
        let before = &self.events[..self.at];
        let intents: BTreeSet<Seq> = before
            .iter()
            .filter(|event| event.of == Some(call) && event.event.is_intent())
            .map(|event| event.seq)
            .collect();
        let counts = |event: &&Envelope| {
            let about = event.of.is_some_and(|of| of == call || intents.contains(&of));
            about
                && matches!(
                    &event.event,
                    Event::Tool(Tool::Resolved(_) | Tool::ElicitationRequested { .. })
                        | Event::Permission(
                            Permission::Ruled { .. }
                                | Permission::Answered { .. }
                                | Permission::RejectedWith { .. }
                        )
                )
        };
        before.iter().filter(counts).map(|event| event.seq).collect()
    }

    fn last(&self, wanted: impl Fn(&Event) -> bool) -> Option<Seq> {
        let found = self.events[..self.at].iter().rfind(|event| wanted(&event.event));
        found.map(|event| event.seq)
    }

    /// The answer in this session that created the rule, if one did.
    fn approval(&self, rule: &Rule) -> Option<Seq> {
        let mut state = State::default();
        self.events[..self.at].iter().find_map(|event| {
            state.apply(event);
            state.approved.contains(rule).then_some(event.seq)
        })
    }
}
