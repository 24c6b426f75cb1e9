//! Lays styled text out in lines. Widths are those of grapheme clusters, because that is what a
//! cell of the screen holds.

use leftfold_view::clean;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The widest text in columns, so that prose, tables, code and output have one right edge; wider text is hard to read.
pub(crate) const MEASURE: usize = 120;
/// The spaces that replace a tab.
const TAB: &str = "    ";
/// Bytes of one cluster. Longer ones are piles of combining marks, which no terminal shows.
const LONGEST_CLUSTER: usize = 64;
/// Replaces a cluster that is wider than a line.
const TOO_WIDE: &str = "?";

/// The prefix of the first line, and of the lines after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Indent {
    pub(crate) first: Vec<Span<'static>>,
    pub(crate) rest: Vec<Span<'static>>,
    /// The prefix of a line that begins within a word; empty: as `rest`.
    pub(crate) cut: Vec<Span<'static>>,
}

impl Indent {
    /// `first`, and blanks of its width.
    pub(crate) fn hanging(first: Vec<Span<'static>>) -> Self {
        let blanks = " ".repeat(width_of(&first));
        Self { first, rest: vec![Span::raw(blanks)], cut: Vec::new() }
    }
}

/// Text without controls, invisible characters and tabs. Decoded entities can contain any of them,
/// even where the source was clean.
pub(crate) fn guarded(text: &str) -> String {
    clean::guarded(text).replace('\t', TAB)
}

pub(crate) fn span(text: &str, style: Style) -> Span<'static> {
    Span::styled(guarded(text), style)
}

/// The columns of a text on one line.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.graphemes(true).map(UnicodeWidthStr::width).sum()
    }
}

pub(crate) fn width_of(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| width(&span.content)).sum()
}

/// How lines are broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// Between words; blanks at a break are dropped.
    Words,
    /// As `Words`. A line of code that goes on is indented further, and says so where a word was too long.
    Code,
    /// Anywhere; every blank stays.
    Anywhere,
}

/// The lines of `text`, none wider than `width`, at least one. Line ends in the text begin a line.
pub(crate) fn wrap(
    text: &[Span<'_>],
    width: usize,
    indent: &Indent,
    breaks: Break,
) -> Vec<Line<'static>> {
    let mut layout = Layout::new(width, indent, breaks);
    for span in text {
        if is_plain(&span.content) {
            layout.push_plain(&span.content, span.style);
            continue;
        }
        for cluster in span.content.graphemes(true) {
            layout.push(cluster, span.style);
        }
    }
    layout.finish()
}

/// Whether each byte is a cluster of one column.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// At most `columns` of the text in one line, with a mark if something was left out.
pub(crate) fn clip(text: &[Span<'static>], columns: usize) -> Vec<Span<'static>> {
    if width_of(text) <= columns {
        return text.to_vec();
    }
    let mut clipped = Clusters::default();
    let room = columns.saturating_sub(1);
    'spans: for span in text {
        for cluster in span.content.graphemes(true) {
            if clipped.width + cluster.width() > room {
                break 'spans;
            }
            clipped.push(cluster, span.style);
        }
    }
    if columns > 0 {
        let style = clipped.spans.last().map_or(Style::new(), |span| span.style);
        clipped.push("…", style);
    }
    clipped.spans
}

/// One text in one style. Its blanks at the beginning are the indent of all its lines.
pub(crate) fn note(text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    let bare = text.trim_start();
    let indent = span(&text[..text.len() - bare.len()], style);
    let indent = Indent { first: vec![indent.clone()], rest: vec![indent], cut: Vec::new() };
    wrap(&[span(bare, style)], width, &indent, Break::Words)
}

/// The mark of a line that continues the line above. It is left of the text, where no text can be.
pub(crate) const CONTINUED: &str = "↪ ";
/// The least columns of a text to decide on, however narrow the screen is.
const LEAST_EXACT: usize = 10;

/// One line of a text to decide on, after `begin`. No character is left out or added. A line ends
/// before blanks, so that they are seen at the start of the next one.
pub(crate) fn exact(
    begin: Span<'static>,
    text: &str,
    style: Style,
    mark: Style,
    columns: usize,
) -> Vec<Line<'static>> {
    let indent = width(&begin.content).max(width(CONTINUED));
    let room = columns.saturating_sub(indent).max(LEAST_EXACT);
    let mut lines = Vec::new();
    let mut line = vec![begin];
    let mut rest = text;
    while width(rest) > room {
        let most = fitting(rest, room);
        let (head, tail) = rest.split_at(most);
        let at_blanks = match head.rfind(' ') {
            _ if tail.starts_with(' ') => head.trim_end_matches(' ').len(),
            Some(blank) => head[..blank].trim_end_matches(' ').len(),
            None => 0,
        };
        let (shown, next) = rest.split_at(if at_blanks > 0 { at_blanks } else { most });
        line.push(Span::styled(shown.to_owned(), style));
        lines.push(Line::from(std::mem::take(&mut line)));
        let continued = format!("{}{CONTINUED}", " ".repeat(indent - width(CONTINUED)));
        line.push(Span::styled(continued, mark));
        rest = next;
    }
    line.push(Span::styled(rest.to_owned(), style));
    lines.push(Line::from(line));
    lines
}

