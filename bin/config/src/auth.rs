//! The keys and tokens stored by `leftfold auth login` in `LEFTFOLD_HOME/auth.json`, which only its owner can
//! read: `{"PROVIDER": {"type": "api", "key": "..."}}` or `{"PROVIDER": {"type": "oauth", "access": "...", …}}`,
//! in OpenCode's form. An entry that a plugin's sign-in made has a member `plugin`, and only that plugin gets it.
//!
//! A key in settings or in a variable takes precedence. Entries of other types belong to other
//! programs and are kept unchanged.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use leftfold_files::texts;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::files;
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
        let file = match files::open(path) {
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
    pub fn for_provider(&self, provider: &str) -> Option<Secret> {
        let key = self.0.get(provider)?.get("key")?.as_str()?.trim();
        (!key.is_empty()).then(|| Secret::new(key))
    }

    /// The sign-in at a provider that Leftfold offers by itself.
    pub fn sign_in(&self, provider: &str) -> Option<SignedIn> {
        let is_of_plugin = self.0.get(provider)?.get("plugin").is_some();
        if is_of_plugin { None } else { self.tokens(provider) }
    }

    /// The credential that a plugin's sign-in at a provider made.
    pub fn of_plugin(&self, provider: &str) -> Option<PluginCredential> {
        let plugin = SignInPlugin::deserialize(self.0.get(provider)?.get("plugin")?).ok()?;
        let tokens = self.tokens(provider).map(Credential::Tokens);
        let credential = tokens.or_else(|| self.for_provider(provider).map(Credential::Key))?;
        Some(PluginCredential { plugin, credential })
    }

    /// The tokens of a sign-in at a provider, whoever offers it.
    pub fn tokens(&self, provider: &str) -> Option<SignedIn> {
        let entry = self.0.get(provider)?;
        if entry.get("type")?.as_str()? != "oauth" {
            return None;
        }
        let text = |name: &str| {
            let text = entry.get(name).and_then(Value::as_str).map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let access = Secret::new(text("access")?);
        Some(SignedIn {
            refresh: text("refresh").map_or_else(|| access.clone(), Secret::new),
            access,
            expires: entry.get("expires").and_then(Value::as_u64).unwrap_or_default(),
            account: text("accountId"),
            host: text("enterpriseUrl"),
        })
    }

    /// The providers with tokens of a sign-in, whoever offers it.
    pub fn sign_ins(&self) -> impl Iterator<Item = (&str, SignedIn)> {
        self.0.keys().filter_map(|name| Some((name.as_str(), self.tokens(name)?)))
    }

    /// The providers that have a stored key.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| self.for_provider(name).is_some())
    }
}

/// The tokens of a sign-in.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedIn {
    pub access: Secret,
    /// The access token again, if the vendor gave no refresh token.
    pub refresh: Secret,
    /// Milliseconds since 1970; 0: it does not expire.
    pub expires: u64,
    /// The account that requests name.
    pub account: Option<String>,
    /// The organization's own host that it is for.
    pub host: Option<String>,
}

leftfold_events::debug_fields!(SignedIn {});

impl SignedIn {
    pub fn is_refreshable(&self) -> bool {
        self.refresh != self.access
    }

    fn entry(&self) -> Value {
        let mut entry = json!({
            "type": "oauth",
            "access": self.access.reveal(),
            "refresh": self.refresh.reveal(),
            "expires": self.expires,
        });
        let more = [("accountId", &self.account), ("enterpriseUrl", &self.host)];
        for (name, value) in more {
            if let Some(value) = value {
                entry[name] = value.as_str().into();
            }
        }
        entry
    }
}

/// A plugin of the user's settings that offers sign-ins. Its credentials go to no other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInPlugin {
    /// For people.
    pub name: String,
    /// The source of the settings that name it.
    pub source: String,
    /// Its command, or the file or folder of its module.
    pub program: Vec<String>,
}

