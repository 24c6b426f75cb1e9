//! Places pieces of arguments: `{"jsonPath": "$.a.b[0]", "stringValue": "…"}`.

use serde_json::{Map, Value};

/// The most elements of a list. A larger index makes no sense.
const MAX_ELEMENTS: usize = 10_000;
/// The greatest depth of a path.
const DEEPEST: usize = 64;

#[derive(Debug, PartialEq)]
enum Step {
    Member(String),
    Element(usize),
}

/// Writes one piece to its place; a string is appended to the string that is there. `None` if there
/// is no such place, or the piece has no value.
pub(super) fn write(args: &mut Value, piece: &Value) -> Option<()> {
    let steps = parse(piece.get("jsonPath")?.as_str()?)?;
    let mut place = args;
    for step in steps {
        place = match step {
            Step::Member(name) => {
                if place.is_null() {
                    *place = Value::Object(Map::new());
                }
                place.as_object_mut()?.entry(name).or_insert(Value::Null)
            }
            Step::Element(index) => {
                if place.is_null() {
                    *place = Value::Array(Vec::new());
                }
                let list = place.as_array_mut()?;
                if index >= list.len() {
                    list.resize(index + 1, Value::Null);
                }
                list.get_mut(index)?
            }
        };
    }
    let value = |name: &str| piece.get(name).filter(|value| !value.is_null());
    if let Some(text) = value("stringValue").and_then(Value::as_str) {
        if let Value::String(known) = place {
            known.push_str(text);
        } else {
            *place = text.into();
        }
        return Some(());
    }
    if let Some(value) = value("numberValue").or_else(|| value("boolValue")) {
        *place = value.clone();
        return Some(());
    }
    // its value is the string NULL_VALUE or null itself
    piece.get("nullValue")?;
    *place = Value::Null;
    Some(())
}

/// The subset of RFC 9535 that names a single place: `$`, `.name`, `['name']`, `[0]`.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() < DEEPEST {
        let (step, after) = match rest.strip_prefix('.') {
            Some(name) => {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (name, after) = name.split_at(end);
                (Step::Member(name.to_owned()), after)
            }
            None => bracketed(rest.strip_prefix('[')?)?,
        };
        if step == Step::Member(String::new()) {
            return None;
        }
        steps.push(step);
        rest = after;
    }
    rest.is_empty().then_some(steps)
}

fn bracketed(rest: &str) -> Option<(Step, &str)> {
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
    let Some(quote) = quote else {
        let (index, after) = rest.split_once(']')?;
        let index = index.parse().ok().filter(|index| *index < MAX_ELEMENTS)?;
        return Some((Step::Element(index), after));
    };
    let mut name = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            c if c == quote => {
                let after = rest[at + 1..].strip_prefix(']')?;
                return Some((Step::Member(name), after));
            }
            c => name.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(pieces: &[Value]) -> Option<Value> {
        let mut args = json!({});
        pieces.iter().try_for_each(|piece| write(&mut args, piece))?;
        Some(args)
    }

    #[test]
    fn pieces_find_their_place() {
        let pieces = [
            json!({ "jsonPath": "$.a", "stringValue": "Bos", "willContinue": true }),
            json!({ "jsonPath": "$.a", "stringValue": "ton" }),
            json!({ "jsonPath": "$.a", "stringValue": "" }),
            json!({ "jsonPath": "$.list[1].n", "numberValue": 2.5 }),
            json!({ "jsonPath": "$.list[0]", "boolValue": false }),
            json!({ "jsonPath": "$['o.d\\'d'][\"x\"]", "nullValue": "NULL_VALUE" }),
            json!({ "jsonPath": "$.empty", "stringValue": "" }),
            json!({ "jsonPath": "$.none", "nullValue": null }),
        ];
        let expected = json!({ "a": "Boston", "list": [false, { "n": 2.5 }],
            "o.d'd": { "x": null }, "empty": "", "none": null });
        assert_eq!(written(&pieces), Some(expected));
    }

    #[test]
    fn what_has_no_place_or_no_value_is_told() {
        for piece in [
            json!({ "jsonPath": "a", "stringValue": "x" }),
            json!({ "jsonPath": "$..a", "stringValue": "x" }),
            json!({ "jsonPath": "$.a[", "stringValue": "x" }),
            json!({ "jsonPath": "$['a", "stringValue": "x" }),
            json!({ "jsonPath": "$[0]", "stringValue": "x" }),
            json!({ "jsonPath": "$.a[99999999999]", "stringValue": "x" }),
            json!({ "jsonPath": format!("${}", ".a".repeat(100)), "stringValue": "x" }),
            json!({ "jsonPath": "$.a" }),
            json!({ "stringValue": "x" }),
        ] {
            assert_eq!(written(std::slice::from_ref(&piece)), None, "{piece}");
        }
    }
}
