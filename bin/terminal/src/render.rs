//! From events to what a terminal shows of them: no I/O, no clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use leftfold_events::event::{
    Answer, Compaction, EndReason, Ended, Event, Model, PartKind, Permission, PromptKind, Purpose,
    Session, Tool, Turn,
};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq, Time};

use super::BY;
use super::calls::{Call, Mark, duration};
use super::markdown::Markdown;
use super::spent::spent;
use super::style::{Face, Style};
use super::wrap::Wrap;
use leftfold_view::TitleRequest;
use leftfold_view::clean::{Cleaner, clean, clean_line};
use leftfold_view::{OpenQuestions, question};

/// What the terminal is like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) style: Style,
    pub(super) columns: usize,
}

/// A permission question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The seq of `permission.asked`.
    pub(super) of: Seq,
    pub(super) called: Seq,
    pub(super) permission: String,
    pub(super) patterns: Vec<String>,
    pub(super) always: Vec<String>,
    /// If it is one of the `question` tool: what is asked.
    pub(super) inquiry: Option<question::Question>,
}

/// Follows a session.
#[derive(Debug)]
pub(super) struct Renderer {
    pub(super) look: Look,
    /// Who prompts and answers here, as the log has it.
    pub(super) me: String,
    pub(super) markdown: Markdown,
    pub(super) cleaner: Cleaner,
    /// Prompts of this terminal up to here come from the log, those after it from the user's own
    /// line, which shows them already.
    head: Seq,
    pub(super) calls: BTreeMap<Seq, Call>,
    /// From the intents about a call to its `model.called`.
    links: HashMap<Seq, Seq>,
    pub(super) questions: VecDeque<Question>,
    /// When the turn under way began.
    pub(super) turn: Option<Time>,
    /// Since when the model is waited for, and for what.
    pub(super) asked: Option<(Time, Purpose)>,
    /// The last event that showed something of a reply.
    pub(super) streamed: Time,
    /// Until when a retry waits, and why.
    pub(super) retry: Option<(Time, String)>,
    /// What its children do.
    pub(super) delegated: Option<String>,
    /// The keys that an open question wants.
    pub(super) asking: Option<String>,
    /// Whether the attempt under way has shown text that a retry would make void.
    shown: bool,
    titles: TitleRequest,
    pub(super) inquiries: OpenQuestions,
}

impl Renderer {
    pub(super) fn new(look: Look, head: Seq) -> Self {
        Self {
            markdown: Markdown::new(look.style, look.columns),
            cleaner: Cleaner::default(),
            look,
            me: BY.to_owned(),
            head,
            calls: BTreeMap::new(),
            links: HashMap::new(),
            questions: VecDeque::new(),
            turn: None,
            asked: None,
            streamed: Time::default(),
            retry: None,
            delegated: None,
            asking: None,
            shown: false,
            titles: TitleRequest::default(),
            inquiries: OpenQuestions::default(),
        }
    }

    /// The terminal has another width now: lines that begin from here on have it, too.
    pub(super) fn resize(&mut self, columns: usize) {
        if columns != self.look.columns && self.markdown.is_between_lines() {
            self.look.columns = columns;
            self.markdown.resize(columns);
        }
    }

    /// What is to be printed for good.
    pub(super) fn show(&mut self, event: &Envelope) -> String {
        self.inquiries.follow(event);
        if let Some(of) = self.inquiries.closed_by(event) {
            self.forget_question(of);
        }
        match &event.event {
            Event::Session(session) => self.session(session, event),
            Event::Turn(turn) => self.turn(turn, event),
            Event::Model(_) if self.titles.has(event) => String::new(),
            Event::Model(model) => self.model(model, event),
            Event::Tool(tool) => self.tool(tool, event),
            Event::Permission(permission) => self.permission(permission, event),
            Event::Compaction(compaction) => self.compaction(compaction),
            Event::Files(_) | Event::Plugin(_) => {
                let lines = leftfold_view::consulted::lines(&event.event);
                lines.iter().map(|line| self.note(Face::DIM, &clean_line(line))).collect()
            }
            Event::Subagent(_) | Event::Todo(_) => String::new(),
        }
    }

    fn session(&mut self, session: &Session, event: &Envelope) -> String {
        if let Session::Resumed { close: false, .. } = session {
            return self.note(Face::DIM, "[resumed]");
        }
        let Session::Elapsed {} = session else { return String::new() };
        self.elapsed(event.of.unwrap_or_default())
    }

