//! Agents and commands in Markdown files. The front matter has the keys that a settings file would
//! have under the entry's name, and the body is its text, so the files are merged, checked and
//! shown like settings.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_front_matter as front_matter;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::files;
use crate::source::{SettingPlace, Source, is_absent, read_found};
use crate::tree::{Entry, Node, Text, Tree};

/// The modes of agents.
const MODES: [&str; 3] = ["primary", "subagent", "all"];
/// The deepest nesting of folders to search.
const DEEPEST: usize = 8;
/// The most files to read in one folder.
const MAX_FILES: usize = 2_000;
/// The most entries of folders to look at below one folder.
const MAX_ENTRIES: usize = 10_000;

/// The settings entry that a Markdown file defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// The top-level key in settings.
    key: &'static str,
    /// The file's path below the folder, without the extension.
    name: String,
    /// The key for the body.
    body: &'static str,
}

impl Entered {
    /// The agent of this name.
    pub(crate) fn agent(name: &str) -> Self {
        Self { key: "agent", name: name.to_owned(), body: "prompt" }
    }
}

const KINDS: [(&str, &str, &str); 6] = [
    ("agent", "agent", "prompt"),
    ("agents", "agent", "prompt"),
    ("mode", "mode", "prompt"),
    ("modes", "mode", "prompt"),
    ("command", "command", "template"),
    ("commands", "command", "template"),
];

/// The files below a folder, and the folders that are left out.
pub(crate) struct Files {
    pub(crate) files: Vec<(PathBuf, Entered)>,
    pub(crate) warnings: Vec<String>,
}

/// The Markdown files in the folders for agents and commands below `folder`, sorted by name. A folder is searched once,
/// and one that a link puts outside `worktree` not at all.
///
/// # Errors
/// A folder exists but cannot be read.
pub(crate) fn find(folder: &Path, worktree: Option<&Path>) -> io::Result<Files> {
    let mut found = Vec::new();
    let mut search = Search { worktree, entries: 0, over: None, warnings: Vec::new() };
    // most of these folders do not exist, which one call of the system says for all kinds
    let is_absent = files::metadata(folder).is_err_and(|error| is_absent(&error));
    for (name, key, body) in KINDS.into_iter().filter(|_| !is_absent) {
        let (mut paths, mut seen) = (Vec::new(), HashSet::new());
        search.walk(&folder.join(name), ("", DEEPEST), &mut seen, &mut paths)?;
        paths.sort_unstable();
        let entered = |(path, name)| (path, Entered { key, name, body });
        found.extend(paths.into_iter().map(entered));
    }
    let mut warnings = search.warnings;
    if let Some(path) = search.over {
        warnings.push(format!(
            "{}: left out, because there are more than {MAX_FILES} agents or commands in this folder",
            path.display()
        ));
    }
    if search.entries > MAX_ENTRIES {
        let folder = folder.display();
        warnings.push(format!(
            "{folder}: agents and commands are left out, because there are more than {MAX_ENTRIES} files"
        ));
    }
    Ok(Files { files: found, warnings })
}

/// The agents in Markdown files of the folders `agent` and `agents` of a project's root. Other programs keep files in
/// folders of these names, so only a file with a `description` and a `mode` counts, and everything else is passed over
/// in silence.
pub(crate) fn find_root_agents(root: &Path) -> Vec<(PathBuf, Entered)> {
    let mut found = Vec::new();
    for folder in ["agent", "agents"] {
        let mut search =
            Search { worktree: Some(root), entries: 0, over: None, warnings: Vec::new() };
        let mut paths = Vec::new();
        if search.walk(&root.join(folder), ("", 0), &mut HashSet::new(), &mut paths).is_err() {
            continue;
        }
        paths.sort_unstable();
        let agents = paths.into_iter().filter(|(path, _)| is_agent(path, root));
        found.extend(agents.map(|(path, name)| (path, Entered::agent(&name))));
    }
    found
}

fn is_agent(path: &Path, root: &Path) -> bool {
    let Ok(text) = read_found(path, Some(root)) else { return false };
    let Ok(read) = front_matter::read::<Map<String, Value>>(&text) else { return false };
    let has_text = |key: &str| read.front.get(key).is_some_and(Value::is_string);
    let mode = read.front.get("mode").and_then(Value::as_str);
    has_text("description") && mode.is_some_and(|mode| MODES.contains(&mode))
}

struct Search<'a> {
    worktree: Option<&'a Path>,
    entries: usize,
    /// The first file beyond [`MAX_FILES`].
    over: Option<PathBuf>,
    warnings: Vec<String>,
}

