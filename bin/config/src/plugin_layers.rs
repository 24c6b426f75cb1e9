//! The settings that plugins see, and those that they add.
//!
//! A plugin sees one object with the values that `leftfold config` would show. A list or text with
//! a hidden part is left out entirely, so a plugin that returns the settings it received changes
//! nothing.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::Error;
use crate::load::{Layers, load_with};
use crate::redacted_view::{Spot, VisibleValue, object};
use crate::settings::Settings;
use crate::source::Env;
use crate::sources::Layer;
use crate::tree::{Node, Tree};

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
    let unchanged = |node: &Node, shown| match (shown, &node.tree) {
        (VisibleValue::Value(value), _) => Some(value).filter(|value| *value == node.value()),
        (VisibleValue::Written(text, _), Tree::Text(known)) => {
            Some(text).filter(|text| *text == known.written).map(Value::String)
        }
        (VisibleValue::Written(..) | VisibleValue::Hidden { .. }, _) => None,
    };
    let tree = settings.tree.as_ref();
    let visible = tree.and_then(|tree| object(tree, &Spot::at(&[]), false, &unchanged));
    visible.unwrap_or_else(|| Value::Object(Map::new()))
}
