//! The bars of the timeline: what ran from which event to which, and how it ended.

use std::collections::HashMap;

use leftfold_events::event::{
    Answer, Compaction, EndReason, Event, Files, Finish, Hook, HookOutcome, Model, Purpose,
    Session, Subagent, Turn,
};
use leftfold_events::{Envelope, Seq, mask};
use leftfold_view::clean::printable_line;
use leftfold_view::words::shorten;
use leftfold_view::{CallStep, Change, Outcome, SessionView};
use serde::Serialize;
use serde_json::json;

/// The longest label, in characters.
const LABEL: usize = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SpanKind {
    Turn,
    Request,
    Call,
    /// A question to a person. `call` is the call that waits for it.
    Wait,
    /// The pause before a request is made again.
    Retry,
    Compaction,
    Hook,
    /// A snapshot or a restore of the project's files.
    Files,
    /// A subagent; the page draws the subagent's own log below it.
    Subagent,
    /// The node died in a turn: nothing ran until another one resumed it.
    Crash,
    /// A point at which something happened: an interrupt, a fork, a deadline.
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// It has not ended.
    Open,
    Ok,
    Failed,
    Denied,
    Cancelled,
    /// It is not known whether or how far it ran.
    Lost,
    /// Not what was wanted, but no failure: a reply that was cut off, a question that nobody answered.
    Partial,
}

#[derive(Debug, Serialize)]
pub(crate) struct Span {
    pub(crate) kind: SpanKind,
    pub(crate) from: Seq,
    /// `null`: it is open.
    pub(crate) to: Option<Seq>,
    pub(crate) end: End,
    pub(crate) label: String,
    /// The `tool.called` that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Seq>,
    /// When a call began to run: the time before is spent on rules, questions and the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ran: Option<Seq>,
    /// The subagent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<String>,
}

/// Collects the spans of one log, event by event.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    view: SessionView,
    spans: Vec<Span>,
    /// The open ones, by the seq of the event that began them.
    open: HashMap<Seq, usize>,
    turn: Option<Seq>,
    last: Seq,
}

impl Spans {
    /// The spans that began or changed after an event, with their numbers.
    pub(crate) fn since(&self, seq: Seq) -> impl Iterator<Item = (usize, &Span)> {
        let is_new = move |span: &Span| {
            span.from > seq
                || span.to.is_none_or(|to| to > seq)
                || span.ran.is_some_and(|ran| ran > seq)
        };
        self.spans.iter().enumerate().filter(move |(_, span)| is_new(span))
    }

    /// The call that an event with this `of` belongs to, in a few words.
    pub(crate) fn heading(&self, of: Seq) -> Option<String> {
        Some(self.view.call(self.call_of(of))?.heading())
    }

    /// The call that an event with this `of` belongs to.
    pub(crate) fn call_of(&self, of: Seq) -> Seq {
        self.view.call_of(of)
    }

    pub(crate) fn apply(&mut self, event: &Envelope) {
        for change in self.view.apply(event) {
            self.changed(change, event.seq);
        }
        match &event.event {
            Event::Session(session) => self.session(session, event),
            Event::Turn(turn) => self.turn(turn, event.seq),
            Event::Model(model) => self.model(model, event),
            Event::Compaction(compaction) => self.compaction(compaction, event),
            Event::Subagent(subagent) => self.subagent(subagent, event),
            Event::Files(files) => self.files(files, event),
            Event::Hook(hook) => self.hook(hook, event),
            Event::Tool(tool) => {
                if tool.started().is_some()
                    && let Some(of) = event.of
                    && let Some(at) = self.open.get(&self.view.call_of(of))
                {
                    self.spans[*at].ran = Some(event.seq);
                }
            }
            _ => {}
        }
        self.last = event.seq;
    }

    fn changed(&mut self, change: Change, seq: Seq) {
        match change {
            Change::Call { call, step: CallStep::Called } => {
                let label = self.view.call(call).map(|call| call.heading()).unwrap_or_default();
                self.begin(SpanKind::Call, call, &label);
            }
            Change::Call { call, step: CallStep::Ended { outcome, .. } } => {
                self.end(call, seq, of_call(&outcome));
            }
            Change::Asked(question) => {
                let Some(open) = self.view.question(question) else { return };
                let label = format!("{} {}", open.permission, open.patterns.join(", "));
                let call = self.view.call_of(open.call);
                self.begin(SpanKind::Wait, question, &label);
                if let Some(span) = self.spans.last_mut() {
                    span.call = Some(call);
                }
            }
            Change::Answered { question, reply, .. } => {
                let end = if reply == Answer::Reject { End::Denied } else { End::Ok };
                // the view has closed it already, without an outcome
                let asked = |span: &&mut Span| span.kind == SpanKind::Wait && span.from == question;
                if let Some(span) = self.spans.iter_mut().rev().find(asked) {
                    (span.to, span.end) = (Some(seq), end);
                }
            }
            Change::QuestionTimedOut(question) => self.end(question, seq, End::Partial),
            Change::QuestionClosed(question) => self.end(question, seq, End::Cancelled),
            _ => {}
        }
    }

