//! Text for people at a terminal: coloured, and through a pager if it is longer than the screen.
//!
//! The text is cleaned first and coloured line by line afterwards, so that no colour comes from a log.

use std::io::{self, IsTerminal, Write};
use std::process::{Child, ExitCode, ExitStatus, Stdio};

use leftfold_runtime::redact_output;
use leftfold_view::clean;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Colour, Format, PageArgs};

/// The codes of a colour or weight (SGR), from the terminal's own palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextStyle(&'static str);

impl TextStyle {
    pub(crate) const PLAIN: Self = Self("");
    pub(crate) const BOLD: Self = Self("1");
    pub(crate) const DIM: Self = Self("2");
    pub(crate) const RED: Self = Self("31");
    pub(crate) const GREEN: Self = Self("32");
    pub(crate) const YELLOW: Self = Self("33");
    pub(crate) const BLUE: Self = Self("34");
    pub(crate) const MAGENTA: Self = Self("35");
    pub(crate) const CYAN: Self = Self("36");

    /// The text with the codes around it.
    pub(crate) fn paint(self, text: &str) -> String {
        match (self, text) {
            (Self::PLAIN, _) | (_, "") => text.to_owned(),
            (Self(codes), _) => format!("\x1b[{codes}m{text}\x1b[0m"),
        }
    }
}

/// Colours one line, which has no line end and no control characters.
pub(crate) type Painter = fn(&str) -> String;

/// Prints lines for people as [`super::print`] does, on a terminal with colours and in a pager. JSON is printed as
/// [`super::print_json`] does.
pub(crate) fn page(
    args: &PageArgs,
    format: Format,
    text: &str,
    painter: Painter,
) -> anyhow::Result<ExitCode> {
    match format {
        Format::Json => super::print_json(text),
        Format::Text => page_text(args, text, painter),
    }
}

/// Prints lines for people, on a terminal with colours and in a pager.
pub(crate) fn page_text(args: &PageArgs, text: &str, painter: Painter) -> anyhow::Result<ExitCode> {
    let masked = redact_output::masked(text);
    let clean = clean::printable(&masked);
    let text = match has_colours(args.color) {
        true => painted(&clean, painter),
        false => clean.into_owned(),
    };
    if text.is_empty() || args.no_pager || !io::stdout().is_terminal() || is_dumb() {
        return super::write(&text);
    }
    match through_pager(&text) {
        Some(status) if !never_ran(status) => Ok(ExitCode::SUCCESS),
        Some(_) | None => super::write(&text),
    }
}

fn painted(text: &str, painter: Painter) -> String {
    text.split_inclusive('\n')
        .map(|line| match line.strip_suffix('\n') {
            Some(line) => painter(line) + "\n",
            None => painter(line),
        })
        .collect()
}

/// Prints lines to standard error, on a terminal with colours.
pub(super) fn note_lines(text: &str, painter: Painter) {
    if !has_codes(io::stderr().is_terminal()) {
        return leftfold_runtime::write_note(text);
    }
    let text = redact_output::clean(text);
    super::write_error(&painted(&clean::printable(&text), painter));
}

/// Whether standard output gets colours.
fn has_colours(wanted: Colour) -> bool {
    match wanted {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => has_codes(io::stdout().is_terminal()),
    }
}

/// Whether a stream gets colours: a terminal that knows them, unless the user has refused them.
fn has_codes(is_terminal: bool) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !is_dumb() && !refused
}

/// Whether the terminal knows no codes.
pub(super) fn is_dumb() -> bool {
    std::env::var("TERM").is_ok_and(|term| term.is_empty() || term == "dumb")
}

/// Shows the text in the user's pager, and waits until it is left. `None` if there is no pager.
fn through_pager(text: &str) -> Option<ExitStatus> {
    let mut pager = start_pager()?;
    // Ctrl-C is for the pager, which may use it; this program leaves with it.
    let _guard = ignore_interrupts();
    if let Some(mut input) = pager.stdin.take() {
        // A pager may be left before it has read everything.
        let _ = input.write_all(text.as_bytes());
    }
    pager.wait().ok()
}

/// `$PAGER`, or `less`. Without options of the user, `less` leaves a text that fits on the screen there.
fn start_pager() -> Option<Child> {
    let named = std::env::var("PAGER").ok();
    let mut command = match named.as_deref().map(str::trim) {
        Some("" | "cat") => return None,
        Some(named) => {
            let mut shell = leftfold_programs::for_person("sh").ok()?;
            shell.args(["-c", named]);
            shell
        }
        None => leftfold_programs::for_person("less").ok()?,
    };
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::piped()).spawn().ok()
}

/// Whether the shell could not run the pager.
fn never_ran(status: ExitStatus) -> bool {
    matches!(status.code(), Some(126 | 127))
}

/// Interrupts have no effect on this process any more. A runtime that listens is what turns them off.
fn ignore_interrupts() -> Option<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().ok()?;
    let inside = runtime.enter();
    let listening = signal(SignalKind::interrupt()).is_ok();
    drop(inside);
    listening.then_some(runtime)
}