impl Search<'_> {
    /// `above`: the path below the first folder, with a trailing slash unless it is empty. `seen`: the folders that
    /// were searched, without links.
    fn walk(
        &mut self,
        folder: &Path,
        (above, depth): (&str, usize),
        seen: &mut HashSet<PathBuf>,
        found: &mut Vec<(PathBuf, String)>,
    ) -> io::Result<()> {
        let real = match files::metadata(folder).and_then(|_| files::canonicalize(folder)) {
            Ok(real) => real,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.worktree.is_some_and(|worktree| !real.starts_with(worktree)) {
            let folder = folder.display();
            self.warnings
                .push(format!("{folder}: left out, because a link leads out of the project"));
            return Ok(());
        }
        if !seen.insert(real) {
            return Ok(());
        }
        let entries = match files::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut paths = Vec::new();
        for entry in entries {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                break;
            }
            paths.push(entry?.path());
        }
        // a folder is found by its own name before it is found by a link's
        paths.sort_by_cached_key(|path| (files::is_symlink(path), path.clone()));
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if name.starts_with('.') {
                continue;
            }
            if found.len() >= MAX_FILES {
                self.over.get_or_insert(path);
                return Ok(());
            }
            match name.strip_suffix(".md") {
                Some(stem) if files::is_file(&path) => {
                    found.push((path.clone(), format!("{above}{stem}")));
                }
                Some(_) | None if files::is_dir(&path) && depth > 0 => {
                    self.walk(&path, (&format!("{above}{name}/"), depth - 1), seen, found)?;
                }
                Some(_) | None => {}
            }
        }
        Ok(())
    }
}

/// The tree of an equivalent settings file.
pub(crate) fn parse(text: &str, source: &Arc<Source>, entered: &Entered) -> Result<Node, Error> {
    let read = front_matter::read::<Map<String, Value>>(text).map_err(|broken| {
        let place = SettingPlace { source: Arc::clone(source), line: broken.line, column: 1 };
        Error::Head { place, problem: broken.problem }
    })?;
    let above = text.len() - read.body.len();
    let head: Vec<&str> = text.get(..above).unwrap_or_default().lines().collect();
    let lines = Head { source, lines: &head };
    let mut node = lines.map(&read.front, 0, false);
    let body = read.body.trim();
    if let (Tree::Map(entries), false) = (&mut node.tree, body.is_empty()) {
        entries.retain(|entry| entry.key != entered.body);
        let at = lines.place(head.len() + 1);
        let node = Node { at: at.clone(), tree: Tree::Text(Text::plain(body)) };
        entries.push(Entry { key: entered.body.to_owned(), at, node });
    }
    // In files for OpenCode, the front matter may set a name.
    let named = read.front.get("name").and_then(Value::as_str).map(str::trim);
    let named = named.filter(|name| !name.is_empty() && !source.own);
    let wrapped = lines.under(named.unwrap_or(&entered.name), node);
    Ok(lines.under(entered.key, wrapped))
}

/// Finds the lines of keys, which parsed YAML does not have.
struct Head<'a> {
    source: &'a Arc<Source>,
    lines: &'a [&'a str],
}

impl Head<'_> {
    fn place(&self, line: usize) -> SettingPlace {
        SettingPlace { source: Arc::clone(self.source), line: line.max(1), column: 1 }
    }

    fn under(&self, key: &str, node: Node) -> Node {
        let entry = Entry { key: key.to_owned(), at: self.place(1), node };
        Node { at: self.place(1), tree: Tree::Map(vec![entry]) }
    }

    /// `line`: the line of the map's own key, counted from 1.
    fn map(&self, map: &Map<String, Value>, line: usize, nested: bool) -> Node {
        // In front matter, a key without a value counts as absent.
        let fields = map.iter().filter(|(_, value)| !value.is_null());
        let entries = fields.map(|(key, value)| {
            let line = self.line_of(key, line, nested);
            let node = self.node(value, line);
            Entry { key: key.clone(), at: self.place(line), node }
        });
        Node { at: self.place(line), tree: Tree::Map(entries.collect()) }
    }

    fn node(&self, value: &Value, line: usize) -> Node {
        let tree = match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Number(number) => Tree::Number(number.clone()),
            Value::String(text) => Tree::Text(Text::plain(text)),
            Value::Array(items) => {
                Tree::List(items.iter().map(|item| self.node(item, line)).collect())
            }
            Value::Object(map) => return self.map(map, line, true),
        };
        Node { at: self.place(line), tree }
    }

    /// The first line after `after` that begins with the key; `after` if none does, as when
    /// everything is on one line.
    fn line_of(&self, key: &str, after: usize, nested: bool) -> usize {
        let is_it = |line: &&str| {
            let inner = line.trim_start();
            let inner = inner.strip_prefix(['"', '\'']).unwrap_or(inner);
            let rest = inner.strip_prefix(key).map(|rest| rest.trim_start_matches(['"', '\'']));
            rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
                && line.starts_with(' ') == nested
        };
        let at = self.lines.iter().skip(after).position(is_it);
        at.map_or(after, |at| after + at + 1)
    }
}
