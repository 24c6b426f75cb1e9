//! Parses JSON with comments into a tree in which every value has its place, and replaces
//! references to variables and files in its strings. It knows nothing of particular settings.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};

use crate::error::Error;
use crate::source::{Env, MAX_INSERTED, SettingPlace, Source, SourceKind, is_outside, read_found};

/// The deepest nesting; readers of the log have the same limit.
const DEEPEST: usize = 100;
/// The most values in one source.
const MAX_VALUES: usize = 20_000;
/// The bytes that a reference counts for at least, because following it takes time.
const LEAST_INSERTED: usize = 4 * 1024;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: SettingPlace,
    pub(crate) tree: Tree,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<Entry>),
}

/// `at` is the place of the key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: SettingPlace,
    pub(crate) node: Node,
}

/// A string after replacement of its references.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) value: String,
    /// The inserted values, in order.
    pub(crate) references: Vec<Reference>,
    /// The text in the source; empty if it has no references.
    pub(crate) written: String,
}

/// A variable or file that a string refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    Variable { name: String, set: bool },
    File(String),
}

impl Text {
    pub(crate) fn plain(text: &str) -> Self {
        Self { value: text.to_owned(), ..Self::default() }
    }

    /// The variables in its references that are not set; they count as empty.
    pub(crate) fn unset(&self) -> impl Iterator<Item = &str> {
        self.references.iter().filter_map(|reference| match reference {
            Reference::Variable { name, set: false } => Some(name.as_str()),
            Reference::Variable { .. } | Reference::File(_) => None,
        })
    }
}

impl Node {
    /// As plain JSON.
    pub(crate) fn value(&self) -> Value {
        match &self.tree {
            Tree::Null => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Number(value) => Value::Number(value.clone()),
            Tree::Text(text) => Value::String(text.value.clone()),
            Tree::List(items) => Value::Array(items.iter().map(Self::value).collect()),
            Tree::Map(entries) => Value::Object(
                entries.iter().map(|e| (e.key.clone(), e.node.value())).collect::<Map<_, _>>(),
            ),
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.tree, Tree::Map(_))
    }

    /// Empty if this is not an object.
    pub(crate) fn entries(&self) -> &[Entry] {
        if let Tree::Map(entries) = &self.tree { entries } else { &[] }
    }

    /// Empty if this is not a list.
    pub(crate) fn items(&self) -> &[Self] {
        if let Tree::List(items) = &self.tree { items } else { &[] }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Tree::Text(text) = &self.tree { Some(&text.value) } else { None }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.node)
    }

    /// Merges `over` into this: objects are merged, other values replaced. Lists at one of the paths in
    /// `joined` are concatenated.
    pub(crate) fn merge(&mut self, over: Self, joined: &[&'static str]) {
        match (&mut self.tree, over.tree) {
            (Tree::Map(below), Tree::Map(above)) => {
                let places = below.iter().enumerate();
                let mut known: HashMap<String, usize> =
                    places.map(|(at, entry)| (entry.key.clone(), at)).collect();
                for entry in above {
                    match known.get(&entry.key).and_then(|at| below.get_mut(*at)) {
                        Some(old) => old.merge(entry, joined),
                        None => {
                            known.insert(entry.key.clone(), below.len());
                            below.push(entry);
                        }
                    }
                }
            }
            (_, tree) => *self = Self { at: over.at, tree },
        }
    }

    /// Takes a key of a map out of it. Answers the place of the key.
    pub(crate) fn take(&mut self, key: &str) -> Option<SettingPlace> {
        let Tree::Map(entries) = &mut self.tree else { return None };
        let found = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(found).at)
    }

    /// Removes every key at one of `places`.
    pub(crate) fn remove(&mut self, places: &[SettingPlace]) {
        let lines: HashSet<_> = places.iter().map(|at| (at.line, at.column)).collect();
        self.remove_those(&|at| lines.contains(&(at.line, at.column)) && places.contains(at));
    }

    /// Removes the key or value at `place`; of a list, all items. Returns the places of all that is around it; `None`:
    /// nothing is there.
    pub(crate) fn remove_at(&mut self, place: &SettingPlace) -> Option<Vec<SettingPlace>> {
        let mut around = match &mut self.tree {
            Tree::Map(entries) => {
                let is_wanted = |entry: &Entry| entry.at == *place || entry.node.at == *place;
                match entries.iter().position(is_wanted) {
                    Some(found) => {
                        entries.remove(found);
                        Vec::new()
                    }
                    None => entries.iter_mut().find_map(|entry| {
                        let mut around = entry.node.remove_at(place)?;
                        around.push(entry.at.clone());
                        Some(around)
                    })?,
                }
            }
            // without one item, the paths of those after it would be wrong
            Tree::List(items) => {
                items.iter().find(|item| item.holds(place))?;
                items.clear();
                Vec::new()
            }
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => return None,
        };
        around.push(self.at.clone());
        Some(around)
    }

    /// Whether something in it is at `place`.
    fn holds(&self, place: &SettingPlace) -> bool {
        let in_entry = |entry: &Entry| entry.at == *place || entry.node.holds(place);
        self.at == *place
            || self.entries().iter().any(in_entry)
            || self.items().iter().any(|item| item.holds(place))
    }

    fn remove_those(&mut self, are: &dyn Fn(&SettingPlace) -> bool) {
        match &mut self.tree {
            Tree::Map(entries) => {
                entries.retain(|entry| !are(&entry.at));
                entries.iter_mut().for_each(|entry| entry.node.remove_those(are));
            }
            Tree::List(items) => items.iter_mut().for_each(|item| item.remove_those(are)),
            Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {}
        }
    }
}

