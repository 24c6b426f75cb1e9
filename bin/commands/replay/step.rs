//! Walks through a session event by event, forward and back.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use leftfold_events::event::{Event, Turn};
use leftfold_events::{Envelope, Seq, State, Time, line, mask, next};

use super::Filter;
use leftfold_runtime::redact_output;
use leftfold_view::clean::{escape_json, printable};
use leftfold_view::words::{counted, variant_words};
use leftfold_view::{SessionView, event_line};

/// Events between two stored states, so that a step back folds only the events after the nearest
/// one. The states share their messages.
const APART: usize = 1_000;
const HELP: &str = "Enter or n: next   p: previous   SEQ: go there   s: state after it   e: event as \
                    JSON   h: help   q: quit";

pub(super) fn step(events: &[Envelope], at: Seq, filter: &Filter) -> anyhow::Result<ExitCode> {
    let mut walk = Walk::new(events, filter);
    let mut place = walk.near(at).unwrap_or(0);
    let terminal = io::stdin().is_terminal();
    let mut stdout = io::stdout().lock();
    if terminal {
        writeln!(stdout, "{HELP}")?;
    }
    let mut lines = io::stdin().lock().lines();
    let (mut output, mut json) = (walk.describe(place), false);
    loop {
        let masked = redact_output::masked(&output);
        writeln!(stdout, "{}", if json { escape_json(&masked) } else { printable(&masked) })?;
        if terminal {
            write!(stdout, "{} > ", walk.seq(place))?;
        }
        stdout.flush()?;
        let Some(line) = lines.next().transpose()? else { break };
        json = matches!(line.trim(), "s" | "e");
        output = match line.trim() {
            "q" => break,
            "" | "n" => walk.step(&mut place, 1),
            "p" => walk.step(&mut place, -1),
            "s" => walk.state(place)?,
            "e" => mask::shown(&events[walk.selected[place]]).line,
            other => match other.parse().ok().map(|seq: Seq| (seq, walk.near(seq))) {
                Some((_, Some(there))) => {
                    place = there;
                    walk.describe(place)
                }
                Some((seq, None)) => format!("there is no event at {seq} or after it"),
                None => HELP.to_owned(),
            },
        };
    }
    Ok(ExitCode::SUCCESS)
}

struct Walk<'a> {
    events: &'a [Envelope],
    filter: &'a Filter,
    /// The indices of the selected events.
    selected: Vec<usize>,
    began: Time,
    /// The states after every [`APART`] events, as far as the walk has come.
    checkpoints: Vec<State>,
    /// The number of events folded so far, and the state after them.
    here: (usize, State),
}

impl<'a> Walk<'a> {
    fn new(events: &'a [Envelope], filter: &'a Filter) -> Self {
        let picked = filter.picked(events);
        let selected: Vec<usize> = (0..events.len()).filter(|index| picked[*index]).collect();
        let began = events.first().map_or(Time::default(), |event| event.at);
        let checkpoints = vec![State::default()];
        Self { events, filter, selected, began, checkpoints, here: (0, State::default()) }
    }

    /// The first selected event at or after this seq.
    fn near(&self, seq: Seq) -> Option<usize> {
        let there = self.selected.partition_point(|index| self.events[*index].seq < seq);
        (there < self.selected.len()).then_some(there)
    }

    fn seq(&self, place: usize) -> Seq {
        self.selected.get(place).map_or(0, |index| self.events[*index].seq)
    }

    fn step(&mut self, place: &mut usize, by: isize) -> String {
        match place.checked_add_signed(by).filter(|there| *there < self.selected.len()) {
            Some(there) => {
                *place = there;
                self.describe(there)
            }
            None if by > 0 => "that was the last event".to_owned(),
            None => "that was the first event".to_owned(),
        }
    }

    /// The event, and how the session stands after it.
    fn describe(&mut self, place: usize) -> String {
        let Some(index) = self.selected.get(place).copied() else {
            return "no event is selected".to_owned();
        };
        let (events, began) = (self.events, self.began);
        let view = SessionView::from_events(&events[self.turn_of(index)..=index]);
        let line = event_line::replayed(&events[index], self.after(index), began, &view);
        let state = self.after(index + 1);
        let decides = match next(state) {
            Some(intent) => format!("then {}", line::type_of(&intent.event)),
            None if state.turn.is_none() => "idle".to_owned(),
            None => {
                let waits = state.open().into_iter();
                let waits =
                    waits.map(|(kind, wait)| format!("{} {}", variant_words(kind), wait.intent));
                format!("waits for {}", waits.collect::<Vec<_>>().join(", "))
            }
        };
        let messages = counted(state.messages.len(), "message");
        let cost = state.cost;
        // a model without a price
        let cost = if cost > 0.0 { format!(", ${cost:.4}") } else { String::new() };
        let hits = self.filter.hits(&events[index]);
        let hits: String = hits.iter().map(|hit| format!("\n{}", super::below(hit))).collect();
        format!("{line}{hits}\n      {decides}; {messages}{cost}")
    }

    fn state(&mut self, place: usize) -> anyhow::Result<String> {
        let events = self.selected.get(place).map_or(0, |index| index + 1);
        Ok(super::sorted(serde_json::to_value(self.after(events))?).to_string())
    }

    /// The index of the first event of the turn that contains the event at `index`.
    fn turn_of(&self, index: usize) -> usize {
        let ends = |event: &Envelope| matches!(event.event, Event::Turn(Turn::Ended(_)));
        self.events[..index].iter().rposition(ends).map_or(0, |last| last + 1)
    }

    /// The state after this many events.
    fn after(&mut self, count: usize) -> &State {
        let known = (count / APART).min(self.checkpoints.len() - 1);
        if !(known * APART..=count).contains(&self.here.0) {
            self.here = (known * APART, self.checkpoints[known].clone());
        }
        let (folded, state) = &mut self.here;
        for event in &self.events[*folded..count] {
            state.apply(event);
            *folded += 1;
            if *folded == self.checkpoints.len() * APART {
                self.checkpoints.push(state.clone());
            }
        }
        state
    }
}
