//! Detects a doom loop: a model that makes three equal calls in a row. The third call needs the permission `doom_loop`, so a
//! rule or a person ends the loop.

use super::message::Message;
use super::{Call, State};
use crate::event::Access;

/// The additional permission that such a call needs.
pub(super) const DOOM_LOOP: &str = "doom_loop";
/// The number of equal calls before a call that make it a doom loop.
const EARLIER_EQUAL_CALLS: usize = 2;

/// The access that must be allowed before `tool` runs once more.
pub(super) fn access(tool: &str) -> Access {
    let tool = vec![tool.to_owned()];
    Access { permission: DOOM_LOOP.to_owned(), patterns: tool.clone(), always: tool }
}

impl State {
    /// Whether the calls directly before `c`, since the last prompt, are equal to it. Text between
    /// them does not count. A model and not a user prompts a child, so a prompt there does not
    /// restart the count.
    pub(super) fn is_doom_loop(&self, c: &Call) -> bool {
        let is_child = self.origin.as_ref().is_some_and(|origin| origin.parent.is_some());
        let since = self.messages.iter().rev();
        let since = since.take_while(|message| is_child || message.prompt().is_none());
        let calls = since.filter_map(Message::reply).flat_map(|reply| reply.calls().rev());
        let earlier = calls.filter(|call| call.within.is_none() && call.seq < c.seq);
        let equal = earlier.take(EARLIER_EQUAL_CALLS).take_while(|call| call.equals(c));
        c.within.is_none() && equal.count() == EARLIER_EQUAL_CALLS
    }
}

impl Call {
    fn equals(&self, other: &Self) -> bool {
        let same = || self.input == other.input || self.input.value() == other.input.value();
        self.name == other.name && same()
    }
}
