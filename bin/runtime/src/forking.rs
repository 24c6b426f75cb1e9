//! The making of a fork: a session in the same store that shares another one's events up to a point.

use std::thread;
use std::time::SystemTime;

use anyhow::{Context, bail};
use leftfold_events::event::{Event, Saved, Session, Turn};
use leftfold_events::{Fact, Seq, SessionId, State, Time, fold, settle};
use leftfold_store::{Error, Log, Store};
use serde_json::json;

use crate::Usage;
use crate::checkout;
use crate::client;
use crate::home::Place;
use crate::project;
use crate::remote::{self, RpcError};

/// The method of a node that makes forks.
pub(crate) const FORK: &str = "_leftfold/fork";

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

/// A new session in the same store, made by the store's node if there is one.
///
/// # Errors
/// Those of [`make`]; nodes come and go.
pub fn begin(place: &Place, wanted: Wanted) -> anyhow::Result<Place> {
    let Forked { session, told } = fork(place, wanted)?;
    if let Some(told) = told {
        crate::note(&format!("leftfold: {told}"));
    }
    Ok(Place { session, ..place.clone() })
}

fn fork(place: &Place, wanted: Wanted) -> anyhow::Result<Forked> {
    let mut locked = None;
    for _ in 0..client::ATTEMPTS {
        match ask(place, wanted) {
            Ok(forked) => return Ok(forked),
            Err(Fault::Refused(error)) => return Err(error),
            // it lets go of the store in a moment
            Err(Fault::Leaving) => thread::sleep(client::BREATH),
            Err(Fault::Nobody) => match (Store::open(&place.store), locked.take()) {
                (Ok(store), _) => return make(&store, place.session, wanted),
                // its node may not have made its socket yet when it was looked for
                (Err(error @ Error::Locked { .. }), None) => locked = Some(error),
                (Err(error), _) => return Err(error.into()),
            },
        }
    }
    bail!("another node has the store of session {}, and can not be reached", place.session)
}

/// Why a store's node has made no fork.
enum Fault {
    /// There is no node.
    Nobody,
    /// It lets go of the store; nothing was done.
    Leaving,
    Refused(anyhow::Error),
}

/// Has the node of the store make a fork.
fn ask(place: &Place, Wanted { at, files }: Wanted) -> Result<Forked, Fault> {
    let Ok(mut node) = remote::client::connect(&place.store) else { return Err(Fault::Nobody) };
    let params = json!({ "session": place.session, "at": at, "files": files });
    let made = node.call(FORK, &params).map_err(|error| match error.downcast::<RpcError>() {
        Ok(error) if error.is_leaving() => Fault::Leaving,
        Ok(error) if error.is_params() => Fault::Refused(Usage(error.message).into()),
        Ok(error) => Fault::Refused(error.into()),
        Err(error) => Fault::Refused(error),
    })?;
    let session = made["session"].as_str().and_then(|id| id.parse().ok());
    let unknown = || Fault::Refused(anyhow::anyhow!("the node's answer names no fork: {made}"));
    let told = made["told"].as_str().map(str::to_owned);
    Ok(Forked { session: session.ok_or_else(unknown)?, told })
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