impl SignInPlugin {
    /// Whether it is the same plugin, whatever it calls itself.
    pub fn is(&self, other: &Self) -> bool {
        self.source == other.source && self.program == other.program
    }
}

/// A key, or the tokens of a sign-in.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Key(Secret),
    Tokens(SignedIn),
}

leftfold_events::debug_fields!(Credential {});

impl Credential {
    /// It in OpenCode's form.
    pub fn entry(&self) -> Value {
        match self {
            Self::Key(key) => json!({ "type": "api", "key": key.reveal() }),
            Self::Tokens(signed_in) => signed_in.entry(),
        }
    }
}

/// A credential, and the plugin that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCredential {
    pub plugin: SignInPlugin,
    pub credential: Credential,
}

impl PluginCredential {
    fn entry(&self) -> Value {
        let SignInPlugin { name, source, program } = &self.plugin;
        let mut entry = self.credential.entry();
        entry["plugin"] = json!({ "name": name, "source": source, "program": program });
        entry
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
    Some(texts::project_folder(path(env)?.parent()?, worktree))
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
        keys.0.insert(provider.to_owned(), Credential::Key(key.clone()).entry());
        true
    })?;
    Ok(path)
}

/// The stored sign-in at a provider.
pub fn sign_in(env: Env<'_>, provider: &str) -> Result<Option<SignedIn>, Error> {
    Ok(Keys::load(env)?.sign_in(provider))
}

/// Stores a sign-in in the place of an earlier one or of a key, and answers the file's path.
pub fn store_sign_in(env: Env<'_>, provider: &str, signed_in: &SignedIn) -> Result<PathBuf, Error> {
    let (path, _) = change(env, |keys| {
        keys.0.insert(provider.to_owned(), signed_in.entry());
        true
    })?;
    Ok(path)
}

/// Replaces the tokens of a sign-in, and answers whether they were still there.
pub fn replace_sign_in(
    env: Env<'_>,
    provider: &str,
    old: &SignedIn,
    new: &SignedIn,
) -> Result<bool, Error> {
    let (_, replaced) = change(env, |keys| {
        let is_there = keys.sign_in(provider).as_ref() == Some(old);
        if is_there {
            keys.0.insert(provider.to_owned(), new.entry());
        }
        is_there
    })?;
    Ok(replaced)
}

/// Stores a plugin's credential in the place of an earlier one, and answers the file's path.
pub fn store_of_plugin(
    env: Env<'_>,
    provider: &str,
    credential: &PluginCredential,
) -> Result<PathBuf, Error> {
    let (path, _) = change(env, |keys| {
        keys.0.insert(provider.to_owned(), credential.entry());
        true
    })?;
    Ok(path)
}

/// Stores a credential in the place of one that the same plugin made, and answers whether that was still there.
pub fn renew_of_plugin(
    env: Env<'_>,
    provider: &str,
    credential: &PluginCredential,
) -> Result<bool, Error> {
    let (_, replaced) = change(env, |keys| {
        let before = keys.of_plugin(provider);
        let is_there = before.is_some_and(|before| before.plugin.is(&credential.plugin));
        if is_there {
            keys.0.insert(provider.to_owned(), credential.entry());
        }
        is_there
    })?;
    Ok(replaced)
}

/// Waits until no other process refreshes the tokens of this provider. The lock ends with the file.
pub fn lock_refresh(env: Env<'_>, provider: &str) -> Result<File, Error> {
    let path = path(env).ok_or(Error::NoHome)?;
    let path = path.with_file_name(format!("auth.{provider}.lock"));
    let failed = |source| Error::Io { path: path.clone(), what: "cannot be locked", source };
    let lock = private_file::create(&path).map_err(failed)?;
    lock.lock().map_err(failed)?;
    Ok(lock)
}

/// Removes the key or the sign-in of a provider, and answers whether there was one.
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
