//! Texts as lines that fit the terminal's width.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// A line of its own in one style, on as many rows as needed. The indent of the first row is that of all.
pub(super) fn note(style: Style, text: &str, width: usize) -> Vec<Line<'static>> {
    let bare = text.trim_start();
    wrap((style, &text[..text.len() - bare.len()]), &[(style, bare)], width)
}

/// Pieces after `begin`, wrapped between words. The rows after the first are indented by the width of `begin`.
pub(super) fn wrap(
    begin: (Style, &str),
    pieces: &[(Style, &str)],
    width: usize,
) -> Vec<Line<'static>> {
    let width = width.max(2);
    let indent = begin.1.width().min(width / 2);
    let mut rows = Rows { width, indent, column: 0, row: Vec::new(), lines: Vec::new() };
    rows.add(begin.0, begin.1);
    rows.column = begin.1.width();
    // the pieces of a word, and whether a blank is before it
    let mut word: Vec<(Style, &str)> = Vec::new();
    let mut blank = false;
    for (style, text) in pieces {
        for (i, part) in text.split(' ').enumerate() {
            if i > 0 {
                rows.word(&std::mem::take(&mut word), std::mem::replace(&mut blank, true));
            }
            // wide characters are words of their own, because their scripts have no blanks
            for piece in part.split_inclusive(is_wide) {
                let narrow = piece.trim_end_matches(is_wide);
                let wide = &piece[narrow.len()..];
                if !narrow.is_empty() {
                    word.push((*style, narrow));
                }
                if !wide.is_empty() {
                    if !word.is_empty() {
                        rows.word(&std::mem::take(&mut word), std::mem::take(&mut blank));
                    }
                    rows.word(&[(*style, wide)], std::mem::take(&mut blank));
                }
            }
        }
    }
    rows.word(&word, blank);
    rows.end();
    rows.lines
}

struct Rows {
    width: usize,
    indent: usize,
    column: usize,
    row: Vec<Span<'static>>,
    lines: Vec<Line<'static>>,
}

impl Rows {
    fn word(&mut self, word: &[(Style, &str)], blank: bool) {
        if word.is_empty() {
            return;
        }
        let width: usize = word.iter().map(|(_, text)| text.width()).sum();
        let blank = usize::from(blank && self.column > self.indent);
        if self.column + blank + width > self.width && self.column > self.indent {
            self.next_row();
        } else if blank > 0 {
            self.add(word[0].0, " ");
            self.column += 1;
        }
        for (style, text) in word {
            let mut rest = *text;
            // a word that is wider than a row is broken
            while self.column + rest.width() > self.width {
                let (head, tail) =
                    rest.split_at(fitting(rest, self.width - self.column.min(self.width)));
                self.add(*style, head);
                self.next_row();
                rest = tail;
            }
            self.add(*style, rest);
            self.column += rest.width();
        }
    }

    fn add(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.row.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.row.push(Span::styled(text.to_owned(), style)),
        }
    }

    fn end(&mut self) {
        self.lines.push(Line::from(std::mem::take(&mut self.row)));
    }

    fn next_row(&mut self) {
        self.end();
        self.add(Style::default(), &" ".repeat(self.indent));
        self.column = self.indent;
    }
}

/// The mark of a row that continues the row above. It is left of the text, where no text can be.
const CONTINUED: &str = "↪ ";

