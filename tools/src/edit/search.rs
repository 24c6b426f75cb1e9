//! What the strategies are given, and what they answer.

use std::cell::Cell;

use memchr::memmem;

use super::ending::Ending;
use super::source::{Source, Span};

/// Steps that one strategy may take where its work is not linear. A step is about a nanosecond.
const STEPS: u64 = 12_000_000;

/// A text and what is looked for in it.
#[derive(Debug)]
pub(super) struct Search<'a> {
    pub(super) file: Source<'a>,
    pub(super) old: Source<'a>,
    pub(super) ending: Ending,
    steps: Cell<u64>,
}

/// A place that may be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) span: Span,
    /// Whole lines, without the ending of the last: they are replaced as lines.
    pub(super) lines: bool,
}

pub(super) type Candidates<'a> = Box<dyn Iterator<Item = Candidate> + 'a>;

impl<'a> Search<'a> {
    /// `old` has the file's line endings.
    pub(super) fn new(body: &'a str, old: &'a str, ending: Ending) -> Self {
        let (file, old) = (Source::new(body), Source::new(old));
        Self { file, old, ending, steps: Cell::new(STEPS) }
    }

    /// A strategy begins with all its steps.
    pub(super) fn begin(&self) {
        self.steps.set(STEPS);
    }

    /// Takes steps; `false` when there are none left, and the strategy has to give up.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.steps.get().saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
        self.steps.set(left);
        left > 0
    }

    pub(super) fn spent(&self) -> bool {
        self.steps.get() == 0
    }

    /// Only white space: nothing but exactly this can be meant.
    pub(super) fn is_blank(&self) -> bool {
        self.old.text.trim().is_empty()
    }

    /// Whether the candidate's text stands nowhere else in the file.
    pub(super) fn once(&self, candidate: &Candidate) -> bool {
        let body = self.file.text.as_bytes();
        let text = &body[candidate.span.clone()];
        memmem::find(body, text) == memmem::rfind(body, text)
    }

    /// The `count` lines from `first` on.
    pub(super) fn block(&self, first: usize, count: usize) -> Candidate {
        let lines = self.file.lines();
        let span = lines[first].whole.start..lines[first + count - 1].whole.end;
        Candidate { span, lines: true }
    }
}

impl Candidate {
    pub(super) fn part(span: Span) -> Self {
        Self { span, lines: false }
    }
}
