//! Every value in force and where it comes from, without what must not be shown.

use std::path::Path;
use std::sync::Arc;

use leftfold_events::rules::{self, Rule};
use serde_json::{Value, json};

use super::permission::Said;
use super::provider::TIMEOUT;
use super::substitute::Reference;
use super::tree::{Node, Text, Tree, below};
use super::variables::FromEnv;
use super::{Env, Error, Layers, Merged, Place, Settings, Source, keys, merge, secrecy};

/// What is in force in a directory.
#[derive(Debug)]
pub struct Inventory {
    /// What was read, the weakest first.
    pub sources: Vec<Arc<Source>>,
    /// In the order of the settings' documentation; lists in theirs, and rules in
    /// the order in which the last that matches decides.
    pub items: Vec<Item>,
    /// Why no model can be used.
    pub problem: Option<String>,
}

/// One value.
#[derive(Clone, Debug)]
pub struct Item {
    /// As errors write it: `a.b[0]["c d"]`.
    pub key: String,
    pub path: Vec<String>,
    pub shown: Shown,
    pub origin: Origin,
    /// What else there is to say.
    pub note: Option<String>,
    /// The rule that this is.
    pub rule: Option<Rule>,
}

/// As much of a value as may be shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    Value(Value),
    /// As it stands in the file: what it refers to may be a secret.
    Written(String, Vec<Reference>),
    /// A secret, and whether it is there.
    Hidden {
        set: bool,
        references: Vec<Reference>,
    },
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Place(Place),
    Variable(String),
    /// `leftfold auth login`.
    Stored,
    Default,
}

/// Reads all settings that are in force in `directory` with these `layers`; `agent` is the agent that takes prompts
/// unless settings name another.
///
/// # Errors
/// Those of [`super::load_with`].
pub fn inventory(
    directory: &Path,
    agent: &str,
    env: Env<'_>,
    layers: &Layers,
) -> Result<Inventory, Error> {
    let merged = merge(directory, env, layers)?;
    let mut list = List::default();
    for key in keys::top() {
        list.top(key, &merged);
        list.defaults(key, agent);
        match key {
            "model" => list.model(&merged.settings, env),
            "provider" => list.providers(&merged.settings, env),
            "permission" => list.rules(&merged),
            _ => {}
        }
    }
    let problem = merged.settings.resolve_model(None, env).err().map(|error| error.to_string());
    Ok(Inventory { sources: merged.settings.sources, items: list.items, problem })
}

#[derive(Default)]
struct List {
    items: Vec<Item>,
}

/// A path on the way down, and how it is written.
#[derive(Clone)]
pub(super) struct Spot {
    path: Vec<String>,
    key: String,
}

impl Spot {
    pub(super) fn at(path: &[&str]) -> Self {
        let start = Self { path: Vec::new(), key: String::new() };
        path.iter().fold(start, |spot, key| spot.down(key))
    }

    pub(super) fn down(&self, key: &str) -> Self {
        Self {
            path: [self.path.as_slice(), &[key.to_owned()]].concat(),
            key: below(&self.key, key),
        }
    }

    pub(super) fn item(&self, index: usize) -> Self {
        let path = [self.path.as_slice(), &[index.to_string()]].concat();
        Self { path, key: format!("{}[{index}]", self.key) }
    }

    pub(super) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    /// Rules are listed by themselves, in an order that a merged tree does not keep.
    fn has_rules(&self) -> bool {
        matches!(self.path()[..], ["permission" | "tools"] | ["agent", _, "permission" | "tools"])
    }
}

impl List {
    fn push(&mut self, spot: Spot, shown: Shown, origin: Origin) -> &mut Item {
        let Spot { path, key } = spot;
        let at = self.items.len();
        self.items.push(Item { key, path, shown, origin, note: None, rule: None });
        &mut self.items[at]
    }

    fn has(&self, spot: &Spot) -> bool {
        self.items.iter().any(|item| item.path == spot.path)
    }

    /// What sources say of one key at the top.
    fn top(&mut self, key: &str, merged: &Merged) {
        let Some(Node { tree: Tree::Map(entries), .. }) = &merged.tree else { return };
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else { return };
        let spot = Spot::at(&[key]);
        if let (Tree::List(items), true) = (&entry.node.tree, keys::JOINED.contains(&key)) {
            return self.items_of(&each_once(items), &spot);
        }
        self.walk(&entry.node, &spot, false);
    }

    /// `secret`: what stands before it says that this is one.
    fn walk(&mut self, node: &Node, spot: &Spot, secret: bool) {
        match &node.tree {
            _ if spot.has_rules() => {}
            Tree::Map(entries) if !entries.is_empty() => {
                let known = keys::at(&spot.path());
                let is_known = |key: &str| known.as_ref().is_none_or(|known| known.contains(&key));
                for entry in entries.iter().filter(|entry| is_known(&entry.key)) {
                    self.walk(&entry.node, &spot.down(&entry.key), false);
                }
            }
            Tree::List(items) if !items.is_empty() => {
                self.items_of(&items.iter().collect::<Vec<_>>(), spot);
            }
            Tree::Null
            | Tree::Bool(_)
            | Tree::Number(_)
            | Tree::Text(_)
            | Tree::List(_)
            | Tree::Map(_) => {
                let shown = shown(node, spot, secret);
                self.push(spot.clone(), shown, Origin::Place(node.at.clone()));
            }
        }
    }

