//! The look of text: the styles, the width, and the characters that the terminal has.

use std::sync::Arc;

use ratatui::style::Style;
use ratatui::text::Line;

use super::lines;
use super::theme::Theme;

/// The properties of the terminal.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) theme: Arc<Theme>,
    /// Columns that may be filled.
    pub(super) width: usize,
    /// Whether there are characters beyond ASCII.
    pub(super) unicode: bool,
}

impl Look {
    /// One of two signs: the second one is ASCII.
    pub(super) fn sign(&self, sign: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { sign } else { ascii }
    }

    pub(super) fn note(&self, style: Style, text: &str) -> Vec<Line<'static>> {
        lines::note(style, text, self.width)
    }

    pub(super) fn exact(&self, begin: (Style, &str), line: (Style, &str)) -> Vec<Line<'static>> {
        lines::exact(begin, line, self.theme.dim, self.width)
    }

    /// The style of a line of a diff.
    pub(super) fn of_change(&self, line: &str) -> Style {
        match line.chars().next() {
            Some('+') => self.theme.added,
            Some('-') => self.theme.removed,
            _ => self.theme.dim,
        }
    }
}
