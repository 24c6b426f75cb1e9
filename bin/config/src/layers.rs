//! What plugins add to settings: each is a source of its own, after the files of the project and before
//! what variables say, so that files can name plugins and whoever starts Leftfold has the last word.

use std::path::Path;
use std::sync::Arc;

use leftfold_events::providers::KnownProviders;
use serde_json::{Map, Value};

use super::sources::Source;
use super::tree::{self, Entry, Node, Tree, below};
use super::{Env, Error, Place, merge, substitute, told};

/// What settings rest on besides files: the providers that this build knows, and what each plugin adds,
/// in the order in which they were asked.
#[derive(Clone)]
pub struct Layers {
    pub(super) providers: &'static KnownProviders,
    all: Vec<Layer>,
    warnings: Vec<String>,
}

/// Values may be secrets.
impl std::fmt::Debug for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Layers").finish_non_exhaustive()
    }
}

/// What one plugin adds.
#[derive(Clone)]
pub(super) struct Layer {
    plugin: String,
    value: Value,
}

impl Layer {
    /// What errors and lists call it.
    pub(super) fn source(&self) -> String {
        format!("plugin {}", self.plugin)
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }
}

impl Layers {
    pub fn new(providers: &'static KnownProviders) -> Self {
        Self { providers, all: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn all(&self) -> &[Layer] {
        &self.all
    }

    /// What people should know of plugins that have something to add.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub fn warn(&mut self, why: String) {
        if !self.warnings.contains(&why) {
            self.warnings.push(why);
        }
    }

    /// Puts the settings in force to the plugin `name`, which settings name at `place`, and keeps what
    /// it adds. What is wrong with that is a warning, and then nothing of it counts.
    ///
    /// # Errors
    /// Those of [`super::load_with`]: the settings are wrong without it.
    pub fn add(
        &mut self,
        (directory, env): (&Path, Env<'_>),
        (name, place): (&str, &str),
        ask: impl FnOnce(Value) -> Result<Value, String>,
    ) -> Result<(), Error> {
        let known = merge(directory, env, self)?;
        let mut value = match ask(told::settings(&known)) {
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
        if let Err(error) = merge(directory, env, self) {
            self.all.pop();
            self.warn(format!("{error}. Nothing of what this plugin adds to settings counts"));
        }
        Ok(())
    }
}

/// A plugin's answer as a tree; its values have no lines.
pub(super) fn tree(said: &Value, source: &Arc<Source>, env: Env<'_>) -> Result<Node, Error> {
    let at = Place { source: Arc::clone(source), line: 0, column: 0 };
    Planter { at, env }.node(said, "", 0)
}

struct Planter<'a> {
    at: Place,
    env: Env<'a>,
}

impl Planter<'_> {
    fn node(&self, value: &Value, path: &str, depth: usize) -> Result<Node, Error> {
        if depth > tree::DEEPEST {
            let reason = format!("nested more than {} deep", tree::DEEPEST);
            return Err(Error::Syntax { place: self.at.clone(), reason });
        }
        let tree = match value {
            Value::Null => Tree::Null,
            Value::Bool(value) => Tree::Bool(*value),
            Value::Number(value) => Tree::Number(value.clone()),
            Value::String(text) => Tree::Text(substitute::apply(text, path, &self.at, self.env)?),
            Value::Array(items) => Tree::List(self.list(items, path, depth)?),
            Value::Object(entries) => Tree::Map(self.map(entries, path, depth)?),
        };
        Ok(Node { at: self.at.clone(), tree })
    }

    fn list(&self, items: &[Value], path: &str, depth: usize) -> Result<Vec<Node>, Error> {
        let items = items.iter().enumerate();
        items.map(|(i, value)| self.node(value, &format!("{path}[{i}]"), depth + 1)).collect()
    }

    fn map(&self, all: &Map<String, Value>, path: &str, depth: usize) -> Result<Vec<Entry>, Error> {
        let entry = |(key, value): (&String, &Value)| {
            let node = self.node(value, &below(path, key), depth + 1)?;
            Ok(Entry { key: key.clone(), at: self.at.clone(), node })
        };
        all.iter().map(entry).collect()
    }
}
