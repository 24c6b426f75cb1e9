//! Turns events into terminal text, without I/O or clock.

use std::collections::HashSet;

use leftfold_events::event::{
    Answer, EndReason, Ended, PartKind, PromptKind, PromptPart, as_typed,
};
use leftfold_events::{Envelope, Seq, SessionId, Time};
use leftfold_view::text::stopped;
use leftfold_view::words::first_line;
use leftfold_view::{CallStep, Change, CompactionEnd, Outcome, Question, QuestionId, Transcript};

use super::BY;
use super::calls::{CallBlock, CallMark, duration};
use super::markdown::Markdown;
use super::style::{Face, Look, Style};
use super::wrap::Wrap;
use leftfold_view::clean::{Cleaner, clean, clean_line, visible_line};

/// Follows a session and its subagents.
#[derive(Debug)]
pub(super) struct Renderer {
    pub(super) look: Look,
    /// This terminal's `by` in the log.
    pub(super) me: String,
    pub(super) markdown: Markdown,
    pub(super) cleaner: Cleaner,
    /// This terminal's prompts up to this event are shown from the log. Later ones are already on
    /// the screen as typed lines.
    head: Seq,
    pub(super) transcript: Transcript,
    /// The calls whose changes a question has already shown.
    pub(super) previewed: HashSet<(SessionId, Seq)>,
    /// The keys of the open question.
    pub(super) question_keys: Option<String>,
}

impl Renderer {
    pub(super) fn new(look: Look, root: SessionId, head: Seq) -> Self {
        Self {
            markdown: Markdown::new(look.style, look.columns),
            cleaner: Cleaner::default(),
            look,
            me: BY.to_owned(),
            head,
            transcript: Transcript::live(root),
            previewed: HashSet::new(),
            question_keys: None,
        }
    }

    /// When the running turn began.
    pub(super) fn turn(&self) -> Option<Time> {
        self.transcript.root()?.turn
    }

    /// The open question with this id, if it is one of a tool.
    pub(super) fn question_of(&self, id: QuestionId) -> Option<Question> {
        let mut open = self.transcript.open_questions();
        open.find(|open| open.id == id)?.question.clone()
    }

    /// Sets another width for lines that begin from here on.
    pub(super) fn resize(&mut self, columns: usize) {
        if columns != self.look.columns && self.markdown.is_between_lines() {
            self.look.columns = columns;
            self.markdown.resize(columns);
        }
    }

    /// The text to print permanently for an event. A subagent's text is left out, because it is for
    /// its parent.
    pub(super) fn show(&mut self, event: &Envelope) -> String {
        let changes = self.transcript.apply(event);
        if !self.transcript.is_root(event) {
            return String::new();
        }
        changes.into_iter().map(|change| self.change(change, event)).collect()
    }

    fn change(&mut self, change: Change, event: &Envelope) -> String {
        match change {
            Change::Prompted { by, parts } | Change::Noted { by, parts } => {
                self.prompted(&by, &parts, event.seq)
            }
            Change::AgentSwitched { agent, model } => {
                self.note(Face::DIM, &format!("[agent: {agent}, {model}]"))
            }
            Change::Resumed { close: false } => self.note(Face::DIM, "[resumed]"),
            Change::Streamed { kind: PartKind::Text, text, .. } => {
                let text = self.cleaner.clean(&text);
                self.markdown.push(&text)
            }
            Change::Call { call, step: CallStep::Called } => {
                let call = self.transcript.root().and_then(|session| session.call(call));
                match call.is_some_and(|call| call.parent.is_none()) {
                    true => self.text_ends(),
                    false => String::new(),
                }
            }
            Change::Call { call, step: CallStep::Ended { outcome, first: true } } => {
                self.call_ended(call, &outcome)
            }
            Change::Replied { .. } | Change::RequestFailed => self.text_ends(),
            Change::Retry { attempt, error, until, void_text, .. } => {
                let void = if void_text { "; the text above is void" } else { "" };
                let wait = until.map(|until| duration(until.since(event.at)));
                let wait = wait.map(|wait| format!(" in {wait}")).unwrap_or_default();
                let error = clean_line(&error);
                let note = format!("[retrying{wait}, attempt {attempt}: {error}{void}]");
                self.note(Face::YELLOW, &note)
            }
            Change::Answered { question, reply, feedback, by } => {
                self.answered(question, reply, feedback.as_deref(), &by)
            }
            Change::QuestionTimedOut(_) => self.note(Face::DIM, "  → nobody answered in time"),
            Change::CompactionStarted(_) => self.note(Face::DIM, "[compacting: writing a summary]"),
            Change::CompactionEnded { end: CompactionEnd::Failed { message }, .. } => {
                self.note(Face::YELLOW, &format!("[no summary: {}]", clean_line(&message)))
            }
            Change::Notice(line) => self.note(Face::DIM, &clean_line(&line)),
            Change::TurnEnded { ended, since, .. } => {
                self.ended(&ended, event.at.since(since.unwrap_or(event.at)))
            }
            Change::Resumed { .. }
            | Change::Titled(_)
            | Change::Forked
            | Change::Requested(_)
            | Change::PartStarted { .. }
            | Change::PartEnded { .. }
            | Change::InputStreamed { .. }
            | Change::Streamed { .. }
            | Change::Call { .. }
            | Change::Asked(_)
            | Change::QuestionClosed(_)
            | Change::CompactionAsked { .. }
            | Change::CompactionEnded { .. }
            | Change::Todos
            | Change::Restored(_) => String::new(),
        }
    }