    fn turn(&mut self, turn: &Turn, event: &Envelope) -> String {
        match turn {
            Turn::Prompted { parts, by, .. } => {
                self.turn.get_or_insert(event.at);
                if *by == self.me && event.seq > self.head {
                    return String::new();
                }
                let typed = parts.iter().filter(|part| part.kind != PromptKind::Task);
                let text = typed.map(|part| clean(&part.text)).collect::<Vec<_>>().join(" ");
                let from = if *by == self.me {
                    String::new()
                } else {
                    format!("  (by {})", clean_line(by))
                };
                let lines = text.trim().replace('\n', "\n  ");
                let look = self.look.style;
                let shown = format!(
                    "{} {lines}{}",
                    look.paint(Face::CYAN, "›"),
                    look.paint(Face::DIM, &from)
                );
                self.line(&shown)
            }
            Turn::Interrupted { .. } | Turn::Equipped(_) => String::new(),
            Turn::Switched { agent, model } => {
                self.note(Face::DIM, &format!("[agent: {agent}, {model}]"))
            }
            Turn::Ended(ended) => self.ended(ended, event.at),
        }
    }

    fn ended(&mut self, ended: &Ended, at: Time) -> String {
        let mut out = self.text_ends();
        self.calls.clear();
        self.links.clear();
        self.questions.clear();
        self.delegated = None;
        (self.asked, self.retry) = (None, None);
        let began = self.turn.take().unwrap_or(at);
        let (face, reason) = match ended.reason {
            EndReason::Completed => (Face::PLAIN, ""),
            EndReason::Error => (Face::RED, "error"),
            EndReason::Blocked => (Face::YELLOW, "stopped: a call was rejected"),
            EndReason::Aborted => (Face::YELLOW, "interrupted"),
            EndReason::MaxSteps => (Face::YELLOW, "stopped: the limit of steps is reached"),
            EndReason::Limit => (Face::YELLOW, "stopped: a limit is reached"),
        };
        if !reason.is_empty() {
            let error = ended.error.as_deref().map(|error| format!(": {}", clean_line(error)));
            out += &self.note(face, &format!("{reason}{}", error.unwrap_or_default()));
        }
        out + &self.note(Face::DIM, &spent(ended, at.since(began)))
    }

    fn model(&mut self, model: &Model, event: &Envelope) -> String {
        match model {
            Model::Requested { purpose, .. } => {
                (self.asked, self.retry) = (Some((event.at, *purpose)), None);
                (self.shown, self.streamed) = (false, Time::default());
                String::new()
            }
            Model::Streamed { parts } => {
                let mut out = String::new();
                for part in parts.iter().filter(|part| part.kind == PartKind::Text) {
                    let text = self.cleaner.clean(&part.text);
                    self.shown |= !text.is_empty();
                    self.streamed = event.at;
                    out += &self.markdown.push(&text);
                }
                out
            }
            Model::Called { call } => {
                self.calls.insert(event.seq, Call::new(&call.name, call.input.value()));
                self.text_ends()
            }
            Model::Replied { .. } => {
                self.asked = None;
                self.text_ends()
            }
            Model::Failed { .. } => {
                self.asked = None;
                self.text_ends()
            }
            Model::RetryScheduled { error, .. } => {
                let error = clean_line(error);
                let void = if self.shown { "; the text above does not count" } else { "" };
                let wait = event.until.map(|until| duration(until.since(event.at)));
                let wait = wait.map(|wait| format!(" in {wait}")).unwrap_or_default();
                let note = format!("[retrying{wait}: {error}{void}]");
                self.retry = event.until.map(|until| (until, error));
                self.note(Face::YELLOW, &note)
            }
        }
    }

    fn tool(&mut self, tool: &Tool, event: &Envelope) -> String {
        let of = event.of.unwrap_or_default();
        match tool {
            Tool::Batched { call } => {
                self.calls.insert(event.seq, Call::new(&call.name, call.input.value()));
                String::new()
            }
            Tool::Checked { .. } => {
                self.links.insert(event.seq, of);
                String::new()
            }
            Tool::Resolved(resolution) => {
                if let Some(call) = self.call(of) {
                    call.name = clean_line(&resolution.name);
                    call.input = resolution.input.value();
                }
                match &resolution.error {
                    Some(error) => {
                        self.end_call(of, Mark::Failed, leftfold_view::text::first_line(error))
                    }
                    None => String::new(),
                }
            }
            Tool::Started { .. } => {
                self.links.insert(event.seq, of);
                if let Some(call) = self.call(of) {
                    call.running = Some(event.at);
                }
                String::new()
            }
            Tool::Progressed { tail } => {
                if let Some(call) = self.call(of) {
                    let text = clean(tail);
                    let last = text.lines().rev().find(|line| !line.trim().is_empty());
                    call.tail = last.unwrap_or_default().trim().to_owned();
                }
                String::new()
            }
            Tool::Finished(finished) => {
                let Some(call) = self.take(of) else { return String::new() };
                let block = call.finished(finished, event.at, self.look.style, self.look.columns);
                self.line(&block.join("\n"))
            }
            Tool::Lost { .. } => self.end_call(of, Mark::Not, "outcome unknown after a crash"),
            Tool::Cancelled { .. } => self.end_call(of, Mark::Not, "stopped"),
            Tool::Inquired { .. } | Tool::Replied { .. } => String::new(),
        }
    }

