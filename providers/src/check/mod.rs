//! Whether an API would take the body of a request, told before it is sent.
//!
//! The rules are those of the vendors' public API references, one module for each wire format: each
//! call answered once and in place, roles that alternate where they have to, no empty blocks, ids in
//! the form that is asked for, signatures where they belong. Parameters that settings add are not
//! judged, since vendors invent new ones.
//!
//! What becomes of a body with a fault, which is a mistake in this program, is for [`Faulty`] to say:
//! debug builds refuse to send it and say which fault it is, release builds answer open calls
//! ([`closing`]) and send.

mod anthropic;
mod chat;
mod closing;
mod gemini;
mod place;
mod responses;
mod tools;

use std::fmt;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Sha256;
use leftfold_events::event::FailureClass;
use serde_json::Value;

pub(crate) use closing::closed;
use place::{Faults, Place};

use crate::errors::Failure;
use crate::openai_chat::quirks::{self, Quirks};
use crate::{Config, StreamEvent, Wire};

/// What becomes of a request that its API would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faulty {
    /// It is not sent, and its fault is told.
    Refused,
    /// Calls without results get some, which is logged, and it is sent.
    Mended,
}

impl Faulty {
    /// As this build has it. Nothing else asks which build it is, so that tests can have both.
    pub const IN_THIS_BUILD: Self =
        if cfg!(debug_assertions) { Self::Refused } else { Self::Mended };
}

/// A rule that a body breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule's name.
    pub rule: &'static str,
    /// Where in the body, as `messages[2].content[0]`.
    pub at: String,
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at `{}`: {}", self.rule, self.at, self.problem)
    }
}

/// Everything in `body` that the provider of `config` would refuse. `model` is the model that the
/// request is for, which not every wire names in its body. A scripted provider refuses nothing.
pub fn faults(config: &Config, model: &str, body: &Value) -> Vec<Fault> {
    match config.wire {
        Wire::Anthropic => Rules::Anthropic.faults(body),
        Wire::OpenaiChat => Rules::Chat(quirks::of(config)).faults(body),
        Wire::OpenaiResponses => Rules::Responses(quirks::of(config)).faults(body),
        Wire::Gemini => Rules::Gemini(model.to_owned()).faults(body),
        Wire::Scripted => Vec::new(),
    }
}

/// Whose rules a body has to keep.
#[derive(Debug)]
pub(crate) enum Rules {
    Anthropic,
    Chat(&'static Quirks),
    Responses(&'static Quirks),
    /// For this model.
    Gemini(String),
}

impl Rules {
    pub(crate) fn faults(&self, body: &Value) -> Vec<Fault> {
        let mut faults = Faults::default();
        let body = Place::root(body);
        if !body.value.is_object() {
            faults.add("shape", &body, "the body is no JSON object");
            return faults.into_vec();
        }
        match self {
            Self::Anthropic => anthropic::check(&body, &mut faults),
            Self::Chat(quirks) => chat::check(&body, quirks, &mut faults),
            Self::Responses(quirks) => responses::check(&body, quirks, &mut faults),
            Self::Gemini(model) => gemini::check(&body, model, &mut faults),
        }
        faults.into_vec()
    }
}

/// The bytes of a body.
pub(crate) fn bytes(body: &Value) -> Vec<u8> {
    // serialising values to memory has no way to fail
    serde_json::to_vec(body).unwrap_or_default()
}

/// Has `go` send the body, unless it has a fault and `faulty` ones are refused.
pub(crate) fn send(
    faulty: Faulty,
    rules: &Rules,
    body: &Value,
    go: impl FnOnce(Vec<u8>) -> BoxStream<'static, StreamEvent>,
) -> BoxStream<'static, StreamEvent> {
    let bytes = bytes(body);
    if faulty == Faulty::Refused
        && let Some(fault) = rules.faults(body).first()
    {
        let body_sha256 = Sha256::of(&bytes);
        return stream::iter([StreamEvent::Start { body_sha256 }, refused(fault)]).boxed();
    }
    go(bytes)
}

fn refused(fault: &Fault) -> StreamEvent {
    let message = format!(
        "the request was not sent, because the API would refuse it: {fault}; this is a mistake in leftfold, please report it"
    );
    StreamEvent::Failed(Failure::fatal(FailureClass::Invalid, message))
}

#[cfg(test)]
mod tests;
