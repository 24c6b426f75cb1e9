//! The making of a fork: a session in the same store that shares another one's events up to a point.

use std::time::SystemTime;

use anyhow::{Context, bail};
use leftfold_events::event::{Event, Saved, Session, Turn};
use leftfold_events::{Fact, Seq, SessionId, State, Time, fold, settle};
use leftfold_store::{Log, Store};

use crate::Usage;
use crate::checkout;
use crate::project;

/// Where a fork leaves a session, and with what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The last event that is shared; `None`: the last one there is.
    pub at: Option<Seq>,
    /// Put the project's files back as they were there.
    pub files: bool,
}

/// A fork that was made.
#[derive(Debug)]
pub struct Forked {
    pub session: SessionId,
    /// For people: what became of the files, if they were to be put back.
    pub told: Option<String>,
}

/// A new session in `store`, which this process holds, that shares the events of `of` up to a point. What
/// was open there is closed: it is the other session's. It blocks on the disk.
///
/// # Errors
/// [`Usage`]: there is no such event, or nothing to share yet. The log is damaged or can not be written;
/// files can not be put back, and the error names the fork, which is made all the same.
pub fn make(store: &Store, of: SessionId, wanted: Wanted) -> anyhow::Result<Forked> {
    let events = store.read(of, 1, usize::MAX)?;
    if events.is_empty() {
        bail!(Usage(format!("there is no session {of} in {}", store.dir().display())));
    }
    let head = events.last().map_or(0, |event| event.seq);
    let at = wanted.at.unwrap_or(head);
    if at == 0 || at > head {
        bail!(Usage(format!(
            "the log of {of} has events 1 to {head}: there is no {at} to fork at"
        )));
    }
    let shared = || events.iter().filter(|event| event.seq <= at);
    if !shared().any(|event| matches!(event.event, Event::Turn(Turn::Prompted { .. }))) {
        bail!(Usage(format!(
            "event {at} is before the first prompt: there is nothing to share yet"
        )));
    }
    let mut state = fold(shared());
    let paths = wanted.files.then(|| checkout::plan(&events, at)).transpose()?;
    let session = project::new_id();
    let forked = Fact::new(Session::Forked { from: of, at });
    let batch = settle(&mut state, session, forked, Time::from(SystemTime::now()));
    let mut log = store.log(session)?;
    log.append_wait(&batch)?;
    let told = paths.map(|paths| put_back(&mut log, &mut state, paths)).transpose()?;
    Ok(Forked { session, told })
}

fn put_back(log: &mut Log, state: &mut State, paths: Vec<Saved>) -> anyhow::Result<String> {
    if paths.is_empty() {
        return Ok("the files are as they were there".to_owned());
    }
    let session = log.session();
    let done = checkout::restore(log, state, paths)
        .with_context(|| format!("the fork {session} is made, and the files are as they were"))?;
    Ok(format!("{done}; `leftfold unrevert {session}` takes that back"))
}
