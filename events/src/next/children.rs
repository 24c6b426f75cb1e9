//! Decides how a call and the session that it started (a subagent) continue. Two sessions with two logs take
//! part, so the decision is not an event in either log. It follows from both states whenever
//! `subagent.spawned` is performed, for the first time or again.
//!
//! Permissions of subagents: `bin/runtime/src/turn/turn_config/base.rs`.

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
    /// Whether a node that has ended may already have performed it.
    pub again: bool,
    /// Whether a turn was interrupted in the child, and has not been resumed.
    pub cut_off: bool,
}

/// The action on a child for the call that spawned it.
#[derive(Clone, Debug, PartialEq)]
pub enum ChildIntent {
    /// Prompt it with its task, and if `title`, set its title from the task. The call waits for the
    /// end of the child's turn, as with the next three actions.
    Prompt { title: bool },
    /// Do nothing: it is already working.
    Wait,
    /// Resume its turn, or if `close`, end the turn.
    Resume { close: bool },
    /// Interrupt its turn.
    Interrupt,
    /// Report the result of the finished task to the call.
    Report(Box<Ended>),
    /// Report to the call that the task was cancelled. Leave the child alone.
    CallOff,
    /// Do nothing: no call waits, and no turn is running.
    Nothing,
}

/// The action on the child `child` of the session `parent`.
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

/// The end of the child's earlier turn for this task.
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

/// The last event of the child `of` that a fork shares, given the logs of the fork and of the
/// child. If the child had ended by then, this is the end of a turn. `None`: the child had not
/// received anything yet.
pub fn fork_point(fork: &[Envelope], child: &[Envelope], of: SessionId) -> Option<Seq> {
    let last = fork.iter().rev().find(|event| about(event) == Some(of))?;
    let spawned = fork.iter().rev().find(|event| spawns(event) == Some(of))?;
    // the shared events of the parent end then; the times of a log never decrease
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

/// The session that the event spawns, or whose end it reports.
fn about(event: &Envelope) -> Option<SessionId> {
    let Event::Subagent(event) = &event.event else { return None };
    match event {
        Subagent::Spawned { session, .. }
        | Subagent::Ended { session, .. }
        | Subagent::EndedUncounted { session, .. } => Some(*session),
    }
}
