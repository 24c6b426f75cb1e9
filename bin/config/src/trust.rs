//! Which settings of a project need the user's consent, and whether it was given.
//!
//! A project's files come from whoever wrote the repository. Texts inside the worktree and rules that make verdicts
//! stricter apply at once. Every other setting needs trust: it may start programs, send keys and prompts
//! elsewhere, read files outside the project or allow calls. Until the user trusts the project, such settings are left
//! out, and the references in them (`{env:NAME}`, `{file:PATH}`) are not resolved.
//!
//! Trust is for a worktree and exactly these settings, with the contents of the project's files that they execute. It is
//! stored in `LEFTFOLD_HOME/projects/HASH/trusted.json`. This module starts nothing and asks nobody.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use leftfold_events::Sha256;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::permission::PlacedRule;
use crate::private_file;
use crate::secrecy;
use crate::source::{Env, SettingPlace};
use crate::tree::{Entry, Node, Reference, Tree, below};
use crate::{auth, schema};

/// A setting that needs trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub place: SettingPlace,
    /// The path of its key, such as `mcp.files`.
    pub key: String,
    /// Its effect, in words that follow "this setting".
    pub effect: String,
    /// Covers the setting as it is written, and the project's files that it executes.
    digest: Sha256,
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
    pub items: Vec<Item>,
    granted: Vec<Granted>,
}

/// An item as it was when the user trusted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Granted {
    file: String,
    key: String,
    digest: String,
}

/// The stored form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    worktree: PathBuf,
    trusted: Vec<Granted>,
}

impl Trust {
    /// Reads what was trusted in `worktree`. A file that cannot be read trusts nothing.
    pub(crate) fn load(worktree: &Path, env: Env<'_>) -> Self {
        let stored = path(worktree, env).and_then(|path| private_file::read::<Stored>(&path).ok());
        let granted = stored.flatten().map(|stored| stored.trusted).unwrap_or_default();
        Self { worktree: worktree.to_owned(), items: Vec::new(), granted }
    }

    /// Whether every item is trusted as it is now.
    pub fn is_whole(&self) -> bool {
        self.items.iter().all(|item| self.standing(item) == Standing::Trusted)
    }

    /// Whether the user has trusted the rules that a rule of the project belongs to.
    pub(crate) fn covers(&self, rule: &PlacedRule) -> bool {
        let end = rule.path.iter().position(|step| step == "permission" || step == "tools");
        let holder = rule.path.iter().take(end.map_or(0, |end| end + 1));
        let key = holder.fold(String::new(), |path, step| below(&path, step));
        let source = &rule.place.source;
        self.is_whole() && self.items.iter().any(|i| i.place.source == *source && i.key == key)
    }