    fn items_of(&mut self, items: &[&Node], spot: &Spot) {
        let mut after_flag = false;
        for (index, node) in items.iter().enumerate() {
            self.walk(node, &spot.item(index), after_flag);
            after_flag = matches!(&node.tree, Tree::Text(text) if secrecy::is_flag(&text.value));
        }
    }

    /// What holds where nobody has said anything.
    fn defaults(&mut self, key: &str, agent: &str) {
        let Settings { tool_output, task, compaction, retry, title, snapshot, .. } =
            Settings::default();
        let defaults: &[(&[&str], Value)] = &[
            (&["default_agent"], json!(agent)),
            (&["title"], json!(title)),
            (&["snapshot"], json!(snapshot)),
            (&["tool_output", "max_lines"], json!(tool_output.max_lines)),
            (&["tool_output", "max_bytes"], json!(tool_output.max_bytes)),
            (&["task", "timeout"], json!(task.timeout)),
            (&["compaction", "auto"], json!(compaction.auto)),
            (&["compaction", "prune"], json!(compaction.prune)),
            (&["compaction", "reserved"], json!(compaction.reserved)),
            (&["retry", "attempts"], json!(retry.attempts)),
        ];
        for (path, value) in defaults.iter().filter(|(path, _)| path.first() == Some(&key)) {
            let spot = Spot::at(path);
            if !self.has(&spot) {
                let item = self.push(spot, Shown::Value(value.clone()), Origin::Default);
                if path == &["compaction", "reserved"] {
                    item.note = Some("the model's longest reply, 20000 tokens at most".to_owned());
                }
            }
        }
    }

    fn model(&mut self, settings: &Settings, env: Env<'_>) {
        if settings.model.is_some() {
            return;
        }
        if let Ok((name, why)) = settings.default_model(env) {
            self.push(Spot::at(&["model"]), Shown::Value(name.into()), Origin::Default).note =
                Some(why);
        }
    }

    fn providers(&mut self, settings: &Settings, env: Env<'_>) {
        for FromEnv { provider, option, variable, value } in settings.in_variables(env) {
            let spot = Spot::at(&["provider", &provider, "options", option]);
            let set = value.is_some();
            if set {
                // what a file has there is empty, or it would be used
                self.items.retain(|item| item.path != spot.path);
            }
            let shown = match value {
                None if option != "apiKey" || self.has(&spot) => continue,
                Some(value) if option != "apiKey" => Shown::Value(secrecy::masked(&value).into()),
                Some(_) | None => {
                    let references = vec![Reference::Variable { name: variable.clone(), set }];
                    Shown::Hidden { set, references }
                }
            };
            self.push(spot, shown, Origin::Variable(variable));
        }
        for name in settings.by_stored_key(env) {
            let spot = Spot::at(&["provider", name, "options", "apiKey"]);
            self.items.retain(|item| item.path != spot.path);
            self.push(spot, Shown::Hidden { set: true, references: Vec::new() }, Origin::Stored);
        }
        for (name, _) in &settings.providers {
            let spot = Spot::at(&["provider", name, "options", "timeout"]);
            if !self.has(&spot) {
                self.push(spot, Shown::Value(TIMEOUT.into()), Origin::Default);
            }
        }
    }

    fn rules(&mut self, merged: &Merged) {
        for rule in rules::defaults() {
            let path = ["permission", &rule.permission, &rule.pattern];
            let spot = Spot::at(if rule.pattern == "*" { &path[..2] } else { &path });
            let item = self.push(spot, Shown::Value(json!(rule.action)), Origin::Default);
            item.rule = Some(rule);
        }
        let of_agents = merged.agent_rules.iter().flat_map(|(_, said)| said);
        for Said { rule, path, value, place } in merged.rules.iter().chain(of_agents) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let origin = Origin::Place(place.clone());
            let item = self.push(Spot::at(&path), Shown::Value(value.clone()), origin);
            item.rule = Some(rule.clone());
        }
    }
}

/// Lists that grow from file to file have each item once: a relative path is another one in each
/// folder.
fn each_once(items: &[Node]) -> Vec<&Node> {
    let mut once: Vec<&Node> = Vec::new();
    for node in items {
        let same = |other: &&Node| {
            other.at.source.base == node.at.source.base && other.value() == node.value()
        };
        if !once.iter().any(same) {
            once.push(node);
        }
    }
    once
}

pub(super) fn shown(node: &Node, spot: &Spot, secret: bool) -> Shown {
    let secret = secret || secrecy::hides(&spot.path);
    match &node.tree {
        Tree::Text(text) => shown_text(text, spot, secret),
        Tree::Number(_) if secret => Shown::Hidden { set: true, references: Vec::new() },
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) | Tree::Map(_) => {
            Shown::Value(node.value())
        }
    }
}

fn shown_text(text: &Text, spot: &Spot, secret: bool) -> Shown {
    let references = text.references.clone();
    if secret || secrecy::has_credential(&text.value) {
        let set = !text.value.trim().is_empty() && text.unset().next().is_none();
        return Shown::Hidden { set, references };
    }
    if references.is_empty() || is_name(&spot.path()) {
        return Shown::Value(secrecy::masked(&text.value).into());
    }
    Shown::Written(secrecy::masked(&text.written), references)
}

/// Where a value surely is a name and no secret, wherever it comes from.
fn is_name(path: &[&str]) -> bool {
    matches!(
        path,
        ["model" | "small_model" | "default_agent"]
            | ["enabled_providers" | "disabled_providers", _]
            | ["provider", _, "wire" | "npm" | "vendor"]
    )
}
