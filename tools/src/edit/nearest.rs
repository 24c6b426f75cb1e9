//! Finds the lines of a file most similar to text that was not found in it.

use std::collections::HashMap;
use std::ops::Range;

use super::search::Search;

/// Most lines that are searched for and shown.
const QUOTE: usize = 10;

/// Most lines of the file that are searched.
const LOOK_AT: usize = 50_000;

/// Most words of a line that are compared.
const WORDS: usize = 30;

/// Most bytes of a line that are compared and shown.
pub(super) const LONGEST: usize = 500;

/// Least score worth showing: nearly half of one line.
const ENOUGH: f32 = 0.4;

/// Indexes of the most similar lines. They are scored by the words that they share with each line
/// searched for at its expected position. Rough, but linear.
pub(super) fn lines(search: &Search<'_>) -> Option<Range<usize>> {
    let blank = (0..search.old.count()).take_while(|line| search.old.is_blank(*line)).count();
    let wanted = SearchedLines::new(search, blank);
    let count = search.file.count().min(LOOK_AT);
    // scores by the position of the first line searched for, up to QUOTE lines before the file
    let mut scores = vec![0.0_f32; count + QUOTE];
    for line in 0..count {
        for (nth, like) in wanted.likeness(search.file.trimmed(line)).into_iter().enumerate() {
            scores[line + QUOTE - nth] += like;
        }
    }
    let best = scores.iter().copied().fold(0.0, f32::max);
    let start = scores.iter().position(|score| *score >= best)?;
    let end = (start + wanted.lines.len()).saturating_sub(QUOTE).min(count);
    (best >= ENOUGH).then(|| start.saturating_sub(QUOTE)..end)
}

struct SearchedLines<'a> {
    lines: Vec<&'a str>,
    /// Number of words in each line.
    sizes: Vec<usize>,
    /// The lines that contain each word.
    having: HashMap<&'a str, Vec<usize>>,
}

impl<'a> SearchedLines<'a> {
    fn new(search: &Search<'a>, from: usize) -> Self {
        let lines: Vec<&'a str> =
            (from..search.old.count()).take(QUOTE).map(|line| search.old.trimmed(line)).collect();
        let mut having: HashMap<&'a str, Vec<usize>> = HashMap::new();
        let mut sizes = vec![0; lines.len()];
        for (nth, line) in lines.iter().enumerate() {
            for word in words(line) {
                having.entry(word).or_default().push(nth);
                sizes[nth] += 1;
            }
        }
        having.values_mut().for_each(Vec::dedup);
        Self { lines, sizes, having }
    }

    /// A score from 0 to 1 for each of the lines.
    fn likeness(&self, line: &str) -> Vec<f32> {
        let (mut shared, mut size) = (vec![0; self.lines.len()], 0);
        for word in words(line) {
            size += 1;
            self.having.get(word).into_iter().flatten().for_each(|nth| shared[*nth] += 1);
        }
        let like = |nth: usize| match (self.lines[nth] == line, size) {
            // an equal line without words, such as a brace, says little
            (true, 0) => 0.1,
            (true, _) => 1.0,
            (false, _) => 0.99 * ratio(2 * shared[nth], size + self.sizes[nth]),
        };
        (0..self.lines.len()).map(like).collect()
    }
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    let start = &line[..crate::text::floor(line, LONGEST)];
    start.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).take(WORDS)
}

#[expect(clippy::cast_precision_loss, reason = "at most twice as many words as a line may have")]
fn ratio(part: usize, whole: usize) -> f32 {
    (part as f32 / whole.max(1) as f32).min(1.0)
}
