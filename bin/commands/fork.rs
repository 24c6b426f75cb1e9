//! `leftfold fork`: another way on from any point of a session.

use std::process::ExitCode;
use std::thread;

use anyhow::bail;
use leftfold_store::{Error, Store};

use super::run;
use crate::cli::Fork;
use leftfold_runtime::client;
use leftfold_runtime::forking::{self, Forked, Wanted};
use leftfold_runtime::home::Place;
use leftfold_runtime::note;
use leftfold_runtime::socket::{Fault, ask_to_fork};

pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt, turn } = args;
    let fork = begin(&super::place(&session)?, Wanted { at, files })?;
    let Some(prompt) = prompt else { return super::print(&format!("{}\n", fork.session)) };
    let session = fork.session;
    let taken = run::take(Some(fork), run::prompt(Some(prompt))?, Vec::new(), &turn);
    taken.map_err(|error| match client::is_locked(&error) {
        // it runs the turn that it was begun for, and no other
        true => error.context(format!(
            "the fork {session} is made; once the store is free, `leftfold run --session {session}` \
             takes the prompt"
        )),
        false => error,
    })
}

/// A new session in the same store, made by the store's node if there is one.
///
/// # Errors
/// Those of [`forking::make`]; nodes come and go.
pub(crate) fn begin(place: &Place, wanted: Wanted) -> anyhow::Result<Place> {
    let Forked { session, told } = make(place, wanted)?;
    if let Some(told) = told {
        note(&format!("leftfold: {told}"));
    }
    Ok(Place { session, ..place.clone() })
}

fn make(place: &Place, wanted: Wanted) -> anyhow::Result<Forked> {
    let mut locked = None;
    for _ in 0..client::ATTEMPTS {
        match ask_to_fork(place, wanted) {
            Ok(forked) => return Ok(forked),
            Err(Fault::Refused(error)) => return Err(error),
            // it lets go of the store in a moment
            Err(Fault::Leaving) => thread::sleep(client::BREATH),
            Err(Fault::Nobody) => match (Store::open(&place.store), locked.take()) {
                (Ok(store), _) => return forking::make(&store, place.session, wanted),
                // its node may not have made its socket yet when it was looked for
                (Err(error @ Error::Locked { .. }), None) => locked = Some(error),
                (Err(error), _) => return Err(error.into()),
            },
        }
    }
    bail!("another node has the store of session {}, and can not be reached", place.session)
}
