//! The executors that settings name: `leftfold executor` beside workspaces on other machines.

use std::path::Path;
use std::sync::Arc;

use leftfold_config::{Executor, Settings};
use leftfold_executor::{Address, Client};
use leftfold_process::wait_for;
use leftfold_store::engine::EXECUTOR;

use crate::workplace::Workplace;
use crate::{Usage, model};

/// A folder that has no settings of a project: the user's own alone count for executors.
pub(crate) const NO_PROJECT: &str = "/";

/// The executor with this name.
///
/// # Errors
/// [`Usage`]: settings do not name it, or not as a whole.
pub fn client(settings: &Settings, name: &str) -> anyhow::Result<Arc<Client>> {
    let Some(said) = settings.executors.get(name) else {
        let known: Vec<&str> = settings.executors.keys().map(String::as_str).collect();
        let known = match known.as_slice() {
            [] => "your settings name none".to_owned(),
            names => format!("your settings name {}", names.join(", ")),
        };
        return Err(Usage(format!("there is no executor `{name}`: {known}")).into());
    };
    let place = said.key_place();
    if let Some(unset) = Executor::unset(said).next() {
        return Err(Usage(format!("`executors.{name}`: {unset}")).into());
    }
    let lacks = |key: &str| Usage(format!("{place}: `executors.{name}` has no `{key}`"));
    let address = said.address().ok_or_else(|| lacks("address"))?.to_owned();
    let token = said.token().ok_or_else(|| lacks("token"))?.reveal().to_owned();
    let at = Address { name: name.to_owned(), address, roots: said.ca() };
    let client = Client::new(at, token);
    Ok(Arc::new(client.map_err(|error| Usage(format!("{place}: {error}")))?))
}

/// The names of the executors in the user's settings, as they are now. None if the settings cannot be read.
pub fn names() -> Vec<String> {
    let settings = leftfold_config::load_shared(Path::new(NO_PROJECT), leftfold_providers::known());
    settings.map(|settings| settings.executors.keys().cloned().collect()).unwrap_or_default()
}

/// The nodes that may go on with a session that is bound to this place, for people.
pub(crate) fn nodes_at(place: &str) -> String {
    if let Some(name) = place.strip_prefix(EXECUTOR) {
        return format!("a node whose settings name the executor `{name}`");
    }
    format!("a node of host {}", place.strip_prefix("host:").unwrap_or(place))
}

/// Asks the executor with this name for its workspace. Blocks, at most for some seconds.
///
/// # Errors
/// Settings do not name it, or it cannot be reached.
pub fn describe(settings: &Settings, name: &str) -> anyhow::Result<Workplace> {
    let client = client(settings, name)?;
    let there = wait_for(client.describe());
    let there =
        there.ok_or_else(|| anyhow::anyhow!("an executor is asked outside a runtime"))??;
    Ok(Workplace { client, there })
}

/// Why the executor with this name cannot be used now. It is asked, which takes some seconds if nothing answers.
pub fn trouble(name: &str) -> Option<String> {
    let asked = ask(async || Ok(named(name)?.describe().await?));
    asked.err().map(|error| format!("{error:#}"))
}

/// The executor that the user's settings name so now.
///
/// # Errors
/// As for [`client`], and if settings have errors.
pub(crate) fn named(name: &str) -> anyhow::Result<Arc<Client>> {
    let settings = leftfold_config::load_shared(Path::new(NO_PROJECT), leftfold_providers::known());
    client(&*settings.map_err(model::usage)?, name)
}

/// Asks an executor, inside or outside a runtime. Blocks.
pub(crate) fn ask<T: Send>(question: impl AsyncFnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(_) => wait_for(question())
            .unwrap_or_else(|| Err(anyhow::anyhow!("an executor is asked where nobody may wait"))),
        Err(_) => crate::run_async(question())?,
    }
}

/// The workplace of a project whose folders are at the executor with this name.
///
/// # Errors
/// As for [`describe`], and if the executor has another workspace now.
pub(crate) fn for_project(
    settings: &Settings,
    name: &str,
    (directory, worktree): (&Path, &Path),
) -> anyhow::Result<Workplace> {
    let found = describe(settings, name)?;
    let there = &found.there;
    if there.directory != directory || there.worktree != worktree {
        return Err(Usage(format!(
            "the executor `{name}` works in {} now, but the session belongs to {}",
            there.directory.display(),
            directory.display()
        ))
        .into());
    }
    Ok(found)
}
