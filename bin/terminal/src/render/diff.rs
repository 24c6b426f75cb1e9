//! Changes to files as lines: numbers, colours, the words that differ.

use std::ops::Range;

use leftfold_view::clean::{visible_code, visible_line};
use leftfold_view::{DiffLine, FileDiff, LineKind};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_segmentation::UnicodeSegmentation;

use super::highlight::Highlighter;
use super::wrap::{Break, Indent, clip, guarded, span, wrap};
use crate::theme::Theme;

/// Bytes of a line whose words are compared.
const LONGEST_COMPARED: usize = 500;
/// Lines of one change whose words are compared.
const MAX_COMPARED: usize = 50;
/// The least share of equal words for which marking the others helps, in per cent.
const LEAST_EQUAL: usize = 30;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DiffOptions<'a> {
    /// Lines of the diff to show; the others are counted.
    pub(crate) most: usize,
    /// Lines of the screen for one line of the diff; what is longer is clipped.
    pub(crate) rows: usize,
    /// Whether each file has a line with its name.
    pub(crate) names: bool,
    /// Unchanged lines to show before and after each change. Blank ones at the edges are left out; all of them stay with
    /// `usize::MAX`.
    pub(crate) context: usize,
    /// Follows the number of hidden lines.
    pub(crate) hint: &'a str,
}

impl DiffOptions<'_> {
    /// Everything, for somebody who decides about it.
    pub(crate) const WHOLE: Self =
        Self { most: usize::MAX, rows: usize::MAX, names: true, context: usize::MAX, hint: "" };
}

/// The changes, none wider than `width`.
pub(crate) fn diff(
    files: &[FileDiff],
    options: DiffOptions<'_>,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut left = options.most;
    let mut hidden = 0;
    for file in files {
        if options.names {
            lines.extend(wrap(
                &heading(file, theme),
                width.into(),
                &Indent::default(),
                Break::Words,
            ));
        }
        let numbered = trimmed(numbered(file), options.context);
        let is_change = |line: &&Numbered<'_>| line.line.kind != LineKind::Hunk;
        let all = numbered.iter().filter(is_change).count();
        let shown = all.min(left);
        (left, hidden) = (left - shown, hidden + all - shown);
        let until = numbered.iter().enumerate().filter(|(_, line)| is_change(line)).nth(shown);
        let numbered = &numbered[..until.map_or(numbered.len(), |(at, _)| at)];
        lines.extend(FileLines::new(file, numbered, options, width, theme).lines());
    }
    if hidden > 0 {
        let s = if hidden == 1 { "" } else { "s" };
        let more = span(&format!("… {hidden} more line{s}{}", options.hint), theme.dim);
        lines.extend(wrap(&[more], width.into(), &Indent::default(), Break::Words));
    }
    lines
}

/// How many lines of a file [`DiffOptions::most`] counts.
pub(crate) fn lines_of(file: &FileDiff, context: usize) -> usize {
    let numbered = trimmed(numbered(file), context);
    numbered.iter().filter(|line| line.line.kind != LineKind::Hunk).count()
}

/// The names of the file in the old and in the new text.
fn names(file: &FileDiff) -> (Option<String>, Option<String>) {
    let name = |key, prefix| {
        let name = file.after(key).filter(|name| *name != "/dev/null")?;
        let name = name.split('\t').next().unwrap_or(name);
        Some(visible_line(name.strip_prefix(prefix).unwrap_or(name)))
    };
    (name("--- ", "a/"), name("+++ ", "b/"))
}

