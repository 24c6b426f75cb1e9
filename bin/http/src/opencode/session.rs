//! One session: its own object, its status and questions, and its messages as clients know them.

use std::collections::{BTreeMap, HashMap};

use leftfold_events::event::{
    Compaction, EndReason, Event, FileChange, Files, Model, ModelRef, Purpose, Session,
    SessionChoices, Tool, Turn,
};
use leftfold_events::{Envelope, Json, Seq, SessionId, Sha256, Time};
use leftfold_view::{
    Change, CompactionEnd, Message, OpenQuestion, Reply, SessionView, Status, SubagentStatus,
};
use serde_json::{Value, json};

use super::frame::Frame;
use super::ids::{self, Ids};
use super::message::{self, Failure, Folders, MessageFacts, PartKey, Rendered};

/// Messages at the end of a session in which anything can still change.
const RECENT: usize = 100;

/// A session as clients know it after the last event applied.
#[derive(Debug)]
pub(crate) struct SessionProjection {
    id: SessionId,
    ids: Ids,
    folders: Folders,
    parent: Option<SessionId>,
    version: String,
    created: Time,
    choices: SessionChoices,
    /// Lines added and deleted in each file, from snapshots.
    changed: BTreeMap<String, (u64, u64)>,
    /// When the arguments of calls were complete.
    resolved: HashMap<Seq, Time>,
    /// Facts about replies, by the seq of the request.
    facts: HashMap<Seq, MessageFacts>,
    /// The ids that clients gave to prompts and their parts, until the message is made.
    given: HashMap<Seq, Given>,
    messages: Vec<ProjectedMessage>,
    /// The ids of questions, by their seqs.
    questions: HashMap<Seq, String>,
    /// Whether its open turn was cut off, and nobody has resumed it yet.
    is_cut_off: bool,
    /// Whether the last compaction began by itself.
    is_auto: bool,
    /// The session as it was sent last, and its status.
    info: Value,
    status: Value,
}

/// The members of a prompt that only its client knows.
#[derive(Debug, Default)]
struct Given {
    id: Option<String>,
    parts: Value,
}

/// A message as it was sent last.
#[derive(Debug)]
pub(crate) struct ProjectedMessage {
    key: MessageKey,
    pub(crate) id: String,
    pub(crate) info: Value,
    parts: Vec<ProjectedPart>,
    is_complete: bool,
}

#[derive(Debug)]
struct ProjectedPart {
    key: PartKey,
    id: String,
    value: Value,
}

/// The event that a message comes from. A summary makes two messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageKey {
    Prompt(Seq),
    Reply(Seq),
    Compaction(Seq),
    Summary(Seq),
}

impl MessageKey {
    fn seq(self) -> Seq {
        let (Self::Prompt(seq) | Self::Reply(seq) | Self::Compaction(seq) | Self::Summary(seq)) =
            self;
        seq
    }
}

impl ProjectedMessage {
    /// `{info, parts}`, as lists of messages have it.
    pub(crate) fn whole(&self) -> Value {
        let parts: Vec<&Value> = self.parts.iter().map(|part| &part.value).collect();
        json!({ "info": self.info, "parts": parts })
    }
}

impl SessionProjection {
    pub(super) fn new(id: SessionId) -> Self {
        Self {
            id,
            ids: Ids::new(id),
            folders: Folders::default(),
            parent: None,
            version: String::new(),
            created: id.created(),
            choices: SessionChoices::default(),
            changed: BTreeMap::new(),
            resolved: HashMap::new(),
            facts: HashMap::new(),
            given: HashMap::new(),
            messages: Vec::new(),
            questions: HashMap::new(),
            is_cut_off: false,
            is_auto: true,
            info: Value::Null,
            status: json!({ "type": "idle" }),
        }
    }

    /// The session's object.
    pub(crate) fn info(&self) -> &Value {
        &self.info
    }

    pub(crate) fn status(&self) -> &Value {
        &self.status
    }

