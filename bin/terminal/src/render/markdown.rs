//! Markdown as lines. A [`Layout`] handles the events of the parser; it never looks at the source
//! itself, except for blank lines between the blocks of a list.

use std::ops::Range;

use pulldown_cmark::{
    BlockQuoteKind, CodeBlockKind, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd,
};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::highlight::Highlighter;
use super::table::{self, Table};
use super::wrap::{Break, CONTINUED, Indent, span, width_of, wrap};
use crate::hyperlink::looks_like_address;
use crate::theme::Theme;

/// The width of a horizontal rule in columns.
const RULE: usize = 40;
/// Containers that are shown as such. Deeper ones add no indent.
const DEEPEST: usize = 16;
/// The indent of code, which shows where it begins and ends.
const CODE_INDENT: &str = "  ";
/// Columns of a language's name that are shown.
const LONGEST_LANGUAGE: usize = 30;
/// Columns of an address that are shown. The rest is data, such as a picture.
const LONGEST_ADDRESS: usize = 500;

/// A line, and where its block begins in the source. A block is a paragraph, a heading, a table or a
/// line of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) line: Line<'static>,
    pub(super) at: usize,
}

/// The lines of a complete text, none wider than `width`. The text has no control sequences.
pub(crate) fn markdown(text: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut code = CodeCache::default();
    let laid_out = lay_out(text, usize::from(width), theme, &mut code, false);
    laid_out.rows.into_iter().map(|row| row.line).collect()
}

/// A text as lines, and where its last blocks begin.
#[derive(Debug, Default)]
pub(super) struct LaidOut {
    pub(super) rows: Vec<Row>,
    /// The last block that is in no other.
    pub(super) block: usize,
    /// Whether that is a fenced code block.
    pub(super) is_fenced: bool,
    /// The last item of a list that is in no other block.
    pub(super) item: Option<usize>,
}

/// With `follows`, other blocks were shown before this text.
pub(super) fn lay_out(
    text: &str,
    width: usize,
    theme: &Theme,
    code: &mut CodeCache,
    follows: bool,
) -> LaidOut {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_GFM;
    let mut layout = Layout::new(text, width, theme, code, follows);
    let mut laid_out = LaidOut::default();
    let mut depth = 0_usize;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match &event {
            Event::Start(tag) => {
                if depth == 0 {
                    laid_out.block = range.start;
                    laid_out.item = None;
                    laid_out.is_fenced = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)));
                } else if depth == 1 && matches!(tag, Tag::Item) {
                    laid_out.item = Some(range.start);
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => {
                (laid_out.block, laid_out.item, laid_out.is_fenced) = (range.start, None, false);
            }
            _ => {}
        }
        layout.event(event, range);
    }
    layout.end_paragraph();
    laid_out.rows = layout.rows;
    laid_out
}

/// The highlighted lines of the last code block, so that a text that grows costs only what is new.
#[derive(Clone, Debug, Default)]
pub(super) struct CodeCache {
    /// Where the block begins, and its language.
    block: Option<(usize, String)>,
    /// The state after `lines`.
    highlighter: Option<Highlighter>,
    /// The complete lines.
    lines: Vec<Vec<Span<'static>>>,
}

impl CodeCache {
    /// The text before the block has lost `bytes`.
    pub(super) fn moved(&mut self, bytes: usize) {
        if let Some(block) = &mut self.block {
            block.0 = block.0.wrapping_sub(bytes);
        }
    }

    /// Forgets the first lines: they are no longer in the text.
    pub(super) fn drop_lines(&mut self, count: usize) {
        self.lines.drain(..count.min(self.lines.len()));
    }

    /// The lines of a block. Only the last may be incomplete.
    fn lines(
        &mut self,
        at: usize,
        language: &str,
        code: &str,
        theme: &Theme,
    ) -> Vec<Vec<Span<'static>>> {
        let block = (at, language.to_owned());
        if self.block.as_ref() != Some(&block) {
            let highlighter = Some(Highlighter::of_language(language, theme));
            *self = Self { block: Some(block), highlighter, lines: Vec::new() };
        }
        let Some(highlighter) = &mut self.highlighter else { return Vec::new() };
        let complete = code.matches('\n').count();
        for line in code.split('\n').take(complete).skip(self.lines.len()) {
            self.lines.push(highlighter.line(line, theme));
        }
        let mut lines = self.lines.clone();
        lines.truncate(complete);
        if let Some(last) = code.rsplit('\n').next().filter(|last| !last.is_empty()) {
            lines.push(highlighter.clone().line(last, theme));
        }
        lines
    }
}

