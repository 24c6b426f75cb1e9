//! What an event is to a client. Follows a session from its first event on, or from where the
//! client came in.

mod asking;
mod revised;

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, Cost, ImageContent, PermissionOption, PermissionOptionKind, Plan,
    PlanEntry, PlanEntryPriority, PlanEntryStatus, SessionInfoUpdate, SessionUpdate, ToolCall,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, UsageUpdate,
};
use leftfold_events::event::{
    CallSpec, Ended, Event, Finish, Finished, Model, PartKind, PromptKind, PromptPart, Purpose,
    Resolution, Session, StreamedPart, Todo, TodoItem, TodoPriority, TodoStatus, Tool, Turn, Usage,
};
use leftfold_events::kit::ModelSpec;
use leftfold_events::{Envelope, Seq, SessionId};

use super::calls;
use leftfold_view::{OpenQuestions, QuestionId, question};

/// What a client is to be told, in order.
#[derive(Debug)]
pub(super) enum Told {
    Update(Box<SessionUpdate>),
    Prompted {
        by: String,
        parts: Vec<PromptPart>,
    },
    /// Another agent has taken over.
    Switched(String),
    Ask(Box<Question>),
    /// The question is open no longer.
    Settled(QuestionId),
    /// This child has nothing to ask any more.
    Silent(SessionId),
    Ended {
        ended: Box<Ended>,
        /// How the model's last reply ended.
        finish: Option<Finish>,
    },
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) asked: QuestionId,
    pub(super) call: ToolCallUpdate,
    pub(super) options: Vec<PermissionOption>,
    /// The question, if it is one of the `question` tool, and what the options answer.
    pub(super) inquiry: Option<question::Question>,
    pub(super) answers: Vec<String>,
    /// The call, if it would change files.
    pub(super) change: Option<Arc<Resolution>>,
}

/// The answers to a question, as ids of options.
pub(super) const ONCE: &str = "once";
pub(super) const ALWAYS: &str = "always";
pub(super) const REJECT: &str = "reject";

#[derive(Debug, Default)]
pub(super) struct View {
    /// Of the turn under way: which `model.called` an intent is about.
    of_call: HashMap<Seq, Seq>,
    calls: HashMap<Seq, Shown>,
    /// Of a child: which, and its agent, so that its calls are told from its parent's.
    child: Option<(SessionId, String)>,
    inquiries: OpenQuestions,
    /// Whether the attempt under way has shown text that a retry would make void.
    shown: bool,
    /// Requests whose text is not for the conversation.
    aside: Vec<Seq>,
    finish: Option<Finish>,
    /// Tokens that the model can take; 0: unknown.
    context: u64,
    /// US dollars, of the events seen.
    cost: f64,
}

/// What has been told of a call.
#[derive(Debug, Default)]
struct Shown {
    fields: ToolCallUpdateFields,
    paths: Vec<String>,
}

impl View {
    pub(super) fn of_child(session: SessionId, agent: Option<&str>) -> Self {
        let agent = agent.unwrap_or("subagent").to_owned();
        Self { child: Some((session, agent)), ..Self::default() }
    }

    pub(super) fn see(&mut self, envelope: &Envelope) -> Vec<Told> {
        self.inquiries.follow(envelope);
        let closed = self.inquiries.closed_by(envelope).map(|of| (envelope.session, of));
        let mut told = self.told(envelope);
        told.extend(closed.map(Told::Settled));
        told
    }

    fn told(&mut self, envelope: &Envelope) -> Vec<Told> {
        match &envelope.event {
            Event::Session(event) => self.session(event, envelope),
            Event::Turn(event) => self.turn(event),
            Event::Model(event) => self.model(event, envelope),
            Event::Tool(event) => self.tool(event, envelope),
            Event::Permission(event) => self.permission(event, envelope),
            Event::Todo(Todo::Updated { todos }) => vec![update(SessionUpdate::Plan(plan(todos)))],
            Event::Plugin(event) => self.plugin(event, envelope),
            Event::Compaction(_) | Event::Subagent(_) | Event::Files(_) => Vec::new(),
        }
    }