    /// Whether its open turn was cut off, and nobody has resumed it yet.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off
    }

    /// The files that the session has changed, as far as snapshots tell.
    pub(crate) fn changed_files(&self) -> Value {
        let files = self.changed.iter().map(|(path, (additions, deletions))| {
            json!({ "file": path, "additions": additions, "deletions": deletions })
        });
        files.collect()
    }

    pub(crate) fn directory(&self) -> &str {
        &self.folders.directory
    }

    pub(crate) fn messages(&self) -> &[ProjectedMessage] {
        &self.messages
    }

    pub(crate) fn message(&self, id: &str) -> Option<&ProjectedMessage> {
        self.messages.iter().find(|message| message.id == id)
    }

    /// The event that a message comes from.
    pub(crate) fn seq_of(&self, id: &str) -> Option<Seq> {
        self.message(id).map(|message| message.key.seq())
    }

    /// The question with this id.
    pub(crate) fn question(&self, id: &str) -> Option<Seq> {
        self.questions.iter().find(|(_, known)| *known == id).map(|(seq, _)| *seq)
    }

    /// Applies an event that the view has just applied.
    pub(super) fn follow(
        &mut self,
        event: &Envelope,
        view: &SessionView,
        changes: &[Change],
        subagent: Option<&SubagentStatus>,
    ) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.learn(event, view);
        self.remove_dropped(view, &mut frames);
        self.add_messages(event.at, view, &mut frames);
        let called = changes.iter().filter_map(|change| {
            let Change::Call { call, .. } = change else { return None };
            Some(*call)
        });
        self.update_messages(view, &called.collect::<Vec<_>>(), &mut frames);
        for change in changes {
            self.announce(change, event, view, &mut frames);
        }
        self.update_session(event, view, subagent, &mut frames);
        frames
    }

    /// Shows that nobody runs the session's open turn.
    pub(super) fn cut_off(&mut self, view: &SessionView) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.is_cut_off = true;
        self.update_messages(view, &[], &mut frames);
        self.update_status(view, &mut frames);
        frames
    }

    /// The facts of an event that the view does not keep.
    fn learn(&mut self, event: &Envelope, view: &SessionView) {
        let (of, at) = (event.of.unwrap_or_default(), event.at);
        match &event.event {
            Event::Session(Session::Created { directory, worktree, parent, version, .. }) => {
                self.folders = Folders { directory: directory.clone(), worktree: worktree.clone() };
                (self.parent, self.created) = (*parent, at);
                self.version.clone_from(version);
            }
            Event::Session(Session::Forked { .. }) => (self.parent, self.created) = (None, at),
            Event::Session(Session::Adopted { parent }) => self.parent = Some(*parent),
            Event::Session(Session::Configured { choices, .. }) => {
                self.choices.clone_from(choices);
            }
            Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. }) => {
                self.is_cut_off = false;
            }
            Event::Turn(Turn::Prompted { .. } | Turn::Noted { .. }) => {
                let id = event.notes.client.clone().filter(|id| ids::is_given(id, "msg"));
                let parts = event.notes.parts.as_ref().map(Json::value).unwrap_or_default();
                self.given.insert(event.seq, Given { id, parts });
            }
            Event::Turn(Turn::Ended(ended)) => {
                let open = self.messages.iter().filter(|message| !message.is_complete);
                for message in open {
                    let facts = self.facts.entry(message.key.seq()).or_default();
                    facts.cut = Some((ended.reason, ended.error.clone()));
                }
            }
            Event::Model(Model::Requested { purpose: Purpose::Turn, .. }) => {
                self.facts.entry(event.seq).or_default().agent.clone_from(&view.agent);
            }
            Event::Model(Model::Finished { .. }) => {
                self.facts.entry(of).or_default().ended = Some(at);
            }
            Event::Model(Model::Failed { class, message, status, retryable, .. }) => {
                let facts = self.facts.entry(of).or_default();
                facts.ended = Some(at);
                facts.failure = Some(Failure {
                    class: *class,
                    message: message.clone(),
                    status: *status,
                    retryable: *retryable,
                });
            }
            Event::Tool(Tool::Resolved(_)) => {
                // the outcome of an intent about the call
                self.resolved.insert(view.call_of(of), at);
            }
            Event::Files(Files::Snapshotted { tree, files, .. }) => self.snapshotted(tree, files),
            Event::Compaction(Compaction::Started { auto, .. }) => self.is_auto = *auto,
            Event::Session(_)
            | Event::Turn(_)
            | Event::Model(_)
            | Event::Tool(_)
            | Event::Permission(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Hook(_) => {}
        }
    }

    fn snapshotted(&mut self, tree: &str, files: &[FileChange]) {
        if files.is_empty() {
            return;
        }
        for file in files {
            let lines = self.changed.entry(file.path.clone()).or_default();
            *lines = (lines.0 + file.additions, lines.1 + file.deletions);
        }
        let last =
            self.messages.iter_mut().rfind(|message| matches!(message.key, MessageKey::Reply(_)));
        if let Some(last) = last {
            last.is_complete = false;
            let worktree = std::path::Path::new(&self.folders.worktree);
            let paths = files.iter().map(|file| worktree.join(&file.path).display().to_string());
            let facts = self.facts.entry(last.key.seq()).or_default();
            facts.patch = Some((tree.to_owned(), paths.collect()));
        }
    }

    /// Removes messages that a prompt after a revert has dropped.
    fn remove_dropped(&mut self, view: &SessionView, frames: &mut Vec<Frame>) {
        let last = view.all_messages().next_back().map_or(0, Message::seq);
        while let Some(message) = self.messages.pop_if(|message| message.key.seq() > last) {
            let properties =
                json!({ "sessionID": ids::of_session(self.id), "messageID": message.id });
            frames.push(Frame::new(self.id, "message.removed", properties));
        }
    }
}

