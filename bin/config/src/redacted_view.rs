//! Lists every current value and its source, and shows all of them as one object, without secrets.

use std::path::Path;
use std::sync::Arc;

use leftfold_events::rules::{self, Rule};
use serde_json::{Map, Value, json};

use crate::error::{Error, Hint, nearest};
use crate::load::{Layers, load_with};
use crate::permission::PlacedRule;
use crate::provider::TIMEOUT;
use crate::resolve::FromEnv;
use crate::settings::Settings;
use crate::source::{Env, SettingPlace, Source};
use crate::tree::{Entry, Node, Reference, Text, Tree, below};
use crate::{schema, secrecy};

/// The settings that apply in a directory.
#[derive(Debug)]
pub struct RedactedView {
    /// The sources that were read, weakest first.
    pub sources: Vec<Arc<Source>>,
    /// In the order of the settings' documentation. Lists keep their own order; rules are in the
    /// order in which the last match decides.
    pub items: Vec<ListedValue>,
    /// Why no model can be used.
    pub problem: Option<String>,
    /// A warning for each setting that is left out until the user trusts the project.
    pub left_out: Vec<String>,
}

/// One value.
#[derive(Clone, Debug)]
pub struct ListedValue {
    /// The key as errors write it: `a.b[0]["c d"]`.
    pub key: String,
    pub path: Vec<String>,
    pub shown: VisibleValue,
    pub origin: Origin,
    /// A remark for people.
    pub note: Option<String>,
    /// The rule that the value defines.
    pub rule: Option<Rule>,
}

/// The visible part of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum VisibleValue {
    Value(Value),
    /// The text in the file, since the values that it refers to may be secrets.
    Written(String, Vec<Reference>),
    /// A secret, and whether it is set.
    Hidden {
        set: bool,
        references: Vec<Reference>,
    },
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    Place(SettingPlace),
    Variable(String),
    /// `leftfold auth login`.
    Stored,
    /// An "always" answer in this project.
    Approved,
    Default,
}

/// Reads all settings that apply in `directory` with these `layers`; `agent` takes prompts unless
/// settings name another agent.
///
/// # Errors
/// As for [`load_with`].
pub fn redacted_view(
    directory: &Path,
    agent: &str,
    env: Env<'_>,
    layers: &Layers,
) -> Result<RedactedView, Error> {
    let settings = load_with(directory, env, layers)?;
    let mut list = List::default();
    for key in schema::top() {
        if let Some(node) = settings.tree.as_ref().and_then(|tree| tree.get(key)) {
            list.walk(node, &Spot::at(&[key]), false);
        }
        list.defaults(key);
        match key {
            "default_agent" => list.push_default(&[key], json!(agent), None),
            "model" => list.model(&settings, env),
            "provider" => list.providers(&settings, env),
            "permission" => list.rules(&settings),
            _ => {}
        }
    }
    let problem = settings.resolve_model(None, env).err().map(|error| error.brief());
    let left_out = settings.trust.warnings();
    Ok(RedactedView { sources: settings.sources, items: list.items, problem, left_out })
}

#[derive(Default)]
struct List {
    items: Vec<ListedValue>,
}

/// A path in the tree, and its written form.
#[derive(Clone)]
pub(crate) struct Spot {
    path: Vec<String>,
    key: String,
}

impl Spot {
    pub(crate) fn at(path: &[&str]) -> Self {
        let start = Self { path: Vec::new(), key: String::new() };
        path.iter().fold(start, |spot, key| spot.down(key))
    }

    pub(crate) fn down(&self, key: &str) -> Self {
        Self {
            path: [self.path.as_slice(), &[key.to_owned()]].concat(),
            key: below(&self.key, key),
        }
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        let path = [self.path.as_slice(), &[index.to_string()]].concat();
        Self { path, key: format!("{}[{index}]", self.key) }
    }

    pub(crate) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

impl List {
    fn push(&mut self, spot: Spot, shown: VisibleValue, origin: Origin) -> &mut ListedValue {
        let Spot { path, key } = spot;
        let at = self.items.len();
        self.items.push(ListedValue { key, path, shown, origin, note: None, rule: None });
        &mut self.items[at]
    }

    fn has(&self, spot: &Spot) -> bool {
        self.items.iter().any(|item| item.path == spot.path)
    }

