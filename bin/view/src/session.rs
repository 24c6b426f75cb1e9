//! One session as people see it: messages with their parts, calls, questions, and the session's
//! status.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use leftfold_events::event::{
    Access, Answer, CallSpec, Class, Compaction, Cost, Ended, Event, FailureClass, FileChange,
    Files, Finish, Hook, HookPoint, Model, ModelRef, PartKind, Permission, PromptKind, PromptPart,
    Purpose, Resolution, Session, StreamedInput, StreamedPart, Subagent, Todo, TodoItem, Tool,
    Turn, Usage, Wanted, as_typed,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::Figures;
use leftfold_events::turn_config::ModelSpec;
use leftfold_events::{Envelope, Json, Seq, SessionId, Time, form, request_builder};
use serde_json::{Value, json};

use crate::change::{CallStep, Change, CompactionEnd, Outcome};
use crate::question::{self, OpenQuestion, Question};
use crate::turn_rules::TurnRules;
use crate::{file_changes, words};

/// The fold of one session's events.
#[derive(Debug, Default)]
pub struct SessionView {
    pub id: SessionId,
    /// The last event applied; 0 before the first.
    pub seq: Seq,
    pub at: Time,
    pub title: Option<String>,
    /// A summary of the session in a few sentences, for lists.
    pub summary: Option<String>,
    pub agent: String,
    pub model: Option<ModelRef>,
    /// The beginning of the current turn.
    pub turn: Option<TurnStart>,
    pub retry: Option<Retry>,
    /// The `compaction.started` of the current compaction.
    pub compaction: Option<Seq>,
    /// The snapshot or restore in progress.
    pub files: Option<FilesJob>,
    pub todos: Vec<TodoItem>,
    /// Tokens that the last exchange used in the model's context; `None` before the first exchange
    /// and after a summary.
    pub context_used: Option<u64>,
    /// The size of the model's context in tokens; 0 if unknown.
    pub context_size: u64,
    /// The usage of this session's own requests; subagents have their own.
    pub usage: Usage,
    pub cost: Cost,
    /// The cost of its subagents that have ended, with that of their own subagents.
    pub cost_of_subagents: Cost,
    /// The end of the last turn.
    pub ended: Option<Box<Ended>>,
    /// When a node last resumed the session.
    pub resumed: Time,
    /// Whether messages, and the calls of all turns, are kept.
    keeps_messages: bool,
    messages: Vec<Message>,
    /// The first message that a revert hides.
    reverted: Option<Seq>,
    /// The target of the current restore.
    restoring: Option<Seq>,
    calls: BTreeMap<Seq, Call>,
    /// The questions of this turn.
    questions: BTreeMap<Seq, OpenQuestion>,
    /// The unanswered questions, in the order in which they were asked.
    open: Vec<Seq>,
    /// From the intents about a call to the call.
    links: HashMap<Seq, Seq>,
    /// The requests that have not ended.
    requests: BTreeMap<Seq, Request>,
    /// The last request that is not for a title, until one ends.
    request: Option<Seq>,
    /// Requests whose replies are not part of the conversation.
    titles: HashSet<Seq>,
    compactions: HashSet<Seq>,
    /// The calls that the model is writing.
    writing: Vec<StreamedInput>,
    /// Whether the last attempt has shown text, and reasoning.
    shown: (bool, bool),
    /// The texts and reasoning of the current reply; the last one may still stream.
    parts: Vec<(PartKind, String)>,
    /// Whether the last of `parts` still streams.
    part_is_open: bool,
    finish: Option<Finish>,
    /// The files that the calls of this turn have changed.
    changed: Vec<FileChange>,
    /// The permission rules of the turn.
    rules: TurnRules,
    /// Whether the log says them.
    has_rules: bool,
    /// The rules of "always" answers.
    approved: Vec<Rule>,
}

/// The first prompt of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnStart {
    /// The session of the event: a fork's log begins with events of another session.
    pub session: SessionId,
    pub seq: Seq,
    pub at: Time,
    pub agent: String,
    pub model: ModelRef,
    /// Its texts as a person has typed them.
    pub prompt: String,
}

/// A model request that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The session of the event, as in [`TurnStart`].
    pub session: SessionId,
    pub seq: Seq,
    pub since: Time,
    /// The first event of its turn.
    pub turn: Option<Seq>,
    pub agent: String,
    pub model: ModelRef,
    pub purpose: Purpose,
    pub step: u32,
    pub attempt: u32,
    /// When the first piece of the reply arrived.
    pub first: Option<Time>,
    /// When text last arrived.
    pub text_at: Option<Time>,
}

/// A snapshot or a restore of the project's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilesJob {
    pub seq: Seq,
    pub since: Time,
    pub restores: bool,
}

/// A failed model request that will be made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The number of the next attempt, at least 2.
    pub attempt: u32,
    pub until: Time,
    pub error: String,
}

/// One entry of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    User(Prompt),
    Assistant(Reply),
    /// Replaces everything before it in requests to the model.
    Summary {
        seq: Seq,
        at: Time,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    pub seq: Seq,
    pub at: Time,
    pub parts: Vec<PromptPart>,
    pub agent: String,
    pub model: ModelRef,
    pub by: String,
}

