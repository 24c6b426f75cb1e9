//! One event of the feed, in the words of the API.

use leftfold_events::SessionId;
use serde_json::Value;

/// An event for clients, without its place in the feed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) session: SessionId,
    pub(crate) kind: &'static str,
    pub(crate) properties: Value,
}

impl Frame {
    pub(crate) fn new(session: SessionId, kind: &'static str, properties: Value) -> Self {
        Self { session, kind, properties }
    }
}
