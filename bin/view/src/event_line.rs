//! Events as one line each, for `replay` and other lists.

use std::fmt::Write;

use leftfold_events::event::{
    CallSpec, Compaction, Consent, Ended, Event, Files, Finished, Hook, HookOutcome, Model,
    Permission, PromptKind, PromptPart, Purpose, Session, SessionChoices, Subagent, Tool, Turn,
    TurnConfigPayloads,
};
use leftfold_events::rules::Action;
use leftfold_events::sandbox::{Backend, Profile, WorktreeAccess};
use leftfold_events::turn_config::Options;
use leftfold_events::{Envelope, Seq, State, Time};

use crate::clean::printable_line;
use crate::configuration;
use crate::file_changes;
use crate::reason::reason;
use crate::session::SessionView;
use crate::text::{answer_text, excerpt};
use crate::words::{brief, counted, first_line, heading, quoted, shorten, variant_words, written};

/// One event of a replay: seq, time since the session began, details and the reason for a decision.
/// Changes of a file, or the last output of a failed command, follow below. `before` is the state
/// before the event; `view` is the session's view including the event.
pub fn replayed(event: &Envelope, before: &State, began: Time, view: &SessionView) -> String {
    let since = event.at.since(began);
    let mut line = format!(
        "{:>5} {:>3}.{:03}s  {}",
        event.seq,
        since / 1000,
        since % 1000,
        leftfold_events::line::type_of(&event.event)
    );
    if let Some(of) = event.of {
        let _ = write!(line, " of {of}");
    }
    let detail = asked(event, view).unwrap_or_else(|| detail(&event.event));
    if !detail.is_empty() {
        let _ = write!(line, "  {}", printable_line(&detail));
    }
    if let Some(reason) = reason(before, event) {
        let _ = write!(line, " ({})", printable_line(&reason));
    }
    for more in below(event) {
        let _ = write!(line, "\n{:BELOW$}{more}", "");
    }
    line
}

/// Whether an event only prepares others or repeats them, so that people seldom need its line: the steps of a call
/// before it runs without a question, its output so far, snapshots in which nothing changed, hooks that say nothing.
pub fn is_bookkeeping(event: &Event) -> bool {
    match event {
        Event::Tool(
            Tool::ResolveStarted { .. } | Tool::Progressed { .. } | Tool::InputStreamed { .. },
        )
        | Event::Files(Files::SnapshotStarted {})
        | Event::Hook(Hook::Called { .. }) => true,
        Event::Tool(Tool::Resolved(resolution)) => resolution.error.is_none(),
        Event::Tool(Tool::Started { attempt, .. }) => *attempt == 1,
        Event::Tool(Tool::StartedSandboxed(started)) => started.attempt == 1,
        // a question has an event of its own
        Event::Permission(Permission::Ruled { action, .. }) => *action != Action::Deny,
        Event::Files(Files::Snapshotted { files, .. }) => files.is_empty(),
        Event::Hook(Hook::Returned { outcome, output, .. }) => {
            *outcome == HookOutcome::Returned && output.as_str() == "{}"
        }
        _ => false,
    }
}

/// One event of a live feed of sessions: session, seq, time, type and details.
pub fn observed(event: &Envelope) -> String {
    let kind = leftfold_events::line::type_of(&event.event);
    let mut line = format!("{} {:>5} {}  {kind}", event.session, event.seq, event.at);
    if let Some(of) = event.of {
        let _ = write!(line, " of {of}");
    }
    let detail = detail(&event.event);
    if !detail.is_empty() {
        let _ = write!(line, "  {}", printable_line(&detail));
    }
    line
}

/// Indent of the lines below an event, in columns.
pub const BELOW: usize = 17;

fn below(event: &Envelope) -> Vec<String> {
    let Event::Tool(Tool::Finished(finished)) = &event.event else { return Vec::new() };
    if is_seen_below(finished) { excerpt(finished) } else { Vec::new() }
}

/// Whether the result needs more than its one line.
fn is_seen_below(finished: &Finished) -> bool {
    let metadata = finished.metadata.value();
    metadata["diff"].is_string() || metadata["exit"].as_i64().is_some_and(|exit| exit != 0)
}

