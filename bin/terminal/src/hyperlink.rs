//! Addresses that the terminal opens when its text is clicked (OSC 8). A style names an address by a
//! number, in the place of the underline's colour, which nothing else here uses; so a link survives
//! wrapping, and only the screen turns it into codes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use ratatui_core::style::{Color, Style};
use ratatui_core::text::Span;

/// Bytes of an address. Longer ones are data.
const LONGEST: usize = 2_000;
/// Addresses of one conversation. Text beyond them is shown without links.
const MAX_ADDRESSES: usize = 10_000;

/// The addresses of a conversation. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hyperlinks(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    addresses: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
}

/// Two are the same if they share their addresses.
impl PartialEq for Hyperlinks {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Hyperlinks {}

impl Hyperlinks {
    /// The style of a text that opens `address`; `None` if the address may not be opened by a click.
    pub(crate) fn style(&self, style: Style, address: &str) -> Option<Style> {
        if !is_harmless(address) {
            return None;
        }
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match table.numbers.get(address) {
            Some(number) => *number,
            None if table.addresses.len() >= MAX_ADDRESSES => return None,
            None => {
                let (address, number) =
                    (Arc::from(address), u32::try_from(table.addresses.len()).ok()?);
                table.addresses.push(Arc::clone(&address));
                table.numbers.insert(address, number);
                number
            }
        };
        let [_, red, green, blue] = number.to_be_bytes();
        Some(style.underline_color(Color::Rgb(red, green, blue)))
    }

    /// The address of a text in this style, with its number.
    pub(crate) fn address(&self, style: Style) -> Option<(u32, Arc<str>)> {
        let Some(Color::Rgb(red, green, blue)) = style.underline_color else { return None };
        let number = u32::from_be_bytes([0, red, green, blue]);
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let address = table.addresses.get(usize::try_from(number).ok()?)?;
        Some((number, Arc::clone(address)))
    }

