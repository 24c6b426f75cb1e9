//! The settings that plugins see, and those that they add.
//!
//! A plugin sees as one object what `leftfold config` would show. A list or text with a hidden part is left out
//! as a whole, so a plugin that returns the settings it was given changes nothing.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::load::{Layers, load_with};
use crate::redacted_view::{Shown, Spot, shown};
use crate::secrecy;
use crate::settings::Settings;
use crate::source::Env;
use crate::sources::Layer;
use crate::tree::{Entry, Node, Tree};

impl Layers {
    /// Puts the settings in force to the plugin `name`, which settings name at `place`, and keeps what
    /// it adds. If that is wrong, it is a warning, and then nothing of it counts.
    ///
    /// # Errors
    /// Those of [`load_with`]: the settings are wrong without it.
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
        let plugins = value.as_object_mut().and_then(|said| said.shift_remove("plugin"));
        if plugins.is_some() {
            self.warn(format!("plugin {name}: `plugin` is not for plugins to set, and left out"));
        }
        self.all.push(Layer { plugin: name.to_owned(), value });
        if let Err(error) = load_with(directory, env, self) {
            self.all.pop();
            self.warn(format!("{error}. Nothing of what this plugin adds to settings counts"));
        }
        Ok(())
    }
}

/// The settings, as far as they may be shown.
fn settings(settings: &Settings) -> Value {
    let visible = settings.tree.as_ref().and_then(|tree| visible(tree, &Spot::at(&[]), false));
    visible.unwrap_or_else(|| Value::Object(Map::new()))
}

/// `secret`: what stands before it says that this is one.
fn visible(node: &Node, spot: &Spot, secret: bool) -> Option<Value> {
    match &node.tree {
        Tree::Map(entries) => Some(map(entries, spot).into()),
        Tree::List(items) => {
            let mut after_flag = false;
            let item = |(index, node): (usize, &Node)| {
                let visible = visible(node, &spot.item(index), after_flag);
                after_flag = node.text().is_some_and(secrecy::is_flag);
                visible.filter(|visible| is_whole(node, visible))
            };
            items.iter().enumerate().map(item).collect::<Option<Vec<_>>>().map(Value::Array)
        }
        Tree::Null | Tree::Bool(_) | Tree::Number(_) | Tree::Text(_) => {
            match (shown(node, spot, secret), &node.tree) {
                (Shown::Value(value), _) => Some(value).filter(|value| *value == node.value()),
                (Shown::Written(text, _), Tree::Text(known)) => {
                    Some(text).filter(|text| *text == known.written).map(Value::String)
                }
                (Shown::Written(..) | Shown::Hidden { .. }, _) => None,
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
fn is_whole(node: &Node, visible: &Value) -> bool {
    let (Tree::Map(entries), Value::Object(said)) = (&node.tree, visible) else { return true };
    let whole =
        |entry: &Entry| said.get(&entry.key).is_some_and(|visible| is_whole(&entry.node, visible));
    entries.iter().all(whole)
}
