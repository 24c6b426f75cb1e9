//! Decodes the stream of Responses into stream events.

use std::collections::HashSet;

use leftfold_events::event::{FailureClass, Finish};
use serde_json::{Value, json};

use super::calls::Call;
use super::texts::{List, Texts};
use super::wire::{ESSENTIAL, Event, Piece, PlainDelta, text};
use super::{reasoning, usage};
use crate::errors::Failure;
use crate::parts::{AnswerPart, reported, unreadable};
use crate::stream::{self, EventQueue, StreamEvent};
use leftfold_framing::sse::SseEvent;

#[derive(Debug)]
pub(crate) struct Decoder {
    provider: String,
    items: Vec<OpenItem>,
    /// Number of parts opened so far. It numbers their ids.
    parts: u32,
    calls: usize,
    /// Tools with plain input that the request offered. Calls of any other such tool are the
    /// provider's own, and were answered there.
    custom: HashSet<String>,
}

/// An item of the answer. Pieces refer to it by its index, or by its id if they have no index.
#[derive(Debug)]
struct OpenItem {
    index: Option<u64>,
    id: String,
    item: Item,
}

#[derive(Debug)]
enum Item {
    Texts(Texts),
    Call(Call),
    Done,
    /// The provider's own tools and their results, and unknown kinds of items.
    Skipped,
}

impl Item {
    fn is_texts(&self, kind: AnswerPart) -> bool {
        matches!(self, Self::Texts(texts) if texts.kind == kind)
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::Call(_))
    }
}

impl Decoder {
    pub(crate) fn new(provider: &str) -> Self {
        Self {
            provider: provider.to_owned(),
            items: Vec::new(),
            parts: 0,
            calls: 0,
            custom: HashSet::new(),
        }
    }

    fn take(&mut self, event: Event, data: &str, out: &mut EventQueue) {
        use List::{Content, Summary};
        match event {
            Event::Created { response } => self.offered(&response.unwrap_or_default()),
            Event::ItemAdded(piece) => {
                self.add(piece.output_index, &piece.item, out);
            }
            Event::ItemDone(piece) => self.done(piece.output_index, &piece.item, out),
            Event::TextDelta(piece) => {
                self.words(AnswerPart::Text, Content, piece, Texts::push, out);
            }
            Event::TextDone(piece) => {
                self.words(AnswerPart::Text, Content, piece, Texts::set_text, out);
            }
            Event::SummaryDelta(piece) => {
                self.words(AnswerPart::Reasoning, Summary, piece, Texts::push, out);
            }
            Event::SummaryDone(piece) => {
                self.words(AnswerPart::Reasoning, Summary, piece, Texts::set_text, out);
            }
            Event::ReasoningDelta(piece) => {
                self.words(AnswerPart::Reasoning, Content, piece, Texts::push, out);
            }
            Event::ReasoningDone(piece) => {
                self.words(AnswerPart::Reasoning, Content, piece, Texts::set_text, out);
            }
            Event::ArgumentsDelta(piece) => self.arguments(piece, Call::push, out),
            Event::ArgumentsDone(piece) => self.arguments(piece, Call::set_input, out),
            Event::Completed { response } => self.finish(&response, true, out),
            Event::Incomplete { response } => self.finish(&response, false, out),
            Event::Failed { response } => out.push_back(self.broken_off(&response)),
            Event::Error => {
                let value: Value = serde_json::from_str(data).unwrap_or_default();
                out.push_back(reported(&self.provider, &value));
            }
            Event::Unknown => {}
        }
    }

    fn offered(&mut self, response: &Value) {
        let tools = response.get("tools").and_then(Value::as_array).into_iter().flatten();
        let custom = tools.filter(|tool| text(tool, "type") == "custom");
        self.custom.extend(custom.map(|tool| text(tool, "name").to_owned()));
    }

    fn add(&mut self, index: Option<u64>, item: &Value, out: &mut EventQueue) -> usize {
        let kept = match text(item, "type") {
            "message" => {
                self.phase(item, out);
                Item::Texts(Texts::new(AnswerPart::Text))
            }
            "reasoning" => Item::Texts(Texts::new(AnswerPart::Reasoning)),
            "function_call" => Item::Call(Call::begin(item, out)),
            "custom_tool_call" if self.custom.contains(text(item, "name")) => {
                Item::Call(Call::begin(item, out))
            }
            kind => {
                tracing::debug!(kind, "skipping an item");
                Item::Skipped
            }
        };
        self.items.push(OpenItem { index, id: text(item, "id").to_owned(), item: kept });
        self.items.len() - 1
    }

    /// Passes on the phase of a message, before its text.
    fn phase(&mut self, message: &Value, out: &mut EventQueue) {
        if let Some(signature) = reasoning::seal_phase(message) {
            let id = self.parts.to_string();
            self.parts += 1;
            out.push_back(StreamEvent::ReasoningStart { id: id.clone() });
            let signature = Some(signature);
            out.push_back(StreamEvent::ReasoningEnd { id, signature, redacted: false });
        }
    }

    /// Handles the complete item. It takes precedence over the pieces.
    fn done(&mut self, index: Option<u64>, item: &Value, out: &mut EventQueue) {
        let id = text(item, "id");
        let fits: fn(&Item) -> bool = match text(item, "type") {
            "message" => |item| item.is_texts(AnswerPart::Text),
            "reasoning" => |item| item.is_texts(AnswerPart::Reasoning),
            "function_call" | "custom_tool_call" => Item::is_call,
            _ => |_| false,
        };
        let at = match self.find(index, id, fits) {
            Some(at) if !matches!(self.items[at].item, Item::Done) => at,
            Some(at) if self.items[at].id == id => return,
            Some(_) | None => self.add(index, item, out),
        };
        let slot = &mut self.items[at];
        id.clone_into(&mut slot.id);
        if !matches!(slot.item, Item::Skipped) {
            let open = std::mem::replace(&mut slot.item, Item::Done);
            self.close(open, Some(item), text(item, "status") != "incomplete", out);
        }
    }

