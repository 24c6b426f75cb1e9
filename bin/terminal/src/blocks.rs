//! Finished lines on the screen, made from the session's changes. They never change again. Needs no terminal and no
//! clock.

use std::collections::HashSet;
use std::sync::Arc;

use leftfold_events::event::{
    Answer, Cost, EndReason, Ended, Finished, PartKind, PromptKind, PromptPart, Purpose, TodoItem,
    TodoStatus, Usage, as_typed,
};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_view::clean::{Cleaner, clean, clean_line, visible_line};
use leftfold_view::text::stopped;
use leftfold_view::words::{self, counted, first_line, thousands};
use leftfold_view::{
    CallResult, CallStep, Change, CompactionEnd, OpenQuestion, Outcome, Question, QuestionId,
    ResultBody, SessionView, Transcript,
};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::BY;
use super::calls::{CallBlock, CallMark, duration, elapsed, todo_list};
use super::folds::{Body, Fold, Folds};
use super::jobs::shell_line;
use super::look::Look;
use super::render::MarkdownStream;
use super::render::wrap::{Break, Indent, clip, wrap};
use super::theme::Theme;

/// The part of a prompt that is shown: lines and bytes.
const MAX_LINES: usize = 24;
const LONGEST_PROMPT: usize = 4_000;
/// About how many characters a token has.
const CHARACTERS: u64 = 4;
/// Bytes of results in one group of calls that read.
const MAX_GROUP: usize = 1 << 20;

/// Follows a session and its subagents.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) look: Look,
    /// This terminal's `by` in the log.
    pub(super) me: String,
    pub(super) transcript: Transcript,
    /// The project's folder with a `/` at its end, which places of rules are shown without.
    pub(super) directory: String,
    /// The calls whose changes a question has already shown.
    pub(super) previewed: HashSet<(SessionId, Seq)>,
    /// The questions of the root that were shown, until they are answered.
    asked: HashSet<Seq>,
    /// The text of the model that is not finished.
    text: MarkdownStream,
    cleaner: Cleaner,
    /// Whether the prompt of the turn is a command line of the user, so that the model is not asked.
    pub(super) is_shell: bool,
    /// The reasoning in this reply that no text has followed yet, and when it began.
    reasoning: String,
    reasoning_since: Time,
    /// Characters of this reply so far, reasoning included.
    written: u64,
    /// Blocks that were folded.
    folds: Folds,
    /// Whether the screen has said which key shows them.
    has_told_key: bool,
    /// The last calls, if they have only read.
    group: Vec<Explored>,
    /// The todo list as it was shown last, and whether this turn has shown it.
    todos: Vec<TodoItem>,
    has_todos: bool,
    /// The context in use before the current compaction, in tokens.
    before_compaction: Option<u64>,
    /// Finished lines that were not taken yet.
    finished: Vec<Line<'static>>,
    /// The block of the last finished lines.
    last: Option<Block>,
    /// Whether the model's text has begun and not ended.
    is_text: bool,
}

/// A call that has only read. Others may join it on one line.
#[derive(Debug)]
struct Explored {
    /// The tool in words, and what it read.
    name: String,
    subject: String,
    /// The block of the call alone.
    lines: Vec<Line<'static>>,
    fold: Option<Fold>,
    finished: Arc<Finished>,
}

/// A kind of block. A blank line separates most of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Prompt,
    Text,
    /// A call, or the line that is left of reasoning.
    Call,
    Question,
    /// A line about what stands above it.
    Note,
    /// The cost of a turn.
    End,
    /// The output of a command.
    Report,
}

