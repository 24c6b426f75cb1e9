//! The text that the user writes: an editor with the actions of readline. It neither draws on a terminal nor knows what
//! becomes of the text.
//!
//! A long paste is one character of the text to the editor, and is shown as `[pasted 40 lines]`.

use std::borrow::Cow;
use std::ops::Range;

use leftfold_config::KeyAction;
use leftfold_view::clean::Cleaner;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The first of the private characters that stand for long pastes.
const FOLDED: u32 = 0xF_0000;
/// The most long pastes in one text; later ones are shown whole.
const MAX_FOLDED: usize = 1_000;
/// A paste with more lines or bytes than this is folded.
const LONG_LINES: usize = 6;
const LONG_BYTES: usize = 1_000;
/// The number of changes that can be undone.
const UNDONE: usize = 200;

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// The text or the cursor changed.
    Done,
    /// Up in the first row, or Down in the last one.
    Above,
    Below,
    /// The key means nothing here.
    Unknown,
}

/// A row of the text on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    /// Each piece, and whether it stands for a long paste.
    pub(super) pieces: Vec<(String, bool)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Composer {
    /// With one private character for each long paste.
    text: String,
    /// A byte index at the start of a grapheme, or the end.
    cursor: usize,
    pastes: Vec<String>,
    /// The text that was last cut.
    cut: String,
    undo: Vec<(String, usize)>,
    /// Whether the last edit inserted a character of a word: such edits are undone together.
    typing: bool,
}

