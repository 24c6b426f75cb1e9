//! Markdown that arrives in pieces. Blocks that nothing can change any more are handed out once, for
//! the scrollback; the rest is laid out again when it is asked for, so that the cost of a text does
//! not depend on its pieces.

use std::borrow::Cow;

use ratatui::text::Line;

use super::markdown::{CodeCache, Row, is_blank_before, lay_out};
use crate::theme::Theme;

/// Bytes of a list that is laid out again as a whole.
const LONG_LIST: usize = 8 * 1024;
/// Bytes of one block. A longer one is cut.
const LONGEST_BLOCK: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct MarkdownStream {
    width: usize,
    theme: Theme,
    /// The text from the first block on that is not handed out whole.
    source: String,
    /// The lines of blocks before this place have been handed out.
    taken: usize,
    /// Whether blocks before `source` have been handed out.
    follows: bool,
    code: CodeCache,
    /// The rows from `taken` on, until the text or the width changes.
    rows: Option<Vec<Row>>,
    /// Where the text begins whose look is a guess.
    guessed: usize,
    /// Finished lines of a text that came in a long piece.
    finished: Vec<Line<'static>>,
}

impl MarkdownStream {
    pub(crate) fn new(width: u16, theme: &Theme) -> Self {
        Self {
            width: usize::from(width),
            theme: theme.clone(),
            source: String::new(),
            taken: 0,
            follows: false,
            code: CodeCache::default(),
            rows: None,
            guessed: 0,
            finished: Vec::new(),
        }
    }

