//! Asks questions as permission requests, for clients without forms: each answer is an option, and
//! so is the dismissal.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionResponse,
    ToolCallContent, ToolCallStatus, ToolCallUpdate,
};
use agent_client_protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use leftfold_actors::QuestionReply;
use leftfold_events::event::Answer;
use leftfold_tools::{FilePreview, Workspace};
use leftfold_view::{FileDiff, OpenQuestion, Question, Transcript};

use leftfold_view::clean::{visible, visible_line};

use super::call_ids::{self, CallIds};
use super::shared::NAME;
use super::{calls, view};

/// The ids of the options of a permission.
const ONCE: &str = "once";
const ALWAYS: &str = "always";
const REJECT: &str = "reject";
/// Prefix of the ids of other answers; the index of the answer follows.
const ANSWER: &str = "answer-";

/// A question as the client gets it.
#[derive(Debug)]
pub(super) struct PermissionPrompt {
    pub(super) open: OpenQuestion,
    pub(super) call: ToolCallUpdate,
    pub(super) options: Vec<PermissionOption>,
    /// The answers behind the options of a question of a tool.
    pub(super) answers: Vec<String>,
}

impl PermissionPrompt {
    /// The question, with everything known about its call.
    pub(super) fn new(open: &OpenQuestion, transcript: &Transcript, ids: &CallIds) -> Self {
        let (session, _) = open.id;
        let (what, answers, options) = match &open.question {
            Some(question) => {
                let answers = answers(question);
                let options = options(&answers);
                (text(question), answers, options)
            }
            None => (
                permission_text(open),
                Vec::new(),
                permission_options(&open.permission, &open.always),
            ),
        };
        let call = transcript.session(session).and_then(|view| view.call(open.call));
        let known = call.filter(|call| call.known).map(view::fields).unwrap_or_default();
        let mut fields = known.status(ToolCallStatus::Pending).content(calls::text(&what));
        let id = match transcript.subagent(session) {
            None => ids.for_call(open.call),
            Some(status) => {
                fields.title = fields.title.map(|title| format!("{}: {title}", status.agent));
                call_ids::in_subagent(session, open.call)
            }
        };
        let call = ToolCallUpdate::new(id, fields);
        Self { open: open.clone(), call, options, answers }
    }

    /// The question, with the change that the call would make to the current files if it can be
    /// computed.
    pub(super) async fn with_change(mut self, workspace: &Arc<Workspace>) -> Self {
        let Some(change) = self.open.change.take() else { return self };
        let workspace = Arc::clone(workspace);
        let files = move || leftfold_tools::preview(&change, &workspace);
        // Reading the files may fail; the question then has the arguments instead.
        let files = tokio::task::spawn_blocking(files).await.ok().flatten();
        let content = self.call.fields.content.get_or_insert_default();
        if files.is_none() {
            content.extend(calls::text(arguments(&self.open).trim_start()));
        }
        content.extend(files.unwrap_or_default().iter().flat_map(preview));
        self
    }
}

/// The permission and its patterns, and all arguments of the call that the patterns do not show. A call
/// that changes files shows the change instead.
fn permission_text(open: &OpenQuestion) -> String {
    let named = || {
        let patterns: Vec<String> = open.patterns.iter().map(|text| visible(text)).collect();
        format!("{}: {}", visible_line(&open.permission), patterns.join(", "))
    };
    let text = open.in_words(visible).unwrap_or_else(named);
    match open.change {
        Some(_) => text,
        None => text + &arguments(open),
    }
}

fn arguments(open: &OpenQuestion) -> String {
    if open.is_all_in_patterns() {
        return String::new();
    }
    let paragraphs = open.arguments.iter().map(|(name, value)| {
        let name = if name.is_empty() { name } else { &format!("{}: ", visible_line(name)) };
        format!("\n\n{name}{}", visible(value))
    });
    paragraphs.collect()
}

fn preview(file: &FilePreview) -> Vec<ToolCallContent> {
    let mut shown = calls::changes(&FileDiff::parse(&file.diff), &file.path.to_string_lossy());
    if file.cut {
        let FilePreview { name, additions, deletions, .. } = file;
        let more = format!("{name}: +{additions} -{deletions}, too long to show in full");
        shown.extend(calls::text(&more));
    }
    shown
}

