//! The keys stored by `leftfold auth login` in `LEFTFOLD_HOME/auth.json`, which only its owner can
//! read: `{"PROVIDER": {"type": "api", "key": "..."}}`.
//!
//! A key in settings or in a variable takes precedence. Entries of other types belong to other
//! programs and are kept unchanged.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;
use serde_json::{Map, Value, json};

use crate::private_file::{self, MODE};
use crate::secrecy::Secret;
use crate::source::{Env, environment, is_absent};

const FILE: &str = "auth.json";

/// The largest accepted file, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// The reasons why stored keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("neither LEFTFOLD_HOME nor HOME is set: set one of them, to say where keys are kept")]
    NoHome,
    #[error("{}: {what}: {source}", path.display())]
    Io { path: PathBuf, what: &'static str, source: io::Error },
    #[error(
        "{} can be read by others (its mode is {mode:o}) and changing that failed ({source}): run `chmod 600` on it as its owner",
        path.display()
    )]
    Open { path: PathBuf, mode: u32, source: io::Error },
    // The message repeats nothing of the file, which may contain keys.
    #[error(
        "{}:{line}:{column}: not an object such as {{\"PROVIDER\": {{\"type\": \"api\", \"key\": \"...\"}}}}: repair or remove the file",
        path.display()
    )]
    Syntax { path: PathBuf, line: usize, column: usize },
}

/// Keys by provider.
#[derive(Clone, Default, PartialEq)]
pub struct Keys(Map<String, Value>);

/// Prints the names of providers, and none of the keys.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Keys {
    /// Reads the stored keys; none if there is no file.
    pub fn load(env: Env<'_>) -> Result<Self, Error> {
        path(env).map_or_else(|| Ok(Self::default()), |path| Self::read(&path))
    }

    fn read(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io { path: path.to_owned(), what: "cannot be read", source };
        let file = match File::open(path) {
            // Commands that need a data folder report that it is missing.
            Err(error) if is_absent(&error) => return Ok(Self::default()),
            file => file.map_err(failed)?,
        };
        close(&file, path)?;
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
        match serde_json::from_slice(&bytes) {
            Ok(Value::Object(keys)) => Ok(Self(keys)),
            Ok(_) => Err(Error::Syntax { path: path.to_owned(), line: 1, column: 1 }),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                Err(Error::Syntax { path: path.to_owned(), line, column })
            }
        }
    }

    /// The key of a provider.
    pub fn of(&self, provider: &str) -> Option<Secret> {
        let key = self.0.get(provider)?.get("key")?.as_str()?.trim();
        (!key.is_empty()).then(|| Secret::new(key))
    }

    /// The providers that have a stored key.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| self.of(name).is_some())
    }
}

/// The file of the keys; `None` if no variable says where this user's data is.
pub fn path(env: Env<'_>) -> Option<PathBuf> {
    let folder = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = folder("LEFTFOLD_HOME")
        .or_else(|| folder("XDG_DATA_HOME").map(|data| data.join("leftfold")))
        .or_else(|| folder("HOME").map(|home| home.join(".local/share/leftfold")));
    Some(home?.join(FILE))
}

/// The folder with what the user has decided for a project: approvals and trust.
pub fn project_folder(worktree: &Path, env: Env<'_>) -> Option<PathBuf> {
    let hash = Sha256::of(worktree.as_os_str().as_bytes()).to_string();
    Some(path(env)?.with_file_name("projects").join(hash))
}

/// The file with the OAuth tokens of MCP servers, beside the keys of providers.
pub fn token_store() -> Option<PathBuf> {
    path(&environment).map(|keys| keys.with_file_name("mcp-auth.json"))
}

/// The longest key, in bytes.
pub const MAX_KEY: usize = 16 * 1024;

/// A key as a person gives it.
///
/// # Errors
/// It cannot be a key. The error does not quote it.
pub fn parse_key(text: &str) -> Result<Secret, &'static str> {
    let key = text.trim();
    if key.is_empty() {
        return Err("the key is empty");
    }
    if key.len() > MAX_KEY {
        return Err("the key is too long: at most 16 KiB are accepted");
    }
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(
            "this is not a key: expected one word of ASCII letters, digits and punctuation",
        );
    }
    Ok(Secret::new(key))
}

/// Stores a key, replaces an earlier one, and answers the file's path.
pub fn store(env: Env<'_>, provider: &str, key: &Secret) -> Result<PathBuf, Error> {
    let (path, _) = change(env, |keys| {
        let entry = json!({ "type": "api", "key": key.reveal() });
        keys.0.insert(provider.to_owned(), entry);
        true
    })?;
    Ok(path)
}

/// Removes the key of a provider, and answers whether there was one.
pub fn forget(env: Env<'_>, provider: &str) -> Result<bool, Error> {
    Ok(change(env, |keys| keys.0.shift_remove(provider).is_some())?.1)
}

/// Changes the stored keys if `change` answers true. Another process that changes them at the same
/// time waits.
fn change(env: Env<'_>, change: impl FnOnce(&mut Keys) -> bool) -> Result<(PathBuf, bool), Error> {
    let path = path(env).ok_or(Error::NoHome)?;
    let failed = |source| Error::Io { path: path.clone(), what: "cannot be written", source };
    let folder = path.parent().unwrap_or(&path);
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    let lock = private_file::create(&folder.join("auth.lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut keys = Keys::read(&path)?;
    let changed = change(&mut keys);
    if changed {
        private_file::replace(&path, &keys.0).map_err(failed)?;
    }
    Ok((path, changed))
}

/// Takes other users' access away from a file that they could read.
fn close(file: &File, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { path: path.to_owned(), what: "cannot be read", source };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(MODE)).map_err(|source| Error::Open {
        path: path.to_owned(),
        mode,
        source,
    })?;
    // Standard error may be closed.
    let _ = writeln!(
        io::stderr(),
        "leftfold: {} could be read by others (its mode was {mode:o}); it is now {MODE:o}: if \
         somebody may have read its keys, replace them",
        path.display()
    );
    Ok(())
}
