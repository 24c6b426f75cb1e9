//! Coalesces the pieces of a reply for the log. Pieces are gathered for about 100 ms or 2 KiB,
//! whichever comes first, because each batch costs a flush. The first piece goes as soon as no more has come. Pieces
//! are searched for secrets and tokens one by one, so the end of an unfinished part is held back
//! while it may begin one.

use std::time::Duration;

use leftfold_events::event::{Model, PartKind, StreamedInput, StreamedPart, Tool};
use leftfold_events::{Fact, Secrets, Seq, mask};
use leftfold_providers::StreamEvent;
use tokio::time::Instant;

const COALESCE_DELAY: Duration = Duration::from_millis(100);
const FULL: usize = 2048;

/// The time between two reports of a call's size. A call that is complete before the first is not reported.
const GROWTH_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// The sizes of the calls that the model is writing.
#[derive(Default)]
pub(crate) struct InputSizes {
    calls: Vec<StreamedInput>,
    /// When the next report is due.
    due: Option<Instant>,
    has_grown: bool,
}

impl InputSizes {
    /// Counts the arguments of calls; ignores other events.
    pub(crate) fn push(&mut self, event: &StreamEvent, now: Instant) {
        match event {
            StreamEvent::ToolInputStart { id, name } => {
                self.calls.push(StreamedInput { id: id.clone(), name: name.clone(), bytes: 0 });
                self.due.get_or_insert_with(|| now + GROWTH_REPORT_INTERVAL);
            }
            StreamEvent::ToolInputDelta { id, text } => {
                if let Some(call) = self.calls.iter_mut().rfind(|call| call.id == *id) {
                    call.bytes += text.len() as u64;
                    self.has_grown = true;
                }
            }
            StreamEvent::ToolCall(call) => {
                self.calls.retain(|writing| writing.id != call.id);
                if self.calls.is_empty() {
                    self.due = None;
                }
            }
            _ => {}
        }
    }

    /// The sizes as a fact, if calls have grown and a report is due.
    pub(crate) fn take(&mut self, of: Seq, now: Instant) -> Option<Fact> {
        if !self.has_grown || self.calls.is_empty() || self.due.is_none_or(|due| now < due) {
            return None;
        }
        self.has_grown = false;
        self.due = Some(now + GROWTH_REPORT_INTERVAL);
        Some(Fact::for_intent(of, Tool::InputStreamed { calls: self.calls.clone() }))
    }
}

#[derive(Default)]
pub(crate) struct Coalescer {
    secrets: Secrets,
    parts: Vec<Waiting>,
    /// The size of the pieces since the last `take`.
    bytes: usize,
    /// When the oldest waiting piece is due.
    due: Option<Instant>,
    /// Whether any piece has been passed on yet.
    begun: bool,
}

/// The waiting text of a part.
struct Waiting {
    part: StreamedPart,
    /// Whether the part is complete.
    ended: bool,
}

impl Coalescer {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Takes text and reasoning; ignores other events.
    pub(crate) fn push(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::TextDelta { id, text } => {
                self.append(id, PartKind::Text, &text);
            }
            StreamEvent::ReasoningDelta { id, text } => {
                self.append(id, PartKind::Reasoning, &text);
            }
            StreamEvent::ReasoningEnd { id, signature, redacted } => {
                if signature.is_some() || redacted {
                    let part = self.append(id.clone(), PartKind::Reasoning, "");
                    part.signature = signature;
                    part.redacted = redacted;
                }
                self.end(&id, PartKind::Reasoning);
            }
            StreamEvent::TextEnd { id } => self.end(&id, PartKind::Text),
            _ => {}
        }
    }

    fn append(&mut self, id: String, kind: PartKind, text: &str) -> &mut StreamedPart {
        self.bytes += text.len();
        self.due.get_or_insert_with(|| Instant::now() + COALESCE_DELAY);
        let known = self.parts.iter().rposition(|waiting| waiting.is(&id, kind));
        let at = known.unwrap_or(self.parts.len());
        if known.is_none() {
            let text = String::new();
            let part = StreamedPart { id, kind, text, signature: None, redacted: false };
            self.parts.push(Waiting { part, ended: false });
        }
        let part = &mut self.parts[at].part;
        part.text.push_str(text);
        part
    }

    /// Ends a part. The text that was held back goes with the next `take`.
    fn end(&mut self, id: &str, kind: PartKind) {
        for waiting in self.parts.iter_mut().filter(|waiting| waiting.is(id, kind)) {
            waiting.ended = true;
            self.due.get_or_insert_with(|| Instant::now() + COALESCE_DELAY);
        }
    }

    /// Whether the waiting pieces should go now.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= FULL
    }

    /// Whether the waiting pieces are the first ones of the reply: they should go as soon as no more have come.
    pub(crate) fn is_first(&self) -> bool {
        !self.begun && self.bytes > 0
    }

    /// Completes when the oldest waiting piece is due; never if nothing waits.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// All waiting text that can be searched, as one fact.
    pub(crate) fn take(&mut self, of: Seq) -> Option<Fact> {
        (self.bytes, self.due) = (0, None);
        let mut parts = Vec::new();
        for Waiting { mut part, ended } in std::mem::take(&mut self.parts) {
            let settled = if ended { part.text.len() } else { self.settled(&part.text) };
            let held = part.text.split_off(settled);
            if !held.is_empty() {
                let part = StreamedPart { text: held, ..part.clone() };
                self.parts.push(Waiting { part, ended });
            }
            if !part.text.is_empty() || ended && (part.signature.is_some() || part.redacted) {
                parts.push(part);
            }
        }
        self.begun |= !parts.is_empty();
        (!parts.is_empty()).then(|| Fact::for_intent(of, Model::Streamed { parts }))
    }

    /// The number of bytes of an unfinished part that can be searched and masked by themselves.
    fn settled(&self, text: &str) -> usize {
        self.secrets.settled(&text[..mask::settled(text)])
    }

    /// All waiting text, at the end of the reply.
    pub(crate) fn take_all(&mut self, of: Seq) -> Option<Fact> {
        self.parts.iter_mut().for_each(|waiting| waiting.ended = true);
        self.take(of)
    }
}

