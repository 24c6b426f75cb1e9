//! Whether an API would take the body of a request, told before it is sent.
//!
//! The rules are those of the vendors' public API references, a `check.rs` in the folder of each wire
//! format: each call answered once and in place, roles that alternate where they have to, no empty
//! blocks, ids in the form that is asked for, signatures where they belong. Parameters that settings
//! add are not judged, since vendors invent new ones. Here is what the rules are written with.
//!
//! A body with a fault is a mistake in this program. Debug builds refuse to send it and say which
//! fault it is; release builds do not have the rules, answer open calls (`closing`) and send.

mod place;
pub(crate) mod tools;

use std::fmt;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::Sha256;
use leftfold_events::event::FailureClass;

pub(crate) use place::{Faults, Is, Members, Place, is_blank, is_plain, need, range, shape};

use crate::errors::Failure;
use crate::stream::StreamEvent;

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

/// The stream of a request that is not sent, since its body has this fault.
pub(crate) fn refused(body: &[u8], fault: &Fault) -> BoxStream<'static, StreamEvent> {
    let message = format!(
        "the request was not sent, because the API would refuse it: {fault}; this is a mistake in leftfold, please report it"
    );
    let failure = Failure::fatal(FailureClass::Invalid, message);
    let start = StreamEvent::Start { body_sha256: Sha256::of(body) };
    stream::iter([start, StreamEvent::Failed(failure)]).boxed()
}

#[cfg(test)]
mod tests;
