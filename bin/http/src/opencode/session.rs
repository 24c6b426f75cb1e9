//! One session: its own object, its status and questions, and its messages as clients know them.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use leftfold_events::event::{
    Answer, Change as FileStatus, Compaction, EndReason, Ended, Event, FileChange, Files, ModelRef,
    Session, SessionChoices, SlashCommand, Tool, Turn,
};
use leftfold_events::rules::Rule;
use leftfold_events::{Envelope, Json, Seq, SessionId, Time};
use leftfold_runtime::session_list;
use leftfold_view::{
    Change, CompactionEnd, Message, OpenQuestion, Reply, SessionView, Status, SubagentStatus,
};
use serde_json::{Map, Value, json};

use super::changed_files::{self, ChangedPath};
use super::frame::{EventPlace, Frame};
use super::ids::{self, Ids};
use super::message::{self, Folders, MessageFacts, PartKey, Rendered};
use super::proposal;

/// The permission of a call that repeats itself.
const DOOM_LOOP: &str = "doom_loop";

/// Messages at the end of a session in which anything can still change.
const RECENT: usize = 100;
/// Closed questions that a snapshot names.
const CLOSED: usize = 16;

/// A session as clients know it after the last event applied.
#[derive(Debug)]
pub(crate) struct SessionProjection {
    id: SessionId,
    ids: Ids,
    folders: Folders,
    place: EventPlace,
    parent: Option<SessionId>,
    is_fork: bool,
    /// Its number among the forks of a session; 0 if it is no fork.
    fork_number: u32,
    /// Whether it is a fork with a title of its own.
    is_retitled: bool,
    version: String,
    created: Time,
    choices: SessionChoices,
    /// The session's own permission rules.
    rules: Vec<Rule>,
    /// When a client has put the session away.
    archived: Option<Time>,
    /// The changes of steps to files, from snapshots.
    changes: Vec<StepChanges>,
    /// The paths of files that calls have edited since the last snapshot.
    edited: HashSet<String>,
    /// The slash commands of the open turn.
    commands: Vec<SlashCommand>,
    /// The files as they were before a revert, and those that it has put back.
    revert: Option<(String, Vec<FileChange>)>,
    /// The changes of the session as they were sent last, how many steps these are of, and the first
    /// message that a revert has hidden.
    diff: Value,
    diff_of: (usize, Option<Seq>),
    /// Facts about replies, by the seq of the request.
    facts: HashMap<Seq, MessageFacts>,
    /// How often the model may give its structured answer again, by the configuration in force.
    output_retries: u64,
    /// The ids that clients gave to prompts and their parts, until the message is made.
    given: HashMap<Seq, Given>,
    messages: Vec<ProjectedMessage>,
    /// The answers to the questions of calls.
    answers: HashMap<Seq, Vec<Vec<String>>>,
    /// The ids of questions, by their seqs.
    questions: HashMap<Seq, String>,
    /// The questions that clients have as open, and whether each is about a permission.
    shown: Vec<(Seq, bool)>,
    /// The frames that have closed the last questions. A client that was away still shows these.
    closed: VecDeque<Frame>,
    /// Whether its open turn was cut off, and nobody has gone on with it yet.
    is_cut_off: bool,
    /// Whether the events that follow only close that turn.
    is_closing: bool,
    /// Whether the last compaction began by itself.
    is_auto: bool,
    /// The reverts that have ended, and why the last one failed.
    restores: (u64, Option<String>),
    /// The session as it was sent last, and its status.
    info: Value,
    status: Value,
}

/// The files that a step has changed.
#[derive(Debug)]
struct StepChanges {
    /// The prompt and the reply that the step belongs to.
    prompt: Seq,
    reply: Seq,
    files: Vec<FileChange>,
}

/// The members of a prompt that only its client knows.
#[derive(Debug, Default)]
struct Given {
    id: Option<String>,
    parts: Value,
}

