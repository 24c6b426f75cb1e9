//! Wraps words at the terminal's width. Only complete words are printed, so printed text never
//! moves.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::style::{Face, Look, Style};

#[derive(Clone, Debug)]
pub(super) struct Wrap {
    pub(super) style: Style,
    /// Columns that may be filled.
    width: usize,
    /// Indent of lines after the first, in columns.
    indent: usize,
    /// Columns filled in the current line.
    column: usize,
    /// Whether a space precedes the current word.
    space: bool,
    /// The current word, which may still grow.
    word: Vec<(Face, String)>,
}

impl Wrap {
    pub(super) fn new(style: Style, width: usize) -> Self {
        let width = width.max(10);
        Self { style, width, indent: 0, column: 0, space: false, word: Vec::new() }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Prints the prefix of a line; lines that it wraps to are indented to match.
    pub(super) fn begin(&mut self, face: Face, prefix: &str, out: &mut String) {
        self.style.write(out, face, prefix);
        self.column += prefix.width();
        self.indent = self.column.min(self.width / 2);
        self.space = false;
    }

    pub(super) fn push(&mut self, face: Face, text: &str, out: &mut String) {
        for (i, piece) in text.split(' ').enumerate() {
            if i > 0 {
                self.flush_word(out);
                self.space = true;
            }
            if piece.is_empty() {
                continue;
            }
            self.piece(face, piece, out);
            if self.word.iter().map(|(_, text)| text.width()).sum::<usize>() > self.width {
                // The word is too wide for a line and will be broken anyway.
                self.flush_word(out);
            }
        }
    }

    /// Adds to the current word. Wide characters are words of their own, because their scripts have
    /// no spaces.
    fn piece(&mut self, face: Face, piece: &str, out: &mut String) {
        for part in piece.split_inclusive(is_wide) {
            let narrow = part.trim_end_matches(is_wide);
            for text in [narrow, &part[narrow.len()..]].into_iter().filter(|t| !t.is_empty()) {
                if text.starts_with(is_wide) {
                    self.flush_word(out);
                }
                match self.word.last_mut() {
                    Some((last, word)) if *last == face => word.push_str(text),
                    _ => self.word.push((face, text.to_owned())),
                }
                if text.starts_with(is_wide) {
                    self.flush_word(out);
                }
            }
        }
    }

    /// Prints the current word.
    pub(super) fn flush_word(&mut self, out: &mut String) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let width: usize = word.iter().map(|(_, text)| text.width()).sum();
        let space = usize::from(std::mem::take(&mut self.space) && self.column > self.indent);
        if self.column + space + width > self.width && self.column > self.indent {
            self.new_line(out);
        } else if space > 0 {
            out.push(' ');
            self.column += 1;
        }
        for (face, text) in word {
            self.write(face, &text, out);
        }
    }

    /// Ends the current line.
    pub(super) fn end_line(&mut self, out: &mut String) {
        self.flush_word(out);
        out.push('\n');
        (self.column, self.indent, self.space) = (0, 0, false);
    }

    fn new_line(&mut self, out: &mut String) {
        out.push('\n');
        out.push_str(&" ".repeat(self.indent));
        self.column = self.indent;
    }

    /// Prints a word; one that is wider than a line is broken.
    fn write(&mut self, face: Face, text: &str, out: &mut String) {
        let mut rest = text;
        while self.column + rest.width() > self.width {
            let (head, tail) = rest.split_at(fitting(rest, self.width - self.column));
            self.style.write(out, face, head);
            self.new_line(out);
            rest = tail;
        }
        self.style.write(out, face, rest);
        self.column += rest.width();
    }
}

/// The mark of a row that continues the row above. It is left of the text, where no text can be.
const CONTINUED: &str = "↪ ";

/// One line of a text to decide on, after `begin`, on as many rows as needed. No character is left
/// out or added. A row ends before blanks, so that they are seen at the start of the next one.
pub(super) fn exact(look: Look, begin: (Face, &str), line: (Face, &str)) -> String {
    let Look { style, columns } = look;
    let indent = begin.1.width().max(CONTINUED.width());
    let room = columns.saturating_sub(1 + indent).max(10);
    let mut out = String::new();
    style.write(&mut out, begin.0, begin.1);
    let mut rest = line.1;
    while rest.width() > room {
        let most = fitting(rest, room);
        let (head, tail) = rest.split_at(most);
        let at_blanks = match head.rfind(' ') {
            _ if tail.starts_with(' ') => head.trim_end_matches(' ').len(),
            Some(blank) => head[..blank].trim_end_matches(' ').len(),
            None => 0,
        };
        let (row, next) = rest.split_at(if at_blanks > 0 { at_blanks } else { most });
        style.write(&mut out, line.0, row);
        out.push('\n');
        let mark = format!("{}{CONTINUED}", " ".repeat(indent - CONTINUED.width()));
        style.write(&mut out, Face::DIM, &mark);
        rest = next;
    }
    style.write(&mut out, line.0, rest);
    out.push('\n');
    out
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

#[cfg(test)]
mod tests {
    use leftfold_view::clean::clip;

    use super::*;

    fn wrapped(text: &str, width: usize, prefix: &str) -> String {
        let mut wrap = Wrap::new(Style::default(), width);
        let mut out = String::new();
        wrap.begin(Face::PLAIN, prefix, &mut out);
        wrap.push(Face::PLAIN, text, &mut out);
        wrap.end_line(&mut out);
        out
    }

    #[test]
    fn words_stay_whole_and_lines_fit() {
        let text = "the quick brown fox jumps over the lazy dog";
        assert_eq!(wrapped(text, 16, ""), "the quick brown\nfox jumps over\nthe lazy dog\n");
        assert_eq!(wrapped("one two three four", 12, "- "), "- one two\n  three four\n");
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
    }

    #[test]
    fn text_to_decide_on_keeps_every_blank() {
        let shown = |text: &str, columns| {
            let look = Look { style: Style::default(), columns };
            exact(look, (Face::PLAIN, "? "), (Face::PLAIN, text))
        };
        for (text, expected) in [
            ("'My  Docs'", "? 'My  Docs'\n"),
            ("rm -rf My  Docs now", "? rm -rf My\n↪   Docs now\n"),
            ("rm 'My Docs' now", "? rm 'My Docs'\n↪  now\n"),
            ("rm -rf abcde fghij", "? rm -rf abcde\n↪  fghij\n"),
            ("rm -rf abcdefgh ij", "? rm -rf\n↪  abcdefgh ij\n"),
            ("abcdefghijklmnop", "? abcdefghijklm\n↪ nop\n"),
            ("a               b", "? a\n↪              \n↪   b\n"),
        ] {
            assert_eq!(shown(text, 16), expected, "{text:?}");
        }
        let mut seen = std::collections::BTreeSet::new();
        for blanks in 0..60 {
            for before in 0..20 {
                let text = format!("{}{}z", "a".repeat(before), " ".repeat(blanks));
                assert!(seen.insert(shown(&text, 16)), "{text:?}");
            }
        }
    }

    #[test]
    fn pieces_make_the_same_lines_as_the_whole() {
        let text = "some words that come in pieces of one character each";
        let mut wrap = Wrap::new(Style::default(), 20);
        let mut out = String::new();
        for c in text.chars() {
            wrap.push(Face::PLAIN, &c.to_string(), &mut out);
        }
        wrap.end_line(&mut out);
        assert_eq!(out, wrapped(text, 20, ""));
    }
}
