//! A table of Markdown: columns that fit the width, or a list where they cannot.

use pulldown_cmark::Alignment;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;

use super::wrap::{Break, Indent, span, width, width_of, wrap};
use crate::theme::Theme;

/// Columns of text that a column of the table has at least.
const NARROWEST: usize = 4;
/// Width of the separator between two columns.
const GAP: usize = 3;

#[derive(Debug)]
pub(super) struct Table {
    alignments: Vec<Alignment>,
    /// The first is the head.
    rows: Vec<Vec<Vec<Span<'static>>>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn push(&mut self, cell: Vec<Span<'static>>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }
}

pub(super) fn lines(table: &Table, room: usize, theme: &Theme) -> Vec<Line<'static>> {
    let Some((head, body)) = table.rows.split_first() else { return Vec::new() };
    let bold = |cell: &Vec<Span<'static>>| -> Vec<Span<'static>> {
        let bold = |span: &Span<'static>| {
            Span::styled(span.content.clone(), theme.with(span.style, Modifier::BOLD))
        };
        cell.iter().map(bold).collect()
    };
    let head: Vec<Vec<Span<'static>>> = head.iter().map(bold).collect();
    let Some(widths) = widths(&head, body, room) else { return list(&head, body, room, theme) };
    let mut lines = row(&head, &widths, &table.alignments, theme);
    let rules = widths.iter().map(|columns| "─".repeat(*columns));
    let rule = rules.collect::<Vec<_>>().join("─┼─");
    let rule = if theme.is_plain() { rule.replace('─', "-").replace('┼', "|") } else { rule };
    lines.push(Line::from(vec![span(&rule, theme.marker)]));
    lines.extend(body.iter().flat_map(|cells| row(cells, &widths, &table.alignments, theme)));
    lines
}

/// The columns of text for each column; `None` if they cannot fit.
fn widths(
    head: &[Vec<Span<'static>>],
    body: &[Vec<Vec<Span<'static>>>],
    room: usize,
) -> Option<Vec<usize>> {
    let count = head.len();
    let room = room.checked_sub(GAP * count.saturating_sub(1))?;
    let cells = |column: usize| {
        let below = body.iter().filter_map(move |row| row.get(column));
        head.get(column).into_iter().chain(below)
    };
    let widest = |column| cells(column).map(|cell| cell_width(cell)).max().unwrap_or(0).max(1);
    let natural: Vec<usize> = (0..count).map(widest).collect();
    if natural.iter().sum::<usize>() <= room {
        return Some(natural);
    }
    // A column is not narrower than its longest word, unless that takes more than its share.
    let share = room / count.max(1);
    let longest = |column| cells(column).map(|cell| longest_word(cell)).max().unwrap_or(0);
    let least: Vec<usize> = (0..count)
        .map(|column| longest(column).min(share).max(NARROWEST).min(natural[column]))
        .collect();
    let mut spare = room.checked_sub(least.iter().sum::<usize>())?;
    let mut widths = least;
    // The rest goes to the narrowest columns first, evenly, because they need few lines then.
    while spare > 0 {
        let needy: Vec<usize> = (0..count).filter(|at| widths[*at] < natural[*at]).collect();
        let Some(each) = spare.checked_div(needy.len()) else { break };
        for column in needy {
            let more = (natural[column] - widths[column]).min(each.max(1)).min(spare);
            widths[column] += more;
            spare -= more;
        }
    }
    Some(widths)
}

fn cell_width(cell: &[Span<'static>]) -> usize {
    let text: String = cell.iter().map(|span| span.content.as_ref()).collect();
    text.split('\n').map(width).max().unwrap_or(0)
}

fn longest_word(cell: &[Span<'static>]) -> usize {
    let text: String = cell.iter().map(|span| span.content.as_ref()).collect();
    let columns = |word: &str| match word.graphemes(true).any(|cluster| width(cluster) > 1) {
        true => 2,
        false => width(word),
    };
    text.split([' ', '\n']).map(columns).max().unwrap_or(0)
}

/// The lines of one row.
fn row(
    cells: &[Vec<Span<'static>>],
    widths: &[usize],
    alignments: &[Alignment],
    theme: &Theme,
) -> Vec<Line<'static>> {
    let wrapped: Vec<Vec<Line<'static>>> = widths
        .iter()
        .enumerate()
        .map(|(column, columns)| {
            let cell = cells.get(column).map(Vec::as_slice).unwrap_or_default();
            wrap(cell, *columns, &Indent::default(), Break::Words)
        })
        .collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let bar = if theme.is_plain() { " | " } else { " │ " };
    let line = |at: usize| {
        let mut spans = Vec::new();
        for (column, (lines, columns)) in wrapped.iter().zip(widths).enumerate() {
            if column > 0 {
                spans.push(span(bar, theme.marker));
            }
            let text = lines.get(at).map(|line| line.spans.clone()).unwrap_or_default();
            let blank = columns.saturating_sub(width_of(&text));
            let before = match alignments.get(column) {
                Some(Alignment::Right) => blank,
                Some(Alignment::Center) => blank / 2,
                Some(Alignment::Left | Alignment::None) | None => 0,
            };
            let is_last = column + 1 == widths.len();
            let after = if is_last { 0 } else { blank - before };
            spans.push(Span::raw(" ".repeat(before)));
            spans.extend(text);
            spans.push(Span::raw(" ".repeat(after)));
        }
        spans.retain(|span| !span.content.is_empty());
        Line::from(spans)
    };
    (0..height).map(line).collect()
}

/// The rows as paragraphs with a line for each cell, which the head names.
fn list(
    head: &[Vec<Span<'static>>],
    body: &[Vec<Vec<Span<'static>>>],
    room: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let indent = Indent { rest: vec![Span::raw("  ")], ..Indent::default() };
    if body.is_empty() {
        let cells = head.iter().flat_map(|cell| wrap(cell, room, &indent, Break::Words));
        lines.extend(cells);
    }
    for (number, cells) in body.iter().enumerate() {
        if number > 0 {
            lines.push(Line::default());
        }
        for (column, cell) in cells.iter().enumerate() {
            let mut text = head.get(column).cloned().unwrap_or_default();
            if !text.is_empty() {
                text.push(span(": ", theme.marker));
            }
            text.extend(cell.iter().cloned());
            lines.extend(wrap(&text, room, &indent, Break::Words));
        }
    }
    lines
}
