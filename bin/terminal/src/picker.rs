//! A list to choose from, with a search as one types: models, agents, sessions, earlier prompts,
//! themes, approvals. It holds what was typed and selected; callers say what the rows are.

use leftfold_view::clean::clean_line;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};

use crate::fuzzy::Query;
use crate::render::wrap::{Break, Indent, clip, span, width_of, wrap};
use crate::theme::Theme;

/// Spaces between two columns.
const GAP: usize = 2;
/// The least columns of the screen for the first column of a row.
const NARROWEST: usize = 24;
/// The columns from which on a cell is a text that can be cut.
const LONG: usize = 12;
/// Rows that PageUp and PageDown move by.
const PAGE: usize = 10;

/// A row of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row<T> {
    /// The value that choosing this row returns.
    pub(crate) value: T,
    /// The first one is the name, and is never left out.
    pub(crate) cells: Vec<String>,
    /// More about it, shown below the list while it is selected.
    pub(crate) preview: Vec<String>,
}

/// The effect of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Picked<T> {
    /// The list stays open.
    Nothing,
    Chosen(T),
    /// Delete was pressed on this row, in a list whose rows can be removed.
    Removed(T),
    Closed,
}

#[derive(Debug)]
pub(crate) struct Picker<T> {
    title: String,
    /// The headings of the columns; none, or as many as the cells of a row.
    heads: Vec<String>,
    rows: Vec<Row<T>>,
    /// The searchable text of each row.
    texts: Vec<String>,
    query: String,
    /// The rows that match, the best first.
    found: Vec<usize>,
    /// The place of the selected row in `found`.
    selected: usize,
    removes: bool,
}

impl<T: Clone> Picker<T> {
    /// `selected` is the row to begin at.
    pub(crate) fn new(title: &str, rows: Vec<Row<T>>, selected: usize) -> Self {
        let mut picker = Self {
            title: title.to_owned(),
            heads: Vec::new(),
            rows: Vec::new(),
            texts: Vec::new(),
            query: String::new(),
            found: Vec::new(),
            selected: 0,
            removes: false,
        };
        picker.set_rows(rows);
        picker.selected = selected.min(picker.found.len().saturating_sub(1));
        picker
    }

    /// A list whose columns have headings.
    pub(crate) fn headed<const N: usize>(self, heads: [&str; N]) -> Self {
        Self { heads: heads.map(str::to_owned).into(), ..self }
    }

    /// A list whose rows can be removed with Delete.
    pub(crate) fn removing(self) -> Self {
        Self { removes: true, ..self }
    }

    /// Replaces the rows; query and place stay.
    pub(crate) fn set_rows(&mut self, mut rows: Vec<Row<T>>) {
        for row in &mut rows {
            row.cells.iter_mut().chain(&mut row.preview).for_each(|text| *text = clean_line(text));
        }
        self.texts = rows.iter().map(|row| row.cells.join(" ")).collect();
        self.rows = rows;
        let selected = self.selected;
        self.search();
        self.selected = selected.min(self.found.len().saturating_sub(1));
    }

    fn search(&mut self) {
        let words = self.query.to_lowercase();
        let has = |text: &String| {
            let text = text.to_lowercase();
            words.split_whitespace().all(|word| text.contains(word))
        };
        let texts = self.texts.iter().enumerate();
        self.found = texts.filter(|(_, text)| has(text)).map(|(index, _)| index).collect();
        // a few letters are in most long texts, so they count only if nothing has the words
        if self.found.is_empty() {
            let hits = Query::new(&self.query).search(&self.texts);
            self.found = hits.into_iter().map(|hit| hit.index).collect();
        }
        self.selected = 0;
    }

    pub(crate) fn selected(&self) -> Option<&Row<T>> {
        self.rows.get(*self.found.get(self.selected)?)
    }