impl Given {
    /// When the client made the message, by the ids of it. OpenCode's web app draws a prompt before the
    /// server has it, and finds this copy again only by the time: that of the last part.
    fn made(&self, at: Time) -> Option<Time> {
        let parts = self.parts.as_array().into_iter().flatten();
        let parts = parts.filter_map(|part| part["id"].as_str());
        parts.chain(self.id.as_deref()).filter_map(|id| ids::made(id, at)).max()
    }
}

/// A message as it was sent last.
#[derive(Debug)]
pub(crate) struct ProjectedMessage {
    key: MessageKey,
    pub(crate) id: String,
    info: Kept,
    parts: Vec<ProjectedPart>,
    is_complete: bool,
}

#[derive(Debug)]
struct ProjectedPart {
    key: PartKey,
    id: String,
    value: Kept,
}

/// JSON that is kept as a text when it is not expected to change: as a tree it takes up five times the memory.
#[derive(Debug)]
enum Kept {
    Tree(Value),
    Text(Json),
}

impl Kept {
    fn value(&self) -> Cow<'_, Value> {
        match self {
            Self::Tree(value) => Cow::Borrowed(value),
            Self::Text(text) => Cow::Owned(text.value()),
        }
    }

    fn pack(&mut self) {
        if let Self::Tree(value) = self {
            *self = Self::Text(Json::from_value(value));
        }
    }
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
    /// The event that it comes from.
    pub(crate) fn seq(&self) -> Seq {
        self.key.seq()
    }

    pub(crate) fn info(&self) -> Cow<'_, Value> {
        self.info.value()
    }

    /// `{info, parts}`, as lists of messages have it.
    pub(crate) fn whole(&self) -> Value {
        let parts: Vec<_> = self.parts.iter().map(|part| part.value.value()).collect();
        json!({ "info": self.info(), "parts": parts })
    }
}

