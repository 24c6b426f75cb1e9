//! In place of `fleet` in a program that was built without the feature `postgres`.

use std::process::ExitCode;

use anyhow::bail;
use leftfold_runtime::Usage;

use super::named_store;
use crate::cli::Fleet;

const NO_DATABASES: &str = "this program was built without PostgreSQL: name a folder, or build it with the feature `postgres`";

/// There is none.
#[derive(Debug)]
pub(crate) enum NodeDatabase {}

/// Makes the folder that `--store` or the environment names the store of this process.
///
/// # Errors
/// A database is named.
pub(crate) fn choose_store(store: Option<&str>) -> anyhow::Result<Option<NodeDatabase>> {
    if named_store::url(store).is_some() {
        bail!(Usage(NO_DATABASES.into()));
    }
    named_store::choose_folder(store)?;
    Ok(None)
}

pub(crate) fn send_metrics(_: Option<NodeDatabase>) {}

/// # Errors
/// Always.
pub(crate) fn fleet(_: &Fleet, _: Option<&str>) -> anyhow::Result<ExitCode> {
    bail!(Usage(NO_DATABASES.into()))
}