    /// The item of a piece: by index if it has one, else by id, else the last one that `fits`.
    fn find(&self, index: Option<u64>, id: &str, fits: fn(&Item) -> bool) -> Option<usize> {
        let slots = &self.items;
        if index.is_some() {
            return slots.iter().rposition(|slot| slot.index == index);
        }
        let named = slots.iter().rposition(|slot| !id.is_empty() && slot.id == id);
        named.or_else(|| slots.iter().rposition(|slot| fits(&slot.item)))
    }

    fn words(
        &mut self,
        kind: AnswerPart,
        list: List,
        piece: Piece,
        write: fn(&mut Texts, (List, u64), &str, &mut u32, &mut EventQueue),
        out: &mut EventQueue,
    ) {
        let (index, id) = (piece.output_index, piece.item_id.as_deref().unwrap_or_default());
        let fits: fn(&Item) -> bool = match kind {
            AnswerPart::Text => |item| item.is_texts(AnswerPart::Text),
            AnswerPart::Reasoning => |item| item.is_texts(AnswerPart::Reasoning),
        };
        let at = self.find(index, id, fits).unwrap_or_else(|| {
            let item = Item::Texts(Texts::new(kind));
            self.items.push(OpenItem { index, id: id.to_owned(), item });
            self.items.len() - 1
        });
        if let Item::Texts(texts) = &mut self.items[at].item
            && texts.kind == kind
        {
            let place = (list, piece.index());
            write(texts, place, &piece.words(), &mut self.parts, out);
        }
    }

    /// Handles a piece of a call's arguments. A piece without a known item is skipped, because only
    /// the item names the tool.
    fn arguments(
        &mut self,
        piece: Piece,
        write: fn(&mut Call, &str, &mut EventQueue),
        out: &mut EventQueue,
    ) {
        let id = piece.item_id.as_deref().unwrap_or_default();
        let at = self.find(piece.output_index, id, Item::is_call);
        if let Some(Item::Call(call)) = at.map(|at| &mut self.items[at].item) {
            write(call, &piece.words(), out);
        }
    }

    fn close(&mut self, open: Item, item: Option<&Value>, is_whole: bool, out: &mut EventQueue) {
        match open {
            Item::Texts(texts) => texts.close(item, &mut self.parts, out),
            Item::Call(call) => {
                call.close(item, is_whole, self.calls, out);
                self.calls += 1;
            }
            Item::Done | Item::Skipped => {}
        }
    }

    fn finish(&mut self, response: &Value, is_completed: bool, out: &mut EventQueue) {
        let status = text(response, "status");
        if status == "failed" {
            return out.push_back(self.broken_off(response));
        }
        let is_whole = is_completed && status != "incomplete";
        if self.items.is_empty() {
            // items of which the server streamed nothing
            let items = response.get("output").and_then(Value::as_array);
            items.into_iter().flatten().for_each(|item| self.done(None, item, out));
        }
        // some servers do not close items
        for slot in std::mem::take(&mut self.items) {
            self.close(slot.item, None, is_whole, out);
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        let finish = match reason {
            _ if is_whole && self.calls > 0 => Finish::ToolCalls,
            _ if is_whole => Finish::Stop,
            Some("max_output_tokens" | "max_tokens") => Finish::Length,
            Some("content_filter") => Finish::ContentFilter,
            Some(_) | None => Finish::Other,
        };
        let usage = response.get("usage").map(usage::neutral).unwrap_or_default();
        out.push_back(StreamEvent::Finish { finish, usage });
    }

    /// A response that failed, with or without a reason.
    fn broken_off(&self, response: &Value) -> StreamEvent {
        if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
            return reported(&self.provider, error);
        }
        let message = "the server broke off its answer without giving a reason";
        let failure = Failure::new(FailureClass::Other, message);
        StreamEvent::Failed(Failure { retryable: true, ..failure })
    }

    /// The outcome of an event that cannot be parsed.
    fn unreadable(&self, event: &SseEvent<'_>, reason: &serde_json::Error) -> Option<StreamEvent> {
        let value: Value = serde_json::from_str(&event.data).unwrap_or_default();
        let is_error = event.name == "error" || text(&value, "object") == "error";
        if is_error && value.get("error").is_none_or(Value::is_null) {
            return Some(reported(&self.provider, &value));
        }
        let is_essential = |kind: &str| ESSENTIAL.iter().any(|name| kind.starts_with(name));
        unreadable(&self.provider, event, &value, is_essential, reason)
    }
}

impl stream::Decoder for Decoder {
    fn unstreamed(&self, answer: &Value) -> Option<Vec<String>> {
        let event = || json!({ "type": "response.completed", "response": answer }).to_string();
        (text(answer, "object") == "response").then(|| vec![event()])
    }

    fn event(&mut self, event: &SseEvent<'_>, out: &mut EventQueue) {
        if event.name.ends_with(".delta")
            && let Ok(plain) = serde_json::from_str::<PlainDelta<'_>>(&event.data)
            && let Some(read) = plain.event()
        {
            return self.take(read, &event.data, out);
        }
        match serde_json::from_str::<Event>(&event.data) {
            Ok(read) => self.take(read, &event.data, out),
            Err(e) => out.extend(self.unreadable(event, &e)),
        }
    }
}