impl SessionProjection {
    fn add_messages(&mut self, at: Time, view: &SessionView, frames: &mut Vec<Frame>) {
        let last = self.messages.last().map_or(0, |message| message.key.seq());
        let mut new: Vec<&Message> =
            view.all_messages().rev().take_while(|message| message.seq() > last).collect();
        new.reverse();
        for message in new {
            match message {
                Message::User(prompt) => {
                    let given = self.given.remove(&prompt.seq).unwrap_or_default();
                    let rendered = message::of_prompt(prompt, &given.parts);
                    let id = given.id.unwrap_or_else(|| self.ids.next("msg", prompt.seq, at));
                    self.ids.pass(&id, at);
                    self.add_as(id, MessageKey::Prompt(prompt.seq), at, rendered, frames);
                }
                Message::Assistant(reply) => self.add_reply(reply, at, view, frames),
                Message::Summary { seq, text, .. } => {
                    let (agent, folders) = (view.agent.as_str(), self.folders.clone());
                    let model = view.model.clone().unwrap_or_default();
                    let asked = message::of_compaction(at, agent, &model, self.is_auto);
                    self.add(MessageKey::Compaction(*seq), at, asked, frames);
                    let summary = message::of_summary(at, text, agent, &model, &folders);
                    self.add(MessageKey::Summary(*seq), at, summary, frames);
                }
            }
        }
    }

    /// A reply after a failed attempt takes the failed one's place.
    fn add_reply(&mut self, reply: &Reply, at: Time, view: &SessionView, frames: &mut Vec<Frame>) {
        let failed = self.messages.last_mut().filter(|_| reply.attempt > 1);
        let failed = failed.filter(|last| {
            matches!(last.key, MessageKey::Reply(seq) if view.reply_to(seq).is_some_and(|reply| reply.void))
        });
        if let Some(last) = failed {
            let before = self.facts.remove(&last.key.seq()).unwrap_or_default();
            let facts = self.facts.entry(reply.seq).or_default();
            facts.retries = before.retries;
            let why = before.failure.map(|failure| failure.message).unwrap_or_default();
            facts.retries.push((reply.attempt - 1, why, at));
            (last.key, last.is_complete) = (MessageKey::Reply(reply.seq), false);
            return;
        }
        let rendered = self.render_reply(reply, view);
        self.add(MessageKey::Reply(reply.seq), at, rendered, frames);
    }

    fn add(&mut self, key: MessageKey, at: Time, rendered: Rendered, frames: &mut Vec<Frame>) {
        let id = self.ids.next("msg", key.seq(), at);
        self.add_as(id, key, at, rendered, frames);
    }