/// A model's reply to one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The seq of its `model.requested`, or of the `tool.batched` if a prompt made the call.
    pub seq: Seq,
    pub at: Time,
    pub model: ModelRef,
    /// The agent that asked for it.
    pub agent: String,
    pub step: u32,
    pub attempt: u32,
    pub parts: Vec<ReplyPart>,
    /// When it was complete, or failed.
    pub ended: Option<Time>,
    /// `None` while it streams, and if it failed.
    pub finish: Option<Finish>,
    pub failure: Option<Failure>,
    /// The request was made again; the next reply replaces this one.
    pub void: bool,
    pub usage: Usage,
    pub cost: Cost,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: FailureClass,
    pub message: String,
    /// The HTTP status.
    pub status: Option<u16>,
    pub retryable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    Text(PartText),
    Reasoning(PartText),
    /// See [`SessionView::call`].
    Call(Seq),
}

/// A text or the reasoning of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartText {
    /// The provider's id, unique among the parts of this kind in the reply.
    pub id: String,
    /// Without white space at its end, once the reply is complete.
    pub text: String,
    /// When its first piece arrived.
    pub since: Time,
    /// When another part began, or the reply ended; `None` while it streams.
    pub until: Option<Time>,
}

/// A tool call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The session of the event, as in [`TurnStart`].
    pub session: SessionId,
    pub seq: Seq,
    pub at: Time,
    /// The first event of its turn.
    pub turn: Option<Seq>,
    /// The request, the prompt or the call that made it.
    pub by: Option<Seq>,
    /// The model's id for the call.
    pub id: String,
    /// The name that the model wrote; the repaired name once the call is resolved.
    pub name: String,
    pub input: Value,
    /// Whether the transcript has the call's start. Otherwise name and input may be missing.
    pub known: bool,
    /// The call or prompt that created it.
    pub parent: Option<Seq>,
    pub class: Option<Class>,
    /// Absolute paths that it reads or writes.
    pub paths: Vec<String>,
    /// The verdict of the rules, and the rule that decided it.
    pub verdict: Option<(Action, Option<Rule>)>,
    /// Whether a person was asked about it, or by it.
    pub asked: bool,
    /// When its arguments were complete and checked.
    pub resolved: Option<Time>,
    /// When it last started to run.
    pub started: Option<Time>,
    pub ended: Option<Time>,
    /// Its outcome, if the transcript keeps messages.
    pub outcome: Option<Outcome>,
    /// The end of its output so far.
    pub tail: String,
    /// The result's title, if a plugin has replaced it.
    pub title: Option<String>,
    pub metadata: Option<Value>,
    /// The subagent that works for it.
    pub subagent: Option<SessionId>,
    /// The permissions that it needs.
    access: Vec<Access>,
    /// The call, if it would change files and has not started.
    change: Option<Arc<Resolution>>,
    /// Its questions, and whether each has been asked already.
    asks: Vec<(Question, bool)>,
    /// The permissions that its run asks for, by their numbers: who asks, and the message.
    wants: BTreeMap<u32, (String, String)>,
}

/// The status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    /// It is being resolved, or waits for a person or for other calls.
    Pending,
    Running,
    Completed,
    Failed,
}

impl Call {
    /// The tool and its main argument, in one line.
    pub fn heading(&self) -> String {
        words::heading(&self.name, &self.input)
    }

    pub fn is_running(&self) -> bool {
        self.started.is_some() && self.ended.is_none()
    }

    /// Whether it only reads files of this machine. A server's tool that says so of itself names no files.
    pub fn only_reads_files(&self) -> bool {
        self.class == Some(Class::Read) && !self.paths.is_empty()
    }

    /// The call's status. Ended calls have one only if the transcript keeps messages.
    pub fn status(&self) -> CallStatus {
        match &self.outcome {
            Some(Outcome::Finished(finished)) if !finished.is_error => CallStatus::Completed,
            Some(_) => CallStatus::Failed,
            None if self.is_running() => CallStatus::Running,
            None => CallStatus::Pending,
        }
    }

    /// The question for the first of `texts`; the others say why the last answer was wrong.
    fn next_question(&mut self, texts: &[String]) -> Question {
        let (text, wrong) = texts.split_first().map_or(("", texts), |(text, wrong)| (text, wrong));
        let matching = |asked: bool| {
            move |(question, already): &(Question, bool)| {
                question.question == text && asked == *already
            }
        };
        let place = self.asks.iter().position(matching(false)).filter(|_| wrong.is_empty());
        let place = place.or_else(|| self.asks.iter().rposition(matching(true)));
        let mut question = match place.and_then(|place| self.asks.get_mut(place)) {
            Some((question, asked)) => {
                *asked = true;
                question.clone()
            }
            None => Question::bare(text),
        };
        for wrong in wrong {
            question.question.push_str(&format!("\n{wrong}"));
        }
        question
    }
}

impl Message {
    pub fn seq(&self) -> Seq {
        match self {
            Self::User(prompt) => prompt.seq,
            Self::Assistant(reply) => reply.seq,
            Self::Summary { seq, .. } => *seq,
        }
    }
}

impl SessionView {
    pub(crate) fn new(id: SessionId, keeps_messages: bool) -> Self {
        Self { id, keeps_messages, ..Self::default() }
    }

