//! Turns, requests and calls of one log, each with its end: the rows of tables and the spans of traces. The view knows
//! them; here they are collected when they end.

use leftfold_events::event::{Ended, FailureClass, Finish, Model, Session, Turn, Usage};
use leftfold_events::{Envelope, Event, Seq, SessionId, Time};
use leftfold_view::{Call, CallStep, Change, Outcome, Request, SessionView, TurnStart};

/// A record with the time and the kind of its end. It has none while it is open, and if a crash has cut it off.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    Turn(TurnStart, Option<(Time, Box<Ended>)>),
    Request(Request, Option<(Time, RequestEnd)>),
    Call(Box<Call>, Option<(Time, Outcome)>),
}

#[derive(Clone, Debug)]
pub(crate) enum RequestEnd {
    Finished { finish: Finish, usage: Usage, cost: f64, id: Option<String> },
    Failed { class: FailureClass, message: String, status: Option<u16> },
}

impl Record {
    /// The place and the time of its first event. The session is that of the event: of a shared event, the session that
    /// a fork comes from.
    pub(crate) fn began(&self) -> (SessionId, Seq, Time) {
        match self {
            Self::Turn(turn, _) => (turn.session, turn.seq, turn.at),
            Self::Request(request, _) => (request.session, request.seq, request.since),
            Self::Call(call, _) => (call.session, call.seq, call.at),
        }
    }
}

/// The records of one log.
#[derive(Debug, Default)]
pub(crate) struct Records {
    view: SessionView,
    /// The last `session.forked`: nothing before it goes on.
    forked: Option<Seq>,
}

impl Records {
    /// Applies an event. Returns the records that it ends.
    pub(crate) fn apply(&mut self, event: &Envelope) -> Vec<Record> {
        let mut done = match &event.event {
            Event::Turn(Turn::Ended(ended)) => self.open(Some(&(event.at, ended.clone()))),
            Event::Session(Session::Forked { .. }) => self.rest(),
            // no node knows how they went on
            Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. }) => {
                self.requests()
            }
            Event::Model(model) => self.answered(model, event).into_iter().collect(),
            _ => Vec::new(),
        };
        if let Event::Session(Session::Forked { .. }) = &event.event {
            self.forked = Some(event.seq);
        }
        for change in self.view.apply(event) {
            if let Change::Call { call, step: CallStep::Ended { outcome, first: true } } = change
                && let Some(call) = self.view.call(call)
                && call.known
                && self.is_here(call.seq)
            {
                done.push(Record::Call(Box::new(call.clone()), Some((event.at, outcome))));
            }
        }
        done
    }

    /// Everything that is open: the requests and calls, then the turn.
    pub(crate) fn rest(&self) -> Vec<Record> {
        self.open(None)
    }

    /// The first event of the current turn.
    pub(crate) fn turn(&self) -> Option<Seq> {
        self.view.turn_seq()
    }

    fn open(&self, ended: Option<&(Time, Box<Ended>)>) -> Vec<Record> {
        let calls = self.view.calls().filter(|call| call.ended.is_none() && self.is_here(call.seq));
        let mut open = self.requests();
        open.extend(calls.map(|call| Record::Call(Box::new(call.clone()), None)));
        let turn = self.view.turn.iter().filter(|turn| self.is_here(turn.seq));
        open.extend(turn.map(|turn| Record::Turn(turn.clone(), ended.cloned())));
        open
    }

    fn requests(&self) -> Vec<Record> {
        self.view.requests().map(|request| Record::Request(request.clone(), None)).collect()
    }

    fn is_here(&self, seq: Seq) -> bool {
        self.forked.is_none_or(|forked| seq > forked)
    }

    fn answered(&self, model: &Model, event: &Envelope) -> Option<Record> {
        let end = match model {
            Model::Finished { finish, usage, cost, .. } => {
                let id = event.notes.exchange.as_ref().and_then(|it| it.request_id.clone());
                RequestEnd::Finished { finish: *finish, usage: *usage, cost: *cost, id }
            }
            Model::Failed { class, message, status, .. } => {
                RequestEnd::Failed { class: *class, message: message.clone(), status: *status }
            }
            _ => return None,
        };
        let request = self.view.requests().find(|request| request.seq == event.concerned())?;
        Some(Record::Request(request.clone(), Some((event.at, end))))
    }
}

/// The outcome of a call in a word.
pub(crate) fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Finished(finished) if finished.is_error => "error",
        Outcome::Finished(_) => "ok",
        Outcome::Unresolved(_) => "not_run",
        Outcome::Denied => "denied",
        Outcome::Rejected { .. } => "rejected",
        Outcome::TimedOut { .. } => "timed_out",
        Outcome::Lost => "lost",
        Outcome::Cancelled => "cancelled",
    }
}

/// The text of a call's outcome.
pub(crate) fn outcome_text(outcome: &Outcome) -> &str {
    match outcome {
        Outcome::Finished(finished) => &finished.output,
        Outcome::Unresolved(error) => error,
        Outcome::Rejected { feedback, .. } => feedback.as_deref().unwrap_or_default(),
        Outcome::Denied | Outcome::TimedOut { .. } | Outcome::Lost | Outcome::Cancelled => "",
    }
}

/// The word of a value that is written as one, such as a reason.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}
