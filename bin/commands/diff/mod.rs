//! `leftfold diff`: shows the changes of a session to files, or where two sessions part and how they
//! differ after that.

mod configuration;

use std::collections::BTreeSet;
use std::process::ExitCode;

use leftfold_events::event::{Event, Model, Tool, Turn};
use leftfold_events::verify::difference;
use leftfold_events::{Envelope, Seq, SessionId, Sha256, State, fold, line, mask};
use leftfold_view::{clean, event_line, words};
use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::pages;
use crate::cli::{Diff, Format};
use leftfold_runtime::project::Project;
use leftfold_runtime::session_diff::{DiffRange, SessionDiff};
use leftfold_runtime::session_paths::SessionPlace;

/// Unchanged lines to show around a change.
const CONTEXT: usize = 2;

pub(crate) fn diff(args: &Diff) -> anyhow::Result<ExitCode> {
    match &args.other {
        None => files(args),
        Some(other) => sessions(args, other),
    }
}

/// Shows the changes of one session to files. Exit code 1 if changes may be missing.
fn files(args: &Diff) -> anyhow::Result<ExitCode> {
    let range = match (args.turn, args.step) {
        (Some(turn), _) => DiffRange::Turn(turn),
        (None, Some(step)) => DiffRange::Step(step),
        (None, None) => DiffRange::Session,
    };
    let place = super::place(&args.session)?;
    let diff = match args.tree {
        true => {
            let project = Project::of(&place)?;
            leftfold_runtime::run_async(SessionDiff::of_tree(&place, &project.directory))??
        }
        false => SessionDiff::read(&place, range)?,
    };
    match args.format {
        Format::Json => {
            super::print_json(&format!("{}\n", diff.to_json(args.stat)))?;
        }
        Format::Text => {
            match args.stat {
                true => pages::page_text(&args.page, &diff.stat(), pages::plain_line)?,
                false => pages::page_text(&args.page, &diff.unified(), pages::diff_line)?,
            };
            for note in diff.notes.iter().chain(&diff.gaps) {
                leftfold_runtime::note(&format!("leftfold: {note}"));
            }
            if diff.files.is_empty() && diff.gaps.is_empty() {
                leftfold_runtime::note("leftfold: no file was changed");
            }
        }
    }
    Ok(if diff.gaps.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sessions(args: &Diff, other: &str) -> anyhow::Result<ExitCode> {
    let (a, b) = (Side::read(&args.session)?, Side::read(other)?);
    let parting = parting(&a, &b);
    let (before, after) = (fold(&a.events).config, fold(&b.events).config);
    let plain: [&dyn Fn(&str) -> String; 2] =
        [&|text| a.without_ids(text), &|text| b.without_ids(text)];
    let configuration = configuration::changes(&before, &after, plain);
    if args.format == Format::Json {
        let report = json!({
            "equal": parting.is_none(), "part": parting, "configuration": configuration,
            "a": a.summary(), "b": b.summary(),
        });
        super::print_json(&format!("{report}\n"))?;
    } else {
        let text = as_text(&a, &b, parting.as_ref(), &configuration::text(&configuration));
        pages::page_text(&args.page, &text, pages::diff_line)?;
    }
    Ok(if parting.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The hash of a turn's options without the places that they come from.
fn without_sources(options: &str) -> Value {
    let mut options: Value = serde_json::from_str(options).unwrap_or_default();
    options.as_object_mut().map(|options| options.remove("sources"));
    json!(Sha256::of(options.to_string().as_bytes()))
}

struct Side {
    place: SessionPlace,
    events: Vec<Envelope>,
    ids: BTreeSet<SessionId>,
}

/// The first event in which two sessions differ in more than their ids and times.
#[derive(Serialize)]
struct Parting {
    /// The seq in the first session; one after its last event if it ends there.
    seq: Seq,
    /// Path of the field within the event's JSON line; `type` if the types of the events differ.
    field: String,
    a: Value,
    b: Value,
}

fn parting(a: &Side, b: &Side) -> Option<Parting> {
    let most = a.events.len().max(b.events.len());
    (0..most).find_map(|index| {
        let (mine, other) = (a.comparable(index), b.comparable(index));
        let (field, x, y) = difference(&mine, &other, "")?;
        let after = a.events.last().map_or(1, |event| event.seq + 1);
        let seq = a.events.get(index).map_or(after, |event| event.seq);
        Some(Parting { seq, field, a: x, b: y })
    })
}

impl Side {
    fn read(session: &str) -> anyhow::Result<Self> {
        let (place, events) = super::events(session)?;
        // The ids of the session, of the sessions it was forked from, and of its children.
        let children = events.iter().filter_map(Envelope::spawned);
        let ids = events.iter().map(|event| event.session).chain(children).collect();
        Ok(Self { place, events, ids })
    }

    /// An event as JSON without the fields that differ between any two sessions; null past the end.
    fn comparable(&self, index: usize) -> Value {
        let Some(event) = self.events.get(index) else { return Value::Null };
        let text = self.without_ids(&mask::shown(event).line);
        let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            for name in ["session", "at", "until"] {
                fields.remove(name);
            }
        }
        // The exchange is another one in each session.
        if let Some(notes) = value.get_mut("notes").and_then(Value::as_object_mut) {
            notes.remove("exchange");
            if notes.is_empty()
                && let Some(fields) = value.as_object_mut()
            {
                fields.remove("notes");
            }
        }
        // The hashes depend on the session's id, which a request contains, and on the lines in settings files.
        if let Some(data) = value.get_mut("data").and_then(Value::as_object_mut) {
            if let Event::Turn(Turn::Configured(payloads)) = &event.event {
                data.insert("options".to_owned(), without_sources(payloads.options.text()));
            }
            data.remove("request_sha256");
            data.remove("body_sha256");
        }
        value
    }

    /// The session as text, one line for each event. Streamed text is left out, because it arrives
    /// in pieces of any length; the replies contain it.
    fn lines(&self) -> String {
        let shown =
            |event: &&Envelope| !matches!(event.event, Event::Model(Model::Streamed { .. }));
        let line = |event: &Envelope| {
            let detail = self.without_ids(&event_line::detail(&event.event));
            let line = format!("{} {detail}", line::type_of(&event.event));
            clean::printable_line(line.trim_end()).into_owned() + "\n"
        };
        self.events.iter().filter(shown).map(line).collect()
    }

    /// Replaces every id of these sessions with one word.
    fn without_ids(&self, text: &str) -> String {
        let with = |text: String, id: &SessionId| text.replace(&id.to_string(), "SESSION");
        self.ids.iter().fold(text.to_owned(), with)
    }

    fn summary(&self) -> Value {
        let State { session, usage, cost, ended, .. } = fold(&self.events);
        let count = |wanted: fn(&Event) -> bool| {
            self.events.iter().filter(|event| wanted(&event.event)).count()
        };
        json!({
            "session": session,
            "events": self.events.len(),
            "requests": count(|event| matches!(event, Event::Model(Model::Requested { .. }))),
            "calls": count(|event| matches!(event, Event::Tool(Tool::Called { .. }))),
            "tokens": usage.total(),
            "cost": cost,
            "ended": ended.map(|ended| ended.reason),
        })
    }
}

fn as_text(a: &Side, b: &Side, parting: Option<&Parting>, configuration: &str) -> String {
    let Some(parting) = parting else {
        let (a, b, count) = (a.place.session, b.place.session, a.events.len());
        let count = words::counted(count, "event");
        return format!("{a} and {b}: {count}, equal except for ids and times\n");
    };
    let Parting { seq, field, a: x, b: y } = parting;
    let value = |value: &Value| words::shorten(&value.to_string(), 200);
    let mut text = format!("they part at {seq}, {field}:\n- {}\n+ {}\n\n", value(x), value(y));
    if !configuration.is_empty() {
        text += &format!("configuration of the last turn:\n{configuration}\n");
    }
    let (old, new) = (a.lines(), b.lines());
    let diff = TextDiff::from_lines(&old, &new);
    let names = (a.place.session.to_string(), b.place.session.to_string());
    text += &diff.unified_diff().context_radius(CONTEXT).header(&names.0, &names.1).to_string();
    for (mark, side) in [("-", a), ("+", b)] {
        let summary = side.summary();
        let number = |name: &str, noun: &str| words::counted(&summary[name], noun);
        let cost = summary["cost"].as_f64().filter(|cost| *cost > 0.0);
        let cost = cost.map(|cost| format!("${cost:.4}, ")).unwrap_or_default();
        text += &format!(
            "{mark} {}, {}, {}, {}, {cost}{}\n",
            number("events", "event"),
            number("requests", "request"),
            number("calls", "call"),
            number("tokens", "token"),
            summary["ended"].as_str().unwrap_or("open"),
        );
    }
    text
}
