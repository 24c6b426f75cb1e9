//! Tool calls on the terminal: a heading with the outcome, and an excerpt of the result.

use std::borrow::Borrow;
use std::sync::Arc;

use leftfold_config::KeyAction;
use leftfold_events::event::{Finished, TodoItem, TodoStatus};
use leftfold_runtime::preview;
use leftfold_runtime::session_diff::SessionDiff;
use leftfold_tools::{FilePreview, cut_lines};
use leftfold_view::clean::{clean, clean_line, clip, visible, visible_line};
use leftfold_view::words::{self, counted};
use leftfold_view::{Call, CallResult, FileDiff, ResultBody, changed_todos, excerpt, file_changes};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::folds::{Body, Fold};
use super::look::Look;
use super::render::wrap::{Break, Indent, wrap};
use super::render::{self, DiffOptions};

/// The number of lines to show of a diff.
const EXCERPT: usize = 12;
/// The unchanged lines to show before and after a change.
const CONTEXT: usize = 1;
/// The number of lines to show of a command's output.
const OUTPUT: usize = 5;
/// The most rows of a line that says why a command has failed.
const LONGEST_LINE: usize = 3;
/// The columns that the end of a path needs to say something.
const SHORTEST_PATH: usize = 8;
/// The most rows of the reason why a call did not run well.
const LONGEST_REASON: usize = 6;
/// The first lines to show of a subagent's answer.
const ANSWER: usize = 6;
/// The rows for one line of a diff in a result.
const LONGEST_ROWS: usize = 3;
/// The most lines of a session's changes to print.
const LONGEST_DIFF: usize = 2_000;
const INDENT: &str = "    ";
/// Between the notes beside a call.
const NOTES: &str = " · ";

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
    /// The tool in words.
    pub(super) fn name(self) -> String {
        visible_line(&words::tool(&self.call.name, &self.call.input))
    }

    /// The main argument, as it is.
    pub(super) fn argument(self) -> String {
        words::argument(&self.call.input).map(visible).unwrap_or_default()
    }

    /// The tool and what the call is about, in one line.
    pub(super) fn heading(self) -> String {
        format!("{} {}", self.name(), self.subject()).trim_end().to_owned()
    }

    /// The main argument of the call, in one line.
    pub(super) fn subject(self) -> String {
        let brief = visible(&words::subject(&self.call.name, &self.call.input));
        let mut lines = brief.trim().lines();
        let first = lines.next().unwrap_or_default();
        let more = if lines.next().is_some() { " …" } else { "" };
        format!("{first}{more}")
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
            return self.changes(change);
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
            let theme = &self.look.theme;
            let style = match sign {
                "-" => theme.removed,
                "+" => theme.added,
                _ => theme.dim,
            };
            let begin = format!("{INDENT}{sign}");
            rows.extend(
                lines.iter().flat_map(|line| self.look.exact((style, &begin), (style, line))),
            );
        }
        rows
    }

    /// The changes that the call would make, whole.
    fn changes(self, change: &[FilePreview]) -> Vec<Line<'static>> {
        let look = self.look;
        let options = DiffOptions { names: false, ..DiffOptions::WHOLE };
        let mut rows = Vec::new();
        for file in preview::changes(change) {
            rows.extend(
                look.exact((Style::default(), INDENT), (look.theme.heading, &file.heading)),
            );
            rows.extend(indented_diff(&file.diff, options, look));
            if file.cut {
                rows.extend(
                    look.exact((Style::default(), INDENT), (look.theme.warning, preview::CUT)),
                );
            }
        }
        rows
    }

    /// The heading of an ended call. The last of `notes` are the first to go where there is no room. Of a call that did
    /// not run well, the first one says why: it goes below the heading rather than be cut.
    pub(super) fn ended(self, mark: CallMark, notes: &[impl Borrow<str>]) -> Vec<Line<'static>> {
        let look = self.look;
        let (style, sign) = match mark {
            CallMark::Well => (look.theme.success, look.sign("✓", "+")),
            CallMark::Failed => (look.theme.error, look.sign("✗", "x")),
            CallMark::NotRun => (look.theme.warning, look.sign("–", "-")),
        };
        let room = look.measure().saturating_sub(2);
        let heading = self.heading();
        let joined = |count: usize| clean_line(&notes[..count].join(NOTES));
        let fits = |count: &usize| joined(*count).width() + 2 + heading.width() <= room;
        let count = (1..=notes.len()).rev().find(fits).unwrap_or(notes.len().min(1));
        let mut note = joined(count);
        let mut below = Vec::new();
        if mark != CallMark::Well
            && note.width() > room / 2
            && heading.width() + 2 + note.width() > room
        {
            let indent = Indent::hanging(vec![Span::raw(INDENT)]);
            note.clear();
            let why = self.notes(mark, &joined(notes.len()));
            below = wrap(&why, look.measure(), &indent, Break::Words);
            below.truncate(LONGEST_REASON);
        }
        let note = clip(&note, (room / 2).max(room.saturating_sub(heading.width() + 2)));
        let heading = clip_subject(&heading, room.saturating_sub(note.width() + 2));
        let of_heading = if mark == CallMark::Failed { style } else { look.theme.text };
        let mut spans =
            vec![Span::styled(sign, style), Span::styled(format!(" {heading}"), of_heading)];
        if !note.is_empty() {
            spans.push(Span::raw("  "));
            spans.extend(self.notes(mark, &note));
        }
        [vec![Line::from(spans)], below].concat()
    }

    /// The notes in their colours: the first one of a call that did not run well says why.
    fn notes(self, mark: CallMark, notes: &str) -> Vec<Span<'static>> {
        let theme = &self.look.theme;
        let mut spans = Vec::new();
        for (n, note) in notes.split(NOTES).enumerate() {
            if n > 0 {
                spans.push(Span::styled(NOTES, theme.dim));
            }
            let changed = note.split_once(' ').filter(|(added, removed)| {
                let counts = |text: &str, sign: char| {
                    let digits = text.strip_prefix(sign).unwrap_or_default();
                    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
                };
                counts(added, '+') && counts(removed, '-')
            });
            match (changed, mark) {
                (Some((added, removed)), _) => spans.extend([
                    Span::styled(added.to_owned(), theme.added),
                    Span::styled(format!(" {removed}"), theme.removed),
                ]),
                (None, CallMark::Failed) if n == 0 => {
                    spans.push(Span::styled(note.to_owned(), theme.text));
                }
                (None, CallMark::NotRun) if n == 0 => {
                    spans.push(Span::styled(note.to_owned(), theme.warning));
                }
                (None, _) => spans.push(Span::styled(note.to_owned(), theme.dim)),
            }
        }
        spans
    }

    /// All lines of a finished call, and what of its result they leave out. With `previewed`, a
    /// question has already shown its changes. `todos` is the list that was shown before.
    pub(super) fn finished(
        self,
        finished: &Arc<Finished>,
        previewed: bool,
        todos: &[TodoItem],
    ) -> (Vec<Line<'static>>, Option<Fold>) {
        let result = CallResult::from_finished(finished);
        let CallResult { is_failed, mut notes, body, reasons } = result;
        if let ResultBody::Todos(after) = &body
            && !todos.is_empty()
        {
            notes.extend(changed_todos(todos, after).map(|todo| {
                let (mark, text, _) = todo_parts(todo, self.look);
                format!("{} {text}", mark.content)
            }));
        }
        let times = self.call.started.zip(self.call.ended);
        let took = times.map_or(0, |(started, ended)| ended.since(started));
        if took >= 1000 {
            notes.push(duration(took));
        }
        let mark = if is_failed { CallMark::Failed } else { CallMark::Well };
        let mut block = self.ended(mark, &notes);
        let fold = |body| Some(Fold { heading: self.heading(), body });
        let mut folded = None;
        match body {
            ResultBody::Changes(files) if !previewed => {
                let all: usize = files.iter().map(|file| render::diff_lines(file, CONTEXT)).sum();
                let hint = &self.look.shows_all();
                let names = files.len() > 1;
                let (most, rows, context) = (EXCERPT, LONGEST_ROWS, CONTEXT);
                let options = DiffOptions { most, rows, names, context, hint };
                block.extend(indented_diff(&files, options, self.look));
                if all > EXCERPT {
                    folded = fold(Body::Diff(files));
                }
            }
            ResultBody::Changes(_) => {}
            ResultBody::Output(text) => {
                let (lines, is_whole) = end_of(&text, &reasons, self.look);
                block.extend(lines);
                if !is_whole {
                    folded = fold(Body::Output(Arc::clone(finished)));
                }
            }
            // elsewhere it stands above the composer
            ResultBody::Todos(after) if todos.is_empty() && self.look.theme.is_plain() => {
                block.extend(todo_list(&after, self.look));
            }
            ResultBody::Todos(_) => {}
            ResultBody::Answer(text) => {
                let (lines, is_whole) = start_of(&text, ANSWER, self.look);
                block.extend(lines);
                if !is_whole {
                    folded = fold(Body::Markdown(text));
                }
            }
            ResultBody::Text(text, most) => {
                let (lines, is_whole) = start_of(&text, most, self.look);
                if most > 0 {
                    block.extend(lines);
                }
                if !is_whole && text.lines().count() > 1 {
                    folded = fold(Body::Output(Arc::clone(finished)));
                }
            }
        }
        for attachment in &finished.attachments {
            let name = clean_line(&attachment.name);
            let mime = clean_line(&attachment.mime);
            let size = u64::try_from(attachment.base64.len() / 4 * 3).unwrap_or(u64::MAX);
            let size = words::bytes(size);
            let named = if name.is_empty() { mime } else { format!("{name}, {mime}") };
            block.push(indented(self.look.theme.dim, &format!("[{named}, {size}]"), self.look));
        }
        (block, folded)
    }
}

