//! `leftfold fork`: another way on from any point of a session.

use std::process::ExitCode;

use super::run;
use crate::cli::Fork;
use leftfold_runtime::client;
use leftfold_runtime::forking::{self, Wanted};

pub(crate) fn fork(args: Fork) -> anyhow::Result<ExitCode> {
    let Fork { session, at, files, prompt, turn } = args;
    let fork = forking::begin(&super::place(&session)?, Wanted { at, files })?;
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