/// A question of the `question` tool together with its answer, so that readers need not look for
/// the other.
fn asked(event: &Envelope, view: &SessionView) -> Option<String> {
    let Event::Permission(permission) = &event.event else { return None };
    match permission {
        Permission::Ruled { .. } => None,
        Permission::Asked { .. } => {
            let question = view.question(event.seq)?.question.as_ref()?;
            let options: Vec<&str> = question.options.iter().map(|o| o.label.as_str()).collect();
            let line = format!("{} {}", quoted(&question.titled()), options.join(" | "));
            Some(line.trim_end().to_owned())
        }
        Permission::Answered { reply, by, feedback }
        | Permission::AnsweredFor { reply, by, feedback, .. }
        | Permission::RejectedWith { reply, by, feedback, .. } => {
            let question = view.question(event.of?)?.question.as_ref()?;
            let answer = answer_text(*reply, feedback.as_deref());
            Some(format!("{} → {} by {by}", quoted(&question.titled()), quoted(&answer)))
        }
    }
}

/// The details of an event in one line; empty if its type says everything.
pub fn detail(event: &Event) -> String {
    match event {
        Event::Session(Session::Created { directory, agent, .. }) => {
            format!("{agent} in {directory}")
        }
        Event::Session(Session::Titled { title }) => title.clone(),
        Event::Session(Session::Summarised { summary }) => quoted(summary),
        Event::Session(Session::Resumed { close, .. }) if *close => "to close the turn".to_owned(),
        Event::Session(Session::ResumedImported { close, imported, .. }) => {
            let close = if *close { "to close the turn; " } else { "" };
            format!("{close}imported up to {imported}, where no permission counts")
        }
        Event::Session(Session::Imported { from, id, through, .. }) => {
            format!("{from}, session {id}, up to {through}")
        }
        Event::Session(Session::Forked { from, at }) => format!("from {from} at {at}"),
        Event::Session(Session::Adopted { parent }) => format!("by {parent}"),
        Event::Session(Session::Configured { choices, by }) => choices_detail(choices, by),
        Event::Session(Session::RulesSet { rules, by }) => {
            let actions = rules.iter().map(|rule| {
                format!("{} {} `{}`", variant_words(rule.action), rule.permission, rule.pattern)
            });
            let listed = actions.collect::<Vec<_>>().join(", ");
            format!("{} by {by}", if listed.is_empty() { "none" } else { &listed })
        }
        Event::Session(Session::Archived { archived, by }) => {
            let undone = if archived.is_some() { "" } else { "not any more, " };
            format!("{undone}by {by}")
        }
        Event::Turn(Turn::Configured(configured)) => configured_detail(configured),
        Event::Compaction(event) => compaction_detail(event),
        Event::Subagent(event) => subagent_detail(event),
        Event::Turn(Turn::Prompted { parts, model, .. }) => {
            format!("{} → {model}", quoted(&prompt_text(parts)))
        }
        Event::Turn(Turn::Noted { parts, by }) => {
            format!("{} by {by}", quoted(&prompt_text(parts)))
        }
        Event::Turn(Turn::Interrupted { by }) => format!("by {by}"),
        Event::Turn(Turn::Switched { agent, model }) => format!("to {agent}, {model}"),
        Event::Turn(Turn::Continued { finish, .. }) => format!("after {}", variant_words(finish)),
        Event::Turn(Turn::Ended(ended)) => end_detail(ended),
        Event::Model(event) => model_detail(event),
        Event::Tool(event) => tool_detail(event),
        Event::Permission(Permission::Ruled { action, rule, .. }) => {
            let rule = rule.as_ref().map(|r| format!(" by {} `{}`", r.permission, r.pattern));
            format!("{}{}", variant_words(action), rule.unwrap_or_default())
        }
        Event::Permission(Permission::Asked { permission, patterns, .. }) => {
            format!("{permission}: {}", patterns.join(", "))
        }
        Event::Permission(Permission::Answered { reply, by, feedback }) => {
            let feedback = feedback.as_deref().map(quoted).unwrap_or_default();
            format!("{} by {by} {feedback}", variant_words(reply)).trim_end().to_owned()
        }
        Event::Permission(Permission::AnsweredFor { reply, by, always, .. }) => {
            let allowed: Vec<String> = always.iter().map(|text| format!("`{text}`")).collect();
            format!("{} by {by}, for {}", variant_words(reply), allowed.join(", "))
        }
        Event::Permission(Permission::RejectedWith { by, with, .. }) => {
            format!("reject by {by}, with {with}")
        }
        Event::Todo(leftfold_events::event::Todo::Updated { todos }) => {
            counted(todos.len(), "item")
        }
        Event::Files(event) => file_changes::detail(event),
        Event::Hook(event) => plugin_detail(event),
        Event::Session(Session::Resumed { .. } | Session::DeadlinePassed {}) => String::new(),
    }
}