/// A heading within `width` columns. A path keeps its end, which names the file.
fn clip_subject(heading: &str, width: usize) -> String {
    let whole = || clip(heading, width);
    let Some((name, path)) = heading.split_once(' ').filter(|_| heading.width() > width) else {
        return whole();
    };
    let is_path = path.contains('/') && !path.contains(char::is_whitespace);
    let room = width.saturating_sub(name.width() + 2);
    if !is_path || path.contains("://") || room < SHORTEST_PATH {
        return whole();
    }
    let starts = path.char_indices().map(|(at, _)| &path[at..]);
    let end = starts.into_iter().find(|end| end.width() <= room).unwrap_or_default();
    format!("{name} …{end}")
}

/// A diff below the heading of its call.
fn indented_diff(files: &[FileDiff], options: DiffOptions<'_>, look: &Look) -> Vec<Line<'static>> {
    let indent = u16::try_from(INDENT.len()).unwrap_or(0);
    let columns = look.columns().saturating_sub(indent);
    let mut lines = render::diff(files, options, columns, &look.theme);
    // the ground of a changed line begins at its number
    let indent = Span::styled(INDENT, Style::new().bg(Color::Reset));
    lines.iter_mut().for_each(|line| line.spans.insert(0, indent.clone()));
    lines
}

fn indented(style: Style, text: &str, look: &Look) -> Line<'static> {
    let text = clip(text, look.measure().saturating_sub(INDENT.len()));
    Line::from(vec![Span::raw(INDENT), Span::styled(text, style)])
}