impl SessionProjection {
    pub(super) fn new(id: SessionId, fork_number: u32) -> Self {
        Self {
            id,
            ids: Ids::new(id),
            folders: Folders::default(),
            place: EventPlace::default(),
            parent: None,
            is_fork: false,
            fork_number,
            is_retitled: false,
            version: String::new(),
            created: id.created(),
            choices: SessionChoices::default(),
            rules: Vec::new(),
            archived: None,
            changes: Vec::new(),
            edited: HashSet::new(),
            commands: Vec::new(),
            revert: None,
            diff: json!([]),
            diff_of: (0, None),
            facts: HashMap::new(),
            output_retries: 0,
            given: HashMap::new(),
            messages: Vec::new(),
            answers: HashMap::new(),
            questions: HashMap::new(),
            shown: Vec::new(),
            closed: VecDeque::new(),
            is_cut_off: false,
            is_closing: false,
            is_auto: true,
            restores: (0, None),
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

    pub(crate) fn directory(&self) -> &str {
        &self.folders.directory
    }

    pub(crate) fn place(&self) -> &EventPlace {
        &self.place
    }

    /// The number of reverts that have ended, and why the last one failed.
    pub(crate) fn restores(&self) -> (u64, Option<&str>) {
        (self.restores.0, self.restores.1.as_deref())
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

    /// The event that the message with a part comes from.
    pub(crate) fn seq_of_part(&self, id: &str) -> Option<Seq> {
        let has = |message: &&ProjectedMessage| message.parts.iter().any(|part| part.id == id);
        self.messages.iter().find(has).map(|message| message.key.seq())
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
        // its node was only slow, or could not be seen; whoever closes a turn may write these events before
        if !matches!(event.event, Event::Session(_) | Event::Turn(Turn::Configured(_))) {
            self.is_cut_off &= self.is_closing;
        }
        self.learn(event, view);
        self.tell_of_files(event, view, &mut frames);
        self.remove_dropped(event.seq, view, &mut frames);
        self.add_messages(event.at, view, &mut frames);
        let called = changes.iter().filter_map(|change| {
            let Change::Call { call, .. } = change else { return None };
            Some(*call)
        });
        self.update_messages(view, &called.collect::<Vec<_>>(), &mut frames);
        for change in changes {
            self.announce(change, event, view, &mut frames);
        }
        if matches!(event.event, Event::Turn(Turn::Ended(_) | Turn::Prompted { .. })) {
            (self.is_cut_off, self.is_closing) = (false, false);
        }
        self.close_unanswered(view, &mut frames);
        if matches!(event.event, Event::Files(_) | Event::Turn(Turn::Prompted { .. })) {
            self.update_changes(view, &mut frames);
        }
        self.update_session(event, view, subagent, &mut frames);
        if matches!(event.event, Event::Turn(Turn::Ended(_))) {
            self.tell_of_commands(&mut frames);
        }
        frames
    }

    /// Tells clients of the files that an event has changed: by a call that edits them, by other calls of a step, by a
    /// revert.
    fn tell_of_files(&mut self, event: &Envelope, view: &SessionView, frames: &mut Vec<Frame>) {
        let (session, worktree) = (self.id, self.folders.worktree.as_str());
        match &event.event {
            Event::Tool(Tool::Finished(finished)) => {
                let call = view.call(view.call_of(event.concerned()));
                let edited = call
                    .map(|call| changed_files::of_call(call, finished, &self.folders.directory));
                for file in edited.into_iter().flatten() {
                    frames.extend(file.edited(session));
                    frames.push(file.updated(session));
                    self.edited.insert(file.path);
                }
            }
            Event::Files(Files::Snapshotted { files, .. } | Files::Restored { files, .. }) => {
                let told = std::mem::take(&mut self.edited);
                let changed = files.iter().map(|file| ChangedPath::of_snapshot(file, worktree));
                let untold = changed.filter(|file| !told.contains(&file.path));
                frames.extend(untold.map(|file| file.updated(session)));
            }
            Event::Turn(Turn::Ended(_)) => self.edited.clear(),
            _ => {}
        }
    }

    /// Tells clients that the turn's slash commands have been run.
    fn tell_of_commands(&mut self, frames: &mut Vec<Frame>) {
        let Some(last) = self.messages.last() else { return };
        let executed = std::mem::take(&mut self.commands).into_iter().map(|command| {
            let properties = json!({
                "name": command.name,
                "sessionID": ids::of_session(self.id),
                "arguments": command.arguments,
                "messageID": last.id,
            });
            Frame::new(self.id, "command.executed", properties)
        });
        frames.extend(executed);
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
        match &event.event {
            Event::Session(Session::Created { directory, worktree, parent, version, .. }) => {
                self.place = EventPlace::from_folders(directory, worktree);
                self.folders = Folders { directory: directory.clone(), worktree: worktree.clone() };
                (self.parent, self.created) = (*parent, event.at);
                self.version.clone_from(version);
            }
            Event::Session(Session::Forked { .. }) => {
                (self.parent, self.created) = (None, event.at);
                (self.is_fork, self.is_retitled, self.archived) = (true, false, None);
            }
            Event::Session(Session::Titled { .. }) => self.is_retitled = self.is_fork,
            Event::Session(Session::Adopted { parent }) => self.parent = Some(*parent),
            Event::Session(Session::Configured { choices, .. }) => {
                self.choices.clone_from(choices);
            }
            Event::Session(Session::RulesSet { rules, .. }) => self.rules.clone_from(rules),
            Event::Session(Session::Archived { archived, .. }) => self.archived = *archived,
            // a turn that is only closed, for another prompt, does not run again
            Event::Session(
                Session::Resumed { close, .. } | Session::ResumedImported { close, .. },
            ) => {
                self.is_closing = *close && view.turn.is_some();
                self.is_cut_off = self.is_closing;
            }
            Event::Turn(Turn::Prompted { .. } | Turn::Noted { .. }) => {
                let id = event.notes.client.clone().filter(|id| ids::is_given(id, "msg"));
                let parts = event.notes.parts.as_ref().map(Json::value).unwrap_or_default();
                self.given.insert(event.seq, Given { id, parts });
                self.commands.extend(event.notes.command.clone());
            }
            Event::Turn(Turn::Configured(config)) => {
                let options: Value =
                    serde_json::from_str(config.options.text()).unwrap_or_default();
                self.output_retries = options["output"]["retries"].as_u64().unwrap_or_default();
            }
            Event::Turn(Turn::Ended(ended)) => {
                let last = self.messages.iter_mut().rev().find_map(|message| match message.key {
                    MessageKey::Reply(seq) => Some((seq, message)),
                    MessageKey::Prompt(_) | MessageKey::Compaction(_) | MessageKey::Summary(_) => {
                        None
                    }
                });
                if let Some((seq, last)) = last.filter(|_| event.notes.structured.is_some()) {
                    last.is_complete = false;
                    let facts = self.facts.entry(seq).or_default();
                    facts.structured.clone_from(&event.notes.structured);
                }
                // a reply whose calls were cancelled is complete, and was cut off all the same
                let of_turn = self.messages.iter_mut().rev();
                let mut replies = of_turn.map_while(|message| match message.key {
                    MessageKey::Reply(seq) => Some((seq, message)),
                    MessageKey::Prompt(_) | MessageKey::Compaction(_) | MessageKey::Summary(_) => {
                        None
                    }
                });
                let last = replies.next().filter(|(_, last)| !last.is_complete || is_cut(ended));
                for (seq, message) in
                    last.into_iter().chain(replies.filter(|(_, m)| !m.is_complete))
                {
                    message.is_complete = false;
                    let facts = self.facts.entry(seq).or_default();
                    facts.output_retries = self.output_retries;
                    facts.cut = Some((ended.reason, ended.error.clone()));
                }
            }
            Event::Files(Files::Snapshotted { tree, files, .. }) => {
                self.snapshotted(tree, files, view.turn.is_some());
            }
            Event::Files(Files::Restored { before, files, .. }) => {
                self.restored(before, files, view);
            }
            Event::Compaction(Compaction::Started { auto, .. }) => self.is_auto = *auto,
            _ => {}
        }
    }

    /// A snapshot before the calls of the last step, after them, or (not `in_turn`) before a revert.
    fn snapshotted(&mut self, tree: &str, files: &[FileChange], in_turn: bool) {
        let last =
            self.messages.iter_mut().rfind(|message| matches!(message.key, MessageKey::Reply(_)));
        let Some(last) = last.filter(|_| in_turn || !files.is_empty()) else { return };
        last.is_complete = false;
        let reply = last.key.seq();
        let facts = self.facts.entry(reply).or_default();
        let snapshot = if facts.before.is_none() { &mut facts.before } else { &mut facts.after };
        *snapshot = Some(tree.to_owned());
        if files.is_empty() {
            return;
        }
        let worktree = std::path::Path::new(&self.folders.worktree);
        let paths = files.iter().map(|file| worktree.join(&file.path).display().to_string());
        facts.changed = paths.collect();
        let prompts = self.messages.iter().rev().map(|message| message.key);
        let prompt = prompts.skip_while(|key| key.seq() > reply).find_map(|key| match key {
            MessageKey::Prompt(seq) => Some(seq),
            MessageKey::Reply(_) | MessageKey::Compaction(_) | MessageKey::Summary(_) => None,
        });
        let prompt = prompt.unwrap_or_default();
        self.changes.push(StepChanges { prompt, reply, files: files.to_vec() });
    }

    /// A revert that follows another one counts from the files before the first.
    fn restored(&mut self, before: &str, files: &[FileChange], view: &SessionView) {
        let earlier = self.revert.take();
        if view.reverted().is_none() {
            return;
        }
        let (before, mut known) = earlier.unwrap_or_else(|| (before.to_owned(), Vec::new()));
        known.retain(|file| files.iter().all(|later| later.path != file.path));
        known.extend(files.iter().cloned());
        self.revert = Some((before, known));
    }

    /// Sends the changes of the session to files, and those of each prompt.
    fn update_changes(&mut self, view: &SessionView, frames: &mut Vec<Frame>) {
        // steps are only added at the end and dropped from it
        let diff_of = (self.changes.len(), view.reverted());
        if std::mem::replace(&mut self.diff_of, diff_of) == diff_of {
            return;
        }
        let hidden = view.reverted().unwrap_or(Seq::MAX);
        let shown = self.changes.iter().filter(|step| step.reply < hidden);
        let diff = by_file(shown.flat_map(|step| &step.files));
        if diff != self.diff {
            let properties = json!({ "sessionID": ids::of_session(self.id), "diff": diff });
            frames.push(Frame::new(self.id, "session.diff", properties));
            self.diff = diff;
        }
        let mut by_prompt: HashMap<Seq, Vec<&FileChange>> = HashMap::new();
        for step in &self.changes {
            by_prompt.entry(step.prompt).or_default().extend(&step.files);
        }
        for message in &mut self.messages {
            let MessageKey::Prompt(seq) = message.key else { continue };
            let Some(of_prompt) = by_prompt.remove(&seq) else { continue };
            let diffs = by_file(of_prompt.into_iter());
            let mut info = message.info().into_owned();
            if info["summary"]["diffs"] == diffs {
                continue;
            }
            info["summary"] = json!({ "diffs": diffs });
            let properties = json!({ "sessionID": ids::of_session(self.id), "info": info });
            message.info = Kept::Tree(info);
            frames.push(Frame::new(self.id, "message.updated", properties));
        }
    }

    /// Removes messages that the event at `seq` has dropped: a prompt after a revert.
    fn remove_dropped(&mut self, seq: Seq, view: &SessionView, frames: &mut Vec<Frame>) {
        let earlier = view.all_messages().rev().map(Message::seq).find(|known| *known < seq);
        let last = earlier.unwrap_or_default();
        while let Some(message) = self.messages.pop_if(|message| message.key.seq() > last) {
            let properties =
                json!({ "sessionID": ids::of_session(self.id), "messageID": message.id });
            frames.push(Frame::new(self.id, "message.removed", properties));
        }
        self.changes.retain(|step| step.reply <= last);
    }
}

/// The changes of each file in one, as far as snapshots tell: without the changed lines themselves.
fn by_file<'a>(changes: impl Iterator<Item = &'a FileChange>) -> Value {
    let mut files: BTreeMap<&str, FileChange> = BTreeMap::new();
    for change in changes {
        let Some(known) = files.get_mut(change.path.as_str()) else {
            files.insert(&change.path, change.clone());
            continue;
        };
        known.additions += change.additions;
        known.deletions += change.deletions;
        known.change = match (known.change, change.change) {
            (FileStatus::Added, FileStatus::Modified) => FileStatus::Added,
            (_, last) => last,
        };
    }
    let shown = files.values().map(|file| {
        let status = match file.change {
            FileStatus::Added => "added",
            FileStatus::Modified => "modified",
            FileStatus::Deleted => "deleted",
        };
        json!({
            "file": file.path,
            "additions": file.additions,
            "deletions": file.deletions,
            "status": status,
        })
    });
    shown.collect()
}

/// The options that an answer has chosen, or the answer itself.
fn labels(open: &OpenQuestion, answer: &str) -> Vec<String> {
    let options = open.question.iter().flat_map(|question| &question.options);
    let known: Vec<&str> = options.map(|option| option.label.as_str()).collect();
    let pieces: Vec<&str> = answer.split(", ").collect();
    match pieces.iter().all(|piece| known.contains(piece)) {
        true => pieces.into_iter().map(str::to_owned).collect(),
        false => vec![answer.to_owned()],
    }
}

/// Whether a turn ended before its answer.
fn is_cut(ended: &Ended) -> bool {
    match ended.reason {
        EndReason::Aborted
        | EndReason::Error
        | EndReason::Limit
        | EndReason::Incomplete
        | EndReason::InvalidOutput => true,
        EndReason::Completed | EndReason::Blocked | EndReason::MaxSteps => false,
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
                    let mut rendered = message::of_prompt(prompt, &given.parts);
                    if let Some(made) = given.made(at).filter(|made| *made > self.newest()) {
                        rendered.info["time"]["created"] = made.millis().into();
                    }
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
            let replaced = view.reply_to(last.key.seq());
            let failure = replaced.and_then(|reply| reply.failure.as_ref());
            let facts = self.facts.entry(reply.seq).or_default();
            facts.retries = before.retries;
            let why = failure.map(|failure| failure.message.clone()).unwrap_or_default();
            facts.retries.push((reply.attempt - 1, why, at));
            (last.key, last.is_complete) = (MessageKey::Reply(reply.seq), false);
            return;
        }
        let rendered = self.render_reply(reply, view);
        self.add(MessageKey::Reply(reply.seq), at, rendered, frames);
    }

    /// When the last message was made.
    fn newest(&self) -> Time {
        let last = self.messages.last().and_then(|last| last.info()["time"]["created"].as_u64());
        Time::from_millis(last.unwrap_or_default())
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
            info: Kept::Tree(Value::Null),
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
        let mut rendered = message::of_reply(reply, view, &facts, &self.folders);
        for (key, part) in &mut rendered.parts {
            let PartKey::Call(call) = key else { continue };
            if let (Some(answers), false) =
                (self.answers.get(call), part["state"]["metadata"].is_null())
            {
                part["state"]["metadata"]["answers"] = json!(answers);
            }
        }
        rendered
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
        let is_cut_off = self.is_cut_off;
        let Some(message) = self.messages.get_mut(index) else { return };
        info["id"] = message.id.clone().into();
        info["sessionID"] = session.clone().into();
        if info["role"] == "assistant" {
            info["parentID"] = prompt.into();
        }
        // a turn that was cut off may go on, in the same message
        let is_complete = is_complete && !is_cut_off;
        message.is_complete = is_complete;
        let (is_new, changed) = {
            let before = message.info();
            (before.is_null(), *before != info)
        };
        message.info = Kept::Tree(info);
        let updated = |message: &ProjectedMessage| {
            let properties = json!({ "sessionID": session, "info": message.info() });
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
                // only events number parts: the same log has the same ids
                None if is_cut_off && key == PartKey::StepFinish => continue,
                None => (part_id(&mut self.ids, &value, message.key.seq(), at), None),
            };
            value["id"] = id.clone().into();
            value["sessionID"] = session.clone().into();
            value["messageID"] = message.id.clone().into();
            name_attachments(&mut value);
            send_part(self.id, before.as_ref().map(Kept::value).as_deref(), &value, at, frames);
            message.parts.push(ProjectedPart { key, id, value: Kept::Tree(value) });
        }
        for part in gone {
            let properties =
                json!({ "sessionID": session, "messageID": message.id, "partID": part.id });
            frames.push(Frame::new(self.id, "message.part.removed", properties));
        }
        if changed && !is_new {
            frames.push(updated(message));
        }
        if is_complete {
            message.info.pack();
            message.parts.iter_mut().for_each(|part| part.value.pack());
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
                self.shown.push((*seq, open.question.is_none()));
                frames.extend(self.asked(open));
            }
            Change::Answered { question, reply, feedback, .. } => {
                let open = view.question(*question);
                let is_permission = open.is_some_and(|open| open.question.is_none());
                match (is_permission, feedback, open) {
                    (true, _, _) => {
                        let reply = json!({ "reply": reply });
                        self.close(*question, "permission.replied", reply, frames);
                    }
                    (false, Some(answer), Some(open)) => {
                        let labels = labels(open, answer);
                        self.answers.entry(open.call).or_default().push(labels.clone());
                        let answers = json!({ "answers": [labels] });
                        self.close(*question, "question.replied", answers, frames);
                    }
                    (false, None, _) | (false, _, None) => {
                        self.close(*question, "question.rejected", json!({}), frames);
                    }
                }
            }
            Change::QuestionTimedOut(question) => {
                self.close(*question, "question.rejected", json!({}), frames);
            }
            Change::Todos => {
                let properties = json!({ "sessionID": session, "todos": view.todos });
                frames.push(Frame::new(self.id, "todo.updated", properties));
            }
            Change::CompactionEnded { end: CompactionEnd::Finished { .. }, .. } => {
                let properties = json!({ "sessionID": session });
                frames.push(Frame::new(self.id, "session.compacted", properties));
            }
            Change::Restored(done) => {
                self.restores = (self.restores.0 + 1, done.as_ref().err().cloned());
            }
            // a client that waits for its own prompt would take the error for that of the prompt
            Change::TurnEnded { .. } if self.is_cut_off => {}
            Change::TurnEnded { ended, .. } => {
                let failed = self.messages.last().map(|message| message.info()["error"].clone());
                let error = failed.filter(|error| !error.is_null());
                let error = error.or_else(|| match (&ended.error, ended.reason) {
                    (Some(text), _) => {
                        Some(json!({ "name": "UnknownError", "data": { "message": text } }))
                    }
                    (None, EndReason::Aborted) => Some(message::interrupted()),
                    (None, _) => None,
                });
                if let Some(error) = error {
                    let properties = json!({ "sessionID": session, "error": error });
                    frames.push(Frame::new(self.id, "session.error", properties));
                }
            }
            _ => {}
        }
    }

    /// Tells clients that a question is no longer open.
    fn close(&mut self, question: Seq, kind: &'static str, more: Value, frames: &mut Vec<Frame>) {
        let Some(id) = self.questions.get(&question) else { return };
        let mut properties = json!({ "sessionID": ids::of_session(self.id), "requestID": id });
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
            properties.extend(more);
        }
        self.shown.retain(|(shown, _)| *shown != question);
        let frame = Frame::new(self.id, kind, properties);
        self.closed.push_back(frame.clone());
        if self.closed.len() > CLOSED {
            self.closed.pop_front();
        }
        frames.push(frame);
    }

    /// Closes the questions that ended without an answer: with their turn or their call.
    fn close_unanswered(&mut self, view: &SessionView, frames: &mut Vec<Frame>) {
        let is_open = |seq: Seq| view.open_questions().any(|open| open.id.1 == seq);
        let ended: Vec<(Seq, bool)> =
            self.shown.iter().copied().filter(|(seq, _)| !is_open(*seq)).collect();
        for (question, is_permission) in ended {
            match is_permission {
                true => {
                    let reply = json!({ "reply": Answer::Reject });
                    self.close(question, "permission.replied", reply, frames);
                }
                false => self.close(question, "question.rejected", json!({}), frames),
            }
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
            Some((message, part.value.value()))
        });
        if let Some((message, part)) = &called {
            properties["tool"] = json!({ "messageID": message.id, "callID": part["callID"] });
        }
        let Some(question) = &open.question else {
            let arguments = open.arguments.iter().map(|(name, value)| {
                let name = if name.is_empty() { "argument" } else { name.as_str() };
                (name.to_owned(), Value::from(value.as_str()))
            });
            properties["permission"] = open.permission.clone().into();
            properties["patterns"] = json!(open.patterns);
            properties["always"] = json!(open.always);
            let mut metadata: Map<String, Value> = arguments.collect();
            if let (DOOM_LOOP, Some((_, part))) = (open.permission.as_str(), &called) {
                metadata = Map::new();
                metadata.insert("tool".to_owned(), part["tool"].clone());
                metadata.insert("input".to_owned(), part["state"]["input"].clone());
            }
            if let Some(change) = &open.change {
                metadata.extend(proposal::of_call(change, &self.folders.directory));
            }
            properties["metadata"] = metadata.into();
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
        let info = self.render(view, subagent);
        let kind = if self.info.is_null() { "session.created" } else { "session.updated" };
        // every event changes this, which nobody needs to be told
        self.info["time"]["updated"] = info["time"]["updated"].clone();
        if self.info != info || before_turn {
            let properties = json!({ "sessionID": info["id"], "info": info });
            frames.push(Frame::new(self.id, kind, properties));
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
        let files = self.diff.as_array().map_or(&[][..], Vec::as_slice);
        let sum = |name: &str| files.iter().filter_map(|file| file[name].as_u64()).sum::<u64>();
        let mut info = json!({
            "id": id,
            "slug": self.id.to_string().to_lowercase(),
            "projectID": self.place.project,
            "directory": self.folders.directory,
            "title": match self.is_retitled {
                true => title(view, subagent),
                false => session_list::numbered(title(view, subagent), self.fork_number),
            },
            "agent": view.agent,
            "version": self.version,
            "summary": {
                "additions": sum("additions"), "deletions": sum("deletions"), "files": files.len(),
            },
            "cost": view.cost,
            "tokens": super::part::tokens(&view.usage),
            "time": { "created": self.created.millis(), "updated": view.at.millis() },
        });
        if !self.rules.is_empty() {
            info["permission"] = json!(self.rules);
        }
        if let Some(archived) = self.archived {
            info["time"]["archived"] = archived.millis().into();
        }
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
            if let Some((before, files)) =
                self.revert.as_ref().filter(|(_, files)| !files.is_empty())
            {
                info["revert"]["snapshot"] = before.as_str().into();
                info["revert"]["diff"] = changed_files::named(files).into();
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
            let properties = json!({ "sessionID": session, "info": message.info() });
            frames.push(Frame::new(self.id, "message.updated", properties));
            for part in &message.parts {
                let (part, time) = (part.value.value(), view.at.millis());
                let properties = json!({ "sessionID": session, "part": part, "time": time });
                frames.push(Frame::new(self.id, "message.part.updated", properties));
            }
        }
        if !view.todos.is_empty() {
            let properties = json!({ "sessionID": session, "todos": view.todos });
            frames.push(Frame::new(self.id, "todo.updated", properties));
        }
        if self.diff != json!([]) {
            let properties = json!({ "sessionID": session, "diff": self.diff });
            frames.push(Frame::new(self.id, "session.diff", properties));
        }
        let status = json!({ "sessionID": session, "status": self.status });
        frames.push(Frame::new(self.id, "session.status", status));
        frames.extend(self.closed.iter().cloned());
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
    if let Some(title) = &view.title {
        return title.clone();
    }
    let prompted = view.all_messages().find_map(|message| match message {
        Message::User(prompt) => Some(prompt),
        Message::Assistant(_) | Message::Summary { .. } => None,
    });
    let text = prompted.and_then(|prompt| prompt.parts.first()).map_or("", |part| &part.text);
    untitled(session_list::first_line(text), subagent.map(|subagent| subagent.agent.as_str()))
}

/// The title of a session whose first prompt begins with `line`.
pub(crate) fn untitled(line: String, subagent: Option<&str>) -> String {
    match subagent {
        Some(agent) => format!("{line} (@{agent} subagent)"),
        None if line.is_empty() => "New session".to_owned(),
        None => line,
    }
}