    /// The same text, in which addresses of the web are links.
    pub(crate) fn linked(&self, spans: Vec<Span<'static>>, style: Style) -> Vec<Span<'static>> {
        let mut linked: Vec<Span<'static>> = Vec::new();
        let mut spans = merged(spans).into_iter().peekable();
        while let Some(span) = spans.next() {
            let follows = spans.peek().and_then(|next| next.content.chars().next());
            self.link_span(&span, follows, style, &mut linked);
        }
        linked
    }

    /// `follows` is the character after the span. An address that goes on in another style is none.
    fn link_span(
        &self,
        span: &Span<'static>,
        follows: Option<char>,
        style: Style,
        linked: &mut Vec<Span<'static>>,
    ) {
        let mut rest = span.content.as_ref();
        let mut push = |text: &str, style: Style| {
            if !text.is_empty() {
                linked.push(Span::styled(text.to_owned(), style));
            }
        };
        while span.style.underline_color.is_none()
            && let Some(start) = ["https://", "http://"].iter().filter_map(|s| rest.find(s)).min()
        {
            let (before, text) = rest.split_at(start);
            let end = text.find(|c: char| c.is_whitespace() || "<>\"'`|".contains(c));
            let whole = &text[..end.unwrap_or(text.len())];
            let address = without_end(whole);
            let goes_on =
                address.len() == text.len() && follows.is_some_and(|c| !c.is_whitespace());
            let is_alone = !before.ends_with(|c: char| c.is_alphanumeric());
            let link = self.style(span.style.patch(style), address);
            push(before, span.style);
            push(address, link.filter(|_| is_alone && !goes_on).unwrap_or(span.style));
            rest = &text[address.len()..];
        }
        push(rest, span.style);
    }
}

/// Neighbours of one style as one span: the parser may cut text anywhere.
fn merged(spans: Vec<Span<'static>>) -> Vec<Span<'static>> {
    let mut merged: Vec<Span<'static>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if last.style == span.style => last.content.to_mut().push_str(&span.content),
            Some(_) | None => merged.push(span),
        }
    }
    merged
}

/// An address without the punctuation of the sentence around it.
fn without_end(address: &str) -> &str {
    let mut address = address;
    loop {
        let shorter = address.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~']);
        let unopened = |open, close| {
            shorter.ends_with(close)
                && shorter.matches(open).count() < shorter.matches(close).count()
        };
        let shorter = match unopened('(', ')') || unopened('[', ']') {
            true => &shorter[..shorter.len() - 1],
            false => shorter,
        };
        if shorter.len() == address.len() {
            return address;
        }
        address = shorter;
    }
}

/// Whether a click on it only opens a page or writes a mail, and its characters are what they look
/// like.
fn is_harmless(address: &str) -> bool {
    let schemes = ["https://", "http://", "mailto:"];
    let rest = schemes.iter().find_map(|scheme| {
        let start = address.get(..scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then(|| &address[scheme.len()..])
    });
    rest.is_some_and(|rest| !rest.is_empty())
        && address.len() <= LONGEST
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

/// Whether a text could be taken for an address or a file. The true address of its link is shown
/// then.
pub(crate) fn looks_like_address(text: &str) -> bool {
    !text.chars().all(|c| c.is_alphanumeric() || " -_,'\"()!?&+#".contains(c))
        || text.trim_start().get(..3).is_some_and(|start| start.eq_ignore_ascii_case("www"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_and_mails_are_opened() {
        let links = Hyperlinks::default();
        let plain = Style::new();
        for (address, opens) in [
            ("https://a.b/c?d=e#f", true),
            ("HTTP://a.b", true),
            ("mailto:a@b.c", true),
            ("https://", false),
            ("file:///etc/passwd", false),
            ("javascript:alert(1)", false),
            ("vscode://x", false),
            ("src/main.rs", false),
            ("https://a.b/\u{1b}]8;;\u{7}", false),
            ("https://a.b/ c", false),
            ("https://аpple.com", false),
            ("https://a.b/\u{202e}", false),
        ] {
            assert_eq!(links.style(plain, address).is_some(), opens, "{address:?}");
        }
        assert!(links.style(plain, &format!("https://{}", "a".repeat(LONGEST))).is_none());
        let style = links.style(plain, "https://a.b/c?d=e#f").unwrap();
        assert_eq!(links.address(style), Some((0, "https://a.b/c?d=e#f".into())));
        assert_eq!(links.address(plain), None);
        assert_eq!(Hyperlinks::default().address(style), None);
        for n in 0..MAX_ADDRESSES {
            links.style(plain, &format!("https://a.b/{n}"));
        }
        assert!(links.style(plain, "https://one.more").is_none());
        assert_eq!(links.style(plain, "https://a.b/c?d=e#f"), Some(style));
    }

    #[test]
    fn addresses_in_text_are_links_whole() {
        let links = Hyperlinks::default();
        let linked = |texts: &[(&str, bool)]| {
            let style = |bold| if bold { Style::new().bold() } else { Style::new() };
            let spans =
                texts.iter().map(|(text, bold)| Span::styled((*text).to_owned(), style(*bold)));
            let spans = links.linked(spans.collect(), Style::new());
            let texts = spans.iter().map(|span| span.content.as_ref());
            assert_eq!(
                texts.collect::<String>(),
                spans.iter().map(|s| s.content.as_ref()).collect::<String>()
            );
            let addresses = spans.iter().filter_map(|span| {
                let (_, address) = links.address(span.style)?;
                assert_eq!(*address, *span.content);
                Some(address.to_string())
            });
            addresses.collect::<Vec<_>>()
        };
        for (text, expected) in [
            ("see https://a.b/c_d, and (http://e.f/g).", &["https://a.b/c_d", "http://e.f/g"][..]),
            ("https://a.b/x_(y) https://c.d/[1]", &["https://a.b/x_(y)", "https://c.d/[1]"]),
            // a character that was escaped, or that is not ASCII: a part would be another address
            ("https://a.b/\\u{202e}x https://a.b/ä", &[]),
            ("nohttps://a.b https://", &[]),
            ("\"https://a.b\"", &["https://a.b"]),
        ] {
            assert_eq!(linked(&[(text, false)]), expected, "{text:?}");
        }
        assert_eq!(linked(&[("https://a.b/c", false), ("_d", false)]), ["https://a.b/c_d"]);
        assert!(linked(&[("https://a.b/c", false), ("d", true)]).is_empty());
        assert_eq!(linked(&[("https://a.b/c ", false), ("d", true)]), ["https://a.b/c"]);
    }

    #[test]
    fn a_text_that_looks_like_an_address_is_known() {
        for (text, looks) in [
            ("the manual", false),
            ("Größe (2)", false),
            ("google.com", true),
            ("google․com", true),
            ("WWW google com", true),
            ("a@b", true),
            ("http:x", true),
            ("src/main", true),
        ] {
            assert_eq!(looks_like_address(text), looks, "{text:?}");
        }
    }
}
