//! Settings of Claude Code: the MCP servers in a project's `.mcp.json`, and the permission rules in `.claude/settings.json`
//! and `.claude/settings.local.json`. They become the tree of an equivalent settings file, so they are merged, checked,
//! trusted and shown like settings.
//!
//! A rule keeps its meaning or becomes stricter. A rule that cannot be expressed is left out with a warning if it allows;
//! otherwise it counts for more than it says. In Claude Code the order of rules counts for nothing: `deny` comes before
//! `ask`, and `ask` before `allow`. [`Reading::unordered`] has the merge keep that.

use std::path::{Path, PathBuf};

use leftfold_events::rules::{self, Action};
use leftfold_tools::external;

use crate::error::{Error, quoted};
use crate::secrecy;
use crate::source::SettingPlace;
use crate::tree::{Entry, Node, Text, Tree, below};

/// The lists of rules, each with its action.
const LISTS: [(&str, Action); 3] =
    [("allow", Action::Allow), ("ask", Action::Ask), ("deny", Action::Deny)];

/// The most rules of a file of which each has a warning; more are in one.
const MAX_TOLD: usize = 3;
/// The most patterns that one path becomes.
const MAX_PATTERNS: usize = 16;

/// The warnings and the unused keys of a source that was read.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) warnings: Vec<String>,
    /// Keys that are not read, with their paths.
    pub(crate) unread: Vec<(SettingPlace, String)>,
    /// The folder of rules whose order counts for nothing, together with those of other sources of this folder.
    pub(crate) unordered: Option<PathBuf>,
}

impl Reading {
    fn skip(&mut self, entry: &Entry, path: &str) {
        self.unread.push((entry.at.clone(), below(path, &entry.key)));
    }
}

/// The MCP servers in a `.mcp.json`, as settings name them.
pub(crate) fn servers(root: Node, reading: &mut Reading) -> Node {
    let at = root.at.clone();
    let mut all = Vec::new();
    for mut entry in entries_of(root) {
        if entry.key != "mcpServers" {
            reading.skip(&entry, "");
            continue;
        }
        if let Tree::Map(servers) = &mut entry.node.tree {
            servers.retain_mut(|server| server_of(server, reading));
        }
        all.push(Entry { key: "mcp".to_owned(), ..entry });
    }
    Node { at, tree: Tree::Map(all) }
}

/// Whether the server can be used. Values of a wrong type stay, so that the reader of settings reports them.
fn server_of(server: &mut Entry, reading: &mut Reading) -> bool {
    let path = below("mcpServers", &server.key);
    let Tree::Map(fields) = &mut server.node.tree else { return true };
    let mut known: Vec<Entry> = Vec::new();
    let mut arguments = None;
    for mut entry in std::mem::take(fields) {
        match entry.key.as_str() {
            "type" => {
                let kind = match entry.node.text() {
                    Some("stdio") => "local",
                    Some("http" | "sse" | "streamable-http") => "remote",
                    Some(other) => {
                        reading.warnings.push(format!(
                            "{}: `{path}` is left out: Leftfold does not speak `{}`",
                            entry.at,
                            secrecy::masked(other)
                        ));
                        return false;
                    }
                    None => "",
                };
                if !kind.is_empty() {
                    entry.node.tree = Tree::Text(Text::plain(kind));
                }
                known.push(entry);
            }
            "args" => arguments = Some(entry),
            "env" => known.push(Entry { key: "environment".to_owned(), ..entry }),
            "oauth" => {
                if let Tree::Map(members) = &mut entry.node.tree {
                    let path = below(&path, "oauth");
                    members.retain(|member| {
                        let is_known = matches!(member.key.as_str(), "clientId" | "callbackPort");
                        if !is_known {
                            reading.skip(member, &path);
                        }
                        is_known
                    });
                }
                known.push(entry);
            }
            "command" | "url" | "headers" | "timeout" => known.push(entry),
            _ => reading.skip(&entry, &path),
        }
    }
    // a program with its arguments is one list
    if let Some(command) = known.iter_mut().find(|entry| entry.key == "command")
        && command.node.text().is_some()
    {
        let (at, program) = (command.node.at.clone(), command.node.clone());
        let arguments = arguments.map(|entry| match entry.node {
            Node { tree: Tree::List(items), .. } => items,
            other => vec![other],
        });
        let words = [program].into_iter().chain(arguments.unwrap_or_default());
        command.node = Node { at, tree: Tree::List(words.collect()) };
    }
    *fields = known;
    true
}

