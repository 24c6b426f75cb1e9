//! A model that goes round in circles: the same call for the third time in a row (SPEC D1, D2).

use super::message::{Message, Reply};
use super::{Call, State};
use crate::event::Access;

/// The permission that such a call needs besides its own.
pub(super) const DOOM_LOOP: &str = "doom_loop";
/// With this many equal calls before it, a call repeats them.
const BEFORE: usize = 2;

/// What is to be allowed before `tool` runs once more.
pub(super) fn access(tool: &str) -> Access {
    let tool = vec![tool.to_owned()];
    Access { permission: DOOM_LOOP.to_owned(), patterns: tool.clone(), always: tool }
}

impl State {
    /// Whether the calls right before `c`, since the last prompt, have asked for the very same.
    /// Text between them does not count. A child is prompted by a model and not by a user, so there a
    /// prompt begins nothing anew: its calls are counted through all that its session was asked to do.
    pub(super) fn repeats(&self, c: &Call) -> bool {
        let is_child = self.origin.as_ref().is_some_and(|origin| origin.parent.is_some());
        let prompt = self.messages.iter().rposition(|m| m.prompt().is_some() && !is_child);
        let since = self.messages.iter().skip(prompt.unwrap_or(0));
        let calls = since.filter_map(Message::reply).flat_map(Reply::calls);
        let mut earlier: Vec<&Call> =
            calls.filter(|call| call.within.is_none() && call.seq < c.seq).collect();
        let last = earlier.split_off(earlier.len().saturating_sub(BEFORE));
        c.within.is_none() && last.len() == BEFORE && last.iter().all(|call| call.equals(c))
    }
}

impl Call {
    fn equals(&self, other: &Self) -> bool {
        let same = || self.input == other.input || self.input.value() == other.input.value();
        self.name == other.name && same()
    }
}
