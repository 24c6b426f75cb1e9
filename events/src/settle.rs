//! Folds a fact and the intents that follow from it, and folds a log to a state.

use crate::event::{Envelope, Event, Fact, Turn};
use crate::next;
use crate::reasons;
use crate::state::State;
use crate::time::Time;

/// Folds a fact and every intent that follows from it, and returns them as one batch for the log.
/// The fact's time is `now`, or the time of the last event if the clock was set back.
pub fn settle(
    state: &mut State,
    session: crate::id::SessionId,
    fact: Fact,
    now: Time,
) -> Vec<Envelope> {
    let fact = accept(state, session, fact, now);
    // the fact after a turn configuration decides, not the configuration itself
    let decides = !matches!(fact.event, Event::Turn(Turn::Configured(_)));
    let mut batch = vec![fact];
    if !decides {
        return batch;
    }
    while let Some(mut intent) = next(state) {
        let bound = 8 + 4 * state.calls().count();
        debug_assert!(batch.len() <= bound, "no rest within {bound} intents: {intent:?}");
        if batch.len() > bound {
            break;
        }
        reasons::note(state, &mut intent);
        state.apply(&intent);
        batch.push(intent);
    }
    batch
}

/// Folds a fact from which nothing is decided yet, because a fact that settles everything follows in the same batch.
pub fn accept(state: &mut State, session: crate::id::SessionId, fact: Fact, now: Time) -> Envelope {
    let fact = Envelope {
        session,
        seq: state.seq + 1,
        at: state.at.max(now),
        of: fact.of,
        until: None,
        event: fact.event,
        notes: fact.notes,
    };
    state.apply(&fact);
    fact
}

/// The state after these events.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> State {
    let mut state = State::default();
    events.into_iter().for_each(|event| state.apply(event));
    state
}
