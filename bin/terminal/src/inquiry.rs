//! Questions of the `question` tool: digits choose, Enter answers, anything else begins an answer
//! in the user's own words.

use leftfold_actors::Reply;
use leftfold_events::Seq;
use leftfold_events::event::Answer;

use super::BY;
use super::calls::Mark;
use super::conversation::{Conversation, Stage};
use super::input::Read;
use super::keys::CTRL_D;
use super::render::{Look, Renderer};
use super::style::Face;
use super::wrap::Wrap;
use leftfold_runtime::client;
use leftfold_view::clean::clean;
use leftfold_view::{Question, QuestionId};

/// Options that have a digit of their own. Of more, the number is typed as a line.
const DIGITS: usize = 9;

/// What keys come to.
#[derive(Debug, PartialEq, Eq)]
enum Pressed {
    /// Other options are chosen, or none.
    Chosen,
    Answer,
    Dismiss,
    /// A line begins, with this in it.
    Words(String),
}

/// What these keys, pressed at once, come to after those that have `chosen` options already.
fn pressed(inquiry: &Question, chosen: &mut Vec<usize>, keys: &str) -> Pressed {
    let digits = inquiry.options.len() <= DIGITS && !inquiry.options.is_empty();
    for (at, key) in keys.char_indices() {
        match key {
            '\n' if chosen.is_empty() => {}
            '\n' => return Pressed::Answer,
            CTRL_D => return Pressed::Dismiss,
            '0'..='9' if digits => choose(inquiry, chosen, key),
            _ => {
                let line = keys[at..].lines().next().unwrap_or_default();
                let words = line.chars().filter(|c| !c.is_control()).collect::<String>();
                return Pressed::Words(words.trim_start().to_owned());
            }
        }
    }
    Pressed::Chosen
}

/// The option of a digit, instead of the one before, or besides the others; or no longer.
fn choose(inquiry: &Question, chosen: &mut Vec<usize>, digit: char) {
    let place = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()?.checked_sub(1));
    let Some(place) = place.filter(|place| *place < inquiry.options.len()) else { return };
    let known = chosen.contains(&place);
    if inquiry.multiple {
        chosen.retain(|other| *other != place);
    } else {
        chosen.clear();
    }
    if !known || !inquiry.multiple {
        chosen.push(place);
    }
    chosen.sort_unstable();
}

/// The line that says what is chosen and what the keys do.
pub(super) fn keys(inquiry: &Question, chosen: &[usize]) -> String {
    if !chosen.is_empty() {
        let numbers: Vec<_> = chosen.iter().map(|place| (place + 1).to_string()).collect();
        let answer = leftfold_view::clean::clean_line(&inquiry.chosen(chosen));
        return format!("  [Enter] answers {}: {answer}", numbers.join(", "));
    }
    let count = inquiry.options.len();
    let choose = match count {
        0 => "type an answer".to_owned(),
        1 => "[1] chooses, or type an answer".to_owned(),
        2..=DIGITS if inquiry.multiple => format!("[1-{count}] choose, or type an answer"),
        2..=DIGITS => format!("[1-{count}] chooses, or type an answer"),
        _ => "type a number or an answer".to_owned(),
    };
    format!("  {choose}; [Ctrl-D] dismisses ")
}

/// What a typed line answers. `None`: there is nothing in it.
pub(super) fn typed(inquiry: &Question, line: &str) -> Option<Reply> {
    inquiry.understood(line).map(|words| client::reply(Some(words), BY))
}

impl Conversation<'_> {
    pub(super) async fn choose(
        &mut self,
        of: QuestionId,
        inquiry: &Question,
        keys: &str,
    ) -> anyhow::Result<()> {
        match pressed(inquiry, &mut self.chosen, keys) {
            Pressed::Chosen => {
                let keys = self::keys(inquiry, &self.chosen);
                if self.renderer.asking.as_ref() != Some(&keys) {
                    self.screen.remind(&keys)?;
                    self.renderer.asking = Some(keys);
                    self.paint("")?;
                }
            }
            Pressed::Answer => {
                let answer = inquiry.chosen(&self.chosen);
                self.stop_asking();
                self.answer(of, client::reply(Some(answer), BY)).await?;
            }
            Pressed::Dismiss => {
                self.stop_asking();
                self.answer(of, client::reply(None, BY)).await?;
            }
            Pressed::Words(words) => self.begin_line(of, Read::Answer(words))?,
        }
        Ok(())
    }

    /// Has a line typed, instead of a key, for the question.
    pub(super) fn begin_line(&mut self, of: QuestionId, read: Read) -> anyhow::Result<()> {
        self.stop_asking();
        self.screen.print("")?;
        self.mode.restore();
        self.stage = Stage::Reason(of);
        self.input.read(read);
        Ok(())
    }
}

