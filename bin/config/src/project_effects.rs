//! The effects of settings that came with a project: programs that they start, files and variables that they
//! send, calls that they allow. A user who opens somebody else's project may not want them.

use std::path::{Component, Path, PathBuf};

use crate::secrecy;
use crate::source::SettingPlace;
use crate::tree::{Node, Reference, Tree, below};

/// With the places, in words that go on from "this file of the project".
pub(crate) fn of(root: &Node, worktree: &Path) -> Vec<(SettingPlace, String)> {
    let mut found = Found { worktree, all: Vec::new() };
    found.servers(root);
    found.plugins(root);
    found.providers(root);
    found.texts(root);
    for (key, what) in SETS {
        found.tell_if(root.get(key), || format!("sets `{key}`, {what}"));
    }
    found.rules(root, "");
    for (name, agent) in entries(root, "agent") {
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
    all: Vec<(SettingPlace, String)>,
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
            let rules = holder.get(key).filter(|rules| allows(rules));
            self.tell_if(rules, || {
                format!("sets `{above}{key}`, which allows calls without asking")
            });
        }
    }

    fn servers(&mut self, root: &Node) {
        for (name, server) in entries(root, "mcp") {
            let is_off =
                server.get("enabled").is_some_and(|on| matches!(on.tree, Tree::Bool(false)));
            if is_off {
                continue;
            }
            if let Some(program) = server.get("command").and_then(program) {
                self.tell(server, format!("starts {program} as the MCP server `{name}`"));
            } else if let Some(url) = server.get("url").and_then(Node::text) {
                let host = host(url);
                self.tell(server, format!("has the MCP server `{name}` at {host} called"));
            }
        }
    }

    /// Packages are not run here.
    fn plugins(&mut self, root: &Node) {
        for plugin in root.get("plugin").map(Node::items).unwrap_or_default() {
            let command = plugin.get("command").unwrap_or(plugin);
            let is_package = plugin.items().get(1).is_some_and(Node::is_map);
            if let Some(program) = program(command).filter(|_| !is_package) {
                self.tell(
                    plugin,
                    format!("starts {program} as a plugin, with a say in all that is done"),
                );
            }
        }
    }

    fn providers(&mut self, root: &Node) {
        for (name, provider) in entries(root, "provider") {
            let options = provider.get("options");
            let url = options.and_then(|options| options.get("baseURL"));
            for url in url.into_iter().chain(provider.get("api")) {
                let host = url.text().map(host).unwrap_or_default();
                self.tell(url, format!("has prompts for `{name}`, and its key, sent to {host}"));
            }
        }
    }

    /// Texts that go to models, or to a shell, with no more than a prompt.
    fn texts(&mut self, root: &Node) {
        for named in root.get("instructions").map(Node::items).unwrap_or_default() {
            let Some(text) = named.text() else { continue };
            let is_page = text.starts_with("http://") || text.starts_with("https://");
            let text = secrecy::masked(text);
            if is_page {
                self.tell(named, format!("has every model told what stands at {text}"));
            } else if self.is_outside(named, &text) {
                self.tell(named, format!("has every model told what is in {text}"));
            }
        }
        for (name, command) in entries(root, "command") {
            let template = command.get("template");
            if template.and_then(Node::text).is_some_and(|text| text.contains("!`")) {
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
    Some(format!("`{}`", command.items().first()?.text()?))
}

/// The part of an address that says who is called.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit('@').next().unwrap_or_default()
}

/// The entries of the object under `key`.
fn entries<'a>(root: &'a Node, key: &str) -> impl Iterator<Item = (&'a str, &'a Node)> {
    let entries = root.get(key).map(Node::entries).unwrap_or_default();
    entries.iter().map(|entry| (entry.key.as_str(), &entry.node))
}
