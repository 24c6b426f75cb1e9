//! The last line of standard error on a terminal: what a command is doing, and for how long. It shows after a second,
//! and is erased before other output. Elsewhere nothing is written.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leftfold_runtime::redact_output;
use leftfold_view::clean;
use rustix::fs::FileType;
use rustix::termios::tcgetwinsize;

use super::pages;

/// Work that takes less time shows no line.
const LIVE_LINE_DELAY: Duration = Duration::from_secs(1);
/// The time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Columns if the terminal's width is unknown.
const COLUMNS: usize = 80;
const ERASE: &[u8] = b"\r\x1b[K";

/// The line. It is erased with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct LiveLine(Arc<Mutex<Row>>);

/// The row of the terminal.
#[derive(Debug, Default)]
pub(crate) struct Row {
    work: Option<Work>,
    /// Whether the terminal shows it now.
    is_shown: bool,
}

/// Something that runs.
#[derive(Debug)]
struct Work {
    what: String,
    /// Changes while it runs, such as the last line of output.
    detail: String,
    since: Instant,
}

impl LiveLine {
    /// A line that says nothing yet.
    pub(crate) fn start() -> Self {
        let line = Self(Arc::default());
        if can_show() {
            let row = Arc::downgrade(&line.0);
            let drawing = std::thread::Builder::new().name("live-line".into()).spawn(move || {
                for spinner in SPINNER.iter().cycle() {
                    let Some(row) = row.upgrade() else { return };
                    locked(&row).draw(spinner);
                    drop(row);
                    std::thread::sleep(FRAME_INTERVAL);
                }
            });
            // Without the thread nothing is shown.
            drop(drawing);
        }
        line
    }

    /// A line about one piece of work.
    pub(crate) fn about(what: &str) -> Self {
        let line = Self::start();
        line.say(what, "");
        line
    }

    /// Names the work that runs now. Its time counts from the first call with this `what`.
    pub(crate) fn say(&self, what: &str, detail: &str) {
        let mut row = locked(&self.0);
        match &mut row.work {
            Some(work) if work.what == what => detail.clone_into(&mut work.detail),
            Some(_) | None => {
                let (what, detail) = (what.to_owned(), detail.to_owned());
                row.work = Some(Work { what, detail, since: Instant::now() });
            }
        }
    }

    /// Nothing runs, or a person is asked.
    pub(crate) fn rest(&self) {
        let mut row = locked(&self.0);
        row.erase();
        row.work = None;
    }

    /// Erases the line, and keeps it away while the answer is held, for other output.
    pub(crate) fn aside(&self) -> MutexGuard<'_, Row> {
        let mut row = locked(&self.0);
        row.erase();
        row
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.erase();
    }
}

impl Row {
    fn draw(&mut self, spinner: &str) {
        let Some(Work { what, detail, since }) = &self.work else { return };
        let running = since.elapsed();
        if running < LIVE_LINE_DELAY {
            return;
        }
        let columns = match tcgetwinsize(io::stderr()) {
            Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
            Ok(_) | Err(_) => COLUMNS,
        };
        let text = clean::clip(&text(what, detail, running, spinner), columns.saturating_sub(1));
        let mut stderr = io::stderr().lock();
        // A terminal that is gone shows nothing.
        let _ = stderr.write_all(ERASE).and_then(|()| stderr.write_all(text.as_bytes()));
        let _ = stderr.flush();
        self.is_shown = true;
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let mut stderr = io::stderr().lock();
            let _ = stderr.write_all(ERASE).and_then(|()| stderr.flush());
        }
    }
}

fn text(what: &str, detail: &str, running: Duration, spinner: &str) -> String {
    let seconds = running.as_secs();
    let time = match seconds {
        0..60 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    };
    let what = clean::clip(&clean::clean_line(what), 60);
    let detail = clean::clean_line(detail);
    let detail = if detail.is_empty() { detail } else { format!(" · {detail}") };
    redact_output::clean(&format!("{spinner} {what} · {time}{detail}")).into_owned()
}

fn locked(row: &Mutex<Row>) -> MutexGuard<'_, Row> {
    row.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether standard error is a terminal whose cursor can be moved. A program that reads standard output from a pipe may
/// write to the same terminal at any time.
fn can_show() -> bool {
    let to_pipe = rustix::fs::fstat(io::stdout())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    io::stderr().is_terminal() && !pages::is_dumb() && !to_pipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_how_long_and_the_last_output() {
        let seconds = Duration::from_secs;
        for (what, detail, running, expected) in [
            ("bash make", "", 5, "⠋ bash make · 5 s"),
            ("bash make", "CC a.o\x1b[2J", 75, "⠋ bash make · 1 min 15 s · CC a.o"),
        ] {
            assert_eq!(text(what, detail, seconds(running), "⠋"), expected);
        }
    }
}
