//! `leftfold fork`: another way on from any point of a session.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use leftfold_events::event::{Saved, Session};
use leftfold_events::{Fact, Seq, State, Time, fold, settle};
use leftfold_store::{Log, Reader, Store};

use super::run;
use crate::cli::Fork;
use crate::home::Place;
use crate::{Usage, checkout, note};

pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt, turn } = args;
    let fork = begin(&super::place(&session)?, at, files)?;
    let Some(prompt) = prompt else { return super::print(&format!("{}\n", fork.session)) };
    run::take(Some(fork), run::prompt(Some(prompt))?, Vec::new(), &turn)
}

/// A new session in the same store that shares the events up to and with `at`. What was open there
/// is closed: it is the other session's. With `files`, those of the project are put back as they were.
///
/// # Errors
/// There is no such event, or a node has the store open; files can not be put back.
pub(crate) fn begin(place: &Place, at: Option<Seq>, files: bool) -> anyhow::Result<Place> {
    let events = Reader::open(&place.store)?.read(place.session, 1)?;
    let head = events.last().map_or(0, |event| event.seq);
    let at = at.unwrap_or(head);
    if at == 0 || at > head {
        bail!(Usage(format!(
            "the log of {} has events 1 to {head}: there is no {at} to fork at",
            place.session
        )));
    }
    let mut state = fold(events.iter().filter(|event| event.seq <= at));
    if state.last_prompt() == 0 {
        bail!(Usage(format!(
            "event {at} is before the first prompt: there is nothing to share yet"
        )));
    }
    let paths = if files { checkout::plan(&events, at)? } else { Vec::new() };
    let store = Store::open(&place.store)?;
    let session = run::new_id();
    let forked = Fact::new(Session::Forked { from: place.session, at });
    let batch = settle(&mut state, session, forked, Time::from(SystemTime::now()));
    let mut log = store.log(session)?;
    log.append_wait(&batch)?;
    if files {
        put_back(&mut log, &mut state, paths)?;
    }
    Ok(Place { session, ..place.clone() })
}

fn put_back(log: &mut Log, state: &mut State, paths: Vec<Saved>) -> anyhow::Result<()> {
    if paths.is_empty() {
        note("leftfold: the files are as they were there");
        return Ok(());
    }
    let session = log.session();
    let done = checkout::restore(log, state, paths)
        .with_context(|| format!("the fork {session} is made, and the files are as they were"))?;
    note(&format!("leftfold: {done}; `leftfold unrevert {session}` takes that back"));
    Ok(())
}