    fn permission(&mut self, permission: &Permission, event: &Envelope) -> String {
        let of = event.of.unwrap_or_default();
        match permission {
            Permission::Ruled { action: Action::Deny, .. } => {
                self.end_call(of, Mark::Not, "not allowed by the rules")
            }
            Permission::Ruled { .. } => String::new(),
            Permission::Asked { permission, patterns, always, .. } => {
                self.links.insert(event.seq, of);
                self.questions.push_back(Question {
                    of: event.seq,
                    called: of,
                    permission: clean_line(permission),
                    patterns: patterns.iter().map(|text| clean_line(text)).collect(),
                    always: always.iter().map(|text| clean_line(text)).collect(),
                    inquiry: self.inquiries.asked(event.seq).cloned(),
                });
                String::new()
            }
            Permission::Answered { reply, by, feedback } => {
                let question = self.questions.iter().find(|question| question.of == of).cloned();
                self.forget_question(of);
                let by =
                    if *by == self.me { String::new() } else { format!(" by {}", clean_line(by)) };
                if self.inquiries.asked(of).is_some() {
                    return self.inquiry_answered(*reply, feedback.as_deref(), &by, of);
                }
                match reply {
                    Answer::Reject => {
                        let why = feedback.as_deref().map(|why| format!(": {}", clean_line(why)));
                        let note = format!("rejected{by}{}", why.unwrap_or_default());
                        self.end_call(of, Mark::Not, &note)
                    }
                    Answer::Once => self.note(Face::DIM, &format!("  allowed once{by}")),
                    Answer::Always => {
                        let always = question.map(|question| question.always).unwrap_or_default();
                        let what = always.join(", ");
                        self.note(Face::DIM, &format!("  allowed from now on{by}: {what}"))
                    }
                }
            }
        }
    }

    fn compaction(&mut self, compaction: &Compaction) -> String {
        match compaction {
            Compaction::Started { .. } => {
                self.note(Face::DIM, "[making room: a summary is written]")
            }
            Compaction::Failed { message } => {
                self.note(Face::YELLOW, &format!("[no summary: {}]", clean_line(message)))
            }
            Compaction::Finished { .. } | Compaction::Pruned { .. } | Compaction::Asked { .. } => {
                String::new()
            }
        }
    }

    /// What the open question of this intent asks, if it is one of the `question` tool.
    pub(super) fn inquiry_of(&self, of: Seq) -> Option<question::Question> {
        self.questions.iter().find(|question| question.of == of)?.inquiry.clone()
    }

    /// The call that an event is about, which names an intent about it or the call itself.
    fn called(&self, of: Seq) -> Seq {
        self.links.get(&of).copied().unwrap_or(of)
    }

    fn call(&mut self, of: Seq) -> Option<&mut Call> {
        let called = self.called(of);
        self.calls.get_mut(&called)
    }

    pub(super) fn take(&mut self, of: Seq) -> Option<Call> {
        let called = self.called(of);
        self.questions.retain(|question| question.called != called);
        self.calls.remove(&called)
    }

    pub(super) fn end_call(&mut self, of: Seq, mark: Mark, note: &str) -> String {
        let Some(call) = self.take(of) else { return String::new() };
        let block = call.ended(mark, note, self.look.style, self.look.columns);
        self.line(&block)
    }

    /// A line of its own, in one face; in as many rows as it needs.
    pub(super) fn note(&mut self, face: Face, text: &str) -> String {
        let Look { style, columns } = self.look;
        let bare = text.trim_start();
        let mut rows = String::new();
        let mut wrap = Wrap::new(Style::default(), columns.saturating_sub(1));
        wrap.begin(Face::PLAIN, &text[..text.len() - bare.len()], &mut rows);
        wrap.push(Face::PLAIN, bare, &mut rows);
        wrap.let_go(&mut rows);
        let rows: Vec<String> = rows.split('\n').map(|row| style.paint(face, row)).collect();
        self.line(&rows.join("\n"))
    }

    fn line(&mut self, line: &str) -> String {
        let mut out = self.text_ends();
        out.push_str(line);
        out.push('\n');
        out
    }

    pub(super) fn text_ends(&mut self) -> String {
        self.cleaner = Cleaner::default();
        self.markdown.finish()
    }
}
