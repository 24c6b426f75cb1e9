//! What files that came with a project have done: programs started, files and variables sent, calls
//! allowed. Whoever opens somebody else's project does so by their word.

use std::path::{Component, Path, PathBuf};

use super::substitute::Reference;
use super::tree::{Node, Tree, below};
use super::{Place, secrecy};

/// With the places, in words that go on from "this file of the project".
pub(super) fn reaching(root: &Node, worktree: &Path) -> Vec<(Place, String)> {
    let mut found = Found { worktree, all: Vec::new() };
    found.servers(root);
    found.plugins(root);
    found.providers(root);
    found.texts(root);
    for (key, what) in SETS {
        found.tell_if(get(root, key), || format!("sets `{key}`, {what}"));
    }
    found.rules(root, "");
    for (name, agent) in entries(get(root, "agent")) {
        found.rules(agent, &format!("agent.{name}."));
    }
    found.references(root, "");
    found.all
}

const SETS: [(&str, &str); 3] = [
    ("secrets", "values that calls can be filled in with"),
    ("environment", "variables of yours that commands get"),
    ("webfetch", "which may let pages of your own network be read"),
];

struct Found<'a> {
    worktree: &'a Path,
    all: Vec<(Place, String)>,
}

impl Found<'_> {
    fn tell(&mut self, node: &Node, what: String) {
        self.all.push((node.at.clone(), what));
    }

    fn tell_if(&mut self, node: Option<&Node>, what: impl FnOnce() -> String) {
        if let Some(node) = node {
            self.tell(node, what());
        }
    }

    /// Those that ask about more, or deny it, harm nobody.
    fn rules(&mut self, holder: &Node, above: &str) {
        for key in ["permission", "tools"] {
            let rules = get(holder, key).filter(|rules| allows(rules));
            self.tell_if(rules, || {
                format!("sets `{above}{key}`, which allows calls without asking")
            });
        }
    }

    fn servers(&mut self, root: &Node) {
        for (name, server) in entries(get(root, "mcp")) {
            let is_off =
                get(server, "enabled").is_some_and(|on| matches!(on.tree, Tree::Bool(false)));
            if is_off {
                continue;
            }
            if let Some(program) = get(server, "command").and_then(program) {
                self.tell(server, format!("starts {program} as the MCP server `{name}`"));
            } else if let Some(url) = get(server, "url").and_then(words) {
                let host = host(url);
                self.tell(server, format!("has the MCP server `{name}` at {host} called"));
            }
        }
    }

    /// Packages are not run here.
    fn plugins(&mut self, root: &Node) {
        let Some(Tree::List(plugins)) = get(root, "plugin").map(|node| &node.tree) else { return };
        for plugin in plugins {
            let command = get(plugin, "command").unwrap_or(plugin);
            let is_package = items(plugin).get(1).is_some_and(|of| matches!(of.tree, Tree::Map(_)));
            if let Some(program) = program(command).filter(|_| !is_package) {
                self.tell(
                    plugin,
                    format!("starts {program} as a plugin, with a say in all that is done"),
                );
            }
        }
    }

    fn providers(&mut self, root: &Node) {
        for (name, provider) in entries(get(root, "provider")) {
            let options = get(provider, "options");
            let url = options.and_then(|options| get(options, "baseURL"));
            for url in url.into_iter().chain(get(provider, "api")) {
                let host = words(url).map(host).unwrap_or_default();
                self.tell(url, format!("has prompts for `{name}`, and its key, sent to {host}"));
            }
        }
    }

    /// What goes to models, or to a shell, with no more than a prompt.
    fn texts(&mut self, root: &Node) {
        for named in get(root, "instructions").map(items).unwrap_or_default() {
            let Some(text) = words(named) else { continue };
            let is_page = text.starts_with("http://") || text.starts_with("https://");
            let text = secrecy::masked(text);
            if is_page {
                self.tell(named, format!("has every model told what stands at {text}"));
            } else if self.is_outside(named, &text) {
                self.tell(named, format!("has every model told what is in {text}"));
            }
        }
        for (name, command) in entries(get(root, "command")) {
            let template = get(command, "template");
            if template.and_then(words).is_some_and(|text| text.contains("!`")) {
                self.tell(command, format!("has the shell run lines when `/{name}` is typed"));
            }
        }
    }

    /// Variables, and files from elsewhere, that are put into values.
    fn references(&mut self, node: &Node, path: &str) {
        match &node.tree {
            Tree::Text(text) => {
                for reference in &text.references {
                    let what = match reference {
                        Reference::Variable { name, .. } => format!("your variable {name}"),
                        Reference::File(file) if self.is_outside(node, file) => {
                            format!("the file {file}")
                        }
                        Reference::File(_) => continue,
                    };
                    self.tell(node, format!("puts {what} into `{path}`"));
                }
            }
            Tree::Map(entries) => {
                entries
                    .iter()
                    .for_each(|entry| self.references(&entry.node, &below(path, &entry.key)));
            }
            Tree::List(nodes) => {
                let path = |at: usize| format!("{path}[{at}]");
                nodes.iter().enumerate().for_each(|(at, node)| self.references(node, &path(at)));
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) => {}
        }
    }

    /// Whether a path leads out of the project, by itself or by a link.
    fn is_outside(&self, node: &Node, path: &str) -> bool {
        let mut whole = PathBuf::new();
        for part in node.at.source.path(path).components() {
            if part == Component::ParentDir {
                whole.pop();
            } else {
                whole.push(part);
            }
        }
        !whole.canonicalize().unwrap_or(whole).starts_with(self.worktree)
    }
}

fn allows(rules: &Node) -> bool {
    match &rules.tree {
        Tree::Text(text) => text.value == "allow",
        Tree::Bool(allowed) => *allowed,
        Tree::Map(entries) => entries.iter().any(|entry| allows(&entry.node)),
        Tree::Null | Tree::Number(_) | Tree::List(_) => false,
    }
}

/// The program of a command line, and no arguments: there may be secrets in them.
fn program(command: &Node) -> Option<String> {
    Some(format!("`{}`", words(items(command).first()?)?))
}

/// The part of an address that says who is called.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

fn words(node: &Node) -> Option<&str> {
    if let Tree::Text(text) = &node.tree { Some(&text.value) } else { None }
}

fn items(node: &Node) -> &[Node] {
    if let Tree::List(items) = &node.tree { items } else { &[] }
}

fn entries(node: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    let entries = match node.map(|node| &node.tree) {
        Some(Tree::Map(entries)) => entries.as_slice(),
        Some(Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) | Tree::List(_))
        | None => &[],
    };
    entries.iter().map(|entry| (entry.key.as_str(), &entry.node))
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    entries(Some(node)).find(|(name, _)| *name == key).map(|(_, node)| node)
}