/// The choices, and the client that made them.
fn choices_detail(choices: &SessionChoices, by: &str) -> String {
    let SessionChoices { agent, model, variant } = choices;
    let agent = agent.as_ref().map(|agent| format!("agent {agent}"));
    let model = model.as_ref().map(|model| format!("model {model}"));
    let variant = variant.as_ref().map(|variant| format!("variant {variant}"));
    let chosen: Vec<String> = [agent, model, variant].into_iter().flatten().collect();
    let chosen = if chosen.is_empty() { "nothing".to_owned() } else { chosen.join(", ") };
    format!("{chosen}, by {by}")
}

fn compaction_detail(event: &Compaction) -> String {
    match event {
        Compaction::Asked { by } => format!("by {by}"),
        Compaction::AskedWith { by, instructions } => format!("{} by {by}", quoted(instructions)),
        Compaction::Started { through, .. } => format!("of everything up to {through}"),
        Compaction::Finished { summary } => quoted(summary),
        Compaction::Failed { message } => message.clone(),
        Compaction::Pruned { calls } => {
            let calls: Vec<String> = calls.iter().map(Seq::to_string).collect();
            format!("output of {}", calls.join(", "))
        }
    }
}

fn subagent_detail(event: &Subagent) -> String {
    match event {
        Subagent::Spawned { session, agent, .. } => format!("{agent}, session {session}"),
        Subagent::Ended { answer, reason, .. }
        | Subagent::EndedUncounted { answer, reason, .. } => {
            format!("{}: {}", variant_words(reason), quoted(answer))
        }
    }
}

fn end_detail(ended: &Ended) -> String {
    let mut detail =
        format!("{} after {}", variant_words(ended.reason), counted(ended.steps, "step"));
    if ended.cost > 0.0 {
        let _ = write!(detail, ", ${:.4}", ended.cost);
    }
    if let Some(error) = &ended.error {
        let _ = write!(detail, ": {error}");
    }
    detail
}

fn model_detail(event: &Model) -> String {
    match event {
        Model::Requested { model, step, attempt, purpose, .. } => {
            let attempt = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            match purpose {
                Purpose::Turn => format!("{model}, step {step}{attempt}"),
                Purpose::Title => format!("{model}, for a title"),
                Purpose::SessionSummary => format!("{model}, for the summary of the session"),
                Purpose::Compaction => format!("{model}, for a summary{attempt}"),
            }
        }
        Model::Streamed { parts } => {
            parts.iter().map(|part| quoted(&part.text)).collect::<Vec<_>>().join(" ")
        }
        Model::Finished { finish, usage, cost, .. } => {
            let cost = if *cost > 0.0 { format!(", ${cost:.4}") } else { String::new() };
            let (taken, given) = (usage.total() - usage.output, usage.output);
            let finish = variant_words(finish);
            format!("{finish}, {} in, {given} out{cost}", counted(taken, "token"))
        }
        Model::Failed { class, message, .. } => format!("{class:?}: {message}"),
        Model::RetryScheduled { attempt, error } => format!("after attempt {attempt}: {error}"),
    }
}

fn tool_detail(event: &Tool) -> String {
    match event {
        Tool::Called { call } | Tool::Batched { call } => called(call),
        Tool::Resolved(resolution) => match &resolution.error {
            Some(error) => first_line(error).to_owned(),
            None if resolution.paths.is_empty() => {
                format!("{} {}", resolution.name, brief(&resolution.input.value()))
            }
            None => format!("{} {}", resolution.name, resolution.paths.join(", ")),
        },
        Tool::Started { name, attempt, .. } if *attempt > 1 => format!("{name}, attempt {attempt}"),
        Tool::Started { name, .. } => name.clone(),
        Tool::StartedSandboxed(started) => {
            format!("{}, {}", started.name, confinement(&started.sandbox))
        }
        Tool::Finished(finished) => {
            let mark = if finished.is_error { "failed: " } else { "" };
            match finished.metadata.value()["exit"].as_i64().filter(|exit| *exit != 0) {
                Some(exit) => {
                    format!("exit {exit}, {} of output", counted(finished.output.len(), "byte"))
                }
                None => format!("{mark}{}", quoted(&finished.output)),
            }
        }
        Tool::Progressed { tail } => quoted(tail),
        Tool::InputStreamed { calls } => calls.iter().map(written).collect::<Vec<_>>().join(", "),
        Tool::ElicitationRequested { from, message, .. } => format!("{from}: {}", quoted(message)),
        Tool::ElicitationAnswered { consent: Consent::Accepted, content, .. } => {
            format!("accepted {content}")
        }
        Tool::ElicitationAnswered { consent, .. } => variant_words(consent),
        Tool::ResolveStarted { .. } | Tool::Lost { .. } | Tool::Cancelled { .. } => String::new(),
    }
}

