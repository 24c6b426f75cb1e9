//! Lays text out in lines: paragraphs, lists, quotes, code and tables, with or without Markdown's
//! marks.
//!
//! Breaks, spaces and opening marks are delayed until text follows, so that empty elements leave
//! nothing behind.

mod blocks;

use std::mem::take;
use std::ops::RangeBounds;

/// Most nested containers whose indent is shown; deeper ones use the last indent.
const MAX_INDENTS: usize = 12;

/// Most marks that may be open at once; further ones are left out.
const MAX_MARKS: usize = 32;

#[derive(Debug)]
pub(crate) struct Writer {
    out: String,
    markdown: bool,
    /// Delayed line breaks.
    gap: u8,
    /// Containers that enclose the delayed blank line.
    gap_within: usize,
    /// Whether a space is delayed.
    space: bool,
    /// Prefix of the next text in its line, such as a heading's mark.
    start: &'static str,
    containers: Vec<Container>,
    /// Number of open containers of each kind, so that a stray end tag needs no search.
    open: [usize; 3],
    marks: Vec<Mark>,
    pre: Option<Pre>,
    tables: Vec<Table>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    Quote,
    /// The number of the next item. `None` for an unordered list.
    List(Option<u64>),
    Item,
}

impl ElementKind {
    fn index(self) -> usize {
        match self {
            Self::Quote => 0,
            Self::List(_) => 1,
            Self::Item => 2,
        }
    }
}

#[derive(Debug)]
struct Container {
    kind: ElementKind,
    /// Prefix of its first line, used once.
    first: Option<String>,
    /// Prefix of every other line.
    indent: String,
}

/// A mark around a run of text, such as emphasis.
#[derive(Debug)]
struct Mark {
    name: &'static str,
    opening: &'static str,
    closing: String,
    written: bool,
}

#[derive(Debug, Default)]
struct Pre {
    text: String,
    language: String,
}

#[derive(Debug, Default)]
struct Table {
    rows: usize,
    /// Cells of the current row so far.
    cells: usize,
    /// It contains a table, so it is used for layout: its cells are plain blocks.
    layout: bool,
}

impl Writer {
    pub(crate) fn new(markdown: bool) -> Self {
        Self {
            out: String::new(),
            markdown,
            gap: 0,
            gap_within: 0,
            space: false,
            start: "",
            containers: Vec::new(),
            open: [0; 3],
            marks: Vec::new(),
            pre: None,
            tables: Vec::new(),
        }
    }

