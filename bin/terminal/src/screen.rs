//! The terminal's screen: permanent text, and below it a few rows that are repainted.

use std::io::{self, IsTerminal, Write};

use rustix::termios;

use super::style::{self, Style};

/// Columns if the terminal's width is unknown.
const COLUMNS: usize = 80;

/// Writes to standard output. After the first failure it writes nothing more, since a terminal that
/// is gone does not come back.
#[derive(Debug)]
pub(super) struct Screen<W = io::Stdout> {
    out: W,
    /// Whether the cursor can be moved.
    moves: bool,
    /// The rows currently painted below the text.
    live: Vec<String>,
    /// The column at which the text ends.
    column: usize,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self::on(io::stdout(), io::stdout().is_terminal() && !is_dumb())
    }
}

impl<W: Write> Screen<W> {
    pub(super) fn on(out: W, moves: bool) -> Self {
        Self { out, moves, live: Vec::new(), column: 0 }
    }

    /// Adds `text`, which ends at `column`, and paints `live` below it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn paint(&mut self, text: &str, column: usize, live: Vec<String>) -> io::Result<()> {
        let live = if self.moves { live } else { Vec::new() };
        if text.is_empty() && live == self.live && column == self.column {
            return Ok(());
        }
        let mut bytes = self.erased();
        bytes.push_str(&style::guarded(text));
        bytes.push_str(&style::guarded(&live.join("\n")));
        (self.live, self.column) = (live, column);
        self.out.write_all(bytes.as_bytes())?;
        self.out.flush()
    }

    /// Prints complete lines, with nothing below them.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn print(&mut self, text: &str) -> io::Result<()> {
        self.paint(text, 0, Vec::new())
    }

    /// Prints the keys of a question if they cannot be painted below the text.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(super) fn remind(&mut self, keys: &str) -> io::Result<()> {
        if self.moves { Ok(()) } else { self.print(&format!("{keys}\n")) }
    }

    /// The codes that move the cursor to the text's end and erase everything after it.
    fn erased(&self) -> String {
        let mut codes = String::new();
        if self.live.iter().all(String::is_empty) && self.live.len() < 2 {
            return codes;
        }
        if self.live.len() > 1 {
            codes.push_str(&format!("\x1b[{}A", self.live.len() - 1));
        }
        codes.push('\r');
        if self.column > 0 {
            codes.push_str(&format!("\x1b[{}C", self.column));
        }
        codes.push_str("\x1b[J");
        codes
    }
}

/// Colours, unless the user or the terminal rules them out.
pub(super) fn style() -> Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    Style { colour: io::stdout().is_terminal() && !is_dumb() && !refused }
}

/// Whether the terminal marks the start and the end of a paste.
pub(super) fn mark_pastes(on: bool) {
    let mut stdout = io::stdout();
    if !stdout.is_terminal() || is_dumb() {
        return;
    }
    let code = if on { "\x1b[?2004h" } else { "\x1b[?2004l" };
    // A terminal that is gone needs no marks.
    let _ = stdout.write_all(code.as_bytes()).and_then(|()| stdout.flush());
}

pub fn columns() -> usize {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        Ok(_) | Err(_) => COLUMNS,
    }
}

pub(super) fn is_dumb() -> bool {
    std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb")
}