    fn session(&mut self, session: &Session, event: &Envelope) {
        match session {
            Session::Resumed { close, .. } | Session::ResumedImported { close, .. } => {
                if self.turn.is_none() {
                    return;
                }
                // questions and calls go on, or have an end of their own
                self.end_all(event.seq, End::Lost, |kind| {
                    matches!(
                        kind,
                        SpanKind::Request | SpanKind::Retry | SpanKind::Hook | SpanKind::Files
                    )
                });
                let label = if *close { "resumed, to close the turn" } else { "resumed" };
                self.begin(SpanKind::Crash, self.last, label);
                self.end(self.last, event.seq, End::Lost);
            }
            Session::Forked { from, at } => {
                self.end_all(event.seq, End::Lost, |_| true);
                self.turn = None;
                self.mark(event.seq, &format!("fork of {from} at {at}"), End::Ok);
            }
            Session::DeadlinePassed {} => self.deadline_passed(event),
            _ => {}
        }
    }

    fn deadline_passed(&mut self, event: &Envelope) {
        if let Some(of) = event.of {
            let is_pause = |span: &&mut Span| span.kind == SpanKind::Retry && span.from == of;
            if let Some(pause) = self.spans.iter_mut().rev().find(is_pause) {
                // it was waited for
                (pause.to, pause.end) = (Some(event.seq), End::Ok);
                self.open.remove(&of);
                return;
            }
            self.end(of, event.seq, End::Partial);
        }
        self.mark(event.seq, "deadline passed", End::Failed);
    }

    fn turn(&mut self, turn: &Turn, seq: Seq) {
        match turn {
            Turn::Prompted { parts, .. } if self.turn.is_none() => {
                let text: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
                self.begin(SpanKind::Turn, seq, &text.join(" "));
                self.turn = Some(seq);
            }
            Turn::Interrupted { by } => {
                self.mark(seq, &format!("interrupted by {by}"), End::Cancelled);
            }
            Turn::Switched { agent, .. } => self.mark(seq, &format!("agent {agent}"), End::Ok),
            Turn::Ended(ended) => {
                self.end_all(seq, End::Cancelled, |kind| kind != SpanKind::Turn);
                if let Some(turn) = self.turn.take() {
                    self.end(turn, seq, of_turn(ended.reason));
                }
            }
            _ => {}
        }
    }

    fn model(&mut self, model: &Model, event: &Envelope) {
        match model {
            Model::Requested { model, purpose, attempt, .. } => {
                self.end_all(event.seq, End::Ok, |kind| kind == SpanKind::Retry);
                let purpose = match purpose {
                    Purpose::Turn => "",
                    Purpose::Title => ", title",
                    Purpose::SessionSummary => ", summary of the session",
                    Purpose::Compaction => ", summary",
                };
                let again =
                    if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
                self.begin(SpanKind::Request, event.seq, &format!("{}{purpose}{again}", model.id));
            }
            Model::Finished { finish, .. } => self.end_of(event, of_reply(*finish)),
            Model::Failed { .. } => self.end_of(event, End::Failed),
            Model::RetryScheduled { error, .. } => self.begin(SpanKind::Retry, event.seq, error),
            _ => {}
        }
    }

    fn compaction(&mut self, compaction: &Compaction, event: &Envelope) {
        match compaction {
            Compaction::Started { through, .. } => {
                let label = format!("summary of everything up to {through}");
                self.begin(SpanKind::Compaction, event.seq, &label);
            }
            Compaction::Finished { .. } => self.end_of(event, End::Ok),
            Compaction::Failed { .. } => self.end_of(event, End::Failed),
            Compaction::Pruned { calls } => {
                self.begin(
                    SpanKind::Compaction,
                    event.seq,
                    &format!("{} results pruned", calls.len()),
                );
                self.end(event.seq, event.seq, End::Ok);
            }
            _ => {}
        }
    }

