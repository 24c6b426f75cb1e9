//! Asks the person at standard input one question after the other: permissions, and questions of
//! the `question` tool. On a terminal, lines count only once the keys are shown, 700 ms after the question; earlier
//! input is dropped, because the terminal has already shown it as a line.

use std::collections::VecDeque;
use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use leftfold_actors::QuestionReply;
use leftfold_events::SessionId;
use leftfold_events::event::Answer;
use leftfold_tools::Workspace;
use tokio::sync::mpsc;

use super::pages;
use leftfold_runtime::client;
use leftfold_runtime::preview;
use leftfold_runtime::write_note as print;
use leftfold_view::clean::{clean, clean_line, visible, visible_line};
use leftfold_view::{AnswerGate, GateKind, GateOutcome, GateRow, OpenQuestion, QuestionId};
use rustix::termios::{QueueSelector, tcflush};

/// The `by` of answers from this terminal.
const BY: &str = "terminal";

/// A terminal that marks pastes sends these before and after the text.
const PASTE_STARTS: &str = "\x1b[200~";
const PASTE_ENDS: &str = "\x1b[201~";

/// The open questions, and the lines typed in answer.
#[derive(Default)]
pub(crate) struct Questions {
    /// The first one is, or comes next, on the screen.
    open: VecDeque<PendingQuestion>,
    /// One reader for all questions, since there is one terminal.
    lines: Option<mpsc::UnboundedReceiver<String>>,
    /// Standard input has ended.
    over: bool,
    /// Where the calls in question would run.
    workspace: Option<Workspace>,
    /// Decides which lines count; `None` if standard input is no terminal.
    gate: Option<AnswerGate<QuestionId, Instant>>,
    /// Whether the first question is on the screen.
    shown: bool,
    /// Whether its keys are on the screen too.
    invited: bool,
    /// The next line is the pattern that an "always" is to allow.
    editing: bool,
    /// The last line was pasted, and the next one is too.
    pasting: bool,
    /// The question that was answered here last.
    answered: Option<QuestionId>,
}

/// One question to answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PendingQuestion {
    pub(crate) question: OpenQuestion,
    /// The name of the subagent that asks, if it is one.
    pub(crate) agent: Option<String>,
    /// The rule because of which it is asked, if it is known.
    pub(crate) why: Option<String>,
}