fn permission_options(permission: &str, always: &[String]) -> Vec<PermissionOption> {
    let mut options =
        vec![PermissionOption::new(ONCE, "Allow once", PermissionOptionKind::AllowOnce)];
    // what is not known can be allowed once only
    if !always.is_empty() {
        let always = format!("Always allow {permission}: {}", always.join(", "));
        options.push(PermissionOption::new(ALWAYS, always, PermissionOptionKind::AllowAlways));
    }
    options.push(PermissionOption::new(REJECT, "Reject", PermissionOptionKind::RejectOnce));
    options
}

/// The possible answers. Only one option can be chosen, even for questions that allow several. To
/// answer in other words, the user dismisses the question and prompts.
fn answers(question: &Question) -> Vec<String> {
    match question.options.as_slice() {
        [] => question.default_answer().into_iter().collect(),
        options => options.iter().map(|option| option.label.clone()).collect(),
    }
}

fn options(answers: &[String]) -> Vec<PermissionOption> {
    let answer = |(place, answer): (usize, &String)| {
        let id = format!("{ANSWER}{place}");
        PermissionOption::new(id, answer.clone(), PermissionOptionKind::AllowOnce)
    };
    let dismiss = PermissionOption::new(REJECT, "Dismiss", PermissionOptionKind::RejectOnce);
    answers.iter().enumerate().map(answer).chain([dismiss]).collect()
}

/// The answer behind the option with this id.
fn answer_of<'a>(id: &str, answers: &'a [String]) -> Option<&'a String> {
    answers.get(id.strip_prefix(ANSWER)?.parse::<usize>().ok()?)
}

/// The text of the question. It includes the options' descriptions, for which options have no
/// field.
fn text(question: &Question) -> String {
    let mut text = question.titled();
    question.numbered().for_each(|option| text.extend(["\n", &option]));
    text
}

/// The session's reply for the client's answer; `None` if the connection is gone, so that the
/// question stays open.
pub(super) fn replied<T>(
    response: Result<T, Error>,
    reply: impl FnOnce(T) -> QuestionReply,
) -> Option<QuestionReply> {
    match response {
        Ok(response) => Some(reply(response)),
        Err(error) if is_incoming_transport_closed(&error) || is_connection_terminated(&error) => {
            None
        }
        Err(error) => {
            let why = format!("The client did not answer the question: {}", error.message);
            Some(QuestionReply {
                answer: Answer::Reject,
                feedback: Some(why),
                always: None,
                by: NAME.to_owned(),
            })
        }
    }
}

/// The reply behind the chosen option.
pub(super) fn chosen(response: &RequestPermissionResponse, answers: &[String]) -> QuestionReply {
    let chosen = match &response.outcome {
        RequestPermissionOutcome::Selected(selected) => &*selected.option_id.0,
        RequestPermissionOutcome::Cancelled | _ => REJECT,
    };
    let (answer, feedback) = match chosen {
        id if let Some(answer) = answer_of(id, answers) => (Answer::Once, Some(answer.clone())),
        ONCE => (Answer::Once, None),
        ALWAYS => (Answer::Always, None),
        _ => (Answer::Reject, None),
    };
    QuestionReply { answer, feedback, always: None, by: NAME.to_owned() }
}

#[cfg(test)]
mod tests {
    use leftfold_events::SessionId;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_option_stands_for_its_answer() {
        let question = json!({ "question": "Which?", "options": [
            { "label": "red" }, { "label": "reject", "description": "none of them" },
        ] });
        let question: Question = serde_json::from_value(question).unwrap();
        let answers = answers(&question);
        let options = options(&answers);
        let ids: Vec<&str> = options.iter().map(|option| &*option.option_id.0).collect();
        let names: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
        assert_eq!(names, ["red", "reject", "Dismiss"]);
        let chosen = ids.iter().map(|id| answer_of(id, &answers).map(String::as_str));
        assert!(chosen.eq([Some("red"), Some("reject"), None]));
        assert_eq!(text(&question), "Which?\n1. red\n2. reject – none of them");
    }

    #[test]
    fn an_editor_is_first_told_what_the_call_needs_whatever_its_arguments_are() {
        let patterns = ["ls", "rm -rf x"].map(str::to_owned);
        let mut open = OpenQuestion::of_access((SessionId::default(), 1), "bash", &patterns);
        for between in ["\n".repeat(10_000), " ".repeat(10_000)] {
            open.arguments = vec![(String::new(), format!("ls{between};rm -rf x"))];
            let text = permission_text(&open);
            assert!(text.starts_with("bash: ls, rm -rf x\n\nls"), "{}", &text[..40]);
            assert!(text.trim_end().ends_with(";rm -rf x"));
        }
    }
}
