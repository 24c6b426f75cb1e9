//! Reads single records: the start of a log, the event that a fork follows, the event that a head
//! names.

use leftfold_events::event::Session;
use leftfold_events::{Envelope, Event, Seq, SessionId};

use crate::codec;
use crate::database::catch_panic;
use crate::error::Damage;
use crate::head::{self, Head};
use crate::record::{self, First, Link, RecordError, START};

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
    db: &sled::Db,
    mut session: SessionId,
    seq: Seq,
) -> Result<Option<Link>, String> {
    // a cycle of forks exists only in a damaged store
    for _ in 0..MAX_FORKS {
        let decoded = first_record(db, session, seq)?;
        match decoded {
            Some(first) if first.seq == seq => return Ok(Some(first.link)),
            Some(_) | None => {}
        }
        let Some(first) = first_record(db, session, 0)? else { return Ok(None) };
        let Some((from, at)) = first.forked_from() else { return Ok(None) };
        if at < seq {
            return Ok(None);
        }
        session = from;
    }
    Ok(None)
}

/// The sessions that hold a session's history, the oldest first, each with the last seq of it that
/// belongs to the history: first the shared events, then the session's own.
pub(crate) fn lineage(db: &sled::Db, session: SessionId) -> Result<Vec<(SessionId, Seq)>, String> {
    let mut lineage = vec![(session, Seq::MAX)];
    let (mut oldest, mut last) = (session, Seq::MAX);
    // a cycle of forks exists only in a damaged store
    while lineage.len() < MAX_FORKS {
        let Some(first) = first_record(db, oldest, 0)? else { break };
        let Some((from, at)) = first.forked_from() else { break };
        (oldest, last) = (from, last.min(at));
        lineage.push((oldest, last));
    }
    lineage.reverse();
    Ok(lineage)
}

/// The first record of an event.
struct FirstRecord {
    seq: Seq,
    link: Link,
    schema: u8,
    /// The event, if it is one small record.
    bytes: Vec<u8>,
}

impl FirstRecord {
    fn forked_from(&self) -> Option<(SessionId, Seq)> {
        forked_from(&codec::decode(self.schema, &self.bytes).ok()?)
    }
}

/// The first record of the first event at or after `seq`.
fn first_record(
    db: &sled::Db,
    session: SessionId,
    seq: Seq,
) -> Result<Option<FirstRecord>, String> {
    let low = record::part(&record::event_key(session, seq), 0);
    let high = record::part(&record::event_key(session, Seq::MAX), u8::MAX);
    let Some(found) = catch_panic(|| db.range(low..=high).next())? else { return Ok(None) };
    let (key, value) = found.map_err(|e| e.to_string())?;
    let Some(seq) = record::seq_of(&key) else { return Ok(None) };
    match record::first(&key, &value, START.len()) {
        Ok(First { schema, lead, bytes }) => {
            let link = Link::try_from(lead).unwrap_or_default();
            Ok(Some(FirstRecord { seq, link, schema, bytes: bytes.to_vec() }))
        }
        Err(RecordError::Bad(what)) => Err(what),
        Err(RecordError::Schema(schema)) => Err(record::other_schema(schema)),
    }
}

/// The first seq of a session's own events; `None` if it cannot be determined.
pub(crate) fn first_seq(db: &sled::Db, session: SessionId) -> Option<Seq> {
    Some(first_record(db, session, 0).ok()??.seq)
}

/// All sessions with events, sorted by id.
pub(crate) fn sessions(db: &sled::Db) -> Result<Vec<SessionId>, String> {
    let (mut found, mut low) = (Vec::new(), Vec::new());
    while let Some(record) =
        catch_panic(|| db.range(low.clone()..record::PAYLOADS.to_vec()).next())?
    {
        let (key, _) = record.map_err(|e| e.to_string())?;
        let mut id = [0; 16];
        let known = key.len().min(16);
        id[..known].copy_from_slice(&key[..known]);
        let session = SessionId::from_bytes(id);
        found.push(session);
        // behind every key of this session
        low = record::part(&record::event_key(session, Seq::MAX), u8::MAX);
        low.push(0);
    }
    Ok(found)
}

/// Checks that the database still holds the event that this head names.
pub(crate) fn holds(db: &sled::Db, head: &Head) -> Result<(), Damage> {
    let damage = |what: String| Damage::event(head.session, head.seq, what);
    match first_record(db, head.session, head.seq).map_err(damage)? {
        Some(found) if found.seq == head.seq && found.link == head.chain => Ok(()),
        Some(found) if found.seq == head.seq => Err(damage(
            "this is not the event that was acknowledged: the head's link differs".into(),
        )),
        Some(_) | None => Err(Damage::event(
            head.session,
            head.seq,
            format!("it was acknowledged ({}/{}) and is not there", head::FOLDER, head.session),
        )),
    }
}