/// The name of the file, what becomes of it, and how many lines change.
fn heading(file: &FileDiff, theme: &Theme) -> Vec<Span<'static>> {
    let name = |key| file.after(key).map(visible_line);
    let (old, new) = names(file);
    let moved = name("rename from ").zip(name("rename to "));
    let has = |key| file.after(key).is_some();
    let note = match &moved {
        Some((from, _)) => format!(" (renamed from {from})"),
        None if has("--- /dev/null") || has("new file mode") => " (new)".to_owned(),
        None if has("+++ /dev/null") || has("deleted file mode") => " (deleted)".to_owned(),
        None => String::new(),
    };
    let git = file.after("diff --git ").and_then(|names| names.rsplit_once(" b/"));
    let git = git.map(|(_, name)| visible_line(name));
    let binary = file.after("Binary files ").is_some();
    let name = moved.map(|(_, to)| to).or(new).or(old).or(git);
    let count = |kind| file.0.iter().filter(|line| line.kind == kind).count();
    let (added, removed) = (count(LineKind::Added), count(LineKind::Removed));
    let mut spans = vec![span(
        &name.unwrap_or_else(|| "unknown file".to_owned()),
        theme.with(theme.text, Modifier::BOLD),
    )];
    spans.push(span(&note, theme.dim));
    if binary {
        spans.push(span(" (binary)", theme.dim));
    } else {
        spans.push(span(&format!(" +{added}"), theme.added));
        spans.push(span(&format!(" -{removed}"), theme.removed));
    }
    spans.retain(|span| !span.content.is_empty());
    spans
}

/// A line of a hunk with its number in the old or the new text.
#[derive(Clone, Copy, Debug)]
struct Numbered<'a> {
    line: &'a DiffLine,
    number: Option<u64>,
    /// For the head of a hunk: the unchanged lines before it that are left out.
    skipped: u64,
}

fn numbered(file: &FileDiff) -> Vec<Numbered<'_>> {
    // the numbers of the next line in the old and in the new text
    let mut next: Option<(u64, u64)> = None;
    let mut after = 1;
    let mut numbered = Vec::new();
    for line in file.0.iter().filter(|line| line.kind != LineKind::Names) {
        let mut skipped = 0;
        let number = match (line.kind, &mut next) {
            (LineKind::Hunk, _) => {
                next = hunk_starts(&line.text);
                skipped = next.map_or(0, |(_, new)| new.saturating_sub(after));
                None
            }
            (LineKind::Removed, Some((old, _))) => Some(counted(old)),
            (LineKind::Added, Some((_, new))) => Some(counted(new)),
            (LineKind::Context, Some((old, new))) => {
                counted(old);
                Some(counted(new))
            }
            (LineKind::Names | LineKind::Note, _) | (_, None) => None,
        };
        after = next.map_or(after, |(_, new)| new);
        numbered.push(Numbered { line, number, skipped });
    }
    numbered
}

