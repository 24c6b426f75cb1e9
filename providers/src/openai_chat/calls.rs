//! Assembles calls from pieces whose index, id and name may be missing, empty or repeated.

use leftfold_events::Json;
use leftfold_events::event::CallSpec;
use serde_json::{Map, Value};

use super::returned::Returned;
use super::wire::{CallPiece, Words};
use crate::parts::AnswerParts;
use crate::stream::{EventQueue, StreamEvent};

/// The calls of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    /// The wire's index, which need not begin at 0; `None` if the server sends none.
    index: Option<Value>,
    /// The wire's id; empty until it comes.
    id: String,
    name: String,
    json: String,
    /// Members that must go back with the call.
    returned: Map<String, Value>,
    /// How many bytes of `json` have been passed on.
    emitted: usize,
    /// The id under which the call was announced.
    announced: Option<String>,
    is_done: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Call::is_empty_piece)
    }

    pub(super) fn take(&mut self, piece: CallPiece, out: &mut EventQueue) {
        let CallPiece { index, id, function, extra_content, provider_specific_fields } = piece;
        let (name, arguments) = function.map(|f| (f.name, f.arguments)).unwrap_or_default();
        let id = id.map(Words::into_text).unwrap_or_default();
        let name = name.map(Words::into_text).unwrap_or_default();
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
        for (name, value) in [
            ("extra_content", extra_content),
            ("provider_specific_fields", provider_specific_fields),
        ] {
            if let Some(value) = value.filter(Value::is_object) {
                call.returned.insert(name.to_owned(), value);
            }
        }
        match arguments {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => call.json.push_str(&text),
            Some(value) => call.json.push_str(&value.to_string()),
        }
        if !call.name.is_empty() {
            call.emit(at, out);
        }
    }

    /// The position of the piece's call. A new call is added if the piece begins one.
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

    /// Ends all calls. Unless the answer is whole, the last one may be cut off before its arguments: its input is then
    /// a JSON string, which no tool accepts.
    pub(super) fn close(&mut self, is_whole: bool, parts: &mut AnswerParts, out: &mut EventQueue) {
        let last = self.0.iter().rposition(|call| !call.is_empty_piece());
        for (at, call) in self.0.iter_mut().enumerate() {
            if call.is_done || call.is_empty_piece() {
                continue;
            }
            call.is_done = true;
            let id = call.emit(at, out);
            if !call.returned.is_empty() {
                let members = std::mem::take(&mut call.returned);
                parts.seal(Returned::Call(members).write(), out);
            }
            let is_cut = !is_whole && Some(at) == last && call.json.trim().is_empty();
            let input = if is_cut { Json::from_value(&Value::from("")) } else { input(&call.json) };
            let name = call.name.clone();
            out.push_back(StreamEvent::ToolCall(CallSpec { id, name, input }));
        }
    }
}

impl Call {
    /// Whether the call is only the trace of an empty piece.
    fn is_empty_piece(&self) -> bool {
        self.name.is_empty() && self.json.trim().is_empty()
    }

    /// Whether a piece with this id and name begins another call in spite of its index: some
    /// servers give all calls one index, or no index.
    fn is_another(&self, id: &str, name: &str) -> bool {
        let by_id = !id.is_empty() && !self.id.is_empty() && id != self.id;
        let by_name = id.is_empty() && self.index.is_none() && !self.name.is_empty();
        !name.is_empty() && (by_id || by_name)
    }

    /// Announces the call if that was not done, and passes on new input.
    fn emit(&mut self, at: usize, out: &mut EventQueue) -> String {
        let given = &self.id;
        let id = self.announced.get_or_insert_with(|| {
            let id = if given.is_empty() { format!("call_{at}") } else { given.clone() };
            out.push_back(StreamEvent::ToolInputStart { id: id.clone(), name: self.name.clone() });
            id
        });
        if let Some(text) = self.json.get(self.emitted..).filter(|text| !text.is_empty()) {
            out.push_back(StreamEvent::ToolInputDelta { id: id.clone(), text: text.to_owned() });
            self.emitted = self.json.len();
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