impl Entry {
    fn merge(&mut self, over: Self, joined: &[&'static str]) {
        self.at = over.at;
        match (&mut self.node.tree, over.node.tree) {
            (Tree::List(below), Tree::List(mut above)) if joined.contains(&over.key.as_str()) => {
                below.append(&mut above);
            }
            (_, tree) => {
                let inner = |path: &&'static str| path.strip_prefix(&*over.key)?.strip_prefix('.');
                let joined: Vec<&'static str> = joined.iter().filter_map(inner).collect();
                self.node.merge(Node { at: over.node.at, tree }, &joined);
            }
        }
    }

    /// Removes duplicate items of a list. Equal relative paths from different folders are
    /// different.
    pub(crate) fn unique(&mut self) {
        let Tree::List(items) = &mut self.node.tree else { return };
        let mut known = HashSet::new();
        items.retain(|node| known.insert((node.at.source.base.clone(), node.value().to_string())));
    }
}

/// The path of `key` below `parent`: `a.b`, or `a["b c"]` for an unusual name.
pub(crate) fn below(parent: &str, key: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@');
    match (parent.is_empty(), !key.is_empty() && key.chars().all(plain)) {
        (true, _) => key.to_owned(),
        (false, true) => format!("{parent}.{key}"),
        (false, false) => format!("{parent}[{key:?}]"),
    }
}

/// Which references are replaced by what they name.
#[derive(Clone, Copy)]
pub(crate) enum References<'a> {
    /// All: the source is the user's, or trusted.
    All(Env<'a>),
    /// Files in this worktree. Variables and other files count as empty.
    Within(&'a Path),
}

/// How a string refers to variables and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notation {
    /// `{env:NAME}` and `{file:PATH}`.
    Braces,
    /// `${NAME}` and `${NAME:-DEFAULT}`, as shells write it.
    Shell,
    /// Strings have no references.
    Literal,
}

/// Parses the text of a source, and replaces the references in every string value. Values of a plugin have no line.
pub(crate) fn parse(
    text: &str,
    source: &Arc<Source>,
    notation: Notation,
    references: References<'_>,
) -> Result<Node, Error> {
    let counts = Counts { values: Cell::new(0), inserted: Cell::new(0) };
    let reader = TreeReader { source, lines: Lines::new(text), notation, references, counts };
    // JSON with comments and trailing commas, as editors accept it, and nothing looser.
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| reader.syntax(error.range().start, &error.kind().to_string()))?;
    match &parsed.value {
        Some(value) => reader.node(value, "", 0),
        None => Ok(Node { at: reader.place(0), tree: Tree::Map(Vec::new()) }),
    }
}