/// The lines of a unified diff.
pub(crate) fn diff_line(line: &str) -> String {
    let heads = ["diff ", "--- ", "+++ ", "rename ", "new file", "deleted file", "Binary files "];
    let style = if heads.iter().any(|head| line.starts_with(head)) {
        TextStyle::BOLD
    } else if line.starts_with("@@") {
        TextStyle::CYAN
    } else if line.starts_with('+') {
        TextStyle::GREEN
    } else if line.starts_with('-') {
        TextStyle::RED
    } else {
        TextStyle::PLAIN
    };
    style.paint(line)
}

/// The lines of a unified diff after four blanks.
pub(crate) fn indented_diff_line(line: &str) -> String {
    const INDENT: &str = "    ";
    match line.strip_prefix(INDENT) {
        Some(line) => format!("{INDENT}{}", diff_line(line)),
        None => line.to_owned(),
    }
}

/// The lines of a replay: place, type and details of an event, and what follows below it.
pub(crate) fn event_line(line: &str) -> String {
    let Some((place, kind, rest)) = event_parts(line) else {
        let below = line.trim_start();
        let indent = &line[..line.len() - below.len()];
        let style = if indent.is_empty() {
            TextStyle::PLAIN
        } else if below.starts_with('+') {
            TextStyle::GREEN
        } else if below.starts_with('-') {
            TextStyle::RED
        } else {
            TextStyle::DIM
        };
        return format!("{indent}{}", style.paint(below));
    };
    let is_wrong = ["failed", "lost", "cancelled"].iter().any(|end| kind.ends_with(end))
        || rest.trim_start().starts_with("deny ");
    let style = match kind.split('.').next() {
        _ if is_wrong => TextStyle::RED,
        Some("session" | "turn") => TextStyle::BOLD,
        Some("model") => TextStyle::CYAN,
        Some("tool") => TextStyle::GREEN,
        Some("permission") => TextStyle::YELLOW,
        Some("subagent") => TextStyle::MAGENTA,
        Some(_) | None => TextStyle::BLUE,
    };
    format!("{}{}{rest}", TextStyle::DIM.paint(place), style.paint(kind))
}

/// Seq and time, the type, and the rest of an event's line.
fn event_parts(line: &str) -> Option<(&str, &str, &str)> {
    let (place, rest) = line.split_once("s  ")?;
    let is_place = |c: char| c.is_ascii_digit() || c == ' ' || c == '.';
    if place.trim().is_empty() || !place.chars().all(is_place) {
        return None;
    }
    let start = place.len() + "s  ".len();
    let end = rest.find(' ').map_or(line.len(), |end| start + end);
    Some((&line[..start], &line[start..end], &line[end..]))
}

/// Lines in groups: a heading begins at the margin, and the rest is indented.
pub(crate) fn grouped_line(line: &str) -> String {
    let is_heading = !line.starts_with(' ') && !line.is_empty();
    if is_heading { TextStyle::BOLD.paint(line) } else { line.to_owned() }
}

/// Lines that begin with a session's id.
pub(crate) fn session_line(line: &str) -> String {
    match line.split_once("  ") {
        Some((id, rest)) if !id.is_empty() => {
            let rest = [
                ("interrupted", TextStyle::YELLOW),
                ("running", TextStyle::GREEN),
                ("error", TextStyle::RED),
            ]
            .into_iter()
            .find_map(|(state, style)| {
                let (before, after) = rest.split_once(&format!("  {state} "))?;
                let state = style.paint(state);
                Some(format!("{before}  {state} {after}"))
            })
            .unwrap_or_else(|| rest.to_owned());
            format!("{}  {rest}", TextStyle::DIM.paint(id))
        }
        Some(_) | None => TextStyle::DIM.paint(line),
    }
}

/// Lines without colours.
pub(crate) fn plain_line(line: &str) -> String {
    line.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_coloured_by_what_they_are() {
        for (painter, line, expected) in [
            (diff_line as Painter, "+new", "\x1b[32m+new\x1b[0m"),
            (indented_diff_line, "    -old", "    \x1b[31m-old\x1b[0m"),
            (indented_diff_line, "     - a list", "     - a list"),
            (diff_line, "-old", "\x1b[31m-old\x1b[0m"),
            (diff_line, "+++ b/a", "\x1b[1m+++ b/a\x1b[0m"),
            (diff_line, " same", " same"),
            (
                event_line,
                "   12   0.120s  tool.called of 7  bash ls",
                "\x1b[2m   12   0.120s  \x1b[0m\x1b[32mtool.called\x1b[0m of 7  bash ls",
            ),
            (
                event_line,
                "    2   0.000s  model.failed",
                "\x1b[2m    2   0.000s  \x1b[0m\x1b[31mmodel.failed\x1b[0m",
            ),
            (event_line, "                 +x", "                 \x1b[32m+x\x1b[0m"),
            (event_line, "a file's  text", "a file's  text"),
            (grouped_line, "by day", "\x1b[1mby day\x1b[0m"),
            (grouped_line, "  2026", "  2026"),
            (grouped_line, "", ""),
        ] {
            assert_eq!(painter(line), expected, "{line:?}");
        }
    }

    #[test]
    fn every_line_keeps_its_end() {
        assert_eq!(painted("a\n\n+b", diff_line), "a\n\n\x1b[32m+b\x1b[0m");
    }
}
