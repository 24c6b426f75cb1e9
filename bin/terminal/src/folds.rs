//! Texts that the screen has shown in part: output of tools, changes, reasoning, summaries. A key shows
//! each whole, below what is finished, because finished lines never change.

use std::collections::VecDeque;
use std::sync::Arc;

use leftfold_events::event::Finished;
use leftfold_view::FileDiff;
use leftfold_view::clean::{clean, clean_line, clip};
use leftfold_view::words::counted;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::look::Look;
use super::render::{self, DiffOptions};

/// The texts that are kept.
const MAX_TEXTS: usize = 50;
/// Lines of one text to show. Results are far shorter; this bounds what a server of others may send.
const LONGEST: usize = 20_000;
/// The prefix of each line.
const INDENT: &str = "  ";

/// A text that was shown in part.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    /// The title, in one line.
    pub(super) heading: String,
    pub(super) body: Body,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    Output(Arc<Finished>),
    Diff(Vec<FileDiff>),
    Reasoning(String),
    Markdown(String),
    /// Text as it is.
    Plain(String),
}

/// The last texts that were shown in part.
#[derive(Debug, Default)]
pub(super) struct Folds {
    folds: VecDeque<Fold>,
    /// How many of them, from the last one, have been shown whole.
    shown: usize,
}

impl Folds {
    pub(super) fn add(&mut self, fold: Fold) {
        self.folds.push_back(fold);
        if self.folds.len() > MAX_TEXTS {
            self.folds.pop_front();
        }
        self.shown = 0;
    }

    /// The last one; if asked again, the one before. `None` if there is no other.
    pub(super) fn next(&mut self) -> Option<&Fold> {
        let place = self.folds.len().checked_sub(self.shown + 1)?;
        self.shown += 1;
        self.folds.get(place)
    }

    /// Whether there is one that was not shown.
    pub(super) fn has_next(&self) -> bool {
        self.shown < self.folds.len()
    }
}

impl Fold {
    /// All lines, whole. The terminal wraps those of output that are longer than the screen.
    pub(super) fn lines(&self, look: &Look) -> Vec<Line<'static>> {
        let theme = &look.theme;
        let columns = look.columns().saturating_sub(u16::try_from(INDENT.len()).unwrap_or(0));
        let mut lines = match &self.body {
            Body::Output(finished) => {
                let text = clean(&finished.output);
                let lines = text.trim_end().lines();
                lines.map(|line| Line::from(Span::styled(line.to_owned(), theme.dim))).collect()
            }
            Body::Plain(text) => {
                text.split('\n').map(|line| Line::from(Span::raw(line.to_owned()))).collect()
            }
            Body::Diff(files) => {
                let options = DiffOptions { names: files.len() > 1, ..DiffOptions::WHOLE };
                render::diff(files, options, columns, theme)
            }
            Body::Reasoning(text) => {
                let mut lines = render::markdown(&clean(text), columns, theme);
                let spans = lines.iter_mut().flat_map(|line| &mut line.spans);
                spans.for_each(|span| span.style = theme.dim.patch(span.style));
                lines
            }
            Body::Markdown(text) => render::markdown(&clean(text), columns, theme),
        };
        let count = lines.len();
        let hidden = count.saturating_sub(LONGEST);
        lines.truncate(LONGEST);
        lines.iter_mut().for_each(|line| line.spans.insert(0, Span::raw(INDENT)));
        let sign = look.sign("▾ ", "v ");
        let heading = theme.with(theme.text, Modifier::BOLD);
        let note = format!("  {}", counted(count, "line"));
        let room = look.width.saturating_sub(note.width());
        let heading = Line::from(vec![
            Span::styled(clip(&format!("{sign}{}", clean_line(&self.heading)), room), heading),
            Span::styled(note, theme.dim),
        ]);
        lines.insert(0, heading);
        if hidden > 0 {
            let more = format!("{INDENT}… {} not shown", counted(hidden, "more line"));
            lines.push(Line::from(Span::styled(more, theme.warning)));
        }
        lines
    }
}
