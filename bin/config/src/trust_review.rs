//! Sorts the settings of a project by an allow-list: texts inside the worktree and rules stay, everything else
//! needs trust and is taken out. Starts nothing.

use std::path::Path;

use leftfold_events::Sha256;
use serde_json::Value;

use crate::agent::{BUILT_IN_AGENTS, PRIMARY_AGENTS};
use crate::error::is_slip;
use crate::extensions::Plugin;
use crate::javascript::NamedModule;
use crate::sandbox;
use crate::schema;
use crate::secrecy;
use crate::source::{SettingPlace, is_outside};
use crate::tree::{Entry, Node, Reference, Tree, below};
use crate::trust::{OwnNames, TrustItem};
use crate::trust_files::{Files, Said};
use crate::typed::{self, At};

/// Takes everything that needs trust out of a project's settings. Rules stay: they become restrictions. `own` are the
/// agents and commands of the user.
pub(crate) fn split(
    root: &mut Node,
    worktree: &Path,
    own: &OwnNames,
    files: &mut Files,
) -> Vec<TrustItem> {
    take_out(root, Review { worktree, own, files: Some(files), items: Vec::new() })
}

/// As [`split`], and looks at no file that a setting executes.
pub(crate) fn strip(root: &mut Node, worktree: &Path, own: &OwnNames) {
    take_out(root, Review { worktree, own, files: None, items: Vec::new() });
}

fn take_out(root: &mut Node, mut review: Review<'_>) -> Vec<TrustItem> {
    for (key, entry) in take_unknown(root) {
        review.add(&entry.at, &key, &entry.node, "is not a setting of this version".to_owned());
    }
    review.top(root);
    review.items
}

/// Takes out the settings that this version does not know, with their paths: another version may give them an
/// effect. A typing mistake stays for the reader, which reports it.
pub(crate) fn take_unknown(root: &mut Node) -> Vec<(String, Entry)> {
    let mut unknown = Vec::new();
    let Tree::Map(entries) = &mut root.tree else { return unknown };
    let known = schema::top();
    for entry in entries.extract_if(.., |entry| is_unknown(&entry.key, &known)) {
        unknown.push((top(&entry.key), entry));
    }
    for skills in entries.iter_mut().filter(|entry| entry.key == "skills") {
        let Tree::Map(entries) = &mut skills.node.tree else { continue };
        for entry in entries.extract_if(.., |entry| is_unknown(&entry.key, &["paths"])) {
            unknown.push((below("skills", &entry.key), entry));
        }
    }
    unknown
}

/// The path of a key without a parent: quoted if it could be read as the path of a key below another one.
fn top(key: &str) -> String {
    let quoted = below("?", key);
    let is_plain = quoted.strip_prefix("?.").is_some();
    if is_plain { key.to_owned() } else { format!("{key:?}") }
}

fn is_unknown(key: &str, known: &[&str]) -> bool {
    !known.iter().any(|known| *known == key || is_slip(key, known))
}

/// The parts of a setting that its digest covers.
struct Covered<'a> {
    node: &'a Node,
    texts: Vec<String>,
    /// Whether words of the texts may name files.
    is_executed: bool,
    /// Further files and folders; `None`: too many.
    files: Option<Vec<String>>,
}

struct Review<'a> {
    worktree: &'a Path,
    own: &'a OwnNames,
    files: Option<&'a mut Files>,
    items: Vec<TrustItem>,
}

