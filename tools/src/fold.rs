//! Compares texts that look alike: they differ in Unicode normalization, or in typographic spaces, quotes and dashes.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// The plain character that a typographic space, quote or dash stands for.
pub(crate) fn plain(c: char) -> char {
    match c {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

/// The text in normalization form D with plain spaces, quotes and dashes. Texts that look alike are equal.
pub(crate) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() { text.into() } else { text.nfd().map(plain).collect::<String>().into() }
}

/// The parts of a text whose folded forms make up its folded form: a character with the marks that combine with it.
pub(crate) fn clusters(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut chars = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = chars.next()?;
        let mut end = start + first.len_utf8();
        while let Some((at, c)) = chars.next_if(|(_, c)| combines(*c)) {
            end = at + c.len_utf8();
        }
        Some(start..end)
    })
}

/// Whether the character belongs to the one before: a combining mark, or a later part of a Korean syllable.
fn combines(c: char) -> bool {
    !c.is_ascii() && (canonical_combining_class(c) != 0 || matches!(c, '\u{1160}'..='\u{11ff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_look_alike_are_equal_and_others_are_not() {
        for (a, b, equal) in [
            ("Café", "Cafe\u{301}", true),
            ("한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}", true),
            ("a\u{323}\u{307}", "a\u{307}\u{323}", true),
            ("“x” – ‘y’", "\"x\" - 'y'", true),
            ("1.37\u{202f}PM", "1.37 PM", true),
            ("Cafe", "Café", false),
            ("a b", "ab", false),
            ("ﬁ", "fi", false),
        ] {
            assert_eq!(folded(a) == folded(b), equal, "{a} {b}");
            let parts = clusters(a).map(|part| folded(&a[part]).into_owned());
            assert_eq!(parts.collect::<String>(), folded(a), "{a}");
        }
    }
}