    fn add_as(
        &mut self,
        id: String,
        key: MessageKey,
        at: Time,
        rendered: Rendered,
        frames: &mut Vec<Frame>,
    ) {
        self.messages.push(ProjectedMessage {
            key,
            id,
            info: Value::Null,
            parts: Vec::new(),
            is_complete: false,
        });
        self.update(self.messages.len() - 1, at, rendered, frames);
    }

    fn render_reply(&self, reply: &Reply, view: &SessionView) -> Rendered {
        let mut facts = self.facts.get(&reply.seq).cloned().unwrap_or_default();
        if self.is_cut_off && facts.cut.is_none() {
            facts.cut = Some((EndReason::Aborted, None));
        }
        let since = |call| self.resolved.get(&call).copied();
        message::of_reply(reply, view, &facts, since, &self.folders)
    }

    /// Renders the replies that are not complete, and those of changed calls, and sends the changes.
    fn update_messages(&mut self, view: &SessionView, called: &[Seq], frames: &mut Vec<Frame>) {
        let is_touched = |message: &ProjectedMessage| {
            let has = |part: &ProjectedPart| matches!(part.key, PartKey::Call(call) if called.contains(&call));
            !message.is_complete || (!called.is_empty() && message.parts.iter().any(has))
        };
        let touched: Vec<usize> = (0..self.messages.len())
            .rev()
            .take(RECENT)
            .filter(|index| self.messages.get(*index).is_some_and(is_touched))
            .collect();
        for index in touched.into_iter().rev() {
            let Some(MessageKey::Reply(seq)) = self.messages.get(index).map(|found| found.key)
            else {
                continue;
            };
            let Some(reply) = view.reply_to(seq) else { continue };
            let rendered = self.render_reply(reply, view);
            self.update(index, view.at, rendered, frames);
        }
    }

    /// Sends what has changed in a message.
    fn update(&mut self, index: usize, at: Time, rendered: Rendered, frames: &mut Vec<Frame>) {
        let Rendered { mut info, parts, is_complete } = rendered;
        let prompt = self.messages.get(..index).into_iter().flatten().rfind(|message| {
            matches!(message.key, MessageKey::Prompt(_) | MessageKey::Compaction(_))
        });
        let prompt = prompt.map(|prompt| prompt.id.clone());
        let session = ids::of_session(self.id);
        let Some(message) = self.messages.get_mut(index) else { return };
        info["id"] = message.id.clone().into();
        info["sessionID"] = session.clone().into();
        if info["role"] == "assistant" {
            info["parentID"] = prompt.into();
        }
        message.is_complete = is_complete;
        let is_new = message.info.is_null();
        let changed = message.info != info;
        message.info = info;
        let updated = |message: &ProjectedMessage| {
            let properties = json!({ "sessionID": session, "info": message.info });
            Frame::new(self.id, "message.updated", properties)
        };
        if is_new {
            frames.push(updated(message));
        }
        let mut gone = std::mem::take(&mut message.parts);
        for (key, mut value) in parts {
            let known = gone.iter().position(|part| part.key == key).map(|at| gone.remove(at));
            let (id, before) = match known {
                Some(known) => (known.id, Some(known.value)),
                None => (part_id(&mut self.ids, &value, message.key.seq(), at), None),
            };
            value["id"] = id.clone().into();
            value["sessionID"] = session.clone().into();
            value["messageID"] = message.id.clone().into();
            name_attachments(&mut value);
            send_part(self.id, before.as_ref(), &value, at, frames);
            message.parts.push(ProjectedPart { key, id, value });
        }
        for part in gone {
            let properties =
                json!({ "sessionID": session, "messageID": message.id, "partID": part.id });
            frames.push(Frame::new(self.id, "message.part.removed", properties));
        }
        if changed && !is_new {
            frames.push(updated(message));
        }
    }
}

/// The id that a client has given to its part, or a new one.
fn part_id(ids: &mut Ids, part: &Value, seq: Seq, at: Time) -> String {
    let given = part["id"].as_str().filter(|id| ids::is_given(id, "prt"));
    let id = given.map_or_else(|| ids.next("prt", seq, at), str::to_owned);
    ids.pass(&id, at);
    id
}