    /// The view of a log from the beginning of a turn or earlier. It keeps no messages.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let mut view = Self::default();
        for event in events {
            view.id = event.session;
            view.apply(event);
        }
        view
    }

    /// Sets the rules of the next turn, until the log says them.
    pub(crate) fn set_rules(&mut self, rules: &TurnRules) {
        if !self.has_rules {
            self.rules.clone_from(rules);
        }
    }

    /// The conversation without reverted messages; empty if the transcript keeps no messages.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        let end = self.reverted.unwrap_or(Seq::MAX);
        self.messages.iter().filter(move |message| message.seq() < end)
    }

    /// All messages, also those that a revert hides until the next prompt.
    pub fn all_messages(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.iter()
    }

    /// The first message that a revert hides.
    pub fn reverted(&self) -> Option<Seq> {
        self.reverted
    }

    /// The reply to the request at this seq.
    pub fn reply_to(&self, request: Seq) -> Option<&Reply> {
        self.messages.iter().rev().find_map(|message| match message {
            Message::Assistant(reply) => (reply.seq == request).then_some(reply),
            Message::User(_) | Message::Summary { .. } => None,
        })
    }

    /// The pending model request, unless it is for a title.
    pub fn request(&self) -> Option<&Request> {
        self.requests.get(&self.request?)
    }

    /// All requests that have not ended. A node that resumes the session knows nothing of them.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    pub fn call(&self, seq: Seq) -> Option<&Call> {
        self.calls.get(&seq)
    }

    /// The calls of the turn, in the order in which they were made.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.values().filter(|call| call.known)
    }

    /// The calls that the model is writing, with their sizes so far.
    pub fn writing(&self) -> &[StreamedInput] {
        &self.writing
    }

    /// A question of this turn, answered or not.
    pub fn question(&self, seq: Seq) -> Option<&OpenQuestion> {
        self.questions.get(&seq)
    }

    /// The unanswered questions, in the order in which they were asked.
    pub fn open_questions(&self) -> impl Iterator<Item = &OpenQuestion> {
        self.open.iter().filter_map(|seq| self.questions.get(seq))
    }

    /// Forgets pending work that nothing will resume.
    pub(crate) fn rest(&mut self) {
        if !self.keeps_messages {
            self.calls.clear();
        }
        self.links.clear();
        self.writing.clear();
        self.questions.clear();
        self.forget_open();
    }

    /// Forgets open questions and requests.
    fn forget_open(&mut self) {
        self.open.clear();
        self.requests.clear();
        (self.request, self.retry) = (None, None);
    }

    /// Applies an event. Returns the changes for people, in the order in which they see them.
    pub fn apply(&mut self, event: &Envelope) -> Vec<Change> {
        (self.seq, self.at) = (event.seq, event.at);
        match &event.event {
            Event::Session(session) => self.session(session, event),
            Event::Turn(turn) => self.turn(turn, event),
            Event::Model(model) => self.model(model, event),
            Event::Tool(tool) => self.tool(tool, event),
            Event::Permission(permission) => self.permission(permission, event),
            Event::Compaction(compaction) => self.compaction(compaction, event),
            Event::Todo(Todo::Updated { todos }) => {
                self.todos.clone_from(todos);
                vec![Change::Todos]
            }
            Event::Files(files) => self.files_event(files, event.seq, event.at),
            Event::Hook(plugin) => self.plugin(plugin, event),
            Event::Subagent(Subagent::Spawned { session, .. }) => {
                if let Some(call) = self.calls.get_mut(&event.concerned()) {
                    call.subagent = Some(*session);
                }
                Vec::new()
            }
            Event::Subagent(Subagent::Ended { cost, .. }) => {
                self.cost_of_subagents += cost;
                Vec::new()
            }
            Event::Subagent(_) => Vec::new(),
        }
    }

    fn session(&mut self, session: &Session, event: &Envelope) -> Vec<Change> {
        match session {
            Session::Created { agent, .. } => {
                self.agent.clone_from(agent);
                Vec::new()
            }
            Session::Titled { title } => {
                self.title = Some(title.clone());
                vec![Change::Titled(title.clone())]
            }
            Session::Summarised { summary } => {
                self.summary = Some(summary.clone());
                Vec::new()
            }
            Session::Resumed { close, .. } | Session::ResumedImported { close, .. } => {
                self.resumed = event.at;
                self.requests.clear();
                // a session at rest has only changed hands
                let shows = !close || self.turn.is_some();
                shows.then_some(Change::Resumed { close: *close }).into_iter().collect()
            }
            Session::Forked { .. } => {
                self.forget_open();
                vec![Change::Forked]
            }
            Session::DeadlinePassed {} => {
                event.of.map(|of| self.elapsed(of, event.at)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// The deadline of the intent at `of` has passed.
    fn elapsed(&mut self, of: Seq, at: Time) -> Vec<Change> {
        if self.files.take_if(|open| open.seq == of).is_some() {
            return vec![Change::Restored(Err(file_changes::TIMED_OUT.to_owned()))];
        }
        let asked = self.close_question(of);
        let mut changes = vec![Change::QuestionClosed(of)];
        if self.is_in_run(of) {
            changes.push(Change::QuestionTimedOut(of));
        } else if self.links.contains_key(&of) || self.calls.contains_key(&of) {
            let call = self.call_of(of);
            changes.extend(self.end_call(call, Outcome::TimedOut { asked }, at));
        }
        changes
    }

    fn turn(&mut self, turn: &Turn, event: &Envelope) -> Vec<Change> {
        match turn {
            Turn::Prompted { parts, agent, model, by } => {
                self.turn.get_or_insert_with(|| TurnStart {
                    session: event.session,
                    seq: event.seq,
                    at: event.at,
                    agent: agent.clone(),
                    model: model.clone(),
                    prompt: typed(parts),
                });
                self.agent.clone_from(agent);
                self.model = Some(model.clone());
                self.drop_reverted();
                let (parts, by) = (parts.clone(), by.clone());
                if self.keeps_messages {
                    self.messages.push(Message::User(Prompt {
                        seq: event.seq,
                        at: event.at,
                        parts: parts.clone(),
                        agent: agent.clone(),
                        model: model.clone(),
                        by: by.clone(),
                    }));
                }
                vec![Change::Prompted { by, parts }]
            }
            Turn::Noted { parts, by } => {
                self.drop_reverted();
                let (parts, by) = (parts.clone(), by.clone());
                if self.keeps_messages {
                    self.messages.push(Message::User(Prompt {
                        seq: event.seq,
                        at: event.at,
                        parts: parts.clone(),
                        agent: self.agent.clone(),
                        model: self.model.clone().unwrap_or_default(),
                        by: by.clone(),
                    }));
                }
                vec![Change::Noted { by, parts }]
            }
            Turn::Configured(configured) => {
                (self.rules, self.has_rules) = (TurnRules::from_config(configured), true);
                if let Ok(model) = serde_json::from_str::<ModelSpec>(configured.model.text()) {
                    self.context_size = model.limit.context;
                }
                Vec::new()
            }
            Turn::Switched { agent, model } => {
                self.agent.clone_from(agent);
                self.model = Some(model.clone());
                vec![Change::AgentSwitched { agent: agent.clone(), model: model.clone() }]
            }
            Turn::Continued { finish, .. } => vec![Change::Notice(continued(*finish).to_owned())],
            Turn::Ended(ended) => self.turn_ended(ended),
            _ => Vec::new(),
        }
    }

    fn turn_ended(&mut self, ended: &Ended) -> Vec<Change> {
        let part_ended = self.end_part_of_request();
        self.rest();
        self.titles.clear();
        self.compactions.clear();
        self.ended = Some(Box::new(ended.clone()));
        let mut changes: Vec<Change> = part_ended.into_iter().collect();
        if let Some(compaction) = self.compaction.take() {
            let end = CompactionEnd::Cancelled;
            changes.push(Change::CompactionEnded { compaction: Some(compaction), end });
        }
        changes.push(Change::TurnEnded {
            ended: Box::new(ended.clone()),
            finish: self.finish.take(),
            since: self.turn.take().map(|turn| turn.at),
            changed: Figures::from_files(std::mem::take(&mut self.changed).iter()),
        });
        changes
    }

    fn model(&mut self, model: &Model, event: &Envelope) -> Vec<Change> {
        let of = event.concerned();
        let purpose = match model {
            Model::Requested { purpose, .. } => *purpose,
            _ if self.titles.contains(&of) => Purpose::Title,
            _ if self.compactions.contains(&of) => Purpose::Compaction,
            _ => Purpose::Turn,
        };
        match model {
            Model::Requested { model, step, attempt, .. } => {
                let request = Request {
                    session: event.session,
                    seq: event.seq,
                    since: event.at,
                    turn: self.turn_seq(),
                    agent: self.agent.clone(),
                    model: model.clone(),
                    purpose,
                    step: *step,
                    attempt: *attempt,
                    first: None,
                    text_at: None,
                };
                self.requests.insert(event.seq, request);
            }
            Model::Streamed { .. } => {
                if let Some(request) = self.requests.get_mut(&of) {
                    request.first.get_or_insert(event.at);
                }
            }
            Model::Finished { usage, cost, .. } => {
                self.requests.remove(&of);
                self.usage += *usage;
                self.cost += cost;
            }
            Model::Failed { .. } => drop(self.requests.remove(&of)),
            Model::RetryScheduled { .. } => {}
        }
        match model {
            Model::Requested { .. }
                if matches!(purpose, Purpose::Title | Purpose::SessionSummary) =>
            {
                self.titles.insert(event.seq);
                Vec::new()
            }
            _ if purpose == Purpose::Title => Vec::new(),
            Model::Requested { model, step, attempt, .. } => {
                self.requested(model, (*step, *attempt), purpose, event)
            }
            Model::Streamed { parts } => {
                let shown = parts.iter().filter(|part| !part.text.is_empty());
                shown.flat_map(|part| self.streamed(of, part, purpose, event.at)).collect()
            }
            Model::Finished { finish, usage, cost, .. } => {
                self.request = None;
                self.writing.clear();
                let ended = self.end_part(of, event.at);
                if purpose == Purpose::Turn {
                    self.finish = Some(*finish);
                    self.context_used = Some(usage.total());
                }
                if let Some(reply) = self.reply(of) {
                    (reply.finish, reply.usage, reply.cost) = (Some(*finish), *usage, *cost);
                    reply.ended = Some(event.at);
                    if !finish.is_cut_off() {
                        reply.trim();
                    }
                }
                ended.into_iter().chain([Change::Replied { usage: *usage, purpose }]).collect()
            }
            Model::Failed { class, message, status, retryable, .. } => {
                self.request = None;
                self.writing.clear();
                let ended = self.end_part(of, event.at);
                if let Some(reply) = self.reply(of) {
                    reply.ended = Some(event.at);
                    reply.failure = Some(Failure {
                        class: *class,
                        message: message.clone(),
                        status: *status,
                        retryable: *retryable,
                    });
                }
                ended.into_iter().chain([Change::RequestFailed]).collect()
            }
            Model::RetryScheduled { attempt, error } => {
                self.retried((attempt.saturating_add(1), error), purpose, event.until)
            }
        }
    }

    fn requested(
        &mut self,
        model: &ModelRef,
        (step, attempt): (u32, u32),
        purpose: Purpose,
        event: &Envelope,
    ) -> Vec<Change> {
        let (seq, at) = (event.seq, event.at);
        self.request = Some(seq);
        (self.retry, self.shown) = (None, (false, false));
        self.parts.clear();
        self.part_is_open = false;
        self.writing.clear();
        if purpose == Purpose::Compaction {
            self.compactions.insert(seq);
        } else if self.keeps_messages {
            let (model, agent) = (model.clone(), self.agent.clone());
            let reply = Reply { seq, at, model, agent, step, attempt, ..Reply::default() };
            self.messages.push(Message::Assistant(reply));
        }
        vec![Change::Requested(purpose)]
    }

    fn streamed(
        &mut self,
        request: Seq,
        piece: &StreamedPart,
        purpose: Purpose,
        at: Time,
    ) -> Vec<Change> {
        let (kind, id) = (piece.kind, &piece.id);
        match kind {
            PartKind::Text => {
                self.shown.0 = true;
                if let Some(request) = self.requests.get_mut(&request) {
                    request.text_at = Some(at);
                }
            }
            PartKind::Reasoning => self.shown.1 = true,
        }
        let mut changes = Vec::new();
        if !self.parts.iter().any(|(known, of)| *known == kind && of == id) {
            changes.extend(self.end_part(request, at));
            self.parts.push((kind, id.clone()));
            self.part_is_open = true;
            changes.push(Change::PartStarted { request, kind, id: id.clone() });
        }
        if let Some(reply) = self.reply(request) {
            reply.append(piece, at);
        }
        changes.push(Change::Streamed { request, kind, text: piece.text.clone(), purpose });
        changes
    }

    /// Ends the part that streams, if there is one: another part begins, or the reply to `request` ends.
    fn end_part(&mut self, request: Seq, at: Time) -> Option<Change> {
        let open = std::mem::take(&mut self.part_is_open);
        let (kind, id) = self.parts.last().filter(|_| open).cloned()?;
        if let Some(reply) = self.reply(request)
            && let Some(part) = reply.part_mut(kind, &id)
        {
            part.until = Some(at);
        }
        Some(Change::PartEnded { request, kind, id })
    }

    /// Ends the part that streams, because nothing more of the pending request follows.
    fn end_part_of_request(&mut self) -> Option<Change> {
        self.request.and_then(|request| self.end_part(request, self.at))
    }

    fn retried(
        &mut self,
        (attempt, error): (u32, &str),
        purpose: Purpose,
        until: Option<Time>,
    ) -> Vec<Change> {
        let part_ended = self.end_part_of_request();
        let (void_text, void_reasoning) = std::mem::take(&mut self.shown);
        let error = error.to_owned();
        self.retry = until.map(|until| Retry { attempt, until, error: error.clone() });
        let last = self.messages.iter_mut().rev().find_map(|message| match message {
            Message::Assistant(reply) => Some(reply),
            Message::User(_) | Message::Summary { .. } => None,
        });
        if let Some(reply) = last.filter(|_| purpose == Purpose::Turn) {
            // With a call, the reply counts as far as it got.
            reply.void = !reply.parts.iter().any(|part| matches!(part, ReplyPart::Call(_)));
        }
        let retry = Change::Retry { attempt, error, until, void_text, void_reasoning, purpose };
        part_ended.into_iter().chain([retry]).collect()
    }

    fn reply(&mut self, request: Seq) -> Option<&mut Reply> {
        self.messages.iter_mut().rev().find_map(|message| match message {
            Message::Assistant(reply) if reply.seq == request => Some(reply),
            Message::Assistant(_) | Message::User(_) | Message::Summary { .. } => None,
        })
    }

    fn called(&mut self, spec: &CallSpec, parent: Option<Seq>, event: &Envelope) -> Vec<Change> {
        let seq = event.seq;
        let call = Call {
            session: event.session,
            seq,
            at: event.at,
            turn: self.turn_seq(),
            by: event.of,
            id: spec.id.clone(),
            name: spec.name.clone(),
            input: spec.input.value(),
            known: true,
            parent,
            ..Call::default()
        };
        self.calls.insert(seq, call);
        if self.keeps_messages {
            self.place_call(seq, parent, event);
        }
        vec![Change::Call { call: seq, step: CallStep::Called }]
    }

    /// Puts a call into the reply that made it, or into the reply of its parent call.
    fn place_call(&mut self, call: Seq, parent: Option<Seq>, event: &Envelope) {
        let Some(of) = event.of else { return };
        let reply = self.messages.iter_mut().rev().find_map(|message| match message {
            Message::Assistant(reply) => {
                (reply.seq == of || reply.parts.contains(&ReplyPart::Call(of))).then_some(reply)
            }
            Message::User(_) | Message::Summary { .. } => None,
        });
        match reply {
            Some(reply) => reply.parts.push(ReplyPart::Call(call)),
            None if parent.is_some() => {
                self.messages.push(Message::Assistant(Reply {
                    seq: call,
                    at: event.at,
                    model: self.model.clone().unwrap_or_default(),
                    agent: self.agent.clone(),
                    parts: vec![ReplyPart::Call(call)],
                    ended: Some(event.at),
                    ..Reply::default()
                }));
            }
            None => {}
        }
    }

    /// The call of an event whose `of` names the call itself or an intent about it.
    pub fn call_of(&self, of: Seq) -> Seq {
        self.links.get(&of).copied().unwrap_or(of)
    }

    /// The first event of the current turn.
    pub fn turn_seq(&self) -> Option<Seq> {
        self.turn.as_ref().map(|turn| turn.seq)
    }

    fn call_mut(&mut self, seq: Seq) -> &mut Call {
        self.calls.entry(seq).or_insert_with(|| Call { seq, ..Call::default() })
    }

    fn tool(&mut self, tool: &Tool, event: &Envelope) -> Vec<Change> {
        let Some(of) = event.of else { return Vec::new() };
        let call = self.call_of(of);
        match tool {
            Tool::Called { call } => {
                let ended = self.end_part(of, event.at);
                self.writing.retain(|writing| writing.id != call.id);
                ended.into_iter().chain(self.called(call, None, event)).collect()
            }
            Tool::Batched { call } => self.called(call, Some(of), event),
            Tool::InputStreamed { calls } => {
                let ended = self.end_part(of, event.at);
                self.writing.clone_from(calls);
                let inputs = calls.iter().cloned();
                let inputs = inputs.map(|input| Change::InputStreamed { request: of, input });
                ended.into_iter().chain(inputs).collect()
            }
            Tool::ResolveStarted { .. } => {
                self.links.insert(event.seq, of);
                Vec::new()
            }
            Tool::Resolved(resolution) => self.resolved(call, resolution, event.at),
            Tool::Started { .. } | Tool::StartedSandboxed(_) => {
                self.links.insert(event.seq, of);
                let running = self.call_mut(of);
                running.started = Some(event.at);
                running.change = None;
                vec![Change::Call { call: of, step: CallStep::Running }]
            }
            Tool::Progressed { tail } => {
                self.call_mut(call).tail.clone_from(tail);
                vec![Change::Call { call, step: CallStep::Progressed }]
            }
            Tool::Finished(finished) => {
                let finished = Arc::new((**finished).clone());
                if let Some(known) = self.calls.get_mut(&call).filter(|call| call.known) {
                    known.metadata = Some(finished.metadata.value());
                }
                self.end_run(call, Outcome::Finished(finished), event.at)
            }
            Tool::Lost { .. } => self.end_run(of, Outcome::Lost, event.at),
            Tool::Cancelled { .. } => self.end_run(of, Outcome::Cancelled, event.at),
            Tool::ElicitationRequested {
                elicitation,
                from,
                message,
                wanted: Wanted::Permission { .. },
            } => {
                let wants = (from.clone(), message.clone());
                self.call_mut(call).wants.insert(*elicitation, wants);
                Vec::new()
            }
            Tool::ElicitationRequested { elicitation, from, message, wanted } => {
                let fields = form::fields(message, wanted).unwrap_or_default().into_iter();
                let asks =
                    fields.map(|field| (Question::of_field(*elicitation, from, field), false));
                self.call_mut(call).asks.extend(asks);
                Vec::new()
            }
            Tool::ElicitationAnswered { elicitation, .. } => {
                let asking = self.call_mut(of);
                asking.asks.retain(|(question, _)| !question.belongs_to(*elicitation));
                asking.wants.remove(elicitation);
                if let Some(open) = self.question_in_run(of) {
                    self.close_question(open);
                }
                vec![Change::Call { call: of, step: CallStep::Running }]
            }
        }
    }

    fn resolved(&mut self, seq: Seq, resolution: &Resolution, at: Time) -> Vec<Change> {
        let call = self.call_mut(seq);
        call.resolved = Some(at);
        call.name.clone_from(&resolution.name);
        call.input = resolution.input.value();
        if let Some(error) = &resolution.error {
            return self.end_call(seq, Outcome::Unresolved(error.clone()), at);
        }
        call.class = Some(resolution.class);
        call.paths.clone_from(&resolution.paths);
        call.access.clone_from(&resolution.access);
        if resolution.access.iter().any(|access| access.permission == question::PERMISSION)
            && let Some(questions) = question::of_tool(&call.input)
        {
            call.asks = questions.into_iter().map(|question| (question, false)).collect();
        }
        if resolution.class == Class::Write {
            call.change = Some(Arc::new(resolution.clone()));
        }
        vec![Change::Call { call: seq, step: CallStep::Resolved }]
    }

    /// Ends a call that may have been running, and its open question.
    fn end_run(&mut self, call: Seq, outcome: Outcome, at: Time) -> Vec<Change> {
        let asking = self.question_in_run(call);
        let mut changes = self.end_call(call, outcome, at);
        changes.extend(asking.map(Change::QuestionClosed));
        changes
    }

    fn end_call(&mut self, seq: Seq, outcome: Outcome, at: Time) -> Vec<Change> {
        let keeps_messages = self.keeps_messages;
        let call = self.call_mut(seq);
        let first = call.ended.is_none();
        call.ended.get_or_insert(at);
        call.tail.clear();
        if keeps_messages && first {
            call.outcome = Some(outcome.clone());
        }
        let questions = &self.questions;
        self.open.retain(|open| questions.get(open).is_none_or(|open| open.call != seq));
        vec![Change::Call { call: seq, step: CallStep::Ended { outcome, first } }]
    }

    /// The question that a running call waits for.
    fn question_in_run(&self, call: Seq) -> Option<Seq> {
        let mut open = self.open_questions().filter(|open| open.call == call);
        open.find(|open| open.is_in_run()).map(|open| open.id.1)
    }

    fn is_in_run(&self, question: Seq) -> bool {
        self.questions.get(&question).is_some_and(OpenQuestion::is_in_run)
    }

    /// Closes a question, and answers whether it was open.
    fn close_question(&mut self, seq: Seq) -> bool {
        let before = self.open.len();
        self.open.retain(|open| *open != seq);
        self.open.len() < before
    }

    fn permission(&mut self, event: &Permission, envelope: &Envelope) -> Vec<Change> {
        let Some(of) = envelope.of else { return Vec::new() };
        let at = envelope.at;
        match event {
            Permission::Ruled { action, rule, .. } => {
                if let Some(call) = self.calls.get_mut(&of) {
                    call.verdict = Some((*action, rule.clone()));
                }
                match action {
                    Action::Deny => self.end_call(of, Outcome::Denied, at),
                    Action::Allow | Action::Ask => Vec::new(),
                }
            }
            Permission::Asked { permission, patterns, always, .. } => {
                self.links.insert(envelope.seq, of);
                let id = (self.id, envelope.seq);
                let (permission, patterns, always) =
                    (permission.clone(), patterns.clone(), always.clone());
                let access = Access { permission, patterns, always };
                let needs = self.calls.get(&of).map(|call| call.access.as_slice());
                let rule = self.rules.asking(&access, needs.unwrap_or_default(), &self.approved);
                let Access { permission, patterns, always } = access;
                let call = self.call_mut(of);
                call.asked = true;
                let in_words = permission == question::PERMISSION;
                let wants = call.wants.values().next().filter(|_| !in_words).cloned();
                let by = wants.as_ref().map(|(by, _)| by.clone());
                let question = OpenQuestion {
                    id,
                    at: envelope.at,
                    call: of,
                    question: in_words.then(|| call.next_question(&patterns)),
                    permission,
                    patterns,
                    always,
                    change: call.change.clone().filter(|_| !in_words),
                    arguments: match wants {
                        _ if in_words => Vec::new(),
                        Some(wants) => vec![wants],
                        None => words::arguments(&call.name, &call.input),
                    },
                    by,
                    rule,
                };
                self.questions.insert(envelope.seq, question);
                self.open.push(envelope.seq);
                vec![Change::Asked(envelope.seq)]
            }
            Permission::Answered { reply, by, feedback }
            | Permission::AnsweredFor { reply, by, feedback, .. }
            | Permission::RejectedWith { reply, by, feedback, .. } => {
                if let Permission::AnsweredFor { always, .. } = event
                    && let Some(question) = self.questions.get_mut(&of)
                {
                    question.always.clone_from(always);
                }
                if *reply == Answer::Always
                    && let Some(asked) = self.questions.get(&of)
                {
                    let allowed =
                        |pattern: &String| Rule::new(&asked.permission, pattern, Action::Allow);
                    self.approved.extend(asked.always.iter().map(allowed));
                }
                self.close_question(of);
                let (reply, by, feedback) = (*reply, by.clone(), feedback.clone());
                let rejected = reply == Answer::Reject && !self.is_in_run(of);
                let outcome = rejected.then(|| Outcome::Rejected {
                    by: by.clone(),
                    feedback: feedback.clone(),
                    in_words: self.question(of).is_some_and(|asked| asked.question.is_some()),
                });
                let answered = Change::Answered { question: of, reply, feedback, by };
                let mut changes = vec![Change::QuestionClosed(of), answered];
                if let Some(outcome) = outcome {
                    changes.extend(self.end_call(self.call_of(of), outcome, at));
                }
                changes
            }
        }
    }

    fn compaction(&mut self, event: &Compaction, envelope: &Envelope) -> Vec<Change> {
        let end = match event {
            Compaction::Started { .. } => {
                self.compaction = Some(envelope.seq);
                return vec![Change::CompactionStarted(envelope.seq)];
            }
            Compaction::Finished { summary } => {
                self.context_used = None;
                if self.keeps_messages {
                    let (seq, at, text) = (envelope.seq, envelope.at, summary.clone());
                    self.messages.push(Message::Summary { seq, at, text });
                }
                CompactionEnd::Finished { summary: summary.clone() }
            }
            Compaction::Failed { message } => CompactionEnd::Failed { message: message.clone() },
            Compaction::Asked { by } | Compaction::AskedWith { by, .. } => {
                return vec![Change::CompactionAsked { by: by.clone() }];
            }
            _ => return Vec::new(),
        };
        vec![Change::CompactionEnded { compaction: self.compaction.take(), end }]
    }

    fn files_event(&mut self, files: &Files, seq: Seq, at: Time) -> Vec<Change> {
        let mut changes: Vec<Change> =
            file_changes::notices(files).into_iter().map(Change::Notice).collect();
        match files {
            Files::SnapshotStarted {} => {
                self.files = Some(FilesJob { seq, since: at, restores: false });
            }
            Files::RestoreStarted { to, .. } => {
                self.files = Some(FilesJob { seq, since: at, restores: true });
                self.restoring = *to;
            }
            Files::Snapshotted { files, .. } => {
                self.files = None;
                self.changed.extend(files.iter().cloned());
            }
            Files::Restored { .. } => {
                self.files = None;
                self.reverted = self.restoring.take();
                if self.turn.is_some() {
                    self.drop_reverted();
                }
                changes.push(Change::Restored(Ok(())));
            }
            _ => {}
        }
        if let Some(message) = files.failure() {
            self.files = None;
            changes.push(Change::Restored(Err(message.to_owned())));
        }
        changes
    }

    /// Removes reverted messages for good.
    fn drop_reverted(&mut self) {
        if let Some(from) = self.reverted.take() {
            self.messages.retain(|message| message.seq() < from);
        }
    }

    fn plugin(&mut self, plugin: &Hook, event: &Envelope) -> Vec<Change> {
        match plugin {
            Hook::Called { hook: HookPoint::ToolAfter, .. } => {
                self.links.extend(event.of.map(|of| (event.seq, of)));
                Vec::new()
            }
            Hook::Returned { output, .. } => {
                let notice = plugin_notice(plugin).map(Change::Notice);
                let call = self.call_of(event.concerned());
                notice.into_iter().chain(self.revised(call, output)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Applies a plugin's change of a call's result.
    fn revised(&mut self, seq: Seq, output: &Json) -> Option<Change> {
        let call = self.calls.get_mut(&seq).filter(|call| call.known)?;
        let changed = output.value();
        let title = changed["title"].as_str().map(str::to_owned);
        let metadata = changed["metadata"].is_object().then(|| {
            let metadata = call.metadata.get_or_insert_with(|| json!({}));
            request_builder::merge(metadata, &changed["metadata"]);
            metadata.clone()
        });
        if title.is_none() && metadata.is_none() {
            return None;
        }
        if title.is_some() {
            call.title.clone_from(&title);
        }
        Some(Change::Call { call: seq, step: CallStep::Revised { title, metadata } })
    }
}

impl Reply {
    /// Appends a piece to the part with its id.
    fn append(&mut self, piece: &StreamedPart, at: Time) {
        if let Some(known) = self.part_mut(piece.kind, &piece.id) {
            known.text.push_str(&piece.text);
            return;
        }
        let (id, text) = (piece.id.clone(), piece.text.clone());
        let part = PartText { id, text, since: at, until: None };
        self.parts.push(match piece.kind {
            PartKind::Text => ReplyPart::Text(part),
            PartKind::Reasoning => ReplyPart::Reasoning(part),
        });
    }

    fn part_mut(&mut self, wanted: PartKind, id: &str) -> Option<&mut PartText> {
        self.parts.iter_mut().find_map(|part| match (part, wanted) {
            (ReplyPart::Text(text), PartKind::Text)
            | (ReplyPart::Reasoning(text), PartKind::Reasoning) => (text.id == id).then_some(text),
            (ReplyPart::Text(_) | ReplyPart::Reasoning(_) | ReplyPart::Call(_), _) => None,
        })
    }

    /// Removes white space at the end of its last text, as requests and `turn.ended` do.
    fn trim(&mut self) {
        let last = self.parts.iter_mut().rev().find_map(|part| match part {
            ReplyPart::Text(part) => Some(&mut part.text),
            ReplyPart::Reasoning(_) | ReplyPart::Call(_) => None,
        });
        if let Some(text) = last {
            text.truncate(text.trim_end().len());
        }
    }
}

/// The texts of a prompt as a person has typed them.
fn typed(parts: &[PromptPart]) -> String {
    let typed = as_typed(parts);
    let texts = typed.iter().filter(|part| part.kind != PromptKind::Media);
    texts.map(|part| part.text.as_str()).collect::<Vec<_>>().join("\n\n")
}

/// A warning for people about a plugin with problems.
fn plugin_notice(event: &Hook) -> Option<String> {
    let Hook::Returned { outcome, message: Some(message), .. } = event else { return None };
    let without = if outcome.cuts_off() { "; the turn continues without it" } else { "" };
    Some(format!("[warning: {}{without}]", words::first_line(message)))
}

/// The line for a turn that goes on by itself.
fn continued(finish: Finish) -> &'static str {
    match finish {
        Finish::Length => "[the reply was cut off at the output limit: the model continues]",
        Finish::Stop => {
            "[the answer does not have the form that was asked for: the model is asked again]"
        }
        _ => "[the reply ended for an unknown reason: the model continues]",
    }
}
