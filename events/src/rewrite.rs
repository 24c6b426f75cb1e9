//! Visits every text in an event that people, models or tools wrote, to replace secrets or to mask
//! tokens. Each event says which of its fields these are.
//!
//! Values that must come back unchanged are not visited: signatures, sealed reasoning, media, ids,
//! hashes and the folders that a session works in.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::json::Json;

/// Changes texts.
pub trait Rewrite {
    /// The replacement of `text`; `None` if it stays.
    fn text(&self, text: &str) -> Option<String>;

    /// Whether any string within this JSON text might change.
    fn touches(&self, json: &str) -> bool;
}

/// A value with texts that people, models or tools wrote.
pub(crate) trait Texts {
    /// Changes each of its texts.
    fn rewrite(&mut self, how: &impl Rewrite);
}

impl Texts for String {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if let Some(new) = how.text(self) {
            *self = new;
        }
    }
}

impl Texts for Arc<str> {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if let Some(new) = how.text(self) {
            *self = new.into();
        }
    }
}

/// Changes every string of a JSON value, including names of fields.
impl Texts for Json {
    fn rewrite(&mut self, how: &impl Rewrite) {
        if !how.touches(self.as_str()) {
            return;
        }
        let mut value = self.value();
        if values(&mut value, how) {
            *self = Self::from_value(&value);
        }
    }
}

impl<T: Texts> Texts for Option<T> {
    fn rewrite(&mut self, how: &impl Rewrite) {
        self.iter_mut().for_each(|some| some.rewrite(how));
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn rewrite(&mut self, how: &impl Rewrite) {
        self.iter_mut().for_each(|item| item.rewrite(how));
    }
}

impl<T: Texts> Texts for Box<T> {
    fn rewrite(&mut self, how: &impl Rewrite) {
        (**self).rewrite(how);
    }
}

/// Changes the strings of a value. Returns whether any changed.
pub(crate) fn values(value: &mut Value, how: &impl Rewrite) -> bool {
    match value {
        Value::String(text) => match how.text(text) {
            Some(new) => {
                *text = new;
                true
            }
            None => false,
        },
        // every item must be visited, so no short circuit
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| values(item, how) | changed)
        }
        Value::Object(fields) => {
            let mut changed = fields.values_mut().fold(false, |done, v| values(v, how) | done);
            if fields.keys().any(|name| how.text(name).is_some()) {
                let rename =
                    |(name, value): (String, Value)| (how.text(&name).unwrap_or(name), value);
                *fields = std::mem::take(fields).into_iter().map(rename).collect::<Map<_, _>>();
                changed = true;
            }
            changed
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
