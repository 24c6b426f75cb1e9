//! The mode of the terminal: keys come one by one, pastes are marked. It is restored at the end and after a panic. If
//! the process is killed, [`restorer`](crate::restorer) does it, and else the next start.

use std::io::{self, IsTerminal, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::crossterm::terminal::{disable_raw_mode, enable_raw_mode};
use ratatui::layout::Size;
use rustix::termios::{self, LocalModes, OptionalActions};

use crate::restorer::{self, OFF, make_usual};

/// Columns and rows if the terminal does not say them.
const SIZE: Size = Size::new(80, 24);

/// The cursor is shown, which a conversation that was killed may have hidden. Pastes are marked, keys have all their
/// modifiers where the terminal can tell them, and changes of the focus are reported.
const ON: &str = "\x1b[?25h\x1b[?2004h\x1b[>1u\x1b[?1004h";

/// Whether the terminal is in the mode of a conversation, and whether codes were written for it.
static IS_ON: AtomicBool = AtomicBool::new(false);
static HAS_CODES: AtomicBool = AtomicBool::new(false);

/// Restores the terminal on drop.
#[derive(Debug)]
pub(super) struct TerminalMode {
    /// Whether codes may be written.
    codes: bool,
}

impl TerminalMode {
    /// Sets the mode. Without `codes` nothing is written to the terminal.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub(super) fn set(codes: bool) -> io::Result<Self> {
        repair();
        restore_after_panic();
        let mode = Self { codes };
        mode.on()?;
        Ok(mode)
    }

    /// Sets the mode again, after another program had the terminal.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub(super) fn on(&self) -> io::Result<()> {
        if IS_ON.load(Ordering::SeqCst) {
            // a shell may have changed it
            disable_raw_mode()?;
        }
        enable_raw_mode()?;
        IS_ON.store(true, Ordering::SeqCst);
        HAS_CODES.store(self.codes, Ordering::SeqCst);
        restorer::say(true);
        write(if self.codes { ON } else { "" })
    }

    pub(super) fn off(&self) {
        restore();
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    if !IS_ON.swap(false, Ordering::SeqCst) {
        return;
    }
    // a terminal that is gone needs nothing
    let _ = write(if HAS_CODES.load(Ordering::SeqCst) { OFF } else { "" });
    restorer::say(false);
    if let Err(error) = disable_raw_mode() {
        tracing::debug!("the terminal's mode can not be restored: {error}");
    }
}

fn write(codes: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(codes.as_bytes())?;
    out.flush()
}

fn restore_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
    });
}

/// A process that was killed leaves its terminal without echo and line ends. Nobody works in such a terminal, so
/// this one gets the usual mode before it is changed.
fn repair() {
    let Ok(mode) = termios::tcgetattr(io::stdin()) else { return };
    if mode.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO) {
        return;
    }
    if let Err(error) = termios::tcsetattr(io::stdin(), OptionalActions::Now, &make_usual(mode)) {
        tracing::debug!("the terminal's mode can not be repaired: {error}");
    }
}

/// The size of the terminal.
pub(super) fn size() -> Size {
    match termios::tcgetwinsize(io::stdout()) {
        Ok(size) => Size::new(
            if size.ws_col > 0 { size.ws_col } else { SIZE.width },
            if size.ws_row > 0 { size.ws_row } else { SIZE.height },
        ),
        Err(_) => SIZE,
    }
}

pub fn columns() -> usize {
    usize::from(size().width)
}

/// Whether the cursor can be moved: the terminal understands codes.
pub(super) fn has_codes() -> bool {
    let is_dumb = std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb");
    io::stdout().is_terminal() && !is_dumb
}

/// Whether the terminal wraps its text again when its width changes. Most do.
pub(super) fn rewraps() -> bool {
    let has = |name: &str| std::env::var_os(name).is_some();
    let term = std::env::var("TERM").unwrap_or_default();
    !(has("XTERM_VERSION") || term == "linux" || (has("STY") && !has("TMUX")))
}

/// Whether the terminal shows characters beyond ASCII.
pub(super) fn has_unicode() -> bool {
    let locale =
        ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    match locale.into_iter().find(|value| !value.is_empty()) {
        Some(locale) => {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
        // containers often have no locale, and terminals of today show UTF-8
        None => true,
    }
}
