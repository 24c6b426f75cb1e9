//! Facts that workers send to the session.

use std::time::{Duration, Instant};

use leftfold_events::event::{Exchange, FailureClass, Model, Notes};
use leftfold_events::{Fact, Request, Seq};
use leftfold_providers::{Credentials, Failure};
use ractor::ActorRef;

use crate::messages::SessionMessage;

/// Sends an empty `model.streamed` from time to time, to extend the request's deadline. A stream
/// may be busy for long with data that is reported only when complete: a call's input, hidden
/// reasoning, a summary.
pub(crate) struct Heartbeat {
    every: Duration,
    last: Instant,
}

impl Heartbeat {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { every: patience / 3, last: Instant::now() }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.last.elapsed() >= self.every
    }

    pub(crate) fn told(&mut self) {
        self.last = Instant::now();
    }

    pub(crate) fn fact(&self, of: Seq) -> Fact {
        Fact::for_intent(of, Model::Streamed { parts: Vec::new() })
    }
}

pub(crate) fn tell(owner: &ActorRef<SessionMessage>, facts: Vec<Fact>) {
    if owner.cast(SessionMessage::Facts(facts)).is_err() {
        tracing::debug!("the session is gone: facts were dropped");
    }
}

/// Has the session keep these credentials out of its log from now on.
pub(crate) fn hide(owner: &ActorRef<SessionMessage>, credentials: Credentials) {
    if owner.cast(SessionMessage::Hide(credentials)).is_err() {
        tracing::debug!("the session is gone: credentials were dropped");
    }
}

/// Adds the notes about its exchange to the outcome of a request.
pub(crate) fn noted(outcome: Fact, exchange: Exchange) -> Fact {
    if exchange == Exchange::default() {
        return outcome;
    }
    outcome.with_notes(Notes::of_exchange(exchange))
}

pub(crate) fn failed(of: Seq, failure: Failure) -> Fact {
    let Failure { class, message, status, retryable, retry_after } = failure;
    Fact::for_intent(of, Model::Failed { class, message, status, retryable, retry_after })
}

pub(crate) fn broken(message: &str) -> Failure {
    Failure {
        class: FailureClass::Network,
        message: message.to_owned(),
        status: None,
        retryable: true,
        retry_after: None,
    }
}

pub(crate) fn unknown_provider(request: &Request) -> Failure {
    let provider = &request.model.provider;
    Failure {
        class: FailureClass::Invalid,
        message: format!("the provider `{provider}` is not in the settings in force"),
        status: None,
        retryable: false,
        retry_after: None,
    }
}
