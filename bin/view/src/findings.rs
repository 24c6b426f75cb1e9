//! Finds in a turn what was out of the ordinary: the places to look at first when its result is not what was wanted.

use std::collections::HashMap;

use leftfold_events::event::{
    Answer, Compaction, EndReason, Event, Files, Finish, Finished, Hook, HookOutcome, Model,
    Permission, Purpose, Session, Subagent, Tool, Turn,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::{Call, Message};
use leftfold_events::{Envelope, Seq, State, context};
use serde::Serialize;

use crate::explain::configuration;
use crate::file_changes;
use crate::reason::reason;
use crate::words::{counted, first_line, heading, quoted, shorten, variant_words};

/// The most findings of a turn that are kept.
const MOST: usize = 50;

/// One place to look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub seq: Seq,
    pub what: String,
}

/// The findings of a log's current or last turn.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Finding>,
    /// The number of findings beyond [`MOST`].
    more: usize,
    /// The length of `found` when the last turn ended: those are not about the next one.
    ended: usize,
    /// The rules that answers have made, in the order of the state's, with the answers' seqs.
    approvals: Vec<Seq>,
    /// The approvals whose use in this turn was told.
    used: Vec<Rule>,
    /// The last call that wrote a file, by the reply and the path.
    written: HashMap<(Seq, String), Seq>,
}