    /// `secret`: the key says that the value is a secret.
    fn walk(&mut self, node: &Node, spot: &Spot, secret: bool) {
        match &node.tree {
            // a merged tree loses the order of rules, so they are listed separately
            _ if schema::is(&spot.path(), "x-rules") => {}
            Tree::Map(entries) if !entries.is_empty() => {
                for Entry { key, node, .. } in entries {
                    self.walk(node, &spot.down(key), false);
                }
            }
            Tree::List(items) if !items.is_empty() => {
                let mut after_flag = false;
                for (index, node) in items.iter().enumerate() {
                    self.walk(node, &spot.item(index), after_flag);
                    after_flag = node.text().is_some_and(secrecy::is_flag);
                }
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

    /// Adds the defaults of a key that no source sets.
    fn defaults(&mut self, key: &str) {
        for (path, field) in schema::with("x-default") {
            if path.first() == Some(&key) {
                self.push_default(&path, field["x-default"].clone(), field["x-note"].as_str());
            }
        }
    }

    fn push_default(&mut self, path: &[&str], value: Value, note: Option<&str>) {
        let spot = Spot::at(path);
        if !self.has(&spot) {
            let item = self.push(spot, VisibleValue::Value(value), Origin::Default);
            item.note = note.map(str::to_owned);
        }
    }

    fn model(&mut self, settings: &Settings, env: Env<'_>) {
        if settings.model.is_some() {
            return;
        }
        if let Ok((name, why)) = settings.default_model(env) {
            self.push(Spot::at(&["model"]), VisibleValue::Value(name.into()), Origin::Default)
                .note = Some(why);
        }
    }

    fn providers(&mut self, settings: &Settings, env: Env<'_>) {
        for (provider, FromEnv { option, variable, value }) in settings.in_variables(env) {
            let spot = Spot::at(&["provider", provider, "options", option]);
            let set = value.is_some();
            if set {
                // The value in the file is empty; otherwise it would be used.
                self.items.retain(|item| item.path != spot.path);
            }
            let shown = match value {
                None if option != "apiKey" || self.has(&spot) => continue,
                Some(value) if option != "apiKey" => {
                    VisibleValue::Value(secrecy::masked(&value).into())
                }
                Some(_) | None => {
                    let references = vec![Reference::Variable { name: variable.to_owned(), set }];
                    VisibleValue::Hidden { set, references }
                }
            };
            self.push(spot, shown, Origin::Variable(variable.to_owned()));
        }
        for name in settings.by_stored_key(env) {
            let spot = Spot::at(&["provider", name, "options", "apiKey"]);
            self.items.retain(|item| item.path != spot.path);
            self.push(
                spot,
                VisibleValue::Hidden { set: true, references: Vec::new() },
                Origin::Stored,
            );
        }
        for name in settings.providers.keys() {
            let spot = Spot::at(&["provider", name, "options", "timeout"]);
            if !self.has(&spot) {
                self.push(spot, VisibleValue::Value(TIMEOUT.into()), Origin::Default);
            }
        }
    }

    fn rules(&mut self, settings: &Settings) {
        for rule in rules::defaults() {
            let path = ["permission", &rule.permission, &rule.pattern];
            let spot = Spot::at(if rule.pattern == "*" { &path[..2] } else { &path });
            let item = self.push(spot, VisibleValue::Value(json!(rule.action)), Origin::Default);
            item.rule = Some(rule);
        }
        let of_agents = settings.agent_placed_rules.values().flatten();
        for PlacedRule { rule, path, value, place } in settings.placed_rules.iter().chain(of_agents)
        {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let origin = Origin::Place(place.clone());
            let item = self.push(Spot::at(&path), VisibleValue::Value(value.clone()), origin);
            item.rule = Some(rule.clone());
        }
    }
}

/// The text in the place of a secret.
const MASK: &str = "***";

impl Settings {
    /// The settings in effect as one object, in the form of a file for OpenCode. Secrets are masked; rules are those that
    /// count. `default_agent` takes prompts unless settings name another agent.
    pub fn effective(&self, default_agent: &str, env: Env<'_>) -> Map<String, Value> {
        let masked = |_: &Node, shown| {
            Some(match shown {
                VisibleValue::Value(value) => value,
                VisibleValue::Written(text, _) => Value::String(text),
                VisibleValue::Hidden { .. } => MASK.into(),
            })
        };
        let tree = self.tree.as_ref().and_then(|tree| object(tree, &Spot::at(&[]), false, &masked));
        let Some(Value::Object(mut all)) = tree.or_else(|| Some(json!({}))) else {
            return Map::new();
        };
        for (path, field) in schema::with("x-default") {
            add_default(&mut all, &path, &field["x-default"]);
        }
        add_default(&mut all, &["default_agent"], &default_agent.into());
        if let Some(name) = self.default_name(env) {
            add_default(&mut all, &["model"], &name.into());
        }
        for key in ["agent", "mode", "command", "mcp", "provider"] {
            add_default(&mut all, &[key], &json!({}));
        }
        all.shift_remove("tools");
        all.insert("permission".to_owned(), by_permission(&self.rules));
        let agents = all.get_mut("agent").and_then(Value::as_object_mut);
        for (name, agent) in agents.into_iter().flatten() {
            let Some(agent) = agent.as_object_mut() else { continue };
            agent.shift_remove("tools");
            agent.shift_remove("permission");
            let rules = self.rules_of(name);
            if !rules.is_empty() {
                agent.insert("permission".to_owned(), by_permission(&rules));
            }
        }
        for (name, server) in
            all.get_mut("mcp").and_then(Value::as_object_mut).into_iter().flatten()
        {
            if let (Some(known), Value::Object(server)) = (self.mcp.get(name), server)
                && (server.contains_key("command") || server.contains_key("url"))
            {
                server.insert("type".to_owned(), known.kind_name().into());
            }
        }
        let plugins = self.plugins.iter().map(|plugin| secrecy::masked(plugin.name()).into());
        all.insert("plugin".to_owned(), Value::Array(plugins.collect()));
        if let Some(paths @ Value::Array(_)) = all.get("skills") {
            let paths = json!({ "paths": paths });
            all.insert("skills".to_owned(), paths);
        }
        all
    }
}

/// Sets what nothing sets.
fn add_default(all: &mut Map<String, Value>, path: &[&str], value: &Value) {
    let [above @ .., last] = path else { return };
    let mut holder = all;
    for key in above {
        let below = holder.entry(*key).or_insert_with(|| json!({}));
        let Value::Object(below) = below else { return };
        holder = below;
    }
    if !value.is_null() {
        holder.entry(*last).or_insert_with(|| value.clone());
    }
}

/// Rules as settings write them. The last of those for the same calls counts.
fn by_permission(rules: &[Rule]) -> Value {
    let mut all = Map::new();
    for rule in rules.iter().filter(|rule| !secrecy::has_credential(&rule.pattern)) {
        // later ones come last
        let mut patterns = match all.shift_remove(&rule.permission) {
            Some(Value::Object(patterns)) => patterns,
            Some(_) | None => Map::new(),
        };
        patterns.shift_remove(&rule.pattern);
        patterns.insert(rule.pattern.clone(), json!(rule.action));
        all.insert(rule.permission.clone(), patterns.into());
    }
    all.into()
}

/// A tree as JSON. `leaf` gives each value that is neither an object nor a list, or leaves it out; a list is left out with
/// a part of it. `secret`: the key says that the value is a secret.
pub(crate) fn object(
    node: &Node,
    spot: &Spot,
    secret: bool,
    leaf: &dyn Fn(&Node, VisibleValue) -> Option<Value>,
) -> Option<Value> {
    match &node.tree {
        Tree::Map(entries) => {
            let open = entries.iter().filter(|entry| !secrecy::has_credential(&entry.key));
            let field = |entry: &Entry| {
                let value = object(&entry.node, &spot.down(&entry.key), false, leaf)?;
                Some((entry.key.clone(), value))
            };
            Some(Value::Object(open.filter_map(field).collect()))
        }
        Tree::List(items) => {
            let mut after_flag = false;
            let item = |(index, node): (usize, &Node)| {
                let value = object(node, &spot.item(index), after_flag, leaf);
                after_flag = node.text().is_some_and(secrecy::is_flag);
                value.filter(|value| is_complete(node, value))
            };
            items.iter().enumerate().map(item).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {
            leaf(node, shown(node, spot, secret))
        }
    }
}

/// Whether nothing is left out of it.
fn is_complete(node: &Node, value: &Value) -> bool {
    let (Tree::Map(entries), Value::Object(fields)) = (&node.tree, value) else { return true };
    let complete =
        |entry: &Entry| fields.get(&entry.key).is_some_and(|value| is_complete(&entry.node, value));
    entries.iter().all(complete)
}

pub(crate) fn shown(node: &Node, spot: &Spot, secret: bool) -> VisibleValue {
    let secret = secret || schema::hides(&spot.path);
    match &node.tree {
        Tree::Text(text) => shown_text(text, spot, secret),
        Tree::Number(_) if secret => VisibleValue::Hidden { set: true, references: Vec::new() },
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::List(_) | Tree::Map(_) => {
            VisibleValue::Value(node.value())
        }
    }
}

fn shown_text(text: &Text, spot: &Spot, secret: bool) -> VisibleValue {
    let references = text.references.clone();
    if secret || secrecy::has_credential(&text.value) {
        let set = !text.value.trim().is_empty() && text.unset().next().is_none();
        return VisibleValue::Hidden { set, references };
    }
    let is_name =
        || schema::fields(&spot.path).into_iter().any(|field| schema::has(field, "x-name"));
    if references.is_empty() || is_name() {
        return VisibleValue::Value(secrecy::masked(&text.value).into());
    }
    VisibleValue::Written(secrecy::masked(&text.written), references)
}

impl RedactedView {
    /// Adds what "always" has allowed in the project, after the rules.
    pub fn add_approvals(&mut self, approved: Vec<Rule>) {
        let end = self.items.iter().rposition(|item| item.rule.is_some());
        let mut list = List::default();
        for rule in approved {
            let spot = Spot::at(&["permission", &rule.permission, &rule.pattern]);
            let item = list.push(spot, VisibleValue::Value(json!(rule.action)), Origin::Approved);
            item.note = Some("approved".to_owned());
            item.rule = Some(rule);
        }
        let end = end.map_or(self.items.len(), |end| end + 1);
        self.items.splice(end..end, list.items);
    }

    /// The values at and under `wanted`, with or without brackets around unusual names; none if the
    /// setting exists but is not set.
    ///
    /// # Errors
    /// There is no such setting; the error names the closest one.
    pub fn find(&self, wanted: &str) -> Result<Vec<&ListedValue>, String> {
        let steps = steps(wanted);
        let exact: Vec<&ListedValue> =
            self.items.iter().filter(|item| item.path.starts_with(&steps)).collect();
        if !exact.is_empty() {
            return Ok(exact);
        }
        let plain = format!("{}.", steps.join("."));
        let under = |item: &&ListedValue| format!("{}.", item.path.join(".")).starts_with(&plain);
        let loose: Vec<&ListedValue> = self.items.iter().filter(under).collect();
        match self.unknown(wanted, &steps) {
            Some(error) if loose.is_empty() => Err(error),
            Some(_) | None => Ok(loose),
        }
    }

    /// The error about the first step that does not exist.
    fn unknown(&self, wanted: &str, steps: &[String]) -> Option<String> {
        let (at, names) = (0..steps.len())
            .map(|at| (at, self.names(&steps[..at])))
            .find(|(at, names)| !names.contains(&steps[*at]))?;
        let parent = steps[..at].iter().fold(String::new(), |parent, key| below(&parent, key));
        let elsewhere = || {
            let last = steps.last()?;
            self.items
                .iter()
                .find(|item| item.path.last() == Some(last))
                .map(|item| item.key.clone())
        };
        let begun = || names.iter().find(|name| name.starts_with(&steps[at])).map(String::as_str);
        let near = nearest(&steps[at], &names).or_else(begun).map(|name| below(&parent, name));
        let hint = match near.or_else(elsewhere) {
            Some(near) => Hint::exactly(&near),
            None => Hint::toward(&steps[at], names.iter().map(|name| below(&parent, name))),
        };
        Some(format!("`{wanted}` is not a setting{hint}"))
    }

    /// The keys that exist, or could exist, at a path.
    fn names(&self, parent: &[String]) -> Vec<String> {
        let mut names: Vec<String> = schema::at(parent).into_iter().map(str::to_owned).collect();
        for item in self.items.iter().filter(|item| item.path.starts_with(parent)) {
            if let Some(name) = item.path.get(parent.len()).filter(|name| !names.contains(name)) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// Splits `a.b["c d"][0]` into its keys. An unclosed bracket is part of a name.
fn steps(text: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (step, after) = bracket(rest).unwrap_or_else(|| {
            let rest = rest.strip_prefix('.').unwrap_or(rest);
            let bracket = rest.match_indices('[').map(|(at, _)| at);
            let bracket = bracket.filter(|at| self::bracket(&rest[*at..]).is_some()).min();
            let end = rest.find('.').into_iter().chain(bracket).min().unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        });
        steps.push(step);
        rest = after;
    }
    steps.retain(|step| !step.is_empty());
    steps
}

/// Parses `["name"]` or `[0]`, and answers the rest.
fn bracket(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('[')?;
    if inside.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(inside).into_iter::<String>();
        let name = names.next()?.ok()?;
        return Some((name, inside[names.byte_offset()..].strip_prefix(']')?));
    }
    let (index, after) = inside.split_once(']')?;
    index.bytes().all(|byte| byte.is_ascii_digit()).then(|| (index.to_owned(), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_into_keys() {
        for (text, expected) in [
            ("", &[][..]),
            ("retry", &["retry"]),
            ("retry.attempts", &["retry", "attempts"]),
            ("retry.", &["retry"]),
            (r#"permission.bash["git *"]"#, &["permission", "bash", "git *"]),
            (r#"a["b.c"].d"#, &["a", "b.c", "d"]),
            (r#"a["b\"]"].d"#, &["a", "b\"]", "d"]),
            ("plugin[1][0]", &["plugin", "1", "0"]),
            ("plugin.1", &["plugin", "1"]),
            ("a[b", &["a[b"]),
            ("a[\"b", &["a[\"b"]),
            ("permission.bash.git *", &["permission", "bash", "git *"]),
            ("é.ü", &["é", "ü"]),
        ] {
            assert_eq!(steps(text), expected, "{text}");
        }
    }
}
