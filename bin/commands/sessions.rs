//! `leftfold sessions`: lists sessions from their heads alone, so a long list reads no log.

use std::path::Path;
use std::process::ExitCode;

use leftfold_store::Head;
use serde_json::{Value, json};

use super::pages;
use super::stats::ProjectFilter;
use crate::cli::{Format, ListArgs, Sessions, SessionsCommand};
use leftfold_runtime::session_list::{Costs, cost, remove, state, title};
use leftfold_runtime::session_paths;
use leftfold_view::clean;
use leftfold_view::words::counted;

pub(crate) fn sessions(args: &Sessions) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => list(&args.list, args),
        Some(SessionsCommand::List(only)) => list(only, args),
        Some(SessionsCommand::Show { session }) => show(session, args),
        Some(SessionsCommand::Rm { sessions }) => remove_all(sessions),
        Some(SessionsCommand::Prune(prune)) => super::prune::prune(prune),
    }
}

fn list(only: &ListArgs, args: &Sessions) -> anyhow::Result<ExitCode> {
    let mut roots = session_paths::listed()?;
    if let Some(name) = &only.project {
        let filter = ProjectFilter::new(name.as_deref(), &std::env::current_dir()?);
        let project = |head: &Head| {
            head.summary.as_ref().map(|summary| summary.worktree.clone()).unwrap_or_default()
        };
        filter.check(&roots.iter().map(|(_, head)| project(head)).collect())?;
        roots.retain(|(_, head)| filter.matches(&project(head)));
    }
    roots.sort_by_key(|(_, head)| std::cmp::Reverse(head.at));
    if roots.is_empty() {
        leftfold_runtime::note("leftfold: there are no sessions yet");
    }
    roots.truncate(only.limit.unwrap_or(usize::MAX));
    let mut costs = Costs::default();
    let lines = roots.iter().map(|(store, head)| match args.format {
        Format::Json => described(store, head, costs.for_session(store, head)).to_string() + "\n",
        Format::Text => line(store, head, costs.for_session(store, head)),
    });
    pages::page(&args.page, args.format, &lines.collect::<String>(), pages::session_line)
}

fn line(store: &Path, head: &Head, cost: f64) -> String {
    let title = clean::printable_line(&title(head)).into_owned();
    let at = head.at.to_string();
    let at = at.get(..16).unwrap_or(&at).replace('T', " ");
    let state = state(store, head);
    let about = head.summary.as_ref().and_then(|summary| summary.summary.as_deref());
    let about = about.map(|about| format!("    {}\n", clean::printable_line(about)));
    let about = about.unwrap_or_default();
    // a model without a price
    let cost = if cost > 0.0 { format!("${cost:.4}") } else { String::new() };
    format!("{}  {at}  {state:<11} {cost:<9} {title}\n{about}", head.session)
}

fn show(session: &str, args: &Sessions) -> anyhow::Result<ExitCode> {
    let place = super::place(session)?;
    let heads = leftfold_store::heads(&place.store)?;
    let Some(head) = heads.iter().find(|head| head.session == place.session) else {
        anyhow::bail!("session {} has no head record: run `leftfold check` on it", place.session)
    };
    let mut described = described(&place.store, head, cost(&heads, head));
    // The head does not have these facts. If the log cannot be read, they are left out.
    let log = leftfold_store::Reader::open(&place.store);
    if let Ok(events) = log.and_then(|reader| reader.read(place.session, 1)) {
        for (name, value) in leftfold_view::file_changes::described(&leftfold_events::fold(&events))
        {
            described[name] = value;
        }
    }
    let shared = super::export::shared_file(place.session)?;
    if shared.is_file() {
        described["shared"] = json!(shared);
    }
    if args.format == Format::Json {
        return super::print_json(&format!("{described}\n"));
    }
    let fields = described.as_object().into_iter().flatten();
    let lines = fields.filter_map(|(name, value)| {
        let shown = match name.as_str() {
            "time" => "last event".to_owned(),
            "changes_by_turn" => "by turn".to_owned(),
            "changes_by_file" => "by file".to_owned(),
            other => other.replace('_', " "),
        };
        Some(format!("{shown:<12} {}\n", in_words(name, value)?))
    });
    pages::page_text(&args.page, &lines.collect::<String>(), pages::plain_line)
}

/// A field of a session for people; `None` if it says nothing.
fn in_words(name: &str, value: &Value) -> Option<String> {
    let changed = |of: &Value| format!("+{} -{}", of["additions"], of["deletions"]);
    let each = |line: &dyn Fn(&Value) -> String| {
        let lines: Vec<String> = value.as_array()?.iter().map(line).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    match (name, value) {
        (_, Value::Null) => None,
        ("cost" | "own_cost", Value::Number(cost)) => {
            // a model without a price
            let cost = cost.as_f64().filter(|cost| *cost > 0.0)?;
            Some(format!("${cost:.4}"))
        }
        ("changes", of) => {
            let files = counted(&of["files"], "file");
            (of["files"] != 0).then(|| format!("{files}, {}", changed(of)))
        }
        ("changes_by_turn", _) => each(&|of| format!("turn at {}: {}", of["turn"], changed(of))),
        ("changes_by_file", _) => each(&|of| {
            let path = of["path"].as_str().unwrap_or_default();
            format!("{} {}", clean::printable_line(path), changed(of))
        }),
        (_, Value::String(text)) => Some(clean::printable_line(text).into_owned()),
        (_, other) => Some(other.to_string()),
    }
}

fn remove_all(sessions: &[String]) -> anyhow::Result<ExitCode> {
    for session in sessions {
        let place = super::place_to_change(session)?;
        let tidied = remove(&place)?;
        super::export::remove_shared(place.session)?;
        super::prune::print_removed(&place.store, &tidied, false)?;
        leftfold_runtime::note(&format!("removed {}", place.session));
    }
    Ok(ExitCode::SUCCESS)
}

fn described(store: &Path, head: &Head, cost: f64) -> Value {
    let summary = head.summary.clone().unwrap_or_default();
    let mut described = json!({
        "id": head.session,
        "title": title(head),
        "state": state(store, head),
        "cost": cost,
        "own_cost": summary.cost,
        "created": summary.created,
        "time": head.at,
        "events": head.seq,
        "turns": summary.turns,
        "agent": summary.agent,
        "fork_of": summary.fork_of,
        "directory": summary.directory,
        "folder": store,
    });
    if let Some(summary) = summary.summary {
        described["summary"] = summary.into();
    }
    described
}