fn entries_of(root: Node) -> Vec<Entry> {
    if let Tree::Map(entries) = root.tree { entries } else { Vec::new() }
}

/// Where paths in rules begin. `None`: the path is not UTF-8.
struct Folders {
    /// Below the worktree.
    here: Option<String>,
    worktree: String,
    home: Option<String>,
}

/// The permission rules in settings of Claude Code, as settings have them. Relative paths in rules begin at `here`, a folder
/// of `worktree`.
///
/// # Errors
/// A list of rules is not a list of strings.
pub(crate) fn permissions(
    root: Node,
    (here, worktree): (&Path, &Path),
    reading: &mut Reading,
) -> Result<Node, Error> {
    let at = root.at.clone();
    let below = here.strip_prefix(worktree).ok();
    let folders = Folders {
        here: below.and_then(Path::to_str).map(str::to_owned),
        worktree: worktree.to_string_lossy().into_owned(),
        home: at.source.home.as_deref().and_then(Path::to_str).map(str::to_owned),
    };
    let mut all = Vec::new();
    reading.unordered = Some(here.to_owned());
    for entry in entries_of(root) {
        match (entry.key.as_str(), &entry.node.tree) {
            ("permissions", Tree::Map(_)) => {
                let mut rules =
                    Rules { folders: &folders, permissions: Vec::new(), told: Vec::new() };
                for list in entries_of(entry.node) {
                    match LISTS.iter().find(|(name, _)| *name == list.key) {
                        Some((_, action)) => rules.list(&list, *action)?,
                        None => reading.skip(&list, "permissions"),
                    }
                }
                reading.warnings.extend(warnings(&rules.told));
                let node = Node { at: entry.at.clone(), tree: Tree::Map(rules.permissions) };
                all.push(Entry { key: "permission".to_owned(), at: entry.at, node });
            }
            ("permissions", _) => {
                return Err(Error::wrong(&entry.at, "permissions", "an object", "another value"));
            }
            ("$schema", _) => {}
            _ => reading.skip(&entry, ""),
        }
    }
    Ok(Node { at, tree: Tree::Map(all) })
}

/// A rule that does not have its whole meaning here: its place, its text and why.
type ToldRule = (SettingPlace, String, &'static str);

fn warnings(told: &[ToldRule]) -> Vec<String> {
    let [(place, ..), ..] = told else { return Vec::new() };
    if told.len() <= MAX_TOLD {
        let each =
            told.iter().map(|(place, rule, why)| format!("{place}: the rule `{rule}` {why}"));
        return each.collect();
    }
    let rules = told.iter().map(|(place, rule, _)| format!("{rule} (line {})", place.line));
    let all: Vec<String> = rules.collect();
    vec![format!(
        "{}: {} rules of Claude Code are left out, or count for more than they say: {}",
        place.source.name,
        told.len(),
        quoted(&all)
    )]
}

/// The text between the parentheses of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Specifier {
    /// A command.
    Command,
    /// A path as `.gitignore` has it.
    Path,
    /// `domain:HOST`.
    Domain,
    /// A name.
    Name,
    /// There is none, or it has no effect.
    Nothing,
}

