//! A small world around the core, in which a seed decides everything.

#![allow(clippy::cast_possible_truncation, reason = "the numbers of a world are small")]

mod ledger;
mod people;
mod plugs;
mod random;
mod session;
mod session_tree;
mod waits;
mod workers;
mod world;

use std::fmt::Write;

use leftfold_events::event::{Event, Permission};
use leftfold_events::line::{self, Line};
use leftfold_events::{fold, verify};

use crate::common::describe;
use ledger::Held;
use session::SimSession;
pub(crate) use waits::Waits;
use world::World;

/// Errors of the shell, to test whether the checks find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    None,
    /// Late and doubled outcomes are appended.
    Late,
    /// Nothing is ever overdue.
    NoTimer,
    /// An intent is carried out and not logged.
    Unsaid,
    /// Every effect begins before its intent is durable.
    Early,
}

/// One in this many worlds is written out: that takes longer than all other checks of a world.
const WRITTEN: u64 = 10;

/// A world that passed all checks.
#[derive(Debug, PartialEq)]
pub(crate) struct Grown {
    pub(crate) events: u64,
    /// Effects that have begun before their intents were durable.
    pub(crate) early: u64,
    /// The logs of all its sessions, if they were written out; otherwise empty.
    pub(crate) lines: String,
    pub(crate) waits: Waits,
}

/// Runs the world of `seed`. The error describes the failure, with the world's logs in short.
pub(crate) fn live(seed: u64, sabotage: Sabotage) -> Result<Grown, String> {
    grow(seed, sabotage, seed.is_multiple_of(WRITTEN))
}

/// The logs of the world of `seed`, as lines.
pub(crate) fn lines(seed: u64) -> Result<String, String> {
    Ok(grow(seed, Sabotage::None, true)?.lines)
}

fn grow(seed: u64, sabotage: Sabotage, write: bool) -> Result<Grown, String> {
    let mut world = World::new(seed, sabotage);
    let held = world.run().and_then(|()| world.finish());
    let written = held.and_then(|()| match write {
        true => world.sessions.iter().map(written).collect(),
        false => Ok(String::new()),
    });
    let events = world.sessions.iter().map(|sim_session| sim_session.log.len() as u64).sum();
    let early = world.sessions.iter().map(|sim_session| sim_session.early).sum();
    let mut waits = Waits::default();
    world.sessions.iter().for_each(|sim_session| waits.add(&sim_session.waits));
    let grown = written.map(|lines| Grown { events, early, lines, waits: waits.in_world(seed) });
    grown.map_err(|why| format!("{why}\n{}", world.story()))
}

impl World {
    /// All participants are at rest, and nothing more is requested.
    fn finish(&self) -> Held {
        for sim_session in self.sessions.iter().filter(|sim_session| !self.is_left(sim_session)) {
            assert_at_rest(sim_session)?;
            sim_session.ledger.finish()?;
            assert_answered_once(sim_session)?;
            assert_replays(sim_session)?;
        }
        Ok(())
    }

    /// The events of the logs, in short.
    fn story(&self) -> String {
        let mut story = format!("node {}, up: {}, at {}\n", self.life, self.up, self.passed);
        for sim_session in &self.sessions {
            let pending = sim_session.in_flight.iter().chain([&sim_session.held]);
            let pending = pending.flat_map(|batch| &batch.events);
            let _ = writeln!(story, "session {}: {:?}", sim_session.id, sim_session.state.open());
            let flight = sim_session.in_flight.as_ref().map_or(0, |batch| batch.events.len());
            let (waiting, left) = (sim_session.inbox.len(), sim_session.cut_off);
            let _ =
                writeln!(story, "  {waiting} wait, {flight} are being written, cut off: {left}");
            for event in sim_session.log.iter().chain(pending) {
                let of = event.of.map(|of| format!(" of {of}")).unwrap_or_default();
                let at = event.at.millis() % 100_000_000;
                let _ = writeln!(story, "  {} {at} {}{of}", event.seq, describe(event));
            }
        }
        story
    }
}

fn held(so: bool, otherwise: impl Into<String>) -> Held {
    if so { Ok(()) } else { Err(otherwise.into()) }
}

fn assert_at_rest(sim_session: &SimSession) -> Held {
    held(
        sim_session.inbox.is_empty()
            && sim_session.held.events.is_empty()
            && sim_session.in_flight.is_none(),
        "something was left undone",
    )?;
    held(!sim_session.is_busy(), "it is not over")?;
    held(sim_session.state.due().is_none(), "a deadline for nothing")
}

/// The log alone yields the live state, and today's code makes the recorded decisions.
fn assert_replays(sim_session: &SimSession) -> Held {
    held(fold(&sim_session.log) == sim_session.state, "the fold of the log is not the live state")?;
    let divergences = verify(&sim_session.log);
    held(divergences.is_empty(), format!("verify: {:?}", divergences.first()))
}

/// Writes the log as lines, which lose no information.
fn written(sim_session: &SimSession) -> Result<String, String> {
    let mut lines = String::new();
    for event in &sim_session.log {
        let written = line::write(event);
        let Ok(Line::Event(mut back)) = line::read(&written) else {
            return Err(format!("a line that cannot be read: {written}"));
        };
        for (empty, full) in back.event.payloads_mut().into_iter().zip(event.event.payloads()) {
            empty.fill(full.text().clone());
        }
        held(*back == *event, format!("a line that means another event: {written}"))?;
        let _ = writeln!(lines, "{written}");
    }
    Ok(lines)
}

/// Every answer that was confirmed is in the log, and no other.
fn assert_answered_once(sim_session: &SimSession) -> Held {
    for (of, by) in &sim_session.accepted {
        let told = sim_session.accepted.iter().filter(|(other, _)| other == of).count();
        held(told == 1, format!("{told} were told that their answer to {of} counts"))?;
        let answers = sim_session.log.iter().filter(|event| event.of == Some(*of));
        let who: Vec<&str> = answers
            .filter_map(|event| match &event.event {
                Event::Permission(Permission::Answered { by, .. }) => Some(by.as_str()),
                _ => None,
            })
            .collect();
        held(who == [by], format!("{by} was told to have answered {of}, the log has {who:?}"))?;
    }
    Ok(())
}
