//! Turns, requests and calls of one log, each with its beginning and its end: the rows of tables and the spans of
//! traces.

use std::collections::BTreeMap;

use leftfold_events::event::{
    Class, Ended, FailureClass, Finish, Model, ModelRef, Permission, PromptKind, PromptPart,
    Purpose, Session, Subagent, Turn, Usage, as_typed,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::{Envelope, Event, Json, Seq, SessionId, Time};
use leftfold_view::{CallStep, Change, Outcome, SessionView};

/// The place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// Of a shared event it is the session that a fork comes from.
    pub(crate) session: SessionId,
    pub(crate) seq: Seq,
    pub(crate) time: Time,
}

impl At {
    pub(crate) fn from_event(event: &Envelope) -> Self {
        Self { session: event.session, seq: event.seq, time: event.at }
    }
}

/// A record has no end while it is open, and if a crash has cut it off.
#[derive(Clone, Debug)]
pub(crate) struct TurnRecord {
    pub(crate) began: At,
    pub(crate) agent: String,
    pub(crate) model: ModelRef,
    pub(crate) prompt: String,
    pub(crate) ended: Option<(At, Box<Ended>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct RequestRecord {
    pub(crate) began: At,
    /// Its turn's first event.
    pub(crate) turn: Option<Seq>,
    pub(crate) agent: String,
    pub(crate) model: ModelRef,
    pub(crate) purpose: Purpose,
    pub(crate) step: u32,
    pub(crate) attempt: u32,
    /// When the first piece of the reply arrived.
    pub(crate) first: Option<Time>,
    pub(crate) ended: Option<(At, RequestEnd)>,
}

#[derive(Clone, Debug)]
pub(crate) enum RequestEnd {
    Finished { finish: Finish, usage: Usage, cost: f64, id: Option<String> },
    Failed { class: FailureClass, message: String, status: Option<u16> },
}

#[derive(Clone, Debug)]
pub(crate) struct CallRecord {
    pub(crate) began: At,
    pub(crate) turn: Option<Seq>,
    /// The request, the prompt or the call that made it.
    pub(crate) by: Option<Seq>,
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) class: Option<Class>,
    pub(crate) input: Json,
    pub(crate) verdict: Option<(Action, Option<Rule>)>,
    pub(crate) asked: bool,
    pub(crate) started: Option<Time>,
    pub(crate) subagent: Option<SessionId>,
    pub(crate) ended: Option<(At, Outcome)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Record {
    Turn(TurnRecord),
    Request(RequestRecord),
    Call(CallRecord),
}

impl Record {
    pub(crate) fn began(&self) -> At {
        match self {
            Self::Turn(turn) => turn.began,
            Self::Request(request) => request.began,
            Self::Call(call) => call.began,
        }
    }
}

/// The fold of one log.
#[derive(Debug, Default)]
pub(crate) struct Records {
    view: SessionView,
    turn: Option<TurnRecord>,
    requests: BTreeMap<Seq, RequestRecord>,
    calls: BTreeMap<Seq, CallRecord>,
}

impl Records {
    /// Applies an event. Returns the records that it ends.
    pub(crate) fn apply(&mut self, event: &Envelope) -> Vec<Record> {
        let at = At::from_event(event);
        let mut done = Vec::new();
        // a denial ends the call
        if let Event::Permission(Permission::Ruled { action, rule, .. }) = &event.event
            && let Some(call) = event.of.and_then(|of| self.calls.get_mut(&of))
        {
            call.verdict = Some((*action, rule.clone()));
        }
        for change in self.view.apply(event) {
            if let Change::Call { call, step } = change {
                self.call(call, step, event, &mut done);
            }
        }
        match &event.event {
            Event::Turn(turn) => self.turn(turn, at, &mut done),
            Event::Model(model) => self.model(model, event, &mut done),
            Event::Session(
                Session::Resumed { .. } | Session::ResumedImported { .. } | Session::Forked { .. },
            ) => {
                // no node knows how they went on
                let lost = std::mem::take(&mut self.requests);
                done.extend(lost.into_values().map(Record::Request));
                if matches!(event.event, Event::Session(Session::Forked { .. })) {
                    done.extend(self.rest());
                }
            }
            Event::Subagent(Subagent::Spawned { session, .. }) => {
                if let Some(call) = event.of.and_then(|of| self.calls.get_mut(&of)) {
                    call.subagent = Some(*session);
                }
            }
            _ => {}
        }
        done
    }

    /// Everything that is open: the requests and calls, then the turn.
    pub(crate) fn rest(&mut self) -> Vec<Record> {
        let requests = std::mem::take(&mut self.requests).into_values().map(Record::Request);
        let calls = std::mem::take(&mut self.calls).into_values().map(Record::Call);
        requests.chain(calls).chain(self.turn.take().map(Record::Turn)).collect()
    }

    fn turn_seq(&self) -> Option<Seq> {
        self.turn.as_ref().map(|turn| turn.began.seq)
    }

    fn turn(&mut self, turn: &Turn, at: At, done: &mut Vec<Record>) {
        match turn {
            Turn::Prompted { parts, agent, model, .. } if self.turn.is_none() => {
                let typed: Vec<PromptPart> = as_typed(parts);
                let texts = typed.iter().filter(|part| part.kind != PromptKind::Media);
                let texts: Vec<&str> = texts.map(|part| part.text.as_str()).collect();
                let (agent, model, prompt) = (agent.clone(), model.clone(), texts.join("\n\n"));
                self.turn = Some(TurnRecord { began: at, agent, model, prompt, ended: None });
            }
            Turn::Ended(ended) => {
                if let Some(turn) = &mut self.turn {
                    turn.ended = Some((at, ended.clone()));
                }
                done.extend(self.rest());
            }
            _ => {}
        }
    }

    fn model(&mut self, model: &Model, event: &Envelope, done: &mut Vec<Record>) {
        let (at, of) = (At::from_event(event), event.concerned());
        let mut end = |end: RequestEnd| {
            if let Some(mut request) = self.requests.remove(&of) {
                request.ended = Some((at, end));
                done.push(Record::Request(request));
            }
        };
        match model {
            Model::Requested { model, step, attempt, purpose, .. } => {
                let request = RequestRecord {
                    began: at,
                    turn: self.turn_seq(),
                    agent: self.view.agent.clone(),
                    model: model.clone(),
                    purpose: *purpose,
                    step: *step,
                    attempt: *attempt,
                    first: None,
                    ended: None,
                };
                self.requests.insert(at.seq, request);
            }
            Model::Streamed { .. } => {
                if let Some(request) = self.requests.get_mut(&of) {
                    request.first.get_or_insert(at.time);
                }
            }
            Model::Finished { finish, usage, cost, .. } => {
                let id = event.notes.exchange.as_ref().and_then(|it| it.request_id.clone());
                end(RequestEnd::Finished { finish: *finish, usage: *usage, cost: *cost, id });
            }
            Model::Failed { class, message, status, .. } => {
                let (class, status) = (*class, *status);
                end(RequestEnd::Failed { class, message: message.clone(), status });
            }
            _ => {}
        }
    }

    fn call(&mut self, seq: Seq, step: CallStep, event: &Envelope, done: &mut Vec<Record>) {
        let Some(known) = self.view.call(seq) else { return };
        match step {
            CallStep::Called => {
                let call = CallRecord {
                    began: At::from_event(event),
                    turn: self.turn_seq(),
                    by: event.of,
                    id: known.id.clone(),
                    tool: known.name.clone(),
                    class: None,
                    input: Json::from_value(&known.input),
                    verdict: None,
                    asked: false,
                    started: None,
                    subagent: None,
                    ended: None,
                };
                self.calls.insert(seq, call);
            }
            CallStep::Ended { outcome, first: true } => {
                if let Some(mut call) = self.calls.remove(&seq) {
                    call.tool.clone_from(&known.name);
                    (call.class, call.asked) = (known.class, known.asked);
                    call.started = known.started;
                    call.input = Json::from_value(&known.input);
                    call.ended = Some((At::from_event(event), outcome));
                    done.push(Record::Call(call));
                }
            }
            _ => {}
        }
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