/// A call, and the task of one that starts a subagent.
fn called(call: &CallSpec) -> String {
    let input = call.input.value();
    let task = input["prompt"].as_str().filter(|_| call.name == "task").map(quoted);
    let task = task.map(|task| format!(", {task}")).unwrap_or_default();
    heading(&call.name, &input) + &task
}

/// The base prompt, and the files of instructions by the ends of their paths.
fn configured_detail(configured: &TurnConfigPayloads) -> String {
    let options: Option<Options> = serde_json::from_str(configured.options.text()).ok();
    let options = options.unwrap_or_default();
    let end = |path: &str| path.rmatch_indices('/').nth(1).map_or(0, |(at, _)| at + 1);
    let files = configuration::instructions(&options.sources).into_iter();
    let files: Vec<&str> = files.map(|path| &path[end(path)..]).collect();
    let with = if files.is_empty() { "" } else { ", with " };
    format!("prompt {}{with}{}", configured.prompt, files.join(", "))
}

/// The text of a prompt in one line. The output of a command will replace it.
fn prompt_text(parts: &[PromptPart]) -> String {
    let text = |part: &PromptPart| match part.kind {
        PromptKind::Command => format!("!`{}`", part.text),
        PromptKind::Media => format!("[{}]", part.name.as_deref().unwrap_or("file")),
        PromptKind::Text | PromptKind::Task => part.text.clone(),
    };
    parts.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// The sandbox of a command in a few words.
fn confinement(sandbox: &Profile) -> String {
    let backend = match sandbox.backend {
        Backend::Namespaces => "in the sandbox",
        Backend::Bwrap => "in the sandbox of bwrap",
        Backend::Landlock => "under Landlock",
        Backend::Seatbelt => "in the sandbox of macOS",
        Backend::External => return "in an external sandbox".to_owned(),
        Backend::Off | Backend::None => return "without a sandbox".to_owned(),
    };
    let network = if sandbox.network { ", with the network" } else { "" };
    let worktree = match sandbox.worktree {
        WorktreeAccess::Write => "",
        WorktreeAccess::Read => ", read-only",
    };
    format!("{backend}{worktree}{network}")
}

fn plugin_detail(event: &Hook) -> String {
    match event {
        Hook::Called { plugin, hook } => format!("{plugin}, {}", hook.name()),
        Hook::Returned { outcome: HookOutcome::Returned, output, .. } => match output.as_str() {
            "{}" => "nothing to say".to_owned(),
            text => shorten(text, 120),
        },
        Hook::Returned { message, .. } => {
            first_line(message.as_deref().unwrap_or("no answer")).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use leftfold_events::event::{Class, StartedSandboxed};
    use leftfold_events::line::{self, Line};

    use super::*;

    /// The file has an event of every type.
    #[test]
    fn every_event_has_details_in_its_line() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../store/tests/golden/schema3.jsonl");
        let text = std::fs::read_to_string(golden).unwrap();
        let mut without = BTreeSet::new();
        for line in text.lines() {
            let Ok(Line::Event(event)) = line::read(line) else { panic!("{line}") };
            if detail(&event.event).is_empty() {
                without.insert(line::type_of(&event.event));
            }
        }
        // their types say everything
        let expected = [
            "files.snapshot_started", "session.deadline_passed", "tool.cancelled", "tool.lost",
            "tool.resolve_started",
        ];
        assert!(without.iter().eq(expected), "{without:?}");
    }

    #[test]
    fn a_start_names_the_sandbox_of_its_command() {
        use WorktreeAccess::{Read, Write};
        for (backend, network, worktree, expected) in [
            (Backend::Namespaces, false, Write, "bash, in the sandbox"),
            (Backend::Namespaces, true, Write, "bash, in the sandbox, with the network"),
            (Backend::Bwrap, false, Read, "bash, in the sandbox of bwrap, read-only"),
            (Backend::Landlock, true, Read, "bash, under Landlock, read-only, with the network"),
            (Backend::Seatbelt, false, Write, "bash, in the sandbox of macOS"),
            (Backend::External, true, Write, "bash, in an external sandbox"),
            (Backend::Off, true, Write, "bash, without a sandbox"),
            (Backend::None, true, Write, "bash, without a sandbox"),
        ] {
            let (write, shown) = (Vec::new(), Vec::new());
            let sandbox = Profile { backend, network, worktree, write, shown };
            let (call, name) = ("c".to_owned(), "bash".to_owned());
            let started =
                StartedSandboxed { call, name, class: Class::Command, attempt: 1, sandbox };
            let event = Tool::StartedSandboxed(Box::new(started));
            assert_eq!(tool_detail(&event), expected);
        }
    }
}