impl Waiting {
    /// Whether a piece with this id and kind belongs to this part.
    fn is(&self, id: &str, kind: PartKind) -> bool {
        !self.ended && self.part.id == id && self.part.kind == kind
    }
}

#[cfg(test)]
mod tests {
    use leftfold_events::Event;
    use leftfold_events::secrets::Secret;

    use super::*;

    fn text(text: &str) -> StreamEvent {
        StreamEvent::TextDelta { id: "0".into(), text: text.into() }
    }

    #[test]
    fn a_call_that_grows_is_reported_once_a_second() {
        let (mut sizes, began) = (InputSizes::default(), Instant::now());
        let at = |millis: u64| began + Duration::from_millis(millis);
        let id = || "c".to_owned();
        let delta = StreamEvent::ToolInputDelta { id: id(), text: "12345".to_owned() };
        let report = |bytes: u64| {
            let calls = vec![StreamedInput { id: id(), name: "write".to_owned(), bytes }];
            Some(Fact::for_intent(7, Tool::InputStreamed { calls }))
        };
        sizes.push(&StreamEvent::ToolInputStart { id: id(), name: "write".to_owned() }, at(0));
        let mut reports = Vec::new();
        for millis in (100..=2_500).step_by(100) {
            sizes.push(&delta, at(millis));
            reports.extend(sizes.take(7, at(millis)));
        }
        assert_eq!(reports, [report(50), report(100)].map(Option::unwrap));
        let input = leftfold_events::Json::object();
        let call = leftfold_events::event::CallSpec { id: id(), name: "write".to_owned(), input };
        sizes.push(&StreamEvent::ToolCall(call), at(2_600));
        assert_eq!(sizes.take(7, at(9_000)), None);
    }

    #[test]
    fn the_first_piece_goes_at_once_and_the_rest_waits() {
        let mut pieces = Coalescer::default();
        assert!(!pieces.is_first());
        pieces.push(text("a"));
        assert!(pieces.is_first());
        assert!(pieces.take(1).is_some());
        pieces.push(text("b"));
        assert!(!pieces.is_first() && !pieces.is_full());
        pieces.push(text(&"c".repeat(FULL)));
        assert!(pieces.is_full());
    }

    #[test]
    fn a_tail_that_may_begin_a_secret_waits_for_its_end() {
        let secret = Secret { name: "S".into(), value: "hunter2-hunter2".into(), usable: true };
        let secrets = Secrets::new([secret]).unwrap();
        let mut pieces = Coalescer::new(secrets);
        let taken = |fact: Option<Fact>| match fact.map(|fact| fact.event) {
            Some(Event::Model(Model::Streamed { parts })) => {
                parts.into_iter().map(|part| part.text).collect::<String>()
            }
            _ => String::new(),
        };
        pieces.push(text("hunt"));
        assert_eq!(taken(pieces.take(1)), "");
        pieces.push(StreamEvent::TextDelta { id: "1".into(), text: "other".into() });
        assert!(pieces.is_first(), "the first that can be seen goes at once");
        assert_eq!(taken(pieces.take(1)), "other");
        pieces.push(text("er2-hunter2 and hun"));
        assert_eq!(taken(pieces.take(1)), "hunter2-hunter2 and ");
        pieces.push(StreamEvent::TextEnd { id: "0".into() });
        assert_eq!(taken(pieces.take(1)), "hun");
        pieces.push(text("hunter2"));
        assert_eq!(taken(pieces.take(1)), "");
        assert_eq!(taken(pieces.take_all(1)), "hunter2");
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
        assert_eq!(
            pieces.take(7),
            Some(Fact::for_intent(7, Model::Streamed { parts: vec![part] }))
        );
        assert_eq!(pieces.take(7), None);
    }
}
