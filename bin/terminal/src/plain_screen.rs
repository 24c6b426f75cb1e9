//! A screen for terminals without codes and for screen readers: lines are only added, and the text that is written is
//! echoed as it grows.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Instant;

use leftfold_view::clean::guarded;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

use super::app::App;
use super::look::ascii;

#[derive(Debug)]
pub(super) struct PlainScreen<W = io::Stdout> {
    out: W,
    /// The end of what is on the last line: the sign and the text that is written.
    echoed: String,
    /// The line that was entered last. The log repeats it.
    entered: String,
    /// The keys of the question and the hint that were printed last.
    said: [String; 2],
    /// Whether the terminal shows characters beyond ASCII.
    unicode: bool,
}

impl PlainScreen {
    /// The terminal of standard output.
    pub(super) fn new(unicode: bool) -> Self {
        Self { unicode, ..Self::on(io::stdout()) }
    }
}

impl<W: Write> PlainScreen<W> {
    pub(super) fn on(out: W) -> Self {
        let (echoed, entered, said) = (String::new(), String::new(), Default::default());
        Self { out, echoed, entered, said, unicode: true }
    }

    /// Prints what is new.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn draw(
        &mut self,
        finished: &[Line<'_>],
        app: &App,
        now: Instant,
    ) -> io::Result<()> {
        let mut bytes = String::new();
        let mut lines: Vec<String> = finished.iter().map(text).collect();
        let entered = if self.entered.is_empty() { &self.echoed } else { &self.entered };
        if let Some(place) = lines.iter().position(|line| !line.is_empty() && line == entered) {
            lines.remove(place);
        }
        let keys = app.said_keys(now);
        let hint = app.hint.clone().unwrap_or_default();
        for (said, new) in self.said.iter_mut().zip([keys, hint]) {
            if new != *said && !new.is_empty() {
                lines.push(new.clone());
            }
            *said = new;
        }
        if !lines.is_empty() {
            if !self.echoed.is_empty() {
                bytes.push_str("\r\n");
                self.entered = std::mem::take(&mut self.echoed);
            }
            lines.iter().for_each(|line| bytes += &format!("{line}\r\n"));
        }
        let wanted = app.echo();
        let wanted = guarded(&wanted);
        if wanted.is_empty() && !self.echoed.is_empty() {
            bytes += "\r\n";
            self.entered = std::mem::take(&mut self.echoed);
        } else if let Some(more) = wanted.strip_prefix(self.echoed.as_str()) {
            bytes += more;
        } else if let Some(gone) = self.echoed.strip_prefix(wanted.as_ref()) {
            bytes += &"\u{8} \u{8}".repeat(gone.width());
        } else {
            bytes += &format!("\r\n{wanted}");
        }
        self.echoed = wanted.into_owned();
        self.write(&bytes)
    }

    /// Prints lines, with nothing below them.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn lines(&mut self, lines: &[Line<'_>]) -> io::Result<()> {
        let end = if self.echoed.is_empty() { "" } else { "\r\n" };
        self.echoed.clear();
        let lines: String = lines.iter().map(|line| format!("{}\r\n", text(line))).collect();
        self.write(&format!("{end}{lines}"))
    }

    fn write(&mut self, bytes: &str) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let bytes = if self.unicode { Cow::Borrowed(bytes) } else { ascii(bytes) };
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }
}

fn text(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| guarded(&span.content)).collect()
}

impl App {
    /// The keys of the question, once they count.
    fn said_keys(&self, now: Instant) -> String {
        match self.asked {
            Some(_) if self.composer.is_empty() && self.alarm(now).is_none() => self.keys_text(now),
            _ => String::new(),
        }
    }

    /// The line that is written: its sign and its text. Empty while nothing is written and a turn runs.
    fn echo(&self) -> String {
        let text = self.composer.text().replace('\n', " ");
        let is_idle = !self.is_working() && self.handed.is_none() && self.job.is_none();
        match text.is_empty() && (!is_idle || self.asked.is_some()) {
            true if self.entry == super::app::Entry::Prompt => String::new(),
            _ => format!("{}{text}", self.sign()),
        }
    }
}