/// One line of a text to decide on, after `begin`, on as many rows as needed. No character is left out or added. A row
/// ends before blanks, so that they are seen at the start of the next one.
pub(super) fn exact(
    begin: (Style, &str),
    line: (Style, &str),
    dim: Style,
    width: usize,
) -> Vec<Line<'static>> {
    let indent = begin.1.width().max(CONTINUED.width());
    let room = width.saturating_sub(indent).max(10);
    let mut lines = Vec::new();
    let mut row = vec![Span::styled(begin.1.to_owned(), begin.0)];
    let mut rest = line.1;
    while rest.width() > room {
        let most = fitting(rest, room);
        let (head, tail) = rest.split_at(most);
        let at_blanks = match head.rfind(' ') {
            _ if tail.starts_with(' ') => head.trim_end_matches(' ').len(),
            Some(blank) => head[..blank].trim_end_matches(' ').len(),
            None => 0,
        };
        let (shown, next) = rest.split_at(if at_blanks > 0 { at_blanks } else { most });
        row.push(Span::styled(shown.to_owned(), line.0));
        lines.push(Line::from(std::mem::take(&mut row)));
        let mark = format!("{}{CONTINUED}", " ".repeat(indent - CONTINUED.width()));
        row.push(Span::styled(mark, dim));
        rest = next;
    }
    row.push(Span::styled(rest.to_owned(), line.0));
    lines.push(Line::from(row));
    lines
}

fn is_wide(c: char) -> bool {
    c.width() == Some(2)
}

/// The bytes at the beginning of `text` that fit into `columns`; at least one character.
pub(super) fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// The text of a line without its styles.
#[cfg(test)]
pub(super) fn plain(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| span.content.as_ref()).collect()
}

#[cfg(test)]
mod tests {
    use leftfold_view::clean::clip;

    use super::*;

    const PLAIN: Style = Style::new();

    fn joined(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| plain(line) + "\n").collect()
    }

    fn wrapped(text: &str, width: usize, prefix: &str) -> String {
        joined(&wrap((PLAIN, prefix), &[(PLAIN, text)], width))
    }

    #[test]
    fn words_stay_whole_and_lines_fit() {
        let text = "the quick brown fox jumps over the lazy dog";
        assert_eq!(wrapped(text, 16, ""), "the quick brown\nfox jumps over\nthe lazy dog\n");
        assert_eq!(wrapped("one two three four", 12, "- "), "- one two\n  three four\n");
        assert_eq!(joined(&note(PLAIN, "  one two three", 11)), "  one two\n  three\n");
        assert_eq!(wrapped("", 12, "- "), "- \n");
    }

    #[test]
    fn wide_characters_count_twice() {
        assert_eq!(wrapped("漢字漢字 漢字漢字", 10, ""), "漢字漢字\n漢字漢字\n");
        assert_eq!(wrapped("漢字漢字漢字漢字", 11, ""), "漢字漢字漢\n字漢字\n");
        assert_eq!(clip("漢字漢字", 6), "漢字…");
        assert_eq!(clip("漢字漢字", 8), "漢字漢字");
    }

    #[test]
    fn a_word_wider_than_the_line_is_broken() {
        assert_eq!(wrapped("abcdefghijklmno", 10, ""), "abcdefghij\nklmno\n");
        assert_eq!(wrapped("漢字", 1, ""), "漢\n字\n");
    }

    #[test]
    fn text_to_decide_on_keeps_every_blank() {
        let shown = |text: &str, width| joined(&exact((PLAIN, "? "), (PLAIN, text), PLAIN, width));
        for (text, expected) in [
            ("'My  Docs'", "? 'My  Docs'\n"),
            ("rm -rf My  Docs now", "? rm -rf My\n↪   Docs now\n"),
            ("rm 'My Docs' now", "? rm 'My Docs'\n↪  now\n"),
            ("rm -rf abcde fghij", "? rm -rf abcde\n↪  fghij\n"),
            ("rm -rf abcdefgh ij", "? rm -rf\n↪  abcdefgh ij\n"),
            ("abcdefghijklmnop", "? abcdefghijklm\n↪ nop\n"),
            ("a               b", "? a\n↪              \n↪   b\n"),
        ] {
            assert_eq!(shown(text, 15), expected, "{text:?}");
        }
        let mut seen = std::collections::BTreeSet::new();
        for blanks in 0..60 {
            for before in 0..20 {
                let text = format!("{}{}z", "a".repeat(before), " ".repeat(blanks));
                assert!(seen.insert(shown(&text, 15)), "{text:?}");
            }
        }
    }
}
