//! The store that `--store` or the environment names: a folder, or a database.

use anyhow::Context;
use leftfold_runtime::session_paths;

/// Names the store where `--store` does not.
const VARIABLE: &str = "LEFTFOLD_STORE";

/// The store that the argument of `--store` names, or else the environment.
pub(super) fn named(store: Option<&str>) -> Option<String> {
    let of_variable = || std::env::var(VARIABLE).ok().filter(|value| !value.is_empty());
    store.map(str::to_owned).or_else(of_variable)
}

/// The address of the database, if one is named.
pub(super) fn url(store: Option<&str>) -> Option<String> {
    named(store).filter(|named| named.contains("://"))
}

/// Makes the folder that is named, if one is, the store of this process.
///
/// # Errors
/// A relative path, and the current folder is gone.
pub(super) fn choose_folder(store: Option<&str>) -> anyhow::Result<()> {
    if let Some(folder) = named(store) {
        session_paths::choose_store(std::path::absolute(folder).context("--store")?);
    }
    Ok(())
}
