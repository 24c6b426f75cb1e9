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

/// Says at which character the first of these lines differs that may look like the line searched for, because the character
/// is not ASCII. Each row has the number of a line, its text and the text searched for.
pub(crate) fn hint<'a>(
    mut rows: impl Iterator<Item = (usize, &'a str, &'a str)>,
) -> Option<String> {
    let differing = |(number, line, wanted): (usize, &str, &str)| {
        let (mut found, mut wanted) = (line.chars(), wanted.chars());
        let pair = loop {
            match (found.next(), wanted.next()) {
                (None, None) => return None,
                (a, b) if a == b => {}
                pair => break pair,
            }
        };
        let is_odd = [pair.0, pair.1].into_iter().flatten().any(|c| !c.is_ascii());
        is_odd.then(|| {
            let [found, wanted] = [pair.0, pair.1].map(named);
            format!("Line {number} has {found} where the given text has {wanted}.")
        })
    };
    rows.find_map(differing)
}

/// A character by its number in Unicode, and itself if it can be seen.
fn named(c: Option<char>) -> String {
    match c {
        None => "its end".to_owned(),
        Some(c) if c.is_alphanumeric() || c.is_ascii_graphic() => {
            format!("U+{:04X} ({c})", u32::from(c))
        }
        Some(c) => format!("U+{:04X}", u32::from(c)),
    }
}

/// Whether the character belongs to the one before: a combining mark, or a later part of a Korean syllable.
fn combines(c: char) -> bool {
    !c.is_ascii() && (canonical_combining_class(c) != 0 || matches!(c, '\u{1160}'..='\u{11ff}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_that_cannot_be_seen_is_named() {
        for (line, wanted, said) in [
            (
                "pay",
                "p\u{430}y",
                "Line 7 has U+0061 (a) where the given text has U+0430 (\u{430}).",
            ),
            ("a\u{200b}b", "ab", "Line 7 has U+200B where the given text has U+0062 (b)."),
            ("x…", "x", "Line 7 has U+2026 where the given text has its end."),
            ("pay", "say", ""),
            ("é", "é", ""),
        ] {
            assert_eq!(hint([(7, line, wanted)].into_iter()).unwrap_or_default(), said, "{line}");
        }
    }

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
