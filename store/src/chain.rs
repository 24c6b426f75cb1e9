//! The checksum chain of a session's log, and the schemas of its events.

use leftfold_events::{Seq, SessionId};
use sha2::Digest;

/// The version of the layouts in `codec` and in an engine's records that is written.
pub const SCHEMA: u8 = 3;

/// The oldest schema that is read.
pub(crate) const OLDEST: u8 = 2;

/// A link of a session's checksum chain. It covers its event and all events before it.
pub type Link = [u8; 16];

/// The link before a session's first event.
pub(crate) const START: Link = [0; 16];

/// Bytes of an event's place.
pub(crate) const PLACE: usize = 24;

/// Session and seq of an event as bytes, in the order of events.
pub(crate) fn place(session: SessionId, seq: Seq) -> [u8; PLACE] {
    let mut place = [0; PLACE];
    place[..16].copy_from_slice(&session.to_bytes());
    place[16..].copy_from_slice(&seq.to_be_bytes());
    place
}

/// The link of the event with these bytes, if `before` is the previous link.
pub(crate) fn link(before: &Link, session: SessionId, seq: Seq, body: &[u8]) -> Link {
    let mut hash = sha2::Sha256::new();
    hash.update(before);
    hash.update(place(session, seq));
    hash.update(body);
    let digest: [u8; 32] = hash.finalize().into();
    let mut link = Link::default();
    link.copy_from_slice(&digest[..16]);
    link
}

/// Advice for an event of a schema that is not read.
pub(crate) fn other_schema(found: u8) -> String {
    let versions = format!("log schema {found}, this leftfold reads schemas {OLDEST} to {SCHEMA}");
    if found > SCHEMA {
        format!("written by a newer leftfold ({versions}): use a newer leftfold")
    } else {
        format!(
            "written by an older leftfold ({versions}): export the session with that one \
             (`leftfold export`) and take the file in with `leftfold import`"
        )
    }
}
