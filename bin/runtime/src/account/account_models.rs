//! The models that signed-in accounts have. A vendor's list is kept in a file, so that menus and sessions need no network.
//! `sign_in` asks for it.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leftfold_config::{auth, environment, private_file};
use leftfold_events::turn_config::ModelSpec;
use leftfold_providers::AccountModel;
use serde::{Deserialize, Serialize};

/// From then on a list is old.
const OLD: Duration = Duration::from_secs(24 * 60 * 60);

/// The lists, by provider.
type Lists = BTreeMap<String, List>;

#[derive(Serialize, Deserialize)]
struct List {
    /// When it was asked for, in seconds since 1970.
    at: u64,
    models: Vec<AccountModel>,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A folder of its own, because changes lock the folder.
fn path() -> Option<PathBuf> {
    auth::path(&environment).map(|keys| keys.with_file_name("models").join("accounts.json"))
}

fn list(provider: &str) -> Option<List> {
    let read = private_file::read::<Lists>(&path()?);
    let read = read.inspect_err(|error| tracing::warn!("the lists of models: {error}"));
    read.ok()??.remove(provider)
}

/// The models of the account that is signed in at a provider; none if its list is not known.
pub fn for_provider(provider: &str) -> Vec<AccountModel> {
    list(provider).map(|list| list.models).unwrap_or_default()
}

/// A model with the limits and capabilities that the account's list names.
pub(crate) fn described(provider: &str, mut known: ModelSpec) -> ModelSpec {
    if let Some(listed) = for_provider(provider).into_iter().find(|model| model.id == known.id) {
        known.limit = listed.limit;
        known.abilities.tools = listed.tools;
        known.abilities.media = listed.images;
    }
    known
}

/// Whether there is no list, or an old one.
pub(crate) fn is_due(provider: &str) -> bool {
    list(provider).is_none_or(|list| now().saturating_sub(list.at) > OLD.as_secs())
}

/// Keeps a list in the place of an older one.
pub(crate) fn keep(provider: &str, models: Vec<AccountModel>) -> io::Result<()> {
    let path = path().ok_or_else(|| io::Error::other("there is no data directory"))?;
    let kept = private_file::change(&path, |lists: &mut Lists| {
        lists.insert(provider.to_owned(), List { at: now(), models });
        true
    });
    kept.map(drop)
}

/// Forgets the list of an account that has signed out.
pub(crate) fn forget(provider: &str) {
    let Some(path) = path().filter(|path| path.exists()) else { return };
    let forgotten =
        private_file::change(&path, |lists: &mut Lists| lists.remove(provider).is_some());
    if let Err(error) = forgotten {
        tracing::warn!("{}: {error}", path.display());
    }
}