impl Blocks {
    pub(super) fn new(look: Look, root: SessionId) -> Self {
        Self {
            me: BY.to_owned(),
            transcript: Transcript::live(root),
            directory: String::new(),
            previewed: HashSet::new(),
            asked: HashSet::new(),
            text: MarkdownStream::new(look.columns(), &look.theme),
            cleaner: Cleaner::default(),
            is_shell: false,
            reasoning: String::new(),
            reasoning_since: Time::default(),
            written: 0,
            folds: Folds::default(),
            has_told_key: false,
            group: Vec::new(),
            todos: Vec::new(),
            has_todos: false,
            before_compaction: None,
            finished: Vec::new(),
            last: None,
            is_text: false,
            look,
        }
    }

    /// Other lines stand above the first ones.
    pub(super) fn following(self) -> Self {
        Self { last: Some(Block::Note), ..self }
    }

    /// When the running turn began.
    pub(super) fn turn(&self) -> Option<Time> {
        Some(self.transcript.root()?.turn.as_ref()?.at)
    }

    /// The open question with this id.
    pub(super) fn open_question(&self, id: QuestionId) -> Option<&OpenQuestion> {
        self.transcript.open_questions().find(|open| open.id == id)
    }

    pub(super) fn take(&mut self) -> Vec<Line<'static>> {
        // blocks of Markdown that are complete are finished
        let lines = self.text.take_finished();
        self.finished.extend(lines);
        std::mem::take(&mut self.finished)
    }

    /// Adds what the user has asked the program for.
    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = Line<'static>>) {
        self.add_to(Block::Report, lines);
    }

    /// Shows a command of the conversation, above what it reports.
    pub(super) fn command(&mut self, line: &str) {
        let theme = Arc::clone(&self.look.theme);
        let sign = self.look.sign("› ", "> ");
        let line = Line::from(vec![span(theme.accent, sign), span(theme.dim, clean_line(line))]);
        self.add_to(Block::Prompt, [line]);
    }

    fn add_to(&mut self, block: Block, lines: impl IntoIterator<Item = Line<'static>>) {
        self.begin(block);
        self.finished.extend(lines);
    }

    fn begin(&mut self, block: Block) {
        self.text_ends();
        self.group_ends();
        let is_close = match (self.last, block) {
            (None, _) | (_, Block::Note) => true,
            (Some(last), Block::Call | Block::End) => {
                matches!(last, Block::Call | Block::Question | Block::Note)
            }
            (Some(_), Block::Prompt | Block::Text | Block::Question | Block::Report) => false,
        };
        if !is_close {
            self.finished.push(Line::default());
        }
        self.last = Some(block);
    }

    pub(super) fn note(&mut self, style: Style, text: &str) {
        let lines = self.look.note(style, text);
        self.add_to(Block::Note, lines);
    }

    /// The text that still grows, or the group of calls that does.
    pub(super) fn growing(&mut self) -> Vec<Line<'static>> {
        if self.group.is_empty() { self.text.live() } else { self.group_lines() }
    }

    /// Whether it is text that grows.
    pub(super) fn is_text(&self) -> bool {
        self.is_text
    }

    /// Sets the styles of lines that are not finished.
    pub(super) fn take_theme(&mut self, theme: Theme) {
        self.ends();
        self.look.theme = Arc::new(theme);
        self.text = MarkdownStream::new(self.look.columns(), &self.look.theme);
    }

    /// Sets the width of lines that are not finished.
    pub(super) fn resize(&mut self, width: usize) {
        self.look.width = width;
        self.text.resize(self.look.columns());
    }

    /// The tokens of the reasoning that streams; 0 once text follows.
    pub(super) fn reasoning_tokens(&self) -> u64 {
        tokens_of(&self.reasoning)
    }

    /// The tokens of this reply so far, and those of the calls that it is writing.
    pub(super) fn written_tokens(&self) -> u64 {
        let writing = self.transcript.root().map(SessionView::writing).unwrap_or_default();
        let bytes: u64 = writing.iter().map(|input| input.bytes).sum();
        self.written.saturating_add(bytes).div_ceil(CHARACTERS)
    }

    /// The end of the reasoning that streams, in at most this many rows.
    pub(super) fn thoughts(&self, rows: usize) -> Vec<Line<'static>> {
        let start = self.reasoning.len().saturating_sub(rows * self.look.width * 4);
        let start = (start..).find(|at| self.reasoning.is_char_boundary(*at)).unwrap_or(0);
        let style = self.look.theme.quote;
        let text = clean(&self.reasoning[start..]);
        let paragraphs = text.lines().filter(|line| !line.trim().is_empty());
        let mut lines: Vec<_> = paragraphs
            .flat_map(|line| self.look.note(style, &format!("  {}", line.trim())))
            .collect();
        lines.drain(..lines.len().saturating_sub(rows));
        lines
    }

    /// Shows whole what was shown in part last; when asked again, what was before. `None` if there is
    /// nothing more. Otherwise whether there is more.
    pub(super) fn unfold(&mut self) -> Option<bool> {
        let lines = self.folds.next()?.lines(&self.look);
        self.add(lines);
        Some(self.folds.has_next())
    }

    /// Applies an event. A subagent's text is left out, because it is for its parent.
    pub(super) fn apply(&mut self, event: &Envelope) -> Vec<Change> {
        let before = self.transcript.root().and_then(|root| root.context_used);
        let changes = self.transcript.apply(event);
        if !self.transcript.is_root(event) {
            return Vec::new();
        }
        for change in &changes {
            if matches!(change, Change::CompactionStarted(_)) {
                self.before_compaction = before;
            }
            self.change(change, event);
        }
        changes
    }

    fn change(&mut self, change: &Change, event: &Envelope) {
        let theme = std::sync::Arc::clone(&self.look.theme);
        match change {
            Change::Prompted { by, parts } | Change::Noted { by, parts } => {
                self.prompted(by, parts);
            }
            Change::AgentSwitched { agent, model } => {
                self.note(theme.dim, &format!("[agent: {agent}, {model}]"));
            }
            Change::Resumed { close: false } => self.note(theme.dim, "[resumed]"),
            Change::Requested(_) => {
                self.reasoning.clear();
                self.written = 0;
            }
            Change::Streamed { kind: PartKind::Reasoning, text, purpose, .. } => {
                self.count(text);
                if *purpose == Purpose::Turn {
                    if self.reasoning.is_empty() {
                        self.reasoning_since = event.at;
                    }
                    self.reasoning.push_str(text);
                }
            }
            Change::Streamed { kind: PartKind::Text, text, .. } => {
                self.count(text);
                self.reasoning_ends(event.at);
                let text = self.cleaner.clean(text);
                if !self.is_text && !text.trim().is_empty() {
                    self.begin(Block::Text);
                    self.is_text = true;
                }
                self.text.push(&text);
            }
            Change::Call { call, step: CallStep::Called } => {
                let call = self.transcript.root().and_then(|session| session.call(*call));
                if call.is_some_and(|call| call.parent.is_none()) {
                    self.text_ends();
                    self.reasoning_ends(event.at);
                }
            }
            Change::Call { call, step: CallStep::Ended { outcome, first: true } } => {
                self.call_ended(*call, outcome);
            }
            Change::Replied { .. } => {
                self.text_ends();
                self.reasoning_ends(event.at);
            }
            Change::RequestFailed => {
                self.reasoning.clear();
                self.text_ends();
            }
            Change::Retry { attempt, error, until, void_text, .. } => {
                let void = if *void_text { "; the text above is void" } else { "" };
                let wait = until.map(|until| duration(until.since(event.at)));
                let wait = wait.map(|wait| format!(" in {wait}")).unwrap_or_default();
                let error = clean_line(error);
                let note = format!("[retrying{wait}, attempt {attempt}: {error}{void}]");
                self.note(theme.warning, &note);
            }
            Change::Answered { question, reply, feedback, by } => {
                self.answered(*question, *reply, feedback.as_deref(), by);
            }
            Change::QuestionTimedOut(_) => self.note(theme.dim, "  → nobody answered in time"),
            Change::CompactionStarted(_) => {
                let tokens = self.before_compaction.map(tokens);
                let what = tokens.map_or_else(
                    || "writing a summary".to_owned(),
                    |tokens| format!("summarising {tokens} tokens"),
                );
                self.note(theme.dim, &format!("[compacting: {what}]"));
            }
            Change::CompactionEnded { end: CompactionEnd::Failed { message }, .. } => {
                self.note(theme.warning, &format!("[no summary: {}]", clean_line(message)));
            }
            Change::CompactionEnded { end: CompactionEnd::Finished { summary }, .. } => {
                self.compacted(summary);
            }
            Change::Notice(line) => self.note(theme.dim, &clean_line(line)),
            Change::TurnEnded { ended, since, .. } => {
                self.group_ends();
                self.ended(ended, since.map(|since| event.at.since(since)));
            }
            _ => {}
        }
    }

    /// Nothing more joins what is on the screen.
    pub(super) fn ends(&mut self) {
        self.text_ends();
        self.group_ends();
    }

    fn text_ends(&mut self) {
        self.is_text = false;
        self.cleaner = Cleaner::default();
        let lines = self.text.finish();
        self.finished.extend(lines);
    }

    fn count(&mut self, text: &str) {
        let characters = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        self.written = self.written.saturating_add(characters);
    }

    /// Leaves one line of the reasoning behind; a key shows all of it.
    fn reasoning_ends(&mut self, at: Time) {
        let text = std::mem::take(&mut self.reasoning);
        if text.trim().is_empty() {
            return;
        }
        let took = match at.since(self.reasoning_since) {
            0..1_000 => String::new(),
            millis => format!(" for {}", elapsed(millis)),
        };
        let heading = format!("thought{took}, about {} tokens", tokens(tokens_of(&text)));
        let sign = self.look.sign("✻ ", "* ");
        let dim = self.look.theme.dim;
        let key = self.tells_key();
        let lines = self.look.note(dim, &format!("{sign}{heading}{key}"));
        self.add_to(Block::Call, lines);
        self.folds.add(Fold { heading, body: Body::Reasoning(text) });
    }

    /// Says once which key shows what was folded.
    fn tells_key(&mut self) -> String {
        match std::mem::replace(&mut self.has_told_key, true) {
            true => String::new(),
            false => self.look.unfolds(),
        }
    }

    fn prompted(&mut self, by: &str, parts: &[PromptPart]) {
        let typed = as_typed(parts);
        // attachments by their names
        let shown = |part: &PromptPart| match &part.name {
            Some(name) => format!("[{}]", clean_line(name)),
            None if part.kind == PromptKind::Media => {
                format!("[{}]", clean_line(part.mime.as_deref().unwrap_or("media")))
            }
            None => clean(&part.text),
        };
        let shell = shell_line(parts);
        self.is_shell = shell.is_some();
        let text = match shell {
            Some(line) => format!("!{}", visible_line(line)),
            None => typed.iter().map(shown).collect::<Vec<_>>().join(" "),
        };
        let from = if by == self.me { String::new() } else { format!("  (by {})", clean_line(by)) };
        let theme = std::sync::Arc::clone(&self.look.theme);
        let sign = self.look.sign("› ", "> ");
        let text = text.trim();
        let (shown, hidden) = start_of_prompt(text);
        let all: Vec<&str> = shown.split('\n').collect();
        let mut lines = Vec::new();
        for (n, line) in all.iter().enumerate() {
            let begin = if n == 0 { sign } else { "  " };
            let mut line = vec![span(theme.accent, begin), span(theme.text, (*line).to_owned())];
            if n + 1 == all.len() && !from.is_empty() {
                line.push(span(theme.dim, from.clone()));
            }
            // the terminal wraps it, so that every blank stays
            lines.push(Line::from(line).style(theme.prompt));
        }
        if let Some(hidden) = hidden {
            let more = format!("  … {hidden}{}", self.look.shows_all());
            lines.extend(self.look.note(theme.dim, &more));
            let heading = "the whole prompt".to_owned();
            self.folds.add(Fold { heading, body: Body::Plain(text.to_owned()) });
        }
        self.add_to(Block::Prompt, lines);
    }

    fn compacted(&mut self, summary: &str) {
        let size = self.transcript.root().map_or(0, |root| root.context_size);
        let after = tokens_of(summary);
        if let Some(before) = self.before_compaction.take() {
            let of = |used: u64| match used.saturating_mul(100).checked_div(size) {
                Some(percent) => format!("{percent} %"),
                None => format!("{} tokens", tokens(used)),
            };
            let change = format!("context: {} -> about {}", of(before), of(after));
            let note = format!("[{change}]{}", self.look.unfolds());
            self.note(self.look.theme.clone().dim, &note);
            let heading = format!("the summary that replaces the conversation, {change}");
            self.folds.add(Fold { heading, body: Body::Markdown(summary.to_owned()) });
        }
    }

    /// `millis`: how long the turn has taken. A summary that a client asks for is a turn without a beginning.
    fn ended(&mut self, ended: &Ended, millis: Option<u64>) {
        self.text_ends();
        self.previewed.clear();
        self.reasoning.clear();
        let theme = std::sync::Arc::clone(&self.look.theme);
        let is_done = self.is_shell && ended.reason == EndReason::MaxSteps;
        self.rest_of_todos();
        if let Some(reason) = stopped(ended.reason).filter(|_| !is_done) {
            let style = if ended.reason == EndReason::Error { theme.error } else { theme.warning };
            let error = ended.error.as_deref().map(|error| format!(": {}", clean_line(error)));
            let error = error.unwrap_or_default();
            // the advice comes after the reason
            let (why, advice) = error.split_at(error.find("; ").unwrap_or(error.len()));
            let text = [span(style, format!("{reason}{why}")), span(theme.text, advice)];
            let lines = wrap(&text, self.look.measure(), &Indent::default(), Break::Words);
            self.add_to(Block::Note, lines);
        }
        // no request of the turn has got an answer
        let is_unanswered = millis.is_some() && ended.usage == Usage::default();
        if ended.reason == EndReason::Error && is_unanswered {
            let text = "  The prompt goes along with your next one; /undo takes it back.";
            self.note(theme.dim, text);
        }
        let of_subagents = self.transcript.subagent_cost;
        let spent = spent(ended, of_subagents, millis);
        if !spent.is_empty() {
            let lines = self.look.note(theme.dim, &spent);
            self.add_to(Block::End, lines);
        }
    }

    fn call_ended(&mut self, seq: Seq, outcome: &Outcome) {
        let session = self.transcript.root();
        let call = session.and_then(|session| session.call(seq)).filter(|call| call.known);
        let Some((call, session)) = call.zip(session) else { return };
        let block = CallBlock { call, look: &self.look };
        let lines = match outcome {
            Outcome::Finished(finished) => {
                let previewed = self.previewed.contains(&(session.id, seq));
                let (lines, fold) = block.finished(finished, previewed, &self.todos);
                let is_plain_read = !finished.is_error && finished.attachments.is_empty();
                if call.only_reads_files() && is_plain_read {
                    let (name, subject) = (block.name(), block.subject());
                    let finished = Arc::clone(finished);
                    return self.explored(Explored { name, subject, lines, fold, finished });
                }
                if let ResultBody::Todos(todos) = CallResult::from_finished(finished).body {
                    (self.todos, self.has_todos) = (todos, true);
                }
                fold.into_iter().for_each(|fold| self.folds.add(fold));
                lines
            }
            Outcome::Unresolved(error) => block.ended(CallMark::Failed, &[first_line(error)]),
            Outcome::Denied => block.ended(CallMark::NotRun, &["denied by the rules"]),
            // The answer already says it.
            Outcome::Rejected { in_words: true, .. } => return,
            Outcome::Rejected { by, feedback, .. } => {
                let why = feedback.as_deref().map(|why| format!(": {}", clean_line(why)));
                let note = format!("rejected{}{}", self.by(by), why.unwrap_or_default());
                block.ended(CallMark::NotRun, &[note])
            }
            Outcome::TimedOut { asked: true } => {
                block.ended(CallMark::NotRun, &["denied: nobody answered in time"])
            }
            Outcome::TimedOut { asked: false } => block.ended(CallMark::NotRun, &["timed out"]),
            Outcome::Lost => block.ended(CallMark::NotRun, &["outcome unknown after a crash"]),
            Outcome::Cancelled => block.ended(CallMark::NotRun, &["stopped"]),
        };
        self.add_to(Block::Call, lines);
    }

    /// A call that has only read joins those before it.
    fn explored(&mut self, call: Explored) {
        let size = |call: &Explored| call.finished.output.len();
        let bytes: usize = self.group.iter().map(size).sum();
        if self.group.is_empty() || bytes + size(&call) > MAX_GROUP {
            self.begin(Block::Call);
        }
        self.group.push(call);
    }

    /// The group of calls in one line.
    fn group_lines(&self) -> Vec<Line<'static>> {
        if let [only] = self.group.as_slice() {
            return only.lines.clone();
        }
        let theme = &self.look.theme;
        let counts = words::explored(self.group.iter().map(|call| call.name.as_str()));
        let sign = self.look.sign("✓ ", "+ ");
        let subjects = self.group.iter().map(|call| call.subject.as_str());
        let mut subjects: Vec<&str> = subjects.filter(|subject| !subject.is_empty()).collect();
        subjects.dedup();
        let line = [
            span(theme.success, sign),
            span(theme.text, counts),
            span(theme.dim, format!("  {}", subjects.join(", "))),
        ];
        vec![Line::from(clip(&line, self.look.measure()))]
    }

    /// Nothing more joins the group of calls.
    pub(super) fn group_ends(&mut self) {
        if self.group.is_empty() {
            return;
        }
        let lines = self.group_lines();
        self.finished.extend(lines);
        let mut group = std::mem::take(&mut self.group);
        if let [only] = group.as_mut_slice() {
            only.fold.take().into_iter().for_each(|fold| self.folds.add(fold));
            return;
        }
        let heading = words::explored(group.iter().map(|call| call.name.as_str()));
        let text = |call: &Explored| {
            let output = clean(&call.finished.output);
            let lines = output.trim_end().lines().map(|line| format!("  {line}\n"));
            format!("{} {}\n{}", call.name, call.subject, lines.collect::<String>())
        };
        let text: Vec<String> = group.iter().map(text).collect();
        let text = text.join("\n").trim_end().to_owned();
        self.folds.add(Fold { heading, body: Body::Plain(text) });
    }

    /// The list of tasks as the turn leaves it, if some are open: it no longer stands above the composer.
    fn rest_of_todos(&mut self) {
        let is_open =
            |todo: &TodoItem| matches!(todo.status, TodoStatus::Pending | TodoStatus::InProgress);
        let is_shown = std::mem::take(&mut self.has_todos) && !self.look.theme.is_plain();
        if is_shown && self.todos.iter().any(is_open) {
            let is_done = |todo: &&TodoItem| todo.status == TodoStatus::Completed;
            let done = self.todos.iter().filter(is_done).count();
            let heading = format!("Todo list, {done} of {} done:", self.todos.len());
            self.note(self.look.theme.clone().dim, &heading);
            let lines = todo_list(&self.todos, &self.look);
            self.add_to(Block::Note, lines);
        }
    }

    fn answered(&mut self, question: Seq, reply: Answer, feedback: Option<&str>, by: &str) {
        let by = self.by(by);
        let dim = self.look.theme.dim;
        let open = self.transcript.root().and_then(|session| session.question(question));
        if open.is_some_and(|open| open.question.is_some()) {
            // it was asked before this conversation began, or elsewhere
            if let Some(asked) = open.and_then(|open| open.question.clone())
                && !self.asked.remove(&question)
            {
                let lines = in_words(&asked, &self.look);
                self.add_to(Block::Question, lines);
            }
            let text = clean_line(feedback.unwrap_or_default());
            let answer = match reply {
                Answer::Reject if text.is_empty() => format!("  → dismissed{by}"),
                Answer::Reject => format!("  → not answered{by}: {text}"),
                Answer::Once | Answer::Always => format!("  → {text}{by}"),
            };
            return self.note(dim, &answer);
        }
        let note = match reply {
            // The end of the call says it.
            Answer::Reject => return,
            Answer::Once => format!("  allowed once{by}"),
            Answer::Always => {
                let always = open.map(|open| open.always.iter().map(|text| visible_line(text)));
                let always: Vec<String> = always.into_iter().flatten().collect();
                format!("  allowed from now on{by}: {}", always.join(", "))
            }
        };
        self.note(dim, &note);
    }

    /// The client that answered, if it was not this terminal.
    fn by(&self, by: &str) -> String {
        if by == self.me { String::new() } else { format!(" by {}", clean_line(by)) }
    }

    /// Shows a question whole, above its keys. `change` are the changes that its call would make, if known.
    pub(super) fn question(&mut self, open: &OpenQuestion, change: &[leftfold_tools::FilePreview]) {
        self.ends();
        let look = self.look.clone();
        let theme = &look.theme;
        let mut out = Vec::new();
        if let Some(status) = self.transcript.subagent(open.id.0) {
            out.extend(look.note(theme.dim, &format!("  {} asks:", visible_line(&status.agent))));
        }
        if let Some(question) = &open.question {
            out.extend(in_words(question, &look));
            self.asked.insert(open.id.1);
            return self.add_to(Block::Question, out);
        }
        let (session, _) = open.id;
        let mut argument = String::new();
        let call = self.transcript.session(session).and_then(|view| view.call(open.call));
        if let Some(call) = call.filter(|call| call.known) {
            let block = CallBlock { call, look: &look };
            argument = block.argument();
            let several = argument.contains('\n');
            let shown =
                if several { block.heading() } else { format!("{} {argument}", block.name()) };
            out.extend(look.exact((theme.warning, "? "), (theme.text, &shown)));
            let details = block.details(change, &open.arguments);
            if !details.is_empty() {
                self.previewed.insert((session, open.call));
            }
            out.extend(details);
        }
        let patterns: Vec<String> = open.patterns.iter().map(|text| visible_line(text)).collect();
        let words = open.in_words(visible_line);
        if words.is_some() || patterns != [argument] {
            let named = || format!("{}: {}", visible_line(&open.permission), patterns.join(", "));
            let what = words.unwrap_or_else(named);
            out.extend(look.exact((theme.text, "  "), (theme.warning, &what)));
        }
        if let Some((rule, source)) = open.rule.as_ref().filter(|_| open.by.is_none()) {
            let place = source.as_ref().map(|source| {
                let short = source.strip_prefix(&self.directory).unwrap_or(source);
                format!(" ({})", visible_line(short))
            });
            let (permission, pattern) =
                (visible_line(&rule.permission), visible_line(&rule.pattern));
            let why = format!("asked by the rule `{permission}`: `{pattern}`");
            let why = format!("{why}{}", place.unwrap_or_default());
            out.extend(look.exact((theme.text, "  "), (theme.dim, &why)));
        }
        self.add_to(Block::Question, out);
    }

    /// Shows everything that an "always" to this question would allow, whole.
    pub(super) fn always(&mut self, open: &OpenQuestion) {
        let agent = self.transcript.subagent(open.id.0);
        let agent = agent.map(|status| format!(" (asked by {})", visible_line(&status.agent)));
        let heading =
            format!("always, in this project, without asking again{}:", agent.unwrap_or_default());
        let permission = visible_line(&open.permission);
        let rules = open.always.iter().map(|text| format!("{permission}: {}", visible_line(text)));
        let look = self.look.clone();
        let (warning, text) = (look.theme.warning, look.theme.text);
        let all = std::iter::once(("  ", heading)).chain(rules.map(|rule| ("    ", rule)));
        let lines = all.flat_map(|(begin, line)| look.exact((warning, begin), (text, &line)));
        self.add_to(Block::Note, lines);
    }
}

