//! Messages, without the ids of messages and parts.

use leftfold_events::event::{Cost, FailureClass, ModelRef, PromptKind, Usage};
use leftfold_events::{Json, Time};
use leftfold_events::{Seq, event::EndReason};
use leftfold_view::{Failure, Prompt, Reply, ReplyPart, SessionView};
use serde_json::{Value, json};

use super::part;

/// A part's place in its message. It stays the same while the part changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PartKey {
    Prompt(usize),
    Retry(u32),
    StepStart,
    Text(String),
    Reasoning(String),
    Call(Seq),
    StepFinish,
    Patch,
    Compaction,
}

/// A message as its events say it.
#[derive(Debug)]
pub(super) struct Rendered {
    /// Without `id`, `sessionID` and `parentID`.
    pub(super) info: Value,
    pub(super) parts: Vec<(PartKey, Value)>,
    /// Nothing in it changes any more.
    pub(super) is_complete: bool,
}

/// The facts about a message that the view does not have.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageFacts {
    /// Failed attempts that this reply replaces.
    pub(super) retries: Vec<(u32, String, Time)>,
    /// The turn's end, if the reply was not complete then.
    pub(super) cut: Option<(EndReason, Option<String>)>,
    /// The turn's structured answer, if this reply gave it.
    pub(super) structured: Option<Json>,
    /// How often the model might give its structured answer again.
    pub(super) output_retries: u64,
    /// The snapshots of files before and after the calls of the step.
    pub(super) before: Option<String>,
    pub(super) after: Option<String>,
    /// The files that the step changed, by absolute path.
    pub(super) changed: Vec<String>,
}

/// The folder of a session and its project's root, for messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Folders {
    pub(super) directory: String,
    pub(super) worktree: String,
}

/// A prompt, with the members that its client gave for each part.
pub(super) fn of_prompt(prompt: &Prompt, given: &Value) -> Rendered {
    let parts = prompt.parts.iter().enumerate().map(|(index, said)| {
        let mut rendered = match given[index]["type"].as_str() {
            // the log has its text
            Some("file" | "agent") if said.kind == PromptKind::Text => json!({}),
            Some(_) | None => part::of_prompt(said),
        };
        merge(&mut rendered, &given[index]);
        (PartKey::Prompt(index), rendered)
    });
    let info = json!({
        "role": "user",
        "time": { "created": prompt.at.millis() },
        "agent": prompt.agent,
        "model": model(&prompt.model),
    });
    Rendered { info, parts: parts.collect(), is_complete: true }
}

pub(super) fn of_reply(
    reply: &Reply,
    view: &SessionView,
    facts: &MessageFacts,
    folders: &Folders,
) -> Rendered {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call(call) => view.call(*call),
        ReplyPart::Text(_) | ReplyPart::Reasoning(_) => None,
    });
    let (mut calls_ended, mut are_over) = (Time::default(), true);
    for call in calls {
        are_over &= call.outcome.is_some();
        calls_ended = calls_ended.max(call.ended.unwrap_or_default());
    }
    let is_cut = facts.cut.is_some();
    let is_complete = is_cut || (reply.ended.is_some() && are_over);
    let ended = reply.ended.or(is_cut.then_some(view.at));

    let mut parts: Vec<(PartKey, Value)> = Vec::new();
    for (attempt, error, at) in &facts.retries {
        let error =
            json!({ "name": "APIError", "data": { "message": error, "isRetryable": true } });
        let time = json!({ "created": at.millis() });
        let retry = json!({ "type": "retry", "attempt": attempt, "error": error, "time": time });
        parts.push((PartKey::Retry(*attempt), retry));
    }
    let mut start = json!({ "type": "step-start" });
    if let Some(before) = &facts.before {
        start["snapshot"] = before.as_str().into();
    }
    parts.push((PartKey::StepStart, start));
    for part in &reply.parts {
        parts.push(match part {
            ReplyPart::Text(said) => {
                let end = said.until.or(ended);
                (PartKey::Text(said.id.clone()), part::text("text", &said.text, said.since, end))
            }
            ReplyPart::Reasoning(said) => {
                let end = said.until.or(ended);
                let text = part::text("reasoning", &said.text, said.since, end);
                (PartKey::Reasoning(said.id.clone()), text)
            }
            ReplyPart::Call(seq) => {
                let Some(call) = view.call(*seq) else { continue };
                (PartKey::Call(*seq), part::of_call(call, is_cut))
            }
        });
    }
    if let Some(finish) = reply.finish.filter(|_| is_complete) {
        let mut finished = part::step_finish(finish, &reply.usage, reply.cost);
        if let Some(after) = &facts.after {
            finished["snapshot"] = after.as_str().into();
        }
        parts.push((PartKey::StepFinish, finished));
    }
    if !facts.changed.is_empty() {
        let patch = json!({ "type": "patch", "hash": facts.before, "files": facts.changed });
        parts.push((PartKey::Patch, patch));
    }

    let mut info =
        assistant(&reply.model, reply.at, &reply.agent, folders, &reply.usage, reply.cost);
    if let Some(finish) = reply.finish.filter(|_| is_complete) {
        info["finish"] = part::reason(finish).into();
    }
    if is_complete {
        let completed = ended.unwrap_or(view.at).max(calls_ended);
        info["time"]["completed"] = completed.millis().into();
    }
    if let Some(answer) = &facts.structured {
        info["structured"] = answer.value();
    }
    if let Some(error) = error(facts, reply) {
        info["error"] = error;
    }
    Rendered { info, parts, is_complete }
}

