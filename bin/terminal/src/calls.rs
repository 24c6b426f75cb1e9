//! Tool calls on the terminal: a heading with the outcome, and an excerpt of the result.

use leftfold_events::event::Finished;
use leftfold_runtime::session_diff::SessionDiff;
use leftfold_tools::FilePreview;
use leftfold_view::{Call, FileDiff, LineKind, file_changes, words};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::look::Look;
use leftfold_view::clean::{clean, clean_line, clip, visible, visible_code, visible_line};

/// The number of lines to show of a diff or of a command's last output.
const EXCERPT: usize = 12;
/// The most lines of a session's changes to print.
const LONGEST_DIFF: usize = 2_000;
const INDENT: &str = "    ";

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallMark {
    Well,
    Failed,
    /// It did not run, or the outcome is unknown.
    NotRun,
}

/// A call, and the terminal to show it on.
#[derive(Clone, Copy)]
pub(super) struct CallBlock<'a> {
    pub(super) call: &'a Call,
    pub(super) look: &'a Look,
}

impl CallBlock<'_> {
    pub(super) fn name(self) -> String {
        visible_line(&self.call.name)
    }

    /// The main argument, as it is.
    pub(super) fn argument(self) -> String {
        words::argument(&self.call.input).map(visible).unwrap_or_default()
    }

    /// The tool and its main argument, in one line.
    pub(super) fn heading(self) -> String {
        let brief = self.argument();
        let mut lines = brief.trim().lines();
        let first = lines.next().unwrap_or_default();
        let more = if lines.next().is_some() { " …" } else { "" };
        format!("{} {first}{more}", self.name()).trim_end().to_owned()
    }

    /// The last line of the call's output so far.
    pub(super) fn tail(self) -> String {
        let text = clean(&self.call.tail);
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or_default().trim().to_owned()
    }

    /// The rows of a question below its heading, whole: the changes, or the arguments if no more is
    /// known. The main argument is among them if it has several lines.
    pub(super) fn details(
        self,
        change: &[FilePreview],
        arguments: &[(String, String)],
    ) -> Vec<Line<'static>> {
        if !change.is_empty() {
            let lines = leftfold_runtime::preview::lines(change);
            return lines.iter().flat_map(|line| self.painted(line)).collect();
        }
        let mut arguments: Vec<_> = arguments.iter().collect();
        // the text before a change comes first
        arguments.sort_by_key(|(name, _)| name == "newString");
        let mut rows = Vec::new();
        for (name, value) in arguments {
            let shown = visible(value);
            let mut lines: Vec<String> = shown.split('\n').map(str::to_owned).collect();
            let sign = match name.as_str() {
                "" if lines.len() == 1 => continue,
                "" => " ",
                "oldString" => "-",
                "newString" | "content" => "+",
                name => {
                    let name = visible_line(name);
                    match lines.as_mut_slice() {
                        [only] => *only = format!("{name}: {only}"),
                        _ => {
                            lines.iter_mut().for_each(|line| line.insert_str(0, "  "));
                            lines.insert(0, format!("{name}:"));
                        }
                    }
                    " "
                }
            };
            rows.extend(lines.iter().flat_map(|line| self.painted(&format!("{sign}{line}"))));
        }
        rows
    }

    /// A line of a diff, whole.
    fn painted(self, line: &str) -> Vec<Line<'static>> {
        self.look.exact((Style::default(), INDENT), (self.look.of_change(line), line))
    }

    /// The heading of an ended call.
    pub(super) fn ended(self, mark: CallMark, note: &str) -> Line<'static> {
        let look = self.look;
        let (style, sign) = match mark {
            CallMark::Well => (look.theme.success, look.sign("✓", "+")),
            CallMark::Failed => (look.theme.error, look.sign("✗", "x")),
            CallMark::NotRun => (look.theme.warning, look.sign("–", "-")),
        };
        let room = look.width.saturating_sub(2);
        let note = clip(&clean_line(note), room / 2);
        let heading = clip(&self.heading(), room.saturating_sub(note.width() + 2));
        let mut spans = vec![Span::styled(sign, style), Span::raw(format!(" {heading}"))];
        if !note.is_empty() {
            spans.push(Span::raw("  "));
            spans.push(Span::styled(note, look.theme.dim));
        }
        Line::from(spans)
    }

    /// All lines of a finished call. With `previewed`, a question has already shown its changes.
    pub(super) fn finished(self, finished: &Finished, previewed: bool) -> Vec<Line<'static>> {
        let metadata = finished.metadata.value();
        let exit = metadata.get("exit").and_then(Value::as_i64).filter(|exit| *exit != 0);
        let failed = finished.is_error || exit.is_some();
        let mut notes = Vec::new();
        if finished.is_error {
            notes.push(clean(&finished.output).trim().lines().next().unwrap_or("").to_owned());
        }
        notes.extend(exit.map(|exit| format!("exit {exit}")));
        notes.extend(counted(&metadata));
        let times = self.call.started.zip(self.call.ended);
        let took = times.map_or(0, |(started, ended)| ended.since(started));
        if took >= 1000 {
            notes.push(duration(took));
        }
        let mark = if failed { CallMark::Failed } else { CallMark::Well };
        let mut block = vec![self.ended(mark, &notes.join(" · "))];
        match FileDiff::of_call(finished) {
            Some(_) if previewed => {}
            Some(files) => block.extend(changes(&diff_lines(&files), EXCERPT, self.look)),
            None if metadata.get("exit").is_some() => {
                block.extend(output(&finished.output, self.look));
            }
            None => {}
        }
        block
    }
}

