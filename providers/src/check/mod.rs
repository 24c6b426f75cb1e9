//! Checks whether an API would accept the body of a request, before it is sent.
//!
//! The rules come from the vendors' public API references. They are in a `check.rs` in the folder
//! of each wire format: each call has one result in its place, roles alternate where the API
//! requires it, no blocks are empty, ids have the required form, signatures are where they belong.
//! Parameters from settings are not checked, since vendors invent new ones. This module has the
//! tools for writing the rules.
//!
//! A body with a fault is a bug in this program. Debug builds refuse to send it and report the
//! fault. Release builds do not contain the rules: they answer open calls (`closing`), log that,
//! and send the body.

mod place;
pub(crate) mod tools;

use std::fmt;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use leftfold_events::event::FailureClass;

pub(crate) use place::{
    Faults, MemberType, Members, Place, is_blank, is_plain, need, range, shape,
};

use crate::errors::Failure;
use crate::stream::StreamEvent;

/// A rule that a body breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule's name.
    pub rule: &'static str,
    /// Path in the body, such as `messages[2].content[0]`.
    pub at: String,
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at `{}`: {}", self.rule, self.at, self.problem)
    }
}

/// The stream of a request that is not sent, because its body has this fault.
pub(crate) fn refused_stream(fault: &Fault) -> BoxStream<'static, StreamEvent> {
    let message = format!(
        "the request was not sent, because the API would refuse it: {fault}; this is a bug in leftfold, please report it"
    );
    let failure = Failure::fatal(FailureClass::Invalid, message);
    stream::iter([StreamEvent::Failed(failure)]).boxed()
}

#[cfg(test)]
mod tests;