    pub fn standing(&self, item: &Item) -> Standing {
        let known = self.granted.iter().find(|granted| granted.names(item));
        match known {
            Some(granted) if granted.digest == item.digest.to_string() => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::New,
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
            stored.trusted.retain(|old| !self.items.iter().any(|item| old.names(item)));
            stored.trusted.extend(self.items.iter().map(Granted::of));
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

    /// A warning for each item that is left out, and the way to trust them.
    pub(crate) fn warnings(&self) -> Vec<String> {
        if self.is_whole() {
            return Vec::new();
        }
        let left_out = self.items.iter().map(|item| {
            let changed = match self.standing(item) {
                Standing::Changed => " (it has changed since you trusted it)",
                Standing::Trusted | Standing::New => "",
            };
            format!("{}: `{}` is left out{changed}: it {}", item.place, item.key, item.effect)
        });
        let worktree = self.worktree.display();
        let way = format!(
            "{worktree} is not trusted, so these settings have no effect: `leftfold trust` shows them and lets you trust them"
        );
        left_out.chain([way]).collect()
    }
}

impl Granted {
    fn of(item: &Item) -> Self {
        let file = item.place.source.name.clone();
        Self { file, key: item.key.clone(), digest: item.digest.to_string() }
    }

    fn names(&self, item: &Item) -> bool {
        self.file == item.place.source.name && self.key == item.key
    }
}

fn failed(path: PathBuf, source: io::Error) -> auth::Error {
    auth::Error::Io { path, what: "trust can not be stored", source }
}

fn path(worktree: &Path, env: Env<'_>) -> Option<PathBuf> {
    Some(auth::project_folder(worktree, env)?.join("trusted.json"))
}

/// Takes everything that needs trust out of a project's settings. Rules stay: they become restrictions.
pub(crate) fn split(root: &mut Node, worktree: &Path) -> Vec<Item> {
    let mut review = Review { worktree, items: Vec::new() };
    review.top(root);
    review.items
}

struct Review<'a> {
    worktree: &'a Path,
    items: Vec<Item>,
}

impl Review<'_> {
    fn top(&mut self, root: &mut Node) {
        let Tree::Map(entries) = &mut root.tree else { return };
        entries.retain_mut(|entry| match entry.key.as_str() {
            "$schema" => true,
            "permission" | "tools" => {
                self.rules(entry, "");
                true
            }
            "agent" => {
                self.agents(entry);
                true
            }
            "command" => {
                self.commands(entry);
                true
            }
            "instructions" => {
                self.instructions(entry);
                true
            }
            "skills" => {
                self.skills(entry);
                true
            }
            "provider" | "mcp" => {
                self.each(entry);
                false
            }
            "plugin" => {
                self.plugins(entry);
                false
            }
            // a key without effect needs no trust; the reader reports an unknown one
            key if schema::is_idle(key) || !schema::top().contains(&key) => {
                !has_reference(&entry.node)
            }
            key => {
                let effect = match key {
                    "model" | "small_model" => "chooses the model that gets your prompts",
                    "default_agent" => "chooses the agent that gets your prompts",
                    "secrets" => "names values that calls can use",
                    "environment" => "hands variables of yours to commands",
                    "webfetch" => "may let tools read pages of your own network",
                    _ => "changes how Leftfold works here",
                };
                self.add(&entry.at, key, &entry.node, effect.to_owned());
                false
            }
        });
    }

    /// `allow` may loosen the user's rules, and for an agent `ask` may lift a built-in `deny`. The digest covers
    /// the rules as a whole, as their order counts.
    fn rules(&mut self, entry: &Entry, above: &str) {
        let effect = if has_action(&entry.node, "allow") {
            "allows calls without asking"
        } else if !above.is_empty() && has_action(&entry.node, "ask") {
            "changes what this agent may do"
        } else {
            return;
        };
        self.add(&entry.at, &below(above, &entry.key), &entry.node, effect.to_owned());
    }

    /// Prompts and descriptions are texts. A model, options or limits are not.
    fn agents(&mut self, agents: &mut Entry) {
        let Tree::Map(agents) = &mut agents.node.tree else { return };
        for agent in agents {
            let path = below("agent", &agent.key);
            let Tree::Map(said) = &mut agent.node.tree else { continue };
            said.retain(|entry| match entry.key.as_str() {
                "permission" | "tools" => {
                    self.rules(entry, &path);
                    true
                }
                "description" | "prompt" | "mode" | "color" | "name" => self.is_text(entry, &path),
                key => {
                    let effect = match key {
                        "model" => "chooses the model that gets this agent's prompts",
                        "disable" => "removes an agent",
                        _ => "changes how this agent works",
                    };
                    self.add(&entry.at, &below(&path, key), &entry.node, effect.to_owned());
                    false
                }
            });
        }
    }

    fn commands(&mut self, commands: &mut Entry) {
        let Tree::Map(commands) = &mut commands.node.tree else { return };
        commands.retain_mut(|command| {
            let path = below("command", &command.key);
            let template = command.node.get("template").and_then(Node::text);
            if template.is_some_and(|text| text.contains("!`")) {
                let effect = format!("runs shell lines when you type `/{}`", command.key);
                self.add(&command.at, &path, &command.node, effect);
                return false;
            }
            if let Tree::Map(said) = &mut command.node.tree {
                said.retain(|entry| match entry.key.as_str() {
                    "template" | "description" | "name" => self.is_text(entry, &path),
                    key => {
                        let effect = "chooses who carries out this command".to_owned();
                        self.add(&entry.at, &below(&path, key), &entry.node, effect);
                        false
                    }
                });
            }
            true
        });
    }

    /// Whether a text needs no trust: it takes nothing from outside the worktree.
    fn is_text(&mut self, entry: &Entry, above: &str) -> bool {
        let Some(outside) = self.outside_reference(&entry.node) else { return true };
        let effect = format!("reads {outside}");
        self.add(&entry.at, &below(above, &entry.key), &entry.node, effect);
        false
    }

