//! Visits every text in an event that people, models or tools wrote, to replace secrets or to mask
//! tokens.
//!
//! Values that must come back unchanged are not visited: signatures, sealed reasoning, media, ids,
//! hashes and the folders that a session works in.

use serde_json::{Map, Value};

use crate::event::{
    Access, BatchCall, CallKind, CallSpec, Compaction, Denial, Event, Files, Finished, Hook, Model,
    Notes, Permission, PromptKind, PromptPart, Resolution, Session, StreamedPart, Subagent, Todo,
    Tool, Turn, TurnConfigPayloads, Wanted,
};
use crate::json::Json;
use crate::payload::Payload;
use crate::turn_config::sources;

/// Changes texts.
pub trait Rewrite {
    /// The replacement of `text`; `None` if it stays.
    fn text(&self, text: &str) -> Option<String>;

    /// Whether any string within this JSON text might change.
    fn touches(&self, json: &str) -> bool;
}

/// Changes every text of `event`.
pub fn rewrite(event: &mut Event, how: &impl Rewrite) {
    match event {
        Event::Session(event) => session(event, how),
        Event::Turn(event) => turn(event, how),
        Event::Model(event) => model(event, how),
        Event::Tool(event) => tool(event, how),
        Event::Permission(event) => permission(event, how),
        Event::Compaction(event) => match event {
            Compaction::Finished { summary: text }
            | Compaction::Failed { message: text }
            | Compaction::AskedWith { instructions: text, .. } => {
                string(text, how);
            }
            Compaction::Started { .. } | Compaction::Pruned { .. } | Compaction::Asked { .. } => {}
        },
        Event::Subagent(event) => match event {
            Subagent::EndedUncounted { answer, .. } | Subagent::Ended { answer, .. } => {
                string(answer, how);
            }
            Subagent::Spawned { .. } => {}
        },
        Event::Todo(Todo::Updated { todos }) => {
            todos.iter_mut().for_each(|todo| string(&mut todo.content, how));
        }
        Event::Files(event) => match event {
            Files::SnapshotFailed { message }
            | Files::SnapshotFailedAs { message, .. }
            | Files::RestoreFailed { message }
            | Files::RestoreFailedAs { message, .. } => {
                string(message, how);
            }
            Files::SnapshotStarted {}
            | Files::Snapshotted { .. }
            | Files::RevertAsked { .. }
            | Files::CheckoutAsked { .. }
            | Files::SnapshotsAccepted { .. }
            | Files::UnrevertAsked { .. }
            | Files::RestoreStarted { .. }
            | Files::Restored { .. } => {}
        },
        Event::Hook(event) => match event {
            Hook::Returned { output, message, .. } => {
                json(output, how);
                optional(message, how);
            }
            Hook::Called { .. } => {}
        },
    }
}

/// Changes every text of notes.
pub fn rewrite_notes(notes: &mut Notes, how: &impl Rewrite) {
    if notes.is_empty() {
        return;
    }
    optional(&mut notes.client, how);
    notes.parts.iter_mut().for_each(|parts| json(parts, how));
    if let Some(owner) = &mut notes.owner {
        optional(&mut owner.node, how);
    }
    optional(&mut notes.executor, how);
    if let Some(exchange) = &mut notes.exchange {
        optional(&mut exchange.request_id, how);
    }
    optional(&mut notes.reason, how);
    notes.denials.iter_mut().for_each(|class| string(class, how));
    notes.structured.iter_mut().for_each(|answer| json(answer, how));
    notes.other.values_mut().for_each(|member| json(member, how));
}

fn session(event: &mut Session, how: &impl Rewrite) {
    match event {
        Session::Titled { title } => string(title, how),
        Session::Summarised { summary } => string(summary, how),
        Session::RulesSet { rules, .. } => {
            rules.iter_mut().for_each(|rule| string(&mut rule.pattern, how));
        }
        Session::Created { .. }
        | Session::Resumed { .. }
        | Session::ResumedImported { .. }
        | Session::Forked { .. }
        | Session::Adopted { .. }
        | Session::DeadlinePassed {}
        | Session::Imported { .. }
        | Session::Configured { .. } => {}
    }
}

fn turn(event: &mut Turn, how: &impl Rewrite) {
    match event {
        Turn::Prompted { parts, .. } | Turn::Noted { parts, .. } => {
            parts.iter_mut().for_each(|part| prompt(part, how));
        }
        Turn::Configured(configured) => config(configured, how),
        Turn::Ended(ended) => {
            string(&mut ended.text, how);
            optional(&mut ended.error, how);
            for Denial { patterns, reason, .. } in &mut ended.permission_denials {
                strings(patterns, how);
                string(reason, how);
            }
        }
        Turn::Continued { note, .. } => string(note, how),
        Turn::Interrupted { .. } | Turn::Switched { .. } => {}
    }
}

fn prompt(part: &mut PromptPart, how: &impl Rewrite) {
    match part.kind {
        PromptKind::Text | PromptKind::Task | PromptKind::Command => string(&mut part.text, how),
        PromptKind::Media => optional(&mut part.name, how),
    }
}

