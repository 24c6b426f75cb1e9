//! A walk through a session, event by event, forward and back.

use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;

use leftfold_events::{Envelope, Seq, State, line, mask, next};

use super::{Filter, Telling};
use crate::edge;

/// States kept along the way, so that a step back folds only what lies between two of them.
const CHECKPOINTS: usize = 16;
const HELP: &str = "Enter or n: next   p: previous   SEQ: go there   s: the state here   e: the event \
                    as JSON   h: help   q: leave";

pub(super) fn step(events: &[Envelope], at: Seq, filter: &Filter) -> anyhow::Result<ExitCode> {
    let walk = Walk::new(events, filter);
    let mut place = walk.near(at).unwrap_or(0);
    let terminal = io::stdin().is_terminal();
    let mut stdout = io::stdout().lock();
    if terminal {
        writeln!(stdout, "{HELP}")?;
    }
    let mut shown = Some(walk.tell(place));
    for line in io::stdin().lock().lines().map(Some).chain([None]) {
        if let Some(text) = shown.take() {
            writeln!(stdout, "{}", edge::masked(&text))?;
        }
        if terminal {
            write!(stdout, "{} > ", walk.seq(place))?;
        }
        stdout.flush()?;
        let Some(line) = line.transpose()? else { break };
        let said = match line.trim() {
            "q" => break,
            "" | "n" => walk.step(&mut place, 1),
            "p" => walk.step(&mut place, -1),
            "s" => walk.state(place)?,
            "e" => mask::shown(&events[walk.told[place]]).line,
            other => match other.parse().ok().map(|seq: Seq| (seq, walk.near(seq))) {
                Some((_, Some(there))) => {
                    place = there;
                    walk.tell(place)
                }
                Some((seq, None)) => format!("there is no event from {seq} on"),
                None => HELP.to_owned(),
            },
        };
        shown = Some(said);
    }
    Ok(ExitCode::SUCCESS)
}

struct Walk<'a> {
    events: &'a [Envelope],
    /// The indices of the events that are told.
    told: Vec<usize>,
    lines: Vec<String>,
    /// How many events each state has folded.
    checkpoints: Vec<(usize, State)>,
}

impl<'a> Walk<'a> {
    fn new(events: &'a [Envelope], filter: &Filter) -> Self {
        let picked = filter.picked(events);
        let told: Vec<usize> = (0..events.len()).filter(|index| picked[*index]).collect();
        let mut telling = Telling::of(events);
        let lines = events.iter().map(|event| telling.line(event)).collect();
        let every = (events.len() / CHECKPOINTS).max(1);
        let mut state = State::default();
        let mut checkpoints = vec![(0, state.clone())];
        for (index, event) in events.iter().enumerate() {
            state.apply(event);
            if (index + 1) % every == 0 {
                checkpoints.push((index + 1, state.clone()));
            }
        }
        Self { events, told, lines, checkpoints }
    }

    /// The first place at or after this event.
    fn near(&self, seq: Seq) -> Option<usize> {
        self.told.iter().position(|index| self.events[*index].seq >= seq)
    }

    fn seq(&self, place: usize) -> Seq {
        self.told.get(place).map_or(0, |index| self.events[*index].seq)
    }

    fn step(&self, place: &mut usize, by: isize) -> String {
        match place.checked_add_signed(by).filter(|there| *there < self.told.len()) {
            Some(there) => {
                *place = there;
                self.tell(there)
            }
            None if by > 0 => "that was the last".to_owned(),
            None => "that was the first".to_owned(),
        }
    }

    /// The event, and where it leaves the session.
    fn tell(&self, place: usize) -> String {
        let Some(index) = self.told.get(place) else { return "no event to be told".to_owned() };
        let state = self.after(*index);
        let decides = match next(&state) {
            Some(intent) => format!("then {}", line::type_of(&intent.event)),
            None if state.turn.is_none() => "idle".to_owned(),
            None => {
                let waits = state.open().into_iter();
                let waits = waits.map(|(kind, wait)| format!("{kind:?} {}", wait.intent));
                format!("waits for {}", waits.collect::<Vec<_>>().join(", ")).to_lowercase()
            }
        };
        let (messages, cost) = (state.messages.len(), state.cost);
        format!("{}\n      {decides}; {messages} messages, ${cost:.4}", self.lines[*index])
    }

    fn state(&self, place: usize) -> anyhow::Result<String> {
        let state = self.told.get(place).map_or_else(State::default, |index| self.after(*index));
        Ok(super::sorted(serde_json::to_value(state)?).to_string())
    }

    fn after(&self, index: usize) -> State {
        let known = self.checkpoints.iter().rfind(|(folded, _)| *folded <= index + 1);
        let (folded, mut state) = known.cloned().unwrap_or_default();
        self.events[folded..=index].iter().for_each(|event| state.apply(event));
        state
    }
}