    fn prompted(&mut self, by: &str, parts: &[PromptPart], seq: Seq) -> String {
        if by == self.me && seq > self.head {
            return String::new();
        }
        let typed = as_typed(parts);
        // attachments by their names
        let shown = |part: &PromptPart| match &part.name {
            Some(name) => format!("[{}]", clean_line(name)),
            None if part.kind == PromptKind::Media => "[media]".to_owned(),
            None => clean(&part.text),
        };
        let text = typed.iter().map(shown).collect::<Vec<_>>().join(" ");
        let from = if by == self.me { String::new() } else { format!("  (by {})", clean_line(by)) };
        let lines = text.trim().replace('\n', "\n  ");
        let look = self.look.style;
        let shown =
            format!("{} {lines}{}", look.paint(Face::CYAN, "›"), look.paint(Face::DIM, &from));
        self.line(&shown)
    }

    fn ended(&mut self, ended: &Ended, millis: u64) -> String {
        let mut out = self.text_ends();
        self.previewed.clear();
        if let Some(reason) = stopped(ended.reason) {
            let face = if ended.reason == EndReason::Error { Face::RED } else { Face::YELLOW };
            let error = ended.error.as_deref().map(|error| format!(": {}", clean_line(error)));
            out += &self.note(face, &format!("{reason}{}", error.unwrap_or_default()));
        }
        out + &self.note(Face::DIM, &spent(ended, millis))
    }

    fn call_ended(&mut self, seq: Seq, outcome: &Outcome) -> String {
        let session = self.transcript.root();
        let call = session.and_then(|session| session.call(seq)).filter(|call| call.known);
        let Some((call, session)) = call.zip(session) else { return String::new() };
        let block = CallBlock { call, look: self.look };
        let shown = match outcome {
            Outcome::Finished(finished) => {
                let previewed = self.previewed.contains(&(session.id, seq));
                block.finished(finished, previewed).join("\n")
            }
            Outcome::Unresolved(error) => block.ended(CallMark::Failed, first_line(error)),
            Outcome::Denied => block.ended(CallMark::NotRun, "denied by the rules"),
            // The answer already says it.
            Outcome::Rejected { in_words: true, .. } => return String::new(),
            Outcome::Rejected { by, feedback, .. } => {
                let why = feedback.as_deref().map(|why| format!(": {}", clean_line(why)));
                let note = format!("rejected{}{}", self.by(by), why.unwrap_or_default());
                block.ended(CallMark::NotRun, &note)
            }
            Outcome::TimedOut { asked: true } => {
                block.ended(CallMark::NotRun, "denied: nobody answered in time")
            }
            Outcome::TimedOut { asked: false } => block.ended(CallMark::NotRun, "timed out"),
            Outcome::Lost => block.ended(CallMark::NotRun, "outcome unknown after a crash"),
            Outcome::Cancelled => block.ended(CallMark::NotRun, "stopped"),
        };
        self.line(&shown)
    }

    fn answered(
        &mut self,
        question: Seq,
        reply: Answer,
        feedback: Option<&str>,
        by: &str,
    ) -> String {
        let by = self.by(by);
        let open = self.transcript.root().and_then(|session| session.question(question));
        if open.is_some_and(|open| open.question.is_some()) {
            return self.answered_in_words(reply, feedback, &by);
        }
        let note = match reply {
            // The end of the call says it.
            Answer::Reject => return String::new(),
            Answer::Once => format!("  allowed once{by}"),
            Answer::Always => {
                let always = open.map(|open| open.always.iter().map(|text| visible_line(text)));
                let always: Vec<String> = always.into_iter().flatten().collect();
                format!("  allowed from now on{by}: {}", always.join(", "))
            }
        };
        self.note(Face::DIM, &note)
    }

    /// The client that answered, if it was not this terminal.
    fn by(&self, by: &str) -> String {
        if by == self.me { String::new() } else { format!(" by {}", clean_line(by)) }
    }

    /// A line of its own in one face, on as many rows as needed.
    pub(super) fn note(&mut self, face: Face, text: &str) -> String {
        let rows = self.rows(face, text);
        self.line(&rows)
    }

    /// A text in one face, on as many rows as needed.
    pub(super) fn rows(&self, face: Face, text: &str) -> String {
        let Look { style, columns } = self.look;
        let bare = text.trim_start();
        let mut rows = String::new();
        let mut wrap = Wrap::new(Style::default(), columns.saturating_sub(1));
        wrap.begin(Face::PLAIN, &text[..text.len() - bare.len()], &mut rows);
        wrap.push(Face::PLAIN, bare, &mut rows);
        wrap.flush_word(&mut rows);
        let rows: Vec<String> = rows.split('\n').map(|row| style.paint(face, row)).collect();
        rows.join("\n")
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

/// The tokens, cost and time of a turn.
fn spent(ended: &Ended, millis: u64) -> String {
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
    if ended.cost > 0.0 {
        parts.push(format!("${:.4}", ended.cost));
    }
    parts.push(duration(millis));
    parts.join(" · ")
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
