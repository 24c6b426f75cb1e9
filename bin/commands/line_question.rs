//! Asks the person at standard input one question after the other: permissions, and questions of
//! the `question` tool.

use std::collections::VecDeque;
use std::io::{BufRead, Write};

use leftfold_actors::QuestionReply;
use leftfold_events::SessionId;
use leftfold_events::event::Answer;
use leftfold_tools::Workspace;
use tokio::sync::mpsc;

use leftfold_runtime::client;
use leftfold_runtime::preview;
use leftfold_runtime::redact_output;
use leftfold_view::{OpenQuestion, QuestionId};

/// The `by` of answers from this terminal.
const BY: &str = "terminal";

/// The open questions, and the lines typed in answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// The first one is on the screen.
    open: VecDeque<PendingQuestion>,
    /// One reader for all questions, since there is one terminal.
    lines: Option<mpsc::UnboundedReceiver<String>>,
    /// Standard input has ended.
    over: bool,
    /// Where the calls in question would run.
    workspace: Option<Workspace>,
}

/// One question to answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingQuestion {
    pub(crate) question: OpenQuestion,
    /// The name of the subagent that asks, if it is one.
    pub(crate) agent: Option<String>,
}

impl PendingQuestion {
    /// The arguments that answer it from another terminal.
    pub(crate) fn how(&self) -> &'static str {
        match self.question.question {
            None => "once|always|reject",
            Some(_) => "once --feedback ANSWER",
        }
    }

    /// The text of the question. The answer is typed after its end.
    fn text(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
        let OpenQuestion { permission, patterns, .. } = &self.question;
        let Some(question) = &self.question.question else {
            let what = format!("{permission} on {}", patterns.join(", "));
            return format!("  {agent}allow {what}? [o]nce, [a]lways, [n]o, or say why not: ");
        };
        let mut shown = format!("  {agent}{}\n", question.titled());
        question.numbered().for_each(|option| shown.extend(["    ", &option, "\n"]));
        let how = match (question.options.len(), question.multiple) {
            (0, _) => "your answer",
            (_, false) => "a number, or an answer of your own",
            (_, true) => "numbers with commas between them, or an answer of your own",
        };
        shown + &format!("  {how} (an empty line dismisses the question): ")
    }

    fn reply(&self, line: &str) -> QuestionReply {
        match &self.question.question {
            None => reply(line),
            Some(question) => client::reply(question.parse_answer(line), BY),
        }
    }
}

impl Questions {
    pub(crate) fn new(workspace: Workspace) -> Self {
        Self { workspace: Some(workspace), ..Self::default() }
    }

    pub(crate) fn ask(&mut self, what: PendingQuestion) {
        if self.open.iter().any(|open| open.question.id == what.question.id) {
            return;
        }
        self.open.push_back(what);
        if self.open.len() == 1 {
            self.show();
        }
    }

    /// Closes a question that anybody has answered.
    pub(crate) fn close(&mut self, id: QuestionId) {
        self.close_those(|open| open == id);
    }

    /// Closes all questions of a session whose turn has ended.
    pub(crate) fn close_all(&mut self, session: SessionId) {
        self.close_those(|(open, _)| open == session);
    }

    fn close_those(&mut self, closed: impl Fn(QuestionId) -> bool) {
        let shown = self.open.front().is_some_and(|first| closed(first.question.id));
        self.open.retain(|open| !closed(open.question.id));
        if shown {
            self.show();
        }
    }

    fn show(&mut self) {
        if let Some(asked) = self.open.front().filter(|_| !self.over) {
            // Computed now, because files may have changed since the question was opened.
            let change = asked.question.change.as_ref().zip(self.workspace.as_ref());
            let change = change.map(|(change, workspace)| preview::text(change, workspace));
            let mut stderr = std::io::stderr();
            // If the terminal is gone, no answer comes from it either.
            let _ = write!(
                stderr,
                "{}{}",
                change.unwrap_or_default(),
                redact_output::clean(&asked.text())
            );
            let _ = stderr.flush();
        }
    }

