//! From a fact to rest, and from a log to a state.

use crate::event::{Envelope, Event, Fact, Turn};
use crate::next;
use crate::state::State;
use crate::time::Time;

/// Folds a fact and every intent that follows from it, and returns them: one batch for the log.
/// The fact's time is `now`, or the last event's where the clock has gone back.
pub fn settle(
    state: &mut State,
    session: crate::id::SessionId,
    fact: Fact,
    now: Time,
) -> Vec<Envelope> {
    let fact = Envelope {
        session,
        seq: state.seq + 1,
        at: state.at.max(now),
        of: fact.of,
        until: None,
        event: fact.event,
    };
    state.apply(&fact);
    // a turn configuration serves the fact after it, and that one decides
    let decides = !matches!(fact.event, Event::Turn(Turn::Configured(_)));
    let mut batch = vec![fact];
    if !decides {
        return batch;
    }
    while let Some(intent) = next(state) {
        let bound = 8 + 4 * state.calls().count();
        debug_assert!(batch.len() <= bound, "no rest within {bound} intents: {intent:?}");
        if batch.len() > bound {
            break;
        }
        state.apply(&intent);
        batch.push(intent);
    }
    batch
}

/// The state after these events.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> State {
    let mut state = State::default();
    events.into_iter().for_each(|event| state.apply(event));
    state
}
