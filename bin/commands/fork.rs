//! `leftfold fork`: another way on from any point of a session.

use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::bail;
use leftfold_events::event::Session;
use leftfold_events::{Fact, Seq, Time, fold, settle};
use leftfold_store::{Reader, Store};

use super::run;
use crate::Usage;
use crate::cli::Fork;
use crate::home::Place;

pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, prompt, turn } = args;
    let fork = begin(&super::place(&session)?, at)?;
    let Some(prompt) = prompt else { return super::print(&format!("{}\n", fork.session)) };
    run::take(Some(fork), run::prompt(Some(prompt))?, Vec::new(), &turn)
}

/// A new session in the same store that shares the events up to and with `at`. What was open there
/// is closed: it is the other session's.
///
/// # Errors
/// There is no such event, or a node has the store open.
pub(crate) fn begin(place: &Place, at: Option<Seq>) -> anyhow::Result<Place> {
    let mut events = Reader::open(&place.store)?.read(place.session, 1)?;
    let head = events.last().map_or(0, |event| event.seq);
    let at = at.unwrap_or(head);
    if at == 0 || at > head {
        bail!(Usage(format!(
            "the log of {} has events 1 to {head}: there is no {at} to fork at",
            place.session
        )));
    }
    events.retain(|event| event.seq <= at);
    let mut state = fold(&events);
    if state.last_prompt() == 0 {
        bail!(Usage(format!(
            "event {at} is before the first prompt: there is nothing to share yet"
        )));
    }
    let store = Store::open(&place.store)?;
    let session = run::new_id();
    let forked = Fact::new(Session::Forked { from: place.session, at });
    let batch = settle(&mut state, session, forked, Time::from(SystemTime::now()));
    store.log(session)?.append_wait(&batch)?;
    Ok(Place { session, ..place.clone() })
}
