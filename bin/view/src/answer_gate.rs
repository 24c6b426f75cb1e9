//! Decides which keys answer a question on a terminal, so that keys typed for something else never do. Every
//! terminal uses it. It knows no clock: points in time are arguments.
//!
//! A question shown at `t` takes keys from `t` + [`QUIET_DELAY`] on. Earlier keys are a draft. While there is a draft, no
//! key answers. Enter or Esc puts the draft aside for the next prompt, and [`QUIET_DELAY`] begins again. "Always" takes a
//! second key. Pasted text never answers: it is a draft, or the start of an answer in words.

use std::ops::Add;
use std::time::Duration;

use leftfold_events::event::Answer;

/// How long a question is on the screen before keys count.
pub const QUIET_DELAY: Duration = Duration::from_millis(700);

/// The character that Ctrl-D sends.
pub const CTRL_D: char = '\u{4}';
/// The character that Ctrl-U sends.
pub const CTRL_U: char = '\u{15}';
/// The character of the key Esc.
pub const ESCAPE: char = '\u{1b}';
const BACKSPACE: [char; 2] = ['\u{8}', '\u{7f}'];

/// The keys that a question takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateKind {
    /// `o` or `y`, `n`, `b`, and `a` if the question offers patterns for "always".
    Permission { always: bool },
    /// A question of a tool: every key.
    Choice,
    /// `y` or `n`. Enter may mean no.
    Consent { enter_is_no: bool },
}

/// The row below a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateRow<'a> {
    /// Keys do not count yet.
    Quiet,
    /// Keys count: name them.
    Keys,
    /// "Always" was pressed: show the patterns, and ask for the second key.
    Confirm,
    /// The text that is being typed.
    Draft(&'a str),
}

/// The result of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateOutcome {
    Nothing,
    /// The row has changed.
    Redraw,
    Answer(Answer),
    /// No; a line with the reason follows.
    Because,
    /// "Always", for patterns that the user writes first.
    EditAlways,
    Yes,
    No,
    /// Keys that count for a question of a tool.
    Keys(String),
    /// Pasted text. It begins an answer in words to a question of a tool, which Enter then gives.
    Words(String),
}

/// The state of one terminal. `Q` identifies questions, and `T` is a point in time.
#[derive(Clone, Debug)]
pub struct AnswerGate<Q, T> {
    shown: Option<Shown<Q, T>>,
    draft: String,
    /// Text that was put aside.
    kept: String,
    /// The last keys without effect. They begin a draft if more text follows at once.
    stray: Option<(String, T)>,
}

#[derive(Clone, Debug)]
struct Shown<Q, T> {
    question: Q,
    kind: GateKind,
    counts_from: T,
    /// Whether the first key for "always" was pressed.
    confirming: bool,
}

impl<Q, T> Default for AnswerGate<Q, T> {
    fn default() -> Self {
        Self { shown: None, draft: String::new(), kept: String::new(), stray: None }
    }
}

impl<Q: PartialEq, T: Copy + Ord + Add<Duration, Output = T>> AnswerGate<Q, T> {
    /// A question is on the screen since `now`. If it is the one that was shown before, nothing changes.
    pub fn show(&mut self, question: Q, kind: GateKind, now: T) {
        if self.shown.as_ref().is_some_and(|shown| shown.question == question) {
            return;
        }
        let counts_from = now + QUIET_DELAY;
        self.shown = Some(Shown { question, kind, counts_from, confirming: false });
    }

    /// The question is no longer open. The draft stays.
    pub fn close(&mut self) {
        self.shown = None;
    }

    /// When keys begin to count, if they do not yet and the row changes then.
    pub fn counts_from(&self, now: T) -> Option<T> {
        let from = self.shown.as_ref()?.counts_from;
        (from > now && self.draft.is_empty()).then_some(from)
    }

