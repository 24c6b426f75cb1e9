//! Finds the effects of settings that came with a project: programs that they start, files and
//! variables that they send, calls that they allow. A user who opens a stranger's project may not
//! want them.

use std::path::{Component, Path, PathBuf};

use crate::secrecy;
use crate::source::SettingPlace;
use crate::tree::{Node, Reference, Tree, below};

/// The effects with their places, as phrases that continue "this project file".
pub(crate) fn of(root: &Node, worktree: &Path) -> Vec<(SettingPlace, String)> {
    let mut found = Found { worktree, all: Vec::new() };
    found.servers(root);
    found.plugins(root);
    found.providers(root);
    found.texts(root);
    for (key, what) in SETS {
        found.add_if(root.get(key), || format!("sets `{key}`, {what}"));
    }
    found.rules(root, "");
    for (name, agent) in entries(root, "agent") {
        found.rules(agent, &format!("agent.{name}."));
    }
    found.references(root, "");
    found.all
}

const SETS: [(&str, &str); 3] = [
    ("secrets", "values that calls can use"),
    ("environment", "which of your variables commands get"),
    ("webfetch", "which may allow reading pages in your own network"),
];

struct Found<'a> {
    worktree: &'a Path,
    all: Vec<(SettingPlace, String)>,
}

impl Found<'_> {
    fn add(&mut self, node: &Node, what: String) {
        self.all.push((node.at.clone(), what));
    }

    fn add_if(&mut self, node: Option<&Node>, what: impl FnOnce() -> String) {
        if let Some(node) = node {
            self.add(node, what());
        }
    }

    /// Rules that ask or deny are harmless.
    fn rules(&mut self, holder: &Node, above: &str) {
        for key in ["permission", "tools"] {
            let rules = holder.get(key).filter(|rules| allows(rules));
            self.add_if(rules, || {
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
                self.add(server, format!("starts {program} as the MCP server `{name}`"));
            } else if let Some(url) = server.get("url").and_then(Node::text) {
                let host = host(url);
                self.add(server, format!("connects to the MCP server `{name}` at {host}"));
            }
        }
    }

    /// JavaScript packages are not run.
    fn plugins(&mut self, root: &Node) {
        for plugin in root.get("plugin").map(Node::items).unwrap_or_default() {
            let command = plugin.get("command").unwrap_or(plugin);
            let is_package = plugin.items().get(1).is_some_and(Node::is_map);
            if let Some(program) = program(command).filter(|_| !is_package) {
                self.add(
                    plugin,
                    format!(
                        "starts {program} as a plugin, which can change prompts, calls and settings"
                    ),
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
                self.add(url, format!("sends prompts for `{name}`, and its key, to {host}"));
            }
        }
    }

    /// Texts that reach models, or a shell, through nothing more than a prompt.
    fn texts(&mut self, root: &Node) {
        for named in root.get("instructions").map(Node::items).unwrap_or_default() {
            let Some(text) = named.text() else { continue };
            let is_page = text.starts_with("http://") || text.starts_with("https://");
            let text = secrecy::masked(text);
            if is_page {
                self.add(named, format!("adds the page {text} to every prompt"));
            } else if self.is_outside(named, &text) {
                self.add(named, format!("adds the file {text} to every prompt"));
            }
        }
        for (name, command) in entries(root, "command") {
            let template = command.get("template");
            if template.and_then(Node::text).is_some_and(|text| text.contains("!`")) {
                self.add(command, format!("runs shell lines when `/{name}` is typed"));
            }
        }
    }

    /// Variables, and files outside the project, that are inserted into values.
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
                    self.add(node, format!("puts {what} into `{path}`"));
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

    /// Whether a path leads out of the project, directly or through a link.
    fn is_outside(&self, node: &Node, path: &str) -> bool {
        let mut full = PathBuf::new();
        for part in node.at.source.path(path).components() {
            if part == Component::ParentDir {
                full.pop();
            } else {
                full.push(part);
            }
        }
        !full.canonicalize().unwrap_or(full).starts_with(self.worktree)
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

/// The program of a command line, without arguments, which may contain secrets.
fn program(command: &Node) -> Option<String> {
    Some(format!("`{}`", command.items().first()?.text()?))
}

/// The host in a URL.
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
