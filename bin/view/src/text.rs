//! Renders a transcript as plain text, for `run`, `observe` and the lines about subagents.

use leftfold_events::SessionId;
use leftfold_events::event::{Answer, EndReason, Ended, Finished, PartKind};

use crate::call_result::{self, CallResult, ResultBody, answer_of};
use crate::change::{CallStep, Change, CompactionEnd, Outcome};
use crate::clean::{Cleaner, clean, printable, visible, visible_line};
use crate::diff::{FileDiff, LineKind};
use crate::file_changes;
use crate::question::{OpenQuestion, Question};
use crate::session::{Call, SessionView};
use crate::status;
use crate::transcript::{SubagentStatus, Transcript};
use crate::words::{counted, first_line, shorten};

/// Text for standard output, and notes for standard error. Both are clean.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TextOutput {
    pub text: String,
    pub notes: String,
}

/// Turns the changes of a transcript into text.
#[derive(Debug)]
pub struct TextRenderer {
    /// Whether standard output ends with text without a line end.
    open_line: bool,
    cleaner: Cleaner,
}

impl Default for TextRenderer {
    fn default() -> Self {
        Self { open_line: false, cleaner: Cleaner::keeping_tabs() }
    }
}

impl TextRenderer {
    /// Renders `changes` in `session`. A subagent's text is left out, because it is for the model
    /// that started it; its actions become notes.
    pub fn render(
        &mut self,
        transcript: &Transcript,
        session: SessionId,
        changes: &[Change],
    ) -> TextOutput {
        let mut output = TextOutput::default();
        let own = transcript.root().filter(|root| root.id == session);
        for change in changes {
            match own {
                Some(root) => self.change(root, change, &mut output),
                None => {
                    let line = subagent_line(transcript, session, change);
                    line.iter().for_each(|line| self.note(&mut output, line));
                }
            }
            if let Change::TurnEnded { ended, .. } = change
                && own.is_some()
                && transcript.subagent_cost > 0.0
            {
                let cost = transcript.subagent_cost;
                let all = ended.cost + cost;
                self.note(&mut output, &format!("${all:.4}, of which subagents ${cost:.4}"));
            }
        }
        output
    }

