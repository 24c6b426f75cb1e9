//! Converts a web page to Markdown or plain text, in one pass over its tokens.
//!
//! No tree is built, because a page could make it arbitrarily deep and slow to repair. An unclosed
//! element ends with its container, as browsers do for most pages.

use html5gum::{DefaultEmitter, EndTag, StartTag, Token, Tokenizer};
use reqwest::Url;

use super::markup::Writer;
use crate::Error;

/// Most bytes of a converted page. Repeated addresses and indents could make it many times as long
/// as the page.
const MAX_CONVERTED: usize = 16 * 1024 * 1024;

/// Elements without text of the page, and those for navigation.
const SKIPPED: &[&str] = &[
    "script", "style", "noscript", "template", "title", "nav", "svg", "math", "canvas", "iframe",
    "object", "audio", "video", "map", "select", "datalist", "button", "dialog",
];

/// Elements that have no end tag.
const VOID: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
];

/// Styles of an element that no reader of the page sees.
const INVISIBLE: &[&str] = &["display:none", "visibility:hidden", "visibility:collapse"];

/// Block elements with two line breaks around them, and those with one.
const PARAGRAPHS: &[&str] = &[
    "p", "article", "section", "main", "header", "footer", "aside", "form", "fieldset", "figure",
    "details", "dl",
];
const LINES: &[&str] = &[
    "address", "body", "caption", "center", "dd", "div", "dt", "figcaption", "hgroup", "legend",
    "option", "summary",
];

/// The page without markup.
///
/// # Errors
/// Cancelled.
pub(crate) fn text(html: &str, cancelled: &dyn Fn() -> bool) -> Result<String, Error> {
    Page { writer: Writer::new(false), base: None, skipped: None }.convert(html, cancelled)
}

/// The page as Markdown. Links are made absolute, relative to `url`.
///
/// # Errors
/// Cancelled.
pub(crate) fn markdown(
    html: &str,
    url: &Url,
    cancelled: &dyn Fn() -> bool,
) -> Result<String, Error> {
    let base = Some(url.clone());
    Page { writer: Writer::new(true), base, skipped: None }.convert(html, cancelled)
}

struct Page {
    writer: Writer,
    /// Base of relative addresses. `None` if addresses are not shown.
    base: Option<Url>,
    /// The element being skipped, and how many elements of its name are open.
    skipped: Option<(String, usize)>,
}

impl Page {
    fn convert(mut self, html: &str, cancelled: &dyn Fn() -> bool) -> Result<String, Error> {
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        for token in Tokenizer::new_with_emitter(html, emitter) {
            if cancelled() {
                return Err(Error::Cancelled);
            }
            if self.writer.len() > MAX_CONVERTED {
                self.writer.cut_here();
                break;
            }
            // reading from memory cannot fail
            let Ok(token) = token;
            match token {
                Token::StartTag(tag) => self.start(&tag),
                Token::EndTag(tag) => self.end(&tag),
                Token::String(text) if self.skipped.is_none() => {
                    self.writer.text(&String::from_utf8_lossy(&text.value));
                }
                Token::String(_) | Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
            }
        }
        Ok(self.writer.finish())
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let name = name.as_ref();
        if let Some((skipped, open)) = &mut self.skipped {
            // a block ends a paragraph, which may have no end tag
            if skipped != "p" || block(name).is_none() {
                *open += usize::from(skipped == name);
                return;
            }
            self.skipped = None;
        }
        if is_skipped(name, tag) {
            let empty = tag.self_closing && matches!(name, "svg" | "math") || VOID.contains(&name);
            self.skipped = (!empty).then(|| (name.to_owned(), 1));
            return;
        }
        if let Some(gap) = block(name) {
            return self.writer.block(gap);
        }
        match name {
            "base" => self.rebase(tag),
            "br" => self.writer.line_break(),
            "wbr" => {}
            "hr" => self.writer.rule(),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.writer.heading(level(name)),
            "blockquote" => self.writer.quote(),
            "ul" | "menu" => self.writer.list(None),
            "ol" => self.writer.list(Some(number(tag, "start").unwrap_or(1))),
            "li" => self.writer.item(),
            "pre" | "listing" | "xmp" => self.writer.pre(),
            "table" => self.writer.table(),
            "tr" => self.writer.row(),
            "td" | "th" => self.writer.cell(),
            "img" => self.image(tag),
            "a" => self.link(tag),
            "code" => {
                self.writer.language(language(tag).as_deref());
                self.writer.mark("code", "`");
            }
            "kbd" | "samp" | "tt" => self.writer.mark("code", "`"),
            "b" | "strong" => self.writer.mark("strong", "**"),
            "i" | "em" | "cite" => self.writer.mark("em", "*"),
            "del" | "s" | "strike" => self.writer.mark("del", "~~"),
            _ => {}
        }
    }