/// Changes the contents of a turn configuration, and so their hashes.
pub fn config(configured: &mut TurnConfigPayloads, how: &impl Rewrite) {
    // the model stays: its name is not secret
    let TurnConfigPayloads { system, tools, rules, options, .. } = configured;
    let before = how.touches(system.text()).then(|| system.clone());
    for payload in [&mut *system, tools, rules, &mut *options] {
        if how.touches(payload.text())
            && let Ok(mut value) = serde_json::from_str(payload.text())
            && values(&mut value, how)
        {
            *payload = Payload::new(value.to_string());
        }
    }
    if let Some(before) = before.filter(|before| before.sha256() != system.sha256())
        && let Ok(old) = serde_json::from_str::<Vec<String>>(before.text())
        && let Ok(new) = serde_json::from_str::<Vec<String>>(system.text())
        && let Ok(mut value) = serde_json::from_str(options.text())
        && sources::moved(&mut value, &old, &new, &|text| how.text(text))
    {
        *options = Payload::new(value.to_string());
    }
}

fn model(event: &mut Model, how: &impl Rewrite) {
    match event {
        Model::Streamed { parts } => {
            for StreamedPart { text, .. } in parts.iter_mut().filter(|part| !part.redacted) {
                string(text, how);
            }
        }
        Model::Failed { message: text, .. } | Model::RetryScheduled { error: text, .. } => {
            string(text, how);
        }
        Model::Requested { .. } | Model::Finished { .. } => {}
    }
}

fn called(call: &mut CallSpec, how: &impl Rewrite) {
    string(&mut call.name, how);
    json(&mut call.input, how);
}

fn tool(event: &mut Tool, how: &impl Rewrite) {
    match event {
        Tool::Resolved(resolution) => resolved(resolution, how),
        Tool::Progressed { tail } => string(tail, how),
        Tool::Finished(finished) => {
            let Finished { title, output, metadata, attachments, .. } = &mut **finished;
            string(title, how);
            string(output, how);
            json(metadata, how);
            attachments.iter_mut().for_each(|media| string(&mut media.name, how));
        }
        Tool::Called { call } | Tool::Batched { call } => called(call, how),
        Tool::InputStreamed { calls } => {
            calls.iter_mut().for_each(|call| string(&mut call.name, how));
        }
        Tool::ElicitationRequested { from, message, wanted, .. } => {
            string(from, how);
            string(message, how);
            match wanted {
                Wanted::Form { schema } => json(schema, how),
                Wanted::Visit { url } => string(url, how),
                Wanted::Permission { patterns, always, .. } => {
                    strings(patterns, how);
                    strings(always, how);
                }
            }
        }
        Tool::ElicitationAnswered { content, .. } => json(content, how),
        Tool::StartedSandboxed(started) => {
            strings(&mut started.sandbox.write, how);
            strings(&mut started.sandbox.shown, how);
        }
        Tool::ResolveStarted { .. }
        | Tool::Started { .. }
        | Tool::Lost { .. }
        | Tool::Cancelled { .. } => {}
    }
}

/// Changes every text of a resolution.
pub fn resolved(resolution: &mut Resolution, how: &impl Rewrite) {
    let Resolution { input, access, paths, error, kind, .. } = resolution;
    json(input, how);
    if let CallKind::Batch { calls } = kind {
        for BatchCall { name, input } in calls {
            string(name, how);
            json(input, how);
        }
    }
    for Access { patterns, always, .. } in access {
        strings(patterns, how);
        strings(always, how);
    }
    strings(paths, how);
    optional(error, how);
}

fn permission(event: &mut Permission, how: &impl Rewrite) {
    match event {
        Permission::Ruled { rule, .. } => {
            rule.iter_mut().for_each(|rule| string(&mut rule.pattern, how));
        }
        Permission::Asked { patterns, always, .. } => {
            strings(patterns, how);
            strings(always, how);
        }
        Permission::Answered { feedback, .. } | Permission::RejectedWith { feedback, .. } => {
            optional(feedback, how);
        }
        Permission::AnsweredFor { feedback, always, .. } => {
            optional(feedback, how);
            strings(always, how);
        }
    }
}

/// Changes every string of a JSON value, including names of fields.
pub fn json(json: &mut Json, how: &impl Rewrite) {
    if !how.touches(json.as_str()) {
        return;
    }
    let mut value = json.value();
    if values(&mut value, how) {
        *json = Json::from_value(&value);
    }
}

/// Changes the strings of a value. Returns whether any changed.
fn values(value: &mut Value, how: &impl Rewrite) -> bool {
    match value {
        Value::String(text) => match how.text(text) {
            Some(new) => {
                *text = new;
                true
            }
            None => false,
        },
        // every item must be visited, so no short circuit
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| values(item, how) | changed)
        }
        Value::Object(fields) => {
            let mut changed = fields.values_mut().fold(false, |done, v| values(v, how) | done);
            if fields.keys().any(|name| how.text(name).is_some()) {
                let rename =
                    |(name, value): (String, Value)| (how.text(&name).unwrap_or(name), value);
                *fields = std::mem::take(fields).into_iter().map(rename).collect::<Map<_, _>>();
                changed = true;
            }
            changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn string<T: AsRef<str> + From<String>>(text: &mut T, how: &impl Rewrite) {
    if let Some(new) = how.text(text.as_ref()) {
        *text = new.into();
    }
}

fn optional(text: &mut Option<String>, how: &impl Rewrite) {
    text.iter_mut().for_each(|text| string(text, how));
}

fn strings(texts: &mut [String], how: &impl Rewrite) {
    texts.iter_mut().for_each(|text| string(text, how));
}
