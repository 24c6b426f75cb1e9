//! Events as people read them: what a run prints as it goes, and (in `detail`) what a replay prints of it
//! later.

mod detail;
mod reason;

use crate::{OpenQuestions, Question, TitleRequest};
use leftfold_events::event::{
    Answer, Compaction, EndReason, Ended, Event, Finished, Model, PartKind, Permission, Session,
    Tool, Turn,
};
use leftfold_events::rules::Action;
use leftfold_events::{Envelope, Seq};

pub use self::detail::{detail, replayed};
pub use self::reason::reason;
use crate::changes;
pub use crate::words::{brief, first_line, quoted, shorten};

/// Text for standard output, and notes for standard error.
#[derive(Debug, Default, PartialEq)]
pub struct Shown {
    pub text: String,
    pub notes: String,
}

/// Follows a session and turns each event into what is to be shown of it.
#[derive(Debug, Default)]
pub struct Live {
    /// Whether the last thing on standard output was text without an end of line.
    open: bool,
    /// Whether the attempt under way has shown text that a retry would make void.
    shown: bool,
    titles: TitleRequest,
    inquiries: OpenQuestions,
    changed: changes::Tally,
}

impl Live {
    pub fn show(&mut self, event: &Envelope) -> Shown {
        let mut shown = Shown::default();
        self.inquiries.follow(event);
        self.changed.follow(event).iter().for_each(|line| self.note(&mut shown, line));
        match &event.event {
            Event::Model(_) if self.titles.has(event) => {}
            Event::Model(event) => self.model(event, &mut shown),
            Event::Tool(event) => self.tool(event, &mut shown),
            Event::Permission(permission) => self.permission(permission, event, &mut shown),
            Event::Turn(Turn::Ended(ended)) => self.ended(ended, &mut shown),
            Event::Session(Session::Resumed { .. }) => self.note(&mut shown, "[resumed]"),
            Event::Compaction(Compaction::Started { .. }) => {
                self.note(&mut shown, "[making room: a summary is written]");
            }
            Event::Compaction(Compaction::Finished { summary }) => {
                let written = format!("[summary of {} characters]", summary.chars().count());
                self.note(&mut shown, &written);
            }
            Event::Session(_)
            | Event::Turn(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_)
            | Event::Plugin(_) => {}
        }
        shown
    }

    fn permission(&mut self, event: &Permission, envelope: &Envelope, shown: &mut Shown) {
        let asked = |of: Option<Seq>| self.inquiries.asked(of?).map(Question::titled);
        let line = match event {
            Permission::Ruled { action: Action::Deny, .. } => "  denied".to_owned(),
            Permission::Ruled { .. } => return,
            Permission::Asked { permission, patterns, .. } => match asked(Some(envelope.seq)) {
                Some(question) => format!("  ? {question}"),
                None => format!("  asks for {permission}: {}", patterns.join(", ")),
            },
            Permission::Answered { reply, feedback, .. } => match asked(envelope.of) {
                Some(question) => format!("  ? {question} → {}", said(*reply, feedback.as_deref())),
                None => return,
            },
        };
        self.note(shown, &line);
    }

    fn model(&mut self, event: &Model, shown: &mut Shown) {
        match event {
            Model::Requested { .. } => self.shown = false,
            Model::Streamed { parts } => {
                for part in parts.iter().filter(|part| part.kind == PartKind::Text) {
                    shown.text.push_str(&part.text);
                }
                if let Some(last) = shown.text.chars().last() {
                    (self.open, self.shown) = (last != '\n', true);
                }
            }
            Model::Called { .. } | Model::Replied { .. } => self.end_line(shown),
            Model::RetryScheduled { error, .. } => {
                self.end_line(shown);
                let line = format!("[retrying: {error}]\n");
                if self.shown { shown.text.push_str(&line) } else { shown.notes.push_str(&line) }
            }
            Model::Failed { .. } => {}
        }
    }

    fn tool(&mut self, event: &Tool, shown: &mut Shown) {
        match event {
            Tool::Resolved(resolution) => {
                let what = resolution.input.value();
                let line = format!("● {} {}", resolution.name, brief(&what));
                self.note(shown, line.trim_end());
                if let Some(error) = &resolution.error {
                    self.note(shown, &format!("  {}", first_line(error)));
                }
            }
            Tool::Finished(finished) => {
                self.note(shown, &format!("  {}", summary(finished)));
                for line in excerpt(finished) {
                    self.note(shown, &format!("    {line}"));
                }
            }
            Tool::Lost { .. } => self.note(shown, "  ? outcome unknown after a crash"),
            Tool::Cancelled { .. } => self.note(shown, "  ✗ stopped"),
            Tool::Checked { .. }
            | Tool::Batched { .. }
            | Tool::Started { .. }
            | Tool::Progressed { .. }
            | Tool::Inquired { .. }
            | Tool::Replied { .. } => {}
        }
    }