/// Tools of Claude Code, the permission that each needs here, and what a rule says of their calls.
const TOOLS: [(&str, &str, Specifier); 18] = [
    ("Agent", "task", Specifier::Name),
    ("AskUserQuestion", "question", Specifier::Nothing),
    ("Bash", "bash", Specifier::Command),
    ("Edit", EDIT, Specifier::Path),
    ("ExitPlanMode", "plan_exit", Specifier::Nothing),
    ("Glob", "glob", Specifier::Nothing),
    ("Grep", "grep", Specifier::Nothing),
    ("LS", "list", Specifier::Nothing),
    ("LSP", "lsp", Specifier::Nothing),
    ("MultiEdit", EDIT, Specifier::Path),
    ("Read", READ, Specifier::Path),
    ("Skill", "skill", Specifier::Name),
    ("Task", "task", Specifier::Name),
    ("TodoRead", "todoread", Specifier::Nothing),
    ("TodoWrite", "todowrite", Specifier::Nothing),
    ("WebFetch", rules::WEBFETCH, Specifier::Domain),
    ("WebSearch", "websearch", Specifier::Nothing),
    ("Write", EDIT, Specifier::Path),
];

const EDIT: &str = "edit";
const READ: &str = "read";
/// Tools that are only a part of those that need their permission here.
const PARTS: [&str; 2] = ["MultiEdit", "Write"];
/// The beginning of the names of tools of MCP servers, and what separates server and tool.
const MCP: &str = "mcp__";
const MCP_SEPARATOR: &str = "__";

const LEFT_OUT: &str = "is left out: it cannot be expressed without allowing more";
const NO_TOOL: &str = "has no effect: Leftfold has no such tool";
const NO_SPECIFIER: &str = "has no effect: rules of this tool cannot name what a call is about";
const NO_PARAMETER: &str = "has no effect: rules cannot name a parameter of a call";
const EXCEPTION: &str = "has no effect: it is an exception from no other pattern";
const NARROWER: &str = "counts for less than it says, because it cannot be expressed exactly";
const BROADER: &str = "counts for more than it says, because it cannot be expressed exactly";
const ONE_BY_ONE: &str = "has no effect: the commands of a line are judged one by one";

/// Rules in the making.
struct Rules<'a> {
    folders: &'a Folders,
    /// The entries of `permission`.
    permissions: Vec<Entry>,
    told: Vec<ToldRule>,
}

