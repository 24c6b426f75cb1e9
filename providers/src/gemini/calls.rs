//! Calls: whole as a rule, in pieces where the server streams arguments.

use std::collections::VecDeque;

use leftfold_events::Json;
use leftfold_events::event::CallSpec;
use serde_json::{Map, Value};

use super::paths;
use crate::stream::StreamEvent;

type Out = VecDeque<StreamEvent>;

/// The beginning of ids that stand in for those which the API has not given. They are not sent.
const MADE_UP: &str = "leftfold_";

/// Whether the API has never heard of this id of a call.
pub(super) fn is_made_up(id: &str) -> bool {
    id.is_empty() || id.starts_with(MADE_UP)
}

/// A call whose arguments are not complete yet.
#[derive(Debug)]
pub(super) struct Call {
    id: String,
    name: String,
    args: Value,
    /// Pieces that had no place: whatever the arguments are now, the model wrote something else.
    is_broken: bool,
}

impl Call {
    /// `number` counts the calls of a reply.
    pub(super) fn begin(function: &Value, number: usize, out: &mut Out) -> Self {
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

    /// Takes what a piece has of the arguments. Whether there is more to come.
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

    /// Input that was broken off becomes the text that it is, so that no tool takes it.
    pub(super) fn close(self, is_whole: bool, out: &mut Out) {
        let input = if is_whole && !self.is_broken {
            Json::from_value(&self.args)
        } else {
            Json::from_value(&Value::from(self.args.to_string()))
        };
        out.push_back(StreamEvent::ToolCall(CallSpec { id: self.id, name: self.name, input }));
    }
}

/// Whether a piece says that there is more of its call.
pub(super) fn continues(function: &Value) -> bool {
    function.get("willContinue").and_then(Value::as_bool).unwrap_or_default()
}

/// Whether a piece begins a call rather than going on with one.
pub(super) fn begins(function: &Value) -> bool {
    function.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}