/// The part of a prompt that is shown, and how much is not.
fn start_of_prompt(text: &str) -> (&str, Option<String>) {
    if text.len() <= LONGEST_PROMPT && text.split('\n').count() <= MAX_LINES {
        return (text, None);
    }
    let lines = text.match_indices('\n').nth(MAX_LINES - 1).map_or(text.len(), |(at, _)| at);
    let end = (0..=LONGEST_PROMPT.min(lines)).rev().find(|at| text.is_char_boundary(*at));
    let (shown, rest) = text.split_at(end.unwrap_or(0));
    let hidden = match rest.trim_start_matches('\n').split('\n').count() {
        0 | 1 => counted(rest.chars().count(), "more character"),
        lines => counted(lines, "more line"),
    };
    (shown, Some(hidden))
}

/// The question and its options, on as many rows as needed.
fn in_words(question: &Question, look: &Look) -> Vec<Line<'static>> {
    let theme = &look.theme;
    let mut out = Vec::new();
    let mut add = |begin: &str, text: &[Span<'static>]| {
        let indent = Indent::hanging(vec![span(theme.warning, begin)]);
        out.extend(wrap(text, look.measure(), &indent, Break::Words));
    };
    for (n, line) in clean(&question.titled()).trim().lines().enumerate() {
        add(if n == 0 { "? " } else { "  " }, &[span(theme.heading, line)]);
    }
    let digits = question.options.len().to_string().len();
    for (option, number) in question.options.iter().zip(1_usize..) {
        let mut text = vec![span(theme.text, clean_line(&option.label))];
        let description = clean_line(&option.description);
        if !description.is_empty() {
            text.push(span(theme.dim, format!(" – {description}")));
        }
        add(&format!("  {number:>digits$}. "), &text);
    }
    out
}

