//! How a call and the session that it started go on. Two sessions take part, each with a log of its
//! own, so the choice is no event of either: it follows from the states of both, whenever
//! `subagent.spawned` is performed for the first time or again.

use crate::event::{Ended, Envelope, Event, Subagent, Turn};
use crate::id::{Seq, SessionId};
use crate::state::State;
use crate::time::Time;

/// A `subagent.spawned` that is being performed.
#[derive(Clone, Copy, Debug)]
pub struct Spawned {
    /// Its seq and its time.
    pub seq: Seq,
    pub at: Time,
    /// A node that is gone may have performed it before.
    pub again: bool,
    /// A turn was cut off in the child, and nobody has gone on with it yet.
    pub cut_off: bool,
}

/// What is to be done with a child for the call that spawned it.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildIntent {
    /// Prompt it with its task, and (`title`) name it after that. The call waits for the end of its
    /// turn, as after the next three.
    Prompt { title: bool },
    /// It is at work already.
    Wait,
    /// Go on with its turn, or (`close`) bring that to its end.
    Resume { close: bool },
    /// Interrupt its turn.
    Interrupt,
    /// It has done its task: tell the call how that ended.
    Report(Box<Ended>),
    /// Tell the call that the task was called off. The child is left alone.
    CallOff,
    /// Nobody waits, and nothing is under way.
    Nothing,
}

/// What is to be done with the child `child` of the session `parent`.
pub fn next(parent: &State, child: &State, spawned: &Spawned) -> ChildIntent {
    let is_meant = |known: &&crate::state::Child| known.wait.intent == spawned.seq;
    let Some(known) = parent.children.iter().find(is_meant) else { return ChildIntent::Nothing };
    let waits = waits_for(parent, spawned.seq);
    match &child.turn {
        Some(_) if spawned.cut_off => ChildIntent::Resume { close: !waits },
        Some(_) if waits => ChildIntent::Wait,
        // given up, or closed with the parent's turn
        Some(_) if known.ended => ChildIntent::Interrupt,
        None if known.ended => ChildIntent::Nothing,
        _ if !waits => ChildIntent::CallOff,
        Some(_) | None => match had_task(child, spawned) {
            Some(ended) => ChildIntent::Report(ended),
            None => ChildIntent::Prompt { title: child.title.is_none() },
        },
    }
}

/// How the task ended that the child was given before.
fn had_task(child: &State, spawned: &Spawned) -> Option<Box<Ended>> {
    let later = spawned.again && child.origin.is_some() && child.at >= spawned.at;
    child.ended.clone().filter(|_| later)
}

/// Whether a call of `parent` waits for the child that the intent `spawned` started.
pub fn waits_for(parent: &State, spawned: Seq) -> bool {
    let stopped = parent.turn.as_ref().is_none_or(|turn| turn.stop.is_some());
    let child = parent.open_children().find(|child| child.wait.intent == spawned);
    let running = |call| parent.calls().any(|c| c.seq == call && c.is_running());
    !stopped && child.is_some_and(|child| running(child.call))
}

/// The last event of the child `of` that a fork shares, given the logs of the fork and of the child.
/// A child whose end had come by the fork point stands where a turn ended. `None`: it had not been
/// told anything yet.
pub fn fork_point(fork: &[Envelope], child: &[Envelope], of: SessionId) -> Option<Seq> {
    let last = fork.iter().rev().find(|event| about(event) == Some(of))?;
    let spawned = fork.iter().rev().find(|event| spawns(event) == Some(of))?;
    // what is shared of the parent ended then; the times of a log never go backwards
    let until = fork.iter().rev().find(|event| event.session == spawned.session)?.at;
    let had = || child.iter().take_while(|event| event.at <= until);
    had().find(|event| matches!(event.event, Event::Turn(Turn::Prompted { .. })))?;
    let ends = |event: &&Envelope| matches!(event.event, Event::Turn(Turn::Ended(_)));
    let whole = had().filter(ends).last().filter(|_| spawns(last).is_none());
    Some(whole.or_else(|| had().last())?.seq)
}

/// The session that the event spawns.
fn spawns(event: &Envelope) -> Option<SessionId> {
    let Event::Subagent(Subagent::Spawned { session, .. }) = &event.event else { return None };
    Some(*session)
}

/// The session that the event spawns, or tells the end of.
fn about(event: &Envelope) -> Option<SessionId> {
    let Event::Subagent(event) = &event.event else { return None };
    match event {
        Subagent::Spawned { session, .. }
        | Subagent::Ended { session, .. }
        | Subagent::EndedUncounted { session, .. } => Some(*session),
    }
}
