//! Additions to an event that its own fields do not have.
//!
//! Fields of stored events never change, so a later addition to an existing event is a member of its
//! notes. Notes decide nothing: [`next`](crate::next()) does not read them, and intents have none.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::json::Json;
use crate::payload::Sha256;

/// The notes of an event, usually empty. Read and set a member as a field: `notes.client`.
///
/// In JSON lines they are an object, in the log one JSON text: a member can be added without a new
/// schema, and members of a newer version are kept.
#[derive(Clone, Default)]
pub struct Notes(Option<Box<NoteMembers>>);

/// The members of [`Notes`]. All are optional, and absent ones are not written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NoteMembers {
    /// The id that a client gave to its request, for example OpenCode's `messageID`. At most
    /// [`Notes::MAX_CLIENT`] bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// For each part of a prompt, the client's members that Leftfold does not use (id, source,
    /// metadata). They are given back unchanged. At most [`Notes::MAX_PARTS`] bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Json>,
    /// In `turn.prompted`: the slash command that a client of the server has called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<SlashCommand>,
    /// The process that writes the log from here on, in `session.created`, `session.forked` and
    /// `session.resumed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// In `session.created`: the executor beside the workspace, by its name in settings. Later the turn configuration has
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// The HTTP exchange behind `model.finished` or `model.failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// Why `tool.cancelled` cancels its call: a word of `docs/events.md`. In lines it is a member of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For each denial of `turn.ended`, the name of its [`DenialClass`](super::DenialClass). In lines it is a
    /// member of the denial.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denials: Vec<String>,
    /// The answer of a `turn.ended` whose turn asks for a JSON Schema. In lines it is a member of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<Json>,
    /// Whether a `tool.finished` is the outcome of a run whose node was gone: an executor had kept it, and the next
    /// owner logs it directly before `session.resumed`. What follows from it is decided after that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recovered: bool,
    /// Members of newer versions.
    #[serde(flatten)]
    pub other: BTreeMap<String, Json>,
}

/// A slash command, and the text after its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SlashCommand {
    pub name: String,
    pub arguments: String,
}

/// The process that writes a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// Leftfold's version.
    pub version: String,
    /// The name of the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Grows each time that another node takes the session over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
}

/// A request to a provider and its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exchange {
    /// The SHA-256 of a failed request's body. `model.finished` has a field of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_sha256: Option<Sha256>,
    /// The recording of the exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// The provider's id of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A recorded exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub sha256: Sha256,
    pub bytes: u64,
}

/// A client's note is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {bytes} bytes, over the limit of {limit}")]
pub struct NoteTooLarge {
    pub what: &'static str,
    pub bytes: usize,
    pub limit: usize,
}

static EMPTY: NoteMembers = NoteMembers {
    recovered: false,
    client: None,
    parts: None,
    command: None,
    owner: None,
    executor: None,
    exchange: None,
    reason: None,
    denials: Vec::new(),
    structured: None,
    other: BTreeMap::new(),
};

impl Notes {
    /// The most bytes of a client's id.
    pub const MAX_CLIENT: usize = 256;
    /// The most bytes of the members of prompt parts, as JSON.
    pub const MAX_PARTS: usize = 64 << 10;

    /// Notes that a client sends with its request.
    ///
    /// # Errors
    /// The id or the parts are over their limit.
    pub fn of_client(client: Option<String>, parts: Option<Json>) -> Result<Self, NoteTooLarge> {
        let check = |what, bytes: Option<usize>, limit| match bytes {
            Some(bytes) if bytes > limit => Err(NoteTooLarge { what, bytes, limit }),
            Some(_) | None => Ok(()),
        };
        check("the client's id", client.as_ref().map(String::len), Self::MAX_CLIENT)?;
        let parts_bytes = parts.as_ref().map(|parts| parts.as_str().len());
        let parts = parts.filter(|parts| *parts != Json::default());
        check("the metadata of the prompt's parts", parts_bytes, Self::MAX_PARTS)?;
        Ok(NoteMembers { client, parts, ..NoteMembers::default() }.into())
    }

    pub fn of_owner(owner: Owner) -> Self {
        NoteMembers { owner: Some(owner), ..NoteMembers::default() }.into()
    }

    pub fn of_exchange(exchange: Exchange) -> Self {
        NoteMembers { exchange: Some(exchange), ..NoteMembers::default() }.into()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_none() || **self == EMPTY
    }
}

impl From<NoteMembers> for Notes {
    fn from(members: NoteMembers) -> Self {
        Self((members != EMPTY).then(|| Box::new(members)))
    }
}

impl Deref for Notes {
    type Target = NoteMembers;

    fn deref(&self) -> &NoteMembers {
        self.0.as_deref().unwrap_or(&EMPTY)
    }
}

impl DerefMut for Notes {
    fn deref_mut(&mut self) -> &mut NoteMembers {
        self.0.get_or_insert_default()
    }
}

impl PartialEq for Notes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&**self).unwrap_or_default())
    }
}

impl Serialize for Notes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            (**self).serialize(serializer)
        } else if self.is_empty() {
            serializer.serialize_str("")
        } else {
            let text = serde_json::to_string(&**self).map_err(serde::ser::Error::custom)?;
            serializer.serialize_str(&text)
        }
    }
}

impl<'de> Deserialize<'de> for Notes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let members = Option::<NoteMembers>::deserialize(deserializer)?;
            return Ok(members.unwrap_or_default().into());
        }
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(Self::default());
        }
        let members = serde_json::from_str::<NoteMembers>(&text);
        let members = members.map_err(|e| de::Error::custom(format!("malformed notes: {e}")))?;
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_newer_versions_are_kept() {
        let text = r#"{"client":"msg_1","owner":{"version":"9.0.0"},"later":{"a":[1.0,null]}}"#;
        let notes: Notes = serde_json::from_str(text).unwrap();
        assert_eq!(notes.client.as_deref(), Some("msg_1"));
        assert_eq!(notes.other["later"].as_str(), r#"{"a":[1.0,null]}"#);
        assert_eq!(serde_json::to_string(&notes).unwrap(), text);
    }

    #[test]
    fn notes_without_a_member_are_empty() {
        let mut notes = Notes::of_client(Some("a".into()), None).unwrap();
        assert!(!notes.is_empty());
        notes.client = None;
        assert!(notes.is_empty());
        assert_eq!(notes, Notes::default());
        for text in ["null", "{}", r#"{"client":null}"#] {
            assert!(serde_json::from_str::<Notes>(text).unwrap().is_empty(), "{text}");
        }
    }

    #[test]
    fn notes_of_clients_are_limited() {
        let id = |bytes| Some("x".repeat(bytes));
        let parts = |bytes: usize| Some(Json::from_value(&"x".repeat(bytes - 2).into()));
        assert!(Notes::of_client(id(256), parts(64 << 10)).is_ok());
        let error = Notes::of_client(id(257), None).unwrap_err();
        assert_eq!(error.to_string(), "the client's id has 257 bytes, over the limit of 256");
        assert!(Notes::of_client(None, parts((64 << 10) + 1)).is_err());
    }
}