impl Review<'_> {
    fn top(&mut self, root: &mut Node) {
        let Tree::Map(entries) = &mut root.tree else { return };
        entries.retain_mut(|entry| match entry.key.as_str() {
            "$schema" => true,
            "permission" | "tools" => self.rules(entry, ""),
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
            sandbox::KEY => self.sandbox(entry),
            // they only take something away
            "formatter" | "lsp" if matches!(entry.node.tree, Tree::Bool(false)) => true,
            "share" if entry.node.text() == Some("disabled") => !has_reference(&entry.node),
            key if schema::is(&[key], "x-free") => !has_reference(&entry.node),
            // a typing mistake, which the reader reports
            key if !schema::top().contains(&key) => !has_reference(&entry.node),
            key @ ("websearch" | "codesearch") => {
                let url = entry.node.get("url").and_then(Node::text);
                let to = url.map(|url| format!(" to {}", host(url))).unwrap_or_default();
                let effect =
                    format!("chooses the service that gets your searches{to}, and its key");
                self.add(&entry.at, key, &entry.node, effect);
                false
            }
            key => {
                let effect = schema::effect(&[key]).unwrap_or("changes how Leftfold works here");
                self.add(&entry.at, key, &entry.node, effect.to_owned());
                false
            }
        });
    }

    /// `allow` may loosen the user's rules, and for an agent `ask` may lift a built-in `deny`. The digest covers
    /// the rules as a whole, as their order counts. False if the rules are not known without trust.
    fn rules(&mut self, entry: &Entry, above: &str) -> bool {
        let is_known = !has_reference(&entry.node);
        let effect = if !is_known {
            "takes rules from variables or files"
        } else if has_action(&entry.node, "allow") {
            "allows calls without asking"
        } else if !above.is_empty() && has_action(&entry.node, "ask") {
            "changes what this agent may do"
        } else {
            return true;
        };
        self.add_text(&entry.at, &below(above, &entry.key), &entry.node, effect.to_owned());
        if let Some(item) = self.items.last_mut() {
            item.in_part = is_known;
        }
        is_known
    }

    /// Prompts and descriptions are texts, except those of the user's own agents. A model, options or limits are not.
    fn agents(&mut self, agents: &mut Entry) {
        let Tree::Map(agents) = &mut agents.node.tree else { return };
        for agent in agents {
            let path = below("agent", &agent.key);
            let name = agent.key.as_str();
            let is_built_in = BUILT_IN_AGENTS.contains(&name);
            let is_own = self.own.agents.contains(name);
            let Tree::Map(said) = &mut agent.node.tree else { continue };
            said.retain(|entry| match entry.key.as_str() {
                "permission" | "tools" => self.rules(entry, &path),
                // `build` and `plan` are primary agents anyway
                "mode"
                    if !is_own
                        && PRIMARY_AGENTS.contains(&name)
                        && entry.node.text() == Some("primary") =>
                {
                    self.is_text(entry, &path)
                }
                "mode" if !is_own && !is_built_in => self.is_text(entry, &path),
                "description" | "prompt" | "color" | "name" if !is_own || is_built_in => {
                    self.is_text(entry, &path)
                }
                key => {
                    let effect = match key {
                        "mode" => format!("changes who can prompt the agent `{name}`"),
                        "description" | "prompt" => {
                            format!("replaces the {key} of your agent `{name}`")
                        }
                        key => schema::effect(&["agent", name, key])
                            .unwrap_or("changes how this agent works")
                            .to_owned(),
                    };
                    self.add_text(&entry.at, &below(&path, key), &entry.node, effect);
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
                let texts = template.map(shell_lines).unwrap_or_default();
                let said = Covered {
                    node: &command.node,
                    texts,
                    is_executed: true,
                    files: Some(Vec::new()),
                };
                self.add_with(&command.at, &path, said, effect);
                return false;
            }
            let is_own = self.own.commands.contains(&command.key);
            if let Tree::Map(said) = &mut command.node.tree {
                said.retain(|entry| match entry.key.as_str() {
                    key @ ("template" | "description" | "name") if is_own => {
                        let effect = format!("replaces your command `/{}`", command.key);
                        self.add_text(&entry.at, &below(&path, key), &entry.node, effect);
                        false
                    }
                    "template" | "description" | "name" => self.is_text(entry, &path),
                    key => {
                        let effect = "chooses who carries out this command".to_owned();
                        self.add_text(&entry.at, &below(&path, key), &entry.node, effect);
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
        self.add_text(&entry.at, &below(above, &entry.key), &entry.node, effect);
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
            self.add_text(&item.at, &key, item, effect);
            false
        });
    }

    fn skills(&mut self, entry: &mut Entry) {
        match &mut entry.node.tree {
            Tree::List(items) => self.skill_folders(items, "skills"),
            Tree::Map(entries) => {
                for entry in entries.iter_mut().filter(|entry| entry.key == "paths") {
                    let Tree::List(items) = &mut entry.node.tree else { continue };
                    self.skill_folders(items, "skills.paths");
                }
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {}
        }
    }

    fn skill_folders(&mut self, items: &mut Vec<Node>, above: &str) {
        let mut at = 0;
        items.retain(|item| {
            let key = format!("{above}[{at}]");
            at += 1;
            let Some(text) = item.text() else { return true };
            if !has_reference(item) && !self.is_outside(item, text) {
                return true;
            }
            let effect = format!("offers the skills in {} to models", secrecy::masked(text));
            self.add_text(&item.at, &key, item, effect);
            false
        });
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
            let sandbox = sandbox::effect_of_own(plugin);
            let module =
                typed::read::<At<Plugin>>(plugin).ok().and_then(|(plugin, _)| plugin.module());
            let effect = match (&module, program(command)) {
                (Some(NamedModule { name, .. }), _) if name.is_empty() => {
                    format!("runs the tools in its files of JavaScript{sandbox}")
                }
                (Some(NamedModule { name, .. }), _) => format!(
                    "runs `{name}` as a plugin in JavaScript{sandbox}, which takes part in every decision"
                ),
                (None, Some(program)) => format!(
                    "starts {program} as a plugin{sandbox}, which takes part in every decision"
                ),
                (None, None) => "names a plugin".to_owned(),
            };
            let source = &plugin.at.source;
            let files = match (module, &mut self.files) {
                (Some(module), Some(files)) => module.covered(source, files),
                _ => Some(Vec::new()),
            };
            let said = Covered { node: plugin, texts: texts_of(plugin), is_executed: true, files };
            self.add_with(&plugin.at, &format!("plugin[{at}]"), said, effect);
        }
    }

    /// A project may hide paths from commands, and turn the sandbox on.
    fn sandbox(&mut self, entry: &mut Entry) -> bool {
        let Tree::Map(members) = &mut entry.node.tree else { return !has_reference(&entry.node) };
        members.retain(|member| {
            let path = [sandbox::KEY, &member.key];
            let is_turned_on = member.key == sandbox::MODE && member.node.text() == Some("on");
            let effect = if !is_turned_on && !schema::is(&path, "x-free") {
                schema::effect(&path).unwrap_or("changes the sandbox of commands")
            } else if has_reference(&member.node) {
                "takes a part of the sandbox from variables or files"
            } else {
                return true;
            };
            let key = below(&entry.key, &member.key);
            self.add_text(&member.at, &key, &member.node, effect.to_owned());
            false
        });
        true
    }

    /// Adds a setting that may execute the files that it names.
    fn add(&mut self, place: &SettingPlace, key: &str, node: &Node, effect: String) {
        let said =
            Covered { node, texts: texts_of(node), is_executed: true, files: Some(Vec::new()) };
        self.add_with(place, key, said, effect);
    }

    /// Adds a setting whose words are no names of files.
    fn add_text(&mut self, place: &SettingPlace, key: &str, node: &Node, effect: String) {
        let said =
            Covered { node, texts: texts_of(node), is_executed: false, files: Some(Vec::new()) };
        self.add_with(place, key, said, effect);
    }

    fn add_with(
        &mut self,
        place: &SettingPlace,
        key: &str,
        Covered { node, texts, is_executed, files: named }: Covered<'_>,
        mut effect: String,
    ) {
        let digest = self.files.as_mut().and_then(|files| {
            let source = &node.at.source;
            let covered = files.executed(&Said { source, texts, is_executed }).and_then(|texts| {
                let named = files.executed(&Said { source, texts: named?, is_executed: false })?;
                Some(texts + &named)
            });
            if covered.is_none() {
                effect += ", with more files than trust can cover, so it is never trusted";
            }
            Some(Sha256::digest(format!("{key}\n{}\n{}", written(node), covered?).as_bytes()))
        });
        let (place, key) = (place.clone(), key.to_owned());
        self.items.push(TrustItem { place, key, effect, in_part: false, digest });
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

/// The texts in a setting that may name files, in their order.
fn texts_of(node: &Node) -> Vec<String> {
    match &node.tree {
        Tree::Text(text) => {
            let files = text.references.iter().filter_map(|reference| match reference {
                Reference::File(file) => Some(file.clone()),
                Reference::Variable { .. } => None,
            });
            files.chain([text.value.clone(), text.written.clone()]).collect()
        }
        Tree::List(items) => items.iter().flat_map(texts_of).collect(),
        Tree::Map(entries) => entries.iter().flat_map(|entry| texts_of(&entry.node)).collect(),
        Tree::Null | Tree::Bool(_) | Tree::Number(_) => Vec::new(),
    }
}

/// The shell lines of a command's template.
fn shell_lines(template: &str) -> Vec<String> {
    let after = template.split("!`").skip(1);
    after.map(|line| line.split('`').next().unwrap_or(line).to_owned()).collect()
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
        let sandbox = sandbox::effect_of_own(server);
        return format!("starts {program} as an MCP server{sandbox}");
    }
    match server.get("url").and_then(Node::text) {
        Some(url) => format!("connects to the MCP server at {}", host(url)),
        None => format!("changes an MCP server{}", sandbox::effect_of_own(server)),
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