/// The bytes at the beginning of `text` that fit into `columns`; at least one cluster.
fn fitting(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, cluster) in text.grapheme_indices(true) {
        used += cluster.width();
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// Pieces of text with their width.
#[derive(Debug, Default)]
struct Clusters {
    spans: Vec<Span<'static>>,
    width: usize,
}

impl Clusters {
    fn push(&mut self, cluster: &str, style: Style) {
        self.width += width(cluster);
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(cluster),
            _ => self.spans.push(Span::styled(cluster.to_owned(), style)),
        }
    }

    fn append(&mut self, other: Self) {
        for span in other.spans {
            self.width += width(&span.content);
            match self.spans.last_mut() {
                Some(last) if last.style == span.style => {
                    last.content.to_mut().push_str(&span.content);
                }
                _ => self.spans.push(span),
            }
        }
    }
}

#[derive(Debug)]
struct Layout {
    width: usize,
    breaks: Break,
    /// The start of the next line.
    rest: Vec<Span<'static>>,
    /// The start of the next line if it begins within a word.
    cut: Vec<Span<'static>>,
    /// The last word goes on: it was too long for a line.
    goes_on: bool,
    lines: Vec<Line<'static>>,
    line: Clusters,
    /// The columns of the line's indent.
    indent: usize,
    /// The columns that every line has for text.
    room: usize,
    /// The blanks before the current word.
    blanks: Clusters,
    word: Clusters,
}

impl Layout {
    fn new(width: usize, indent: &Indent, breaks: Break) -> Self {
        let width = width.max(1);
        // An indent leaves at least half of a line to the text.
        let fitted = |indent: &[Span<'static>]| {
            let mut fitted = Clusters::default();
            for span in indent {
                for cluster in span.content.graphemes(true) {
                    if fitted.width + cluster.width() <= width / 2 {
                        fitted.push(cluster, span.style);
                    }
                }
            }
            fitted
        };
        let line = fitted(&indent.first);
        let rest = fitted(&indent.rest).spans;
        let cut = fitted(&indent.cut).spans;
        let cut = if cut.is_empty() { rest.clone() } else { cut };
        let indent = line.width;
        let room = width - indent.max(width_of(&rest)).max(width_of(&cut));
        let (blanks, word) = (Clusters::default(), Clusters::default());
        let lines = Vec::new();
        Self { width, breaks, rest, cut, goes_on: false, lines, line, indent, room, blanks, word }
    }

    fn push(&mut self, cluster: &str, style: Style) {
        if matches!(cluster, "\n" | "\r\n") {
            self.end_word();
            self.new_line(false);
            return;
        }
        // `guarded` leaves no other controls; a span that did not pass it shows none either.
        if cluster.chars().any(char::is_control) {
            return;
        }
        let columns = cluster.width();
        let (cluster, columns) = match columns {
            columns if columns > self.room => (TOO_WIDE, 1),
            columns => (shortened(cluster), columns),
        };
        if self.breaks == Break::Anywhere {
            if self.line.width + columns > self.width {
                self.new_line(false);
            }
            self.line.push(cluster, style);
            return;
        }
        if cluster == " " {
            self.end_word();
            self.blanks.push(cluster, style);
            return;
        }
        // Scripts of wide characters have no blanks between words.
        if columns > 1 {
            self.end_word();
            self.word.push(cluster, style);
            self.end_word();
            return;
        }
        if self.word.width + columns > self.room {
            self.end_word();
            self.goes_on = true;
        }
        self.word.push(cluster, style);
    }