    /// Adds text without control sequences.
    pub(crate) fn push(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let most = LONGEST_BLOCK.min(rest.len());
            let end = (0..=most).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(0);
            let (piece, after) = rest.split_at(end);
            self.source.push_str(piece);
            self.rows = None;
            if self.source.len() > LONGEST_BLOCK {
                self.advance();
            }
            rest = after;
        }
    }

    /// Sets the width of lines that have not been handed out.
    pub(crate) fn resize(&mut self, width: u16) {
        if self.width != usize::from(width) {
            self.width = usize::from(width);
            self.rows = None;
        }
    }

    /// The lines that are finished. Each is handed out once.
    pub(crate) fn take_finished(&mut self) -> Vec<Line<'static>> {
        self.advance();
        std::mem::take(&mut self.finished)
    }

    /// Moves the lines that are finished from the rows.
    fn advance(&mut self) {
        loop {
            self.lay_out();
            let rows = self.rows.get_or_insert_default();
            // the block with the guess may turn out to go on
            let last = rows.iter().rfind(|row| row.at <= self.guessed).map_or(0, |row| row.at);
            let count = rows.partition_point(|row| row.at < last);
            for row in rows.drain(..count) {
                // not where the next one begins: that is known only when its text is
                self.taken = row.at + 1;
                self.finished.push(row.line);
            }
            if self.source.len() <= LONGEST_BLOCK {
                return;
            }
            // The next layout drops what was taken.
            self.rows = None;
            self.lay_out();
            if self.source.len() <= LONGEST_BLOCK {
                return;
            }
            self.cut();
        }
    }

    /// The lines of the unfinished block.
    pub(crate) fn live(&mut self) -> Vec<Line<'static>> {
        self.lay_out().iter().map(|row| row.line.clone()).collect()
    }

    /// Ends the text, and hands out the rest of it.
    pub(crate) fn finish(&mut self) -> Vec<Line<'static>> {
        let mut lines = self.take_finished();
        let source = std::mem::take(&mut self.source);
        let rows = lay_out(&source, self.width, &self.theme, &mut self.code, self.follows).rows;
        lines.extend(rows.into_iter().filter(|row| row.at >= self.taken).map(|row| row.line));
        *self = Self::new(u16::try_from(self.width).unwrap_or(u16::MAX), &self.theme);
        lines
    }

    /// The rows that have not been handed out. Text that the last layout showed to be finished is
    /// dropped first.
    fn lay_out(&mut self) -> &mut Vec<Row> {
        let rows = match self.rows.take() {
            Some(rows) => rows,
            None => {
                let (text, guessed) = completed(&self.source);
                self.guessed = guessed;
                let mut laid_out =
                    lay_out(&text, self.width, &self.theme, &mut self.code, self.follows);
                let last = laid_out.rows.last().map_or(0, |row| row.at);
                let first = laid_out.rows.first().map_or(last, |row| row.at);
                laid_out.rows.retain(|row| row.at >= self.taken);
                let item = laid_out.item.filter(|_| self.source.len() > LONG_LIST);
                let start = item.unwrap_or(laid_out.block);
                // A last block that shows nothing yet, such as an empty fence, says nothing of where the one before it
                // begins, and a list or quote that is cut in its middle reads otherwise.
                let start = if start > last { 0 } else { start };
                // The indent of a line says what it is.
                let start = self.source[..start].rfind('\n').map_or(0, |end| end + 1);
                // Rows of a part that is dropped have been handed out.
                let may_drop = laid_out.rows.first().is_none_or(|row| row.at >= start);
                if start > 0 && start <= self.guessed && may_drop {
                    // A list adds no blank line of its own.
                    let follows = (self.follows || first < start)
                        && (item.is_none() || is_blank_before(&self.source, start));
                    self.drop_source(start, &mut laid_out.rows);
                    self.follows = follows;
                }
                if laid_out.is_fenced && laid_out.block <= start && (start == 0 || may_drop) {
                    self.drop_code(&mut laid_out.rows);
                }
                laid_out.rows
            }
        };
        self.rows.insert(rows)
    }

    /// Drops the text before `start`, whose rows have all been handed out.
    fn drop_source(&mut self, start: usize, rows: &mut [Row]) {
        self.source.drain(..start);
        self.code.moved(start);
        self.taken = self.taken.saturating_sub(start);
        self.guessed -= start;
        rows.iter_mut().for_each(|row| row.at -= start);
    }

    /// Drops the lines of a fenced code block at the start of the text that were handed out, and keeps
    /// its first line, which names the language.
    fn drop_code(&mut self, rows: &mut [Row]) {
        let Some(head) = self.source.find('\n').map(|end| end + 1) else { return };
        let Some(first) = rows.first().map(|row| row.at).filter(|first| *first > head) else {
            return;
        };
        let dropped = self.source[head..first].matches('\n').count();
        self.source.drain(head..first);
        self.guessed = self.guessed.saturating_sub(first - head);
        self.code.drop_lines(dropped);
        self.taken = head;
        // its blank line was handed out with its first line
        self.follows = false;
        rows.iter_mut().for_each(|row| row.at -= first - head);
    }

    /// Hands out all of a block that is too long, up to its last blank.
    fn cut(&mut self) {
        let source = std::mem::take(&mut self.source);
        let most = (0..=LONGEST_BLOCK).rev().find(|at| source.is_char_boundary(*at)).unwrap_or(0);
        let blank = source[..most].rfind(['\n', ' ']).map(|blank| blank + 1);
        let end = blank.filter(|end| *end > self.taken).unwrap_or(most.max(self.taken));
        let (head, rest) = source.split_at(end);
        let rows = lay_out(head, self.width, &self.theme, &mut self.code, self.follows).rows;
        let rows = rows.into_iter().filter(|row| row.at >= self.taken);
        self.finished.extend(rows.map(|row| row.line));
        (self.source, self.taken, self.follows, self.rows) = (rest.to_owned(), 0, false, None);
        self.code = CodeCache::default();
    }
}

/// The text as it will probably go on: open marks of its last paragraph are closed, and a last line
/// that can still become anything is left out. And the place up to which it is no guess.
fn completed(source: &str) -> (Cow<'_, str>, usize) {
    let line = source.rfind('\n').map_or(0, |end| end + 1);
    let is_undecided = |c: char| "#-=*+>`~_|:0123456789.) \t".contains(c);
    let last = source[line..].trim();
    let is_tag = last.starts_with('<') && !last.contains(['>', ' ', '\t']);
    if is_tag || (last.len() < 10 && last.chars().all(is_undecided)) {
        return (Cow::Borrowed(&source[..line]), line);
    }
    if is_in_fence(source) {
        return (Cow::Borrowed(source), source.len());
    }
    let paragraph = source.rfind("\n\n").map_or(0, |end| end + 2);
    let (before, text) = source.split_at(paragraph);
    match closed(text) {
        Some((text, at)) => (Cow::Owned(format!("{before}{text}")), paragraph + at),
        None => (Cow::Borrowed(source), source.len()),
    }
}

