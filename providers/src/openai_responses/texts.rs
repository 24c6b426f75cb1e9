//! Text and reasoning of one item.

use serde_json::Value;

use super::reasoning;
use super::wire::text;
use crate::parts::AnswerPart;
use crate::stream::{EventQueue, StreamEvent};

/// The lists of an item that contain texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Summary,
    Content,
}

/// The texts of one item so far. Its parts stay open until the item is done, since only then the
/// whole texts and the signature are known.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) kind: AnswerPart,
    parts: Vec<TextPart>,
}

#[derive(Debug)]
struct TextPart {
    list: List,
    index: u64,
    /// The number from which the part's neutral id is made.
    number: u32,
    text: String,
}

impl Texts {
    pub(super) fn new(kind: AnswerPart) -> Self {
        Self { kind, parts: Vec::new() }
    }

    /// Adds a piece to a part. `next` numbers the parts of the answer.
    pub(super) fn push(
        &mut self,
        (list, index): (List, u64),
        text: &str,
        next: &mut u32,
        out: &mut EventQueue,
    ) {
        if text.is_empty() {
            return;
        }
        let at = self.parts.iter().position(|part| (part.list, part.index) == (list, index));
        let at = at.unwrap_or_else(|| self.open((list, index), next, out));
        let part = &mut self.parts[at];
        part.text.push_str(text);
        let (id, text) = (part.number.to_string(), text.to_owned());
        out.push_back(self.kind.delta(id, text));
    }

    /// Sets the whole text of a part, of which pieces may already have come.
    pub(super) fn set_text(
        &mut self,
        at: (List, u64),
        all: &str,
        next: &mut u32,
        out: &mut EventQueue,
    ) {
        let part = self.parts.iter().find(|part| (part.list, part.index) == at);
        let seen = part.map_or("", |part| &part.text);
        if let Some(rest) = all.strip_prefix(seen).map(str::to_owned) {
            self.push(at, &rest, next, out);
        }
    }

    /// Ends the item's parts. `item` is the whole item, if the server repeated it.
    pub(super) fn close(mut self, item: Option<&Value>, next: &mut u32, out: &mut EventQueue) {
        let mut signature = None;
        if let Some(item) = item {
            self.complete(List::Summary, &texts(item, "summary"), next, out);
            self.complete(List::Content, &texts(item, "content"), next, out);
            signature = reasoning::seal(item).filter(|_| self.kind == AnswerPart::Reasoning);
        }
        let redacted = self.parts.is_empty();
        if redacted && signature.is_some() {
            self.open((List::Summary, 0), next, out);
        }
        let last = self.parts.len().saturating_sub(1);
        for (at, part) in self.parts.into_iter().enumerate() {
            let id = part.number.to_string();
            out.push_back(match self.kind {
                AnswerPart::Text => StreamEvent::TextEnd { id },
                // an item has only one signature
                AnswerPart::Reasoning => {
                    let signature = signature.take_if(|_| at == last);
                    StreamEvent::ReasoningEnd { id, signature, redacted }
                }
            });
        }
    }

    /// Adds the missing texts of a list. The indices of texts are not compared: the whole item
    /// counts them by its list, and the pieces use the server's own numbers.
    fn complete(&mut self, list: List, texts: &[&str], next: &mut u32, out: &mut EventQueue) {
        let seen = self.parts.iter().filter(|part| part.list == list);
        let last = seen.clone().next_back().map(|part| part.index);
        let seen: String = seen.map(|part| part.text.as_str()).collect();
        match last {
            None => {
                for (index, text) in (0..).zip(texts) {
                    self.push((list, index), text, next, out);
                }
            }
            Some(last) => {
                if let Some(rest) = texts.concat().strip_prefix(&seen) {
                    self.push((list, last), rest, next, out);
                }
            }
        }
    }

    fn open(&mut self, (list, index): (List, u64), next: &mut u32, out: &mut EventQueue) -> usize {
        let number = *next;
        *next += 1;
        out.push_back(self.kind.start(number.to_string()));
        self.parts.push(TextPart { list, index, number, text: String::new() });
        self.parts.len() - 1
    }
}

/// The texts in a list of an item's parts; a refusal counts as text.
fn texts<'a>(item: &'a Value, list: &str) -> Vec<&'a str> {
    let parts = item.get(list).and_then(Value::as_array);
    let words = |part: &'a Value| match text(part, "text") {
        "" => text(part, "refusal"),
        text => text,
    };
    parts.into_iter().flatten().map(words).collect()
}
