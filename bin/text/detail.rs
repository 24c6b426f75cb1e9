//! Events in a line each: what a replay prints of them, and whoever names one.

use std::fmt::Write;

use leftfold_events::event::{Ended, Event, Model, Permission, Purpose, Session, Tool, Turn};
use leftfold_events::{Envelope, Time};

use super::{brief, first_line, quoted, said};
use crate::changes;
use crate::inquiry::Inquiries;

/// One event of a replay, with seq and the time since the session began. `inquiries` has followed
/// the session up to it.
pub(crate) fn replayed(event: &Envelope, began: Time, inquiries: &Inquiries) -> String {
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
    let detail = asked(event, inquiries).unwrap_or_else(|| detail(&event.event));
    if !detail.is_empty() {
        let _ = write!(line, "  {detail}");
    }
    line
}

/// Of a question of the `question` tool and of its answer: both, so that neither has to be looked
/// for.
fn asked(event: &Envelope, inquiries: &Inquiries) -> Option<String> {
    let Event::Permission(permission) = &event.event else { return None };
    match permission {
        Permission::Ruled { .. } => None,
        Permission::Asked { .. } => {
            let inquiry = inquiries.asked(event.seq)?;
            let options: Vec<&str> = inquiry.options.iter().map(|o| o.label.as_str()).collect();
            let line = format!("{} {}", quoted(&inquiry.titled()), options.join(" | "));
            Some(line.trim_end().to_owned())
        }
        Permission::Answered { reply, by, feedback } => {
            let inquiry = inquiries.asked(event.of?)?;
            let said = said(*reply, feedback.as_deref());
            Some(format!("{} → {} by {by}", quoted(&inquiry.titled()), quoted(&said)))
        }
    }
}

pub(crate) fn detail(event: &Event) -> String {
    match event {
        Event::Session(Session::Created { directory, agent, .. }) => {
            format!("{agent} in {directory}")
        }
        Event::Session(Session::Titled { title }) => title.clone(),
        Event::Session(Session::Resumed { close, .. }) if *close => "to close the turn".to_owned(),
        Event::Turn(Turn::Prompted { parts, model, .. }) => {
            let text = parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(" ");
            format!("{} → {model}", quoted(&text))
        }
        Event::Turn(Turn::Interrupted { by }) => format!("by {by}"),
        Event::Turn(Turn::Switched { agent, model }) => format!("to {agent}, {model}"),
        Event::Turn(Turn::Ended(ended)) => end_detail(ended),
        Event::Model(event) => model_detail(event),
        Event::Tool(event) => tool_detail(event),
        Event::Permission(Permission::Ruled { action, rule, .. }) => {
            let rule = rule.as_ref().map(|r| format!(" by {} `{}`", r.permission, r.pattern));
            format!("{action:?}{}", rule.unwrap_or_default()).to_lowercase()
        }
        Event::Permission(Permission::Asked { permission, patterns, .. }) => {
            format!("{permission}: {}", patterns.join(", "))
        }
        Event::Permission(Permission::Answered { reply, by, feedback }) => {
            let feedback = feedback.as_deref().map(quoted).unwrap_or_default();
            format!("{reply:?} by {by} {feedback}").trim_end().to_owned()
        }
        Event::Todo(leftfold_events::event::Todo::Updated { todos }) => {
            format!("{} items", todos.len())
        }
        Event::Files(event) => changes::detail(event),
        Event::Session(_) | Event::Turn(_) | Event::Compaction(_) | Event::Subagent(_) => {
            String::new()
        }
    }
}

fn end_detail(ended: &Ended) -> String {
    let mut detail = format!("{:?} after {} steps", ended.reason, ended.steps).to_lowercase();
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
                Purpose::Compaction => format!("{model}, for a summary{attempt}"),
            }
        }
        Model::Streamed { parts } => {
            parts.iter().map(|part| quoted(&part.text)).collect::<Vec<_>>().join(" ")
        }
        Model::Called { call } => format!("{} {}", call.name, brief(&call.input.value())),
        Model::Replied { finish, usage, cost, .. } => {
            let cost = if *cost > 0.0 { format!(", ${cost:.4}") } else { String::new() };
            let (taken, given) = (usage.total() - usage.output, usage.output);
            format!("{finish:?}, {taken} tokens in, {given} out{cost}").to_lowercase()
        }
        Model::Failed { class, message, .. } => format!("{class:?}: {message}"),
        Model::RetryScheduled { attempt, error } => format!("after attempt {attempt}: {error}"),
    }
}

fn tool_detail(event: &Tool) -> String {
    match event {
        Tool::Resolved(resolution) => match &resolution.error {
            Some(error) => first_line(error).to_owned(),
            None => format!("{} {}", resolution.name, resolution.paths.join(", ")),
        },
        Tool::Started { name, attempt, .. } if *attempt > 1 => format!("{name}, attempt {attempt}"),
        Tool::Started { name, .. } => name.clone(),
        Tool::Finished(finished) => {
            let mark = if finished.is_error { "failed: " } else { "" };
            format!("{mark}{}", quoted(&finished.output))
        }
        Tool::Progressed { tail } => quoted(tail),
        Tool::Batched { call } => format!("{} {}", call.name, brief(&call.input.value())),
        Tool::Checked { .. } | Tool::Lost { .. } | Tool::Cancelled { .. } => String::new(),
    }
}
