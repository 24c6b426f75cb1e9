//! Files of JSON lines, of which some may be broken.

use serde_json::Value;

use super::LeftOut;

/// Each line that is an object, with its number from 1; the others are noted.
pub(super) fn objects(text: &str, name: &str, left_out: &mut LeftOut) -> Vec<(usize, Value)> {
    let mut objects = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.is_object() => objects.push((at + 1, value)),
            Ok(_) => left_out.bad(name, at + 1, "not an object"),
            Err(error) => left_out.bad(name, at + 1, format!("not JSON: {error}")),
        }
    }
    objects
}
