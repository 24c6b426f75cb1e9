//! Calls of a reply. They usually arrive complete, and in pieces if the server streams arguments.

use leftfold_events::Json;
use leftfold_events::event::CallSpec;
use serde_json::{Map, Value};

use super::paths;
use crate::stream::{EventQueue, StreamEvent};

/// The prefix of ids that replace those that the API did not give. They are not sent.
const MADE_UP: &str = "leftfold_";

/// Whether this id of a call is such a replacement, which the API does not know.
pub(super) fn is_made_up(id: &str) -> bool {
    id.is_empty() || id.starts_with(MADE_UP)
}

/// A call whose arguments are not complete yet.
#[derive(Debug)]
pub(super) struct Call {
    id: String,
    name: String,
    args: Value,
    /// Whether a piece had no valid place. The arguments are then not those that the model wrote.
    is_broken: bool,
}

impl Call {
    /// Begins a call. `number` counts the calls of a reply.
    pub(super) fn begin(function: &Value, number: usize, out: &mut EventQueue) -> Self {
        let text = |name| function.get(name).and_then(Value::as_str).unwrap_or_default();
        let id = match text("id") {
            "" => format!("{MADE_UP}{number}"),
            id => id.to_owned(),
        };
        let name = text("name").to_owned();
        out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: name.clone() });
        let args = Value::Object(Map::new());
        let mut call = Self { id, name, args, is_broken: false };
        call.push(function);
        call
    }

    /// Adds the arguments of a piece. Returns whether there is more to come.
    pub(super) fn push(&mut self, function: &Value) -> bool {
        if let Some(args) = function.get("args").filter(|args| !args.is_null()) {
            match (&mut self.args, args) {
                (Value::Object(known), Value::Object(more)) => known.extend(more.clone()),
                (known, _) => known.clone_from(args),
            }
        }
        let pieces = function.get("partialArgs").and_then(Value::as_array);
        for piece in pieces.into_iter().flatten() {
            self.is_broken |= paths::write(&mut self.args, piece).is_none();
        }
        continues(function)
    }

    /// Ends the call. Truncated input becomes a JSON string, so that no tool accepts it.
    pub(super) fn close(self, is_whole: bool, out: &mut EventQueue) {
        let input = if is_whole && !self.is_broken {
            Json::from_value(&self.args)
        } else {
            Json::from_value(&Value::from(self.args.to_string()))
        };
        out.push_back(StreamEvent::ToolCall(CallSpec { id: self.id, name: self.name, input }));
    }
}

/// Whether the piece says that its call continues.
pub(super) fn continues(function: &Value) -> bool {
    function.get("willContinue").and_then(Value::as_bool).unwrap_or_default()
}

/// Whether the piece begins a call rather than continuing one.
pub(super) fn begins(function: &Value) -> bool {
    function.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}
