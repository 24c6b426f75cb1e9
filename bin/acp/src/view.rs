//! Converts changes in a session to updates. The client knows only the session itself, so the work
//! of its subagents appears in the call that started them.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, ImageContent, MessageId, Plan, PlanEntry, PlanEntryPriority,
    PlanEntryStatus, SessionInfoUpdate, SessionUpdate, ToolCall, ToolCallContent, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use leftfold_events::event::{
    Finished, PartKind, PromptKind, PromptPart, Purpose, StreamedInput, TodoItem, TodoPriority,
    TodoStatus, Usage, as_typed,
};
use leftfold_events::{Seq, SessionId};
use leftfold_view::status;
use leftfold_view::text::subagent_line;
use leftfold_view::{Call, CallStep, Change, Outcome, SessionView, Transcript, words};

use super::call_ids::{self, CallIds};
use super::{calls, compaction};

/// The number of lines to show of the subagents of one call; older ones are dropped.
const LINES: usize = 40;

/// Renders the changes of a session and its subagents.
#[derive(Debug)]
pub(super) struct UpdateRenderer {
    ids: CallIds,
    /// The calls that the model is writing: their ids for the client, by the model's ids.
    writing: HashMap<String, String>,
    /// Whether the client knows the protocol's own update for a compaction.
    knows_compaction: bool,
    /// For each call of the session, the lines about its subagents.
    lines: HashMap<Seq, Vec<String>>,
}

impl UpdateRenderer {
    pub(super) fn new(ids: CallIds, knows_compaction: bool) -> Self {
        Self { ids, writing: HashMap::new(), knows_compaction, lines: HashMap::new() }
    }

    /// The updates for a change in the session itself.
    pub(super) fn updates(&mut self, session: &SessionView, change: &Change) -> Vec<SessionUpdate> {
        let ends = matches!(
            change,
            Change::Replied { purpose: Purpose::Turn, .. }
                | Change::RequestFailed
                | Change::Retry { .. }
                | Change::TurnEnded { .. }
        );
        let mut updates = if ends { self.abandon_writing() } else { Vec::new() };
        updates.extend(self.update(session, change));
        updates
    }

    /// Ends the calls that the model has begun to write and not completed.
    fn abandon_writing(&mut self) -> Vec<SessionUpdate> {
        let fields = ToolCallUpdateFields::new()
            .status(ToolCallStatus::Failed)
            .content(calls::text("The model did not complete this call."));
        let abandoned = self.writing.drain().map(|(_, id)| ToolCallUpdate::new(id, fields.clone()));
        abandoned.map(SessionUpdate::ToolCallUpdate).collect()
    }

    /// A call that the model is writing.
    fn written(&mut self, request: Seq, input: &StreamedInput) -> SessionUpdate {
        let title = words::written(input);
        if let Some(id) = self.writing.get(&input.id) {
            let fields = ToolCallUpdateFields::new().title(title);
            return SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.clone(), fields));
        }
        let id = call_ids::while_written(request, &input.id);
        self.writing.insert(input.id.clone(), id.clone());
        let call = ToolCall::new(id, title)
            .kind(calls::kind(&input.name, None))
            .status(ToolCallStatus::Pending);
        SessionUpdate::ToolCall(call)
    }

    /// A call that is complete. The client may have seen it while it was written.
    fn called(&mut self, call: &Call) -> SessionUpdate {
        if let Some(id) = self.writing.remove(&call.id) {
            self.ids.set(call.seq, id.clone());
            return SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields(call)));
        }
        called(call, self.ids.for_call(call.seq))
    }

    fn update(&mut self, session: &SessionView, change: &Change) -> Option<SessionUpdate> {
        match change {
            Change::Titled(title) => {
                let info = SessionInfoUpdate::new().title(title.clone());
                Some(SessionUpdate::SessionInfoUpdate(info))
            }
            Change::Streamed { request, kind, text, purpose: Purpose::Turn } => {
                // Each reply is one message.
                let chunk = ContentChunk::new(text.clone().into());
                let chunk = chunk.message_id(MessageId::new(request.to_string()));
                Some(match kind {
                    PartKind::Text => SessionUpdate::AgentMessageChunk(chunk),
                    PartKind::Reasoning => SessionUpdate::AgentThoughtChunk(chunk),
                })
            }
            Change::Replied { usage, purpose: Purpose::Turn } => used(session, usage),
            Change::Retry { attempt, error, until, purpose: Purpose::Turn, .. } => {
                let wait = status::wait(*until, session.at);
                let text = format!("\n[retrying{wait}, attempt {attempt}: {error}]\n\n");
                Some(SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into())))
            }
            Change::Call { call, step } => {
                let call = session.call(*call).filter(|call| call.known)?;
                match step == &CallStep::Called {
                    true => Some(self.called(call)),
                    false => call_update(call, step, self.ids.for_call(call.seq)),
                }
            }
            Change::InputStreamed { request, input } => Some(self.written(*request, input)),
            Change::Todos => Some(SessionUpdate::Plan(plan(&session.todos))),
            Change::CompactionStarted(compaction) => {
                Some(compaction::started(*compaction, self.knows_compaction))
            }
            Change::CompactionEnded { compaction, end } => {
                Some(compaction::ended((*compaction)?, end, self.knows_compaction))
            }
            Change::TurnEnded { .. } => {
                self.lines.clear();
                None
            }
            _ => None,
        }
    }

    /// The session's call that a subagent works for, with one more line of content.
    pub(super) fn progress(
        &mut self,
        transcript: &Transcript,
        subagent: SessionId,
        change: &Change,
    ) -> Option<SessionUpdate> {
        let line = subagent_line(transcript, subagent, change)?;
        let under = transcript.subagent(subagent)?.under;
        if under == 0 {
            return None;
        }
        let lines = self.lines.entry(under).or_default();
        lines.push(line);
        let over = lines.len().saturating_sub(LINES);
        lines.drain(..over);
        let fields = ToolCallUpdateFields::new().content(calls::text(&lines.join("\n")));
        Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(self.ids.for_call(under), fields)))
    }
}