/// The user's side of a summary.
pub(super) fn of_compaction(at: Time, agent: &str, model: &ModelRef, is_auto: bool) -> Rendered {
    let info = json!({
        "role": "user",
        "time": { "created": at.millis() },
        "agent": agent,
        "model": self::model(model),
    });
    let part = json!({ "type": "compaction", "auto": is_auto });
    Rendered { info, parts: vec![(PartKey::Compaction, part)], is_complete: true }
}

/// The summary itself, which the model wrote.
pub(super) fn of_summary(
    at: Time,
    text: &str,
    agent: &str,
    model: &ModelRef,
    folders: &Folders,
) -> Rendered {
    let mut info = assistant(model, at, agent, folders, &Usage::default(), 0.0);
    info["summary"] = true.into();
    info["mode"] = "compaction".into();
    info["finish"] = "stop".into();
    info["time"]["completed"] = at.millis().into();
    let text = part::text("text", text, at, Some(at));
    Rendered { info, parts: vec![(PartKey::Text(String::new()), text)], is_complete: true }
}

fn assistant(
    model: &ModelRef,
    at: Time,
    agent: &str,
    folders: &Folders,
    usage: &Usage,
    cost: Cost,
) -> Value {
    json!({
        "role": "assistant",
        "time": { "created": at.millis() },
        "modelID": model.id,
        "providerID": model.provider,
        "mode": agent,
        "agent": agent,
        "path": { "cwd": folders.directory, "root": folders.worktree },
        "cost": cost,
        "tokens": part::tokens(usage),
    })
}

pub(super) fn model(model: &ModelRef) -> Value {
    json!({ "providerID": model.provider, "modelID": model.id })
}

/// Why a reply is not complete, in the API's names.
fn error(facts: &MessageFacts, reply: &Reply) -> Option<Value> {
    let (reason, text) = facts.cut.as_ref()?;
    let named = |name: &str, data: Value| Some(json!({ "name": name, "data": data }));
    match (reason, &reply.failure) {
        (EndReason::Aborted, _) => Some(interrupted()),
        (_, Some(failure)) => Some(of_failure(failure, &reply.model.provider)),
        (EndReason::InvalidOutput, None) => named(
            "StructuredOutputError",
            json!({ "message": text, "retries": facts.output_retries }),
        ),
        (EndReason::Error | EndReason::Limit | EndReason::Incomplete, None) => {
            let message = text.as_deref().unwrap_or("The turn ended before its answer.");
            named("UnknownError", json!({ "message": message }))
        }
        (EndReason::Completed | EndReason::Blocked | EndReason::MaxSteps, None) => None,
    }
}

/// The error of a turn that somebody has interrupted, or a crash has cut off.
pub(super) fn interrupted() -> Value {
    json!({ "name": "MessageAbortedError", "data": { "message": "The turn was interrupted." } })
}

/// A failed request in the API's names.
pub(super) fn of_failure(failure: &Failure, provider: &str) -> Value {
    let message = &failure.message;
    match failure.class {
        FailureClass::Auth => json!({
            "name": "ProviderAuthError",
            "data": { "providerID": provider, "message": message },
        }),
        FailureClass::Overflow => {
            json!({ "name": "ContextOverflowError", "data": { "message": message } })
        }
        FailureClass::OutputLength => json!({ "name": "MessageOutputLengthError", "data": {} }),
        FailureClass::Aborted => {
            json!({ "name": "MessageAbortedError", "data": { "message": message } })
        }
        _ => {
            let mut data = json!({ "message": message, "isRetryable": failure.retryable });
            if let Some(status) = failure.status {
                data["statusCode"] = status.into();
            }
            json!({ "name": "APIError", "data": data })
        }
    }
}

/// Adds the members of an object that are not there yet.
fn merge(into: &mut Value, extra: &Value) {
    if let (Value::Object(into), Value::Object(extra)) = (into, extra) {
        for (name, value) in extra {
            into.entry(name.as_str()).or_insert_with(|| value.clone());
        }
    }
}
