//! The store that `--store` or the environment names: a folder, or a database.

use anyhow::Context;
use leftfold_runtime::session_paths;

use super::fleet::{self, NodeDatabase};

/// Names the store where `--store` does not.
const VARIABLE: &str = "LEFTFOLD_STORE";

/// Makes the store that is named the one of this process. Opens nothing. Answers the database, if one keeps that store.
///
/// # Errors
/// The URL is wrong, or the folder for it cannot be written.
pub(crate) fn choose(store: Option<&str>) -> anyhow::Result<Option<NodeDatabase>> {
    // also for a folder: another one, in an argument, may name a database
    let database = fleet::use_database(url(store).as_deref())?;
    if let Some(folder) = named(store).filter(|_| database.is_none()) {
        session_paths::choose_store(std::path::absolute(folder).context("--store")?);
    }
    Ok(database)
}

/// The store that the argument of `--store` names, or else the environment.
pub(super) fn named(store: Option<&str>) -> Option<String> {
    let of_variable = || std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    store.map(str::to_owned).or_else(of_variable)
}

/// The address of the database, if one is named.
pub(super) fn url(store: Option<&str>) -> Option<String> {
    named(store).filter(|named| named.contains("://"))
}
