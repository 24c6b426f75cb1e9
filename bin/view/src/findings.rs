//! Finds in a turn what was out of the ordinary: the places to look at first when its result is not what was wanted.

use std::collections::{BTreeSet, HashMap};

use leftfold_events::event::{
    Answer, Compaction, EndReason, Event, Files, Finish, Finished, Hook, HookOutcome, Model,
    ModelRef, Permission, Purpose, Session, Subagent, Tool, Turn,
};
use leftfold_events::rules::{Action, Rule};
use leftfold_events::state::{Call, Message};
use leftfold_events::{Envelope, Seq, SessionId, State, Time, request_builder};
use serde::Serialize;
use serde_json::Value;

use crate::configuration;
use crate::file_changes;
use crate::reason::reason;
use crate::words::{counted, first_line, heading, quoted, shorten, variant_words};

/// The most findings of a turn that are kept.
const MAX_FINDINGS: usize = 50;
/// The most uses of one "always" in a turn that are told.
const MAX_USES: usize = 5;

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
    /// The number of findings beyond [`MAX_FINDINGS`].
    more: usize,
    /// The length of `found` when the last turn ended: those are not about the next one.
    ended: usize,
    /// The rules that answers have made, in the order of the state's, with the answers' seqs.
    approvals: Vec<Seq>,
    /// The approvals whose use in this turn was told, once for each use.
    used: Vec<Rule>,
    /// The model of the last prompt.
    model: Option<ModelRef>,
    /// Whether a summary was written in this turn.
    summarised: bool,
    /// The last call that wrote a file, by the reply and the path.
    written: HashMap<(Seq, String), Seq>,
    /// The files whose edits were refused because they had changed, with the refusals.
    refused: HashMap<String, Seq>,
    /// The command lines that failed in this turn, with their results.
    failed: HashMap<String, Seq>,
    /// The files of tests that calls of this turn have changed.
    tests: BTreeSet<String>,
    /// The first event of the last turn.
    began: Seq,
}

