//! `leftfold replay`: what happened, read off the log with effects off.

use std::process::ExitCode;

use leftfold_events::{Time, fold};
use serde_json::Value;

use crate::Usage;
use crate::cli::Replay;
use crate::inquiry::Inquiries;
use crate::text;

pub(crate) fn replay(args: &Replay) -> anyhow::Result<ExitCode> {
    let (place, mut events) = super::events(&args.session)?;
    let head = events.last().map_or(0, |event| event.seq);
    let to = args.at.or(args.to).unwrap_or(head);
    let from = args.from.unwrap_or(1);
    if to > head || to == 0 || from == 0 || from > to {
        let asked = if args.at.is_some() { format!("{to}") } else { format!("{from} to {to}") };
        return Err(Usage(format!(
            "the log of {} has events 1 to {head}: there is no {asked}",
            place.session
        ))
        .into());
    }
    events.retain(|event| event.seq <= to);
    if args.state {
        let state = serde_json::to_value(fold(&events))?;
        return super::print(&format!("{}\n", sorted(state)));
    }
    let began = events.first().map_or(Time::default(), |event| event.at);
    let (mut inquiries, mut text) = (Inquiries::default(), String::new());
    for event in &events {
        inquiries.follow(event);
        if event.seq >= from {
            text += &(text::replayed(event, began, &inquiries) + "\n");
        }
    }
    super::print(&text)
}

/// The same value with the keys of all objects in order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}