impl Rules<'_> {
    fn list(&mut self, list: &Entry, action: Action) -> Result<(), Error> {
        let path = below("permissions", &list.key);
        let Tree::List(items) = &list.node.tree else {
            return Err(Error::wrong(&list.node.at, &path, "a list of rules", "another value"));
        };
        for (at, item) in items.iter().enumerate() {
            let Some(text) = item.text() else {
                let path = format!("{path}[{at}]");
                return Err(Error::wrong(
                    &item.at, &path, "a rule, such as \"Bash(ls *)\"", "another value",
                ));
            };
            if let Some(why) = self.rule(text.trim(), action, &item.at) {
                self.told.push((item.at.clone(), shown(text), why));
            }
        }
        Ok(())
    }

    /// Adds a rule. Returns why it does not have its whole meaning.
    fn rule(&mut self, text: &str, action: Action, at: &SettingPlace) -> Option<&'static str> {
        let is_allowing = action == Action::Allow;
        let (tool, specifier) = match text.split_once('(') {
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(specifier) => (tool.trim(), Some(specifier.trim())),
                None => return Some(NO_TOOL),
            },
            None => (text, None),
        };
        if tool.starts_with(MCP) {
            let (permissions, why) = tools_of_server(tool, is_allowing);
            permissions.iter().for_each(|name| self.add(name, "*", action, at));
            return why;
        }
        if tool.contains('*') {
            if is_allowing {
                return Some(LEFT_OUT);
            }
            if tool.chars().all(|c| c == '*') {
                self.add("*", "*", action, at);
                return None;
            }
            let named = TOOLS.iter().filter(|(name, ..)| rules::matches(tool, name));
            let permissions: Vec<&str> = named.map(|(_, permission, _)| *permission).collect();
            permissions.iter().for_each(|name| self.add(name, "*", action, at));
            return permissions.is_empty().then_some(NO_TOOL);
        }
        let Some((_, permission, kind)) = TOOLS.iter().find(|(name, ..)| *name == tool) else {
            return Some(NO_TOOL);
        };
        let is_part = PARTS.contains(&tool);
        if is_allowing && (is_part || specifier == Some("")) {
            return Some(LEFT_OUT);
        }
        let of_part = is_part.then_some(BROADER);
        let is_all = |text: &&str| {
            text.is_empty() || *text == "*" && (!is_allowing || *kind == Specifier::Command)
        };
        let Some(specifier) = specifier.filter(|text| !is_all(text)) else {
            self.add(permission, "*", action, at);
            if is_allowing && *permission == rules::WEBFETCH {
                self.add(rules::HOST, "*", action, at);
            }
            return of_part;
        };
        match kind {
            Specifier::Command => self.command(specifier, action, at),
            Specifier::Path => {
                let (patterns, why) = paths(specifier, self.folders, is_allowing);
                for pattern in &patterns {
                    self.add(permission, pattern, action, at);
                    // a file that may not be read may not be changed either
                    if *permission == READ && action == Action::Deny {
                        self.add(EDIT, pattern, action, at);
                    }
                }
                why.or(of_part)
            }
            Specifier::Domain => self.domain(specifier, action, at),
            Specifier::Name => self.name(permission, specifier, action, at),
            Specifier::Nothing => Some(if is_allowing { LEFT_OUT } else { NO_SPECIFIER }),
        }
    }

    fn command(&mut self, text: &str, action: Action, at: &SettingPlace) -> Option<&'static str> {
        let pattern = match text.strip_suffix(":*") {
            Some(beginning) => format!("{beginning} *"),
            None => text.to_owned(),
        };
        if action == Action::Allow {
            // `?` is a character there, and `\` escapes one
            if pattern.contains(['?', '\\']) {
                return Some(LEFT_OUT);
            }
            self.add("bash", &pattern, action, at);
            return None;
        }
        self.add("bash", &pattern, action, at);
        // commands are judged without quotes
        let plain: String = pattern.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
        if plain != pattern {
            self.add("bash", &plain, action, at);
        }
        let is_line = ["|", "&&", ";", ">", "<"].iter().any(|operator| pattern.contains(operator));
        let names_parameter = text.split_once(':').is_some_and(|(name, _)| {
            name.contains('_') && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        });
        match (is_line, names_parameter) {
            (true, _) => Some(ONE_BY_ONE),
            (_, true) => Some(NO_PARAMETER),
            (false, false) => None,
        }
    }

    fn domain(&mut self, text: &str, action: Action, at: &SettingPlace) -> Option<&'static str> {
        let is_allowing = action == Action::Allow;
        let host = text.strip_prefix("domain:").map(str::trim);
        let Some(host) = host.filter(|host| rules::host::is_pattern(host)) else {
            if !is_allowing {
                self.add(rules::WEBFETCH, "*", action, at);
            }
            return Some(if is_allowing { LEFT_OUT } else { BROADER });
        };
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        match is_allowing || has_port || host == "*" {
            true => self.add(rules::HOST, host, action, at),
            false => self.add(rules::HOST, &format!("{host}:*"), action, at),
        }
        None
    }

    fn name(
        &mut self,
        permission: &str,
        name: &str,
        action: Action,
        at: &SettingPlace,
    ) -> Option<&'static str> {
        let name = match name.strip_suffix(":*") {
            Some(beginning) => format!("{beginning} *"),
            None => name.to_owned(),
        };
        let has_wildcard = name.strip_suffix(" *").unwrap_or(&name).contains(['*', '?']);
        if action == Action::Allow && has_wildcard {
            return Some(LEFT_OUT);
        }
        self.add(permission, &name, action, at);
        if action != Action::Allow {
            // built-in agents have small letters here
            self.add(permission, &name.to_lowercase(), action, at);
        }
        // `Agent(model:opus)`
        let names_parameter = permission == "task" && name.contains(':');
        (action != Action::Allow && names_parameter).then_some(NO_PARAMETER)
    }

    /// Adds a rule, unless there is a stricter one for the same calls.
    fn add(&mut self, permission: &str, pattern: &str, action: Action, at: &SettingPlace) {
        let patterns = entry(&mut self.permissions, permission, at, || Tree::Map(Vec::new()));
        let Tree::Map(patterns) = &mut patterns.node.tree else { return };
        let rule = entry(patterns, pattern, at, || Tree::Null);
        let known = LISTS.iter().find(|(name, _)| rule.node.text() == Some(*name));
        if known.is_some_and(|(_, known)| *known >= action) {
            return;
        }
        let name = LISTS.iter().find(|(_, of_list)| *of_list == action).map_or("deny", |it| it.0);
        rule.at = at.clone();
        rule.node = Node { at: at.clone(), tree: Tree::Text(Text::plain(name)) };
    }
}

