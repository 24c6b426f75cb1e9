//! Fuzzy search in short texts: the letters of each word of a query in their order, with others
//! between them.

use frizbee::{CaseMatching, Config, Match, Matcher, Pattern, PatternConfig};
use ratatui::style::Style;
use ratatui::text::Span;
use unicode_segmentation::UnicodeSegmentation;

/// Letters of a query that count.
const LONGEST: usize = 100;

/// A query. A capital letter in it makes case count.
#[derive(Debug)]
pub(crate) struct Query {
    matcher: Matcher,
    is_empty: bool,
}

/// A text that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Its index in the list.
    pub(crate) index: usize,
    pub(crate) score: u16,
}

impl Query {
    pub(crate) fn new(query: &str) -> Self {
        let query: String = query.chars().take(LONGEST).collect();
        // no operators: every character stands for itself
        let word = |word| Pattern::new(word, PatternConfig::default());
        let patterns: Vec<Pattern> = query.split_whitespace().map(word).collect();
        let casing = CaseMatching::Smart;
        let config = Config { max_typos: Some(0), casing, ..Config::default() };
        Self { matcher: Matcher::from_patterns(&patterns, &config), is_empty: patterns.is_empty() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// The texts that match, the best first; all of them in their order for an empty query.
    pub(crate) fn search(&mut self, texts: &[impl AsRef<str>]) -> Vec<Hit> {
        let hit = |found: Match| {
            Some(Hit { index: usize::try_from(found.index).ok()?, score: found.score })
        };
        self.matcher.match_list(texts).into_iter().filter_map(hit).collect()
    }

    /// The text with its matching characters in a style of their own.
    pub(crate) fn marked(
        &mut self,
        text: &str,
        style: Style,
        matched: Style,
    ) -> Vec<Span<'static>> {
        let found = self.matcher.match_one_indices(text, 0).filter(|_| !self.is_empty);
        let places = found.map(|found| found.indices).unwrap_or_default();
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (at, cluster) in text.grapheme_indices(true) {
            let range = at..at + cluster.len();
            let is_match = places
                .iter()
                .any(|place| usize::try_from(*place).is_ok_and(|place| range.contains(&place)));
            let style = if is_match { style.patch(matched) } else { style };
            match spans.last_mut() {
                Some(last) if last.style == style => last.content.to_mut().push_str(cluster),
                Some(_) | None => spans.push(Span::styled(cluster.to_owned(), style)),
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_found_in_their_order() {
        let found = |query: &str, texts: &[&str]| -> Vec<usize> {
            Query::new(query).search(texts).iter().map(|hit| hit.index).collect()
        };
        let texts =
            ["src/main.rs", "docs/sessions.md", "tests/main/mod.rs", "Makefile", "größe.txt"];
        assert_eq!(found("", &texts), [0, 1, 2, 3, 4]);
        assert_eq!(found("zzz", &texts), Vec::<usize>::new());
        assert_eq!(found("mainrs", &texts)[0], 0);
        assert_eq!(found("main mod", &texts), [2]);
        assert_eq!(found("Make", &texts), [3]);
        assert_eq!(found("MAKE", &texts), Vec::<usize>::new());
        assert_eq!(found("größe", &texts), [4]);
        // no operators
        assert_eq!(found("!main", &["!main", "other"]), [0]);
        assert_eq!(found(&"a".repeat(10_000), &["a"]), Vec::<usize>::new());
    }

    #[test]
    fn matching_characters_are_marked() {
        let bold = Style::new().bold();
        let marked = |query: &str, text: &str| -> Vec<(String, bool)> {
            let spans = Query::new(query).marked(text, Style::new(), bold);
            spans.iter().map(|span| (span.content.to_string(), span.style == bold)).collect()
        };
        let piece = |text: &str, is_match| (text.to_owned(), is_match);
        assert_eq!(marked("ac", "abc"), [piece("a", true), piece("b", false), piece("c", true)]);
        assert_eq!(marked("", "abc"), [piece("abc", false)]);
        assert_eq!(marked("ö", "aöb"), [piece("a", false), piece("ö", true), piece("b", false)]);
    }
}