/// The tokens, cost and time of a turn.
fn spent(ended: &Ended, of_subagents: Cost, millis: Option<u64>) -> String {
    let usage = &ended.usage;
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} cached)", thousands(cached)),
    };
    let mut parts = Vec::new();
    if usage.total() > 0 {
        parts.push(format!("{} in{cached}", thousands(input)));
        parts.push(format!("{} out", thousands(usage.output.saturating_add(usage.reasoning))));
    }
    let cost = ended.cost + of_subagents;
    if of_subagents > 0.0 {
        parts.push(format!("${cost:.4}, of which subagents ${of_subagents:.4}"));
    } else if cost > 0.0 {
        parts.push(format!("${cost:.4}"));
    }
    parts.extend(millis.map(duration));
    parts.join(" · ")
}

/// A number of tokens in few characters: `950`, `12.3k`, `1.2M`.
pub(super) fn tokens(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..100_000 => format!("{}.{}k", n / 1_000, n % 1_000 / 100),
        100_000..1_000_000 => format!("{}k", n / 1_000),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}

/// About how many tokens a text has.
fn tokens_of(text: &str) -> u64 {
    let characters = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
    characters.div_ceil(CHARACTERS)
}

/// Text on the screen that no line of the log has, as a span.
pub(super) fn span(style: Style, text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), style)
}
