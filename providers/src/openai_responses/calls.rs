//! A call of an answer, from its first piece to the complete item.

use leftfold_events::Json;
use leftfold_events::event::CallSpec;
use serde_json::Value;

use super::wire::text;
use crate::stream::{EventQueue, StreamEvent};

#[derive(Debug)]
pub(super) struct Call {
    /// The id that its result refers to. It is not the id of the item.
    id: String,
    name: String,
    json: String,
    /// Whether its input is plain text.
    is_custom: bool,
    /// Whether the beginning of the call was announced.
    is_announced: bool,
}

impl Call {
    pub(super) fn begin(item: &Value, out: &mut EventQueue) -> Self {
        let mut call = Self {
            id: String::new(),
            name: String::new(),
            json: String::new(),
            is_custom: text(item, "type") == "custom_tool_call",
            is_announced: false,
        };
        call.announce(item, out);
        call.push(&input_of(item), out);
        call
    }

    pub(super) fn push(&mut self, text: &str, out: &mut EventQueue) {
        self.json.push_str(text);
        if self.is_announced && !text.is_empty() {
            let (id, text) = (self.id.clone(), text.to_owned());
            out.push_back(StreamEvent::ToolInputDelta { id, text });
        }
    }

    /// Sets the whole input, of which pieces may already have come.
    pub(super) fn set_input(&mut self, all: &str, out: &mut EventQueue) {
        match all.strip_prefix(self.json.as_str()).map(str::to_owned) {
            Some(rest) => self.push(&rest, out),
            // the whole input counts, even if the pieces differed
            None if !all.is_empty() => all.clone_into(&mut self.json),
            None => {}
        }
    }

    /// Ends the call with the input of `item`, or with the pieces so far. Truncated input becomes a
    /// JSON string, even if it happens to be JSON, so that no tool accepts it.
    pub(super) fn close(
        mut self,
        item: Option<&Value>,
        is_whole: bool,
        number: usize,
        out: &mut EventQueue,
    ) {
        if let Some(item) = item {
            self.announce(item, out);
            // the complete item counts, even if the announced one named the call otherwise
            for (known, name) in [(&mut self.id, "call_id"), (&mut self.name, "name")] {
                match text(item, name) {
                    "" => {}
                    given => given.clone_into(known),
                }
            }
            self.set_input(&input_of(item), out);
        }
        if self.id.is_empty() {
            self.id = format!("call_{number}");
        }
        let input = match Json::parse(&self.json) {
            _ if self.is_custom || !is_whole => Json::from_value(&Value::from(self.json)),
            Ok(input) => input,
            Err(_) if self.json.trim().is_empty() => Json::object(),
            Err(_) => Json::from_value(&Value::from(self.json)),
        };
        out.push_back(StreamEvent::ToolCall(CallSpec { id: self.id, name: self.name, input }));
    }

    /// Announces the call as soon as its name and id are known.
    fn announce(&mut self, item: &Value, out: &mut EventQueue) {
        if self.is_announced {
            return;
        }
        for (known, name) in [(&mut self.id, "call_id"), (&mut self.name, "name")] {
            if known.is_empty() {
                text(item, name).clone_into(known);
            }
        }
        if !self.id.is_empty() && !self.name.is_empty() {
            self.is_announced = true;
            let (id, name) = (self.id.clone(), self.name.clone());
            out.push_back(StreamEvent::ToolInputStart { id, name });
            let known = std::mem::take(&mut self.json);
            self.push(&known, out);
        }
    }
}

/// The input as text. Some servers send it as a value.
fn input_of(item: &Value) -> String {
    match item.get("arguments").or_else(|| item.get("input")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}
