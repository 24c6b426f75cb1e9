//! The look of text: the styles, the width, and the characters that the terminal has.

use std::borrow::Cow;
use std::sync::Arc;

use leftfold_config::{Key, KeyAction, Keymap};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::render::wrap;
use super::theme::Theme;

/// The text for a terminal that shows only ASCII, with the same width.
pub(super) fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for cluster in text.graphemes(true) {
        let sign = match cluster {
            ascii if ascii.is_ascii() => ascii,
            "›" | "▸" | "→" | "↪" => ">",
            "─" | "–" | "—" | "├" | "└" | "·" => "-",
            "•" | "✻" => "*",
            "│" => "|",
            "┼" | "✓" => "+",
            "✗" => "x",
            "▾" => "v",
            "…" => ".",
            "⋮" => ":",
            "‘" | "’" => "'",
            "“" | "”" => "\"",
            other => {
                shown.extend(std::iter::repeat_n('?', other.width()));
                continue;
            }
        };
        shown.push_str(sign);
    }
    Cow::Owned(shown)
}

/// The properties of the terminal.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) theme: Arc<Theme>,
    /// Columns that may be filled.
    pub(super) width: usize,
    /// Whether there are characters beyond ASCII.
    pub(super) unicode: bool,
    /// The keys, which texts name.
    pub(super) keys: Arc<Keymap>,
}

impl Look {
    /// One of two signs: the second one is ASCII.
    pub(super) fn sign(&self, sign: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { sign } else { ascii }
    }

    /// The first key of an action, as people write it; `None`: it has no key.
    pub(super) fn key(&self, action: KeyAction) -> Option<String> {
        self.keys.keys(action).first().copied().map(Key::label)
    }

    /// Follows what was shown in part.
    pub(super) fn unfolds(&self) -> String {
        let key = self.key(KeyAction::Expand);
        key.map(|key| format!(" ({key} shows it)")).unwrap_or_default()
    }

    /// Follows the number of lines that are left out.
    pub(super) fn shows_all(&self) -> String {
        let key = self.key(KeyAction::Expand);
        key.map(|key| format!(", {key} shows all")).unwrap_or_default()
    }

    /// The columns of finished text.
    pub(super) fn measure(&self) -> usize {
        self.width.min(wrap::MEASURE)
    }

    pub(super) fn note(&self, style: Style, text: &str) -> Vec<Line<'static>> {
        wrap::note(text, style, self.measure())
    }

    /// A line to decide on, after `begin`: nothing of it is left out.
    pub(super) fn exact(&self, begin: (Style, &str), line: (Style, &str)) -> Vec<Line<'static>> {
        let ((begin_style, begin), (style, text)) = (begin, line);
        let begin = Span::styled(begin.to_owned(), begin_style);
        wrap::exact(begin, text, style, self.theme.dim, self.measure())
    }

    /// The columns of finished text, as the renderers take them.
    pub(super) fn columns(&self) -> u16 {
        u16::try_from(self.measure()).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_without_unicode_gets_signs_of_the_same_width() {
        for (text, shown) in [
            ("› a · b…", "> a - b."),
            ("│ ü 漢 │", "| ? ?? |"),
            ("e\u{301}👩‍👩‍👧", "???"),
            ("plain", "plain"),
        ] {
            assert_eq!(ascii(text), shown);
            assert_eq!(ascii(text).width(), text.width(), "{text:?}");
        }
    }
}
