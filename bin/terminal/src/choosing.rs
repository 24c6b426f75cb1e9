//! Keys for a question with options: digits choose, Enter answers, and any other key begins an answer in the user's
//! own words. It neither draws nor answers.

use leftfold_view::{CTRL_D, Question};

/// Options with a digit of their own. With more options, the number is typed as a line.
pub(super) const DIGITS: usize = 9;

/// The result of keys.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChoiceAction {
    /// The chosen options have changed.
    Chosen,
    Answer,
    Dismiss,
    /// Begin a line with this text in it.
    Words(String),
}

/// The choice among the options of a question.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Choosing {
    /// The indices of the chosen options, sorted.
    pub(super) places: Vec<usize>,
    /// The digits that were pressed. If words follow them, they are the start of these words.
    digits: String,
}

impl Choosing {
    /// The result of these keys, pressed at once.
    pub(super) fn press(&mut self, question: &Question, keys: &str) -> ChoiceAction {
        let digits = question.options.len() <= DIGITS && !question.options.is_empty();
        for (at, key) in keys.char_indices() {
            match key {
                '\n' if self.places.is_empty() => {}
                '\n' => return ChoiceAction::Answer,
                CTRL_D => return ChoiceAction::Dismiss,
                '0'..='9' if digits => {
                    self.digits.push(key);
                    self.choose(question, key);
                }
                _ => {
                    let line = keys[at..].lines().next().unwrap_or_default();
                    let words = line.chars().filter(|c| !c.is_control());
                    let words: String = self.digits.chars().chain(words).collect();
                    return ChoiceAction::Words(words.trim_start().to_owned());
                }
            }
        }
        ChoiceAction::Chosen
    }

    /// Chooses the option of a digit: instead of the previous one or, for multiple answers, in
    /// addition; chosen again, it is removed.
    fn choose(&mut self, question: &Question, digit: char) {
        let place =
            digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()?.checked_sub(1));
        let Some(place) = place.filter(|place| *place < question.options.len()) else { return };
        let known = self.places.contains(&place);
        if question.multiple {
            self.places.retain(|other| *other != place);
        } else {
            self.places.clear();
        }
        if !known || !question.multiple {
            self.places.push(place);
        }
        self.places.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(options: usize, multiple: bool) -> Question {
        let options: Vec<_> = (1..=options).map(|n| json!({ "label": format!("l{n}") })).collect();
        let question = json!({ "question": "?", "options": options, "multiple": multiple });
        serde_json::from_value(question).unwrap()
    }

    #[test]
    fn keys_choose_and_answer() {
        let words = |words: &str| ChoiceAction::Words(words.to_owned());
        for (multiple, keys, expected, places) in [
            (false, "2", ChoiceAction::Chosen, vec![1]),
            (false, "23", ChoiceAction::Chosen, vec![2]),
            (false, "22", ChoiceAction::Chosen, vec![1]),
            (false, "4", ChoiceAction::Chosen, vec![]),
            (false, "0", ChoiceAction::Chosen, vec![]),
            (false, "\n", ChoiceAction::Chosen, vec![]),
            (false, "2\n", ChoiceAction::Answer, vec![1]),
            (true, "31\n", ChoiceAction::Answer, vec![0, 2]),
            (true, "313", ChoiceAction::Chosen, vec![0]),
            (true, "3\u{4}", ChoiceAction::Dismiss, vec![2]),
            (false, "neither\n", words("neither"), vec![]),
            (false, " \n", words(""), vec![]),
            (false, "3 of them please", words("3 of them please"), vec![2]),
            (true, "1, 3", words("1, 3"), vec![0]),
            (false, "4 would be better", words("4 would be better"), vec![]),
        ] {
            let question = question(3, multiple);
            let mut choosing = Choosing::default();
            assert_eq!(choosing.press(&question, keys), expected, "{keys:?}");
            assert_eq!(choosing.places, places, "{keys:?}");
            // one by one, as they are typed
            let mut choosing = Choosing::default();
            let mut keys = keys.chars().map(|key| choosing.press(&question, &key.to_string()));
            let last = keys.find(|action| *action != ChoiceAction::Chosen);
            match (&expected, last.unwrap_or(ChoiceAction::Chosen)) {
                // the rest is typed into the line
                (ChoiceAction::Words(all), ChoiceAction::Words(start)) => {
                    assert!(all.starts_with(&start));
                }
                (expected, found) => assert_eq!(*expected, found),
            }
        }
        // No digits for ten options, and nothing to choose among none.
        for options in [0, 10] {
            let mut choosing = Choosing::default();
            assert_eq!(choosing.press(&question(options, true), "10"), words("10"));
        }
    }
}
