//! The keeper of plugins' credentials, which the crate that knows their file supplies. Credentials appear in no error.

use std::fs::File;
use std::sync::Arc;

use serde_json::Value;

/// Keeps the credentials of one plugin. Its methods work with a file, so they may block. Errors are for people.
pub trait CredentialStore: Send + Sync {
    /// Stores with the same identity may stand for each other.
    fn identity(&self) -> &str;

    /// The credential that this plugin's sign-in at `provider` made.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self, provider: &str) -> Result<Option<OpenCredential>, String>;

    /// Stores the credential `said` by a plugin with this name, in the place of any other of the provider.
    ///
    /// # Errors
    /// It is no credential, or cannot be stored.
    fn store(&self, provider: &str, name: &str, said: &Value) -> Result<(), String>;

    /// [`CredentialStore::store`], if this plugin's sign-in made the present credential.
    ///
    /// # Errors
    /// It is no credential, cannot be stored, or there is none to renew.
    fn renew(&self, provider: &str, name: &str, said: &Value) -> Result<(), String>;
}

/// A credential in OpenCode's form.
pub struct OpenCredential {
    pub value: Value,
    /// Makes others wait that would renew it too, if it ends soon.
    pub lock: Option<File>,
}

// Hides the value.
leftfold_events::debug_fields!(OpenCredential {});

/// The keeper of a plugin's credentials.
#[derive(Clone)]
pub struct Credentials(Arc<dyn CredentialStore>);

leftfold_events::debug_fields!(Credentials {});

impl Credentials {
    pub fn new(store: impl CredentialStore + 'static) -> Self {
        Self(Arc::new(store))
    }

    /// Calls the store where it may block.
    pub(super) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn CredentialStore) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let store = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || work(&*store)).await;
        done.map_err(|error| error.to_string())?
    }

    pub(super) async fn open(&self, provider: &str) -> Result<Option<OpenCredential>, String> {
        let provider = provider.to_owned();
        self.with(move |store| store.open(&provider)).await
    }

    pub(super) async fn renew(
        &self,
        provider: String,
        name: String,
        said: Value,
    ) -> Result<(), String> {
        self.with(move |store| store.renew(&provider, &name, &said)).await
    }
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.0.identity() == other.0.identity()
    }
}

impl Eq for Credentials {}
