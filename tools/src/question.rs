//! `question`: asks the user. Each question is one access under the permission `question`, so
//! questions are asked, answered, logged and timed out like permissions. When all are answered,
//! this tool reports the answers to the model.

use std::path::PathBuf;

use leftfold_events::event::{Access, Class};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::tool::Typed;
use crate::{Context, Error, Output, Plan, Workspace};

#[derive(Debug)]
pub(crate) struct Question;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Args {
    #[schemars(description = "What to ask, in order.")]
    questions: Vec<Item>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Item {
    /// The question, whole and understandable by itself.
    question: String,
    /// A word or two to show above it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    header: String,
    /// Answers to choose from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    options: Vec<Choice>,
    /// Whether more than one option may be chosen. Default: false.
    #[serde(
        default,
        deserialize_with = "crate::args::boolean",
        skip_serializing_if = "Option::is_none"
    )]
    multiple: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Choice {
    /// The answer, in a few words.
    label: String,
    #[schemars(description = "What it would mean.")]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
}

impl Typed for Question {
    type Args = Args;
    const NAME: &'static str = "question";
    const DESCRIPTION: &'static str = include_str!("../../prompts/tools/question.md");

    fn plan(args: &Args, _: &Workspace) -> Result<Plan, Error> {
        let invalid = |problem: &str| Error::InvalidArguments {
            tool: Self::NAME,
            problem: problem.to_owned(),
        };
        if args.questions.is_empty() {
            return Err(invalid("`questions` is empty; ask at least one"));
        }
        if args.questions.iter().any(|item| item.question.trim().is_empty()) {
            return Err(invalid("`question` is empty; write what is to be asked"));
        }
        let access = args.questions.iter().map(|item| Access {
            permission: "question".to_owned(),
            patterns: vec![item.question.clone()],
            always: Vec::new(),
        });
        Ok(Plan { access: access.collect(), ..Plan::new(Class::Ask) })
    }

    async fn run(args: Args, _: Vec<PathBuf>, cx: Context) -> Result<Output, Error> {
        let answers: Vec<_> = args
            .questions
            .iter()
            .zip(&cx.answers)
            .map(|(item, answer)| answered(item, answer))
            .collect();
        if answers.len() < args.questions.len() {
            return Err(Error::Refused("Nobody was asked.".to_owned()));
        }
        let title = match answers.len() {
            1 => "Asked a question".to_owned(),
            count => format!("Asked {count} questions"),
        };
        let meta = json!({ "answers": cx.answers });
        Ok(Output::new(title, answers.join("\n\n"), &meta))
    }
}

fn answered(item: &Item, answer: &str) -> String {
    let answer = match answer.trim() {
        "" => "(agreed, without a word)",
        words => words,
    };
    format!("Question: {}\nAnswer: {answer}", item.question)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Site, kind};

    #[test]
    fn each_question_is_asked_for_by_itself() {
        let site = Site::new();
        let input = json!({ "questions": [
            { "question": "Which one?", "options": [{ "label": "a" }, { "label": "b" }] },
            { "question": "And why?" },
        ] });
        let resolved = site.resolve("question", &input);
        let patterns: Vec<_> = resolved.access.iter().map(|a| a.patterns[0].as_str()).collect();
        assert_eq!(patterns, ["Which one?", "And why?"]);
        assert!(resolved.access.iter().all(|a| a.permission == "question" && a.always.is_empty()));
        assert_eq!(resolved.class, Class::Ask);
        for input in [json!({ "questions": [] }), json!({ "questions": [{ "question": " " }] })] {
            assert!(site.resolve("question", &input).error.is_some(), "{input}");
        }
    }

    #[tokio::test]
    async fn answers_stand_beside_their_questions() {
        let site = Site::new();
        let input = json!({ "questions": [{ "question": "Which?" }, { "question": "Sure?" }] });
        let resolved = site.resolve("question", &input);
        let mut cx = site.context();
        cx.answers = vec!["the first".to_owned(), String::new()];
        let output = crate::run(&resolved, cx).await;
        assert_eq!(
            output.output,
            "Question: Which?\nAnswer: the first\n\nQuestion: Sure?\nAnswer: (agreed, without a word)"
        );
        let output = crate::run(&resolved, site.context()).await;
        assert_eq!(kind(&output), "refused");
    }
}
