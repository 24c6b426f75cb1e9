//! Which settings of a project need the user's consent, and whether it was given.
//!
//! A project's files come from whoever wrote the repository. Texts inside the worktree and rules that make verdicts
//! stricter apply at once. Every other setting needs trust: it may start programs, send keys and prompts
//! elsewhere, read files outside the project or allow calls. Until the user trusts the project, such settings are left
//! out, and the references in them (`{env:NAME}`, `{file:PATH}`) are not resolved.
//!
//! Trust is for a worktree and exactly these settings, with the contents of the project's files that they execute. It is
//! stored in `LEFTFOLD_HOME/projects/HASH/trusted.json`. This module starts nothing and asks nobody.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use leftfold_events::Sha256;
use serde::{Deserialize, Serialize};

use crate::auth;
use crate::permission::{NETWORK_PATH, PlacedRule};
use crate::private_file;
use crate::source::{Env, SettingPlace};
use crate::tree::{Node, below};

/// A setting that needs trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustItem {
    pub place: SettingPlace,
    /// The path of its key, such as `mcp.files`.
    pub key: String,
    /// Its effect, in words that follow "this setting".
    pub effect: String,
    /// Rules, which count without trust where they are stricter than the user's.
    pub in_part: bool,
    /// Covers the setting as it is written, and the project's files that it executes. `None`, which is never trusted,
    /// if there are too many of them.
    pub(crate) digest: Option<Sha256>,
}

impl TrustItem {
    /// Its standing without trust, in words that follow its key.
    pub fn without_trust(&self) -> &'static str {
        match self.in_part {
            true => {
                "counts only where it is stricter than your own rules, and the rest is left out"
            }
            false => "is left out",
        }
    }
}

/// Whether the user has trusted an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Trusted,
    /// Another version of this setting, or of a file that it executes, was trusted.
    Changed,
    New,
}

/// The settings of a project that need trust, and the user's decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trust {
    pub worktree: PathBuf,
    pub items: Vec<TrustItem>,
    /// Programs start here, so it decides which files relative paths name.
    pub(crate) directory: PathBuf,
    granted: Vec<Granted>,
    pub(crate) own: OwnNames,
    /// Texts for agents and commands of the user's plugins, which are left out.
    pub(crate) of_plugins: Vec<TrustItem>,
}

/// The names of agents and commands in the user's own files, variables and plugins. A project does not replace their texts
/// without trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnNames {
    pub(crate) agents: BTreeSet<String>,
    pub(crate) commands: BTreeSet<String>,
}

impl OwnNames {
    /// Adds the names in one source of the user.
    pub(crate) fn add(&mut self, root: &Node) {
        let names = |key| root.get(key).map(Node::entries).unwrap_or_default();
        self.agents.extend(names("agent").iter().map(|entry| entry.key.clone()));
        self.commands.extend(names("command").iter().map(|entry| entry.key.clone()));
    }
}

/// An item as it was when the user trusted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Granted {
    file: String,
    key: String,
    digest: String,
    /// The folder in which it was trusted.
    #[serde(default)]
    directory: PathBuf,
}

/// The stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    worktree: PathBuf,
    trusted: Vec<Granted>,
}

/// The most settings that are left out of which each has a line; of more, one line says how many there are.
const MAX_TOLD: usize = 3;

impl Trust {
    /// Reads what was trusted in `worktree`. A file that cannot be read trusts nothing.
    pub(crate) fn load(worktree: &Path, directory: &Path, env: Env<'_>) -> Self {
        let stored = path(worktree, env).and_then(|path| private_file::read::<Stored>(&path).ok());
        let granted = stored.flatten().map(|stored| stored.trusted).unwrap_or_default();
        let (worktree, directory) = (worktree.to_owned(), directory.to_owned());
        Self { worktree, directory, granted, ..Self::default() }
    }

    /// The folder in which the settings were looked for.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether every item is trusted as it is now.
    pub fn is_whole(&self) -> bool {
        self.items.iter().all(|item| self.standing(item) == Standing::Trusted)
    }

    /// Whether the user has trusted the project. One in which nothing needs trust was never asked about.
    pub fn is_given(&self) -> bool {
        self.is_whole() && !self.items.is_empty()
    }

    /// Whether the user has trusted this top-level setting of the project, with all others.
    pub fn has_trusted(&self, key: &str) -> bool {
        self.is_whole() && self.items.iter().any(|item| item.key == key)
    }

    /// Whether the user has trusted the rules that a rule of the project belongs to.
    pub(crate) fn covers(&self, rule: &PlacedRule) -> bool {
        let end = match rule.path == NETWORK_PATH {
            true => Some(1),
            false => rule.path.iter().position(|step| step == "permission" || step == "tools"),
        };
        let holder = rule.path.iter().take(end.map_or(0, |end| end + 1));
        let key = holder.fold(String::new(), |path, step| below(&path, step));
        let source = &rule.place.source;
        self.is_whole() && self.items.iter().any(|i| i.place.source == *source && i.key == key)
    }