/// The entry with this key, which is added if it is missing.
fn entry<'a>(
    entries: &'a mut Vec<Entry>,
    key: &str,
    at: &SettingPlace,
    tree: impl FnOnce() -> Tree,
) -> &'a mut Entry {
    let found = entries.iter().position(|entry| entry.key == key);
    let found = found.unwrap_or_else(|| {
        let node = Node { at: at.clone(), tree: tree() };
        entries.push(Entry { key: key.to_owned(), at: at.clone(), node });
        entries.len() - 1
    });
    &mut entries[found]
}

/// A rule for people, without a credential.
fn shown(rule: &str) -> String {
    match rule.split_once('(') {
        Some((tool, _)) if secrecy::has_credential(rule) => format!("{tool}(…)"),
        Some(_) | None => secrecy::masked(rule),
    }
}

/// The names of an MCP server's tools here, and why they are not exactly those that the rule names.
fn tools_of_server(name: &str, is_allowing: bool) -> (Vec<String>, Option<&'static str>) {
    let rest = name.strip_prefix(MCP).unwrap_or_default();
    let (server, tool) = rest.split_once(MCP_SEPARATOR).unwrap_or((rest, "*"));
    if server.is_empty() || server.contains('*') {
        return match is_allowing {
            true => (Vec::new(), Some(LEFT_OUT)),
            // each name of such a tool has one, and so have a few permissions that are no tools
            false => (vec!["*_*".to_owned()], Some(BROADER)),
        };
    }
    if let Some((before, after)) = tool.split_once('*') {
        let beginning = external::name_beginning(server, before);
        let is_whole = beginning.len() > server.chars().count() + before.chars().count();
        return match (after, is_whole) {
            ("", true) => (vec![format!("{beginning}*")], None),
            _ if is_allowing => (Vec::new(), Some(LEFT_OUT)),
            _ => (vec![format!("{beginning}*")], Some(BROADER)),
        };
    }
    let mut names = vec![external::tool_name(server, tool, |_| false)];
    if !is_allowing {
        // its name if another tool has taken the first
        names.push(external::tool_name(server, tool, |_| true));
    }
    (names, None)
}

