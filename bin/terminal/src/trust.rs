//! Asks on the terminal whether the user trusts the project's settings, and obeys its changed texts. The gate of all questions decides which
//! keys answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use leftfold_runtime::{texts, trust};
use leftfold_view::clean::{clip, guarded};
use leftfold_view::{AnswerGate, GateKind, GateOutcome, GateRow};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{QueueSelector, tcflush};

use super::key_parser::Input;
use super::keys::{Batch, KeyReader, is_control, typed};
use super::terminal_mode::{self, TerminalMode};

/// The rows of the questions.
const SETTINGS: &str = "Trust these settings? [y/N] ";
const TEXTS: &str = "Obey these texts? [y/N] ";
/// Shown until keys count.
const QUIET: &str = "  …";
/// Moves to the start of the row and erases it.
const ERASE: &str = "\r\x1b[K";

/// Asks, if there is something to ask and a person at the terminal. After a yes the settings are trusted.
/// Returns the text that was typed and is no answer.
///
/// # Errors
/// The terminal cannot be read, or the answer cannot be stored.
pub fn ask(directory: &Path) -> anyhow::Result<String> {
    let (answer, typed) = ask_once(directory)?;
    if answer.is_none() {
        // as the terminal would have done
        kill_process(getpid(), Signal::INT)?;
    }
    Ok(typed)
}

/// Whether to use the settings, trusted or not; `None` after Ctrl-C. And the text that was typed and is no answer.
pub(super) fn ask_once(directory: &Path) -> anyhow::Result<(Option<bool>, String)> {
    let nothing = (Some(false), String::new());
    // the command that reads the settings reports what is wrong with them
    let Ok(review) = trust::review(directory) else { return Ok(nothing) };
    if review.is_whole() || !is_somebody_here() {
        return Ok(nothing);
    }
    let (answer, typed) = consent(&trust::question(&review), SETTINGS)?;
    if answer == Some(true) {
        trust::grant(&review)?;
    }
    Ok((answer, typed))
}

/// Whether to obey the texts of the project that calls have changed. Asks for each change once; the results are those of
/// [`ask_once`].
///
/// # Errors
/// The terminal cannot be read, or the answer cannot be stored.
pub fn ask_about_texts(directory: &Path) -> anyhow::Result<(Option<bool>, String)> {
    let mut held = texts::held(directory)?;
    held.retain(|text| !text.is_refused);
    if held.is_empty() || !is_somebody_here() {
        return Ok((Some(false), String::new()));
    }
    let (answer, typed) = consent(&texts::question(&held), TEXTS)?;
    if let Some(is_accepted) = answer {
        texts::answer(directory, &held, is_accepted)?;
    }
    Ok((answer, typed))
}

fn is_somebody_here() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// The answer to a question; `None` after Ctrl-C. And the text that was typed and is no answer.
fn consent(question: &str, keys: &str) -> io::Result<(Option<bool>, String)> {
    let mut screen = io::stderr();
    let codes = terminal_mode::has_codes();
    writeln!(screen, "{question}")?;
    let mode = TerminalMode::set(codes)?;
    // These keys were meant for the shell.
    tcflush(io::stdin(), QueueSelector::IFlush)?;
    let mut gate = AnswerGate::default();
    gate.show((), GateKind::Consent { enter_is_no: true }, Instant::now());
    let answer = answer(&mut gate, &mut screen, (keys, codes));
    drop(mode);
    writeln!(screen)?;
    Ok((answer?, gate.take_text()))
}

/// Whether the user says yes; `None` after Ctrl-C.
fn answer(
    gate: &mut AnswerGate<(), Instant>,
    screen: &mut impl Write,
    (keys, codes): (&str, bool),
) -> io::Result<Option<bool>> {
    let mut reader = KeyReader::new(Instant::now());
    let mut shown = String::new();
    loop {
        let now = Instant::now();
        let row = gate.row(now);
        let text = match row {
            GateRow::Keys | GateRow::Confirm => keys.to_owned(),
            GateRow::Quiet => QUIET.to_owned(),
            GateRow::Draft(draft) => draft_row(draft),
        };
        let erase = match (codes, row) {
            (true, _) => ERASE,
            (false, GateRow::Keys) => "\r\n",
            // a screen that only grows shows nothing that changes with every key
            (false, GateRow::Confirm | GateRow::Quiet | GateRow::Draft(_)) => "",
        };
        if text != shown && !erase.is_empty() {
            write!(screen, "{erase}{}", guarded(&text))?;
            screen.flush()?;
        }
        shown = text;
        let quiet = gate.counts_from(now).map(|from| from.saturating_duration_since(now));
        let Some(Batch { inputs, at }) = reader.next(None, quiet)? else { continue };
        let mut pressed = String::new();
        let mut pasted = false;
        for input in inputs {
            match input {
                Input::Key(key) if is_control(key, 'c') => return Ok(None),
                Input::Key(key) => pressed.extend(typed(key)),
                Input::Paste(text) => {
                    pressed += &text;
                    pasted = true;
                }
                Input::Focus(_) | Input::Background(_) => {}
            }
        }
        let outcome = if pasted { gate.paste(&pressed, at) } else { gate.press(&pressed, at) };
        match outcome {
            GateOutcome::Yes => return Ok(Some(true)),
            GateOutcome::No => return Ok(Some(false)),
            _ => {}
        }
    }
}

/// The row for a draft. The end of a long one is shown.
fn draft_row(draft: &str) -> String {
    const HINT: &str = "\" — Enter keeps it for the first prompt, then answer)";
    const START: &str = "  (you are typing: \"";
    let room = terminal_mode::columns().saturating_sub(START.len() + HINT.len()).max(8);
    let back: String = draft.chars().rev().collect();
    let end: String = clip(&back, room).chars().rev().collect();
    format!("{START}{end}{HINT}")
}
