//! Shows summaries to a client: with the protocol's own update if the client knows it, otherwise as
//! a call with the summary as its content, which every client can show.

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, Meta, SessionUpdate, ToolCall, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use leftfold_events::Seq;
use leftfold_view::CompactionEnd;
use serde_json::json;

use super::calls;

/// `known`: whether the client knows the protocol's own update.
pub(super) fn started(compaction: Seq, known: bool) -> SessionUpdate {
    if known {
        let update = CompactionUpdate::new(id(compaction), CompactionStatus::InProgress);
        return SessionUpdate::CompactionUpdate(update);
    }
    let mut meta = Meta::new();
    meta.insert("leftfold/compaction".to_owned(), json!(true));
    let call = ToolCall::new(id(compaction), "Summarizing the conversation")
        .kind(ToolKind::Think)
        .status(ToolCallStatus::InProgress)
        .meta(meta);
    SessionUpdate::ToolCall(call)
}

pub(super) fn ended(compaction: Seq, end: &CompactionEnd, known: bool) -> SessionUpdate {
    let id = id(compaction);
    if known {
        return SessionUpdate::CompactionUpdate(match end {
            CompactionEnd::Finished { summary } => {
                CompactionUpdate::new(id, CompactionStatus::Completed)
                    .summary(vec![summary.as_str().into()])
            }
            CompactionEnd::Failed { message } => {
                CompactionUpdate::new(id, CompactionStatus::Failed).error(message.clone())
            }
            CompactionEnd::Cancelled => CompactionUpdate::new(id, CompactionStatus::Cancelled),
        });
    }
    let (status, text) = match end {
        CompactionEnd::Finished { summary } => (ToolCallStatus::Completed, summary.as_str()),
        CompactionEnd::Failed { message } => (ToolCallStatus::Failed, message.as_str()),
        CompactionEnd::Cancelled => (ToolCallStatus::Failed, "Stopped."),
    };
    let fields = ToolCallUpdateFields::new().status(status).content(calls::text(text));
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields))
}

fn id(compaction: Seq) -> String {
    format!("compaction-{compaction}")
}
