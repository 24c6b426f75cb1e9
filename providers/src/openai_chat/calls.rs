//! Calls, put together from pieces whose index, id and name may be missing, empty or repeated.

use std::collections::VecDeque;

use leftfold_events::Json;
use leftfold_events::event::CallSpec;
use serde_json::Value;

use super::wire::{CallPiece, Words};
use crate::stream::StreamEvent;

type Out = VecDeque<StreamEvent>;

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    /// The wire's, which need not begin at 0; `None` where it gives none.
    index: Option<Value>,
    /// As the wire gave it; empty until then.
    id: String,
    name: String,
    json: String,
    /// What of `json` has been shown.
    shown: usize,
    /// The id under which it was announced.
    announced: Option<String>,
    is_done: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Call::is_ghost)
    }

    pub(super) fn take(&mut self, piece: CallPiece, out: &mut Out) {
        let CallPiece { index, id, function } = piece;
        let (name, arguments) = function.map(|f| (f.name, f.arguments)).unwrap_or_default();
        let id = id.map(Words::whole).unwrap_or_default();
        let name = name.map(Words::whole).unwrap_or_default();
        let at = self.place(index, &id, &name);
        let call = &mut self.0[at];
        if call.is_done {
            tracing::debug!(id, "skipping a piece of a call that is complete");
            return;
        }
        for (known, new) in [(&mut call.id, id), (&mut call.name, name)] {
            if known.is_empty() {
                *known = new;
            }
        }
        match arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.json.push_str(&text),
            Some(value) => call.json.push_str(&value.to_string()),
        }
        if !call.name.is_empty() {
            call.show(at, out);
        }
    }

    /// Where the call of a piece is; a new place if it begins one.
    fn place(&mut self, index: Option<Value>, id: &str, name: &str) -> usize {
        let found = match &index {
            Some(_) => self.0.iter().rposition(|call| call.index == index),
            None if id.is_empty() => self.0.len().checked_sub(1),
            None => self.0.iter().rposition(|call| call.id == id),
        };
        match found {
            Some(at) if !self.0[at].is_another(id, name) => at,
            Some(_) | None => {
                self.0.push(Call { index, ..Call::default() });
                self.0.len() - 1
            }
        }
    }

    /// No more pieces are to come.
    pub(super) fn close(&mut self, out: &mut Out) {
        for (at, call) in self.0.iter_mut().enumerate() {
            if call.is_done || call.is_ghost() {
                continue;
            }
            call.is_done = true;
            let id = call.show(at, out);
            let (name, input) = (call.name.clone(), input(&call.json));
            out.push_back(StreamEvent::ToolCall(CallSpec { id, name, input }));
        }
    }
}

impl Call {
    /// Whether it is only the trace of an empty piece.
    fn is_ghost(&self) -> bool {
        self.name.is_empty() && self.json.trim().is_empty()
    }

    /// Whether a piece with this id and name begins another call in spite of its index: some
    /// servers give all calls the same, or none.
    fn is_another(&self, id: &str, name: &str) -> bool {
        let by_id = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let by_name = id.is_empty() && self.index.is_none() && !self.name.is_empty();
        !name.is_empty() && (by_id || by_name)
    }

    /// Announces the call, if that has not been done, and hands out what is new of its input.
    fn show(&mut self, at: usize, out: &mut Out) -> String {
        let given = &self.id;
        let id = self.announced.get_or_insert_with(|| {
            let id = if given.is_empty() { format!("call_{at}") } else { given.clone() };
            out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: self.name.clone() });
            id
        });
        if let Some(text) = self.json.get(self.shown..).filter(|text| !text.is_empty()) {
            out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: text.to_owned() });
            self.shown = self.json.len();
        }
        id.clone()
    }
}

fn input(json: &str) -> Json {
    if json.trim().is_empty() {
        return Json::object();
    }
    Json::parse(json).unwrap_or_else(|_| Json::from_value(&Value::from(json)))
}