/// Each hunk with at most `context` unchanged lines before its first change and after its last one, none of them blank at
/// the edges. The head of the first hunk is left out: the numbers of its lines say where it is.
fn trimmed(lines: Vec<Numbered<'_>>, context: usize) -> Vec<Numbered<'_>> {
    if context == usize::MAX {
        return lines;
    }
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let mut trimmed: Vec<Numbered<'_>> = Vec::new();
    // the lines at the end of the hunk before that are left out
    let mut left_out = 0;
    let mut rest = lines.as_slice();
    while let Some(first) = rest.first() {
        let head = Some(first).filter(|line| line.line.kind == LineKind::Hunk);
        let after = &rest[usize::from(head.is_some())..];
        let length = after.iter().take_while(|line| line.line.kind != LineKind::Hunk).count();
        let (hunk, next) = after.split_at(length);
        let shown = with_context(hunk, context);
        let is_shown =
            |head: &&Numbered<'_>| !trimmed.is_empty() || hunk_starts(&head.line.text).is_none();
        if let Some(head) = head.filter(is_shown) {
            let skipped = head.skipped.saturating_add(left_out + count(shown.start));
            trimmed.push(Numbered { skipped, ..*head });
        }
        left_out = count(hunk.len() - shown.end);
        trimmed.extend_from_slice(&hunk[shown]);
        rest = next;
    }
    trimmed
}

/// The lines of a hunk from `context` lines before its first change to as many after its last one.
fn with_context(hunk: &[Numbered<'_>], context: usize) -> Range<usize> {
    let is_change = |line: &Numbered<'_>| line.line.kind != LineKind::Context;
    let (first, last) = (hunk.iter().position(is_change), hunk.iter().rposition(is_change));
    let Some((first, last)) = first.zip(last) else { return 0..hunk.len() };
    let (mut start, mut end) = (first.saturating_sub(context), last + 1 + context);
    end = end.min(hunk.len());
    let is_blank = |at: usize| text_of(hunk[at].line).trim().is_empty();
    while start < first && is_blank(start) {
        start += 1;
    }
    while end > last + 1 && is_blank(end - 1) {
        end -= 1;
    }
    start..end
}

fn counted(next: &mut u64) -> u64 {
    std::mem::replace(next, next.saturating_add(1))
}

/// The first lines of `@@ -1,3 +4,5 @@`: 1 and 4. A range without lines names the line before it.
fn hunk_starts(head: &str) -> Option<(u64, u64)> {
    let (old, rest) = head.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let start = |range: &str| -> Option<u64> {
        let (start, length) = range.split_once(',').unwrap_or((range, "1"));
        let start: u64 = start.parse().ok()?;
        Some(if length == "0" { start.saturating_add(1) } else { start })
    };
    Some((start(old)?, start(new)?))
}

/// The lines of one file.
struct FileLines<'a> {
    numbered: &'a [Numbered<'a>],
    options: DiffOptions<'a>,
    width: usize,
    theme: &'a Theme,
    /// The theme of code on the ground of a changed line; `None`: the terminal has none, and the line has one colour.
    changed: Option<Theme>,
    /// Colours for the first line of a hunk.
    first: Highlighter,
    /// The colours of the old and of the new text.
    old: Highlighter,
    new: Highlighter,
    /// Columns of the numbers; 0 if there is no room for them.
    digits: usize,
}