/// The attachments of a call are parts of its message too.
fn name_attachments(part: &mut Value) {
    let ids = ["id", "sessionID", "messageID"].map(|name| (name, part[name].clone()));
    let files = part.pointer_mut("/state/attachments").and_then(Value::as_array_mut);
    for file in files.into_iter().flatten() {
        for (name, id) in &ids {
            file[*name] = id.clone();
        }
    }
}

/// Sends a part that has changed. Text that grows is sent as a delta.
fn send_part(
    session: SessionId,
    before: Option<&Value>,
    part: &Value,
    at: Time,
    frames: &mut Vec<Frame>,
) {
    let is_text = matches!(part["type"].as_str(), Some("text" | "reasoning"));
    let text = |part: &Value| part["text"].as_str().unwrap_or_default().to_owned();
    if before == Some(part) {
        return;
    }
    let updated = |part: &Value| {
        let properties =
            json!({ "sessionID": part["sessionID"], "part": part, "time": at.millis() });
        Frame::new(session, "message.part.updated", properties)
    };
    let of_reply = is_text && part["time"].is_object();
    if !of_reply {
        frames.push(updated(part));
        return;
    }
    let (mut known, whole) = (before.map(text).unwrap_or_default(), text(part));
    if before.is_none() {
        let mut empty = part.clone();
        empty["text"] = "".into();
        if let Some(time) = empty["time"].as_object_mut() {
            time.remove("end");
        }
        frames.push(updated(&empty));
    }
    let mut is_sent = false;
    if let Some(delta) = whole.strip_prefix(&known).filter(|delta| !delta.is_empty()) {
        let properties = json!({
            "sessionID": part["sessionID"],
            "messageID": part["messageID"],
            "partID": part["id"],
            "field": "text",
            "delta": delta,
        });
        frames.push(Frame::new(session, "message.part.delta", properties));
        (known, is_sent) = (whole.clone(), true);
    }
    if part["time"].get("end").is_some() || known != whole || !is_sent && before.is_some() {
        frames.push(updated(part));
    }
}

impl SessionProjection {
    /// Sends questions, todos, summaries and errors.
    fn announce(
        &mut self,
        change: &Change,
        event: &Envelope,
        view: &SessionView,
        frames: &mut Vec<Frame>,
    ) {
        let session = ids::of_session(self.id);
        match change {
            Change::Asked(seq) => {
                let Some(open) = view.question(*seq) else { return };
                let prefix = if open.question.is_some() { "que" } else { "per" };
                let id = self.ids.next(prefix, *seq, event.at);
                self.questions.insert(*seq, id);
                frames.extend(self.asked(open));
            }
            Change::Answered { question, reply, feedback, .. } => {
                let Some(id) = self.questions.get(question) else { return };
                let open = view.question(*question);
                let is_permission = open.is_some_and(|open| open.question.is_none());
                let (kind, mut properties) = (
                    if is_permission { "permission.replied" } else { "question.replied" },
                    json!({ "sessionID": session, "requestID": id }),
                );
                match (is_permission, feedback) {
                    (true, _) => properties["reply"] = json!(reply),
                    (false, Some(answer)) => properties["answers"] = json!([[answer]]),
                    (false, None) => {
                        frames.push(Frame::new(self.id, "question.rejected", properties));
                        return;
                    }
                }
                frames.push(Frame::new(self.id, kind, properties));
            }
            Change::QuestionTimedOut(question) => {
                let Some(id) = self.questions.get(question) else { return };
                let properties = json!({ "sessionID": session, "requestID": id });
                frames.push(Frame::new(self.id, "question.rejected", properties));
            }
            Change::Todos => {
                let properties = json!({ "sessionID": session, "todos": view.todos });
                frames.push(Frame::new(self.id, "todo.updated", properties));
            }
            Change::CompactionEnded { end: CompactionEnd::Finished { .. }, .. } => {
                let properties = json!({ "sessionID": session });
                frames.push(Frame::new(self.id, "session.compacted", properties));
            }
            Change::TurnEnded { ended, .. } => {
                let failed = self.messages.last().map(|message| &message.info["error"]);
                let error = failed.filter(|error| !error.is_null()).cloned();
                let error = error.or_else(|| {
                    let text = ended.error.as_ref()?;
                    Some(json!({ "name": "UnknownError", "data": { "message": text } }))
                });
                if let Some(error) = error {
                    let properties = json!({ "sessionID": session, "error": error });
                    frames.push(Frame::new(self.id, "session.error", properties));
                }
            }
            Change::Prompted { .. }
            | Change::Noted { .. }
            | Change::InputStreamed { .. }
            | Change::AgentSwitched { .. }
            | Change::Titled(_)
            | Change::Resumed { .. }
            | Change::Forked
            | Change::Requested(_)
            | Change::Streamed { .. }
            | Change::PartStarted { .. }
            | Change::PartEnded { .. }
            | Change::Replied { .. }
            | Change::RequestFailed
            | Change::Retry { .. }
            | Change::Call { .. }
            | Change::QuestionClosed(_)
            | Change::CompactionAsked { .. }
            | Change::CompactionStarted(_)
            | Change::CompactionEnded { .. }
            | Change::Restored(_)
            | Change::Notice(_) => {}
        }
    }

