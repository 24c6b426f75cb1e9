//! Asks on the terminal whether the user trusts the project's settings.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use leftfold_runtime::trust;
use rustix::termios::{QueueSelector, tcflush};

/// Keys that were pressed before the question was on the screen for this long do not answer it.
const TYPE_AHEAD: Duration = Duration::from_millis(700);

/// Asks, if there is something to ask and a person at the terminal. After a yes the settings are trusted.
///
/// # Errors
/// The terminal cannot be read, or the answer cannot be stored.
pub fn ask(directory: &Path) -> anyhow::Result<()> {
    // whoever reads the settings reports what is wrong with them
    let Ok(review) = trust::review(directory) else { return Ok(()) };
    let stdin = io::stdin();
    let mut screen = io::stderr();
    if review.is_whole() || !stdin.is_terminal() || !screen.is_terminal() {
        return Ok(());
    }
    writeln!(screen, "{}", trust::question(&review))?;
    screen.flush()?;
    std::thread::sleep(TYPE_AHEAD);
    tcflush(&stdin, QueueSelector::IFlush)?;
    // keys count from here on, and the person sees it
    write!(screen, "Trust these settings? [y/N] ")?;
    screen.flush()?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        trust::grant(&review)?;
    }
    Ok(())
}