impl<'a> FileLines<'a> {
    fn new(
        file: &FileDiff,
        numbered: &'a [Numbered<'a>],
        options: DiffOptions<'a>,
        width: u16,
        theme: &'a Theme,
    ) -> Self {
        let width = usize::from(width);
        let highest = numbered.iter().filter_map(|line| line.number).max();
        let digits = highest.map_or(0, |highest| highest.to_string().len());
        let digits = if width < 4 * (digits + 3) || file.0.is_empty() { 0 } else { digits };
        let changed = || Theme { syntax: theme.changed_syntax, ..theme.clone() };
        let changed = theme.added_row.bg.is_some().then(changed);
        let (old, new) = names(file);
        let first = Highlighter::of_file(&new.or(old).unwrap_or_default(), theme);
        let (old, new) = (first.clone(), first.clone());
        Self { numbered, options, width, theme, changed, first, old, new, digits }
    }

    fn lines(&mut self) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        let mut rest = self.numbered;
        while let Some((first, after)) = rest.split_first() {
            match first.line.kind {
                LineKind::Removed => {
                    let removed = run(rest, LineKind::Removed);
                    let notes = run(&rest[removed.len()..], LineKind::Note);
                    let added = run(&rest[removed.len() + notes.len()..], LineKind::Added);
                    lines.extend(self.change(removed, notes, added));
                    rest = &rest[removed.len() + notes.len() + added.len()..];
                    continue;
                }
                LineKind::Hunk => {
                    (self.old, self.new) = (self.first.clone(), self.first.clone());
                    lines.extend(self.hunk(first));
                }
                LineKind::Added | LineKind::Context => lines.extend(self.line(first, None)),
                LineKind::Note | LineKind::Names => lines.extend(self.note(&first.line.text)),
            }
            rest = after;
        }
        lines
    }

    /// Removed lines and those that replace them.
    fn change(
        &mut self,
        removed: &[Numbered<'_>],
        notes: &[Numbered<'_>],
        added: &[Numbered<'_>],
    ) -> Vec<Line<'static>> {
        let compared = removed.iter().zip(added).take(MAX_COMPARED);
        let compared = compared.map(|(old, new)| differing(text_of(old.line), text_of(new.line)));
        let (old, new): (Vec<_>, Vec<_>) = compared.map(Option::unzip).unzip();
        let mut lines = self.side(removed, &old);
        lines.extend(notes.iter().flat_map(|line| self.note(&line.line.text)));
        lines.extend(self.side(added, &new));
        lines
    }

    /// Lines of one kind, the first of them with these pieces.
    fn side(&mut self, lines: &[Numbered<'_>], words: &[Option<Pieces>]) -> Vec<Line<'static>> {
        let words = words.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        lines.iter().zip(words).flat_map(|(line, words)| self.line(line, words)).collect()
    }

    /// One line. `words` are its pieces, and whether each differs from the other text.
    fn line(&mut self, line: &Numbered<'_>, words: Option<&Pieces>) -> Vec<Line<'static>> {
        let theme = self.theme;
        let (sign, style, word, row) = match line.line.kind {
            LineKind::Added => ("+", theme.added, theme.added_word, theme.added_row),
            LineKind::Removed => ("-", theme.removed, theme.removed_word, theme.removed_row),
            LineKind::Context | LineKind::Names | LineKind::Hunk | LineKind::Note => {
                (" ", theme.text, theme.text, Style::new())
            }
        };
        let whole = || vec![(text_of(line.line).to_owned(), false)];
        let pieces = words.cloned().unwrap_or_else(whole).into_iter();
        let pieces: Pieces = pieces.map(|(text, is)| (guarded(&shown(&text)), is)).collect();
        let code = self.code(line.line).and_then(|code| marked(code, &pieces, word));
        let text = code.unwrap_or_else(|| {
            let styled = |(text, differs): &(String, bool)| {
                span(text, if *differs { style.patch(word) } else { style })
            };
            pieces.iter().map(styled).collect()
        });
        let mut rows = self.rows(line.number, (sign, style), &text);
        rows.iter_mut().for_each(|line| line.style = row);
        rows
    }

    /// The line in the colours of its language, if the terminal has a ground for changed lines.
    fn code(&mut self, line: &DiffLine) -> Option<Vec<Span<'static>>> {
        let changed = self.changed.as_ref()?;
        let text = guarded(&shown(text_of(line)));
        Some(match line.kind {
            LineKind::Removed => self.old.line(&text, changed),
            LineKind::Added => self.new.line(&text, changed),
            LineKind::Context | LineKind::Names | LineKind::Hunk | LineKind::Note => {
                self.old.line(&text, self.theme);
                self.new.line(&text, self.theme)
            }
        })
    }

    fn hunk(&self, head: &Numbered<'_>) -> Vec<Line<'static>> {
        let (_, section) = head.line.text.split_once(" @@").unwrap_or_default();
        let mut text = match head.skipped {
            0 if head.line.text.starts_with("@@ -") => String::new(),
            // not the head of a hunk as it should be
            0 => shown(&head.line.text),
            1 => "1 unchanged line".to_owned(),
            skipped => format!("{skipped} unchanged lines"),
        };
        let section = shown(section.trim());
        if head.skipped > 0 && !section.is_empty() {
            text = format!("{text} · {section}");
        }
        if text.is_empty() {
            return Vec::new();
        }
        let mark = if self.theme.is_plain() { "..." } else { "⋮" };
        let room = self.width.saturating_sub(self.digits + 1);
        let text = clip(&[span(&format!("{mark} {text}"), self.theme.dim)], room);
        let blanks = " ".repeat(if self.digits > 0 { self.digits + 1 } else { 0 });
        let indent = Indent { first: vec![Span::raw(blanks)], ..Indent::default() };
        wrap(&text, self.width, &indent, Break::Anywhere)
    }

    /// `\ No newline at end of file`.
    fn note(&self, text: &str) -> Vec<Line<'static>> {
        let text = text.strip_prefix('\\').map_or(text, str::trim_start);
        self.rows(None, ("\\", self.theme.dim), &[span(&shown(text), self.theme.dim)])
    }

    /// A number, a sign and a text on as many rows as the options allow.
    fn rows(
        &self,
        number: Option<u64>,
        (sign, style): (&str, Style),
        text: &[Span<'static>],
    ) -> Vec<Line<'static>> {
        let mut first = Vec::new();
        let mut rest = String::new();
        if self.digits > 0 {
            let digits = self.digits;
            let number = number.map(|number| number.to_string()).unwrap_or_default();
            first.push(span(&format!("{number:>digits$} "), self.theme.line_number));
            rest.push_str(&" ".repeat(digits + 1));
        }
        first.push(span(&format!("{sign} "), style));
        rest.push_str("  ");
        let indent = Indent { first, rest: vec![Span::raw(rest)], cut: Vec::new() };
        let mut lines = wrap(text, self.width, &indent, Break::Anywhere);
        if lines.len() > self.options.rows {
            let hidden = lines.split_off(self.options.rows);
            let hidden: usize = hidden
                .iter()
                .map(|line| {
                    line.to_string().graphemes(true).count().saturating_sub(self.digits + 3)
                })
                .sum();
            let more = span(&format!("… {hidden} more characters"), self.theme.dim);
            let rest = indent.rest;
            lines.extend(wrap(
                &[more],
                self.width,
                &Indent { first: rest.clone(), rest, cut: Vec::new() },
                Break::Words,
            ));
        }
        lines
    }
}

/// The lines of this kind at the beginning.
fn run<'a, 'b>(lines: &'b [Numbered<'a>], kind: LineKind) -> &'b [Numbered<'a>] {
    let count = lines.iter().take_while(|line| line.line.kind == kind).count();
    &lines[..count]
}

/// The line of the file, without its mark.
fn text_of(line: &DiffLine) -> &str {
    let mut chars = line.text.chars();
    chars.next();
    chars.as_str().trim_end_matches('\r')
}

/// With controls and invisible characters as escapes.
fn shown(text: &str) -> String {
    visible_code(text)
}

/// The pieces of a line, and whether the other line does not have them.
type Pieces = Vec<(String, bool)>;

/// A line in colours with its differing pieces marked; `None` if the pieces are not those of the line.
fn marked(code: Vec<Span<'static>>, pieces: &Pieces, mark: Style) -> Option<Vec<Span<'static>>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut code = code.into_iter();
    let mut rest = Span::default();
    for (piece, differs) in pieces {
        let mut left = piece.as_str();
        while !left.is_empty() {
            if rest.content.is_empty() {
                rest = code.next()?;
                continue;
            }
            let (now, later) = rest.content.split_at_checked(left.len().min(rest.content.len()))?;
            left = left.strip_prefix(now)?;
            let style = if *differs { rest.style.patch(mark) } else { rest.style };
            spans.push(Span::styled(now.to_owned(), style));
            rest = Span::styled(later.to_owned(), rest.style);
        }
    }
    code.all(|span| span.content.is_empty()).then_some(spans)
}

/// The pieces of two lines; `None` if the lines have too little in common.
fn differing(old: &str, new: &str) -> Option<(Pieces, Pieces)> {
    if old.len().max(new.len()) > LONGEST_COMPARED {
        return None;
    }
    // in code, a dot ends a name
    let words = |text| -> Vec<&str> {
        let words = UnicodeSegmentation::split_word_bounds(text);
        words.flat_map(|word| word.split_inclusive(['.', ':'])).collect()
    };
    let (old, new) = (words(old), words(new));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut equal = 0;
    for op in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let differs = !matches!(op, DiffOp::Equal { .. });
        let (old, new) = (old[op.old_range()].concat(), new[op.new_range()].concat());
        if !differs {
            equal += old.trim().len();
        }
        before.push((old, differs));
        after.push((new, differs));
    }
    before.retain(|(text, _)| !text.is_empty());
    after.retain(|(text, _)| !text.is_empty());
    let length = |pieces: &Pieces| pieces.iter().map(|(text, _)| text.trim().len()).sum::<usize>();
    let longest = length(&before).max(length(&after));
    (equal * 100 >= longest * LEAST_EQUAL).then_some((before, after))
}
