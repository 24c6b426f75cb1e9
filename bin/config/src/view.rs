//! Reading a tree by type, with errors that name the place, the key and what was expected.

use std::path::PathBuf;

use leftfold_events::providers::{KnownProviders, KnownWire};
use serde_json::Value;

use super::error::{Hint, is_slip};
use super::tree::{Node, Text, Tree, below};
use super::{Error, Place};

/// A value together with the path of keys that leads to it.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    node: &'a Node,
    /// Where its key stands, if it has one: what is wrong about the key is wrong there.
    key_at: &'a Place,
    pub(super) path: String,
    /// Which wire formats there are to name.
    providers: &'static KnownProviders,
}

impl<'a> View<'a> {
    pub(super) fn root(node: &'a Node, providers: &'static KnownProviders) -> Self {
        Self { node, key_at: &node.at, path: String::new(), providers }
    }

    pub(super) fn at(&self) -> &'a Place {
        &self.node.at
    }

    /// Where its key stands.
    pub(super) fn key_place(&self) -> &'a Place {
        self.key_at
    }

    /// Whether the key was written for Leftfold.
    fn own(&self) -> bool {
        self.key_at.source.own
    }

    pub(super) fn value(&self) -> Value {
        self.node.value()
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.node.tree, Tree::Map(_))
    }

    pub(super) fn is_false(&self) -> bool {
        matches!(self.node.tree, Tree::Bool(false))
    }

    pub(super) fn boolean(&self) -> Result<bool, Error> {
        let Tree::Bool(value) = &self.node.tree else { return Err(self.wrong("a boolean")) };
        Ok(*value)
    }

    pub(super) fn text(&self) -> Result<&'a Text, Error> {
        let Tree::Text(text) = &self.node.tree else { return Err(self.wrong("a string")) };
        Ok(text)
    }

    pub(super) fn string(&self) -> Result<String, Error> {
        self.text().map(|text| text.value.clone())
    }

    /// A string; an empty one (a variable that is not set, perhaps) says nothing.
    pub(super) fn filled(&self) -> Result<Option<String>, Error> {
        self.string().map(|text| Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// A path as text; relative ones start at the file they stand in.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        self.node.at.source.path(path)
    }

    /// A whole number, 0 included.
    pub(super) fn count(&self) -> Result<u64, Error> {
        self.whole().ok_or_else(|| self.wrong("a whole number that is not negative"))
    }

    /// A whole number above 0.
    pub(super) fn positive(&self) -> Result<u64, Error> {
        self.whole().filter(|n| *n > 0).ok_or_else(|| self.wrong("a whole number above 0"))
    }

    fn whole(&self) -> Option<u64> {
        // the largest whole number of which a float still knows its neighbours
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let Tree::Number(number) = &self.node.tree else { return None };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let from_float =
            |n: f64| ((0.0..=EXACT).contains(&n) && n.fract() == 0.0).then_some(n as u64);
        number.as_u64().or_else(|| number.as_f64().and_then(from_float))
    }

    /// A number that is not negative.
    pub(super) fn amount(&self) -> Result<f64, Error> {
        let number =
            if let Tree::Number(number) = &self.node.tree { number.as_f64() } else { None };
        number.filter(|n| *n >= 0.0).ok_or_else(|| self.wrong("a number that is not negative"))
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, Error> {
        let Tree::List(items) = &self.node.tree else { return Err(self.wrong("a list")) };
        let views = items.iter().enumerate().map(|(i, node)| Self {
            node,
            key_at: &node.at,
            path: format!("{}[{i}]", self.path),
            providers: self.providers,
        });
        Ok(views.collect())
    }

    /// The strings of a list.
    pub(super) fn strings(&self) -> Result<Vec<String>, Error> {
        self.list()?.iter().map(Self::string).collect()
    }

    /// Keys and values of an object, in the order of the file.
    pub(super) fn entries(&self) -> Result<Vec<(&'a str, Self)>, Error> {
        let Tree::Map(entries) = &self.node.tree else { return Err(self.wrong("an object")) };
        let views = entries.iter().map(|entry| {
            let path = below(&self.path, &entry.key);
            (
                entry.key.as_str(),
                Self { node: &entry.node, key_at: &entry.at, path, providers: self.providers },
            )
        });
        Ok(views.collect())
    }

    /// The entries of an object with these keys and no others: an unknown one is an error in
    /// Leftfold's own files and left out elsewhere.
    pub(super) fn known<S: AsRef<str>>(&self, keys: &[S]) -> Result<Vec<(&'a str, Self)>, Error> {
        let mut entries = self.entries()?;
        let is_known = |key: &str| keys.iter().any(|known| known.as_ref() == key);
        if let Some((key, unknown)) = entries.iter().find(|(key, v)| v.own() && !is_known(key)) {
            return Err(Error::UnknownKey {
                place: unknown.key_at.clone(),
                key: unknown.path.clone(),
                hint: Hint::toward(key, keys),
            });
        }
        entries.retain(|(key, _)| is_known(key));
        Ok(entries)
    }

    /// Where any key may stand: refuses one of Leftfold's own files that is but a slip away from
    /// one of `known`, which nobody else would mean.
    pub(super) fn no_slip_of(&self, key: &str, known: &[&str]) -> Result<(), Error> {
        match known.iter().find(|known| self.own() && is_slip(key, known)) {
            Some(right) => Err(Error::UnknownKey {
                place: self.key_at.clone(),
                key: self.path.clone(),
                hint: Hint::exactly(right),
            }),
            None => Ok(()),
        }
    }

    /// The value under `key` of what has to be an object.
    pub(super) fn get(&self, key: &str) -> Result<Option<Self>, Error> {
        Ok(self.entries()?.into_iter().find(|(name, _)| *name == key).map(|(_, view)| view))
    }

    /// The name of a wire format.
    pub(super) fn wire(&self) -> Result<KnownWire, Error> {
        let wires = self.providers.wires.iter();
        self.one_of(&wires.map(|wire| (wire.name, *wire)).collect::<Vec<_>>())
    }

    /// One of some names.
    pub(super) fn one_of<T: Copy>(&self, names: &[(&str, T)]) -> Result<T, Error> {
        let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        let expected = alternatives(&known);
        let Tree::Text(text) = &self.node.tree else { return Err(self.wrong(&expected)) };
        if let Some(variable) = text.unset().next() {
            let (place, key) = (self.at().clone(), self.path.clone());
            return Err(Error::Unset { place, key, variable: variable.to_owned() });
        }
        let found = names.iter().find(|(name, _)| *name == text.value);
        found.map(|(_, value)| *value).ok_or_else(|| {
            self.instead(&expected, &text.value, Hint::only_near(&text.value, &known))
        })
    }

    /// The error that a string, which surely is no secret, is not what was expected.
    pub(super) fn instead(&self, expected: &str, found: &str, hint: Hint) -> Error {
        Error::Wrong {
            place: self.at().clone(),
            key: self.name(),
            expected: expected.to_owned(),
            found: format!("\"{}\"", found.escape_debug()),
            hint,
        }
    }

    /// The error that this is not what was expected. It tells the type and never the value,
    /// which may be a secret.
    pub(super) fn wrong(&self, expected: &str) -> Error {
        Error::Wrong {
            place: self.at().clone(),
            key: self.name(),
            expected: expected.to_owned(),
            found: self.found().to_owned(),
            hint: Hint::default(),
        }
    }

    /// The path in quotes, or words for the whole.
    fn name(&self) -> String {
        if self.path.is_empty() {
            return "the settings as a whole".to_owned();
        }
        format!("`{}`", self.path)
    }

    fn found(&self) -> &'static str {
        match &self.node.tree {
            Tree::Null => "null",
            Tree::Bool(_) => "a boolean",
            Tree::Number(number) if number.as_f64().is_some_and(|n| n < 0.0) => "a negative number",
            Tree::Number(_) if self.whole() == Some(0) => "0",
            Tree::Number(_) if self.whole().is_none() => "a number that is not whole",
            Tree::Number(_) => "a number",
            Tree::Text(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Map(_) => "an object",
        }
    }
}

/// "a", "b" or "c".
pub(super) fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