/// A container of blocks.
#[derive(Debug)]
enum Container {
    /// `rows` is the number of rows before it.
    Quote { rows: usize },
    /// An item of a list, or a footnote, that begins at `at`. `marker` stands before its first line only.
    Item { marker: Vec<Span<'static>>, columns: usize, at: usize },
}

/// The code block that is being read.
#[derive(Debug)]
struct Code {
    at: usize,
    /// The words after the fence; `None` if the block is indented.
    info: Option<String>,
    text: String,
    /// Where each of its pieces is in the source, and in `text`.
    pieces: Vec<(usize, usize)>,
}

/// A link or an image.
#[derive(Debug)]
struct Link {
    address: String,
    /// Whether its text is its address.
    is_bare: bool,
    /// Where its text begins.
    from: usize,
}

#[derive(Debug)]
struct Layout<'a> {
    source: &'a str,
    width: usize,
    theme: &'a Theme,
    cache: &'a mut CodeCache,
    rows: Vec<Row>,
    containers: Vec<Container>,
    /// The numbers of the next items; `None` for lists without numbers.
    lists: Vec<Option<u64>>,
    /// Whether a block was shown before in the innermost container.
    follows: bool,
    /// The blank line before the next block that shows something.
    blank: Option<Line<'static>>,
    /// The text of the block, and where the block begins.
    inline: Vec<Span<'static>>,
    at: Option<usize>,
    styles: Vec<Style>,
    /// The links and images around the text.
    links: Vec<Link>,
    code: Option<Code>,
    table: Option<Table>,
}