    fn end(&mut self, tag: &EndTag<()>) {
        let name = String::from_utf8_lossy(&tag.name);
        let name = name.as_ref();
        if let Some((skipped, open)) = &mut self.skipped {
            *open -= usize::from(skipped == name);
            if *open == 0 {
                self.skipped = None;
            }
            return;
        }
        if let Some(gap) = block(name) {
            return self.writer.block(gap);
        }
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.writer.end_heading(),
            "blockquote" => self.writer.end_quote(),
            "ul" | "menu" | "ol" => self.writer.end_list(),
            "li" => self.writer.end_item(),
            "pre" | "listing" | "xmp" => self.writer.end_pre(),
            "table" => self.writer.end_table(),
            "tr" => self.writer.end_row(),
            "a" => self.writer.end_mark("a"),
            "code" | "kbd" | "samp" | "tt" => self.writer.end_mark("code"),
            "b" | "strong" => self.writer.end_mark("strong"),
            "i" | "em" | "cite" => self.writer.end_mark("em"),
            "del" | "s" | "strike" => self.writer.end_mark("del"),
            _ => {}
        }
    }

    fn rebase(&mut self, tag: &StartTag<()>) {
        if let (Some(base), Some(href)) = (&self.base, attribute(tag, "href"))
            && let Ok(joined) = base.join(href.trim())
        {
            self.base = Some(joined);
        }
    }

    fn link(&mut self, tag: &StartTag<()>) {
        // a link within a link ends the outer one
        self.writer.end_mark("a");
        if let Some(target) = attribute(tag, "href").and_then(|href| self.target(&href)) {
            self.writer.link(&target);
        }
    }

    fn image(&mut self, tag: &StartTag<()>) {
        let alt = attribute(tag, "alt").unwrap_or_default();
        let source = attribute(tag, "src").and_then(|source| self.target(&source));
        self.writer.image(&alt, source.as_deref());
    }

    /// An address in Markdown. `None` for an address that has no meaning outside the page.
    fn target(&self, given: &str) -> Option<String> {
        let given = given.trim();
        if given.is_empty() || given.starts_with('#') {
            return None;
        }
        let url = self.base.as_ref()?.join(given).ok()?;
        if !matches!(url.scheme(), "http" | "https" | "mailto" | "ftp") {
            return None;
        }
        let url = String::from(url);
        Some(if url.contains(['(', ')']) { format!("<{url}>") } else { url })
    }
}

fn is_skipped(name: &str, tag: &StartTag<()>) -> bool {
    let container = matches!(name, "div" | "ul" | "section");
    SKIPPED.contains(&name)
        || is_hidden(tag)
        || (container && attribute(tag, "role").is_some_and(|role| role == "navigation"))
}

/// Whether the element itself says that it is not shown. What style sheets and scripts hide is not known.
fn is_hidden(tag: &StartTag<()>) -> bool {
    let style = attribute(tag, "style").unwrap_or_default().to_ascii_lowercase();
    let is_invisible = |declaration: &str| {
        let plain: String = declaration.chars().filter(|c| !c.is_whitespace()).collect();
        let plain = plain.trim_end_matches("!important");
        // 0, 0.0, 0px and 0% are one
        let size = plain.strip_prefix("font-size:").or_else(|| plain.strip_prefix("opacity:"));
        let is_zero = size.is_some_and(|size| {
            size.starts_with(['0', '.']) && !size.contains(|c: char| matches!(c, '1'..='9'))
        });
        INVISIBLE.contains(&plain) || is_zero
    };
    attribute(tag, "hidden").is_some() || style.split(';').any(is_invisible)
}

fn block(name: &str) -> Option<u8> {
    let gaps = [(PARAGRAPHS, 2), (LINES, 1)];
    gaps.into_iter().find(|(blocks, _)| blocks.contains(&name)).map(|(_, gap)| gap)
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    let value = tag.attributes.get(name.as_bytes())?;
    Some(String::from_utf8_lossy(&value.value).into_owned())
}

fn number(tag: &StartTag<()>, name: &str) -> Option<u64> {
    attribute(tag, name)?.trim().parse().ok()
}

/// The level of a heading element.
fn level(name: &str) -> usize {
    name[1..].parse().unwrap_or(1)
}

/// The language in a class for syntax highlighting.
fn language(tag: &StartTag<()>) -> Option<String> {
    let class = attribute(tag, "class")?;
    let named = class.split_whitespace().find_map(|class| {
        class.strip_prefix("language-").or_else(|| class.strip_prefix("lang-"))
    })?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+#-_.".contains(c);
    (named.len() <= 30 && named.chars().all(plain)).then(|| named.to_owned())
}
