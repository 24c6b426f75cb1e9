//! Reads single events: the start of a log, the event that a fork follows, the event that a head
//! names. [`lineage`] finds the logs whose events a fork shares: a fork stores only its own events, after the prefix.

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, Seq, SessionId};

use crate::chain::Link;
use crate::codec;
use crate::engine::{ReadEngine, StoredEvent};
use crate::error::{ContentFault, Damage};
use crate::head::Head;

/// The most links from a fork to its parent that are followed.
const MAX_FORKS: usize = 10_000;

pub(crate) fn forked_from(envelope: &Envelope) -> Option<(SessionId, Seq)> {
    if let Event::Session(Session::Forked { from, at }) = &envelope.event {
        Some((*from, *at))
    } else {
        None
    }
}

/// The stored link of an event, found in the session itself or in the session that it was forked
/// from.
pub(crate) fn stored_link(
    engine: &dyn ReadEngine,
    mut session: SessionId,
    seq: Seq,
) -> Result<Option<Link>, ContentFault> {
    // a cycle of forks exists only in a damaged store
    for _ in 0..MAX_FORKS {
        if let Some(event) = engine.peek(session, seq)?.filter(|event| event.seq == seq) {
            return Ok(Some(event.link));
        }
        let Some(first) = engine.peek(session, 0)? else { return Ok(None) };
        let Some((from, at)) = shared(&first) else { return Ok(None) };
        if at < seq {
            return Ok(None);
        }
        session = from;
    }
    Ok(None)
}

/// The sessions that hold a session's history, the oldest first, each with the last seq of it that
/// belongs to the history: first the shared events, then the session's own.
pub(crate) fn lineage(
    engine: &dyn ReadEngine,
    session: SessionId,
) -> Result<Vec<(SessionId, Seq)>, ContentFault> {
    let mut lineage = vec![(session, Seq::MAX)];
    let (mut oldest, mut last) = (session, Seq::MAX);
    // a cycle of forks exists only in a damaged store
    while lineage.len() < MAX_FORKS {
        let Some(first) = engine.peek(oldest, 0)? else { break };
        let Some((from, at)) = shared(&first) else { break };
        (oldest, last) = (from, last.min(at));
        lineage.push((oldest, last));
    }
    lineage.reverse();
    Ok(lineage)
}

/// The events that a session shares if this is its first event. Such an event is small.
fn shared(first: &StoredEvent) -> Option<(SessionId, Seq)> {
    forked_from(&codec::decode(first.schema, &first.body).ok()?)
}

/// The first seq of a session's own events; `None` if it cannot be determined.
pub(crate) fn first_seq(engine: &dyn ReadEngine, session: SessionId) -> Option<Seq> {
    Some(engine.peek(session, 0).ok()??.seq)
}

/// Checks that the engine still holds the event that this head names.
pub(crate) fn holds(engine: &dyn ReadEngine, head: &Head) -> Result<(), Damage> {
    let damage = |what: String| Damage::event(head.session, head.seq, what);
    let found = engine.peek(head.session, head.seq);
    match found.map_err(|fault| fault.into_damage(head.session, head.seq))? {
        Some(found) if found.seq == head.seq && found.link == head.chain => Ok(()),
        Some(found) if found.seq == head.seq => Err(damage(
            "this is not the event that was acknowledged: the head's link differs".into(),
        )),
        Some(_) | None => Err(Damage::event(
            head.session,
            head.seq,
            format!("it was acknowledged (heads/{}) and is not there", head.session),
        )),
    }
}