    pub(crate) fn key(&mut self, key: KeyEvent) -> Picked<T> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let last = self.found.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc => return Picked::Closed,
            KeyCode::Char('c' | 'd' | 'g') if control => return Picked::Closed,
            KeyCode::Enter => {
                let value = self.selected().map(|row| row.value.clone());
                return value.map_or(Picked::Nothing, Picked::Chosen);
            }
            KeyCode::Delete if self.removes => {
                let value = self.selected().map(|row| row.value.clone());
                return value.map_or(Picked::Nothing, Picked::Removed);
            }
            KeyCode::Up => self.selected = self.selected.checked_sub(1).unwrap_or(last),
            KeyCode::Char('p') if control => {
                self.selected = self.selected.checked_sub(1).unwrap_or(last);
            }
            KeyCode::Down => {
                self.selected = if self.selected == last { 0 } else { self.selected + 1 }
            }
            KeyCode::Char('n') if control => {
                self.selected = if self.selected == last { 0 } else { self.selected + 1 };
            }
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            KeyCode::PageDown => self.selected = (self.selected + PAGE).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Backspace => {
                self.query.pop();
                self.search();
            }
            KeyCode::Char('u') if control => {
                self.query.clear();
                self.search();
            }
            KeyCode::Char('w') if control => {
                let kept = self.query.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
                self.query.truncate(kept);
                self.search();
            }
            KeyCode::Char(c) if !control && !key.modifiers.contains(KeyModifiers::ALT) => {
                self.paste(&c.to_string());
            }
            _ => {}
        }
        Picked::Nothing
    }

    /// Adds text to the query.
    pub(crate) fn paste(&mut self, text: &str) {
        self.query.push_str(&leftfold_view::clean::clean(text).replace('\n', " "));
        self.search();
    }

    /// The list in at most `height` lines, none wider than `width`.
    pub(crate) fn lines(&self, width: u16, height: u16, theme: &Theme) -> Vec<Line<'static>> {
        let (width, height) = (usize::from(width).max(1), usize::from(height).max(1));
        let mut lines = vec![self.head(width, theme)];
        let keys = if self.removes {
            "Enter choose · Delete remove · Esc close"
        } else {
            "Enter choose · Esc close"
        };
        let foot = Line::from(clip(&[span(keys, theme.dim)], width));
        let preview = self.preview(width, theme);
        let has_foot = height >= 3;
        let has_heads = height >= 5 && !self.heads.is_empty() && !self.found.is_empty();
        let room = height - 1 - usize::from(has_foot) - usize::from(has_heads);
        // A third of the room at most is taken from the list.
        let spare = room.saturating_sub(self.found.len().max(1));
        let preview_shown = preview.len().min(spare.max(room / 3));
        let rows_shown = room - preview_shown;
        lines.extend(self.rows_at(rows_shown, has_heads, width, theme));
        lines.extend(preview.into_iter().take(preview_shown));
        if has_foot {
            lines.push(foot);
        }
        lines
    }

    /// All rows, for a screen on which nothing can be chosen. `name` says how a row is chosen there.
    pub(crate) fn all_lines(
        &self,
        width: u16,
        theme: &Theme,
        name: impl Fn(&T) -> String,
    ) -> Vec<Line<'static>> {
        let width = usize::from(width).max(1);
        let indent = Indent::hanging(vec![span("  ", theme.dim)]);
        let mut lines = vec![Line::from(clip(&[span(&self.title, theme.heading)], width))];
        for row in &self.rows {
            let cells: Vec<&str> =
                row.cells.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            let text = format!("{}: {}", clean_line(&name(&row.value)), cells.join(" · "));
            lines.extend(wrap(&[span(&text, theme.text)], width, &indent, Break::Words));
        }
        lines
    }

    fn head(&self, width: usize, theme: &Theme) -> Line<'static> {
        let count = format!("  {} of {}", self.found.len(), self.rows.len());
        let head = [
            span(&format!("{} ", self.title), theme.heading),
            span("› ", theme.accent),
            span(&self.query, theme.text),
            span("_", theme.dim),
            span(&count, theme.dim),
        ];
        Line::from(clip(&head, width))
    }

    /// The rows around the selected one, and the headings above them.
    fn rows_at(
        &self,
        count: usize,
        has_heads: bool,
        width: usize,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        if self.found.is_empty() {
            let text = if self.rows.is_empty() { "  nothing to choose from" } else { "  no match" };
            let line = Line::from(clip(&[span(text, theme.dim)], width));
            return vec![line; count.min(1)];
        }
        let first = self.selected.saturating_sub(count / 2);
        let first = first.min(self.found.len().saturating_sub(count));
        let shown: Vec<usize> = self.found.iter().copied().skip(first).take(count).collect();
        let width_of_rows = width.saturating_sub(2);
        let headed = self.columns(&shown, has_heads, width_of_rows);
        // no column is left out for a heading
        let has_heads = has_heads && headed.len() == self.heads.len();
        let columns = match has_heads {
            true => headed,
            false => self.columns(&shown, false, width_of_rows),
        };
        let mut query = Query::new(&self.query);
        let line = |(place, index): (usize, usize)| {
            let is_selected = first + place == self.selected;
            let (mark, style) = if is_selected { ("> ", theme.accent) } else { ("  ", theme.text) };
            let mut spans = vec![span(mark, style)];
            for (at, (cell, columns)) in self.rows[index].cells.iter().zip(&columns).enumerate() {
                let style = if at == 0 { theme.text } else { theme.dim };
                let text = clip(&query.marked(cell, style, theme.matched), *columns);
                let blank = columns.saturating_sub(width_of(&text));
                spans.extend(text);
                spans.push(Span::raw(" ".repeat(blank + GAP)));
            }
            spans.pop();
            let mut spans = clip(&spans, width);
            if is_selected {
                for span in &mut spans {
                    span.style = span.style.patch(theme.selection);
                }
            }
            Line::from(spans)
        };
        let mut heads = vec![span("  ", theme.dim)];
        for (head, columns) in self.heads.iter().zip(&columns) {
            let text = clip(&[span(head, theme.dim)], *columns);
            let blank = columns.saturating_sub(width_of(&text));
            heads.extend(text);
            heads.push(Span::raw(" ".repeat(blank + GAP)));
        }
        let heads = has_heads.then(|| Line::from(clip(&heads, width)));
        heads.into_iter().chain(shown.iter().copied().enumerate().map(line)).collect()
    }

    /// The columns of the screen for each cell: what the shown rows need, less for the name if there is
    /// no room, and nothing for the last cells that do not fit at all.
    fn columns(&self, shown: &[usize], has_heads: bool, width: usize) -> Vec<usize> {
        let cells = shown.iter().map(|index| self.rows[*index].cells.len()).max().unwrap_or(0);
        let widest = |cell: usize| {
            let widths = shown.iter().filter_map(|index| self.rows[*index].cells.get(cell));
            let widths = widths.chain(self.heads.get(cell).filter(|_| has_heads));
            widths.map(|text| crate::render::wrap::width(text)).max().unwrap_or(0)
        };
        let mut columns: Vec<usize> = (0..cells).map(widest).collect();
        while columns.len() > 1 {
            let others: usize = columns[1..].iter().map(|columns| columns + GAP).sum();
            let first = NARROWEST.min(columns[0]);
            if others + first <= width {
                columns[0] = columns[0].min(width - others);
                return columns;
            }
            // a long text in the last column is cut
            let last = columns.pop().unwrap_or_default();
            let room = width.saturating_sub(others - last + first);
            if last > LONG && room >= LONG {
                columns[0] = first;
                columns.push(room);
                return columns;
            }
        }
        columns.iter_mut().for_each(|columns| *columns = (*columns).min(width));
        columns
    }

    fn preview(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let preview = self.selected().map(|row| row.preview.as_slice()).unwrap_or_default();
        let indent = Indent::hanging(vec![span("  ", theme.dim)]);
        let lines = |text: &String| wrap(&[span(text, theme.dim)], width, &indent, Break::Words);
        preview.iter().flat_map(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::tests::{marked, theme};

    fn picker() -> Picker<usize> {
        let row = |value, cells: &[&str], preview: &[&str]| Row {
            value,
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            preview: preview.iter().map(|line| (*line).to_owned()).collect(),
        };
        let rows = vec![
            row(0, &["anthropic/claude", "200k", "$3 / $15"], &["Reasoning, images"]),
            row(1, &["openai/gpt", "400k", "$1 / $10"], &[]),
            row(2, &["local/a\u{1b}[31mlpha", "", ""], &["On this machine"]),
        ];
        Picker::new("Model", rows, 1)
    }

    fn press(picker: &mut Picker<usize>, codes: &[KeyCode]) -> Picked<usize> {
        let mut last = Picked::Nothing;
        for code in codes {
            last = picker.key(KeyEvent::from(*code));
        }
        last
    }

    #[test]
    fn keys_move_search_and_choose() {
        use KeyCode::{Backspace, Char, Down, End, Enter, Esc, Home, PageDown, Up};
        for (codes, expected) in [
            (&[Enter][..], Picked::Chosen(1)),
            (&[Up, Enter], Picked::Chosen(0)),
            (&[Down, Down, Enter], Picked::Chosen(0)),
            (&[Home, Up, Enter], Picked::Chosen(2)),
            (&[End, Enter], Picked::Chosen(2)),
            (&[PageDown, Enter], Picked::Chosen(2)),
            (&[Char('c'), Char('l'), Char('a'), Enter], Picked::Chosen(0)),
            (&[Char('z'), Enter], Picked::Nothing),
            (&[Char('z'), Backspace, Enter], Picked::Chosen(0)),
            (&[Esc], Picked::Closed),
            (&[KeyCode::Delete], Picked::Nothing),
        ] {
            assert_eq!(press(&mut picker(), codes), expected, "{codes:?}");
        }
        let mut removing = picker().removing();
        assert_eq!(press(&mut removing, &[KeyCode::Delete]), Picked::Removed(1));
        removing.set_rows(Vec::new());
        assert_eq!(press(&mut removing, &[KeyCode::Delete, Up, Down, Enter]), Picked::Nothing);
    }

    #[test]
    fn rows_have_columns_and_the_selected_one_a_preview() {
        let mut picker = picker();
        picker.paste("cl");
        assert_eq!(
            marked(&picker.lines(60, 10, &theme())),
            [
                "{heading:Model }{accent:› }cl{dim:_}{dim:  1 of 3}",
                "{selection:> }{selection:anthropic/}{selection:cl}{selection:aude}{selection:  }\
                 {selection:200k}{selection:  }{selection:$3 / $15}",
                "{dim:  Reasoning, images}",
                "{dim:Enter choose · Esc close}",
            ]
        );
        let mut headed = self::picker().headed(["", "context", "in / out"]);
        headed.paste("cl");
        assert_eq!(
            marked(&headed.lines(60, 10, &theme()))[1..3],
            [
                "{dim:  }{dim:}                  {dim:context}  {dim:in / out}",
                "{selection:> }{selection:anthropic/}{selection:cl}{selection:aude}{selection:  }\
                 {selection:200k}{selection:     }{selection:$3 / $15}",
            ]
        );
        picker.paste("zzz");
        assert_eq!(marked(&picker.lines(60, 10, &theme()))[1], "{dim:  no match}");
    }

    #[test]
    fn words_come_before_letters() {
        for (query, expected) in
            [("cl", &[0][..]), ("$1 gpt", &[1]), ("AL", &[2]), ("aa", &[0, 2]), ("zz", &[])]
        {
            let mut picker = picker();
            picker.paste(query);
            picker.found.sort_unstable();
            assert_eq!(picker.found, expected, "{query}");
        }
    }

    #[test]
    fn a_list_fits_every_screen() {
        for width in 1..70 {
            for height in 1..12 {
                let headed = picker().headed(["", "context", "price"]);
                for lines in [&picker(), &headed].map(|it| it.lines(width, height, &theme())) {
                    assert!(lines.len() <= usize::from(height), "{width}x{height}");
                    crate::render::tests::assert_fits(&lines, width);
                }
            }
        }
        let narrow = marked(&picker().lines(14, 5, &theme()));
        assert_eq!(narrow[1], "  anthropic/c…");
    }
}
