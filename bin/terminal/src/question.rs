//! The text of questions, and the rows with their keys. `AnswerGate` decides which keys count, `Choosing` what they
//! mean for a question with options.

use leftfold_actors::QuestionReply;
use leftfold_events::event::Answer;
use leftfold_tools::FilePreview;
use leftfold_view::{OpenQuestion, Question, QuestionId};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::BY;
use super::calls::CallBlock;
use super::choosing::{DIGITS, KeyAction};
use super::conversation::{Conversation, Stage};
use super::input::LineKind;
use super::render::Renderer;
use super::style::{Face, Look};
use super::wrap::{Wrap, exact};
use leftfold_runtime::client;
use leftfold_view::clean::{clean, clean_line, visible_line};

/// The keys of the question whether to resume an interrupted turn.
pub(super) const RESUME: &str = "  resume it? [y]es  [n]o ";
/// The keys that confirm an "always".
pub(super) const CONFIRM: &str = "  [y] allows it from now on; any other key goes back ";
/// Shown until keys count.
pub(super) const QUIET: &str = "  …";

/// How to answer a question that arrives while a line is being typed.
pub(super) const ANNOUNCED: &str = "  to answer and follow the turn, press Enter on an empty line";

/// The keys of a permission question.
pub(super) fn permission_keys(always: bool) -> &'static str {
    match always {
        true => "  allow? [o]nce  [a]lways  [n]o  no [b]ecause… ",
        false => "  allow? [o]nce  [n]o  no [b]ecause… ",
    }
}

/// The row for a draft, within `columns`. The end of a long draft is shown.
pub(super) fn draft_row(draft: &str, columns: usize) -> String {
    const HINT: &str = "\" — Enter keeps it for the next prompt, then answer)";
    let start = "  (you are typing: \"";
    let room = columns.saturating_sub(start.width() + HINT.width() + 1).max(8);
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used < room
    };
    let end: String = draft.chars().rev().take_while(fits).collect();
    let end: String = end.chars().rev().collect();
    let mark = if end.len() < draft.len() { "…" } else { "" };
    format!("{start}{mark}{end}{HINT}")
}

pub(super) fn reply(answer: Answer, feedback: Option<String>) -> QuestionReply {
    QuestionReply { answer, feedback, by: BY.to_owned() }
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
        match self.choosing.press(question, keys) {
            KeyAction::Chosen => drop(self.show_keys()?),
            KeyAction::Answer => {
                let answer = question.chosen(&self.choosing.places);
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
        // prints the output that was held back while the question was on the screen
        self.paint("")?;
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
        out += &self.text_ends();
        let mut argument = String::new();
        let call = self.transcript.session(session).and_then(|view| view.call(open.call));
        if let Some(call) = call.filter(|call| call.known) {
            let block = CallBlock { call, look };
            argument = block.argument();
            let several = argument.contains('\n');
            let shown =
                if several { block.heading() } else { format!("{} {argument}", block.name()) };
            out += &exact(look, (Face::YELLOW, "? "), (Face::PLAIN, &shown));
            let details = block.details(change, &open.arguments);
            if !details.is_empty() {
                self.previewed.insert((session, open.call));
            }
            out += &details;
        }
        let patterns: Vec<String> = open.patterns.iter().map(|text| visible_line(text)).collect();
        let words = open.in_words(visible_line);
        if words.is_some() || patterns != [argument] {
            let named = || format!("{}: {}", visible_line(&open.permission), patterns.join(", "));
            let what = words.unwrap_or_else(named);
            out += &exact(look, (Face::PLAIN, "  "), (Face::YELLOW, &what));
        }
        out
    }

    /// Everything that an "always" to this question would allow, whole.
    pub(super) fn always_in_full(&self, open: &OpenQuestion) -> String {
        let mut out = String::new();
        let agent = self.transcript.subagent(open.id.0);
        let agent = agent.map(|status| format!(" (asked by {})", visible_line(&status.agent)));
        let heading =
            format!("always, in this project, without asking again{}:", agent.unwrap_or_default());
        let permission = visible_line(&open.permission);
        let rules = open.always.iter().map(|text| format!("{permission}: {}", visible_line(text)));
        for (begin, line) in
            std::iter::once(("  ", heading)).chain(rules.map(|rule| ("    ", rule)))
        {
            out += &exact(self.look, (Face::YELLOW, begin), (Face::PLAIN, &line));
        }
        out
    }

    /// The subagent that asks, if it is one.
    fn asked_by(&mut self, open: &OpenQuestion) -> String {
        let Some(status) = self.transcript.subagent(open.id.0) else { return String::new() };
        let from = format!("  {} asks:", visible_line(&status.agent));
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
    fn a_draft_is_shown_within_the_row() {
        for (draft, columns, start) in [
            ("also add docs", 100, "  (you are typing: \"also add docs\" — Enter keeps"),
            ("a long draft that does not fit", 80, "  (you are typing: \"…not fit\" — Enter"),
        ] {
            let row = draft_row(draft, columns);
            assert!(row.starts_with(start) && row.ends_with("then answer)"), "{row}");
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
