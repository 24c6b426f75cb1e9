//! The text of questions, and the meaning of keys. A permission takes one key. For a question with
//! options, digits choose, Enter answers, and any other key begins an answer in the user's own
//! words.

use leftfold_actors::QuestionReply;
use leftfold_events::event::Answer;
use leftfold_tools::FilePreview;
use leftfold_view::{OpenQuestion, Question, QuestionId};

use super::BY;
use super::calls::CallBlock;
use super::conversation::{Conversation, Stage};
use super::input::LineKind;
use super::keys::CTRL_D;
use super::render::Renderer;
use super::style::{Face, Look};
use super::wrap::Wrap;
use leftfold_runtime::client;
use leftfold_view::clean::{clean, clean_line};

/// The keys of a permission question.
pub(super) const PERMISSION: &str = "  allow? [o]nce  [a]lways  [n]o  no [b]ecause… ";
/// The keys of the question whether to resume an interrupted turn.
pub(super) const RESUME: &str = "  resume it? [y]es  [n]o ";

/// How to answer a question that arrives while a line is being typed.
pub(super) const ANNOUNCED: &str = "  to answer and follow the turn, press Enter on an empty line";

/// The meaning of a key for a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermissionKey {
    QuestionReply(Answer),
    /// No; a line with the reason follows.
    Because,
}

pub(super) fn choice(key: char) -> Option<PermissionKey> {
    match key {
        'o' | 'y' => Some(PermissionKey::QuestionReply(Answer::Once)),
        'a' => Some(PermissionKey::QuestionReply(Answer::Always)),
        'n' => Some(PermissionKey::QuestionReply(Answer::Reject)),
        'b' => Some(PermissionKey::Because),
        _ => None,
    }
}

pub(super) fn reply(answer: Answer, feedback: Option<String>) -> QuestionReply {
    QuestionReply { answer, feedback, by: BY.to_owned() }
}

/// Options with a digit of their own. With more options, the number is typed as a line.
const DIGITS: usize = 9;

/// The result of keys.
#[derive(Debug, PartialEq, Eq)]
enum KeyAction {
    /// The chosen options have changed.
    Chosen,
    Answer,
    Dismiss,
    /// Begin a line with this text in it.
    Words(String),
}

/// The result of these keys, pressed at once, after `chosen` options.
fn pressed(question: &Question, chosen: &mut Vec<usize>, keys: &str) -> KeyAction {
    let digits = question.options.len() <= DIGITS && !question.options.is_empty();
    for (at, key) in keys.char_indices() {
        match key {
            '\n' if chosen.is_empty() => {}
            '\n' => return KeyAction::Answer,
            CTRL_D => return KeyAction::Dismiss,
            '0'..='9' if digits => choose(question, chosen, key),
            _ => {
                let line = keys[at..].lines().next().unwrap_or_default();
                let words = line.chars().filter(|c| !c.is_control()).collect::<String>();
                return KeyAction::Words(words.trim_start().to_owned());
            }
        }
    }
    KeyAction::Chosen
}

/// Chooses the option of a digit: instead of the previous one or, for multiple answers, in
/// addition; chosen again, it is removed.
fn choose(question: &Question, chosen: &mut Vec<usize>, digit: char) {
    let place = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()?.checked_sub(1));
    let Some(place) = place.filter(|place| *place < question.options.len()) else { return };
    let known = chosen.contains(&place);
    if question.multiple {
        chosen.retain(|other| *other != place);
    } else {
        chosen.clear();
    }
    if !known || !question.multiple {
        chosen.push(place);
    }
    chosen.sort_unstable();
}

/// The line that shows the chosen options and the keys.
pub(super) fn keys(question: &Question, chosen: &[usize]) -> String {
    if !chosen.is_empty() {
        let numbers: Vec<_> = chosen.iter().map(|place| (place + 1).to_string()).collect();
        let answer = clean_line(&question.chosen(chosen));
        return format!("  [Enter] answers {}: {answer}", numbers.join(", "));
    }
    let count = question.options.len();
    let choose = match count {
        0 => "type an answer".to_owned(),
        1 => "[1] chooses, or type an answer".to_owned(),
        2..=DIGITS if question.multiple => format!("[1-{count}] choose, or type an answer"),
        2..=DIGITS => format!("[1-{count}] chooses, or type an answer"),
        _ => "type a number or an answer".to_owned(),
    };
    format!("  {choose}; [Ctrl-D] dismisses ")
}

/// The reply in a typed line. `None`: the line is empty.
pub(super) fn typed(question: &Question, line: &str) -> Option<QuestionReply> {
    question.parse_answer(line).map(|words| client::reply(Some(words), BY))
}

impl Conversation {
    pub(super) async fn choose(
        &mut self,
        of: QuestionId,
        question: &Question,
        keys: &str,
    ) -> anyhow::Result<()> {
        match pressed(question, &mut self.chosen, keys) {
            KeyAction::Chosen => {
                let keys = self::keys(question, &self.chosen);
                if self.renderer.question_keys.as_ref() != Some(&keys) {
                    self.screen.remind(&keys)?;
                    self.renderer.question_keys = Some(keys);
                    self.paint("")?;
                }
            }
            KeyAction::Answer => {
                let answer = question.chosen(&self.chosen);
                self.stop_asking();
                self.answer(of, client::reply(Some(answer), BY)).await?;
            }
            KeyAction::Dismiss => {
                self.stop_asking();
                self.answer(of, client::reply(None, BY)).await?;
            }
            KeyAction::Words(words) => self.begin_line(of, LineKind::Answer(words))?,
        }
        Ok(())
    }

