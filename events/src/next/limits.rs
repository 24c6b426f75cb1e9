//! Decides when a turn has exceeded a limit, and how its children share the remaining cost.
//!
//! If cost is limited, children are spawned only when the reply is complete and its calls have
//! verdicts. Each child gets an equal share of the remaining cost as its own limit, so a tree of
//! sessions never spends more than its root may. A child's unspent share returns when the child
//! ends. The unspent share of a child that is given up does not return, because it may still spend
//! it.

use crate::event::{Class, Cost};
use crate::state::{Call, Phase, ReplyEnd, State, words};

use super::next_part;

/// The exceeded limit of cost or time, and by how much.
pub(super) fn past(s: &State) -> Option<String> {
    let turn = s.turn.as_ref()?;
    let options = &s.config.options;
    let spent = s.spent().unwrap_or_default();
    let cost = options.max_cost.filter(|max| spent > *max);
    let cost = cost.map(|max| words::overspent(max, spent));
    let taken = s.at.since(turn.since);
    let time = options.max_time.filter(|max| taken >= *max);
    let time = time.map(|max| words::out_of_time(max, taken));
    let past: Vec<String> = cost.into_iter().chain(time).collect();
    (!past.is_empty()).then(|| past.join("; "))
}

/// Whether the number of children that share the remaining cost is known: the reply is complete,
/// and all of its calls for children have a verdict.
pub(super) fn knows_shares(s: &State) -> bool {
    let whole = s.last_reply().is_none_or(|reply| reply.end != ReplyEnd::Open);
    let known = |call: &Call| match call.phase {
        Phase::Called | Phase::Checking(_) => false,
        Phase::Resolved => call.class() != Class::Child && next_part(s, call).is_none(),
        Phase::MustAsk { .. }
        | Phase::Asking { .. }
        | Phase::Allowed
        | Phase::Running { .. }
        | Phase::TimedOut { .. }
        | Phase::Unknown { .. }
        | Phase::Done(_) => true,
    };
    s.config.options.max_cost.is_none() || whole && s.calls().all(known)
}

/// The cost limit for a child that is spawned now. Each child that is still to come gets an equal
/// share, so together they never exceed the rest. `None`: there is no limit.
pub(super) fn share(s: &State) -> Option<Cost> {
    let left = s.left_to_spend()?;
    let due = |call: &&Call| {
        call.class() == Class::Child && !call.is_done() && s.child_of(call).is_none()
    };
    let due = u32::try_from(s.calls().filter(due).count()).unwrap_or(u32::MAX);
    Some(left / f64::from(due.max(1)))
}
