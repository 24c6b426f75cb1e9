//! Limits of a turn: which one it is past, and how its children share what it may cost.

use crate::event::{Class, Cost};
use crate::state::{Call, Phase, ReplyEnd, State, words};

use super::next_part;

/// Which limit of cost or time the turn is past, and by how much.
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

/// Whether it is known among how many children what is left to spend would be split: once the reply is
/// whole, and all of its calls for children are judged.
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

/// What a child that is spawned now may cost: as much is left for each that is still to come, so
/// all together never may cost more than there is. `None`: there is no limit.
pub(super) fn share(s: &State) -> Option<Cost> {
    let left = s.left_to_spend()?;
    let due = |call: &&Call| {
        call.class() == Class::Child && !call.is_done() && s.child_of(call).is_none()
    };
    let due = u32::try_from(s.calls().filter(due).count()).unwrap_or(u32::MAX);
    Some(left / f64::from(due.max(1)))
}