    /// The row to show.
    pub fn row(&self, now: T) -> GateRow<'_> {
        match &self.shown {
            _ if !self.draft.is_empty() => GateRow::Draft(&self.draft),
            Some(shown) if shown.confirming => GateRow::Confirm,
            Some(shown) if now >= shown.counts_from => GateRow::Keys,
            Some(_) | None => GateRow::Quiet,
        }
    }

    /// Puts text aside that was typed elsewhere.
    pub fn keep(&mut self, text: String) {
        let draft = std::mem::replace(&mut self.draft, text);
        self.put_aside();
        self.draft = draft;
    }

    /// Everything that was typed and was no answer, for the next prompt.
    pub fn take_text(&mut self) -> String {
        self.put_aside();
        self.stray = None;
        std::mem::take(&mut self.kept)
    }

    /// Keys that were read at once, pressed at `at` at the earliest. Several characters at once are
    /// pasted or typed ahead: only a question of a tool takes them.
    pub fn press(&mut self, keys: &str, at: T) -> GateOutcome {
        if keys.is_empty() {
            return GateOutcome::Nothing;
        }
        let Some(shown) = &mut self.shown else { return self.edit_draft(keys, at) };
        if !self.draft.is_empty() || at < shown.counts_from {
            return self.edit_draft(keys, at);
        }
        let (kind, confirming) = (shown.kind, shown.confirming);
        if kind == GateKind::Choice {
            let counts = |c: &char| !c.is_control() || matches!(*c, '\n' | CTRL_D);
            let keys: String = keys.chars().filter(counts).collect();
            return if keys.is_empty() { GateOutcome::Nothing } else { GateOutcome::Keys(keys) };
        }
        let key = single(keys);
        if confirming {
            return self.confirm(keys, key, at);
        }
        let outcome = match (kind, key) {
            (_, None) => return self.edit_draft(keys, at),
            (GateKind::Permission { .. }, Some('o' | 'y')) => GateOutcome::Answer(Answer::Once),
            (GateKind::Permission { .. }, Some('n')) => GateOutcome::Answer(Answer::Reject),
            (GateKind::Permission { .. }, Some('b')) => GateOutcome::Because,
            (GateKind::Permission { always }, Some('a')) => {
                self.stray = Some((keys.to_owned(), at));
                shown.confirming = always;
                return if always { GateOutcome::Redraw } else { GateOutcome::Nothing };
            }
            (GateKind::Consent { .. }, Some('y')) => GateOutcome::Yes,
            (GateKind::Consent { .. }, Some('n')) => GateOutcome::No,
            (GateKind::Consent { enter_is_no: true }, Some('\n')) => GateOutcome::No,
            (
                GateKind::Permission { .. } | GateKind::Consent { .. } | GateKind::Choice,
                Some(_),
            ) => {
                return self.edit_draft(keys, at);
            }
        };
        self.close();
        self.stray = None;
        outcome
    }

    /// Text that the terminal has marked as pasted, at `at` at the earliest.
    pub fn paste(&mut self, text: &str, at: T) -> GateOutcome {
        let Some(shown) = &mut self.shown else { return self.edit_draft(text, at) };
        let counts = self.draft.is_empty() && at >= shown.counts_from;
        if counts && shown.kind == GateKind::Choice {
            let words: String =
                text.trim().chars().filter(|c| !c.is_control() || *c == '\n').collect();
            return if words.is_empty() { GateOutcome::Nothing } else { GateOutcome::Words(words) };
        }
        let was_confirming = std::mem::take(&mut shown.confirming);
        shown.counts_from = shown.counts_from.max(at + QUIET_DELAY);
        self.stray = None;
        let outcome = self.edit_draft(text, at);
        if was_confirming || counts { GateOutcome::Redraw } else { outcome }
    }

    /// The second key for "always": yes, or edit. Every other key leads back to the question.
    fn confirm(&mut self, keys: &str, key: Option<char>, at: T) -> GateOutcome {
        if key == Some('y') {
            self.close();
            return GateOutcome::Answer(Answer::Always);
        }
        if key == Some('e') {
            self.close();
            self.stray = None;
            return GateOutcome::EditAlways;
        }
        if let Some(shown) = &mut self.shown {
            shown.confirming = false;
            shown.counts_from = at + QUIET_DELAY;
        }
        if key.is_none() {
            self.edit_draft(keys, at);
            return GateOutcome::Redraw;
        }
        let first = self.stray.take().filter(|(_, since)| at < *since + QUIET_DELAY);
        if let Some((first, _)) = first.filter(|_| !keys.starts_with(char::is_control)) {
            // perhaps the start of a word
            self.stray = Some((first + keys.trim_end_matches('\n'), at));
        }
        GateOutcome::Redraw
    }

    /// Keys that are text.
    fn edit_draft(&mut self, keys: &str, at: T) -> GateOutcome {
        let before = (self.draft.clone(), self.kept.len());
        for key in keys.chars() {
            match key {
                '\n' | ESCAPE => self.put_aside(),
                CTRL_U => self.draft.clear(),
                key if BACKSPACE.contains(&key) => drop(self.draft.pop()),
                key if key.is_control() => {}
                key => {
                    if let Some((stray, since)) = self.stray.take()
                        && self.draft.is_empty()
                        && at < since + QUIET_DELAY
                    {
                        self.draft = stray;
                    }
                    self.draft.push(key);
                }
            }
        }
        let is_over = self.draft.is_empty() && !before.0.is_empty();
        let has_kept = self.kept.len() != before.1;
        if let Some(shown) = self.shown.as_mut().filter(|_| is_over || has_kept) {
            (shown.counts_from, shown.confirming) = (at + QUIET_DELAY, false);
        }
        if self.draft == before.0 && !has_kept { GateOutcome::Nothing } else { GateOutcome::Redraw }
    }

    fn put_aside(&mut self) {
        if self.draft.trim().is_empty() {
            self.draft.clear();
            return;
        }
        if !self.kept.is_empty() {
            self.kept.push('\n');
        }
        self.kept.push_str(&self.draft);
        self.draft.clear();
    }
}