    fn instructions(&mut self, entry: &mut Entry) {
        let Tree::List(items) = &mut entry.node.tree else { return };
        let mut at = 0;
        items.retain(|item| {
            let key = format!("instructions[{at}]");
            at += 1;
            let Some(text) = item.text() else { return true };
            let effect = if text.starts_with("http://") || text.starts_with("https://") {
                format!("puts the page {} into every prompt", secrecy::masked(text))
            } else if let Some(outside) = self.outside_reference(item) {
                format!("reads {outside}")
            } else if self.is_outside(item, text) {
                format!("puts {} into every prompt", secrecy::masked(text))
            } else {
                return true;
            };
            self.add(&item.at, &key, item, effect);
            false
        });
    }

    fn skills(&mut self, entry: &mut Entry) {
        let Tree::Map(entries) = &mut entry.node.tree else { return };
        for entry in entries.iter_mut().filter(|entry| entry.key == "paths") {
            let Tree::List(items) = &mut entry.node.tree else { continue };
            let mut at = 0;
            items.retain(|item| {
                let key = format!("skills.paths[{at}]");
                at += 1;
                let Some(text) = item.text() else { return true };
                if !has_reference(item) && !self.is_outside(item, text) {
                    return true;
                }
                let effect = format!("offers the skills in {} to models", secrecy::masked(text));
                self.add(&item.at, &key, item, effect);
                false
            });
        }
    }

    /// An item for each provider or server.
    fn each(&mut self, entry: &Entry) {
        for named in entry.node.entries() {
            let key = below(&entry.key, &named.key);
            let effect = match entry.key.as_str() {
                "mcp" => server_effect(&named.node),
                _ => provider_effect(&named.key, &named.node),
            };
            self.add(&named.at, &key, &named.node, effect);
        }
        if !entry.node.is_map() {
            let effect = "changes how Leftfold works here".to_owned();
            self.add(&entry.at, &entry.key, &entry.node, effect);
        }
    }

    fn plugins(&mut self, entry: &Entry) {
        for (at, plugin) in entry.node.items().iter().enumerate() {
            let command = plugin.get("command").unwrap_or(plugin);
            let effect = match program(command) {
                Some(program) => {
                    format!("starts {program} as a plugin, which takes part in every decision")
                }
                None => "names a plugin".to_owned(),
            };
            self.add(&plugin.at, &format!("plugin[{at}]"), plugin, effect);
        }
    }

    fn add(&mut self, place: &SettingPlace, key: &str, node: &Node, effect: String) {
        let mut text = format!("{key}\n{}\n", written(node));
        for (file, digest) in self.executed(node) {
            text += &format!("{} {digest}\n", file.display());
        }
        let digest = Sha256::of(text.as_bytes());
        self.items.push(Item { place: place.clone(), key: key.to_owned(), effect, digest });
    }

    /// The project's files that a setting names, with their contents: each text in it that is the path of a file in
    /// the worktree, and the files beside a script, which it may load.
    fn executed(&self, node: &Node) -> Vec<(PathBuf, Sha256)> {
        let mut paths = Vec::new();
        self.named_files(node, &mut paths);
        paths.sort();
        paths.dedup();
        let digest = |path: PathBuf| {
            let bytes = fs::read(&path).unwrap_or_default();
            (path, Sha256::of(&bytes))
        };
        paths.into_iter().map(digest).collect()
    }