impl Composer {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text.trim().is_empty()
    }

    /// The text with its long pastes in full.
    pub(super) fn text(&self) -> String {
        let mut whole = String::with_capacity(self.text.len());
        for c in self.text.chars() {
            match folded(c).and_then(|at| self.pastes.get(at)) {
                Some(paste) => whole.push_str(paste),
                None => whole.push(c),
            }
        }
        whole
    }

    /// The text before the cursor, with one private character for each long paste.
    pub(super) fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    /// Replaces these bytes of the text before the cursor, which is then after that text.
    pub(super) fn replace_before(&mut self, range: Range<usize>, text: &str) {
        let mut text = cleaned(text);
        // no second blank before one that is there
        if text.ends_with(' ') && self.text[range.end..].starts_with(' ') {
            text.pop();
        }
        self.remember(false);
        self.cursor = range.start + text.len();
        self.text.replace_range(range, &text);
    }

    /// Removes the text and answers it in full. The removal can be undone.
    pub(super) fn take(&mut self) -> String {
        let text = self.text();
        self.remember(false);
        self.text.clear();
        self.cursor = 0;
        text
    }

    /// Replaces the text; the cursor is at its end. Long lines of it are not folded.
    pub(super) fn set(&mut self, text: &str) {
        self.remember(false);
        self.text = cleaned(text);
        self.cursor = self.text.len();
    }

    /// Puts text before the one that is there, with an empty line between them.
    pub(super) fn put_before(&mut self, text: &str) {
        let text = cleaned(text);
        if text.trim().is_empty() {
            return;
        }
        self.remember(false);
        let separator = if self.is_blank() { "" } else { "\n" };
        let before = format!("{text}{separator}");
        self.cursor += before.len();
        self.text.insert_str(0, &before);
        if separator.is_empty() {
            self.cursor = self.text.len();
        }
    }

    pub(super) fn insert(&mut self, text: &str) {
        let text = cleaned(text);
        if text.is_empty() {
            return;
        }
        let is_word = text.chars().all(char::is_alphanumeric);
        self.remember(is_word);
        self.text.insert_str(self.cursor, &text);
        self.cursor += text.len();
        // a joiner or an accent may have become part of the grapheme before
        if !self.text.grapheme_indices(true).any(|(at, _)| at == self.cursor) {
            self.cursor = self.boundary_from(self.cursor);
        }
    }

    /// Inserts pasted text, folded if it is long.
    pub(super) fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = cleaned(&text);
        let is_long = text.len() > LONG_BYTES || text.lines().count() > LONG_LINES;
        let place =
            u32::try_from(self.pastes.len()).ok().filter(|_| self.pastes.len() < MAX_FOLDED);
        match place.and_then(|place| char::from_u32(FOLDED + place)).filter(|_| is_long) {
            Some(fold) => {
                self.remember(false);
                self.pastes.push(text);
                self.text.insert(self.cursor, fold);
                self.cursor += fold.len_utf8();
            }
            None => {
                self.typing = false;
                self.insert(&text);
            }
        }
    }

    /// Whether Enter begins another line: there is a backslash before the cursor. It is removed.
    pub(super) fn continues_line(&mut self) -> bool {
        let Some(before) = self.text[..self.cursor].strip_suffix('\\') else { return false };
        let at = before.len();
        self.remember(false);
        self.text.remove(at);
        self.cursor = at;
        self.insert("\n");
        true
    }

    /// Does what `action` says, or else inserts the character of the key. `width` is that of the rows on the screen.
    pub(super) fn key(&mut self, key: KeyEvent, action: Option<KeyAction>, width: usize) -> Edit {
        if let Some(action) = action {
            return self.edit(action, width);
        }
        // some keyboards send both modifiers with a character of the third level
        let has = |modifier| key.modifiers.contains(modifier);
        let is_text = has(KeyModifiers::CONTROL) == has(KeyModifiers::ALT);
        if let KeyCode::Char(c) = key.code
            && is_text
        {
            self.insert(c.encode_utf8(&mut [0; 4]));
            return Edit::Done;
        }
        Edit::Unknown
    }

    fn edit(&mut self, action: KeyAction, width: usize) -> Edit {
        match action {
            KeyAction::Newline => self.insert("\n"),
            KeyAction::RowUp => return self.vertical(width, true),
            KeyAction::RowDown => return self.vertical(width, false),
            KeyAction::Left => self.go(self.before()),
            KeyAction::Right => self.go(self.after()),
            KeyAction::WordLeft => self.go(self.word_before()),
            KeyAction::WordRight => self.go(self.word_after()),
            KeyAction::LineStart => self.go(self.line_start()),
            KeyAction::LineEnd => self.go(self.line_end()),
            KeyAction::TextStart => self.go(0),
            KeyAction::TextEnd => self.go(self.text.len()),
            KeyAction::DeleteLeft => self.remove(self.before()..self.cursor),
            KeyAction::DeleteRight => self.remove(self.cursor..self.after()),
            KeyAction::DeleteWordLeft => self.cut_back(Self::word_before),
            KeyAction::DeleteWordRight => self.cut_forward(Self::word_after),
            KeyAction::DeleteToBlank => self.cut_back(Self::blank_before),
            KeyAction::DeleteToStart => self.cut_back(|composer| match composer.line_start() {
                start if start == composer.cursor => composer.before(),
                start => start,
            }),
            KeyAction::DeleteToEnd => self.cut_forward(|composer| match composer.line_end() {
                end if end == composer.cursor => composer.after(),
                end => end,
            }),
            KeyAction::Yank => {
                let cut = std::mem::take(&mut self.cut);
                self.typing = false;
                self.insert_raw(&cut);
                self.cut = cut;
            }
            KeyAction::Transpose => self.swap(),
            KeyAction::Undo => {
                if let Some((text, cursor)) = self.undo.pop() {
                    (self.text, self.cursor, self.typing) = (text, cursor, false);
                }
            }
            _ => return Edit::Unknown,
        }
        Edit::Done
    }

    /// Inserts text that may hold folded pastes.
    fn insert_raw(&mut self, text: &str) {
        self.remember(false);
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn remember(&mut self, typing: bool) {
        if typing && self.typing {
            return;
        }
        self.typing = typing;
        if self.undo.last().is_some_and(|(text, _)| *text == self.text) {
            return;
        }
        if self.undo.len() == UNDONE {
            self.undo.remove(0);
        }
        self.undo.push((self.text.clone(), self.cursor));
    }

    fn go(&mut self, to: usize) {
        self.typing = false;
        self.cursor = to;
    }

    fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        self.remember(false);
        self.cursor = range.start;
        self.text.replace_range(range, "");
    }

    fn cut_back(&mut self, to: impl Fn(&Self) -> usize) {
        let range = to(self)..self.cursor;
        self.cut_range(range);
    }

    fn cut_forward(&mut self, to: impl Fn(&Self) -> usize) {
        let range = self.cursor..to(self);
        self.cut_range(range);
    }

    fn cut_range(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.cut = self.text[range.clone()].to_owned();
            self.remove(range);
        }
    }

    /// Exchanges the characters before and at the cursor.
    fn swap(&mut self) {
        let at_end = self.cursor == self.text.len();
        let middle = if at_end { self.before() } else { self.cursor };
        let first = self.text[..middle].grapheme_indices(true).next_back();
        let Some((start, first)) = first.map(|(at, text)| (at, text.to_owned())) else { return };
        let second = self.text[middle..].graphemes(true).next().unwrap_or_default().to_owned();
        let end = middle + second.len();
        self.remember(false);
        self.text.replace_range(start..end, &format!("{second}{first}"));
        self.cursor = end;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.boundary_from(self.cursor + usize::from(self.cursor < self.text.len()))
    }

    /// The first start of a grapheme at `at` or after it.
    fn boundary_from(&self, at: usize) -> usize {
        let mut starts = self.text.grapheme_indices(true).map(|(start, _)| start);
        starts.find(|start| *start >= at).unwrap_or(self.text.len())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_before(&self) -> usize {
        let text = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        text.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let word = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        self.text.len() - word.trim_start_matches(char::is_alphanumeric).len()
    }

    /// The start of the text before the cursor that has no blanks.
    fn blank_before(&self) -> usize {
        let text = self.text[..self.cursor].trim_end();
        text.trim_end_matches(|c: char| !c.is_whitespace()).len()
    }

    fn vertical(&mut self, width: usize, up: bool) -> Edit {
        let rows = self.ranges(width);
        let (row, column) = self.place_in(&rows);
        let target = if up { row.checked_sub(1) } else { Some(row + 1) };
        let Some(range) = target.and_then(|row| rows.get(row)) else {
            return if up { Edit::Above } else { Edit::Below };
        };
        let mut used = 0;
        let mut to = range.end;
        for (at, grapheme) in self.text[range.clone()].grapheme_indices(true) {
            if used >= column {
                to = range.start + at;
                break;
            }
            used += self.columns(grapheme);
        }
        self.go(to);
        Edit::Done
    }

    /// The rows of the text, and the row and column of the cursor.
    pub(super) fn rows(&self, width: usize) -> (Vec<Row>, (usize, usize)) {
        let ranges = self.ranges(width);
        let place = self.place_in(&ranges);
        let rows = ranges.iter().map(|range| {
            let mut row = Row::default();
            for grapheme in self.text[range.clone()].graphemes(true) {
                let (shown, is_fold) = self.shown(grapheme);
                match row.pieces.last_mut() {
                    Some((text, false)) if !is_fold => text.push_str(&shown),
                    _ => row.pieces.push((shown.into_owned(), is_fold)),
                }
            }
            row
        });
        (rows.collect(), place)
    }

    /// The text of a grapheme on the screen, and whether it stands for a paste.
    fn shown<'a>(&self, grapheme: &'a str) -> (Cow<'a, str>, bool) {
        let fold = grapheme.chars().next().and_then(folded);
        match fold.and_then(|at| self.pastes.get(at)) {
            Some(paste) => {
                let shown = match paste.lines().count() {
                    0 | 1 => format!("[pasted {} characters]", paste.chars().count()),
                    lines => format!("[pasted {lines} lines]"),
                };
                (Cow::Owned(shown), true)
            }
            None => (Cow::Borrowed(grapheme), false),
        }
    }

    fn columns(&self, grapheme: &str) -> usize {
        self.shown(grapheme).0.width()
    }

    /// The bytes of each row. A row ends after a blank if it can; its line end belongs to no row.
    fn ranges(&self, width: usize) -> Vec<Range<usize>> {
        let width = width.max(2);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text.split('\n') {
            let (mut begin, mut used, mut blank) = (start, 0, None);
            for (at, grapheme) in line.grapheme_indices(true) {
                let at = start + at;
                let columns = self.columns(grapheme);
                if used + columns > width && at > begin {
                    let end = blank.filter(|end| *end > begin).unwrap_or(at);
                    rows.push(begin..end);
                    begin = end;
                    used = self.text[end..at].graphemes(true).map(|g| self.columns(g)).sum();
                    blank = None;
                }
                used += columns;
                if grapheme == " " {
                    blank = Some(at + 1);
                }
            }
            rows.push(begin..start + line.len());
            start += line.len() + 1;
        }
        rows
    }

    fn place_in(&self, rows: &[Range<usize>]) -> (usize, usize) {
        let row = rows.iter().rposition(|range| range.start <= self.cursor).unwrap_or(0);
        let start = rows.get(row).map_or(0, |range| range.start);
        let before = self.text[start..self.cursor.max(start)].graphemes(true);
        (row, before.map(|grapheme| self.columns(grapheme)).sum())
    }
}

