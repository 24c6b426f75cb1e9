//! Differences of two JSON values, as short lists of operations. `web/patch.js` applies them too.

use std::fmt;

use serde::Serialize;
use serde::ser::SerializeSeq;
use serde_json::Value;

/// A step from a value to one in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

pub(crate) type Path = Vec<Step>;

/// One change of the value at a path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// `["=", path, value]`: the value is replaced, or added to its object.
    Set(Path, Value),
    /// `["-", path]`: the member is removed from its object.
    Remove(Path),
    /// `["+", path, text]`: the text is added to the string.
    Append(Path, String),
    /// `["~", path, at, count, items]`: `count` items of the array from index `at` on are replaced.
    Splice(Path, usize, usize, Vec<Value>),
}

impl Serialize for Op {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        match self {
            Self::Set(path, value) => {
                seq.serialize_element("=")?;
                seq.serialize_element(path)?;
                seq.serialize_element(value)?;
            }
            Self::Remove(path) => {
                seq.serialize_element("-")?;
                seq.serialize_element(path)?;
            }
            Self::Append(path, text) => {
                seq.serialize_element("+")?;
                seq.serialize_element(path)?;
                seq.serialize_element(text)?;
            }
            Self::Splice(path, at, count, items) => {
                seq.serialize_element("~")?;
                seq.serialize_element(path)?;
                seq.serialize_element(at)?;
                seq.serialize_element(count)?;
                seq.serialize_element(items)?;
            }
        }
        seq.end()
    }
}

/// An operation whose path is not in the value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Misfit(Path);

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Key(key) => write!(f, "/{key}")?,
                Step::Index(index) => write!(f, "/{index}")?,
            }
        }
        Ok(())
    }
}

/// Adds the operations to `ops` that lead from `old` to `new`, which are at `path`.
pub(crate) fn diff(path: &mut Path, old: &Value, new: &Value, ops: &mut Vec<Op>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in new {
                path.push(Step::Key(key.clone()));
                match old.get(key) {
                    Some(before) => diff(path, before, value, ops),
                    None => ops.push(Op::Set(path.clone(), value.clone())),
                }
                path.pop();
            }
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                ops.push(Op::Remove(join(path, Step::Key(key.clone()))));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            let changed = Changed::between(old, new, |a, b| a == b);
            changed.ops(path, old, new, ops);
        }
        (Value::String(old), Value::String(new)) if !old.is_empty() && new.starts_with(old) => {
            if new.len() > old.len() {
                ops.push(Op::Append(path.clone(), new[old.len()..].to_owned()));
            }
        }
        (old, new) if old == new => {}
        _ => ops.push(Op::Set(path.clone(), new.clone())),
    }
}

/// The part in the middle in which two lists differ.
pub(crate) struct Changed {
    pub(crate) at: usize,
    pub(crate) old: usize,
    pub(crate) new: usize,
}

impl Changed {
    pub(crate) fn between<T>(old: &[T], new: &[T], same: impl Fn(&T, &T) -> bool) -> Self {
        let at = old.iter().zip(new).take_while(|(a, b)| same(a, b)).count();
        let ends = old[at..].iter().rev().zip(new[at..].iter().rev());
        let end = ends.take_while(|(a, b)| same(a, b)).count();
        Self { at, old: old.len() - at - end, new: new.len() - at - end }
    }

    /// The operations for two arrays: items that are only changed are compared, others are replaced.
    pub(crate) fn ops(&self, path: &mut Path, old: &[Value], new: &[Value], ops: &mut Vec<Op>) {
        let Self { at, old: removed, new: added } = *self;
        let (old, new) = (&old[at..at + removed], &new[at..at + added]);
        if removed == added {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                path.push(Step::Index(at + index));
                diff(path, before, after, ops);
                path.pop();
            }
        } else {
            ops.push(Op::Splice(path.clone(), at, removed, new.to_vec()));
        }
    }
}

fn join(path: &[Step], step: Step) -> Path {
    path.iter().cloned().chain([step]).collect()
}

/// Applies one operation.
pub(crate) fn apply(value: &mut Value, op: &Op) -> Result<(), Misfit> {
    match op {
        Op::Set(path, new) => match path.split_last() {
            None => *value = new.clone(),
            Some((last, above)) => match (find(value, above)?, last) {
                (Value::Object(map), Step::Key(key)) => drop(map.insert(key.clone(), new.clone())),
                (Value::Array(items), Step::Index(at)) if *at < items.len() => {
                    items[*at] = new.clone();
                }
                _ => return Err(Misfit(path.clone())),
            },
        },
        Op::Remove(path) => match path.split_last() {
            Some((Step::Key(key), above)) => {
                let map = find(value, above)?.as_object_mut();
                let removed = map.and_then(|map| map.shift_remove(key));
                removed.ok_or_else(|| Misfit(path.clone()))?;
            }
            _ => return Err(Misfit(path.clone())),
        },
        Op::Append(path, text) => {
            let Value::String(whole) = find(value, path)? else { return Err(Misfit(path.clone())) };
            whole.push_str(text);
        }
        Op::Splice(path, at, count, items) => {
            let all = find(value, path)?.as_array_mut().filter(|all| at + count <= all.len());
            let all = all.ok_or_else(|| Misfit(path.clone()))?;
            drop(all.splice(*at..at + count, items.iter().cloned()));
        }
    }
    Ok(())
}

fn find<'a>(value: &'a mut Value, path: &[Step]) -> Result<&'a mut Value, Misfit> {
    let mut place = value;
    for step in path {
        let below = match step {
            Step::Key(key) => place.get_mut(key),
            Step::Index(index) => place.get_mut(index),
        };
        place = below.ok_or_else(|| Misfit(path.to_vec()))?;
    }
    Ok(place)
}
