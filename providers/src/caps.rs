//! How much of one reply is accepted, so that a server that never stops cannot fill memory or disk.
//!
//! No model comes near these limits. A reply that passes one fails with the class `invalid`, which is
//! never retried, and the message names the limit.

use leftfold_events::event::FailureClass;

use crate::errors::Failure;
use crate::stream::StreamEvent;

const MIB: usize = 1 << 20;

/// Bytes of one event, and so of one line. The longest that servers send are whole replies in one
/// event, and images in base64.
pub(crate) const LARGEST_EVENT: usize = 16 * MIB;

/// Bytes of a whole answer on the wire. A token can take 300 bytes of JSON there, and the longest replies
/// have 128,000 tokens: 37 MiB.
const LARGEST_BODY: usize = 256 * MIB;

/// Bytes of text, reasoning and calls in a reply. All of it goes into the log and into later requests.
/// A million tokens have some 4 MiB.
const LARGEST_REPLY: usize = 8 * MIB;

/// Calls in a reply. A model makes some ten at once; each costs a check, a ruling and a run.
const MAX_CALLS: usize = 256;

/// Parts in a reply: blocks of text, blocks of reasoning, and calls. Each is kept by itself.
const MAX_PARTS: usize = 4_096;

/// Counts one reply.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    body: usize,
    reply: usize,
    /// Bytes of inputs whose calls are not complete. A complete call counts by its whole input.
    open_inputs: usize,
    parts: usize,
    calls: usize,
}

impl Caps {
    /// Counts bytes that have arrived.
    ///
    /// # Errors
    /// The answer is too large.
    pub(crate) fn received(&mut self, bytes: usize) -> Result<(), Failure> {
        self.body = self.body.saturating_add(bytes);
        hold(self.body, LARGEST_BODY, || {
            format!("more than {} MiB in one answer", LARGEST_BODY / MIB)
        })
    }

    /// Looks at the number of bytes that are kept of an event that has not ended yet.
    ///
    /// # Errors
    /// The event, or its line, is too long.
    pub(crate) fn pending(bytes: usize) -> Result<(), Failure> {
        hold(bytes, LARGEST_EVENT, || {
            format!("a line or an event of more than {} MiB", LARGEST_EVENT / MIB)
        })
    }

    /// Counts an event of the reply.
    ///
    /// # Errors
    /// The reply is too large, or has too many parts or calls.
    pub(crate) fn count(&mut self, event: &StreamEvent) -> Result<(), Failure> {
        match event {
            StreamEvent::TextStart { .. } | StreamEvent::ReasoningStart { .. } => self.parts += 1,
            StreamEvent::TextDelta { text, .. } | StreamEvent::ReasoningDelta { text, .. } => {
                self.reply += text.len();
            }
            StreamEvent::ReasoningEnd { signature, .. } => {
                self.reply += signature.as_ref().map_or(0, String::len);
            }
            StreamEvent::ToolInputDelta { text, .. } => self.open_inputs += text.len(),
            StreamEvent::ToolCall(call) => {
                self.parts += 1;
                self.calls += 1;
                self.reply += call.input.as_str().len() + call.name.len() + call.id.len();
                self.open_inputs = 0;
            }
            StreamEvent::Start { .. }
            | StreamEvent::RequestId(_)
            | StreamEvent::Exchanged(_)
            | StreamEvent::TextEnd { .. }
            | StreamEvent::ToolInputStart { .. }
            | StreamEvent::Finish { .. }
            | StreamEvent::Credentials(_)
            | StreamEvent::Failed(_) => {}
        }
        hold(self.calls, MAX_CALLS, || format!("more than {MAX_CALLS} calls in one reply"))?;
        hold(self.parts, MAX_PARTS, || format!("more than {MAX_PARTS} parts in one reply"))?;
        hold(self.reply + self.open_inputs, LARGEST_REPLY, || {
            let mib = LARGEST_REPLY / MIB;
            format!("a reply of more than {mib} MiB of text, reasoning and calls")
        })
    }
}

fn hold(count: usize, most: usize, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if count <= most {
        return Ok(());
    }
    let message = format!("the provider sent {}; it was cut off there", what());
    Err(Failure::fatal(FailureClass::Invalid, message))
}

#[cfg(test)]
mod tests {
    use leftfold_events::Json;
    use leftfold_events::event::CallSpec;

    use super::*;

    fn text(bytes: usize) -> StreamEvent {
        StreamEvent::TextDelta { id: "0".into(), text: "x".repeat(bytes) }
    }

    fn reasoning(bytes: usize) -> StreamEvent {
        StreamEvent::ReasoningDelta { id: "0".into(), text: "x".repeat(bytes) }
    }

    fn signature(bytes: usize) -> StreamEvent {
        let signature = Some("x".repeat(bytes));
        StreamEvent::ReasoningEnd { id: "0".into(), signature, redacted: true }
    }

    fn input(bytes: usize) -> StreamEvent {
        StreamEvent::ToolInputDelta { id: "0".into(), text: "x".repeat(bytes) }
    }

    fn call(bytes: usize) -> StreamEvent {
        let input = Json::from_value(&"x".repeat(bytes.saturating_sub(2)).into());
        StreamEvent::ToolCall(CallSpec { id: String::new(), name: String::new(), input })
    }

    fn part(_: usize) -> StreamEvent {
        StreamEvent::TextStart { id: "0".into() }
    }

    #[test]
    fn each_limit_is_where_it_is_named() {
        type Made = fn(usize) -> StreamEvent;
        let table: [(Made, usize, usize, &str); 7] = [
            (text, MIB, 8, "a reply of more than 8 MiB"),
            (reasoning, MIB, 8, "a reply of more than 8 MiB"),
            (signature, MIB, 8, "a reply of more than 8 MiB"),
            (input, MIB, 8, "a reply of more than 8 MiB"),
            (call, MIB, 8, "a reply of more than 8 MiB"),
            (call, 2, 256, "more than 256 calls"),
            (part, 0, 4_096, "more than 4096 parts"),
        ];
        for (made, bytes, most, words) in table {
            let (mut caps, event) = (Caps::default(), made(bytes));
            for n in 0..most {
                assert_eq!(caps.count(&event), Ok(()), "{words}: {n}");
            }
            let failure = caps.count(&event).unwrap_err();
            assert_eq!((failure.class, failure.retryable), (FailureClass::Invalid, false));
            assert!(failure.message.contains(words), "{}", failure.message);
        }
    }

    #[test]
    fn the_input_of_a_call_counts_once() {
        let mut caps = Caps::default();
        for _ in 0..7 {
            caps.count(&input(MIB)).unwrap();
            caps.count(&call(MIB)).unwrap();
        }
        caps.count(&text(MIB)).unwrap();
        caps.count(&text(1)).unwrap_err();
    }

    #[test]
    fn bytes_on_the_wire_count_whatever_they_say() {
        let mut caps = Caps::default();
        caps.received(LARGEST_BODY).unwrap();
        let failure = caps.received(1).unwrap_err();
        assert!(failure.message.contains("256 MiB in one answer"), "{}", failure.message);
        Caps::pending(LARGEST_EVENT).unwrap();
        let failure = Caps::pending(LARGEST_EVENT + 1).unwrap_err();
        assert!(failure.message.contains("of more than 16 MiB"), "{}", failure.message);
    }
}