struct TreeReader<'a> {
    source: &'a Arc<Source>,
    lines: Lines<'a>,
    notation: Notation,
    references: References<'a>,
    counts: Counts,
}

/// How much one source has so far.
struct Counts {
    values: Cell<usize>,
    /// Bytes that references have inserted.
    inserted: Cell<usize>,
}

impl Counts {
    fn insert(&self, bytes: usize) -> bool {
        self.inserted.set(self.inserted.get().saturating_add(bytes.max(LEAST_INSERTED)));
        self.inserted.get() <= MAX_INSERTED
    }
}

impl TreeReader<'_> {
    fn node(&self, value: &ast::Value<'_>, path: &str, depth: usize) -> Result<Node, Error> {
        let start = jsonc_parser::common::Ranged::range(value).start;
        if depth > DEEPEST {
            return Err(self.syntax(start, &format!("nested more than {DEEPEST} deep")));
        }
        let at = self.place(start);
        self.counts.values.set(self.counts.values.get() + 1);
        if self.counts.values.get() > MAX_VALUES {
            return Err(self.syntax(start, &format!("more than {MAX_VALUES} values in one file")));
        }
        let tree = match value {
            ast::Value::NullKeyword(_) => Tree::Null,
            ast::Value::BooleanLit(literal) => Tree::Bool(literal.value),
            ast::Value::NumberLit(literal) => Tree::Number(self.number(literal)?),
            ast::Value::StringLit(literal) => {
                Tree::Text(self.substitute(&literal.value, path, &at)?)
            }
            ast::Value::Array(array) => Tree::List(self.list(array, path, depth)?),
            ast::Value::Object(object) => Tree::Map(self.map(object, path, depth)?),
        };
        Ok(Node { at, tree })
    }

    fn number(&self, literal: &ast::NumberLit<'_>) -> Result<Number, Error> {
        serde_json::from_str(literal.value).map_err(|_| {
            self.syntax(literal.range.start, &format!("{} is no number to JSON", literal.value))
        })
    }

    fn list(&self, array: &ast::Array<'_>, path: &str, depth: usize) -> Result<Vec<Node>, Error> {
        let elements = array.elements.iter().enumerate();
        elements.map(|(i, value)| self.node(value, &format!("{path}[{i}]"), depth + 1)).collect()
    }

    fn map(&self, object: &ast::Object<'_>, path: &str, depth: usize) -> Result<Vec<Entry>, Error> {
        let mut entries: Vec<Option<Entry>> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        for property in &object.properties {
            let key = property.name.as_str().to_owned();
            let at = self.place(property.range.start);
            let path = below(path, &key);
            let first = known.insert(key.clone(), entries.len());
            if let Some(first) = first.and_then(|first| entries.get_mut(first)?.take())
                && self.source.own
            {
                return Err(Error::Twice { place: at, key: path, first: first.at.line });
            }
            // In files of other programs the last duplicate counts, as it does for them.
            let node = self.node(&property.value, &path, depth + 1)?;
            entries.push(Some(Entry { key, at, node }));
        }
        Ok(entries.into_iter().flatten().collect())
    }

    fn place(&self, offset: usize) -> SettingPlace {
        let (line, column) = match self.source.kind {
            SourceKind::Plugin | SourceKind::Script => (0, offset + 1),
            SourceKind::File | SourceKind::Variable => self.lines.locate(offset),
        };
        SettingPlace { source: Arc::clone(self.source), line, column }
    }

    fn syntax(&self, offset: usize, reason: &str) -> Error {
        let mut letters = reason.chars();
        let first = letters.next().map(|c| c.to_lowercase().to_string()).unwrap_or_default();
        Error::Syntax { place: self.place(offset), reason: first + letters.as_str() }
    }
}

