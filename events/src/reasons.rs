//! Why a call was cancelled, which kind of denial a turn lists, and its structured answer. All follow from the state before the
//! event, so no decision reads them. They are notes for programs that see single events.

use crate::event::{DenialClass, EndReason, Envelope, Event, Tool, Turn as TurnEvent};
use crate::state::{Call, Phase, State};

/// Adds these notes to an intent that `before` has decided.
pub(crate) fn note(before: &State, intent: &mut Envelope) {
    match &intent.event {
        Event::Tool(Tool::Cancelled { .. }) => {
            let call = before.calls().find(|call| Some(call.seq) == intent.of);
            if let Some(call) = call {
                intent.notes.reason = Some(cancelled(before, call).to_owned());
            }
        }
        Event::Turn(TurnEvent::Ended(ended)) => {
            if !ended.permission_denials.is_empty() {
                let classes = before.turn.iter().flat_map(|turn| &turn.denial_classes);
                intent.notes.denials = classes.map(|class| class.name().to_owned()).collect();
            }
            if ended.reason == EndReason::Completed
                && let Some(answer) = before.structured_output()
            {
                intent.notes.structured = Some(answer.clone());
            }
        }
        Event::Session(_)
        | Event::Turn(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Permission(_)
        | Event::Subagent(_)
        | Event::Compaction(_)
        | Event::Todo(_)
        | Event::Files(_)
        | Event::Hook(_) => {}
    }
}

/// The word for why a call did not run to its end.
fn cancelled(before: &State, call: &Call) -> &'static str {
    if let Phase::TimedOut { .. } = call.phase {
        return "deadline";
    }
    let Some(turn) = &before.turn else { return "interrupt" };
    match turn.stop {
        Some(EndReason::Aborted) => "interrupt",
        Some(EndReason::Blocked) if turn.denial_classes.last() == Some(&DenialClass::DoomLoop) => {
            "doom_loop"
        }
        Some(EndReason::Blocked) => "rejected",
        Some(EndReason::Limit) => "limit",
        Some(
            EndReason::Error
            | EndReason::Completed
            | EndReason::Incomplete
            | EndReason::InvalidOutput,
        ) => "turn_ended",
        Some(EndReason::MaxSteps) | None => "max_steps",
    }
}