impl Findings {
    /// The findings of the last turn in these events.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let (mut findings, mut state) = (Self::default(), State::default());
        for event in events {
            findings.push(&state, event);
            state.apply(event);
        }
        findings
    }

    pub fn all(&self) -> &[Finding] {
        &self.found
    }

    /// A line for each finding.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.found.iter().map(|Finding { seq, what }| format!("{seq}: {what}")).chain(more)
    }

    /// Takes the next event; `before` is the state right before it.
    pub fn push(&mut self, before: &State, event: &Envelope) {
        // an answer takes effect in the state that follows it
        self.approvals.resize(before.approved.len(), event.seq.saturating_sub(1));
        match &event.event {
            Event::Turn(turn) => self.push_turn(before, event.seq, turn),
            Event::Model(model) => self.push_model(before, event.seq, model),
            Event::Tool(tool) => self.push_tool(before, event, tool),
            Event::Permission(permission) => self.push_permission(before, event, permission),
            Event::Files(Files::Restored { files, .. }) => {
                let changes = file_changes::named(files);
                self.add(event.seq, format!("files and conversation were put back: {changes}"));
            }
            Event::Files(
                Files::SnapshotFailed { message }
                | Files::SnapshotFailedAs { message, .. }
                | Files::RestoreFailed { message }
                | Files::RestoreFailedAs { message, .. },
            ) => self.add(event.seq, shorten(message, 200)),
            Event::Session(Session::Resumed { .. } | Session::ResumedImported { .. }) => {
                if let Some(why) = reason(before, event) {
                    self.add(event.seq, format!("its node died: {why}"));
                }
            }
            Event::Session(Session::DeadlinePassed {}) => {
                if let Some(why) = reason(before, event) {
                    self.add(event.seq, why);
                }
            }
            Event::Compaction(Compaction::Failed { message }) => {
                self.add(event.seq, format!("no summary: {}", shorten(message, 200)));
            }
            Event::Hook(hook) => self.push_hook(event.seq, hook),
            Event::Subagent(
                Subagent::Ended { reason, .. } | Subagent::EndedUncounted { reason, .. },
            ) => {
                if *reason != EndReason::Completed {
                    let reason = variant_words(reason);
                    self.add(event.seq, format!("a subagent ended: {reason}"));
                }
            }
            Event::Session(_)
            | Event::Compaction(_)
            | Event::Subagent(_)
            | Event::Todo(_)
            | Event::Files(_) => {}
        }
    }

    fn add(&mut self, seq: Seq, what: String) {
        // those of a turn that has ended leave room for what comes before the next one
        if self.found.len() - self.ended < MOST {
            self.found.push(Finding { seq, what });
        } else {
            self.more += 1;
        }
    }

    fn push_turn(&mut self, before: &State, seq: Seq, turn: &Turn) {
        match turn {
            Turn::Prompted { .. } if before.turn.is_none() => {
                self.found.drain(..self.ended);
                (self.ended, self.more) = (0, 0);
                self.used.clear();
                self.written.clear();
            }
            Turn::Interrupted { by } => self.add(seq, format!("interrupted by {by}")),
            Turn::Ended(_) => self.ended = self.found.len(),
            Turn::Prompted { .. }
            | Turn::Continued { .. }
            | Turn::Configured(_)
            | Turn::Noted { .. }
            | Turn::Switched { .. } => {}
        }
    }

    fn push_model(&mut self, before: &State, seq: Seq, model: &Model) {
        match model {
            Model::Requested { purpose: Purpose::Turn, step, attempt: 1, .. } => {
                if *step == 1 {
                    self.left_out(before, seq);
                }
                let options = &before.config.options;
                if *step == options.max_steps {
                    let source = options.sources.options.get("max_steps");
                    let source = source.map(|source| format!(" ({source})")).unwrap_or_default();
                    let steps = counted(*step, "step");
                    self.add(seq, format!("the last request of the {steps} that the turn may take{source}: no more calls"));
                }
            }
            Model::Finished { finish: Finish::Length, .. } => {
                self.add(seq, "the reply was cut off at the output limit".to_owned());
            }
            Model::Failed { message, .. } => {
                self.add(seq, format!("the request failed: {}", shorten(first_line(message), 200)));
            }
            Model::Requested { .. }
            | Model::Streamed { .. }
            | Model::Finished { .. }
            | Model::RetryScheduled { .. } => {}
        }
    }

    /// Tells at the turn's first request of what the model no longer sees.
    fn left_out(&mut self, before: &State, seq: Seq) {
        let shortened = context::left_out(before).len();
        let summary = before.messages.iter().find_map(|message| match message {
            Message::Summary { of, .. } => Some(*of),
            Message::User(_) | Message::Assistant(_) | Message::Note { .. } => None,
        });
        let summary = summary.map(|of| format!("everything before summary {of}"));
        let shortened =
            (shortened > 0).then(|| format!("parts of {}", counted(shortened, "earlier message")));
        let lost: Vec<String> = [summary, shortened].into_iter().flatten().collect();
        if !lost.is_empty() {
            self.add(
                seq,
                format!("left out of the request: {} (`explain` has a list)", lost.join("; ")),
            );
        }
    }

    fn push_tool(&mut self, before: &State, event: &Envelope, tool: &Tool) {
        match tool {
            Tool::Finished(finished) => {
                let call = before.calls().find(|call| call.id == finished.call);
                self.push_result(before, event.seq, call, finished);
            }
            Tool::Lost { .. } | Tool::Cancelled { .. } => {
                let call = before.calls().find(|call| Some(call.seq) == event.of);
                let name = call.map(named).unwrap_or_default();
                let why = reason(before, event).unwrap_or_default();
                self.add(event.seq, format!("{name}: {why}"));
            }
            Tool::Resolved(resolution) => {
                if let Some(error) = &resolution.error {
                    let name = heading(&resolution.name, &resolution.input.value());
                    self.add(
                        event.seq,
                        format!("{name} failed: {}", shorten(first_line(error), 200)),
                    );
                }
            }
            Tool::Called { .. }
            | Tool::Batched { .. }
            | Tool::ResolveStarted { .. }
            | Tool::Started { .. }
            | Tool::StartedSandboxed(_)
            | Tool::Progressed { .. }
            | Tool::InputStreamed { .. }
            | Tool::ElicitationRequested { .. }
            | Tool::ElicitationAnswered { .. } => {}
        }
    }

    fn push_result(&mut self, before: &State, seq: Seq, call: Option<&Call>, finished: &Finished) {
        let name = call.map_or_else(|| shorten(&finished.title, 100), named);
        let metadata = finished.metadata.value();
        let exit = metadata["exit"].as_i64().filter(|exit| *exit != 0);
        if let Some(exit) = exit {
            self.add(seq, format!("{name} ended with exit code {exit}"));
        } else if finished.is_error {
            self.add(seq, format!("{name} failed: {}", shorten(first_line(&finished.output), 200)));
        }
        if let Some(spill) = &finished.spill {
            let bytes = counted(spill.bytes, "byte");
            self.add(seq, format!("the model got a part of the output of {name}: {bytes} were too many (setting `tool_output`)"));
        }
        if let Some(files) = metadata["instructions"].as_array() {
            let files: Vec<&str> = files.iter().filter_map(|file| file.as_str()).collect();
            self.add(
                seq,
                format!("the model got the instructions of {} with {name}", files.join(", ")),
            );
        }
        if let Some(by) = metadata["formatted_by"].as_array() {
            let by: Vec<&str> = by.iter().filter_map(|name| name.as_str()).collect();
            self.add(
                seq,
                format!("the formatter {} changed the text that {name} wrote", by.join(" and ")),
            );
        }
        let reply = before.last_reply().map_or(0, |reply| reply.asked);
        if let (Some(call), Some(path)) =
            (call, metadata["path"].as_str().filter(|_| !finished.is_error))
        {
            let earlier = self.written.insert((reply, path.to_owned()), call.seq);
            if let Some(earlier) = earlier.filter(|_| call.name == "write") {
                self.add(
                    seq,
                    format!("{name} replaced what call {earlier} of the same reply wrote"),
                );
            }
        }
    }

    fn push_permission(&mut self, before: &State, event: &Envelope, permission: &Permission) {
        let call = before.calls().find(|call| Some(call.seq) == event.of);
        let name = call.map(named).unwrap_or_default();
        match permission {
            Permission::Ruled { action: Action::Deny, rule, .. } => {
                let by = match rule {
                    Some(rule) => sourced(before, rule),
                    None => reason(before, event).unwrap_or_default(),
                };
                self.add(event.seq, format!("{name} was denied: {by}"));
            }
            Permission::Ruled { action: Action::Allow, rule: Some(rule), .. } => {
                self.allowed(before, event.seq, &name, rule);
            }
            Permission::Answered { reply: Answer::Reject, by, feedback } => {
                let words = feedback.as_deref().map(|words| format!(": {}", quoted(words)));
                self.add(event.seq, format!("{by} said no{}", words.unwrap_or_default()));
            }
            Permission::Ruled { .. }
            | Permission::Asked { .. }
            | Permission::Answered { .. }
            | Permission::AnsweredFor { .. }
            | Permission::RejectedWith { .. } => {}
        }
    }

    /// A call that ran without a question because of an earlier "always". The first one of each approval is told.
    fn allowed(&mut self, before: &State, seq: Seq, name: &str, rule: &Rule) {
        let given = before.approved.iter().position(|approved| approved == rule);
        let place = match given {
            Some(at) => format!("at {}", self.approvals[at]),
            None if before.config.options.approved.contains(rule) => {
                "in another session".to_owned()
            }
            None => return,
        };
        if self.used.contains(rule) {
            return;
        }
        self.used.push(rule.clone());
        let rule = configuration::shown(rule);
        self.add(seq, format!("{name} ran without a question: “always” {place} ({rule})"));
    }

    fn push_hook(&mut self, seq: Seq, hook: &Hook) {
        let Hook::Returned { outcome, output, message } = hook else { return };
        match outcome {
            HookOutcome::Returned if output.as_str() == "{}" => {}
            HookOutcome::Returned => self
                .add(seq, format!("a plugin changed something: {}", shorten(output.as_str(), 120))),
            HookOutcome::Failed | HookOutcome::TimedOut | HookOutcome::Gone => {
                let message = message.as_deref().unwrap_or("no answer");
                self.add(seq, format!("a plugin failed: {}", shorten(message, 120)));
            }
        }
    }
}

fn named(call: &Call) -> String {
    heading(&call.name, &call.input.value())
}

/// A rule and the place that it comes from.
fn sourced(before: &State, rule: &Rule) -> String {
    let source = configuration::of_rule(&before.config, rule);
    let source = source.map(|source| format!(" ({source})")).unwrap_or_default();
    format!("{}{source}", configuration::shown(rule))
}
