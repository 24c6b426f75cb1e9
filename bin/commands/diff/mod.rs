//! `leftfold diff`: shows the changes of a session to files, or where two sessions part and how they
//! differ after that.

mod configuration;

use std::process::ExitCode;

use leftfold_events::event::{Event, Model, Tool};
use leftfold_events::{Envelope, State, fold};
use leftfold_view::compare::{Parting, Side, parting};
use leftfold_view::words;
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
            let project = Project::for_session(&place)?;
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
    let (a, b) = (Compared::read(&args.session)?, Compared::read(other)?);
    let (side_a, side_b) = (a.side(), b.side());
    let parting = parting(&side_a, &side_b);
    let (before, after) = (fold(&a.events).config, fold(&b.events).config);
    let plain: [&dyn Fn(&str) -> String; 2] =
        [&|text| side_a.without_ids(text), &|text| side_b.without_ids(text)];
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

/// A session to compare.
struct Compared {
    place: SessionPlace,
    events: Vec<Envelope>,
}

impl Compared {
    fn read(session: &str) -> anyhow::Result<Self> {
        let (place, events) = super::events(session)?;
        Ok(Self { place, events })
    }

    fn side(&self) -> Side<'_> {
        Side::new(&self.events)
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

fn as_text(a: &Compared, b: &Compared, parting: Option<&Parting>, configuration: &str) -> String {
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
    let (old, new) = (a.side().lines(), b.side().lines());
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