    fn ended(&mut self, ended: &Ended, shown: &mut Shown) {
        self.end_line(shown);
        let reason = match ended.reason {
            EndReason::Completed => return,
            EndReason::Error => "error",
            EndReason::Blocked => "stopped: a call was rejected",
            EndReason::Aborted => "interrupted",
            EndReason::MaxSteps => "stopped: the limit of steps is reached",
            EndReason::Limit => "stopped: a limit is reached",
        };
        let error = ended.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        self.note(shown, &format!("{reason}{error}"));
    }

    pub fn note(&mut self, shown: &mut Shown, line: &str) {
        self.end_line(shown);
        shown.notes.push_str(line);
        shown.notes.push('\n');
    }

    fn end_line(&mut self, shown: &mut Shown) {
        if std::mem::take(&mut self.open) {
            shown.text.push('\n');
        }
    }
}

/// What somebody said to a question of the `question` tool.
fn said(reply: Answer, feedback: Option<&str>) -> String {
    match (reply, feedback.map(str::trim).filter(|words| !words.is_empty())) {
        (Answer::Once | Answer::Always, Some(answer)) => answer.to_owned(),
        (Answer::Once | Answer::Always, None) => "(agreed, without a word)".to_owned(),
        (Answer::Reject, Some(why)) => format!("(not answered: {why})"),
        (Answer::Reject, None) => "(dismissed)".to_owned(),
    }
}

/// Lines of output, and of a diff, that are shown of a call.
const EXCERPT: usize = 8;

/// How a call ended, in one line.
fn summary(finished: &Finished) -> String {
    let exit = finished.metadata.value().get("exit").and_then(serde_json::Value::as_i64);
    let mark = if finished.is_error || exit.is_some_and(|exit| exit != 0) { "✗" } else { "✓" };
    let line = if finished.title.is_empty() || finished.is_error {
        first_line(&finished.output)
    } else {
        &finished.title
    };
    match exit {
        Some(exit) if exit != 0 => format!("{mark} {line} (exit {exit})"),
        _ => format!("{mark} {line}"),
    }
}

/// What changed in a file, or the end of what a command printed.
fn excerpt(finished: &Finished) -> Vec<String> {
    let metadata = finished.metadata.value();
    if let Some(diff) = metadata.get("diff").and_then(serde_json::Value::as_str) {
        let header = |line: &&str| !line.starts_with("+++") && !line.starts_with("---");
        let changed = |line: &&str| line.starts_with(['+', '-']);
        return diff.lines().filter(header).filter(changed).take(EXCERPT).map(clip).collect();
    }
    if metadata.get("exit").is_none() {
        return Vec::new();
    }
    let lines: Vec<&str> = finished.output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(EXCERPT)..].iter().map(|line| clip(line)).collect()
}

fn clip(line: &str) -> String {
    shorten(line, 120)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leftfold_events::event::StreamedPart;
    use leftfold_events::{SessionId, Time};

    fn envelope(event: impl Into<Event>) -> Envelope {
        Envelope {
            session: SessionId::default(),
            seq: 1,
            at: Time::default(),
            of: None,
            until: None,
            event: event.into(),
        }
    }

    fn text(text: &str) -> Envelope {
        envelope(Model::Streamed {
            parts: vec![StreamedPart {
                id: "0".into(),
                kind: PartKind::Text,
                text: text.into(),
                signature: None,
                redacted: false,
            }],
        })
    }

    #[test]
    fn notes_never_run_into_text() {
        let mut live = Live::default();
        assert_eq!(live.show(&text("half")).text, "half");
        let lost = Tool::Lost { call: "c".into(), attempt: 1 };
        let shown = live.show(&envelope(lost));
        assert_eq!(shown.text, "\n");
        assert!(shown.notes.contains("unknown"));
    }

    #[test]
    fn text_of_an_abandoned_attempt_is_marked_as_such() {
        let retry = || envelope(Model::RetryScheduled { attempt: 1, error: "busy".into() });
        let mut live = Live::default();
        assert_eq!(live.show(&retry()).notes, "[retrying: busy]\n");
        live.show(&text("half"));
        assert_eq!(live.show(&retry()).text, "\n[retrying: busy]\n");
    }
}