    /// Starts typing a line for the question.
    pub(super) fn begin_line(&mut self, of: QuestionId, read: LineKind) -> anyhow::Result<()> {
        self.stop_asking();
        self.screen.print("")?;
        self.mode.restore();
        self.stage = Stage::Reason(of);
        self.input.read(read);
        Ok(())
    }
}

impl Renderer {
    /// The text of a question above its keys. `change` are the changes that its call would make, if
    /// known. Nothing else that needs permission is shortened.
    pub(super) fn question(&mut self, open: &OpenQuestion, change: &[FilePreview]) -> String {
        let mut out = self.asked_by(open);
        if let Some(question) = &open.question {
            return out + &self.question_in_words(question);
        }
        let (look, (session, _)) = (self.look, open.id);
        let Look { style, columns } = look;
        out += &self.text_ends();
        let mut wrap = Wrap::new(style, columns.saturating_sub(1));
        let mut argument = String::new();
        let call = self.transcript.session(session).and_then(|view| view.call(open.call));
        if let Some(call) = call.filter(|call| call.known) {
            let block = CallBlock { call, look };
            argument = block.argument().trim().to_owned();
            let several = argument.contains('\n');
            wrap.begin(Face::YELLOW, "? ", &mut out);
            let shown =
                if several { block.heading() } else { format!("{} {argument}", block.name()) };
            wrap.push(Face::PLAIN, &shown, &mut out);
            wrap.end_line(&mut out);
            let preview = block.preview(change);
            if !preview.is_empty() {
                self.previewed.insert((session, open.call));
            }
            preview.iter().for_each(|line| out.extend([line, "\n"]));
        }
        let patterns: Vec<String> = open.patterns.iter().map(|text| clean_line(text)).collect();
        if patterns != [argument] {
            wrap.begin(Face::PLAIN, "  ", &mut out);
            let what = format!("{}: {}", clean_line(&open.permission), patterns.join(", "));
            wrap.push(Face::YELLOW, &what, &mut out);
            wrap.end_line(&mut out);
        }
        out
    }

    /// The subagent that asks, if it is one.
    fn asked_by(&mut self, open: &OpenQuestion) -> String {
        let Some(status) = self.transcript.subagent(open.id.0) else { return String::new() };
        let from = format!("  {} asks:", clean_line(&status.agent));
        self.note(Face::DIM, &from)
    }

    /// The question and its options, on as many rows as needed.
    pub(super) fn question_in_words(&mut self, question: &Question) -> String {
        let Look { style, columns } = self.look;
        let mut out = self.text_ends();
        let mut wrap = Wrap::new(style, columns.saturating_sub(1));
        for (n, line) in clean(&question.titled()).trim().lines().enumerate() {
            let begin = if n == 0 { "? " } else { "  " };
            wrap.begin(Face::YELLOW, begin, &mut out);
            wrap.push(Face::BOLD, line, &mut out);
            wrap.end_line(&mut out);
        }
        let digits = question.options.len().to_string().len();
        for (option, number) in question.options.iter().zip(1_usize..) {
            wrap.begin(Face::YELLOW, &format!("  {number:>digits$}. "), &mut out);
            wrap.push(Face::PLAIN, &clean_line(&option.label), &mut out);
            let description = clean_line(&option.description);
            if !description.is_empty() {
                wrap.push(Face::DIM, &format!(" – {description}"), &mut out);
            }
            wrap.end_line(&mut out);
        }
        out
    }

    /// The answer to a question of a tool.
    pub(super) fn answered_in_words(
        &mut self,
        reply: Answer,
        words: Option<&str>,
        by: &str,
    ) -> String {
        let text = clean_line(words.unwrap_or_default());
        let answer = match reply {
            Answer::Reject if text.is_empty() => format!("  → dismissed{by}"),
            Answer::Reject => format!("  → not answered{by}: {text}"),
            Answer::Once | Answer::Always => format!("  → {text}{by}"),
        };
        self.note(Face::DIM, &answer)
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
        let words = |words: &str| KeyAction::Words(words.to_owned());
        for (multiple, keys, expected, places) in [
            (false, "2", KeyAction::Chosen, vec![1]),
            (false, "23", KeyAction::Chosen, vec![2]),
            (false, "22", KeyAction::Chosen, vec![1]),
            (false, "4", KeyAction::Chosen, vec![]),
            (false, "0", KeyAction::Chosen, vec![]),
            (false, "\n", KeyAction::Chosen, vec![]),
            (false, "2\n", KeyAction::Answer, vec![1]),
            (true, "31\n", KeyAction::Answer, vec![0, 2]),
            (true, "313", KeyAction::Chosen, vec![0]),
            (true, "3\u{4}", KeyAction::Dismiss, vec![2]),
            (false, "neither\n", words("neither"), vec![]),
            (false, " \n", words(""), vec![]),
        ] {
            let mut chosen = Vec::new();
            assert_eq!(pressed(&question(3, multiple), &mut chosen, keys), expected, "{keys:?}");
            assert_eq!(chosen, places, "{keys:?}");
        }
        // No digits for ten options, and nothing to choose among none.
        for options in [0, 10] {
            assert_eq!(pressed(&question(options, true), &mut Vec::new(), "10"), words("10"));
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
            assert_eq!(keys(&question(options, multiple), chosen), expected);
        }
    }
}
