//! The settings that plugins see, and those that they add.
//!
//! A plugin sees one object with the values that `leftfold config` would show. A list or text with
//! a hidden part is left out entirely, so a plugin that returns the settings it received changes
//! nothing.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::load::{Layers, load_with};
use crate::redacted_view::{Spot, VisibleValue, shown};
use crate::secrecy;
use crate::settings::Settings;
use crate::source::Env;
use crate::sources::Layer;
use crate::tree::{Entry, Node, Tree};

impl Layers {
    /// Passes the current settings to the plugin `name`, defined at `place`, and keeps its
    /// additions. If they are wrong, they are dropped with a warning.
    ///
    /// # Errors
    /// As for [`load_with`]: the settings are wrong without the plugin.
    pub fn add(
        &mut self,
        (directory, env): (&Path, Env<'_>),
        (name, place): (&str, &str),
        ask: impl FnOnce(Value) -> Result<Value, String>,
    ) -> Result<(), Error> {
        let known = load_with(directory, env, self)?;
        let mut value = match ask(settings(&known)) {
            Ok(value) => value,
            Err(why) => {
                self.warn(format!("{place}: plugin `{name}`: {why}"));
                return Ok(());
            }
        };
        if value.is_null() {
            return Ok(());
        }
        let plugins = value.as_object_mut().and_then(|fields| fields.shift_remove("plugin"));
        if plugins.is_some() {
            self.warn(format!("plugin {name}: plugins cannot set `plugin`, so it is left out"));
        }
        let named = || known.plugins.iter().filter(|plugin| plugin.place().to_string() == place);
        let of_project = named().any(|plugin| plugin.place().source.of_project);
        let own = !named().any(|plugin| plugin.is_javascript());
        self.all.push(Layer { plugin: name.to_owned(), of_project, own, value });
        if let Err(error) = load_with(directory, env, self) {
            self.all.pop();
            self.warn(format!("{error}. All settings that this plugin adds are ignored"));
        }
        Ok(())
    }
}

/// The settings, without secrets.
fn settings(settings: &Settings) -> Value {
    let visible = settings.tree.as_ref().and_then(|tree| visible(tree, &Spot::at(&[]), false));
    visible.unwrap_or_else(|| Value::Object(Map::new()))
}

/// `secret`: the key says that the value is a secret.
fn visible(node: &Node, spot: &Spot, secret: bool) -> Option<Value> {
    match &node.tree {
        Tree::Map(entries) => Some(map(entries, spot).into()),
        Tree::List(items) => {
            let mut after_flag = false;
            let item = |(index, node): (usize, &Node)| {
                let visible = visible(node, &spot.item(index), after_flag);
                after_flag = node.text().is_some_and(secrecy::is_flag);
                visible.filter(|visible| is_complete(node, visible))
            };
            items.iter().enumerate().map(item).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {
            match (shown(node, spot, secret), &node.tree) {
                (VisibleValue::Value(value), _) => {
                    Some(value).filter(|value| *value == node.value())
                }
                (VisibleValue::Written(text, _), Tree::Text(known)) => {
                    Some(text).filter(|text| *text == known.written).map(Value::String)
                }
                (VisibleValue::Written(..) | VisibleValue::Hidden { .. }, _) => None,
            }
        }
    }
}

fn map(entries: &[Entry], spot: &Spot) -> Map<String, Value> {
    let open = entries.iter().filter(|entry| !secrecy::has_credential(&entry.key));
    let visible = |entry: &Entry| {
        let value = visible(&entry.node, &spot.down(&entry.key), false)?;
        Some((entry.key.clone(), value))
    };
    open.filter_map(visible).collect()
}

/// Whether nothing is left out of it.
fn is_complete(node: &Node, visible: &Value) -> bool {
    let (Tree::Map(entries), Value::Object(fields)) = (&node.tree, visible) else { return true };
    let complete = |entry: &Entry| {
        fields.get(&entry.key).is_some_and(|visible| is_complete(&entry.node, visible))
    };
    entries.iter().all(complete)
}
