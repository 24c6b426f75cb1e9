//! The input of the matching strategies, and their results.

use std::cell::{Cell, OnceCell};

use super::ending::Ending;
use super::ids::Ids;
use super::source::{Source, Span};

/// Steps that one strategy may take where its work is not linear. A step takes about a nanosecond.
const STEPS: u64 = 6_000_000;

/// A text, and the text to find in it.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) file: Source<'a>,
    pub(super) old: Source<'a>,
    pub(super) ending: Ending,
    numbers: OnceCell<Numbers>,
    steps: Cell<u64>,
}

/// The number of each line's trimmed text.
#[derive(Debug)]
struct Numbers {
    file: Vec<u32>,
    old: Vec<u32>,
}

/// A place that may be the one to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) span: Span,
    /// Whether the place is whole lines, without the last line ending. They are replaced as lines.
    pub(super) lines: bool,
}

pub(super) type Candidates<'a> = Box<dyn Iterator<Item = Candidate> + 'a>;

impl<'a> Search<'a> {
    /// Starts a search. `old` must have the file's line endings.
    pub(super) fn new(body: &'a str, old: &'a str, ending: Ending) -> Self {
        let (file, old) = (Source::new(body), Source::new(old));
        Self { file, old, ending, numbers: OnceCell::new(), steps: Cell::new(STEPS) }
    }

    fn numbers(&self) -> &Numbers {
        self.numbers.get_or_init(|| {
            let ids = Ids::new((0..self.old.count()).map(|line| self.old.trimmed(line)));
            let all =
                |source: &Source<'a>| ids.all((0..source.count()).map(|line| source.trimmed(line)));
            Numbers { file: all(&self.file), old: all(&self.old) }
        })
    }

    /// The number of each line's trimmed text in the file, as in [`Self::searched_lines`]. Lines
    /// that are not searched for have a number that occurs in no searched line.
    pub(super) fn file_lines(&self) -> &[u32] {
        &self.numbers().file
    }

    /// The number of each searched line's trimmed text.
    pub(super) fn searched_lines(&self) -> &[u32] {
        &self.numbers().old
    }

    /// Gives a strategy all its steps.
    pub(super) fn begin(&self) {
        self.steps.set(STEPS);
    }

    /// Uses up steps. Returns `false` if none are left; the strategy must then give up.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
        self.steps.set(left);
        left > 0
    }

    pub(super) fn spent(&self) -> bool {
        self.steps.get() == 0
    }

    /// Whether the text is only white space. Then only an exact match can be meant.
    pub(super) fn is_blank(&self) -> bool {
        self.old.text.trim().is_empty()
    }

    /// The `count` lines from `first` on.
    pub(super) fn block(&self, first: usize, count: usize) -> Candidate {
        let (first, last) = (self.file.whole_span(first), self.file.whole_span(first + count - 1));
        Candidate { span: first.start..last.end, lines: true }
    }
}

impl Candidate {
    pub(super) fn part(span: Span) -> Self {
        Self { span, lines: false }
    }
}