    /// The open questions, as lists of them have it: permissions and questions of tools.
    pub(super) fn open(&self, view: &SessionView) -> Vec<Frame> {
        view.open_questions().filter_map(|open| self.asked(open)).collect()
    }

    fn asked(&self, open: &OpenQuestion) -> Option<Frame> {
        let id = self.questions.get(&open.id.1)?;
        let session = ids::of_session(self.id);
        let mut properties = json!({ "id": id, "sessionID": session });
        let called = self.messages.iter().rev().take(RECENT).find_map(|message| {
            let part = message.parts.iter().find(|part| part.key == PartKey::Call(open.call))?;
            Some(json!({ "messageID": message.id, "callID": part.value["callID"] }))
        });
        if let Some(called) = called {
            properties["tool"] = called;
        }
        let Some(question) = &open.question else {
            let arguments = open.arguments.iter().map(|(name, value)| {
                let name = if name.is_empty() { "argument" } else { name.as_str() };
                (name.to_owned(), Value::from(value.as_str()))
            });
            properties["permission"] = open.permission.clone().into();
            properties["patterns"] = json!(open.patterns);
            properties["always"] = json!(open.always);
            properties["metadata"] = Value::Object(arguments.collect());
            return Some(Frame::new(self.id, "permission.asked", properties));
        };
        let options: Vec<Value> = question
            .options
            .iter()
            .map(|option| json!({ "label": option.label, "description": option.description }))
            .collect();
        properties["questions"] = json!([{
            "question": question.question,
            "header": question.header,
            "options": options,
            "multiple": question.multiple,
        }]);
        Some(Frame::new(self.id, "question.asked", properties))
    }

    fn update_session(
        &mut self,
        event: &Envelope,
        view: &SessionView,
        subagent: Option<&SubagentStatus>,
        frames: &mut Vec<Frame>,
    ) {
        let before_turn = matches!(event.event, Event::Turn(Turn::Ended(_)));
        if before_turn {
            self.update_status(view, frames);
        }
        let mut info = self.render(view, subagent);
        let mut compared = self.info.clone();
        compared["time"]["updated"] = info["time"]["updated"].clone();
        let kind = if self.info.is_null() { "session.created" } else { "session.updated" };
        if compared != info || before_turn {
            let properties = json!({ "sessionID": info["id"], "info": info });
            frames.push(Frame::new(self.id, kind, properties));
        } else {
            info = compared;
        }
        self.info = info;
        if !before_turn {
            self.update_status(view, frames);
        }
    }

    fn update_status(&mut self, view: &SessionView, frames: &mut Vec<Frame>) {
        let status = match view.status() {
            _ if self.is_cut_off => json!({ "type": "idle" }),
            Status::Idle => json!({ "type": "idle" }),
            Status::Busy { .. } => json!({ "type": "busy" }),
            Status::Retry { attempt, message, next, .. } => json!({
                "type": "retry", "attempt": attempt, "message": message, "next": next.millis(),
            }),
        };
        if status == self.status {
            return;
        }
        self.status = status;
        let session = ids::of_session(self.id);
        let properties = json!({ "sessionID": session, "status": self.status });
        frames.push(Frame::new(self.id, "session.status", properties));
        if self.status["type"] == "idle" {
            let properties = json!({ "sessionID": session });
            frames.push(Frame::new(self.id, "session.idle", properties));
        }
    }