    /// The next answer. It waits forever while no question is open, and after the end of input:
    /// others may then answer through the socket, until the question's deadline.
    pub(crate) async fn answered(&mut self) -> (QuestionId, QuestionReply) {
        let Some(what) = self.open.front().filter(|_| !self.over) else {
            return std::future::pending().await;
        };
        let lines = self.lines.get_or_insert_with(read_lines);
        match lines.recv().await {
            Some(line) => (what.question.id, what.reply(&line)),
            None => {
                self.over = true;
                std::future::pending().await
            }
        }
    }
}

/// Reads lines on a thread of its own, since reading blocks.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    let thread = std::thread::Builder::new().name("input".into());
    let reading = thread.spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    if let Err(error) = reading {
        leftfold_runtime::note(&format!("leftfold: answers cannot be read here: {error}"));
    }
    lines
}

fn reply(line: &str) -> QuestionReply {
    let (answer, feedback) = match line.trim() {
        "o" | "once" | "y" | "yes" => (Answer::Once, None),
        "a" | "always" => (Answer::Always, None),
        "n" | "no" | "" => (Answer::Reject, None),
        why => (Answer::Reject, Some(why.to_owned())),
    };
    QuestionReply { answer, feedback, by: BY.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(id: QuestionId, permission: &str) -> PendingQuestion {
        let question = OpenQuestion::of_access(id, permission, &["ls".to_owned()]);
        PendingQuestion { question, agent: None }
    }

    #[test]
    fn what_is_typed_is_understood() {
        for (line, answer, feedback) in [
            ("o", Answer::Once, None),
            (" yes ", Answer::Once, None),
            ("a", Answer::Always, None),
            ("", Answer::Reject, None),
            ("no", Answer::Reject, None),
            ("use the other file", Answer::Reject, Some("use the other file")),
        ] {
            let reply = reply(line);
            assert_eq!((reply.answer, reply.feedback.as_deref()), (answer, feedback), "{line:?}");
        }
    }

    #[test]
    fn a_question_shows_its_options_and_takes_numbers_or_words() {
        let question = serde_json::json!({ "question": "Which?", "header": "Colour", "options": [
            { "label": "red", "description": "like fire" }, { "label": "blue" },
        ] });
        let mut asked = permission((SessionId::default(), 1), "question");
        asked.question.question = Some(serde_json::from_value(question).unwrap());
        assert_eq!(
            asked.text(),
            "  [Colour] Which?\n    1. red – like fire\n    2. blue\n  a number, or an answer of \
             your own (an empty line dismisses the question): "
        );
        for (line, answer, feedback) in [
            ("2", Answer::Once, Some("blue")),
            ("n", Answer::Once, Some("n")),
            ("", Answer::Reject, None),
        ] {
            let reply = asked.reply(line);
            assert_eq!((reply.answer, reply.feedback.as_deref()), (answer, feedback), "{line:?}");
        }
    }

    #[tokio::test]
    async fn questions_are_asked_one_after_the_other_and_closed_ones_not_at_all() {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut questions = Questions { lines: Some(lines), ..Questions::default() };
        let asked = |of| (SessionId::default(), of);
        let child = SessionId::default().child(1, leftfold_events::Time::default());
        for of in 1..=3 {
            questions.ask(permission(asked(of), "bash"));
        }
        // Asked again, as after a restart.
        questions.ask(permission(asked(3), "bash"));
        questions.ask(permission((child, 2), "bash"));
        questions.close(asked(1));
        sender.send("o".to_owned()).unwrap();
        assert_eq!(questions.answered().await.0, asked(2));
        questions.close(asked(2));
        sender.send("n".to_owned()).unwrap();
        assert_eq!(questions.answered().await.0, asked(3));
        questions.close(asked(3));
        sender.send("n".to_owned()).unwrap();
        assert_eq!(questions.answered().await.0, (child, 2));
        questions.close_all(child);
        assert!(questions.open.is_empty());
        questions.ask(permission(asked(4), "bash"));
        drop(sender);
        let end = tokio::time::timeout(std::time::Duration::from_millis(10), questions.answered());
        assert!(end.await.is_err(), "the end of input is no person's no");
    }
}