    /// Adds text whose bytes are clusters of one column, a word at a time. It is the same as to [`push`](Self::push)
    /// each byte, and takes far less time: text that streams is laid out again and again.
    fn push_plain(&mut self, text: &str, style: Style) {
        let mut rest = text;
        while !rest.is_empty() {
            let room = match self.breaks {
                Break::Words | Break::Code => self.room.saturating_sub(self.word.width),
                Break::Anywhere => self.width.saturating_sub(self.line.width),
            };
            let end = match self.breaks {
                Break::Words | Break::Code => rest.find(' ').unwrap_or(rest.len()),
                Break::Anywhere => rest.len(),
            };
            let fits = end.min(room);
            let (piece, after) = rest.split_at(fits.max(1));
            match (fits, self.breaks) {
                (0, _) => self.push(piece, style),
                (_, Break::Words | Break::Code) => self.word.push(piece, style),
                (_, Break::Anywhere) => self.line.push(piece, style),
            }
            rest = after;
        }
    }

    /// Moves the word to the line, or to the next one.
    fn end_word(&mut self) {
        if self.word.spans.is_empty() {
            return;
        }
        let blanks = std::mem::take(&mut self.blanks);
        let word = std::mem::take(&mut self.word);
        let goes_on = std::mem::take(&mut self.goes_on) && blanks.spans.is_empty();
        if self.line.width + blanks.width + word.width <= self.width {
            self.line.append(blanks);
        } else if self.line.width > self.indent {
            self.new_line(goes_on);
        } else if self.breaks == Break::Code && self.line.width + blanks.width < self.width / 2 {
            // the indent of a line of code stays
            self.line.append(blanks);
            for span in &word.spans {
                for cluster in span.content.graphemes(true) {
                    if self.line.width + cluster.width() > self.width {
                        self.new_line(true);
                    }
                    self.line.push(cluster, span.style);
                }
            }
            return;
        }
        self.line.append(word);
    }

    fn new_line(&mut self, is_cut: bool) {
        self.blanks = Clusters::default();
        let mut next = Clusters::default();
        let spans = if is_cut { &self.cut } else { &self.rest };
        next.append(Clusters { spans: spans.clone(), width: 0 });
        self.indent = next.width;
        let line = std::mem::replace(&mut self.line, next);
        self.lines.push(Line::from(line.spans));
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.end_word();
        self.lines.push(Line::from(self.line.spans));
        self.lines
    }
}