    /// Bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() + self.pre.as_ref().map_or(0, |pre| pre.text.len())
    }

    pub(crate) fn finish(mut self) -> String {
        self.end_pre();
        while !self.tables.is_empty() {
            self.end_table();
        }
        self.close_marks(..);
        self.out
    }

    /// Notes that the rest of the page is missing.
    pub(crate) fn cut_here(&mut self) {
        self.end_pre();
        self.tables.clear();
        self.containers.clear();
        self.block(2);
        self.raw("(The rest of the page is left out: it is too long.)");
    }

    pub(crate) fn text(&mut self, text: &str) {
        if let Some(pre) = &mut self.pre {
            pre.text.push_str(text);
            return;
        }
        let escape = self.markdown && self.in_cell();
        for (n, word) in text.split(char::is_whitespace).enumerate() {
            self.space |= n > 0;
            if word.is_empty() {
                continue;
            }
            self.write_delayed();
            if escape && word.contains('|') {
                self.out.push_str(&word.replace('|', "\\|"));
            } else {
                self.out.push_str(word);
            }
        }
    }

    /// Ends the line, with a blank line after it if `gap` is 2.
    pub(crate) fn block(&mut self, gap: u8) {
        if self.in_cell() {
            self.space = true;
            return;
        }
        // marks that are not written yet open in the next line
        let written = self.marks.iter().take_while(|mark| mark.written).count();
        self.close_marks(..written);
        self.delay_breaks(gap);
    }

    fn delay_breaks(&mut self, gap: u8) {
        let depth = self.containers.len();
        self.gap_within = if self.gap == 0 { depth } else { self.gap_within.min(depth) };
        self.gap = self.gap.max(gap);
    }

    pub(crate) fn line_break(&mut self) {
        if let Some(pre) = &mut self.pre {
            pre.text.push('\n');
        } else if self.in_cell() {
            self.space = true;
        } else {
            self.delay_breaks(1);
        }
    }

    pub(crate) fn rule(&mut self) {
        self.block(2);
        if self.markdown && !self.in_cell() {
            self.raw("---");
        }
        self.block(2);
    }

    pub(crate) fn heading(&mut self, level: usize) {
        self.block(2);
        if self.markdown && !self.in_cell() {
            self.start = &"###### "[6 - level.clamp(1, 6)..];
        }
    }

    pub(crate) fn end_heading(&mut self) {
        self.block(2);
        self.start = "";
    }

    /// Writes the delayed breaks and marks before text.
    fn write_delayed(&mut self) {
        self.write_delayed_breaks();
        if take(&mut self.space) && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        self.out.push_str(take(&mut self.start));
        for mark in self.marks.iter_mut().filter(|mark| !mark.written) {
            mark.written = true;
            self.out.push_str(mark.opening);
        }
    }

    /// Writes the delayed line breaks and the prefix of the line.
    fn write_delayed_breaks(&mut self) {
        let first = self.out.is_empty();
        let gap = take(&mut self.gap);
        if !first && gap == 0 {
            return;
        }
        self.space = false;
        if !first {
            self.out.push('\n');
        }
        if !first && gap > 1 {
            let shown = self.containers.iter().take(self.gap_within.min(MAX_INDENTS));
            let blank: String = shown.map(|container| container.indent.as_str()).collect();
            self.out.push_str(blank.trim_end());
            self.out.push('\n');
        }
        for container in self.containers.iter_mut().take(MAX_INDENTS) {
            let first = container.first.take();
            self.out.push_str(first.as_deref().unwrap_or(&container.indent));
        }
    }

    /// Writes `text` unchanged, after the delayed line breaks.
    fn raw(&mut self, text: &str) {
        self.write_delayed_breaks();
        self.space = false;
        self.out.push_str(text);
    }

    pub(crate) fn mark(&mut self, name: &'static str, mark: &'static str) {
        self.open_mark(name, mark, mark.to_owned());
    }

    pub(crate) fn link(&mut self, target: &str) {
        self.open_mark("a", "[", format!("]({target})"));
    }

    fn open_mark(&mut self, name: &'static str, opening: &'static str, closing: String) {
        let open = self.marks.iter().any(|mark| mark.name == name);
        if self.markdown && self.pre.is_none() && !open && self.marks.len() < MAX_MARKS {
            self.marks.push(Mark { name, opening, closing, written: false });
        }
    }

    /// Closes a mark and those within it.
    pub(crate) fn end_mark(&mut self, name: &str) {
        if let Some(at) = self.marks.iter().rposition(|mark| mark.name == name) {
            self.close_marks(at..);
        }
    }

    /// Closes marks. Marks without text inside leave no trace.
    fn close_marks(&mut self, range: impl RangeBounds<usize>) {
        for mark in self.marks.drain(range).rev().filter(|mark| mark.written) {
            self.out.push_str(&mark.closing);
        }
    }

    pub(crate) fn image(&mut self, alt: &str, source: Option<&str>) {
        let alt: Vec<&str> = alt.split_whitespace().collect();
        if alt.is_empty() || self.pre.is_some() {
            return;
        }
        match source.filter(|_| self.markdown) {
            Some(source) => {
                self.write_delayed();
                self.out.push_str("![");
                self.out.push_str(&alt.join(" "));
                self.out.push_str("](");
                self.out.push_str(source);
                self.out.push(')');
            }
            None => self.text(&alt.join(" ")),
        }
    }
}