impl Findings {
    /// The findings of the last turn in these events.
    pub fn from_events<'a>(events: impl IntoIterator<Item = &'a Envelope>) -> Self {
        let (mut findings, mut state) = (Self::default(), State::default());
        for event in events {
            findings.push(&state, event);
            state.apply(event);
        }
        findings
    }

    /// The findings of the last turn of each log, with those that only several logs together show.
    pub fn of_all<'a>(
        logs: impl IntoIterator<Item = (SessionId, &'a [Envelope])>,
    ) -> Vec<(SessionId, Self)> {
        let mut writes = ParallelWrites::default();
        let mut shared = Vec::new();
        let mut all = Vec::new();
        for (session, events) in logs {
            let (mut findings, mut state) = (Self::default(), State::default());
            for event in events {
                findings.push(&state, event);
                shared.extend(writes.push(&state, event));
                state.apply(event);
            }
            all.push((session, findings));
        }
        for (session, finding) in shared {
            let known = all.iter_mut().find(|(known, _)| *known == session);
            if let Some((_, findings)) = known.filter(|(_, known)| known.began <= finding.seq) {
                let at = findings.found.partition_point(|known| known.seq <= finding.seq);
                findings.found.insert(at, finding);
            }
        }
        all
    }

    pub fn all(&self) -> &[Finding] {
        &self.found
    }

    /// A line for each finding.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("and {} more", self.more));
        self.found.iter().map(|Finding { seq, what }| format!("{seq}: {what}")).chain(more)
    }

    /// Takes the next event; `before` is the state right before it. Returns the findings at this event.
    pub fn push(&mut self, before: &State, event: &Envelope) -> &[Finding] {
        // an answer takes effect in the state that follows it
        self.approvals.resize(before.approved.len(), event.seq.saturating_sub(1));
        match &event.event {
            Event::Turn(turn) => self.push_turn(before, event.seq, turn),
            Event::Model(model) => self.push_model(before, event, model),
            Event::Tool(tool) => self.push_tool(before, event, tool),
            Event::Permission(permission) => self.push_permission(before, event, permission),
            Event::Files(Files::Restored { files, .. }) => {
                let changes = file_changes::named(files);
                self.add(event.seq, format!("files and conversation were put back: {changes}"));
            }
            Event::Files(files) => {
                if let Some(message) = files.failure() {
                    self.add(event.seq, shorten(message, 200));
                }
            }
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
            Event::Compaction(Compaction::Finished { .. }) => {
                self.summarised = true;
                self.add(
                    event.seq,
                    "a summary replaced the conversation so far: the model knows only what it says"
                        .to_owned(),
                );
            }
            Event::Hook(hook) => self.push_hook(before, event, hook),
            Event::Subagent(
                Subagent::Ended { reason, .. } | Subagent::EndedUncounted { reason, .. },
            ) => {
                if *reason != EndReason::Completed {
                    let reason = variant_words(reason);
                    self.add(event.seq, format!("a subagent ended: {reason}"));
                }
            }
            _ => {}
        }
        let others = self.found.iter().rposition(|finding| finding.seq != event.seq);
        &self.found[others.map_or(0, |last| last + 1)..]
    }

    fn add(&mut self, seq: Seq, what: String) {
        // those of a turn that has ended leave room for what comes before the next one
        if self.found.len() - self.ended < MAX_FINDINGS {
            self.found.push(Finding { seq, what });
        } else {
            self.more += 1;
        }
    }

    fn push_turn(&mut self, before: &State, seq: Seq, turn: &Turn) {
        match turn {
            Turn::Prompted { model, .. } if before.turn.is_none() => {
                self.found.drain(..self.ended);
                (self.ended, self.more) = (0, 0);
                self.began = seq;
                self.used.clear();
                self.written.clear();
                self.refused.clear();
                self.failed.clear();
                self.tests.clear();
                self.summarised = false;
                if let Some(last) = self.model.replace(model.clone()).filter(|last| last != model) {
                    let window = before.config.model.limit.context;
                    let window =
                        (window > 0).then(|| format!(", which takes {}", counted(window, "token")));
                    let window = window.unwrap_or_default();
                    self.add(seq, format!("the model changed from {last} to {model}{window}"));
                }
            }
            Turn::Interrupted { by } => self.add(seq, format!("interrupted by {by}")),
            Turn::Ended(_) => self.ended = self.found.len(),
            _ => {}
        }
    }

    fn push_model(&mut self, before: &State, event: &Envelope, model: &Model) {
        let seq = event.seq;
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
                let reply = before.last_reply().filter(|reply| Some(reply.asked) == event.of);
                let is_void = reply
                    .is_some_and(|reply| !reply.parts.is_empty() && reply.calls().next().is_none());
                let said = if is_void { "; its reply so far does not count" } else { "" };
                let message = shorten(first_line(message), 200);
                self.add(seq, format!("the request failed: {message}{said}"));
            }
            _ => {}
        }
    }

    /// Tells at the turn's first request of what the model no longer sees.
    fn left_out(&mut self, before: &State, seq: Seq) {
        let shortened = request_builder::left_out(before).len();
        let summary = before.messages.iter().find_map(|message| match message {
            // of one that was written in this turn, there is a finding already
            Message::Summary { of, .. } => Some(*of).filter(|_| !self.summarised),
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
            _ => {}
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
        if let Some(call) = call {
            self.push_refused(seq, call, &name, finished);
            self.push_tests(seq, call, &name, (exit, finished.is_error));
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

    /// A refused edit of a file that had changed, which the model did in another way without reading the file again.
    fn push_refused(&mut self, seq: Seq, call: &Call, name: &str, finished: &Finished) {
        if finished.metadata.value()["error_kind"] == "changed_on_disk" {
            self.refused.extend(paths(call, "edit").map(|path| (path.to_owned(), seq)));
        }
        if finished.is_error {
            return;
        }
        if call.name == "read" {
            paths(call, "read").for_each(|path| {
                self.refused.remove(path);
            });
        }
        for path in paths(call, "edit") {
            if let Some(refusal) = self.refused.remove(path) {
                self.add(seq, format!("{name} wrote {path}, whose edit was refused at {refusal} because the file had changed"));
            }
        }
    }

    /// A command that had failed and succeeds after its tests were changed: they may have been made to pass.
    fn push_tests(
        &mut self,
        seq: Seq,
        call: &Call,
        name: &str,
        (exit, is_error): (Option<i64>, bool),
    ) {
        if !is_error {
            let changed = paths(call, "edit").filter(|path| is_test(path));
            self.tests.extend(changed.map(str::to_owned));
        }
        let input = call.input.value();
        let Some(line) = input["command"].as_str() else { return };
        if exit.is_some() || is_error {
            self.failed.insert(line.to_owned(), seq);
            return;
        }
        if let Some(failed) = self.failed.remove(line).filter(|_| !self.tests.is_empty()) {
            let tests: Vec<&str> = self.tests.iter().map(String::as_str).collect();
            let tests = shorten(&tests.join(", "), 200);
            self.add(
                seq,
                format!("{name} failed at {failed} and succeeds after tests were changed: {tests}"),
            );
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
            _ => {}
        }
    }

    /// A call that ran without a question because of an earlier "always".
    fn allowed(&mut self, before: &State, seq: Seq, name: &str, rule: &Rule) {
        let given = before.approved.iter().position(|approved| approved == rule);
        let place = match given {
            Some(at) => format!("at {}", self.approvals[at]),
            None if before.config.options.approved.contains(rule) => {
                "in another session".to_owned()
            }
            None => return,
        };
        if self.used.iter().filter(|used| *used == rule).count() == MAX_USES {
            return;
        }
        self.used.push(rule.clone());
        let rule = configuration::shown(rule);
        self.add(seq, format!("{name} ran without a question: “always” {place} ({rule})"));
    }

    fn push_hook(&mut self, before: &State, event: &Envelope, hook: &Hook) {
        let Hook::Returned { outcome, output, message } = hook else { return };
        let pending = event.of.and_then(|of| before.plugins.waiting(of));
        let plugin = pending.map(|pending| pending.plugin.as_str()).unwrap_or_default();
        let call =
            pending.and_then(|pending| before.calls().find(|call| call.seq == pending.about));
        let what = match outcome {
            HookOutcome::Returned if output.as_str() == "{}" => return,
            HookOutcome::Returned => {
                let changed =
                    call.and_then(|call| changed_arguments(call, &output.value()["args"]));
                let hook = pending.map(|pending| pending.hook.name()).unwrap_or_default();
                let said = || format!("answered {hook}: {}", shorten(output.as_str(), 200));
                changed.unwrap_or_else(said)
            }
            HookOutcome::Failed | HookOutcome::TimedOut | HookOutcome::Gone => {
                format!("failed: {}", shorten(message.as_deref().unwrap_or("no answer"), 120))
            }
        };
        self.add(event.seq, format!("the plugin {plugin} {what}"));
    }
}

/// Finds files that two sessions wrote at the same time: the later one may have undone what the other one did.
#[derive(Debug, Default)]
pub struct ParallelWrites {
    done: HashMap<String, Vec<Written>>,
}

/// A call that wrote a file, from its start to its result.
#[derive(Clone, Debug)]
struct Written {
    session: SessionId,
    /// The event of the result.
    seq: Seq,
    name: String,
    from: Time,
    to: Time,
}

impl ParallelWrites {
    /// Takes the next event of any log; `before` is its state right before it. The findings are about the write that
    /// ended later, which may be of another log.
    pub fn push(&mut self, before: &State, event: &Envelope) -> Vec<(SessionId, Finding)> {
        let Event::Tool(Tool::Finished(finished)) = &event.event else { return Vec::new() };
        let call = before.calls().find(|call| call.id == finished.call);
        let Some(call) = call.filter(|_| !finished.is_error) else { return Vec::new() };
        let mut found = Vec::new();
        for path in paths(call, "edit") {
            let (session, seq, name, to) = (event.session, event.seq, named(call), event.at);
            let own = Written { session, seq, name, from: call.started.unwrap_or(to), to };
            let others = self.done.entry(path.to_owned()).or_default();
            let is_beside = |other: &&Written| {
                other.session != own.session && other.from <= own.to && own.from <= other.to
            };
            for other in others.iter().filter(is_beside) {
                let (first, last) = if other.to <= own.to { (other, &own) } else { (&own, other) };
                let what = format!(
                    "{path} was written while {} (event {} of session {}) wrote it: one may have undone the other, by {}",
                    first.name, first.seq, first.session, last.name
                );
                found.push((last.session, Finding { seq: last.seq, what }));
            }
            others.push(own);
        }
        found
    }
}

/// The paths of a call for which it needed this permission, as far as they are known.
fn paths<'a>(call: &'a Call, permission: &'a str) -> impl Iterator<Item = &'a str> {
    let access = call.access().iter().filter(move |access| access.permission == permission);
    access
        .flat_map(|access| &access.patterns)
        .map(String::as_str)
        .filter(|path| !path.starts_with('<'))
}

/// Whether a path is that of tests, by the names that most projects use.
fn is_test(path: &str) -> bool {
    let parts = path.split('/');
    let mut words = parts.flat_map(|part| part.split(['_', '-', '.']));
    words.any(|word| ["test", "tests", "spec", "__tests__"].contains(&word))
}

/// The arguments of a call that a plugin has replaced.
fn changed_arguments(call: &Call, now: &Value) -> Option<String> {
    let (then, now) = (call.input.value(), now.as_object()?);
    let changed = now.iter().filter(|(name, value)| then.get(name.as_str()) != Some(value));
    let short = |value: Option<&Value>| shorten(&value.unwrap_or(&Value::Null).to_string(), 80);
    let changed = changed.map(|(name, value)| {
        format!("{name} from {} to {}", short(then.get(name)), short(Some(value)))
    });
    let changed: Vec<String> = changed.collect();
    (!changed.is_empty()).then(|| format!("changed {}: {}", named(call), changed.join(", ")))
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