impl Renderer {
    /// The question and its options, in as many rows as they need.
    pub(super) fn inquiry(&mut self, inquiry: &Question) -> String {
        let Look { style, columns } = self.look;
        let mut out = self.text_ends();
        let mut wrap = Wrap::new(style, columns.saturating_sub(1));
        for (n, line) in clean(&inquiry.titled()).trim().lines().enumerate() {
            let begin = if n == 0 { "? " } else { "  " };
            wrap.begin(Face::YELLOW, begin, &mut out);
            wrap.push(Face::BOLD, line, &mut out);
            wrap.end_line(&mut out);
        }
        let digits = inquiry.options.len().to_string().len();
        for (option, number) in inquiry.options.iter().zip(1_usize..) {
            wrap.begin(Face::YELLOW, &format!("  {number:>digits$}. "), &mut out);
            wrap.push(Face::PLAIN, &leftfold_view::clean::clean_line(&option.label), &mut out);
            let description = leftfold_view::clean::clean_line(&option.description);
            if !description.is_empty() {
                wrap.push(Face::DIM, &format!(" – {description}"), &mut out);
            }
            wrap.end_line(&mut out);
        }
        out
    }

    /// Whether `of` was an open question.
    pub(super) fn forget_question(&mut self, of: Seq) -> bool {
        let before = self.questions.len();
        self.questions.retain(|question| question.of != of);
        self.questions.len() < before
    }

    fn is_in_run(&self, of: Seq) -> bool {
        self.inquiries.asked(of).is_some_and(Question::in_run)
    }

    /// The wait of a call, or of a question about it, is over.
    pub(super) fn elapsed(&mut self, of: Seq) -> String {
        let question = self.forget_question(of);
        if self.is_in_run(of) {
            return self.note(Face::DIM, "  → nobody answered in time");
        }
        let why = if question { "not allowed: nobody answered in time" } else { "timed out" };
        self.end_call(of, Mark::Not, why)
    }

    /// What was said to a question.
    pub(super) fn inquiry_answered(
        &mut self,
        reply: Answer,
        words: Option<&str>,
        by: &str,
        of: Seq,
    ) -> String {
        let said = leftfold_view::clean::clean_line(words.unwrap_or_default());
        let answer = match reply {
            Answer::Reject if said.is_empty() => format!("  → dismissed{by}"),
            Answer::Reject => format!("  → not answered{by}: {said}"),
            Answer::Once | Answer::Always => format!("  → {said}{by}"),
        };
        if reply == Answer::Reject && !self.is_in_run(of) {
            // the call will not be run, and this is all there is to say of it
            self.take(of);
        }
        self.note(Face::DIM, &answer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn inquiry(options: usize, multiple: bool) -> Question {
        let options: Vec<_> = (1..=options).map(|n| json!({ "label": format!("l{n}") })).collect();
        let inquiry = json!({ "question": "?", "options": options, "multiple": multiple });
        serde_json::from_value(inquiry).unwrap()
    }

    #[test]
    fn keys_choose_and_answer() {
        let words = |words: &str| Pressed::Words(words.to_owned());
        for (multiple, keys, expected, places) in [
            (false, "2", Pressed::Chosen, vec![1]),
            (false, "23", Pressed::Chosen, vec![2]),
            (false, "22", Pressed::Chosen, vec![1]),
            (false, "4", Pressed::Chosen, vec![]),
            (false, "0", Pressed::Chosen, vec![]),
            (false, "\n", Pressed::Chosen, vec![]),
            (false, "2\n", Pressed::Answer, vec![1]),
            (true, "31\n", Pressed::Answer, vec![0, 2]),
            (true, "313", Pressed::Chosen, vec![0]),
            (true, "3\u{4}", Pressed::Dismiss, vec![2]),
            (false, "neither\n", words("neither"), vec![]),
            (false, " \n", words(""), vec![]),
        ] {
            let mut chosen = Vec::new();
            assert_eq!(pressed(&inquiry(3, multiple), &mut chosen, keys), expected, "{keys:?}");
            assert_eq!(chosen, places, "{keys:?}");
        }
        // there are no digits for so many, and nothing to choose from among none
        for options in [0, 10] {
            assert_eq!(pressed(&inquiry(options, true), &mut Vec::new(), "10"), words("10"));
        }
    }

    #[test]
    fn the_keys_are_named() {
        for (options, multiple, chosen, expected) in [
            (0, false, &[][..], "  type an answer; [Ctrl-D] dismisses "),
            (3, false, &[], "  [1-3] chooses, or type an answer; [Ctrl-D] dismisses "),
            (12, false, &[], "  type a number or an answer; [Ctrl-D] dismisses "),
            (3, false, &[1], "  [Enter] answers 2: l2"),
            (3, true, &[0, 2], "  [Enter] answers 1, 3: l1, l3"),
        ] {
            assert_eq!(keys(&inquiry(options, multiple), chosen), expected);
        }
    }
}
