//! Frames as clients get them, and their places in the feed.

use std::fmt;

use serde_json::json;

use crate::opencode::{Frame, project_id};

/// A place in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cursor {
    /// In a snapshot: a client that is cut off there needs a new one.
    Snapshot,
    At {
        journal: u64,
        position: u64,
        frame: usize,
    },
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot => f.write_str("snapshot"),
            Self::At { journal, position, frame } => write!(f, "{journal:016x}-{position}.{frame}"),
        }
    }
}

impl Cursor {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (journal, place) = text.split_once('-')?;
        let (position, frame) = place.split_once('.')?;
        let journal = u64::from_str_radix(journal, 16).ok()?;
        Some(Self::At { journal, position: position.parse().ok()?, frame: frame.parse().ok()? })
    }
}

/// The frames that a client wants.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    All,
    /// Only those of one directory.
    Directory(String),
    /// Only those of one directory, for a client that shows everything.
    Project(String),
}

impl Filter {
    pub(super) fn wants(&self, sent: &Sent) -> bool {
        match self {
            Self::All => true,
            Self::Directory(directory) | Self::Project(directory) => {
                sent.directory == *directory || sent.directory.is_empty()
            }
        }
    }
}

/// A frame as all clients get it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) cursor: Cursor,
    pub(crate) directory: String,
    pub(crate) project: String,
    /// `{id, type, properties}`
    pub(crate) payload: String,
}

impl Sent {
    pub(super) fn new(cursor: Cursor, directory: String, frame: &Frame) -> Self {
        let id = match cursor {
            Cursor::At { position, frame, .. } => format!("evt_{position:012x}{frame:014}"),
            Cursor::Snapshot => format!("evt_{:012x}{:014}", 0, 0),
        };
        let payload = json!({ "id": id, "type": frame.kind, "properties": frame.properties });
        Self { cursor, project: project_id(&directory), directory, payload: payload.to_string() }
    }
}