/// The numbers of added and removed lines.
fn counted(metadata: &Value) -> Option<String> {
    let number = |key| metadata.get(key).and_then(Value::as_u64);
    let (additions, deletions) = (number("additions")?, number("deletions")?);
    Some(format!("+{additions} -{deletions}"))
}

/// The lines of a diff, without the first file's names and the head of its first hunk.
fn diff_lines(files: &[FileDiff]) -> Vec<String> {
    let lines = files.iter().flat_map(|file| &file.0);
    let changes = lines.skip_while(|line| line.kind == LineKind::Names).skip(1);
    changes.map(|line| clean(&line.text)).collect()
}

/// The first lines of a diff, in colours.
fn changes(lines: &[String], most: usize, look: &Look) -> Vec<Line<'static>> {
    let painted = |line: &String| indented(look.of_change(line), line, look);
    let mut shown: Vec<_> = lines.iter().take(most).map(painted).collect();
    if lines.len() > most {
        let more = format!("… {} more lines", lines.len() - most);
        shown.push(indented(look.theme.dim, &more, look));
    }
    shown
}

fn indented(style: Style, text: &str, look: &Look) -> Line<'static> {
    let text = clip(text, look.width.saturating_sub(INDENT.len()));
    Line::from(vec![Span::raw(INDENT), Span::styled(text, style)])
}

/// The changes of a session to files, in colours, with the numbers of changed lines below.
pub(super) fn diff(diff: &SessionDiff, look: &Look) -> Vec<Line<'static>> {
    let mut shown = Vec::new();
    let unified = diff.unified();
    let mut lines = unified.lines();
    for line in lines.by_ref().take(LONGEST_DIFF) {
        let text = visible_code(line.trim_end_matches('\r'));
        shown.extend(look.exact((Style::default(), "  "), (look.of_change(line), &text)));
    }
    let more = lines.count();
    let more = (more > 0).then(|| format!("… {more} more lines: leftfold diff {}", diff.session));
    let none = diff.files.is_empty().then(|| "no file was changed".to_owned());
    let sum = none.unwrap_or_else(|| file_changes::sum(&diff.figures()));
    for note in more.iter().chain(&diff.notes).chain(&diff.gaps).chain([&sum]) {
        shown.extend(look.note(look.theme.dim, &format!("  {}", clean_line(note))));
    }
    shown
}

/// The last lines of a command's output.
fn output(output: &str, look: &Look) -> Vec<Line<'static>> {
    let text = clean(output);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let mut shown = Vec::new();
    let left_out = lines.len().saturating_sub(EXCERPT);
    if left_out > 0 {
        shown.push(indented(look.theme.dim, &format!("… {left_out} lines before"), look));
    }
    shown.extend(lines[left_out..].iter().map(|line| indented(look.theme.dim, line, look)));
    shown
}

/// A duration such as `450 ms`, `1.2 s` or `3 min 20 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        10_000..60_000 => format!("{} s", millis / 1000),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

/// As [`duration`], in whole seconds, because fractions would only flicker.
pub(super) fn elapsed(millis: u64) -> String {
    if millis < 60_000 { format!("{} s", millis / 1000) } else { duration(millis) }
}
