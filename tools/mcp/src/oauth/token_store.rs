//! Stores the tokens that servers have granted, in a file that only its user can read.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Readable and writable by its user alone.
const MODE: u32 = 0o600;

/// Largest size of the file in bytes. A larger file was not written by Leftfold.
const LARGEST: u64 = 4 * 1_024 * 1_024;

/// The stored tokens of one server. Clones use the same entry.
#[derive(Clone)]
pub(super) struct TokenStore {
    path: PathBuf,
    url: String,
}

/// The stored entry of a server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Grant {
    /// The secret of the client that was registered there, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<String>,
    pub(super) credentials: StoredCredentials,
}

impl TokenStore {
    pub(super) fn new(path: &Path, url: &str) -> Self {
        Self { path: path.to_owned(), url: url.to_owned() }
    }

    /// The grant of the server, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or is not a token file.
    pub(super) fn grant(&self) -> Result<Option<Grant>, String> {
        let all = self.read()?;
        let Some(grant) = all.get(&self.url) else { return Ok(None) };
        let grant = serde_json::from_value(grant.clone());
        grant.map(Some).map_err(|_| self.wrong("the entry of a server is damaged"))
    }

    /// Deletes the grant. Returns whether there was one.
    pub(super) fn forget(&self) -> Result<bool, String> {
        self.change(|all| all.shift_remove(&self.url).is_some())
    }

    /// Adds the client's secret to the stored grant.
    pub(super) fn keep_secret(&self, secret: &str) -> Result<(), String> {
        let kept = self.change(|all| match all.get_mut(&self.url) {
            Some(Value::Object(grant)) => {
                grant.insert("client_secret".to_owned(), secret.into());
                true
            }
            Some(_) | None => false,
        });
        kept.map(|_| ())
    }

    fn keep(&self, credentials: StoredCredentials) -> Result<(), String> {
        let old = self.grant().ok().flatten();
        let same = |old: &Grant| old.credentials.client_id == credentials.client_id;
        let client_secret = old.filter(same).and_then(|old| old.client_secret);
        let grant = serde_json::to_value(Grant { client_secret, credentials });
        let grant = grant.map_err(|error| error.to_string())?;
        self.change(|all| {
            all.insert(self.url.clone(), grant);
            true
        })?;
        Ok(())
    }

    fn wrong(&self, what: &str) -> String {
        format!("{}: {what}: remove the file and sign in again", self.path.display())
    }

    fn failed(&self, what: &str, error: &io::Error) -> String {
        format!("{}: cannot be {what}: {error}", self.path.display())
    }

    fn read(&self) -> Result<Map<String, Value>, String> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
            file => file.map_err(|error| self.failed("read", &error))?,
        };
        let mut bytes = Vec::new();
        close(&file)
            .and_then(|()| file.take(LARGEST).read_to_end(&mut bytes))
            .map_err(|error| self.failed("read", &error))?;
        // the error must not quote the file's content
        serde_json::from_slice(&bytes).map_err(|_| self.wrong("it is not a JSON object"))
    }

    /// Changes the file if `change` returns true. Concurrent changes wait for each other.
    fn change(&self, change: impl FnOnce(&mut Map<String, Value>) -> bool) -> Result<bool, String> {
        let failed = |error| self.failed("written", &error);
        let folder = self.path.parent().unwrap_or(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let lock = private(&self.path.with_extension("lock")).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut all = self.read()?;
        let changed = change(&mut all);
        if changed {
            self.replace(&all).map_err(failed)?;
        }
        Ok(changed)
    }

    /// Replaces the file atomically: a reader, and a crash, sees the old file or the new one.
    fn replace(&self, all: &Map<String, Value>) -> io::Result<()> {
        let path = self.path.canonicalize().unwrap_or_else(|_| self.path.clone());
        let new = path.with_extension("new");
        let mut file = private(&new)?;
        file.set_permissions(Permissions::from_mode(MODE))?;
        file.write_all(&serde_json::to_vec_pretty(all)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(path.parent().unwrap_or(&path))?.sync_all()
    }
}

fn private(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(MODE).open(path)
}

/// Removes other users' access to the file.
fn close(file: &File) -> io::Result<()> {
    if file.metadata()?.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    tracing::warn!("other users could read the file with the tokens of MCP servers until now");
    file.set_permissions(Permissions::from_mode(MODE))
}

#[async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let grant = self.grant().map_err(AuthError::CredentialStoreError)?;
        Ok(grant.map(|grant| grant.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.keep(credentials).map_err(AuthError::CredentialStoreError)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        self.forget().map(|_| ()).map_err(AuthError::CredentialStoreError)
    }

    /// Only one process refreshes at a time: a refresh token can often be used only once.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let path = self.path.with_extension("refresh");
        let locked = tokio::task::spawn_blocking(move || {
            let file = private(&path)?;
            file.lock().map(|()| file)
        });
        let locked = locked.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        let failed = |error| AuthError::CredentialStoreError(self.failed("locked", &error));
        locked.map(|file| Some(CredentialRefreshGuard::new(file))).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(client: &str) -> StoredCredentials {
        StoredCredentials::new(client.to_owned(), None, vec!["a".to_owned()], Some(1))
    }

    #[tokio::test]
    async fn each_server_has_its_own_and_nobody_else_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/mcp-auth.json");
        let [one, two] = ["https://a/mcp", "https://b/mcp"].map(|url| TokenStore::new(&path, url));
        assert!(one.load().await.unwrap().is_none() && !one.forget().unwrap());
        one.save(credentials("c1")).await.unwrap();
        two.save(credentials("c2")).await.unwrap();
        one.keep_secret("s").unwrap();
        // a refresh keeps the secret, another client's grant does not
        one.save(credentials("c1")).await.unwrap();
        assert_eq!(one.grant().unwrap().unwrap().client_secret.as_deref(), Some("s"));
        one.save(credentials("c3")).await.unwrap();
        assert_eq!(one.grant().unwrap().unwrap().client_secret, None);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(one.forget().unwrap() && one.grant().unwrap().is_none());
        assert_eq!(two.grant().unwrap().unwrap().credentials.client_id, "c2");
    }

    #[test]
    fn a_damaged_file_is_told_of_without_its_words_and_one_that_is_open_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp-auth.json");
        let store = TokenStore::new(&path, "https://a/mcp");
        fs::write(&path, "{\"secret-word").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let why = store.grant().err().unwrap();
        assert!(
            why.contains("mcp-auth.json: it is not a JSON object") && !why.contains("secret-word")
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    }
}
