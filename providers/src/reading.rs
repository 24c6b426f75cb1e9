//! Decodes the body of one answer, as it arrives or from a record. It does no I/O and knows no clock.

use std::collections::VecDeque;

use leftfold_events::event::FailureClass;
use leftfold_framing::sse::Parser;
use reqwest::StatusCode;

use crate::caps::Caps;
use crate::errors::{Details, Failure, is_markup};
use crate::stream::{Decoder, EventQueue, StreamEvent};

/// The number of bytes of an error body that are read.
pub(crate) const LONGEST_ERROR: usize = 64 * 1024;

/// The decoding of one answer.
pub(crate) struct Reading {
    /// The provider's name in settings, for errors.
    provider: String,
    decoder: Box<dyn Decoder>,
    sse: Parser,
    /// The bytes before the first event. If no event ever comes, the body is an error page.
    head: Option<Vec<u8>>,
    caps: Caps,
    out: EventQueue,
}

impl Reading {
    pub(crate) fn new(provider: &str, decoder: Box<dyn Decoder>) -> Self {
        Self {
            provider: provider.to_owned(),
            decoder,
            sse: Parser::new(),
            head: Some(Vec::new()),
            caps: Caps::default(),
            out: VecDeque::new(),
        }
    }

    /// The next decoded event. It is the last one if the reply passes a limit with it.
    pub(crate) fn pop(&mut self) -> Option<StreamEvent> {
        let event = self.out.pop_front()?;
        match self.caps.count(&event) {
            Ok(()) => Some(event),
            Err(failure) => {
                self.out.clear();
                Some(StreamEvent::Failed(failure))
            }
        }
    }

    /// Decodes the next bytes. Bytes after the last event are ignored.
    ///
    /// # Errors
    /// The answer, or one event of it, is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.caps.received(bytes.len())?;
        let (decoder, out, head) = (&mut self.decoder, &mut self.out, &mut self.head);
        if let Some(head) = head {
            let room = LONGEST_ERROR - head.len();
            head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        self.sse.push(bytes, |event| {
            *head = None;
            if !ends(out) {
                decoder.event(&event, out);
            }
        });
        if self.is_over() { Ok(()) } else { Caps::pending(&self.sse) }
    }

    /// Ends the reply: its body has ended.
    ///
    /// # Errors
    /// The reply is not complete.
    pub(crate) fn end(&mut self, status: StatusCode) -> Result<(), Failure> {
        self.finish();
        if self.is_over() { Ok(()) } else { Err(self.incomplete(status)) }
    }

    /// Lets the decoder see the end of the body.
    fn finish(&mut self) {
        if self.head.is_none() && !self.is_over() {
            self.decoder.end(self.sse.unfinished().as_deref(), &mut self.out);
        }
    }

    /// Ends the reply with a failure.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.out.push_back(StreamEvent::Failed(failure));
    }

    /// Whether the last event of the reply was decoded and not popped yet.
    pub(crate) fn is_over(&self) -> bool {
        ends(&self.out)
    }

    /// Whether the reply is complete and was not popped yet.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.out.back(), Some(StreamEvent::Finish { .. }))
    }

    fn incomplete(&self, status: StatusCode) -> Failure {
        let Some(head) = &self.head else { return Failure::cut_off() };
        let text = String::from_utf8_lossy(head);
        let text = text.trim();
        if text.starts_with(['{', '[']) {
            let details = Details::read(head);
            if details.message.is_empty() {
                return self.no_stream("JSON", status);
            }
            let failure = Failure::in_stream(&self.provider, &details);
            return Failure { status: Some(status.as_u16()), ..failure };
        }
        if is_markup(text) {
            return self.no_stream("an HTML page", status);
        }
        Failure::cut_off()
    }

    fn no_stream(&self, what: &str, status: StatusCode) -> Failure {
        let message = format!(
            "the server answered with {what} ({status}) instead of an event stream; check `provider.{}.options.baseURL`, which may not be the address of the API",
            self.provider
        );
        let failure = Failure::fatal(FailureClass::Invalid, message);
        Failure { status: Some(status.as_u16()), ..failure }
    }
}

fn ends(out: &EventQueue) -> bool {
    out.back().is_some_and(StreamEvent::is_last)
}

/// Decodes the body of an answer that is already there, in the pieces in which it arrived. No limits
/// apply, and an answer that is cut off has no last event.
pub(crate) fn decode<'a>(
    decoder: Box<dyn Decoder>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<StreamEvent> {
    let mut reading = Reading::new("", decoder);
    for piece in pieces {
        // limits are for live answers
        let _ = reading.push(piece);
    }
    reading.finish();
    reading.out.into()
}
