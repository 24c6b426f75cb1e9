//! Selects the events that `observe` prints, and prints them as JSON or as text. It keeps no
//! cursors: callers pass each event once.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use leftfold_events::line::{self, Line};
use leftfold_events::{Envelope, Seq, SessionId, Sha256, mask, rules};
use leftfold_runtime::lines::Lines;
use leftfold_view::text::TextRenderer;
use leftfold_view::{Transcript, event_line};
use serde::Deserialize;

use super::printer;
use crate::cli::Format;

/// Lines are written once they have this many bytes.
const PIECE: usize = 64 << 10;

/// The only type of event with contents behind hashes.
const CONFIGURED: &str = "turn.configured";

/// The session, seq or payload hash that a line from a node names.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct LineKey {
    pub(super) session: Option<SessionId>,
    pub(super) seq: Option<Seq>,
    pub(super) payload: Option<String>,
}

impl LineKey {
    pub(super) fn from_line(line: &str) -> Self {
        // Lines of today's nodes begin with session and seq, so the rest need not be parsed.
        match place(line) {
            Some((session, seq, _)) => {
                Self { session: Some(session), seq: Some(seq), payload: None }
            }
            None => serde_json::from_str(line).unwrap_or_default(),
        }
    }
}

/// The session and seq at the beginning of a line, and the rest of it.
fn place(line: &str) -> Option<(SessionId, Seq, &str)> {
    let (session, rest) = line.strip_prefix(r#"{"v":1,"session":""#)?.split_once(r#"","seq":"#)?;
    let (seq, rest) = rest.split_once(',')?;
    Some((session.parse().ok()?, seq.parse().ok()?, rest))
}

/// The type of the event in a line; empty if it has none.
pub(super) fn kind_of(line: &str) -> Cow<'_, str> {
    #[derive(Default, Deserialize)]
    struct EventType {
        #[serde(default, rename = "type")]
        kind: String,
    }
    let quick = || {
        let (_, _, rest) = place(line)?;
        let (_, kind) = rest.strip_prefix(r#""at":""#)?.split_once(r#"","type":""#)?;
        Some(kind.split_once('"')?.0)
    };
    match quick() {
        Some(kind) => Cow::Borrowed(kind),
        None => Cow::Owned(serde_json::from_str::<EventType>(line).unwrap_or_default().kind),
    }
}

/// The form of text.
pub(super) enum TextForm {
    /// One session, as `run` prints it.
    Transcript(Box<Transcript>, TextRenderer),
    /// One line an event.
    Lines,
}

impl TextForm {
    pub(super) fn transcript(root: SessionId) -> Self {
        Self::Transcript(Box::new(Transcript::live(root)), TextRenderer::default())
    }
}

pub(super) struct Output {
    format: Format,
    form: TextForm,
    /// Patterns of types with the wildcards of permission rules. Empty: all types.
    kinds: Vec<String>,
    lines: Lines,
    /// Lines that are not written yet.
    text: String,
    /// Held during a write.
    writing: Arc<Mutex<()>>,
}

impl Output {
    /// `writing` is locked during each write.
    pub(super) fn new(
        format: Format,
        form: TextForm,
        kinds: &[String],
        writing: Arc<Mutex<()>>,
    ) -> Self {
        let (lines, text) = (Lines::default(), String::new());
        Self { format, form, kinds: kinds.to_vec(), lines, text, writing }
    }

    fn picks(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|glob| rules::matches(glob, kind))
    }

    /// Takes a line from a node with the contents behind a hash. They are printed before the first
    /// event that names them.
    pub(super) fn take_payload(&mut self, hash: &str, line: &str) {
        if self.format == Format::Json
            && self.picks(CONFIGURED)
            && Sha256::from_hex(hash).is_none_or(|hash| self.lines.is_new(hash))
        {
            self.text.extend([line, "\n"]);
        }
    }

    /// Takes the line of an event from a node. False: nobody reads standard output any more.
    pub(super) fn take_line(&mut self, line: &str) -> anyhow::Result<bool> {
        if self.format == Format::Json {
            if self.kinds.is_empty() || self.picks(&kind_of(line)) {
                self.text.extend([line, "\n"]);
            }
            return Ok(true);
        }
        match line::read(line) {
            Ok(Line::Event(event)) => self.take_text(&event),
            // Sent by a newer node.
            Ok(Line::Payload { .. }) | Err(_) => Ok(true),
        }
    }

    /// Takes an event from a log. False: nobody reads standard output any more.
    pub(super) fn take(&mut self, event: &Envelope) -> anyhow::Result<bool> {
        if self.format == Format::Text {
            return self.take_text(event);
        }
        if self.picks(&line::type_of(&event.event)) {
            let lines = self.lines.for_event(event);
            self.text.extend(lines.into_iter().map(|line| line + "\n"));
        }
        if self.text.len() < PIECE { Ok(true) } else { self.write() }
    }

    fn take_text(&mut self, event: &Envelope) -> anyhow::Result<bool> {
        let masked = mask::shown(event).masked;
        let event = masked.as_deref().unwrap_or(event);
        let picked = self.picks(&line::type_of(&event.event));
        match &mut self.form {
            TextForm::Transcript(transcript, renderer) => {
                let changes = transcript.apply(event);
                let output = renderer.render(transcript, event.session, &changes);
                let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
                return goes_on(printer::show(&output));
            }
            TextForm::Lines if picked => self.text.extend([&event_line::observed(event), "\n"]),
            TextForm::Lines => {}
        }
        if self.text.len() < PIECE { Ok(true) } else { self.write() }
    }

    /// Writes the lines taken so far. False: nobody reads standard output any more.
    pub(super) fn write(&mut self) -> anyhow::Result<bool> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        goes_on(match self.format {
            Format::Json => printer::flush(&mut self.text),
            Format::Text => printer::flush_text(&mut self.text),
        })
    }
}

/// False when nobody reads any more, which is not an error.
fn goes_on(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_placed_by_their_beginning_or_by_what_they_hold() {
        let root = SessionId::default();
        let at = |seq| LineKey { session: Some(root), seq: Some(seq), payload: None };
        for (line, key) in [
            (r#"{"v":1,"session":"00000000000000000000000000","seq":12,"at":"#, at(12)),
            (r#"{"seq":7,"v":1,"session":"00000000000000000000000000"}"#, at(7)),
            (r#"{"v":1,"session":"","x":"","seq":9,"seq":1}"#, LineKey::default()),
            (
                r#"{"v":1,"x":"\",\"seq\":9,","seq":3,"session":"00000000000000000000000000"}"#,
                at(3),
            ),
            (
                r#"{"v":1,"payload":"ab"}"#,
                LineKey { payload: Some("ab".into()), ..LineKey::default() },
            ),
            ("nonsense", LineKey::default()),
        ] {
            assert_eq!(LineKey::from_line(line), key, "{line}");
        }
    }

    #[test]
    fn the_type_of_a_line_is_its_own_and_not_that_of_its_data() {
        let begins = r#"{"v":1,"session":"00000000000000000000000000","seq":12,"at":"x","#;
        for (rest, kind) in [
            (r#""type":"tool.called","of":1,"data":{"type":"no"}}"#, "tool.called"),
            (r#""data":{"type":"no"},"type":"tool.called"}"#, "tool.called"),
            (r#""data":{"type":"no"}}"#, ""),
        ] {
            assert_eq!(kind_of(&format!("{begins}{rest}")), kind, "{rest}");
        }
    }
}