    fn session(&mut self, event: &Session, envelope: &Envelope) -> Vec<Told> {
        if let Session::Titled { title } = event {
            let info = SessionInfoUpdate::new().title(title.clone());
            return vec![update(SessionUpdate::SessionInfoUpdate(info))];
        }
        let Session::Elapsed {} = event else { return Vec::new() };
        let of = envelope.of.unwrap_or_default();
        let mut told = vec![Told::Settled((envelope.session, of))];
        told.extend(self.refused(of, "Nobody answered in time."));
        told
    }

    fn turn(&mut self, event: &Turn) -> Vec<Told> {
        match event {
            Turn::Prompted { parts, by, .. } => {
                vec![Told::Prompted { by: by.clone(), parts: parts.clone() }]
            }
            Turn::Equipped(equipped) => {
                if let Ok(model) = serde_json::from_str::<ModelSpec>(equipped.model.text()) {
                    self.context = model.limit.context;
                }
                Vec::new()
            }
            Turn::Interrupted { .. } => Vec::new(),
            Turn::Switched { agent, .. } => vec![Told::Switched(agent.clone())],
            Turn::Ended(ended) => {
                self.of_call.clear();
                self.calls.clear();
                vec![Told::Ended { ended: ended.clone(), finish: self.finish.take() }]
            }
        }
    }

    fn model(&mut self, event: &Model, envelope: &Envelope) -> Vec<Told> {
        match event {
            Model::Requested { purpose, .. } => {
                match purpose {
                    Purpose::Turn => self.shown = false,
                    Purpose::Title | Purpose::Compaction => self.aside.push(envelope.seq),
                }
                Vec::new()
            }
            _ if envelope.of.is_some_and(|of| self.aside.contains(&of)) => Vec::new(),
            Model::Streamed { parts } => self.streamed(parts, envelope.of.unwrap_or_default()),
            Model::Called { call } => vec![self.called(call, envelope.seq)],
            Model::Replied { finish, usage, cost, .. } => {
                self.finish = Some(*finish);
                self.cost += cost;
                self.usage(usage)
            }
            Model::RetryScheduled { error, .. } if std::mem::take(&mut self.shown) => {
                let text = format!("\n[retrying: {error}]\n\n");
                vec![update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into())))]
            }
            Model::RetryScheduled { .. } | Model::Failed { .. } => Vec::new(),
        }
    }

    fn streamed(&mut self, parts: &[StreamedPart], of: Seq) -> Vec<Told> {
        let mut told = Vec::new();
        for part in parts.iter().filter(|part| !part.text.is_empty()) {
            // one message for each reply
            let chunk = ContentChunk::new(part.text.clone().into());
            let chunk =
                chunk.message_id(agent_client_protocol::v1::schema::MessageId::new(of.to_string()));
            self.shown = true;
            told.push(update(match part.kind {
                PartKind::Text => SessionUpdate::AgentMessageChunk(chunk),
                PartKind::Reasoning => SessionUpdate::AgentThoughtChunk(chunk),
            }));
        }
        told
    }

    fn called(&mut self, call: &CallSpec, seq: Seq) -> Told {
        let kind = calls::kind(&call.name, None);
        let input = call.input.value();
        let fields = ToolCallUpdateFields::new()
            .title(call.name.clone())
            .kind(kind)
            .raw_input(input.clone());
        self.calls.insert(seq, Shown { fields, paths: Vec::new() });
        let told = ToolCall::new(self.id(seq), call.name.clone())
            .kind(kind)
            .status(ToolCallStatus::Pending)
            .raw_input(input);
        update(SessionUpdate::ToolCall(told))
    }

    fn usage(&self, usage: &Usage) -> Vec<Told> {
        if self.context == 0 {
            return Vec::new();
        }
        let usage = UsageUpdate::new(usage.total(), self.context).cost(Cost::new(self.cost, "USD"));
        vec![update(SessionUpdate::UsageUpdate(usage))]
    }

    fn tool(&mut self, event: &Tool, envelope: &Envelope) -> Vec<Told> {
        let of = envelope.of.unwrap_or_default();
        let call = self.call_of(of);
        match event {
            Tool::Batched { call } => vec![self.called(call, envelope.seq)],
            Tool::Checked { .. } => {
                self.of_call.insert(envelope.seq, of);
                Vec::new()
            }
            Tool::Resolved(resolution) => self.resolved(call, resolution),
            Tool::Started { .. } => {
                self.of_call.insert(envelope.seq, of);
                let status = ToolCallStatus::InProgress;
                self.call(of, ToolCallUpdateFields::new().status(status))
            }
            Tool::Progressed { tail } => {
                self.call(call, ToolCallUpdateFields::new().content(calls::text(tail)))
            }
            Tool::Finished(finished) => self.finished(call, finished),
            Tool::Lost { .. } => {
                self.fail(of, "Cut off by a crash: nobody knows whether or how far it ran.")
            }
            Tool::Cancelled { .. } => self.fail(of, "Stopped."),
            Tool::Inquired { .. } => Vec::new(),
            Tool::Replied { .. } => {
                self.call(of, ToolCallUpdateFields::new().status(ToolCallStatus::InProgress))
            }
        }
    }

    fn resolved(&mut self, call: Seq, resolution: &Resolution) -> Vec<Told> {
        if let Some(error) = &resolution.error {
            return self.fail(call, error);
        }
        let fields = ToolCallUpdateFields::new()
            .title(calls::title(resolution))
            .kind(calls::kind(&resolution.name, Some(resolution.class)))
            .locations(calls::locations(&resolution.paths))
            .raw_input(resolution.input.value());
        if let Some(shown) = self.calls.get_mut(&call) {
            *shown = Shown { fields: fields.clone(), paths: resolution.paths.clone() };
        }
        self.call(call, fields)
    }

    fn finished(&mut self, call: Seq, finished: &Finished) -> Vec<Told> {
        let paths = self.calls.get(&call).map_or(&[][..], |shown| &shown.paths);
        let mut content = calls::content(finished, paths);
        let images = finished.attachments.iter().filter(|media| media.mime.starts_with("image/"));
        content.extend(images.map(|media| {
            ToolCallContent::from(ContentBlock::Image(ImageContent::new(
                media.base64.clone(),
                media.mime.clone(),
            )))
        }));
        let status =
            if finished.is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
        let metadata = finished.metadata.value();
        if let Some(shown) = self.calls.get_mut(&call) {
            shown.fields.raw_output = Some(metadata.clone());
        }
        let fields = ToolCallUpdateFields::new().status(status).content(content);
        self.call(call, fields.raw_output(metadata))
    }

    fn id(&self, call: Seq) -> String {
        match &self.child {
            None => id(call),
            Some((session, _)) => format!("{session}-{}", id(call)),
        }
    }

    /// The call that the intent at `of` is about.
    fn call_of(&self, of: Seq) -> Seq {
        self.of_call.get(&of).copied().unwrap_or_default()
    }

    fn fail(&self, call: Seq, why: &str) -> Vec<Told> {
        let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
        self.call(call, fields.content(calls::text(why)))
    }

    /// An update of a call that the client knows.
    fn call(&self, call: Seq, fields: ToolCallUpdateFields) -> Vec<Told> {
        if !self.calls.contains_key(&call) {
            return Vec::new();
        }
        vec![update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(self.id(call), fields)))]
    }
}