/// The changes of a session to files, in colours, with the numbers of changed lines below.
pub(super) fn diff(diff: &SessionDiff, part: &str, look: &Look) -> Vec<Line<'static>> {
    let files = FileDiff::parse(&diff.unified());
    let options = DiffOptions { most: LONGEST_DIFF, ..DiffOptions::WHOLE };
    let mut shown = render::diff(&files, options, look.columns(), &look.theme);
    let lines: usize = files.iter().map(|file| file.0.len()).sum();
    let more =
        (lines > LONGEST_DIFF).then(|| format!("all of it: leftfold diff {}{part}", diff.session));
    let none = diff.files.is_empty().then(|| "no file was changed".to_owned());
    let sum = none.unwrap_or_else(|| file_changes::sum(&diff.figures()));
    for note in more.iter().chain(&diff.notes).chain(&diff.gaps).chain([&sum]) {
        shown.extend(look.note(look.theme.dim, &format!("  {}", clean_line(note))));
    }
    shown
}

/// The first tasks of a list, below the heading of a call.
pub(super) fn todo_list(todos: &[TodoItem], look: &Look) -> Vec<Line<'static>> {
    let shown = todos.iter().take(EXCERPT).map(|todo| todo_line(INDENT, todo, look));
    let mut rows: Vec<_> = shown.collect();
    if let Some(hidden @ 1..) = todos.len().checked_sub(EXCERPT) {
        let more = format!("… {}", counted(hidden, "more task"));
        rows.push(indented(look.theme.dim, &more, look));
    }
    rows
}

