//! `leftfold sessions`: read from heads alone, so a long list costs no log.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use leftfold_events::event::EndReason;
use leftfold_events::{Envelope, SessionId};
use leftfold_store::{Head, Summary};
use serde_json::{Value, json};

use crate::cli::{Format, Sessions, SessionsCommand};
use leftfold_runtime::history::{History, spawned};
use leftfold_runtime::home::{self, Place};
use leftfold_view::changes;

/// Characters of a title in the list.
const TITLE: usize = 60;

pub(crate) fn sessions(args: &Sessions) -> anyhow::Result<ExitCode> {
    match &args.command {
        None | Some(SessionsCommand::List) => list(args.format),
        Some(SessionsCommand::Show { session }) => show(session, args.format),
        Some(SessionsCommand::Rm { sessions }) => remove(sessions),
        Some(SessionsCommand::Prune(prune)) => super::prune::prune(prune),
    }
}

fn list(format: Format) -> anyhow::Result<ExitCode> {
    let mut roots = home::listed()?;
    roots.sort_by_key(|(_, head)| std::cmp::Reverse(head.at));
    let lines = roots.iter().map(|(store, head)| match format {
        Format::Json => described(store, head).to_string() + "\n",
        Format::Text => line(store, head),
    });
    super::print(&lines.collect::<String>())
}

fn line(store: &Path, head: &Head) -> String {
    let title = title(head);
    let at = head.at.to_string();
    let at = at.get(..16).unwrap_or(&at).replace('T', " ");
    let state = state(store, head);
    format!("{}  {at}  {state:<11} ${:<8.4} {title}\n", head.session, cost(store, head))
}

fn show(session: &str, format: Format) -> anyhow::Result<ExitCode> {
    let place = super::place(session)?;
    let heads = leftfold_store::heads(&place.store);
    let Some(head) = heads.iter().find(|head| head.session == place.session) else {
        anyhow::bail!("session {} has no head: `leftfold check` says more", place.session)
    };
    let mut described = described(&place.store, head);
    // the head does not say; a log that can not be read does not either
    let log = leftfold_store::Reader::open(&place.store);
    if let Ok(events) = log.and_then(|reader| reader.read(place.session, 1)) {
        for (name, value) in changes::described(&leftfold_events::fold(&events)) {
            described[name] = value;
        }
    }
    if format == Format::Json {
        return super::print(&format!("{described}\n"));
    }
    let fields = described.as_object().into_iter().flatten();
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    let lines = fields.map(|(name, value)| format!("{name:<15} {}\n", text(value)));
    super::print(&lines.collect::<String>())
}

fn remove(sessions: &[String]) -> anyhow::Result<ExitCode> {
    for session in sessions {
        let place = super::place(session)?;
        remove_one(&place)?;
        leftfold_runtime::note(&format!("removed {}", place.session));
    }
    Ok(ExitCode::SUCCESS)
}

/// Removes a session with what belongs to it alone.
///
/// # Errors
/// It has forks, belongs to another session, or a node has it open.
pub(crate) fn remove_one(place: &Place) -> anyhow::Result<()> {
    let heads = leftfold_store::heads(&place.store);
    let fork_of = |head: &Head| head.summary.as_ref().and_then(|summary| summary.fork_of);
    let parent = |head: &Head| head.summary.as_ref().and_then(|summary| summary.parent);
    let own = heads.iter().find(|head| head.session == place.session);
    let family = family(&heads, place.session);
    // one that belongs to a session goes with that
    let shares = |head: &&Head| {
        parent(head).is_none() && fork_of(head).is_some_and(|of| family.contains(&of))
    };
    let forks = heads.iter().filter(shares).map(|head| head.session.to_string());
    let forks: Vec<String> = forks.collect();
    if !forks.is_empty() {
        bail!(
            "session {} shares its events, or its children's, with forks, which have to go first: {}",
            place.session,
            forks.join(", ")
        );
    }
    if let Some(parent) = own.and_then(parent) {
        bail!("session {} belongs to {parent}, and goes with it", place.session);
    } else if own.is_some_and(|head| fork_of(head).is_some()) {
        remove_fork(place)?;
    } else {
        leftfold_store::remove(&place.store)?;
    }
    Ok(())
}

/// A fork goes with the children that it has started, and leaves what it shared.
fn remove_fork(place: &Place) -> anyhow::Result<()> {
    let (history, _) = History::good(place)?;
    let mut own = vec![place.session];
    // parents come before children
    for (session, events) in history.sessions() {
        let of_own = |event: &&Envelope| own.contains(&session) && event.session == session;
        let children: Vec<_> = events.iter().filter(of_own).filter_map(spawned).collect();
        own.extend(children);
    }
    leftfold_store::forget(&place.store, &own)?;
    super::prune::unused(&place.store, false)?;
    Ok(())
}

fn described(store: &Path, head: &Head) -> Value {
    let summary = head.summary.clone().unwrap_or_default();
    json!({
        "id": head.session,
        "title": title(head),
        "state": state(store, head),
        "cost": cost(store, head),
        "own_cost": summary.cost,
        "created": summary.created,
        "time": head.at,
        "events": head.seq,
        "turns": summary.turns,
        "agent": summary.agent,
        "fork_of": summary.fork_of,
        "directory": summary.directory,
        "folder": store,
    })
}

/// What the session has cost with those that descend from it; forks count for themselves.
fn cost(store: &Path, head: &Head) -> f64 {
    let heads = leftfold_store::heads(store);
    let family = family(&heads, head.session);
    let members = heads.iter().filter(|head| family.contains(&head.session));
    members.filter_map(|head| Some(head.summary.as_ref()?.cost)).sum()
}

/// A session and those that descend from it, parents before children.
fn family(heads: &[Head], root: SessionId) -> Vec<SessionId> {
    let (mut family, mut looked) = (vec![root], 0);
    let parent = |head: &Head| head.summary.as_ref().and_then(|summary| summary.parent);
    while let Some(at) = family.get(looked).copied() {
        looked += 1;
        let children = heads.iter().filter(|head| parent(head) == Some(at));
        let new: Vec<_> =
            children.map(|head| head.session).filter(|child| !family.contains(child)).collect();
        family.extend(new);
    }
    family
}

/// What the session is called: its title, or how its first prompt begins.
pub(crate) fn title(head: &Head) -> String {
    let Some(Summary { title, prompt, .. }) = &head.summary else { return "?".to_owned() };
    let text = title.as_deref().or(prompt.as_deref()).unwrap_or_default();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn state(store: &Path, head: &Head) -> &'static str {
    match head.summary.as_ref().and_then(|summary| summary.ended) {
        Some(EndReason::Completed) => "completed",
        Some(EndReason::Blocked) => "blocked",
        Some(EndReason::Error) => "error",
        Some(EndReason::Aborted) => "aborted",
        Some(EndReason::MaxSteps) => "max_steps",
        Some(EndReason::Limit) => "limit",
        None if leftfold_store::in_use(store) => "running",
        None => "interrupted",
    }
}