    fn change(&mut self, session: &SessionView, change: &Change, output: &mut TextOutput) {
        match change {
            Change::Streamed { kind: PartKind::Text, text, .. } => {
                let text = self.cleaner.clean(text);
                if !text.is_empty() {
                    self.open_line = !text.ends_with('\n');
                }
                output.text.push_str(&text);
            }
            Change::Call { call, step } => {
                if let Some(call) = session.call(*call) {
                    self.call(call, step, output);
                }
            }
            Change::Replied { .. } => self.end_text(output),
            Change::RequestFailed => self.cleaner = Cleaner::keeping_tabs(),
            Change::Retry { attempt, error, until, void_text, .. } => {
                self.end_text(output);
                let to = if *void_text { &mut output.text } else { &mut output.notes };
                let wait = status::wait(*until, session.at);
                to.push_str(&format!(
                    "[retrying{wait}, attempt {attempt}: {}]\n",
                    printable(error)
                ));
            }
            Change::TurnEnded { ended, changed, .. } => {
                if changed.files > 0 {
                    self.note(output, &file_changes::sum(changed));
                }
                self.turn_ended(ended, output);
            }
            Change::Resumed { .. } => self.note(output, "[resumed]"),
            Change::Notice(line) => self.note(output, line),
            Change::CompactionStarted(_) => {
                self.note(output, "[compacting: writing a summary]");
            }
            Change::CompactionEnded { end: CompactionEnd::Finished { summary }, .. } => {
                let length = counted(summary.chars().count(), "character");
                let written = format!("[summary of {length}]");
                self.note(output, &written);
            }
            Change::Asked(question) => {
                if let Some(open) = session.question(*question) {
                    self.note(
                        output,
                        &match &open.question {
                            Some(question) => format!("  ? {}", clean(&question.titled())),
                            None => format!("  {}", asks(open)),
                        },
                    );
                }
            }
            Change::Answered { question, reply, feedback, .. } => {
                let asked = session.question(*question).and_then(|open| open.question.as_ref());
                if let Some(asked) = asked.map(Question::titled) {
                    let answer = answer_text(*reply, feedback.as_deref());
                    self.note(output, &format!("  ? {asked} → {answer}"));
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &Call, step: &CallStep, output: &mut TextOutput) {
        match step {
            CallStep::Called if call.parent.is_none() => self.end_line(output),
            CallStep::Resolved => self.note(output, &format!("● {}", call.heading())),
            // the call has been shown as timed out
            CallStep::Ended { outcome: Outcome::Cancelled, first: false } => {}
            CallStep::Ended { outcome, .. } => {
                if let Outcome::Unresolved(_) = outcome {
                    self.note(output, &format!("● {}", call.heading()));
                }
                self.call_ended(outcome, output);
            }
            _ => {}
        }
    }

    fn call_ended(&mut self, outcome: &Outcome, output: &mut TextOutput) {
        match outcome {
            Outcome::Finished(finished) => {
                self.note(output, &format!("  {}", summary(finished)));
                for line in excerpt(finished) {
                    self.note(output, &format!("    {line}"));
                }
            }
            Outcome::Unresolved(error) => self.note(output, &format!("  {}", first_line(error))),
            Outcome::Denied => self.note(output, "  denied"),
            Outcome::Lost => self.note(output, "  ? outcome unknown after a crash"),
            Outcome::Cancelled => self.note(output, "  ✗ stopped"),
            Outcome::TimedOut { asked: false } => self.note(output, "  ✗ timed out"),
            Outcome::Rejected { .. } | Outcome::TimedOut { asked: true } => {}
        }
    }

    fn turn_ended(&mut self, ended: &Ended, output: &mut TextOutput) {
        self.end_text(output);
        let Some(reason) = stopped(ended.reason) else { return };
        let reason = if ended.is_timeout() { "timeout" } else { reason };
        let error = ended.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        self.note(output, &format!("{reason}{error}"));
    }

    fn note(&mut self, output: &mut TextOutput, line: &str) {
        self.end_line(output);
        output.notes.push_str(&printable(line));
        output.notes.push('\n');
    }

    /// The model's text is over, and with it a sequence that it has left open.
    fn end_text(&mut self, output: &mut TextOutput) {
        self.cleaner = Cleaner::keeping_tabs();
        self.end_line(output);
    }

    fn end_line(&mut self, output: &mut TextOutput) {
        if std::mem::take(&mut self.open_line) {
            output.text.push('\n');
        }
    }
}

/// Why a turn ended early.
pub fn stopped(reason: EndReason) -> Option<&'static str> {
    match reason {
        EndReason::Completed => None,
        EndReason::Error => Some("error"),
        EndReason::Blocked => Some("stopped: a call was rejected"),
        EndReason::Aborted => Some("interrupted"),
        EndReason::MaxSteps => Some("stopped: the step limit is reached"),
        EndReason::Limit => Some("stopped: a limit is reached"),
        EndReason::Incomplete => Some("incomplete"),
        EndReason::InvalidOutput => Some("no valid answer"),
    }
}

/// Lines about subagents below this depth are not indented further.
const DEEPEST: usize = 20;

/// The line for a change in a subagent, indented by its depth.
pub fn subagent_line(
    transcript: &Transcript,
    session: SessionId,
    change: &Change,
) -> Option<String> {
    let (status, view) = (transcript.subagent(session)?, transcript.session(session)?);
    let text = if let Change::Call { call, step } = change {
        called(status, view.call(*call)?, step)?
    } else if let Change::Asked(question) = change {
        asks(view.question(*question)?)
    } else if let Change::TurnEnded { ended, .. } = change {
        let how = match ended.reason {
            EndReason::Completed => return None,
            EndReason::Blocked => "was stopped: a call was rejected",
            EndReason::Error => "failed",
            EndReason::Aborted => "was interrupted",
            EndReason::MaxSteps => "has reached its step limit",
            EndReason::Limit => "has reached a limit",
            EndReason::Incomplete => "has ended with an incomplete answer",
            EndReason::InvalidOutput => "has ended without a valid answer",
        };
        how.to_owned()
    } else {
        return None;
    };
    let indent = "  ".repeat(status.depth.min(DEEPEST));
    Some(format!("{indent}{} {text}", status.agent))
}

fn called(status: &SubagentStatus, call: &Call, step: &CallStep) -> Option<String> {
    let heading = if call.name.is_empty() { status.last.clone() } else { call.heading() };
    match step {
        CallStep::Resolved => Some(format!("● {heading}")),
        CallStep::Ended { outcome: Outcome::Unresolved(error), .. } => {
            Some(format!("✗ {heading}: {}", first_line(error)))
        }
        CallStep::Ended { outcome: Outcome::Denied, .. } => Some(format!("✗ {heading}: denied")),
        CallStep::Ended { outcome: Outcome::Finished(finished), .. } => {
            let touched = touched(finished);
            (!touched.is_empty()).then(|| format!("! {heading}: {}", touched.join(", ")))
        }
        _ => None,
    }
}

/// The files that decide what later runs do, and that a command has made or changed.
fn touched(finished: &Finished) -> Vec<String> {
    let metadata = finished.metadata.value();
    let of = |verb: &str| {
        let paths = metadata["sandbox"][verb].as_array().cloned().unwrap_or_default();
        let texts = paths.iter().filter_map(serde_json::Value::as_str);
        texts.map(|path| format!("{verb} {}", visible_line(path))).collect::<Vec<_>>()
    };
    [of("made"), of("changed")].concat()
}

fn asks(open: &OpenQuestion) -> String {
    if let Some(words) = open.in_words(visible) {
        return format!("asks to {words}");
    }
    let patterns: Vec<String> = open.patterns.iter().map(|text| visible(text)).collect();
    format!("asks for {}: {}", visible_line(&open.permission), patterns.join(", "))
}

/// The text of an answer to a question of the `question` tool.
pub(crate) fn answer_text(reply: Answer, feedback: Option<&str>) -> String {
    match (reply, feedback.map(str::trim).filter(|words| !words.is_empty())) {
        (Answer::Once | Answer::Always, Some(answer)) => answer.to_owned(),
        (Answer::Once | Answer::Always, None) => "(agreed without a comment)".to_owned(),
        (Answer::Reject, Some(why)) => format!("(not answered: {why})"),
        (Answer::Reject, None) => "(dismissed)".to_owned(),
    }
}

/// The number of lines to show of a call's output or diff.
const EXCERPT: usize = 8;

/// The outcome of a call in one line.
fn summary(finished: &Finished) -> String {
    let exit = finished.metadata.value().get("exit").and_then(serde_json::Value::as_i64);
    let mark = if finished.is_error || exit.is_some_and(|exit| exit != 0) { "✗" } else { "✓" };
    let output = clean(&finished.output);
    let line = if finished.title.is_empty() || finished.is_error {
        first_line(answer_of(&output).unwrap_or(&output))
    } else {
        &finished.title
    };
    match exit {
        Some(exit) if exit != 0 => format!("{mark} {line} (exit {exit})"),
        _ => format!("{mark} {line}"),
    }
}

/// The diff of a changed file, or the last lines of a command's output.
pub(crate) fn excerpt(finished: &Finished) -> Vec<String> {
    if let Some(files) = FileDiff::of_call(finished) {
        let lines = files.iter().flat_map(|file| &file.0);
        let changed = lines.filter(|line| matches!(line.kind, LineKind::Added | LineKind::Removed));
        return changed.take(EXCERPT).map(|line| clip(&clean(&line.text))).collect();
    }
    let result = CallResult::from_finished(finished);
    let ResultBody::Output(output) = &result.body else { return Vec::new() };
    let lines: Vec<&str> = output.lines().collect();
    let places = call_result::excerpt(&lines, &result.reasons, EXCERPT);
    places.iter().map(|at| clip(lines[*at])).collect()
}

fn clip(line: &str) -> String {
    shorten(line, 120)
}
