//! Markdown that stays readable while it streams. Words are printed as soon as their look is
//! certain; printed text never changes. Without colours the source is printed as it is, only
//! wrapped.

use super::inline;
use super::style::{Face, Style};
use super::wrap::Wrap;
use leftfold_view::clean::clip;

/// The widest prose in columns; wider text is hard to read.
const MEASURE: usize = 100;
/// The width of a horizontal rule in columns.
const RULE: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct Markdown {
    style: Style,
    wrap: Wrap,
    /// The face of the current line, once its kind is known.
    line: Option<Face>,
    /// Text whose look is not certain yet.
    pending: String,
    /// The marks that will close the current block of code.
    fence: Option<String>,
}

impl Markdown {
    pub(super) fn new(style: Style, columns: usize) -> Self {
        // The last column stays free, because terminals differ about the cursor's place after it is
        // filled.
        let wrap = Wrap::new(style, columns.saturating_sub(1).min(MEASURE));
        Self { style, wrap, line: None, pending: String::new(), fence: None }
    }

    /// Takes more text without control characters, and answers the output that is certain.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        let mut out = String::new();
        while self.step(&mut out) {}
        out
    }

    /// Ends the text, and answers the remaining output with its line end.
    pub(super) fn finish(&mut self) -> String {
        let open = self.line.is_some() || !self.pending.is_empty();
        let out = if open { self.push("\n") } else { String::new() };
        self.fence = None;
        out
    }

    pub(super) fn is_between_lines(&self) -> bool {
        self.line.is_none() && self.pending.is_empty()
    }

    /// Sets another width.
    pub(super) fn resize(&mut self, columns: usize) {
        self.wrap = Self::new(self.style, columns).wrap;
    }

    /// The column after the printed text.
    pub(super) fn column(&self) -> usize {
        self.wrap.column()
    }

    /// The text that is not certain yet, to show after the printed text for now.
    pub(super) fn tail(&self) -> String {
        if self.line.is_none() {
            return clip(&self.pending, self.wrap.width());
        }
        let mut out = String::new();
        let mut wrap = self.wrap.clone();
        wrap.push(self.line.unwrap_or_default(), &self.pending, &mut out);
        wrap.flush_word(&mut out);
        out
    }

    /// Handles one line, or the certain part of one; answers whether there was any.
    fn step(&mut self, out: &mut String) -> bool {
        let end = self.pending.find('\n');
        let text = self.pending[..end.unwrap_or(self.pending.len())].to_owned();
        if self.line.is_none() {
            return self.begin(&text, end.is_some(), out);
        }
        let used = self.prose(&text, end.is_some(), out);
        self.pending.drain(..used);
        if end.is_some() {
            self.pending.drain(..1);
            self.wrap.end_line(out);
            self.line = None;
        }
        end.is_some()
    }

    /// Determines the kind of a new line, and consumes its prefix.
    fn begin(&mut self, text: &str, complete: bool, out: &mut String) -> bool {
        match kind(text, complete, self.fence.as_deref()) {
            Kind::Unknown => false,
            Kind::Fence => {
                let marks = text.trim_start().chars().take_while(|c| matches!(c, '`' | '~'));
                let marks: String = marks.collect();
                self.fence = if self.fence.is_some() { None } else { Some(marks) };
                self.print_line(Face::DIM, text, out)
            }
            Kind::Rule if self.style.colour => self.print_line(Face::DIM, &"─".repeat(RULE), out),
            Kind::Code | Kind::Rule => self.print_line(Face::PLAIN, text, out),
            Kind::Prose { face, prefix, shown, mark } => {
                self.line = Some(face);
                let shown = if self.style.colour { &*shown } else { &text[..prefix] };
                self.wrap.begin(mark, shown, out);
                self.pending.drain(..prefix);
                true
            }
        }
    }

    /// Prints `shown` for a complete line of any length.
    fn print_line(&mut self, face: Face, shown: &str, out: &mut String) -> bool {
        self.style.write(out, face, shown);
        out.push('\n');
        let end = self.pending.find('\n').map_or(self.pending.len(), |end| end + 1);
        self.pending.drain(..end);
        true
    }

    fn prose(&mut self, text: &str, complete: bool, out: &mut String) -> usize {
        let base = self.line.unwrap_or_default();
        if !self.style.colour {
            self.wrap.push(base, text, out);
            return text.len();
        }
        let (spans, used) = inline::spans(text, complete);
        for (face, text) in spans {
            self.wrap.push(base.with(face), &text, out);
        }
        used
    }
}

enum Kind {
    /// More of the line is needed.
    Unknown,
    /// Begins or ends a block of code.
    Fence,
    /// Printed unchanged: code, or a table.
    Code,
    Rule,
    Prose {
        face: Face,
        /// The length of the line's markup in bytes.
        prefix: usize,
        /// The text to print instead of the markup.
        shown: String,
        mark: Face,
    },
}

/// The kind of the line that begins with `text`; with `complete`, `text` is all of it.
fn kind(text: &str, complete: bool, fence: Option<&str>) -> Kind {
    let bare = text.trim_start();
    let indent = text.len() - bare.len();
    if let Some(fence) = fence {
        let closes = bare.trim_end().strip_prefix(fence);
        return match (complete, closes) {
            (false, _) => Kind::Unknown,
            (true, Some(rest)) if rest.trim_matches(['`', '~']).is_empty() => Kind::Fence,
            (true, _) => Kind::Code,
        };
    }
    if bare.starts_with("```") || bare.starts_with("~~~") {
        return if complete { Kind::Fence } else { Kind::Unknown };
    }
    if bare.starts_with('|') {
        return if complete { Kind::Code } else { Kind::Unknown };
    }
    let signs = bare.trim_end();
    let rule = signs.len() >= 3 && ["-", "*", "_"].iter().any(|s| signs.replace(s, "").is_empty());
    let begins = |c: char| "#-*+>`~_0123456789.) \t".contains(c);
    if complete && rule {
        return Kind::Rule;
    }
    // A line of marks alone can still become anything.
    if !complete && bare.len() < 10 && bare.chars().all(begins) {
        return Kind::Unknown;
    }
    prose(bare, indent)
}

fn prose(bare: &str, indent: usize) -> Kind {
    let pad = " ".repeat(indent);
    let plain = |face, prefix: usize, shown: String, mark| Kind::Prose {
        face,
        prefix: indent + prefix,
        shown,
        mark,
    };
    let level = bare.len() - bare.trim_start_matches('#').len();
    if (1..=6).contains(&level) && bare[level..].starts_with(' ') {
        return plain(Face::HEADING, level + 1, String::new(), Face::PLAIN);
    }
    if let Some(rest) = bare.strip_prefix('>') {
        let space = usize::from(rest.starts_with(' '));
        return plain(Face::DIM, 1 + space, format!("{pad}│ "), Face::DIM);
    }
    if ["- ", "* ", "+ "].iter().any(|marker| bare.starts_with(marker)) {
        return plain(Face::PLAIN, 2, format!("{pad}• "), Face::DIM);
    }
    let digits = bare.len() - bare.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if (1..=4).contains(&digits) && [". ", ") "].iter().any(|m| bare[digits..].starts_with(m)) {
        return plain(Face::PLAIN, digits + 2, format!("{pad}{}", &bare[..digits + 2]), Face::DIM);
    }
    plain(Face::PLAIN, 0, pad, Face::PLAIN)
}
