//! Questions of the `question` tool, as clients can ask them that know of permissions alone: each
//! answer is an option, and so is none.

use agent_client_protocol::v1::schema::{PermissionOption, PermissionOptionKind};

use super::view::REJECT;
use leftfold_view::Question;

/// What the ids of answers begin with; their place follows.
const ANSWER: &str = "answer-";

/// What may be answered. One option can be chosen, so of questions that take several answers, too,
/// it is one. Whoever has other words dismisses the question and prompts with them.
pub(super) fn answers(inquiry: &Question) -> Vec<String> {
    match inquiry.options.as_slice() {
        [] => inquiry.unsaid().into_iter().collect(),
        options => options.iter().map(|option| option.label.clone()).collect(),
    }
}

pub(super) fn options(answers: &[String]) -> Vec<PermissionOption> {
    let answer = |(place, answer): (usize, &String)| {
        let id = format!("{ANSWER}{place}");
        PermissionOption::new(id, answer.clone(), PermissionOptionKind::AllowOnce)
    };
    let dismiss = PermissionOption::new(REJECT, "Dismiss", PermissionOptionKind::RejectOnce);
    answers.iter().enumerate().map(answer).chain([dismiss]).collect()
}

/// The answer that the option of this id stands for.
pub(super) fn chosen<'a>(id: &str, answers: &'a [String]) -> Option<&'a String> {
    answers.get(id.strip_prefix(ANSWER)?.parse::<usize>().ok()?)
}

/// What the client shows of the question: options have no room for what they would mean.
pub(super) fn text(inquiry: &Question) -> String {
    let mut text = inquiry.titled();
    inquiry.numbered().for_each(|option| text.extend(["\n", &option]));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_option_stands_for_its_answer() {
        let inquiry = json!({ "question": "Which?", "options": [
            { "label": "red" }, { "label": "reject", "description": "none of them" },
        ] });
        let inquiry: Question = serde_json::from_value(inquiry).unwrap();
        let answers = answers(&inquiry);
        let options = options(&answers);
        let ids: Vec<&str> = options.iter().map(|option| &*option.option_id.0).collect();
        let names: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
        assert_eq!(names, ["red", "reject", "Dismiss"]);
        let chosen = ids.iter().map(|id| chosen(id, &answers).map(String::as_str));
        assert!(chosen.eq([Some("red"), Some("reject"), None]));
        assert_eq!(text(&inquiry), "Which?\n1. red\n2. reject – none of them");
    }
}
