//! Decodes the body of one answer, as it arrives or from a record. It does no I/O and knows no clock.

use std::collections::VecDeque;

use leftfold_events::event::FailureClass;
use leftfold_framing::{eventstream, sse};
use reqwest::StatusCode;

use crate::caps::Caps;
use crate::config::Framing;
use crate::errors::{Details, Failure, is_markup};
use crate::stream::{Decoder, EventQueue, StreamEvent};

/// The number of bytes of an error body that are read.
pub(crate) const LONGEST_ERROR: usize = 64 * 1024;

/// The decoding of one answer.
pub(crate) struct Reading {
    /// The provider's name in settings, for errors.
    provider: String,
    decoder: Box<dyn Decoder>,
    parser: Parser,
    /// The bytes before the first event. If no event ever comes, the body is an error page.
    head: Option<Vec<u8>>,
    caps: Caps,
    out: EventQueue,
}

/// The parser of a stream.
enum Parser {
    Sse(sse::Parser),
    EventStream(eventstream::Parser),
}

impl Reading {
    pub(crate) fn new(provider: &str, framing: Framing, decoder: Box<dyn Decoder>) -> Self {
        let parser = match framing {
            Framing::Sse => Parser::Sse(sse::Parser::new()),
            Framing::EventStream => Parser::EventStream(eventstream::Parser::new()),
        };
        Self {
            provider: provider.to_owned(),
            decoder,
            parser,
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
    /// The answer is damaged, or it or one event of it is too large.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.caps.received(bytes.len())?;
        if let Some(head) = &mut self.head {
            let room = LONGEST_ERROR - head.len();
            head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        match self.parse(bytes) {
            _ if self.is_over() => Ok(()),
            Ok(pending) => Caps::pending(pending),
            // perhaps this is an error page, which is known at its end
            Err(_) if self.head.as_ref().is_some_and(|head| head.len() < LONGEST_ERROR) => Ok(()),
            Err(damage) => Err(Failure::damaged(damage)),
        }
    }

    /// Gives the events that these bytes complete to the decoder. Returns the number of bytes that are kept for an
    /// incomplete event.
    fn parse(&mut self, bytes: &[u8]) -> Result<usize, eventstream::Damage> {
        let (decoder, out, head) = (&mut self.decoder, &mut self.out, &mut self.head);
        match &mut self.parser {
            Parser::Sse(parser) => {
                parser.push(bytes, |event| {
                    *head = None;
                    if !ends(out) {
                        decoder.event(&event, out);
                    }
                });
                Ok(parser.pending())
            }
            Parser::EventStream(parser) => {
                let provider = &self.provider;
                parser.push(bytes, |message| {
                    *head = None;
                    if ends(out) {
                        return;
                    }
                    match event(&message) {
                        Ok(event) => decoder.event(&event, out),
                        Err(details) => {
                            let failure = Failure::in_stream(provider, &details);
                            out.push_back(StreamEvent::Failed(failure));
                        }
                    }
                })?;
                Ok(parser.pending())
            }
        }
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
            let rest = match &self.parser {
                Parser::Sse(parser) => parser.unfinished(),
                // the content of half a message cannot be trusted
                Parser::EventStream(parser) => (parser.pending() > 0).then(String::new),
            };
            self.decoder.end(rest.as_deref(), &mut self.out);
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
        match &self.parser {
            Parser::EventStream(parser) => {
                parser.damage().map_or_else(Failure::cut_off, Failure::damaged)
            }
            Parser::Sse(_) => Failure::cut_off(),
        }
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

/// A message as an event, which has a name and a text, or the error that it reports.
fn event<'a>(message: &eventstream::Message<'a>) -> Result<sse::SseEvent<'a>, Details> {
    let header = |name: &str| message.header(name).unwrap_or_default();
    if matches!(header(":message-type"), "exception" | "error") {
        let details = Details::read(message.payload);
        let names = [header(":exception-type"), header(":error-code")];
        return Err(details.with(names).or_message(header(":error-message")));
    }
    let data = String::from_utf8_lossy(message.payload);
    Ok(sse::SseEvent { name: header(":event-type").into(), data })
}

fn ends(out: &EventQueue) -> bool {
    out.back().is_some_and(StreamEvent::is_last)
}

/// Decodes the body of an answer that is already there, in the pieces in which it arrived. No limits
/// apply, and an answer that is cut off has no last event.
pub(crate) fn decode<'a>(
    framing: Framing,
    decoder: Box<dyn Decoder>,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<StreamEvent> {
    let mut reading = Reading::new("", framing, decoder);
    for piece in pieces {
        // limits are for live answers
        let _ = reading.push(piece);
    }
    reading.finish();
    reading.out.into()
}