/// A task of the list with its state, in one row.
pub(super) fn todo_line(indent: &'static str, todo: &TodoItem, look: &Look) -> Line<'static> {
    let (mark, text, style) = todo_parts(todo, look);
    let text = clip(&text, look.measure().saturating_sub(indent.len() + 2));
    Line::from(vec![Span::raw(indent), mark, Span::styled(format!(" {text}"), style)])
}

/// A task of the list with its state, whole.
pub(super) fn todo_lines(indent: &'static str, todo: &TodoItem, look: &Look) -> Vec<Line<'static>> {
    let (mark, text, style) = todo_parts(todo, look);
    let indent = Indent::hanging(vec![Span::raw(indent), mark, Span::raw(" ")]);
    wrap(&[Span::styled(text, style)], look.measure(), &indent, Break::Words)
}

/// The sign of a task's state, its text, and the style of the text.
fn todo_parts(todo: &TodoItem, look: &Look) -> (Span<'static>, String, Style) {
    let theme = &look.theme;
    let (mark, style) = match todo.status {
        TodoStatus::Completed => (look.sign("✓", "x"), theme.success),
        TodoStatus::InProgress => (look.sign("▸", ">"), theme.accent),
        TodoStatus::Pending => (look.sign("·", "."), theme.dim),
        TodoStatus::Cancelled => (look.sign("–", "-"), theme.dim),
    };
    let of_text = match todo.status {
        TodoStatus::Pending | TodoStatus::InProgress => theme.text,
        TodoStatus::Completed | TodoStatus::Cancelled => theme.dim,
    };
    (Span::styled(mark, style), clean_line(&todo.content), of_text)
}

/// The first lines of a text, and whether that is all of it.
fn start_of(text: &str, most: usize, look: &Look) -> (Vec<Line<'static>>, bool) {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    // one line more takes no more room than the line about it
    let most = if lines.len() == most + 1 && most > 0 { most + 1 } else { most };
    let left_out = left_out(text, lines.len(), most);
    let mut shown: Vec<_> =
        lines.iter().take(most).map(|line| indented(look.theme.dim, line, look)).collect();
    if left_out > 0 {
        let more = format!("{INDENT}… {}{}", counted(left_out, "more line"), shows(text, look));
        shown.extend(look.note(look.theme.dim, &more));
    }
    let room = look.measure().saturating_sub(INDENT.len());
    (shown, left_out == 0 && lines.iter().all(|line| line.width() <= room))
}

/// The lines that are not among `shown` of `lines`. Of an output that was cut for the model, those that were cut count.
fn left_out(text: &str, lines: usize, shown: usize) -> usize {
    let whole = cut_lines(text).map(|(whole, _)| usize::try_from(whole).unwrap_or(usize::MAX));
    whole.unwrap_or(lines).saturating_sub(shown)
}

/// Says which key shows the lines that are left out, and how many of them.
fn shows(text: &str, look: &Look) -> String {
    let Some(((_, kept), key)) = cut_lines(text).zip(look.key(KeyAction::Expand)) else {
        return look.shows_all();
    };
    format!(", {key} shows {kept} lines")
}

/// The last lines of a command's output and those that say why it failed, and whether that is all of it.
fn end_of(text: &str, reasons: &[usize], look: &Look) -> (Vec<Line<'static>>, bool) {
    let lines: Vec<&str> = text.lines().collect();
    let places = excerpt(&lines, reasons, OUTPUT);
    let mut shown = Vec::new();
    let all = lines.iter().filter(|line| !line.trim().is_empty()).count();
    let left_out = left_out(text, all, places.len());
    if left_out > 0 {
        let (noun, above) = if reasons.is_empty() { ("line", " above") } else { ("more line", "") };
        let more = format!("{INDENT}… {}{above}{}", counted(left_out, noun), shows(text, look));
        shown.extend(look.note(look.theme.dim, &more));
    }
    for at in places {
        if reasons.contains(&at) {
            let line = [Span::styled(lines[at].trim().to_owned(), look.theme.error)];
            let indent = Indent::hanging(vec![Span::raw(INDENT)]);
            let rows = wrap(&line, look.measure(), &indent, Break::Words);
            shown.extend(rows.into_iter().take(LONGEST_LINE));
        } else {
            shown.push(indented(look.theme.dim, lines[at], look));
        }
    }
    let room = look.measure().saturating_sub(INDENT.len());
    (shown, left_out == 0 && lines.iter().all(|line| line.width() <= room))
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
