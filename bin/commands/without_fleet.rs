//! In place of `fleet` in a program that was built without the feature `postgres`.

use std::process::ExitCode;

use anyhow::bail;
use leftfold_runtime::Usage;

use super::doctor::Findings;
use crate::cli::Fleet;

const NO_DATABASES: &str = "this program was built without PostgreSQL: name a folder, or build it with the feature `postgres`";

/// There is none.
#[derive(Debug)]
pub(crate) enum NodeDatabase {}

/// # Errors
/// A database is named.
pub(crate) fn use_database(url: Option<&str>) -> anyhow::Result<Option<NodeDatabase>> {
    match url {
        Some(_) => bail!(Usage(NO_DATABASES.into())),
        None => Ok(None),
    }
}

pub(crate) fn send_metrics(_: Option<NodeDatabase>) {}

pub(super) fn check_database(_: &mut Findings, _: Option<&str>) {}

/// # Errors
/// Always.
pub(crate) fn fleet(_: &Fleet, _: Option<&str>) -> anyhow::Result<ExitCode> {
    bail!(Usage(NO_DATABASES.into()))
}