impl PendingQuestion {
    /// The arguments that answer it from another terminal.
    pub(crate) fn how(&self) -> &'static str {
        match self.question.question {
            None => "once|always|reject",
            Some(_) => "once --feedback ANSWER",
        }
    }

    /// The arguments of the call, whole, unless the text of the question has them.
    fn arguments(&self) -> String {
        if self.question.is_all_in_patterns() {
            return String::new();
        }
        let lines = self.question.arguments.iter().map(|(name, value)| {
            let name = if name.is_empty() { name } else { &format!("{}: ", visible_line(name)) };
            format!("    {name}{}\n", visible(value).replace('\n', "\n      "))
        });
        lines.collect()
    }

    /// The text of the question.
    fn text(&self) -> String {
        let agent = self.agent.as_ref().map(|agent| format!("{}: ", visible_line(agent)));
        let agent = agent.unwrap_or_default();
        let OpenQuestion { permission, patterns, .. } = &self.question;
        let Some(question) = &self.question.question else {
            // Further lines are indented, so that none looks like Leftfold's.
            let pattern = |text: &str| visible(text).replace('\n', "\n    ");
            if let Some(words) = self.question.in_words(pattern) {
                return format!("  {agent}allow to {words}? ");
            }
            let patterns: Vec<String> = patterns.iter().map(|text| pattern(text)).collect();
            let permission = visible_line(permission);
            return format!("  {agent}allow {permission} on {}? ", patterns.join(", "));
        };
        let mut shown = format!("  {agent}{}\n", clean(&question.titled()));
        question.numbered().for_each(|option| shown.extend(["    ", &clean_line(&option), "\n"]));
        shown
    }

    /// How to answer. The answer is typed after its end.
    fn invitation(&self) -> String {
        let Some(question) = &self.question.question else {
            let always = if self.question.always.is_empty() { "" } else { "[a]lways, " };
            return format!("[o]nce, {always}[n]o, or say why not: ");
        };
        let how = match (question.options.len(), question.multiple) {
            (0, _) => "your answer",
            (_, false) => "a number, or an answer of your own",
            (_, true) => "numbers with commas between them, or an answer of your own",
        };
        format!("  {how} (an empty line dismisses the question): ")
    }

    /// Everything that an "always" would allow, and the second line that it takes.
    fn confirmation(&self) -> String {
        let mut text = "  always, in this project, without asking again:\n".to_owned();
        for pattern in &self.question.always {
            let permission = visible_line(&self.question.permission);
            text.extend(["    ", &permission, ": ", &visible_line(pattern), "\n"]);
        }
        text + "  [y] allows it from now on, [e]dit; any other line goes back: "
    }

    fn kind(&self) -> GateKind {
        match self.question.question {
            Some(_) => GateKind::Choice,
            None => GateKind::Permission { always: !self.question.always.is_empty() },
        }
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
        let gate = std::io::stdin().is_terminal().then(AnswerGate::default);
        Self { workspace: Some(workspace), gate, ..Self::default() }
    }

    pub(crate) fn ask(&mut self, what: PendingQuestion) {
        if self.open.iter().any(|open| open.question.id == what.question.id) {
            return;
        }
        self.open.push_back(what);
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
        let first = self.open.front().map(|first| first.question.id);
        let shown = first.filter(|first| closed(*first));
        self.open.retain(|open| !closed(open.question.id));
        if shown.is_some() {
            if self.gate.is_some() && shown != self.answered {
                print("\n  → closed: answered elsewhere, or no longer asked\n");
            }
            self.shown = false;
        }
    }

    /// Shows a question whose answer was refused.
    pub(crate) fn ask_again(&mut self, id: QuestionId) {
        self.answered = None;
        if let Some(gate) = &mut self.gate {
            gate.close();
        }
        self.shown &= self.open.front().is_none_or(|first| first.question.id != id);
    }

    fn show(&mut self) {
        (self.shown, self.editing) = (true, false);
        if let Some(asked) = self.open.front().filter(|_| !self.over) {
            // Computed now, because files may have changed since the question was opened.
            let change = asked.question.change.as_ref().zip(self.workspace.as_ref());
            let change = change.map(|(change, workspace)| preview::text(change, workspace));
            let change = change.filter(|change| !change.is_empty());
            let why = asked.why.as_ref().map(|why| format!("    {}\n", visible_line(why)));
            match change {
                Some(change) => pages::note_lines(&change, pages::indented_diff_line),
                None => print(&asked.arguments()),
            }
            print(&(why.unwrap_or_default() + &asked.text()));
            self.invited = false;
            match &mut self.gate {
                Some(gate) => gate.show(asked.question.id, asked.kind(), Instant::now()),
                None => self.invite(),
            }
        }
    }

    /// Shows how to answer. Lines count from here on.
    fn invite(&mut self) {
        let Some(asked) = self.open.front() else { return };
        print(&asked.invitation());
        self.invited = true;
    }

    /// Waits until lines count, and drops what was typed until then.
    async fn invited(&mut self) {
        if self.invited {
            return;
        }
        let gate = self.gate.as_ref();
        if let Some(from) = gate.and_then(|gate| gate.counts_from(Instant::now())) {
            tokio::time::sleep_until(from.into()).await;
        }
        // Without a terminal there is no gate.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        if let Some(lines) = &mut self.lines {
            while lines.try_recv().is_ok() {}
        }
        self.invite();
    }

    /// Shows the first question, and waits for its answer. It waits forever while no question is open, until an
    /// answered one is closed (a rejection may close others too), and after the end of input: others may then
    /// answer through the socket, until the question's deadline.
    pub(crate) async fn answered(&mut self) -> (QuestionId, QuestionReply) {
        loop {
            let first = self.open.front().map(|first| first.question.id);
            if first.is_none() || first == self.answered || self.over {
                return std::future::pending().await;
            }
            if !self.shown {
                self.show();
            }
            self.invited().await;
            let line = self.lines.get_or_insert_with(read_lines).recv().await;
            let Some(line) = line else {
                self.over = true;
                continue;
            };
            if let Some(reply) = self.take(&line, Instant::now()) {
                return reply;
            }
        }
    }

    /// The answer in a line; `None` if a further line is needed.
    fn take(&mut self, line: &str, now: Instant) -> Option<(QuestionId, QuestionReply)> {
        let asked = self.open.front()?;
        let starts = line.rfind(PASTE_STARTS);
        let ends = line.rfind(PASTE_ENDS);
        let was_pasted = std::mem::replace(&mut self.pasting, starts > ends);
        if (was_pasted && ends.is_none()) || starts.or(ends).is_some() {
            self.pasting |= was_pasted && ends.is_none();
            print("  Pasted text is no answer. Type it: ");
            return None;
        }
        let (id, mut reply) = (asked.question.id, asked.reply(line));
        if std::mem::take(&mut self.editing) {
            let pattern = line.trim();
            if pattern.is_empty() {
                print("  ");
                self.invited = false;
                return None;
            }
            self.answered = Some(id);
            let always = Some(vec![pattern.to_owned()]);
            let by = BY.to_owned();
            return Some((
                id,
                QuestionReply { answer: Answer::Always, feedback: None, always, by },
            ));
        }
        let key = match (asked.kind(), reply.answer) {
            (GateKind::Permission { .. }, Answer::Once) => Some("o"),
            (GateKind::Permission { .. }, Answer::Always) => Some("a"),
            (GateKind::Permission { .. }, Answer::Reject)
            | (GateKind::Choice | GateKind::Consent { .. }, _) => None,
        };
        if let Some(gate) = &mut self.gate {
            let confirms = gate.row(now) == GateRow::Confirm;
            let key = match (confirms, line.trim()) {
                (true, "y" | "yes") => Some("y"),
                (true, "e" | "edit") => Some("e"),
                (true, _) => Some("\n"),
                (false, _) => key,
            };
            if let Some(key) = key {
                match gate.press(key, now) {
                    GateOutcome::Answer(answer) => {
                        reply = QuestionReply { answer, feedback: None, ..reply };
                    }
                    GateOutcome::Redraw if !confirms => {
                        print(&asked.confirmation());
                        return None;
                    }
                    GateOutcome::EditAlways => {
                        print("  the pattern to allow instead (an empty line goes back): ");
                        self.editing = true;
                        gate.show(id, asked.kind(), now);
                        return None;
                    }
                    // No "always" is offered, or the way back leads to the question.
                    _ => {
                        print("  ");
                        self.invited = false;
                        return None;
                    }
                }
            }
        }
        self.answered = Some(id);
        Some((id, reply))
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
    QuestionReply { answer, feedback, always: None, by: BY.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(id: QuestionId, permission: &str) -> PendingQuestion {
        let question = OpenQuestion::of_access(id, permission, &["ls".to_owned()]);
        PendingQuestion { question, agent: None, why: None }
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
            asked.text() + &asked.invitation(),
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

    #[test]
    fn always_takes_a_second_line_on_a_terminal() {
        let later = Instant::now() + 2 * leftfold_view::QUIET_DELAY;
        let id = (SessionId::default(), 1);
        for (always, lines, expected) in [
            (true, &["a", "y"][..], Some(Answer::Always)),
            (true, &["always", "yes"], Some(Answer::Always)),
            (true, &["a", "a"], None),
            (true, &["a", ""], None),
            (true, &["a"], None),
            (false, &["a"], None),
            (true, &["y"], Some(Answer::Once)),
            (true, &["use git"], Some(Answer::Reject)),
            // pasted
            (true, &["\x1b[200~o\x1b[201~"], None),
            (true, &["\x1b[200~o", "o", "o\x1b[201~"], None),
            (true, &["\x1b[200~o", "o\x1b[201~", "o"], Some(Answer::Once)),
        ] {
            let mut asked = permission(id, "bash");
            if always {
                asked.question.always = vec!["ls *".to_owned()];
            }
            let mut questions =
                Questions { gate: Some(AnswerGate::default()), ..Questions::default() };
            questions.ask(asked);
            questions.show();
            let mut replies = lines.iter().map(|line| questions.take(line, later));
            let reply = replies.find_map(|reply| reply);
            assert_eq!(reply.map(|(_, reply)| reply.answer), expected, "{lines:?}");
        }
        let mut asked = permission(id, "bash");
        asked.question.always = vec!["ls *".to_owned(), "cargo test *".to_owned()];
        let text = asked.confirmation();
        assert!(text.contains("bash: ls *\n    bash: cargo test *\n"), "{text}");
        assert!(permission(id, "bash").invitation().starts_with("[o]nce, [n]o"));
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
        for of in 5..=7 {
            questions.ask(permission(asked(of), "bash"));
        }
        sender.send("n".to_owned()).unwrap();
        assert_eq!(questions.answered().await.0, asked(5));
        // the rejection closes another question too, which is not shown before
        let soon = std::time::Duration::from_millis(10);
        assert!(tokio::time::timeout(soon, questions.answered()).await.is_err());
        questions.close(asked(5));
        assert!(!questions.shown);
        questions.close(asked(6));
        sender.send("o".to_owned()).unwrap();
        assert_eq!(questions.answered().await.0, asked(7));
        questions.close(asked(7));
        questions.ask(permission(asked(4), "bash"));
        drop(sender);
        let end = tokio::time::timeout(std::time::Duration::from_millis(10), questions.answered());
        assert!(end.await.is_err(), "the end of input is no person's no");
    }
}
