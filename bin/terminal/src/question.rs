//! What a question shows, and which key answers what.

use leftfold_actors::Reply;
use leftfold_events::event::Answer;
use leftfold_tools::FilePreview;

use super::BY;
use super::render::{Look, Question, Renderer};
use super::style::Face;
use super::wrap::Wrap;

/// The keys of a permission question.
pub(super) const PERMISSION: &str = "  allow? [o]nce  [a]lways  [n]o  no [b]ecause… ";
/// The keys of the question whether to go on with a turn that was cut off.
pub(super) const RESUME: &str = "  go on with it? [y]es  [n]o ";

/// How a question is answered that comes while a line is being typed.
pub(super) const ANNOUNCED: &str = "  Enter on an empty line: answer, and follow the turn";

/// What a key means for a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Reply(Answer),
    /// No, and a line with the reason follows.
    Because,
}

pub(super) fn choice(key: char) -> Option<Choice> {
    match key {
        'o' | 'y' => Some(Choice::Reply(Answer::Once)),
        'a' => Some(Choice::Reply(Answer::Always)),
        'n' => Some(Choice::Reply(Answer::Reject)),
        'b' => Some(Choice::Because),
        _ => None,
    }
}

pub(super) fn reply(answer: Answer, feedback: Option<String>) -> Reply {
    Reply { answer, feedback, by: BY.to_owned() }
}

impl Renderer {
    /// What a question is about, before its keys are named: with `change`, what its call would change,
    /// as far as that is known. Nothing else that has to be allowed is cut.
    pub(super) fn question(&mut self, question: &Question, change: &[FilePreview]) -> String {
        if let Some(inquiry) = &question.inquiry {
            return self.inquiry(inquiry);
        }
        let Look { style, columns } = self.look;
        let mut out = self.text_ends();
        let mut wrap = Wrap::new(style, columns.saturating_sub(1));
        let mut argument = String::new();
        if let Some(call) = self.calls.get_mut(&question.called) {
            argument = call.argument().trim().to_owned();
            let several = argument.contains('\n');
            wrap.begin(Face::YELLOW, "? ", &mut out);
            let shown = if several { call.heading() } else { format!("{} {argument}", call.name) };
            wrap.push(Face::PLAIN, &shown, &mut out);
            wrap.end_line(&mut out);
            let preview = call.preview(change, style, columns);
            call.previewed = !preview.is_empty();
            preview.iter().for_each(|line| out.extend([line, "\n"]));
        }
        if question.patterns != [argument] {
            wrap.begin(Face::PLAIN, "  ", &mut out);
            let what = format!("{}: {}", question.permission, question.patterns.join(", "));
            wrap.push(Face::YELLOW, &what, &mut out);
            wrap.end_line(&mut out);
        }
        out
    }
}
