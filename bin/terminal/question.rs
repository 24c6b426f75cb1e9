//! Which key answers what.

use leftfold_actors::Reply;
use leftfold_events::event::Answer;

use super::BY;

/// The keys of a permission question.
pub(super) const PERMISSION: &str = "  allow? [o]nce  [a]lways  [n]o  no [b]ecause… ";
/// The keys of the question whether to go on with a turn that was cut off.
pub(super) const RESUME: &str = "  go on with it? [y]es  [n]o ";

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