/// The update for a subagent's call that the client was asked about.
pub(super) fn of_subagent(session: &SessionView, change: &Change) -> Option<SessionUpdate> {
    let Change::Call { call, step } = change else { return None };
    let call = session.call(*call).filter(|call| call.known && call.asked)?;
    call_update(call, step, call_ids::in_subagent(session.id, call.seq))
}

/// An update of a call that the client knows.
fn call_update(call: &Call, step: &CallStep, id: String) -> Option<SessionUpdate> {
    let new = ToolCallUpdateFields::new();
    let changed = match step {
        CallStep::Called => return None,
        CallStep::Resolved => fields(call),
        CallStep::Running => new.status(ToolCallStatus::InProgress),
        CallStep::Progressed => new.content(calls::text(&call.tail)),
        CallStep::Revised { title, metadata } => {
            let mut revised = new;
            (revised.title, revised.raw_output) = (title.clone(), metadata.clone());
            revised
        }
        CallStep::Ended { outcome, .. } => ended(call, outcome),
    };
    Some(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, changed)))
}

fn called(call: &Call, id: String) -> SessionUpdate {
    let update = ToolCall::new(id, call.name.clone())
        .kind(calls::kind(&call.name, None))
        .status(ToolCallStatus::Pending)
        .raw_input(call.input.clone());
    SessionUpdate::ToolCall(update)
}

/// Everything known about a call before it runs.
pub(super) fn fields(call: &Call) -> ToolCallUpdateFields {
    let fields = ToolCallUpdateFields::new()
        .kind(calls::kind(&call.name, call.class))
        .raw_input(call.input.clone());
    match call.class {
        None => fields.title(call.name.clone()),
        Some(_) => fields.title(calls::title(call)).locations(calls::locations(&call.paths)),
    }
}

fn ended(call: &Call, outcome: &Outcome) -> ToolCallUpdateFields {
    let why = match outcome {
        Outcome::Finished(result) => return finished(call, result),
        Outcome::Unresolved(error) => error.clone(),
        Outcome::Denied => "Denied by the permission rules.".to_owned(),
        Outcome::Rejected { by, feedback, .. } => {
            let why = feedback.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("Rejected by {by}{why}")
        }
        Outcome::TimedOut { asked: true } => "Nobody answered in time.".to_owned(),
        Outcome::TimedOut { asked: false } => "Timed out.".to_owned(),
        Outcome::Lost => {
            "Interrupted by a crash: it is not known whether or how far it ran.".to_owned()
        }
        Outcome::Cancelled => "Stopped.".to_owned(),
    };
    ToolCallUpdateFields::new().status(ToolCallStatus::Failed).content(calls::text(&why))
}

fn finished(call: &Call, finished: &Finished) -> ToolCallUpdateFields {
    let mut content = calls::content(finished, &call.paths);
    let images = finished.attachments.iter().filter(|media| media.mime.starts_with("image/"));
    content.extend(images.map(|media| {
        let image = ImageContent::new(media.base64.clone(), media.mime.clone());
        ToolCallContent::from(ContentBlock::Image(image))
    }));
    let status = if finished.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
    let fields = ToolCallUpdateFields::new().status(status).content(content);
    fields.raw_output(finished.metadata.value())
}

fn used(session: &SessionView, usage: &Usage) -> Option<SessionUpdate> {
    let size = session.context_size;
    let usage = UsageUpdate::new(usage.total(), size).cost(Cost::new(session.cost, "USD"));
    (size > 0).then_some(SessionUpdate::UsageUpdate(usage))
}

fn plan(todos: &[TodoItem]) -> Plan {
    let entry = |todo: &TodoItem| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            // The protocol's plan has no such status.
            TodoStatus::Cancelled => return None,
        };
        let priority = match todo.priority {
            TodoPriority::High => PlanEntryPriority::High,
            TodoPriority::Medium => PlanEntryPriority::Medium,
            TodoPriority::Low => PlanEntryPriority::Low,
        };
        Some(PlanEntry::new(todo.content.clone(), priority, status))
    };
    Plan::new(todos.iter().filter_map(entry).collect())
}

/// A prompt as updates, for a client that did not send it or loads the session.
pub(super) fn prompt(parts: &[PromptPart]) -> Vec<SessionUpdate> {
    let block = |part: &PromptPart| match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => part.text.clone().into(),
        PromptKind::Media => ContentBlock::Image(ImageContent::new(
            part.text.clone(),
            part.mime.clone().unwrap_or_default(),
        )),
    };
    let typed = as_typed(parts);
    let chunk = |part| SessionUpdate::UserMessageChunk(ContentChunk::new(block(part)));
    typed.iter().map(chunk).collect()
}