/// A cluster without the marks that are too many.
fn shortened(cluster: &str) -> &str {
    if cluster.len() <= LONGEST_CLUSTER {
        return cluster;
    }
    let end = (0..=LONGEST_CLUSTER).rev().find(|at| cluster.is_char_boundary(*at));
    &cluster[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_text_is_laid_out_as_its_clusters_are(
            texts in proptest::collection::vec("[ab ]{0,30}", 1..5),
            (width, prefix) in (1..20_usize, 0..6_usize),
            words: bool,
        ) {
            let styles = [Style::new(), Style::new().bold()];
            let spans = texts.iter().zip(styles.iter().cycle());
            let spans: Vec<Span<'_>> =
                spans.map(|(text, style)| Span::styled(text.as_str(), *style)).collect();
            let indent = Indent::hanging(vec![Span::raw("-".repeat(prefix))]);
            let breaks = if words { Break::Words } else { Break::Anywhere };
            let mut layout = Layout::new(width, &indent, breaks);
            for span in &spans {
                span.content.graphemes(true).for_each(|cluster| layout.push(cluster, span.style));
            }
            prop_assert_eq!(wrap(&spans, width, &indent, breaks), layout.finish());
        }
    }

    fn wrapped(text: &str, width: usize, prefix: &str, breaks: Break) -> Vec<String> {
        let indent = Indent::hanging(vec![Span::raw(prefix.to_owned())]);
        let lines = wrap(&[span(text, Style::new())], width, &indent, breaks);
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_are_broken_between_words_and_inside_long_ones() {
        for (text, width, prefix, expected) in [
            ("the quick brown fox", 10, "", &["the quick", "brown fox"][..]),
            ("one two three four", 11, "- ", &["- one two", "  three", "  four"]),
            ("abcdefghijklmno p", 6, "", &["abcdef", "ghijkl", "mno p"]),
            ("漢字漢字 漢字", 5, "", &["漢字", "漢字", "漢字"]),
            ("a\nb", 5, "> ", &["> a", "  b"]),
            ("a    b", 9, "", &["a    b"]),
            ("a    b", 5, "", &["a", "b"]),
            ("", 5, "- ", &["- "]),
            ("漢字 x", 1, "- ", &["?", "?", "x"]),
            ("👩‍👩‍👧 e\u{301}x", 4, "", &["👩‍👩‍👧", "e\u{301}x"]),
            ("a\tb", 9, "", &["a    b"]),
        ] {
            assert_eq!(wrapped(text, width, prefix, Break::Words), expected, "{text:?}");
        }
        for (text, width, expected) in [
            ("ab cd  ef", 4, &["ab c", "d  e", "f"][..]),
            ("    x", 4, &["    ", "x"]),
            ("漢字漢", 5, &["漢字", "漢"]),
            ("", 4, &[""]),
        ] {
            assert_eq!(wrapped(text, width, "", Break::Anywhere), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_begins_within_a_word_says_so() {
        let indent = Indent {
            first: vec![Span::raw("  ")],
            rest: vec![Span::raw("    ")],
            cut: vec![Span::raw("  ↪ ")],
        };
        for (text, expected) in [
            ("let x = abcdefghij;", &["  let x =", "    abcdefgh", "  ↪ ij;"][..]),
            ("    a b cccccccc", &["      a b", "    cccccccc"]),
            ("abcdefghijklmnopq r", &["  abcdefgh", "  ↪ ijklmnop", "  ↪ q r"]),
            ("   abcdefgh", &["     abcdefg", "  ↪ h"]),
            ("", &["  "]),
        ] {
            let lines = wrap(&[span(text, Style::new())], 12, &indent, Break::Code);
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            assert_eq!(lines, expected, "{text:?}");
        }
    }

    #[test]
    fn clipped_text_says_so() {
        let clipped = |text: &str, columns| {
            let spans = clip(&[span(text, Style::new())], columns);
            spans.iter().map(|span| span.content.as_ref()).collect::<String>()
        };
        assert_eq!(clipped("abcdef", 6), "abcdef");
        assert_eq!(clipped("abcdef", 4), "abc…");
        assert_eq!(clipped("漢字漢字", 6), "漢字…");
        assert_eq!(clipped("abc", 0), "");
    }

    #[test]
    fn a_note_keeps_its_indent() {
        let lines = note("  one two three", Style::new(), 11);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["  one two", "  three"]);
    }

    #[test]
    fn text_to_decide_on_keeps_every_blank() {
        let shown = |text: &str, width| {
            let plain = Style::new();
            let lines = exact(Span::raw("? "), text, plain, plain, width);
            lines.iter().map(|line| format!("{line}\n")).collect::<String>()
        };
        for (text, expected) in [
            ("'My  Docs'", "? 'My  Docs'\n"),
            ("rm -rf My  Docs now", "? rm -rf My\n↪   Docs now\n"),
            ("rm 'My Docs' now", "? rm 'My Docs'\n↪  now\n"),
            ("rm -rf abcde fghij", "? rm -rf abcde\n↪  fghij\n"),
            ("rm -rf abcdefgh ij", "? rm -rf\n↪  abcdefgh ij\n"),
            ("abcdefghijklmnop", "? abcdefghijklm\n↪ nop\n"),
            ("a               b", "? a\n↪              \n↪   b\n"),
            ("漢字漢字漢字漢", "? 漢字漢字漢字\n↪ 漢\n"),
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

    #[test]
    fn no_control_or_endless_cluster_reaches_a_line() {
        let hostile = format!("a\u{1b}[2J\u{202e}b\u{7}c{}", "\u{301}".repeat(1000));
        let lines = wrapped(&hostile, 80, "", Break::Words);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("a\\x1b[2J\\u{202e}b\\x07c\u{301}"), "{lines:?}");
        assert!(lines[0].len() < 100, "{lines:?}");
        let raw = Span::raw("a\u{1b}[31mb\u{7}");
        let lines = wrap(&[raw], 80, &Indent::default(), Break::Anywhere);
        assert_eq!(lines[0].to_string(), "a[31mb");
    }
}