/// Finds lines by offset.
struct Lines<'a> {
    text: &'a str,
    /// Then a column is a difference of bytes, however long the line is.
    is_ascii: bool,
    /// The start of each line, in bytes.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let starts = std::iter::once(0).chain(starts).collect();
        Self { text, is_ascii: text.is_ascii(), starts }
    }

    /// Line and column of a byte, both from 1; the column in characters.
    fn locate(&self, offset: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        if self.is_ascii {
            return (line, offset.saturating_sub(start) + 1);
        }
        let before = self.text.get(start..offset).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

impl TreeReader<'_> {
    /// Replaces every reference in `raw`. An unset variable counts as empty and is recorded, unless the reference has a
    /// default; a file gives its trimmed contents. Inserted text is not searched again. A brace that is not closed, or
    /// begins something else, is text.
    ///
    /// # Errors
    /// A file cannot be read, or the references of this source insert more than [`MAX_INSERTED`].
    fn substitute(&self, raw: &str, key: &str, at: &SettingPlace) -> Result<Text, Error> {
        let mut text = Text::default();
        let mut rest = raw;
        let too_long = || Error::TooLong { place: at.clone(), key: key.to_owned() };
        while let Some((before, reference, after)) = self.notation.next_reference(rest) {
            text.value.push_str(before);
            match reference {
                FoundReference::Env(name, default) => {
                    let value = match self.references {
                        References::All(env) => env(name).unwrap_or_default(),
                        References::Within(_) => String::new(),
                    };
                    let value = match default {
                        Some(default) if value.is_empty() => default.to_owned(),
                        Some(_) | None => value,
                    };
                    if !self.counts.insert(value.len()) {
                        return Err(too_long());
                    }
                    let (name, set) = (name.to_owned(), !value.is_empty() || default.is_some());
                    text.references.push(Reference::Variable { name, set });
                    text.value.push_str(&value);
                }
                FoundReference::File(path) => {
                    text.references.push(Reference::File(path.to_owned()));
                    rest = after;
                    let file = at.source.path(path);
                    if !self.counts.insert(0) {
                        return Err(too_long());
                    }
                    let root = match self.references {
                        References::Within(worktree) if is_outside(&file, worktree) => continue,
                        References::Within(worktree) => Some(worktree),
                        References::All(_) => None,
                    };
                    let contents = read_found(&file, root).map_err(|error| Error::Include {
                        place: at.clone(),
                        key: key.to_owned(),
                        file,
                        reason: error.to_string(),
                    })?;
                    if !self.counts.insert(contents.len()) {
                        return Err(too_long());
                    }
                    text.value.push_str(contents.trim());
                }
            }
            rest = after;
        }
        text.value.push_str(rest);
        if !text.references.is_empty() {
            text.written = raw.to_owned();
        }
        Ok(text)
    }
}

enum FoundReference<'a> {
    /// A variable, and the text that stands for it if it is not set.
    Env(&'a str, Option<&'a str>),
    File(&'a str),
}

impl Notation {
    /// The first reference in `text`, with the text before and after it.
    fn next_reference(self, text: &str) -> Option<(&str, FoundReference<'_>, &str)> {
        match self {
            Self::Braces => in_braces(text),
            Self::Shell => of_shell(text),
            Self::Literal => None,
        }
    }
}

fn in_braces(text: &str) -> Option<(&str, FoundReference<'_>, &str)> {
    text.match_indices('{').find_map(|(at, _)| {
        let (before, opened) = text.split_at(at);
        let (env, file) = (opened.strip_prefix("{env:"), opened.strip_prefix("{file:"));
        let (name, after) = env.or(file)?.split_once('}')?;
        match (name.trim(), env.is_some()) {
            ("", _) => None,
            (name, true) => Some((before, FoundReference::Env(name, None), after)),
            (path, false) => Some((before, FoundReference::File(path), after)),
        }
    })
}

fn of_shell(text: &str) -> Option<(&str, FoundReference<'_>, &str)> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.match_indices("${").find_map(|(at, _)| {
        let (before, opened) = text.split_at(at);
        let (inside, after) = opened.strip_prefix("${")?.split_once('}')?;
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        let is_name = !name.is_empty() && name.bytes().all(is_part);
        is_name.then_some((before, FoundReference::Env(name, default), after))
    })
}