/// The number of the long paste that a character stands for.
fn folded(c: char) -> Option<usize> {
    let at = usize::try_from(u32::from(c).checked_sub(FOLDED)?).ok()?;
    (at < MAX_FOLDED).then_some(at)
}

/// Without control and invisible characters, and without those that stand for pastes.
fn cleaned(text: &str) -> String {
    let mut text = Cleaner::default().clean(text);
    text.retain(|c| folded(c).is_none());
    text
}

#[cfg(test)]
mod tests {
    use leftfold_config::Keymap;

    use super::*;

    fn press(composer: &mut Composer, keys: &str) {
        for key in keys.split(' ') {
            let (modifiers, name) = match key.split_once('-') {
                Some(("C", name)) => (KeyModifiers::CONTROL, name),
                Some(("M", name)) => (KeyModifiers::ALT, name),
                _ => (KeyModifiers::NONE, key),
            };
            let code = match name {
                "left" => KeyCode::Left,
                "right" => KeyCode::Right,
                "up" => KeyCode::Up,
                "down" => KeyCode::Down,
                "home" => KeyCode::Home,
                "end" => KeyCode::End,
                "back" => KeyCode::Backspace,
                "del" => KeyCode::Delete,
                name => KeyCode::Char(name.chars().next().unwrap()),
            };
            let key = KeyEvent::new(code, modifiers);
            let named = crate::keys::named(key).unwrap();
            let action = Keymap::default().action(named, composer.is_empty());
            composer.key(key, action, 20);
        }
    }