/// The key, if it is a single one and therefore not pasted. An Enter pressed with it does not count.
fn single(keys: &str) -> Option<char> {
    let bare = keys.strip_suffix('\n').filter(|bare| !bare.is_empty()).unwrap_or(keys);
    let mut chars = bare.chars();
    let key = chars.next()?;
    chars.next().is_none().then(|| key.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERMISSION: GateKind = GateKind::Permission { always: true };
    const ONCE: GateOutcome = GateOutcome::Answer(Answer::Once);
    const ALWAYS: GateOutcome = GateOutcome::Answer(Answer::Always);

    /// Keys, each with milliseconds since the question was shown, and the last outcome.
    fn pressed(kind: GateKind, keys: &[(u64, &str)]) -> (AnswerGate<u32, Duration>, GateOutcome) {
        let start = Duration::ZERO;
        let mut gate = AnswerGate::default();
        gate.show(1, kind, start);
        let mut last = GateOutcome::Nothing;
        for (millis, keys) in keys {
            last = gate.press(keys, start + Duration::from_millis(*millis));
        }
        (gate, last)
    }

    #[test]
    fn keys_answer_once_the_question_was_shown_long_enough() {
        let no_always = GateKind::Permission { always: false };
        let consent = GateKind::Consent { enter_is_no: false };
        let consent_no = GateKind::Consent { enter_is_no: true };
        let (no, because) = (GateOutcome::Answer(Answer::Reject), GateOutcome::Because);
        let (redraw, nothing) = (GateOutcome::Redraw, GateOutcome::Nothing);
        for (kind, keys, expected) in [
            (PERMISSION, &[(700, "o")][..], ONCE),
            (PERMISSION, &[(699, "o")], redraw.clone()),
            (PERMISSION, &[(700, "Y")], ONCE),
            (PERMISSION, &[(700, "n")], no.clone()),
            (PERMISSION, &[(900, "b")], because),
            (PERMISSION, &[(900, "o\n")], ONCE),
            (PERMISSION, &[(900, "\n")], nothing.clone()),
            (PERMISSION, &[(900, "\u{1b}"), (901, "o")], ONCE),
            // pasted
            (PERMISSION, &[(900, "once")], redraw.clone()),
            // no answer
            (PERMISSION, &[(900, "x"), (2_000, "o")], redraw.clone()),
            // a draft
            (PERMISSION, &[(0, "l"), (9_000, "o")], redraw.clone()),
            (PERMISSION, &[(0, "l"), (1_000, "\n"), (1_699, "o")], redraw.clone()),
            (PERMISSION, &[(0, "l"), (1_000, "\n"), (1_700, "o")], ONCE),
            (PERMISSION, &[(0, "l"), (1_000, "\u{1b}"), (1_700, "o")], ONCE),
            (PERMISSION, &[(0, "l"), (1_000, "\u{7f}"), (1_700, "o")], ONCE),
            (PERMISSION, &[(0, "l"), (1_000, "\u{7f}"), (1_699, "o")], redraw.clone()),
            (PERMISSION, &[(0, "lm"), (1_000, "\u{8}"), (9_000, "o")], redraw.clone()),
            (PERMISSION, &[(0, "lm"), (1_000, "\u{15}"), (1_700, "o")], ONCE),
            (PERMISSION, &[(0, "\n"), (700, "o")], ONCE),
            // the second key
            (PERMISSION, &[(900, "a")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (901, "y")], ALWAYS),
            (PERMISSION, &[(900, "a"), (901, "e")], GateOutcome::EditAlways),
            (PERMISSION, &[(900, "e")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (5_000, "n"), (5_700, "e")], redraw.clone()),
            (no_always, &[(900, "a"), (901, "e")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (901, "a")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (5_000, "n"), (5_001, "y")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (5_000, "n"), (5_700, "y")], ONCE),
            (PERMISSION, &[(900, "a"), (5_000, "\u{1b}"), (5_700, "y")], ONCE),
            (PERMISSION, &[(900, "ay")], redraw.clone()),
            (PERMISSION, &[(900, "a"), (901, "yes")], redraw.clone()),
            (no_always, &[(900, "a"), (901, "y")], ONCE),
            (no_always, &[(900, "a")], nothing.clone()),
            (consent, &[(699, "y")], redraw.clone()),
            (consent, &[(700, "y")], GateOutcome::Yes),
            (consent, &[(700, "n")], GateOutcome::No),
            (consent, &[(700, "\n")], nothing.clone()),
            (consent_no, &[(699, "\n")], nothing.clone()),
            (consent_no, &[(700, "\n")], GateOutcome::No),
            (GateKind::Choice, &[(699, "2")], redraw),
            (GateKind::Choice, &[(700, "2\n")], GateOutcome::Keys("2\n".to_owned())),
            (GateKind::Choice, &[(700, "\u{7f}")], nothing),
            (GateKind::Choice, &[(700, "\u{4}")], GateOutcome::Keys("\u{4}".to_owned())),
        ] {
            assert_eq!(pressed(kind, keys).1, expected, "{kind:?} {keys:?}");
        }
    }

    #[test]
    fn pasted_text_never_answers() {
        let millis = Duration::from_millis;
        let consent = GateKind::Consent { enter_is_no: true };
        for kind in [PERMISSION, GateKind::Permission { always: false }, consent] {
            for text in ["o", "y", "a", "n", "b", "O\n", "\n", "\u{1b}", "\u{4}", "o\no", ""] {
                let (mut gate, _) = pressed(kind, &[]);
                let outcome = gate.paste(text, millis(5_000));
                assert_eq!(outcome, GateOutcome::Redraw, "{kind:?} {text:?}");
                // a key that follows at once may belong to the paste
                let outcome = gate.press("y", millis(5_699));
                assert!(
                    matches!(outcome, GateOutcome::Redraw | GateOutcome::Nothing),
                    "{kind:?} {text:?}: {outcome:?}"
                );
            }
        }
        // the second key of "always"
        let (mut gate, _) = pressed(PERMISSION, &[(900, "a")]);
        assert_eq!(gate.paste("y", millis(2_000)), GateOutcome::Redraw);
        assert_eq!(gate.row(millis(2_000)), GateRow::Draft("y"));
        assert_eq!(gate.press("y", millis(9_000)), GateOutcome::Redraw);
        assert_eq!(gate.take_text(), "yy");
        // an answer in words, which Enter gives
        for (text, outcome) in [
            ("2", GateOutcome::Words("2".to_owned())),
            (" 2\n", GateOutcome::Words("2".to_owned())),
            ("one\ntwo\u{4}\n", GateOutcome::Words("one\ntwo".to_owned())),
            ("\n", GateOutcome::Nothing),
        ] {
            let (mut gate, _) = pressed(GateKind::Choice, &[]);
            assert_eq!(gate.paste(text, millis(700)), outcome);
            let (mut gate, _) = pressed(GateKind::Choice, &[]);
            gate.paste(text, millis(699));
            assert_eq!(gate.take_text().trim(), text.trim().replace('\u{4}', ""));
        }
    }

    #[test]
    fn nothing_that_was_typed_is_lost() {
        for (kind, keys, text) in [
            (PERMISSION, &[(0, "also add docs")][..], "also add docs"),
            (PERMISSION, &[(0, "also"), (800, " add"), (5_000, " docs\n")], "also add docs"),
            (PERMISSION, &[(0, "one\n"), (10, "two")], "one\ntwo"),
            (PERMISSION, &[(0, "a"), (1, "\u{7f}"), (2, "b\u{15}c")], "c"),
            // typed slowly, after the question was there for a while
            (PERMISSION, &[(2_000, "a"), (2_100, "l"), (2_200, "s"), (2_300, "o")], "also"),
            (PERMISSION, &[(2_000, "a"), (2_100, "n"), (2_200, "o"), (9_000, "y")], "anoy"),
            (PERMISSION, &[(2_000, "a"), (2_100, "lso this")], "also this"),
            (PERMISSION, &[(2_000, "a"), (5_000, "n")], ""),
            (PERMISSION, &[(2_000, "f"), (5_000, "o"), (5_001, "y")], "foy"),
            (GateKind::Permission { always: false }, &[(2_000, "a"), (2_100, "s")], "as"),
            (GateKind::Consent { enter_is_no: true }, &[(0, "yes\n")], "yes"),
        ] {
            let (mut gate, outcome) = pressed(kind, keys);
            assert!(!matches!(outcome, GateOutcome::Answer(_)), "{keys:?}");
            assert_eq!(gate.take_text(), text, "{keys:?}");
            assert_eq!(gate.take_text(), "");
        }
    }

    #[test]
    fn another_question_begins_anew_and_a_redrawn_one_does_not() {
        let start = Duration::ZERO;
        let at = |millis| start + Duration::from_millis(millis);
        let mut gate = AnswerGate::default();
        gate.show(1, PERMISSION, start);
        gate.show(1, PERMISSION, at(600));
        assert_eq!(gate.counts_from(at(600)), Some(at(700)));
        assert_eq!((gate.row(at(699)), gate.row(at(700))), (GateRow::Quiet, GateRow::Keys));
        gate.press("a", at(700));
        assert_eq!(gate.row(at(700)), GateRow::Confirm);
        // the first is closed while "always" is being confirmed
        gate.show(2, PERMISSION, at(800));
        assert_eq!(gate.row(at(800)), GateRow::Quiet);
        assert_eq!(gate.press("y", at(801)), GateOutcome::Redraw);
        assert_eq!(gate.row(at(801)), GateRow::Draft("ay"));
        gate.close();
        assert_eq!(gate.press("es", at(900)), GateOutcome::Redraw);
        gate.show(3, PERMISSION, at(1_000));
        assert_eq!(gate.press("o", at(9_000)), GateOutcome::Redraw);
        assert_eq!(gate.take_text(), "ayeso");
    }

    proptest! {
        /// Random keys at random times, on random questions.
        #[test]
        fn no_answer_without_a_key_after_the_quiet_time_and_no_always_without_a_second(
            steps in prop::collection::vec(
                (0_u64..900, prop::sample::select(vec![
                    "a", "y", "e", "o", "n", "b", "x", " ", "\n", "\u{1b}", "\u{7f}", "\u{15}", "\u{4}",
                    "ay", "also", "o\n", "2", "show", "close",
                ]), 0_u8..4),
                1..60,
            ),
        ) {
            let start = Duration::ZERO;
            let mut now = start;
            let mut gate = AnswerGate::default();
            let (mut shown_at, mut question, mut last) = (now, 0_u32, "");
            let mut kind = PERMISSION;
            gate.show(question, kind, now);
            for (wait, keys, which) in steps {
                now += Duration::from_millis(wait);
                match keys {
                    "show" => {
                        question += u32::from(which % 2 == 0);
                        if which % 2 == 0 {
                            kind = [PERMISSION, GateKind::Permission { always: false }]
                                [usize::from(which / 2)];
                            (shown_at, last) = (now, "");
                        }
                        gate.show(question, kind, now);
                        continue;
                    }
                    "close" => {
                        gate.close();
                        question += 1;
                        (shown_at, last) = (now, "");
                        gate.show(question, kind, now);
                        continue;
                    }
                    _ => {}
                }
                let row = gate.row(now);
                let has_draft = matches!(row, GateRow::Draft(_));
                let is_confirming = row == GateRow::Confirm;
                match gate.press(keys, now) {
                    GateOutcome::Answer(answer) => {
                        prop_assert!(now >= shown_at + QUIET_DELAY);
                        prop_assert!(!has_draft);
                        if answer == Answer::Always {
                            prop_assert!(is_confirming && keys == "y" && last == "a");
                            prop_assert_eq!(kind, PERMISSION);
                        }
                        question += 1;
                        shown_at = now;
                        gate.show(question, kind, now);
                    }
                    GateOutcome::Because | GateOutcome::EditAlways => {
                        prop_assert!(now >= shown_at + QUIET_DELAY && !has_draft);
                        question += 1;
                        shown_at = now;
                        gate.show(question, kind, now);
                    }
                    GateOutcome::Yes
                    | GateOutcome::No
                    | GateOutcome::Keys(_)
                    | GateOutcome::Words(_) => {
                        prop_assert!(false, "no such question was shown");
                    }
                    GateOutcome::Nothing | GateOutcome::Redraw => {}
                }
                last = keys;
            }
        }
    }
}
