//! Fuzzy search in short texts: the letters of each word of a query in their order, with others
//! between them. Letters score more at the begin of a word and next to each other.

use ratatui::style::Style;
use ratatui::text::Span;
use unicode_segmentation::UnicodeSegmentation;

/// Letters of a query that count.
const LONGEST: usize = 100;

const LETTER: i32 = 16;
/// For a letter that begins a word of the text.
const BEGINS_WORD: i32 = 8;
/// For a letter after the one before it in the query.
const FOLLOWS: i32 = 6;
/// For each letter of the text between two of the query: the first, and each further one.
const GAP: i32 = -3;
const LONGER_GAP: i32 = -1;
/// Less than every score.
const NONE: i32 = i32::MIN / 2;

/// A query. A capital letter in it makes case count.
#[derive(Debug)]
pub(crate) struct Query {
    words: Vec<Vec<char>>,
    is_cased: bool,
    // of the text at hand, and of each letter of the word (one row) at each of its letters
    text: Vec<Letter>,
    scores: Vec<i32>,
}

#[derive(Clone, Copy, Debug)]
struct Letter {
    at: usize,
    /// In lower case, unless case counts.
    letter: char,
    begins_word: bool,
}

/// A text that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// Its index in the list.
    pub(crate) index: usize,
    pub(crate) score: i32,
}

impl Query {
    pub(crate) fn new(query: &str) -> Self {
        let query: String = query.chars().take(LONGEST).collect();
        let words = query.split_whitespace().map(|word| word.chars().collect()).collect();
        let is_cased = query.contains(char::is_uppercase);
        Self { words, is_cased, text: Vec::new(), scores: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The texts that match, the best first; all of them in their order for an empty query.
    pub(crate) fn search(&mut self, texts: &[impl AsRef<str>]) -> Vec<Hit> {
        let mut hits = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            self.read(text.as_ref());
            let scores: Option<Vec<i32>> =
                (0..self.words.len()).map(|word| self.score(word)).collect();
            hits.extend(scores.map(|scores| Hit { index, score: scores.iter().sum() }));
        }
        hits.sort_by_key(|hit| std::cmp::Reverse(hit.score));
        hits
    }

    fn read(&mut self, text: &str) {
        self.text.clear();
        let mut before = None;
        for (at, letter) in text.char_indices() {
            let begins_word = before.is_none_or(|before: char| {
                !before.is_alphanumeric() || before.is_lowercase() && letter.is_uppercase()
            });
            before = Some(letter);
            let mut lower = letter.to_lowercase();
            let lower = lower.next().filter(|_| lower.next().is_none());
            let letter = if self.is_cased { letter } else { lower.unwrap_or(letter) };
            self.text.push(Letter { at, letter, begins_word });
        }
    }

    /// The score of the best place of a word in the text, as [`read`](Self::read).
    fn score(&mut self, word: usize) -> Option<i32> {
        let word = &self.words[word];
        let mut letters = self.text.iter();
        if !word.iter().all(|wanted| letters.any(|found| found.letter == *wanted)) {
            return None;
        }
        let columns = self.text.len();
        self.scores.clear();
        self.scores.resize(word.len() * columns, NONE);
        for (row, wanted) in word.iter().enumerate() {
            // the best that the letters before can have, with the gap up to here
            let mut apart = NONE;
            for (column, found) in self.text.iter().enumerate() {
                let before = |back| match row.checked_sub(1).zip(column.checked_sub(back)) {
                    Some((row, column)) => self.scores[row * columns + column],
                    None => NONE,
                };
                apart = (apart + LONGER_GAP).max(before(2) + GAP);
                if found.letter == *wanted {
                    let first = if row == 0 { 0 } else { NONE };
                    let best = first.max(before(1) + FOLLOWS).max(apart);
                    let begin = if found.begins_word { BEGINS_WORD } else { 0 };
                    self.scores[row * columns + column] = (best + LETTER + begin).max(NONE);
                }
            }
        }
        self.scores[(word.len() - 1) * columns..].iter().copied().max()
    }

    /// Where the letters of the word that [`score`](Self::score) was asked for are in the text.
    fn places(&self, word: usize) -> Vec<usize> {
        let columns = self.text.len();
        let mut end = columns;
        let mut places = Vec::new();
        for row in (0..self.words[word].len()).rev() {
            let worth = |column: &usize| {
                let gap = match i32::try_from(end - column - 1).unwrap_or(i32::MAX) {
                    _ if end == columns => 0,
                    0 => FOLLOWS,
                    between => GAP + (between - 1) * LONGER_GAP,
                };
                self.scores[row * columns + column].saturating_add(gap)
            };
            // the first of equals
            let Some(column) = (0..end).rev().max_by_key(worth) else { break };
            places.push(self.text[column].at);
            end = column;
        }
        places
    }

    /// The text with its matching characters in a style of their own.
    pub(crate) fn marked(
        &mut self,
        text: &str,
        style: Style,
        matched: Style,
    ) -> Vec<Span<'static>> {
        self.read(text);
        let mut places = Vec::new();
        for word in 0..self.words.len() {
            if self.score(word).is_none() {
                places.clear();
                break;
            }
            places.extend(self.places(word));
        }
        let mut spans: Vec<Span<'static>> = Vec::new();
        for (at, cluster) in text.grapheme_indices(true) {
            let range = at..at + cluster.len();
            let is_match = places.iter().any(|place| range.contains(place));
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
        assert_eq!(found("GRÖSSE", &["grösse", "GRÖSSE"]), [1]);
        // no operators
        assert_eq!(found("!main", &["!main", "other"]), [0]);
        assert_eq!(found(&"a".repeat(10_000), &["a"]), Vec::<usize>::new());
        assert_eq!(found("a", &[""]), Vec::<usize>::new());
        // the begin of words, letters together, short gaps
        assert_eq!(found("mod", &["src/model/x.rs", "comodo", "m_o_d", "mxxoxxd"]), [0, 2, 1, 3]);
        assert_eq!(found("fB", &["fubar", "fooBar", "xfB"]), [2, 1]);
    }

    /// A large repository: its list is searched again for each letter that a person types.
    #[test]
    fn long_lists_and_long_texts_are_searched_at_once() {
        let paths: Vec<String> =
            (0..50_000).map(|n| format!("crates/part_{}/src/module_{n}.rs", n % 100)).collect();
        let began = std::time::Instant::now();
        assert_eq!(Query::new("crsrmod49999").search(&paths)[0].index, 49_999);
        let long = "ab".repeat(50_000);
        assert_eq!(Query::new(&"a".repeat(10_000)).search(&[&long]).len(), 1);
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
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
        // the begin of a word rather than the first letter
        assert_eq!(marked("b", "ab b"), [piece("ab ", false), piece("b", true)]);
        assert_eq!(
            marked("ba xy", "ab.ba x-y"),
            [
                piece("ab.", false),
                piece("ba", true),
                piece(" ", false),
                piece("x", true),
                piece("-", false),
                piece("y", true),
            ],
        );
        assert_eq!(marked("ab xz", "ab x"), [piece("ab x", false)]);
        assert_eq!(marked("ö", "aöb"), [piece("a", false), piece("ö", true), piece("b", false)]);
    }
}