/// The patterns for a path as `.gitignore` has it, and why they do not match exactly what it matches. In a pattern of
/// Leftfold `*` also matches `/`, and a path is relative inside of the worktree. If the rule is not `allowing`, more paths
/// may match.
fn paths(text: &str, folders: &Folders, allowing: bool) -> (Vec<String>, Option<&'static str>) {
    let inexact = |patterns: Vec<String>| match allowing {
        true => (Vec::new(), Some(LEFT_OUT)),
        false => (patterns, Some(BROADER)),
    };
    if text.starts_with('!') {
        return (Vec::new(), Some(EXCEPTION));
    }
    let is_plain = |folder: &&String| !allowing || !folder.contains(['*', '?']);
    let text = if text == "~" { "~/" } else { text };
    let (above, path, is_relative) = if let Some(rest) = text.strip_prefix("//") {
        (Some("/".to_owned()), rest, false)
    } else if let Some(rest) = text.strip_prefix("~/") {
        (folders.home.as_ref().filter(is_plain).map(|home| format!("{home}/")), rest, false)
    } else {
        let above = match folders.here.as_ref().filter(is_plain) {
            Some(here) if here.is_empty() => Some(String::new()),
            here => here.map(|here| format!("{here}/")),
        };
        match text.strip_prefix('/') {
            Some(rest) => (above, rest, false),
            None => (above, text, true),
        }
    };
    let Some(above) = above else { return inexact(vec!["*".to_owned()]) };
    let has_classes = path.contains(['[', '\\', '?']);
    let path = plain_classes(path);
    let mut names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let mut is_exact = !has_classes && !names.contains(&"..");
    // without a slash it matches at every depth, and so do relative paths that are not allowed
    let is_name = names.len() == 1 && !text.contains('/');
    let mut is_deep = is_relative && (is_name || !allowing);
    while names.first() == Some(&"**") {
        names.remove(0);
        is_deep = true;
    }
    let is_folder = names.last() == Some(&"**");
    while names.last() == Some(&"**") {
        names.pop();
    }
    let mut found = vec![String::new()];
    let mut is_after_any = is_deep;
    for (at, name) in names.iter().enumerate() {
        if *name == "**" {
            is_after_any = true;
            continue;
        }
        let is_last = at + 1 == names.len();
        let stars = name.matches('*').count();
        let is_end = is_last && name.ends_with('*');
        let is_beginning = is_last && is_after_any && name.starts_with('*');
        is_exact &= stars == 0 || stars == 1 && (is_end || is_beginning);
        let joined = |before: &str, between: &str| format!("{before}{between}{name}");
        let first = if at == 0 { "" } else { "/" };
        found = match is_after_any && !is_beginning {
            true => found
                .iter()
                .flat_map(|before| [joined(before, first), joined(before, &format!("{first}*/"))])
                .collect(),
            false => found.iter().map(|before| joined(before, first)).collect(),
        };
        is_after_any = false;
        if found.len() > MAX_PATTERNS {
            return inexact(vec!["*".to_owned()]);
        }
    }
    // a folder stands for all that is in it
    let ends = |pattern: &String| match pattern.as_str() {
        "" => vec!["*".to_owned()],
        _ if is_folder => vec![format!("{pattern}/*")],
        _ if pattern.ends_with('*') => vec![pattern.clone()],
        _ => vec![pattern.clone(), format!("{pattern}/*")],
    };
    let inside: Vec<String> = found.iter().flat_map(ends).collect();
    let mut patterns: Vec<String> =
        inside.iter().map(|pattern| format!("{above}{pattern}")).collect();
    if above.starts_with('/') && !allowing {
        // the worktree may be among these paths
        if patterns.iter().any(|pattern| rules::matches(pattern, &folders.worktree)) {
            patterns.push("*".to_owned());
            is_exact = false;
        } else if patterns.iter().any(|pattern| may_reach(pattern, &folders.worktree)) {
            let last = names.last().copied().unwrap_or_default();
            patterns.extend([last, &format!("*/{last}")].map(str::to_owned).iter().flat_map(ends));
            is_exact &= is_deep && names.len() == 1;
        }
    }
    if !is_exact {
        return inexact(patterns);
    }
    if allowing {
        // a path outside of the worktree would match, too
        let before = patterns.len();
        patterns.retain(|pattern| !pattern.starts_with('*'));
        if patterns.is_empty() {
            return inexact(patterns);
        }
        let why = (patterns.len() < before).then_some(NARROWER);
        return (patterns, why);
    }
    (patterns, None)
}

/// Whether an absolute pattern can match a path below `worktree` although it does not begin with it.
fn may_reach(pattern: &str, worktree: &str) -> bool {
    let literal = pattern.split(['*', '?']).next().unwrap_or_default();
    literal.len() < pattern.len() && worktree.starts_with(literal)
}

/// Writes `?` for a class of characters and for a character that is escaped.
fn plain_classes(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut letters = path.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                letters.next();
                plain.push('?');
            }
            '[' if letters.as_str().contains(']') => {
                letters.by_ref().find(|end| *end == ']');
                plain.push('?');
            }
            other => plain.push(other),
        }
    }
    plain
}
