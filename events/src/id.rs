//! Ids of sessions and of messages: ULIDs. The ids of child sessions are derived, not drawn at random.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use ulid::Ulid;

use crate::time::Time;

/// The position of an event in its session's log. The first event has 1.
pub type Seq = u64;

/// The id of a session: a ULID, shown as 26 characters of Crockford base32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(u128);

impl SessionId {
    pub fn from_ulid(ulid: Ulid) -> Self {
        Self(ulid.0)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The creation time in the id.
    pub fn created(self) -> Time {
        Time::from_millis(Ulid(self.0).timestamp_ms())
    }

    /// The lowest id of a session that is created at this time.
    pub fn first_at(time: Time) -> Self {
        Self(Ulid::from_parts(time.millis(), 0).0)
    }

    /// The id of the child that the intent at `seq` spawns. Its time is that of the intent, and its
    /// random part is a hash of parent and seq. So the decision to spawn is pure, and repeating it
    /// is harmless.
    pub fn child(self, seq: Seq, at: Time) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"leftfold child");
        hash.update(self.to_bytes());
        hash.update(seq.to_be_bytes());
        let digest = hash.finalize();
        let mut random = [0u8; 16];
        random.copy_from_slice(&digest[..16]);
        Self(Ulid::from_parts(at.millis(), u128::from_be_bytes(random)).0)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ulid(self.0).fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a session id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a session id: expected the 26 characters of a ULID")]
pub struct NotASessionId(String);

impl FromStr for SessionId {
    type Err = NotASessionId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ulid::from_string(text).map(Self::from_ulid).map_err(|_| NotASessionId(text.to_owned()))
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.to_bytes().serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(de::Error::custom)
        } else {
            <[u8; 16]>::deserialize(deserializer).map(Self::from_bytes)
        }
    }
}

/// The id of a message that waits for the owner of a session: a ULID that its sender has drawn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(u128);

impl MessageId {
    pub fn from_ulid(ulid: Ulid) -> Self {
        Self(ulid.0)
    }

    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ulid(self.0).fmt(f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_derived_from_parent_and_seq() {
        let parent = SessionId(7);
        let at = Time::from_millis(1_700_000_000_000);
        assert_eq!(parent.child(5, at), parent.child(5, at));
        assert_ne!(parent.child(5, at), parent.child(6, at));
        assert_ne!(parent.child(5, at), SessionId(8).child(5, at));
    }

    #[test]
    fn text_form_round_trips_and_rejects_garbage() {
        let id = SessionId(7).child(1, Time::from_millis(1));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("not-an-id".parse::<SessionId>().is_err());
    }
}
