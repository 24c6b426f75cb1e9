//! `leftfold replay`: prints the events of a session from its log, with effects off.

mod filter;
mod step;

use std::collections::HashSet;
use std::process::ExitCode;

use leftfold_events::event::{Event, Subagent, Turn};
use leftfold_events::{Envelope, Seq, SessionId, State, Time};
use leftfold_store::Reader;
use serde_json::Value;

use self::filter::Filter;
use super::pages;
use crate::cli::Replay;
use leftfold_runtime::session_paths::SessionPlace;
use leftfold_runtime::{Usage, note};
use leftfold_view::clean::printable_line;
use leftfold_view::{Findings, SessionView, event_line, words};

pub(crate) fn replay(args: &Replay) -> anyhow::Result<ExitCode> {
    let from = args.from.unwrap_or(1);
    let wanted = args.at.or(args.to);
    let to = wanted.unwrap_or(Seq::MAX);
    if args.state && !args.step {
        let place = super::place(&args.session)?;
        let mut state = State::default();
        // the events are not kept
        leftfold_store::visit(&place.store, place.session, to, |event| state.apply(&event))?;
        check_range(args, &place, state.seq)?;
        return super::print_json(&format!("{}\n", sorted(serde_json::to_value(state)?)));
    }
    // `--step` can go to any event.
    let needed = if args.step { Seq::MAX } else { to };
    let (place, events) = super::events_to(&args.session, needed)?;
    check_range(args, &place, events.last().map_or(0, |event| event.seq))?;
    let filter = Filter::from_args(args);
    if args.step {
        return step::step(&events, args.at.unwrap_or(from), &filter);
    }
    let picked = filter.picked(&events);
    let mut narrator = Narrator::of(&events);
    let mut text = String::new();
    let mut hidden = 0;
    for (event, picked) in events.iter().zip(picked) {
        let line = narrator.line(event);
        if event.seq < from || !picked {
            continue;
        }
        if !filter.shows_bookkeeping && event_line::is_bookkeeping(&event.event) {
            hidden += 1;
            continue;
        }
        text += &(line + "\n");
        text.extend(filter.hits(event).iter().map(|hit| below(hit) + "\n"));
    }
    let code = pages::page_text(&args.page, &text, pages::event_line)?;
    if hidden > 0 {
        let hidden = words::counted(hidden, "bookkeeping event");
        note(&format!("leftfold: {hidden} not shown: `--all` shows everything"));
    }
    if let Some(text) = filter.searched() {
        for (session, found) in in_subagents(&place, &events, &filter) {
            let found = words::counted(found, "more event");
            note(&format!(
                "leftfold: {found} in a subagent: `leftfold replay {session} --text '{text}'`"
            ));
        }
    }
    Ok(code)
}

/// The subagents of the session and of its subagents that have selected events, with their number.
fn in_subagents(
    place: &SessionPlace,
    events: &[Envelope],
    filter: &Filter,
) -> Vec<(SessionId, usize)> {
    let Ok(reader) = Reader::open(&place.store) else { return Vec::new() };
    let mut found = Vec::new();
    descend(events.iter().filter_map(spawned).collect(), |session| {
        let (events, _) = reader.read_good(session);
        let picked = filter.picked(&events).into_iter().filter(|picked| *picked).count();
        if picked > 0 {
            found.push((session, picked));
        }
        events.iter().filter_map(spawned).collect()
    });
    found
}

/// Visits these sessions, and those that each visit returns, each once: an imported log may name its own parents.
fn descend(mut left: Vec<SessionId>, mut visit: impl FnMut(SessionId) -> Vec<SessionId>) {
    let mut seen = HashSet::new();
    while let Some(session) = left.pop() {
        if seen.insert(session) {
            left.extend(visit(session));
        }
    }
}

fn spawned(event: &Envelope) -> Option<SessionId> {
    let Event::Subagent(Subagent::Spawned { session, .. }) = &event.event else { return None };
    Some(*session)
}

/// Refuses a range that the log does not have. `last` is its last event, or the last one up to the
/// end of the range.
fn check_range(args: &Replay, place: &SessionPlace, last: Seq) -> anyhow::Result<()> {
    let from = args.from.unwrap_or(1);
    let wanted = args.at.or(args.to);
    let to = wanted.unwrap_or(Seq::MAX);
    let there = 1..=last;
    if wanted.is_some_and(|to| !there.contains(&to)) || !there.contains(&from) || from > to {
        let asked = match (args.at, wanted) {
            (Some(at), _) => format!("{at}"),
            (None, Some(to)) => format!("{from} to {to}"),
            (None, None) => format!("{from}"),
        };
        return Err(Usage(not_there(place, &asked)?).into());
    }
    Ok(())
}

/// A line below an event.
fn below(text: &str) -> String {
    format!("{:1$}{text}", "", event_line::BELOW)
}

/// Says that the requested events do not exist.
fn not_there(place: &SessionPlace, asked: &str) -> anyhow::Result<String> {
    let events = leftfold_store::read(&place.store, place.session, Seq::MAX)?;
    let (session, last) = (place.session, events.last().map_or(0, |event| event.seq));
    Ok(format!("the log of {session} has events 1 to {last}, but not {asked}"))
}

/// Prints the events of a session one after the other.
struct Narrator {
    began: Time,
    view: SessionView,
    findings: Findings,
    /// The state after all events so far.
    state: State,
}

impl Narrator {
    fn of(events: &[Envelope]) -> Self {
        let began = events.first().map_or(Time::default(), |event| event.at);
        let (view, findings, state) = Default::default();
        Self { began, view, findings, state }
    }

    fn line(&mut self, event: &Envelope) -> String {
        self.view.apply(event);
        self.findings.push(&self.state, event);
        let mut line = event_line::replayed(event, &self.state, self.began, &self.view);
        if let Event::Turn(Turn::Ended(_)) = &event.event {
            for finding in self.findings.lines() {
                line = format!("{line}\n{}", below(&printable_line(&finding)));
            }
        }
        self.state.apply(event);
        line
    }
}

/// The value with the keys of all objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_name_each_other_are_visited_once() {
        let [first, second] = [1, 2].map(|byte| SessionId::from_bytes([byte; 16]));
        let mut visited = Vec::new();
        descend(vec![first], |session| {
            visited.push(session);
            vec![first, second]
        });
        assert_eq!(visited, [first, second]);
    }
}
