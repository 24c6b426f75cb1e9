//! Summaries that take the place of what a model has seen, as a client is told of them: by the
//! protocol's own word where the client knows it, and else as a call that has the summary as its
//! content, which every client can show.

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, Meta, SessionUpdate, ToolCall, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use leftfold_events::event::{Compaction as Event, Event as Any, Turn};
use leftfold_events::{Envelope, Seq};
use serde_json::json;

use super::calls;

/// Of one session.
#[derive(Debug, Default)]
pub(super) struct Compactions {
    /// Whether the client knows the protocol's own word.
    known: bool,
    open: Option<Seq>,
}

impl Compactions {
    pub(super) fn new(known: bool) -> Self {
        Self { known, open: None }
    }

    pub(super) fn see(&mut self, envelope: &Envelope) -> Option<SessionUpdate> {
        match &envelope.event {
            Any::Compaction(Event::Started { .. }) => Some(self.started(envelope.seq)),
            Any::Compaction(Event::Finished { summary }) => {
                self.ended(CompactionStatus::Completed, summary)
            }
            Any::Compaction(Event::Failed { message }) => {
                self.ended(CompactionStatus::Failed, message)
            }
            Any::Turn(Turn::Ended(_)) => self.ended(CompactionStatus::Cancelled, "Stopped."),
            Any::Compaction(Event::Pruned { .. } | Event::Asked { .. })
            | Any::Session(_)
            | Any::Turn(_)
            | Any::Model(_)
            | Any::Tool(_)
            | Any::Permission(_)
            | Any::Subagent(_)
            | Any::Todo(_)
            | Any::Files(_)
            | Any::Plugin(_) => None,
        }
    }

    fn started(&mut self, seq: Seq) -> SessionUpdate {
        self.open = Some(seq);
        if self.known {
            let update = CompactionUpdate::new(id(seq), CompactionStatus::InProgress);
            return SessionUpdate::CompactionUpdate(update);
        }
        let mut meta = Meta::new();
        meta.insert("leftfold/compaction".to_owned(), json!(true));
        let call = ToolCall::new(id(seq), "Summing up the conversation")
            .kind(ToolKind::Think)
            .status(ToolCallStatus::InProgress)
            .meta(meta);
        SessionUpdate::ToolCall(call)
    }

    /// None if none is open.
    fn ended(&mut self, status: CompactionStatus, text: &str) -> Option<SessionUpdate> {
        let seq = self.open.take()?;
        let well = status == CompactionStatus::Completed;
        if !self.known {
            let status = if well { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            let fields = ToolCallUpdateFields::new().status(status).content(calls::text(text));
            return Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id(seq), fields)));
        }
        let update = match &status {
            CompactionStatus::Completed => {
                CompactionUpdate::new(id(seq), status).summary(vec![text.into()])
            }
            CompactionStatus::Failed => {
                CompactionUpdate::new(id(seq), status).error(text.to_owned())
            }
            CompactionStatus::Cancelled | _ => CompactionUpdate::new(id(seq), status),
        };
        Some(SessionUpdate::CompactionUpdate(update))
    }
}

fn id(seq: Seq) -> String {
    format!("compaction-{seq}")
}
