//! Parts of messages, without their ids.

use leftfold_events::Time;
use leftfold_events::event::{Attachment, Cost, Finish, Finished, PromptKind, PromptPart, Usage};
use leftfold_view::{Call, Outcome};
use serde_json::{Map, Value, json};

use super::ids;

/// The part that a prompt's part becomes. Extra members from the client stay as they were.
pub(super) fn of_prompt(part: &PromptPart) -> Value {
    match part.kind {
        PromptKind::Text => json!({ "type": "text", "text": part.text }),
        PromptKind::Command => json!({ "type": "text", "text": format!("!`{}`", part.text) }),
        PromptKind::Task => json!({
            "type": "subtask",
            "prompt": part.text,
            "description": part.text.lines().next().unwrap_or_default(),
            "agent": part.name.as_deref().unwrap_or_default(),
        }),
        PromptKind::Media => file(part.mime.as_deref(), part.name.as_deref(), &part.text),
    }
}

fn file(mime: Option<&str>, name: Option<&str>, base64: &str) -> Value {
    let mime = mime.unwrap_or("application/octet-stream");
    let mut part =
        json!({ "type": "file", "mime": mime, "url": format!("data:{mime};base64,{base64}") });
    if let Some(name) = name {
        part["filename"] = name.into();
    }
    part
}

/// Text or reasoning. A text has an end once nothing follows in it.
pub(super) fn text(kind: &str, text: &str, start: Time, end: Option<Time>) -> Value {
    let mut time = json!({ "start": start.millis() });
    if let Some(end) = end {
        time["end"] = end.millis().into();
    }
    json!({ "type": kind, "text": text, "time": time })
}

pub(super) fn step_finish(finish: Finish, usage: &Usage, cost: Cost) -> Value {
    json!({ "type": "step-finish", "reason": reason(finish), "cost": cost, "tokens": tokens(usage) })
}

/// The reason in the words of the API.
pub(super) fn reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool-calls",
        Finish::ContentFilter => "content-filter",
        Finish::Error => "error",
        Finish::Pause | Finish::Other => "other",
    }
}

pub(super) fn tokens(usage: &Usage) -> Value {
    json!({
        "total": usage.total(),
        "input": usage.input,
        "output": usage.output,
        "reasoning": usage.reasoning,
        "cache": { "read": usage.cache_read, "write": usage.cache_write },
    })
}

pub(super) fn of_call(call: &Call, is_over: bool) -> Value {
    json!({ "type": "tool", "callID": call.id, "tool": call.name, "state": state(call, is_over) })
}

fn state(call: &Call, is_over: bool) -> Value {
    let start = call.started.or(call.resolved).unwrap_or_default().millis();
    let end = call.ended.map_or(start, Time::millis).max(start);
    let input = input(call);
    let error = |error: &str| {
        let time = json!({ "start": start, "end": end });
        json!({ "status": "error", "input": input, "error": error, "metadata": metadata(call, None), "time": time })
    };
    match &call.outcome {
        Some(Outcome::Finished(finished)) if !finished.is_error => {
            completed(call, finished, &input, (start, end))
        }
        Some(Outcome::Finished(finished)) => error(&finished.output),
        Some(Outcome::Unresolved(why)) => error(why),
        Some(Outcome::Denied) => error("The permission rules deny this call."),
        Some(Outcome::Rejected { feedback: Some(feedback), .. }) => {
            error(&format!("The user rejected this call: {feedback}"))
        }
        Some(Outcome::Rejected { .. }) => error("The user rejected this call."),
        Some(Outcome::TimedOut { asked: true }) => error("Nobody answered in time."),
        Some(Outcome::TimedOut { asked: false }) => error("The call timed out."),
        Some(Outcome::Lost) => {
            error("The program stopped while the call ran: its outcome is unknown.")
        }
        Some(Outcome::Cancelled) => error("Tool execution aborted"),
        None if is_over => error("Tool execution aborted"),
        None if call.resolved.is_none() => json!({ "status": "pending", "input": {}, "raw": "" }),
        None => json!({
            "status": "running",
            "input": input,
            "title": call.heading(),
            "metadata": metadata(call, None),
            "time": { "start": start },
        }),
    }
}

fn completed(call: &Call, finished: &Finished, input: &Value, (start, end): (u64, u64)) -> Value {
    let mut state = json!({
        "status": "completed",
        "input": input,
        "output": finished.output,
        "title": call.title.as_deref().unwrap_or(&finished.title),
        "metadata": metadata(call, Some(finished)),
        "time": { "start": start, "end": end },
    });
    if !finished.attachments.is_empty() {
        state["attachments"] = finished.attachments.iter().map(attachment).collect();
    }
    state
}

/// An attachment; its ids are those of the call's part.
fn attachment(file: &Attachment) -> Value {
    self::file(Some(&file.mime), Some(&file.name), &file.base64)
}

/// The call's metadata, with the names that clients draw.
fn metadata(call: &Call, finished: Option<&Finished>) -> Value {
    let mut metadata = match &call.metadata {
        Some(Value::Object(metadata)) => metadata.clone(),
        Some(_) | None => Map::new(),
    };
    if call.name == "bash" {
        let output = finished.map_or(call.tail.as_str(), |finished| &finished.output);
        metadata.entry("output").or_insert_with(|| output.into());
        if let Some(description) = call.input.get("description") {
            metadata.entry("description").or_insert_with(|| description.clone());
        }
    }
    if let (Some(diff), "edit") = (metadata.get("diff"), call.name.as_str()) {
        let of = |name: &str| metadata.get(name).cloned().unwrap_or_default();
        let changed = json!({
            "file": of("path"), "patch": diff, "additions": of("additions"), "deletions": of("deletions"),
        });
        metadata.entry("filediff").or_insert(changed);
    }
    if let (Some(todos), "todowrite") = (call.input.get("todos"), call.name.as_str()) {
        metadata.entry("todos").or_insert_with(|| todos.clone());
    }
    if let Some(subagent) = call.subagent {
        metadata.insert("sessionId".into(), ids::of_session(subagent).into());
    }
    metadata.into()
}

/// The arguments with the names that clients draw. They are an object for clients, even if the model
/// wrote something else.
fn input(call: &Call) -> Value {
    let mut input = object(&call.input);
    if let ("task", Some(agent)) = (call.name.as_str(), input.get("subagentType").cloned()) {
        input["subagent_type"] = agent;
    }
    input
}

fn object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        Value::Null => json!({}),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({ "input": input })
        }
    }
}