    fn render(&self, view: &SessionView, subagent: Option<&SubagentStatus>) -> Value {
        let id = ids::of_session(self.id);
        let (additions, deletions) =
            self.changed.values().fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
        let mut info = json!({
            "id": id,
            "slug": self.id.to_string().to_lowercase(),
            "projectID": project_id(&self.folders.worktree),
            "directory": self.folders.directory,
            "title": title(view, subagent),
            "agent": view.agent,
            "version": self.version,
            "summary": {
                "additions": additions, "deletions": deletions, "files": self.changed.len(),
            },
            "cost": view.cost,
            "tokens": super::part::tokens(&view.usage),
            "time": { "created": self.created.millis(), "updated": view.at.millis() },
        });
        if let Some(parent) = self.parent {
            info["parentID"] = ids::of_session(parent).into();
        }
        if let Some(model) = self.choices.model.as_ref().or(view.model.as_ref()) {
            info["model"] = model_of_session(model, self.choices.variant.as_deref());
        }
        if let Some(first) = view.reverted() {
            let hidden = self.messages.iter().find(|message| message.key.seq() >= first);
            if let Some(hidden) = hidden {
                info["revert"] = json!({ "messageID": hidden.id });
            }
        }
        info
    }

    /// The session's state as frames: itself, its newest `limit` messages, todos, status and questions.
    pub(super) fn snapshot(&self, view: &SessionView, limit: usize) -> Vec<Frame> {
        let session = ids::of_session(self.id);
        let session_updated = json!({ "sessionID": session, "info": self.info });
        let mut frames = vec![Frame::new(self.id, "session.updated", session_updated)];
        let skipped = self.messages.len().saturating_sub(limit);
        for message in self.messages.iter().skip(skipped) {
            let properties = json!({ "sessionID": session, "info": message.info });
            frames.push(Frame::new(self.id, "message.updated", properties));
            for part in &message.parts {
                let time = view.at.millis();
                let properties = json!({ "sessionID": session, "part": part.value, "time": time });
                frames.push(Frame::new(self.id, "message.part.updated", properties));
            }
        }
        if !view.todos.is_empty() {
            let properties = json!({ "sessionID": session, "todos": view.todos });
            frames.push(Frame::new(self.id, "todo.updated", properties));
        }
        let status = json!({ "sessionID": session, "status": self.status });
        frames.push(Frame::new(self.id, "session.status", status));
        if !self.is_cut_off {
            frames.extend(self.open(view));
        }
        frames
    }
}

fn model_of_session(model: &ModelRef, variant: Option<&str>) -> Value {
    let mut known = json!({ "id": model.id, "providerID": model.provider });
    if let Some(variant) = variant {
        known["variant"] = variant.into();
    }
    known
}

/// The title, or the beginning of the first prompt.
fn title(view: &SessionView, subagent: Option<&SubagentStatus>) -> String {
    /// Characters of a title that is made of a prompt.
    const TITLE: usize = 60;
    if let Some(title) = &view.title {
        return title.clone();
    }
    let prompted = view.all_messages().find_map(|message| match message {
        Message::User(prompt) => Some(prompt),
        Message::Assistant(_) | Message::Summary { .. } => None,
    });
    let text = prompted.and_then(|prompt| prompt.parts.first()).map_or("", |part| &part.text);
    let line: String = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim()
        .chars()
        .take(TITLE)
        .collect();
    match subagent {
        Some(subagent) => format!("{line} (@{} subagent)", subagent.agent),
        None if line.is_empty() => "New session".to_owned(),
        None => line,
    }
}

/// The id of a project: the hash of its root's path.
pub(crate) fn project_id(worktree: &str) -> String {
    Sha256::of(worktree.as_bytes()).to_string().chars().take(40).collect()
}