fn is_in_fence(source: &str) -> bool {
    let mut open: Option<(char, usize)> = None;
    for line in source.lines() {
        let bare = line.trim_start_matches([' ', '\t', '>']);
        let Some(mark) = bare.chars().next().filter(|c| matches!(c, '`' | '~')) else { continue };
        let count = bare.chars().take_while(|c| *c == mark).count();
        open = match open {
            None if count >= 3 && (mark == '~' || !bare[count..].contains('`')) => {
                Some((mark, count))
            }
            Some((opener, least))
                if mark == opener && count >= least && bare[count..].trim().is_empty() =>
            {
                None
            }
            other => other,
        };
    }
    open.is_some()
}

/// A paragraph with its open marks closed, and the place of the first of them; `None` if none is open.
fn closed(text: &str) -> Option<(String, usize)> {
    let mut open: Vec<(&'static str, usize)> = Vec::new();
    let mut link = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        if c == '`' {
            let count = rest.len() - rest.trim_start_matches('`').len();
            let marks = &rest[..count];
            match rest[count..].find(marks) {
                Some(end) => rest = &rest[count + end + count..],
                None => {
                    let first = open.first().map_or(at, |opener| opener.1).min(link.unwrap_or(at));
                    let text = match rest[count..].trim().is_empty() {
                        true => text[..at].to_owned(),
                        // Marks on a line of their own would begin a block.
                        false => format!("{}{marks}", text.trim_end()),
                    };
                    return Some((text, first));
                }
            }
            continue;
        }
        let marks = ["**", "~~"].into_iter().find(|marks| rest.starts_with(marks));
        if let Some(marks) = marks {
            match open.iter().rposition(|opener| opener.0 == marks) {
                Some(opener) => open.truncate(opener),
                None if rest[2..].starts_with([' ', '\n']) => {}
                None => open.push((marks, at)),
            }
            rest = &rest[2..];
            continue;
        }
        match c {
            '[' => link = Some(at),
            // brackets without an address are text
            ']' if !rest[1..].is_empty() && !rest[1..].starts_with('(') => link = None,
            ')' => link = None,
            _ => {}
        }
        let escaped =
            if c == '\\' { rest[1..].chars().next().map_or(0, char::len_utf8) } else { 0 };
        rest = &rest[c.len_utf8() + escaped..];
    }
    // A link without its address yet is its text.
    let opened = link.and_then(|start| {
        let (label, _) = text[start + 1..].split_once("](")?;
        Some((format!("{}{label}", &text[..start]), start))
    });
    let Some((_, opener)) = open.first() else { return opened };
    let (text, first) = opened.unwrap_or_else(|| (text.to_owned(), *opener));
    let mut text =
        text.trim_end_matches(|c: char| c.is_whitespace() || "*~".contains(c)).to_owned();
    open.iter().rev().for_each(|(marks, _)| text.push_str(marks));
    Some((text, first.min(*opener)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_paragraph_is_shown_as_it_will_probably_go_on() {
        for (source, expected) in [
            ("a **b", "a **b**"),
            ("a **b*", "a **b**"),
            ("a **b ~~c", "a **b ~~c~~**"),
            ("a `b", "a `b`"),
            ("a ``b`", "a ``b```"),
            ("a `", "a "),
            ("a `**` b", "a `**` b"),
            ("a ** b", "a ** b"),
            ("see [the page](https://exa", "see the page"),
            ("see [the page](https://a.b)", "see [the page](https://a.b)"),
            ("a\n-", "a\n"),
            ("a\n\n1.", "a\n\n"),
            ("a\n\n1. b", "a\n\n1. b"),
            ("a **b\n\nc", "a **b\n\nc"),
            ("```\n**a", "```\n**a"),
            ("```\na\n``", "```\na\n"),
            ("```\na\n```\n**b", "```\na\n```\n**b**"),
            ("a \\** b", "a \\** b"),
            ("ü **ö", "ü **ö**"),
            ("- [ ] ``[a](b)``", "- [ ] ``[a](b)``"),
            ("- [ ] [the page](https://exa", "- [ ] the page"),
        ] {
            assert_eq!(completed(source).0, expected, "{source:?}");
        }
    }
}
