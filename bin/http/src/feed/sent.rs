//! Frames as clients get them, and their places in the feed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use axum::body::Bytes;
use leftfold_events::Time;
use serde_json::json;

use crate::opencode::{EventPlace, Frame, ids};

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
}

impl Filter {
    pub(super) fn wants(&self, sent: &Sent) -> bool {
        let frame = &sent.place.directory;
        match self {
            Self::All => true,
            Self::Directory(directory) => frame == directory || frame.is_empty(),
        }
    }
}

/// A frame as all clients get it. They share its bytes.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) cursor: Cursor,
    place: EventPlace,
    /// The event on the feed of all directories.
    of_all: Bytes,
    /// Where `{id, type, properties}` stands in it.
    payload: Range<usize>,
    /// The event on the feed of one directory.
    of_one: OnceLock<Bytes>,
}

impl Sent {
    /// A frame of an event, which has this time.
    pub(super) fn of_event(
        (journal, position, number): (u64, u64, usize),
        at: Time,
        place: EventPlace,
        frame: &Frame,
    ) -> Self {
        let cursor = Cursor::At { journal, position, frame: number };
        Self::new(cursor, place, &ids::of_frame(at, position, number), frame)
    }

    /// A frame that comes from no event. It is sent once, or as a part of a snapshot.
    pub(super) fn of_moment(cursor: Cursor, place: EventPlace, frame: &Frame) -> Self {
        Self::new(cursor, place, &ids::of_moment(), frame)
    }

    fn new(cursor: Cursor, place: EventPlace, id: &str, frame: &Frame) -> Self {
        let (kind, properties) = (json!(frame.kind), &frame.properties);
        let payload = format!("{{\"id\":\"{id}\",\"type\":{kind},\"properties\":{properties}}}");
        Self::of(cursor, place, &payload)
    }

    fn of(cursor: Cursor, place: EventPlace, payload: &str) -> Self {
        let (directory, project) = (json!(place.directory), json!(place.project));
        let before = format!(
            "id: {cursor}\ndata: {{\"directory\":{directory},\"project\":{project},\"payload\":"
        );
        let of_all = [&before, payload, "}\n\n"].concat();
        let payload = before.len()..before.len() + payload.len();
        Self { cursor, place, of_all: of_all.into(), payload, of_one: OnceLock::new() }
    }

    /// A copy of the frame with another cursor.
    pub(super) fn at(&self, cursor: Cursor) -> Self {
        Self::of(cursor, self.place.clone(), &self.payload())
    }

    fn payload(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.of_all.get(self.payload.clone()).unwrap_or_default())
    }

    /// The server-sent event.
    pub(crate) fn bytes(&self, is_global: bool) -> Bytes {
        if is_global {
            return self.of_all.clone();
        }
        let made = || format!("id: {}\ndata: {}\n\n", self.cursor, self.payload()).into();
        self.of_one.get_or_init(made).clone()
    }
}
