//! Pieces of a reply on their way into the log: gathered for about 100 ms or 2 KiB, whichever
//! comes first, because each batch costs a flush. The first piece goes at once.

use std::time::Duration;

use leftfold_events::event::{Model, PartKind, StreamedPart};
use leftfold_events::{Fact, Seq};
use leftfold_providers::StreamEvent;
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_millis(100);
const FULL: usize = 2048;

#[derive(Default)]
pub(crate) struct Coalescer {
    parts: Vec<StreamedPart>,
    bytes: usize,
    /// When the oldest waiting piece has waited long enough.
    due: Option<Instant>,
    /// Whether anything has gone out yet.
    begun: bool,
}

impl Coalescer {
    /// Takes text and reasoning; everything else passes by.
    pub(crate) fn push(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::TextDelta { id, text } => self.append(id, PartKind::Text, &text),
            StreamEvent::ReasoningDelta { id, text } => self.append(id, PartKind::Reasoning, &text),
            StreamEvent::ReasoningEnd { id, signature, redacted } => {
                if signature.is_some() || redacted {
                    self.append(id, PartKind::Reasoning, "");
                    if let Some(part) = self.parts.last_mut() {
                        part.signature = signature;
                        part.redacted = redacted;
                    }
                }
            }
            StreamEvent::Start { .. }
            | StreamEvent::TextStart { .. }
            | StreamEvent::TextEnd { .. }
            | StreamEvent::ReasoningStart { .. }
            | StreamEvent::ToolInputStart { .. }
            | StreamEvent::ToolInputDelta { .. }
            | StreamEvent::ToolCall(_)
            | StreamEvent::Finish { .. }
            | StreamEvent::Failed(_) => {}
        }
    }

    fn append(&mut self, id: String, kind: PartKind, text: &str) {
        self.bytes += text.len();
        self.due.get_or_insert_with(|| Instant::now() + WINDOW);
        match self.parts.last_mut().filter(|part| part.id == id && part.kind == kind) {
            Some(part) => part.text.push_str(text),
            None => {
                let text = text.to_owned();
                self.parts.push(StreamedPart { id, kind, text, signature: None, redacted: false });
            }
        }
    }

    /// Whether what waits should go without waiting for more.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= FULL || (!self.begun && self.bytes > 0)
    }

    /// Ends when the oldest waiting piece is due; never while nothing waits.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// All that waits, as one fact.
    pub(crate) fn take(&mut self, of: Seq) -> Option<Fact> {
        if self.parts.is_empty() {
            return None;
        }
        (self.bytes, self.due, self.begun) = (0, None, true);
        let parts = std::mem::take(&mut self.parts);
        Some(Fact::of(of, Model::Streamed { parts }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> StreamEvent {
        StreamEvent::TextDelta { id: "0".into(), text: text.into() }
    }

    #[test]
    fn the_first_piece_goes_at_once_and_the_rest_waits() {
        let mut pieces = Coalescer::default();
        pieces.push(text("a"));
        assert!(pieces.is_full());
        assert!(pieces.take(1).is_some());
        pieces.push(text("b"));
        assert!(!pieces.is_full());
        pieces.push(text(&"c".repeat(FULL)));
        assert!(pieces.is_full());
    }

    #[test]
    fn pieces_of_one_part_become_one_and_a_signature_ends_it() {
        let mut pieces = Coalescer::default();
        for piece in ["a", "b"] {
            pieces.push(StreamEvent::ReasoningDelta { id: "0".into(), text: piece.into() });
        }
        let signature = Some("s".to_owned());
        pieces.push(StreamEvent::ReasoningEnd {
            id: "0".into(),
            signature: signature.clone(),
            redacted: false,
        });
        let part = StreamedPart {
            id: "0".into(),
            kind: PartKind::Reasoning,
            text: "ab".into(),
            signature,
            redacted: false,
        };
        assert_eq!(pieces.take(7), Some(Fact::of(7, Model::Streamed { parts: vec![part] })));
        assert_eq!(pieces.take(7), None);
    }
}