    fn subagent(&mut self, subagent: &Subagent, event: &Envelope) {
        match subagent {
            Subagent::Spawned { session, agent, .. } => {
                let call = event.of.map(|of| self.view.call_of(of));
                self.begin(SpanKind::Subagent, event.seq, agent);
                if let Some(span) = self.spans.last_mut() {
                    span.session = Some(session.to_string());
                    span.call = call;
                }
            }
            Subagent::Ended { reason, .. } | Subagent::EndedUncounted { reason, .. } => {
                self.end_of(event, of_turn(*reason));
            }
        }
    }

    fn files(&mut self, files: &Files, event: &Envelope) {
        match files {
            Files::SnapshotStarted {} => self.begin(SpanKind::Files, event.seq, "snapshot"),
            Files::RestoreStarted { .. } => self.begin(SpanKind::Files, event.seq, "restore"),
            Files::Snapshotted { .. } | Files::Restored { .. } => self.end_of(event, End::Ok),
            Files::RevertAsked { to, by } => {
                self.mark(event.seq, &format!("revert to {to} by {by}"), End::Ok);
            }
            Files::UnrevertAsked { by } => {
                self.mark(event.seq, &format!("unrevert by {by}"), End::Ok);
            }
            Files::CheckoutAsked { by, .. } => {
                self.mark(event.seq, &format!("checkout by {by}"), End::Ok);
            }
            _ if files.failure().is_some() => self.end_of(event, End::Failed),
            _ => {}
        }
    }

    fn hook(&mut self, hook: &Hook, event: &Envelope) {
        match hook {
            Hook::Called { plugin, hook } => {
                self.begin(SpanKind::Hook, event.seq, &format!("{plugin} {}", hook.name()));
            }
            Hook::Returned { outcome, .. } => {
                let is_ok = *outcome == HookOutcome::Returned;
                self.end_of(event, if is_ok { End::Ok } else { End::Failed });
            }
        }
    }

    fn begin(&mut self, kind: SpanKind, from: Seq, label: &str) {
        let first = label.trim().lines().next().unwrap_or_default();
        let label = printable_line(&shorten(first, LABEL)).into_owned();
        let label = mask::mask(&label).unwrap_or(label);
        self.open.insert(from, self.spans.len());
        let span = Span {
            kind,
            from,
            to: None,
            end: End::Open,
            label,
            call: None,
            ran: None,
            session: None,
        };
        self.spans.push(span);
    }

    fn mark(&mut self, at: Seq, label: &str, end: End) {
        self.begin(SpanKind::Mark, at, label);
        self.end(at, at, end);
    }

    /// Ends the span that began with the event at `from`, if it is open.
    fn end(&mut self, from: Seq, to: Seq, end: End) {
        if let Some(at) = self.open.remove(&from) {
            (self.spans[at].to, self.spans[at].end) = (Some(to), end);
        }
    }

    /// Ends the span of the intent that this event is the outcome of.
    fn end_of(&mut self, event: &Envelope, end: End) {
        if let Some(of) = event.of {
            self.end(of, event.seq, end);
        }
    }

    fn end_all(&mut self, to: Seq, end: End, which: impl Fn(SpanKind) -> bool) {
        let spans = &self.spans;
        let open = self.open.iter().filter(|(_, at)| which(spans[**at].kind));
        for from in open.map(|(from, _)| *from).collect::<Vec<_>>() {
            self.end(from, to, end);
        }
    }
}

fn of_call(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Finished(finished) if finished.is_error => End::Failed,
        Outcome::Finished(_) => End::Ok,
        Outcome::Unresolved(_) => End::Failed,
        Outcome::Denied | Outcome::Rejected { .. } => End::Denied,
        Outcome::TimedOut { asked: true } => End::Denied,
        Outcome::TimedOut { asked: false } => End::Failed,
        Outcome::Lost => End::Lost,
        Outcome::Cancelled => End::Cancelled,
    }
}

fn of_reply(finish: Finish) -> End {
    match json!(finish).as_str() {
        Some("stop" | "tool_calls") => End::Ok,
        Some("error") => End::Failed,
        _ => End::Partial,
    }
}

fn of_turn(reason: EndReason) -> End {
    match reason {
        EndReason::Completed => End::Ok,
        EndReason::Blocked => End::Denied,
        EndReason::Error | EndReason::InvalidOutput => End::Failed,
        EndReason::Aborted => End::Cancelled,
        EndReason::MaxSteps | EndReason::Limit | EndReason::Incomplete => End::Partial,
    }
}
