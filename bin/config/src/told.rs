//! What plugins are told of settings: what `leftfold config` would show, as one object. What that hides
//! is left out, and so is a list or a text of which it hides a part: so whoever says again what it was
//! told changes nothing.

use serde_json::{Map, Value};

use super::inventory::{Shown, Spot, shown};
use super::tree::{Entry, Node, Tree};
use super::{Merged, keys, secrecy};

/// The settings, as far as they may be shown.
pub(super) fn settings(merged: &Merged) -> Value {
    let told = merged.tree.as_ref().and_then(|tree| told(tree, &Spot::at(&[]), false));
    told.unwrap_or_else(|| Value::Object(Map::new()))
}

/// `secret`: what stands before it says that this is one.
fn told(node: &Node, spot: &Spot, secret: bool) -> Option<Value> {
    match &node.tree {
        Tree::Map(entries) => Some(map(entries, spot).into()),
        Tree::List(items) => {
            let mut after_flag = false;
            let item = |(index, node): (usize, &Node)| {
                let told = told(node, &spot.item(index), after_flag);
                after_flag = matches!(&node.tree, Tree::Text(t) if secrecy::is_flag(&t.value));
                told.filter(|told| is_whole(node, told))
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
    let known = keys::at(&spot.path());
    let is_known = |key: &str| known.as_ref().is_none_or(|known| known.contains(&key));
    let open = entries.iter().filter(|e| is_known(&e.key) && !secrecy::has_credential(&e.key));
    let told = |entry: &Entry| {
        let value = told(&entry.node, &spot.down(&entry.key), false)?;
        Some((entry.key.clone(), value))
    };
    open.filter_map(told).collect()
}

/// Whether nothing is left out of it.
fn is_whole(node: &Node, told: &Value) -> bool {
    let (Tree::Map(entries), Value::Object(said)) = (&node.tree, told) else { return true };
    let whole =
        |entry: &Entry| said.get(&entry.key).is_some_and(|told| is_whole(&entry.node, told));
    entries.iter().all(whole)
}