    pub fn standing(&self, item: &TrustItem) -> Standing {
        let mut known = self.granted.iter().filter(|granted| granted.names(item)).peekable();
        if known.peek().is_none() {
            return Standing::New;
        }
        let digest = item.digest.as_ref().map(Sha256::to_string);
        match known.any(|granted| digest.as_ref() == Some(&granted.digest)) {
            true => Standing::Trusted,
            false => Standing::Changed,
        }
    }

    /// Stores that the user trusts all items as they are now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn grant(&self, env: Env<'_>) -> Result<(), auth::Error> {
        let path = path(&self.worktree, env).ok_or(auth::Error::NoHome)?;
        let changed = private_file::change(&path, |stored: &mut Stored| {
            stored.worktree.clone_from(&self.worktree);
            stored.trusted.retain(|old| {
                let is_elsewhere = old.directory != self.directory;
                is_elsewhere || !self.items.iter().any(|item| old.names(item))
            });
            stored.trusted.extend(self.items.iter().map(|item| Granted::of(item, &self.directory)));
            true
        });
        changed.map(drop).map_err(|source| failed(path, source))
    }

    /// Forgets everything that was trusted in the worktree. Whether there was anything.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn revoke(&self, env: Env<'_>) -> Result<bool, auth::Error> {
        let path = path(&self.worktree, env).ok_or(auth::Error::NoHome)?;
        let changed = private_file::change(&path, |stored: &mut Stored| {
            !std::mem::take(&mut stored.trusted).is_empty()
        });
        changed.map_err(|source| failed(path, source))
    }

    /// The places of the settings that choose a model or describe a provider, if they are left out.
    pub(crate) fn left_out_models(&self) -> Vec<SettingPlace> {
        let chooses = |item: &&TrustItem| item.key == "model" || item.key.starts_with("provider");
        let items = self.items.iter().filter(chooses);
        if self.is_whole() { Vec::new() } else { items.map(|item| item.place.clone()).collect() }
    }

    /// The [`warnings`](Self::warnings) of a turn, which has one line for many settings.
    pub(crate) fn brief_warnings(&self) -> Vec<String> {
        if self.is_whole() || self.items.len() <= MAX_TOLD {
            return self.warnings();
        }
        let changed = |item: &&TrustItem| self.standing(item) == Standing::Changed;
        let changed = match self.items.iter().filter(changed).count() {
            0 => String::new(),
            count => format!(" ({count} have changed since you trusted them)"),
        };
        let in_part = self.items.iter().filter(|item| item.in_part).count();
        let counts = match in_part {
            0 => String::new(),
            count => format!(", and {count} only where they are stricter than your own rules"),
        };
        let all = format!(
            "{} is not trusted, so {} of its settings have no effect{counts}{changed}: `leftfold trust` shows them and lets you trust them",
            self.worktree.display(),
            self.items.len() - in_part
        );
        [all].into_iter().chain(self.of_plugins.iter().map(of_plugin)).collect()
    }

    /// A warning for each setting that is left out, and how to trust the project.
    pub fn warnings(&self) -> Vec<String> {
        let of_plugins = self.of_plugins.iter().map(of_plugin);
        if self.is_whole() {
            return of_plugins.collect();
        }
        let worktree = self.worktree.display();
        let left_out = self.items.iter().map(|item| {
            let changed = match self.standing(item) {
                Standing::Changed => " (it has changed since you trusted it)",
                Standing::Trusted | Standing::New => "",
            };
            let left_out = item.without_trust();
            format!("{}: `{}` {left_out}{changed}: it {}", item.place, item.key, item.effect)
        });
        let way = format!(
            "{worktree} is not trusted: `leftfold trust` shows these settings and lets you trust them"
        );
        left_out.chain([way]).chain(of_plugins).collect()
    }
}

fn of_plugin(TrustItem { place, key, effect, .. }: &TrustItem) -> String {
    format!("{place}: `{key}` is left out: it {effect}, which a plugin of yours defines")
}

impl Granted {
    fn of(item: &TrustItem, directory: &Path) -> Self {
        let file = item.place.source.name.clone();
        let digest = item.digest.as_ref().map(Sha256::to_string).unwrap_or_default();
        Self { file, key: item.key.clone(), digest, directory: directory.to_owned() }
    }

    fn names(&self, item: &TrustItem) -> bool {
        self.file == item.place.source.name && self.key == item.key
    }
}

fn failed(path: PathBuf, source: io::Error) -> auth::Error {
    auth::Error::Io { path, what: "trust can not be stored", source }
}

fn path(worktree: &Path, env: Env<'_>) -> Option<PathBuf> {
    Some(auth::project_folder(worktree, env)?.join("trusted.json"))
}