fn update(update: SessionUpdate) -> Told {
    Told::Update(Box::new(update))
}

/// Models repeat their call ids, logs not their seqs.
pub(super) fn id(call: Seq) -> String {
    format!("call-{call}")
}

fn options(permission: &str, always: &[String]) -> Vec<PermissionOption> {
    let always = if always.is_empty() {
        "Always allow".to_owned()
    } else {
        format!("Always allow {permission}: {}", always.join(", "))
    };
    vec![
        PermissionOption::new(ONCE, "Allow once", PermissionOptionKind::AllowOnce),
        PermissionOption::new(ALWAYS, always, PermissionOptionKind::AllowAlways),
        PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ]
}

fn plan(todos: &[TodoItem]) -> Plan {
    let entry = |todo: &TodoItem| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            // a plan has no word for it
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

/// A prompt as a client is shown it that did not send it, or has forgotten it.
pub(super) fn prompt(parts: &[PromptPart]) -> Vec<SessionUpdate> {
    let block = |part: &PromptPart| match part.kind {
        PromptKind::Text | PromptKind::Task => part.text.clone().into(),
        PromptKind::Media => ContentBlock::Image(ImageContent::new(
            part.text.clone(),
            part.mime.clone().unwrap_or_default(),
        )),
    };
    let typed = parts.iter().filter(|part| part.kind != PromptKind::Task);
    typed.map(|part| SessionUpdate::UserMessageChunk(ContentChunk::new(block(part)))).collect()
}