    /// The text with `|` at the cursor.
    fn marked(composer: &Composer) -> String {
        let (before, after) = composer.text.split_at(composer.cursor);
        format!("{before}|{after}")
    }

    #[test]
    fn the_keys_of_readline_edit() {
        for (text, keys, expected) in [
            ("one two", "C-a", "|one two"),
            ("one two", "C-a C-f C-e C-b", "one tw|o"),
            ("one two", "M-b", "one |two"),
            ("one two", "M-b M-b M-f", "one| two"),
            ("one two", "C-w", "one |"),
            ("a/b c/d", "M-back", "a/b c/|"),
            ("one two", "C-w C-y C-y", "one twotwo|"),
            ("one two", "C-u C-y", "one two|"),
            ("one two", "C-a C-k", "|"),
            ("one two", "home del", "|ne two"),
            ("ab", "C-t", "ba|"),
            ("abc", "left left C-t", "ba|c"),
            ("one\ntwo", "up", "one|\ntwo"),
            ("one\ntwo", "home up", "|one\ntwo"),
            ("one\ntwo", "home back", "one|two"),
            ("ab", "x y C-_", "ab|"),
            ("e\u{301}x", "left back", "|x"),
            ("👩‍👩‍👧x", "left back", "|x"),
            ("漢字", "left", "漢|字"),
            ("", "C-d back C-w C-u C-k C-y up down", "|"),
        ] {
            let mut composer = Composer::default();
            composer.set(text);
            press(&mut composer, keys);
            assert_eq!(marked(&composer), expected, "{text:?} {keys}");
        }
    }

    #[test]
    fn a_long_paste_is_one_character_and_is_sent_whole() {
        let mut composer = Composer::default();
        composer.insert("see ");
        let long: String = (0..40).map(|n| format!("line {n}\n")).collect();
        composer.paste(&long.replace('\n', "\r\n"));
        composer.insert(" end");
        let (rows, _) = composer.rows(80);
        let shown: String = rows[0].pieces.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(shown, "see [pasted 40 lines] end");
        assert_eq!(composer.text(), format!("see {long} end"));
        press(&mut composer, "left left left left back");
        assert_eq!(composer.text(), "see  end");
        press(&mut composer, "C-_");
        assert_eq!(composer.text(), format!("see {long} end"));
        // a short one is text
        let mut composer = Composer::default();
        composer.paste("one\ntwo");
        assert_eq!(marked(&composer), "one\ntwo|");
        composer.paste(&"x".repeat(2_000));
        assert_eq!(composer.rows(80).0[1].pieces[1].0, "[pasted 2000 characters]");
    }

    #[test]
    fn no_control_character_and_no_stand_in_gets_in() {
        let mut composer = Composer::default();
        composer.insert("a\u{1b}[2J\u{202e}b\u{f0000}");
        composer.paste("\u{9b}31mc\u{f0001}\t.");
        assert_eq!(composer.text(), "abc    .");
    }

    #[test]
    fn rows_break_at_blanks_and_hold_the_cursor() {
        let mut composer = Composer::default();
        composer.set("the quick brown fox\nend");
        let text = |composer: &Composer, width| {
            let (rows, place) = composer.rows(width);
            let rows = rows.iter().map(|row| row.pieces.iter().map(|(text, _)| text.as_str()));
            (rows.map(Iterator::collect::<String>).collect::<Vec<_>>(), place)
        };
        let (rows, place) = text(&composer, 10);
        assert_eq!(rows, ["the quick ", "brown fox", "end"]);
        assert_eq!(place, (2, 3));
        press(&mut composer, "up");
        assert_eq!(text(&composer, 20).1, (0, 3));
        composer.set("漢字漢字");
        assert_eq!(text(&composer, 5).0, ["漢字", "漢字"]);
        composer.set("");
        assert_eq!(text(&composer, 5), (vec![String::new()], (0, 0)));
    }
}