    fn named_files(&self, node: &Node, found: &mut Vec<PathBuf>) {
        match &node.tree {
            Tree::Text(text) => {
                let files = text.references.iter().filter_map(|reference| match reference {
                    Reference::File(file) => Some(file.as_str()),
                    Reference::Variable { .. } => None,
                });
                for text in files.chain([text.value.as_str()]) {
                    self.named_file(node, text, found);
                }
            }
            Tree::List(items) => {
                if let Some(program) = items.first().and_then(Node::text) {
                    let manifests = MANIFESTS.iter().filter(|(runner, _)| *runner == program);
                    manifests.for_each(|(_, file)| self.named_file(node, file, found));
                }
                items.iter().for_each(|item| self.named_files(item, found));
            }
            Tree::Map(entries) => {
                entries.iter().for_each(|entry| self.named_files(&entry.node, found));
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
        }
    }

    fn named_file(&self, node: &Node, text: &str, found: &mut Vec<PathBuf>) {
        for path in [node.at.source.path(text), self.worktree.join(text)] {
            let Ok(path) = path.canonicalize() else { continue };
            if !path.starts_with(self.worktree) || path == self.worktree {
                continue;
            }
            if path.is_dir() {
                found.extend(files_in(&path));
                continue;
            }
            let beside = path.parent().filter(|folder| *folder != self.worktree);
            found.extend(beside.map(files_in).unwrap_or_default());
            found.push(path);
        }
    }

    /// The first reference to a variable, or to a file outside the worktree.
    fn outside_reference(&self, node: &Node) -> Option<String> {
        match &node.tree {
            Tree::Text(text) => text.references.iter().find_map(|reference| match reference {
                Reference::Variable { name, .. } => Some(format!("your variable {name}")),
                Reference::File(file) => {
                    self.is_outside(node, file).then(|| format!("the file {file}"))
                }
            }),
            Tree::List(items) => items.iter().find_map(|item| self.outside_reference(item)),
            Tree::Map(entries) => entries.iter().find_map(|e| self.outside_reference(&e.node)),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => None,
        }
    }

    fn is_outside(&self, node: &Node, text: &str) -> bool {
        is_outside(&node.at.source.path(text), self.worktree)
    }
}

/// Files that these programs execute although no argument names them.
const MANIFESTS: [(&str, &str); 9] = [
    ("npm", "package.json"),
    ("npx", "package.json"),
    ("pnpm", "package.json"),
    ("yarn", "package.json"),
    ("bun", "package.json"),
    ("make", "Makefile"),
    ("just", "justfile"),
    ("uv", "pyproject.toml"),
    ("cargo", "Cargo.toml"),
];

/// Files of one folder that a digest covers at most.
const MOST_FILES: usize = 256;

/// The files directly in a folder, in the order of their names.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files.truncate(MOST_FILES);
    files
}

/// Whether a path leads out of the worktree, by itself or by a link.
pub(crate) fn is_outside(path: &Path, worktree: &Path) -> bool {
    let mut whole = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            whole.pop();
        } else {
            whole.push(part);
        }
    }
    // links are resolved in as much of the path as exists
    let exists = whole.ancestors().find_map(|part| part.canonicalize().ok());
    !whole.starts_with(worktree) || exists.is_some_and(|real| !real.starts_with(worktree))
}

/// Whether any of these rules has this action. A boolean is an `allow` or a `deny`.
fn has_action(rules: &Node, action: &str) -> bool {
    match &rules.tree {
        Tree::Text(text) => text.value == action,
        Tree::Bool(allowed) => *allowed && action == "allow",
        Tree::Map(entries) => entries.iter().any(|entry| has_action(&entry.node, action)),
        Tree::Null | Tree::Number(_) | Tree::List(_) => false,
    }
}

pub(crate) fn has_reference(node: &Node) -> bool {
    match &node.tree {
        Tree::Text(text) => !text.references.is_empty(),
        Tree::List(items) => items.iter().any(has_reference),
        Tree::Map(entries) => entries.iter().any(|entry| has_reference(&entry.node)),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) => false,
    }
}

/// The setting as it stands in the file: references are not resolved.
fn written(node: &Node) -> Value {
    match &node.tree {
        Tree::Text(text) if !text.written.is_empty() => Value::String(text.written.clone()),
        Tree::List(items) => items.iter().map(written).collect(),
        Tree::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), written(&entry.node))).collect()
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => node.value(),
    }
}

fn server_effect(server: &Node) -> String {
    if let Some(program) = server.get("command").and_then(program) {
        return format!("starts {program} as an MCP server");
    }
    match server.get("url").and_then(Node::text) {
        Some(url) => format!("connects to the MCP server at {}", host(url)),
        None => "changes an MCP server".to_owned(),
    }
}

fn provider_effect(name: &str, provider: &Node) -> String {
    let url = provider.get("options").and_then(|options| options.get("baseURL"));
    match url.or_else(|| provider.get("api")).and_then(Node::text) {
        Some(url) if !url.is_empty() => {
            format!("sends prompts for `{name}`, and its key, to {}", host(url))
        }
        Some(_) | None => format!("changes how prompts are sent to `{name}`"),
    }
}

/// The program of a command line, without arguments: they may contain secrets.
fn program(command: &Node) -> Option<String> {
    Some(format!("`{}`", command.items().first()?.text()?))
}

/// The host of an address.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}