impl<'a> Layout<'a> {
    fn new(
        source: &'a str,
        width: usize,
        theme: &'a Theme,
        cache: &'a mut CodeCache,
        follows: bool,
    ) -> Self {
        Self {
            source,
            width,
            theme,
            cache,
            rows: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            follows,
            blank: None,
            inline: Vec::new(),
            at: None,
            styles: vec![theme.text],
            links: Vec::new(),
            code: None,
            table: None,
        }
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => {
                    code.pieces.push((range.start, code.text.len()));
                    code.text.push_str(&text);
                }
                None => self.text(&text, self.style(), range.start),
            },
            Event::Code(code) => self.inline_code(&code, range.start),
            Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text, self.style(), range.start);
            }
            Event::Html(html) => self.text(&html, self.theme.dim, range.start),
            Event::InlineHtml(html) => self.inline_html(&html, range.start),
            Event::FootnoteReference(label) => {
                self.text(&format!("[^{label}]"), self.theme.marker, range.start);
            }
            Event::SoftBreak => self.text(" ", self.style(), range.start),
            Event::HardBreak => self.line_break(),
            Event::Rule => {
                let columns = RULE.min(self.width);
                let rule = if self.theme.is_plain() { "-" } else { "─" };
                self.text(&rule.repeat(columns), self.theme.marker, range.start);
                self.end_paragraph();
            }
            Event::TaskListMarker(done) => {
                let (mark, style) = match done {
                    true => ("[x] ", self.theme.success),
                    false => ("[ ] ", self.theme.marker),
                };
                self.text(mark, style, range.start);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        let theme = self.theme;
        match tag {
            Tag::Paragraph => self.begin(range.start),
            Tag::Heading { level, .. } => {
                self.begin(range.start);
                let style = match level {
                    HeadingLevel::H1 => theme.with(theme.heading, Modifier::UNDERLINED),
                    HeadingLevel::H2 => theme.heading,
                    HeadingLevel::H3 | HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => {
                        theme.with(theme.heading, Modifier::ITALIC)
                    }
                };
                if theme.is_plain() {
                    self.text(&format!("{} ", "#".repeat(level as usize)), style, range.start);
                }
                self.styles.push(style);
            }
            Tag::BlockQuote(kind) => {
                self.end_paragraph();
                self.gap(range.start);
                self.containers.push(Container::Quote { rows: self.rows.len() });
                self.follows = false;
                if let Some(kind) = kind {
                    self.alert(kind, range.start);
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin(range.start);
                let info = match kind {
                    CodeBlockKind::Fenced(info) => Some(info.to_string()),
                    CodeBlockKind::Indented => None,
                };
                let (text, pieces) = (String::new(), Vec::new());
                self.code = Some(Code { at: range.start, info, text, pieces });
            }
            Tag::HtmlBlock => self.begin(range.start),
            Tag::List(number) => {
                self.end_paragraph();
                self.gap(range.start);
                self.lists.push(number);
            }
            Tag::Item => {
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let marker = format!("{number}. ");
                        *number = number.saturating_add(1);
                        marker
                    }
                    Some(None) | None if theme.is_plain() => "- ".to_owned(),
                    Some(None) | None => "• ".to_owned(),
                };
                self.item(&marker, range.start);
            }
            Tag::FootnoteDefinition(label) => self.item(&format!("[^{label}]: "), range.start),
            Tag::Table(alignments) => {
                self.begin(range.start);
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::TableCell => self.inline.clear(),
            Tag::Emphasis => self.styled("*", Modifier::ITALIC, range.start),
            Tag::Strong => self.styled("**", Modifier::BOLD, range.start),
            Tag::Strikethrough => self.styled("~~", Modifier::CROSSED_OUT, range.start),
            Tag::Link { link_type, dest_url, .. } => {
                let is_mail = link_type == LinkType::Email;
                let address =
                    if is_mail { format!("mailto:{dest_url}") } else { dest_url.to_string() };
                let is_bare = is_mail || link_type == LinkType::Autolink;
                self.mark(range.start);
                self.links.push(Link { address, is_bare, from: self.inline.len() });
                self.styles.push(theme.link);
            }
            Tag::Image { dest_url, .. } => {
                self.text("[image: ", theme.marker, range.start);
                let (address, from) = (dest_url.to_string(), self.inline.len());
                self.links.push(Link { address, is_bare: false, from });
                self.styles.push(theme.dim);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_paragraph(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_paragraph();
            }
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                if let Some(Container::Quote { rows }) = self.containers.pop() {
                    self.follows = self.rows.len() > rows;
                }
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.follows = true;
            }
            TagEnd::Item | TagEnd::FootnoteDefinition => self.end_item(),
            TagEnd::Table => self.end_table(),
            TagEnd::TableCell => {
                let cell = self.take_inline();
                if let Some(table) = &mut self.table {
                    table.push(cell);
                }
            }
            TagEnd::Emphasis => self.end_styled("*"),
            TagEnd::Strong => self.end_styled("**"),
            TagEnd::Strikethrough => self.end_styled("~~"),
            TagEnd::Link => {
                self.styles.pop();
                self.end_link("");
            }
            TagEnd::Image => {
                self.styles.pop();
                self.end_link("]");
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.text)
    }

    /// Begins a block.
    fn begin(&mut self, at: usize) {
        self.end_paragraph();
        self.gap(at);
        self.at = Some(at);
    }

    /// The place of the block, if no tag has begun it: the text of an item without blank lines.
    fn mark(&mut self, at: usize) {
        if self.at.is_none() {
            self.gap(at);
            self.at = Some(at);
        }
    }

    fn text(&mut self, text: &str, style: Style, at: usize) {
        self.mark(at);
        self.inline.push(span(text, style));
    }

    fn inline_code(&mut self, code: &str, at: usize) {
        let style = self.style().patch(self.theme.code);
        // Without a look of its own, code keeps its marks.
        let marks = if self.theme.code == Style::new() { "`" } else { "" };
        self.text(&format!("{marks}{code}{marks}"), style, at);
    }

    fn inline_html(&mut self, html: &str, at: usize) {
        let name = html.trim_matches(['<', '>', '/', ' ']);
        match name.eq_ignore_ascii_case("br") {
            true => self.line_break(),
            false => self.text(html, self.theme.dim, at),
        }
    }

    fn line_break(&mut self) {
        if self.at.is_some() {
            self.inline.push(Span::raw("\n"));
        }
    }

    fn styled(&mut self, marks: &str, modifier: Modifier, at: usize) {
        let style = self.theme.with(self.style(), modifier);
        self.mark(at);
        self.styles.push(style);
        if self.theme.is_plain() {
            self.text(marks, style, at);
        }
    }

    fn end_styled(&mut self, marks: &str) {
        let style = self.styles.pop().unwrap_or_default();
        if self.theme.is_plain() {
            self.inline.push(span(marks, style));
        }
    }

    /// Ends the text of a link or an image. Its address follows unless the text is the address, or a
    /// click opens the address and the text cannot be taken for another one.
    fn end_link(&mut self, close: &str) {
        let Some(Link { address, is_bare, from }) = self.links.pop() else { return };
        let texts = self.inline.get_mut(from..).unwrap_or_default();
        let text: String = texts.iter().map(|span| span.content.as_ref()).collect();
        let mut opens = false;
        if let Some(hyperlinks) = &self.theme.hyperlinks {
            for span in texts {
                if let Some(style) = hyperlinks.style(span.style, &address) {
                    (span.style, opens) = (style, true);
                }
            }
        }
        if !close.is_empty() {
            self.inline.push(span(close, self.theme.marker));
        }
        let is_same = is_bare || address == text || address.strip_prefix("mailto:") == Some(&*text);
        // a click sends what follows the `?`
        let is_plain = opens && !looks_like_address(&text) && !address.contains('?');
        if address.is_empty() || is_same || is_plain {
            return;
        }
        let address = leftfold_view::clean::clip(&address, LONGEST_ADDRESS);
        self.inline.push(span(&format!(" ({address})"), self.theme.dim));
    }

    /// The text of a block or a cell, with links where it names addresses.
    fn take_inline(&mut self) -> Vec<Span<'static>> {
        let inline = std::mem::take(&mut self.inline);
        match &self.theme.hyperlinks {
            Some(hyperlinks) => hyperlinks.linked(inline, self.theme.link),
            None => inline,
        }
    }

    fn alert(&mut self, kind: BlockQuoteKind, at: usize) {
        let (name, style) = match kind {
            BlockQuoteKind::Note => ("Note", self.theme.accent),
            BlockQuoteKind::Tip => ("Tip", self.theme.success),
            BlockQuoteKind::Important => ("Important", self.theme.accent),
            BlockQuoteKind::Warning => ("Warning", self.theme.warning),
            BlockQuoteKind::Caution => ("Caution", self.theme.error),
        };
        self.text(name, style, at);
        self.end_paragraph();
        self.follows = false;
    }

    fn item(&mut self, marker: &str, at: usize) {
        self.end_paragraph();
        self.gap(at);
        let marker = vec![span(marker, self.theme.marker)];
        let columns = width_of(&marker);
        self.containers.push(Container::Item { marker, columns, at });
        self.follows = false;
    }

    fn end_item(&mut self) {
        self.end_paragraph();
        if let Some(Container::Item { marker, .. }) = self.containers.last()
            && !marker.is_empty()
        {
            // an item without text
            self.lines(&[], usize::MAX, Break::Words);
        }
        self.containers.pop();
        self.follows = true;
    }

    /// Ends the paragraph, the heading, or the text of an item.
    fn end_paragraph(&mut self) {
        let mut inline = self.take_inline();
        let at = self.at.take();
        if let Some(at) = at.filter(|_| !inline.is_empty()) {
            while inline.pop_if(|last| last.content.trim_end().is_empty()).is_some() {}
            if let Some(last) = inline.last_mut() {
                last.content = last.content.trim_end().to_owned().into();
            }
            self.lines(&inline, at, Break::Words);
        }
    }

    fn end_code(&mut self) {
        let Some(Code { at, info, text, pieces }) = self.code.take() else { return };
        self.at = None;
        let language = info.as_deref().and_then(|info| info.split([' ', ',', '{']).next());
        let language = language.unwrap_or_default().trim();
        let lines = self.cache.lines(at, language, &text, self.theme);
        let language = leftfold_view::clean::clip(language, LONGEST_LANGUAGE);
        let is_plain = self.theme.is_plain();
        let fence = info.filter(|_| is_plain);
        if let Some(info) = &fence {
            self.lines(&[span(&format!("```{info}"), self.theme.text)], at, Break::Anywhere);
        }
        if !is_plain {
            let (marker, columns) = (Vec::new(), CODE_INDENT.len());
            self.containers.push(Container::Item { marker, columns, at });
            if !language.is_empty() {
                self.lines(&[span(&language, self.theme.marker)], at, Break::Anywhere);
            }
        }
        let mut place = 0;
        let mut start = 0;
        for (line, text) in lines.iter().zip(text.split('\n')) {
            while pieces.get(place + 1).is_some_and(|piece| piece.1 <= start) {
                place += 1;
            }
            let at = pieces.get(place).map_or(at, |(source, from)| source + (start - from));
            self.lines(line, at, Break::Code);
            start += text.len() + 1;
        }
        if !is_plain {
            self.containers.pop();
        }
        if fence.is_some() {
            let at = self.rows.last().map_or(at, |row| row.at);
            self.lines(&[span("```", self.theme.text)], at, Break::Anywhere);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let at = self.at.take().unwrap_or_default();
        let room = self.width.saturating_sub(self.indent_columns()).max(1);
        for line in table::lines(&table, room, self.theme) {
            self.lines(&line.spans, at, Break::Anywhere);
        }
    }

    /// A blank line before a block that follows another one. In lists, the source decides.
    fn gap(&mut self, at: usize) {
        if !std::mem::take(&mut self.follows) {
            return;
        }
        if !self.lists.is_empty() && !is_blank_before(self.source, at) {
            return;
        }
        let is_quoted = |container: &Container| matches!(container, Container::Quote { .. });
        let line = match self.containers.iter().rposition(is_quoted) {
            Some(innermost) => {
                let mut prefix = self.prefix(innermost + 1);
                if let Some(last) = prefix.last_mut() {
                    last.content = last.content.trim_end().to_owned().into();
                }
                let indent = Indent { first: prefix, ..Indent::default() };
                wrap(&[], self.width, &indent, Break::Words).swap_remove(0)
            }
            None => Line::default(),
        };
        self.blank = Some(line);
    }

    /// The prefix of the lines of the outer containers, without markers of items.
    fn prefix(&self, containers: usize) -> Vec<Span<'static>> {
        let shown = self.containers.iter().take(containers.min(DEEPEST));
        let prefix = shown.map(|container| match container {
            Container::Quote { .. } => self.bar(),
            Container::Item { columns, .. } => Span::raw(" ".repeat(*columns)),
        });
        prefix.collect()
    }

    fn bar(&self) -> Span<'static> {
        span(if self.theme.is_plain() { "> " } else { "│ " }, self.theme.marker)
    }

    fn indent_columns(&self) -> usize {
        width_of(&self.prefix(DEEPEST)).min(self.width / 2)
    }

    /// Shows text with what its containers put before it.
    fn lines(&mut self, text: &[Span<'static>], at: usize, breaks: Break) {
        let rest = self.prefix(DEEPEST);
        let bar = self.bar();
        let mut first = Vec::new();
        // the first line of an item begins where the item does, so that its place does not depend on how its text goes on
        let begun = self.containers.iter().find_map(|container| match container {
            Container::Item { marker, at, .. } => Some(*at).filter(|_| !marker.is_empty()),
            Container::Quote { .. } => None,
        });
        let at = begun.unwrap_or(at);
        for container in self.containers.iter_mut().take(DEEPEST) {
            match container {
                Container::Quote { .. } => first.push(bar.clone()),
                Container::Item { marker, columns, .. } if marker.is_empty() => {
                    first.push(Span::raw(" ".repeat(*columns)));
                }
                Container::Item { marker, .. } => first.append(marker),
            }
        }
        for container in self.containers.iter_mut().skip(DEEPEST) {
            if let Container::Item { marker, .. } = container {
                first.append(marker);
            }
        }
        let is_quoted =
            self.containers.iter().any(|outer| matches!(outer, Container::Quote { .. }));
        let quoted = |span: &Span<'static>| {
            let style = if span.style == self.theme.text { self.theme.quote } else { span.style };
            Span::styled(span.content.clone(), style)
        };
        let text: Vec<Span<'static>> = match breaks {
            Break::Words if is_quoted => text.iter().map(quoted).collect(),
            Break::Words | Break::Code | Break::Anywhere => text.to_vec(),
        };
        let mut indent = Indent { first, rest, cut: Vec::new() };
        if breaks == Break::Code && !self.theme.is_plain() {
            indent.cut = indent.rest.clone();
            indent.cut.push(span(CONTINUED, self.theme.marker));
            let line: String = text.iter().map(|span| span.content.as_ref()).collect();
            let own = line.len() - line.trim_start_matches(' ').len();
            indent.rest.push(Span::raw(format!("{}{CODE_INDENT}", " ".repeat(own))));
        }
        let lines = wrap(&text, self.width, &indent, breaks);
        self.rows.extend(self.blank.take().map(|line| Row { line, at }));
        self.rows.extend(lines.into_iter().map(|line| Row { line, at }));
        self.follows = true;
    }
}

/// Whether a blank line stands before `at`, in a list that may be in a quote.
pub(super) fn is_blank_before(source: &str, at: usize) -> bool {
    let before = source.get(..at).unwrap_or_default();
    let gap = before.len() - before.trim_end_matches([' ', '\t', '\n', '\r', '>']).len();
    before[before.len() - gap..].matches('\n').count() > 1
}
