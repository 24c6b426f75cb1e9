//! Tells for each byte of a body which piece of the request it comes from.
//!
//! The encoders know nothing of this. The request is encoded twice: as it is, and with a mark in place of each text.
//! A string that holds a mark in the second body comes from the marked piece in the first one.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use leftfold_events::request::{AssistantPart, RequestMessage};
use leftfold_events::{Json, Request};
use serde_json::Value;

/// Some bytes of a body, and the piece of the request that they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub at: Range<usize>,
    pub place: RequestPlace,
}

/// A piece of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestPlace {
    /// A block of the system prompt.
    System(usize),
    Tools,
    /// A part or a result of a message.
    Message(usize, usize),
    Model,
    Options,
    CacheKey,
    MaxOutput,
    /// Names, roles and brackets that the wire format has of itself, and ids in its form.
    Format,
    /// A text that stands in the body and cannot be told from where.
    Unknown,
}

impl fmt::Display for RequestPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(block) => write!(f, "system.{block}"),
            Self::Tools => f.write_str("tools"),
            Self::Message(message, part) => write!(f, "messages.{message}.{part}"),
            Self::Model => f.write_str("model"),
            Self::Options => f.write_str("options"),
            Self::CacheKey => f.write_str("cache_key"),
            Self::MaxOutput => f.write_str("max_output"),
            Self::Format => f.write_str("format"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The mark of a text: its number between two characters for private use.
const OPEN: char = '\u{e000}';
const CLOSE: char = '\u{e001}';

/// The spans of `body`, which is the one of `request`. They follow each other without a gap.
pub(crate) fn spans(request: &Request, encode: impl Fn(&Request) -> Vec<u8>) -> Vec<Span> {
    let body = encode(request);
    let mut marks = Marks::default();
    let marked = marks.request(request);
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap_or(Value::Null);
    let (real, marked) = (parse(&body), parse(&encode(&marked)));
    let mut walk = Walk { marks, spans: Vec::new(), at: 0 };
    walk.value(&real, Some(&marked), "", None);
    if walk.at != body.len() {
        // an encoder that does not write compact JSON: nothing can be told
        return vec![Span { at: 0..body.len(), place: RequestPlace::Unknown }];
    }
    walk.spans
}

/// The texts of a request that were marked, and the short ones that are found by their value.
#[derive(Default)]
struct Marks {
    texts: Vec<(RequestPlace, String)>,
    /// Ids, names and signatures, which encoders read: they stay as they are.
    known: HashMap<String, RequestPlace>,
    /// Keys and values of options, and those of arguments that are no texts.
    members: Vec<(String, Value, RequestPlace)>,
    max_output: u64,
}

impl Marks {
    fn request(&mut self, request: &Request) -> Request {
        let mut marked = request.clone();
        self.max_output = request.max_output;
        self.leaves(RequestPlace::Options, &request.options.value(), "");
        self.known.insert(request.cache_key.clone(), RequestPlace::CacheKey);
        self.known.insert(request.model.id.clone(), RequestPlace::Model);
        for (block, text) in marked.system.iter_mut().enumerate() {
            self.mark(RequestPlace::System(block), text);
        }
        for (at, message) in marked.messages.iter_mut().enumerate() {
            match message {
                RequestMessage::User { parts } => {
                    for (index, part) in Arc::make_mut(parts).iter_mut().enumerate() {
                        let place = RequestPlace::Message(at, index);
                        self.know(place, part.mime.iter().chain(&part.name));
                        self.mark(place, &mut part.text);
                    }
                }
                RequestMessage::Assistant { parts } => {
                    for (index, part) in Arc::make_mut(parts).iter_mut().enumerate() {
                        self.answer(RequestPlace::Message(at, index), part);
                    }
                }
                RequestMessage::Tool { results } => {
                    for (index, result) in Arc::make_mut(results).iter_mut().enumerate() {
                        let place = RequestPlace::Message(at, index);
                        self.know(place, [&result.call, &result.name]);
                        let mut output = result.output.to_string();
                        self.mark(place, &mut output);
                        result.output = output.into();
                        for file in &mut result.attachments {
                            self.know(place, [&file.mime, &file.name]);
                            self.mark(place, &mut file.base64);
                        }
                    }
                }
            }
        }
        marked
    }

    fn answer(&mut self, place: RequestPlace, part: &mut AssistantPart) {
        match part {
            AssistantPart::Text { text } => self.mark(place, text),
            AssistantPart::Reasoning { text, signature, .. } => {
                self.know(place, [&*signature]);
                if let Ok(item) = serde_json::from_str::<Value>(signature) {
                    // the whole item, which goes back unchanged
                    self.texts_of(place, &item);
                }
                self.mark(place, text);
            }
            AssistantPart::Call { id, name, input } => {
                self.know(place, [&*id, &*name]);
                let mut value = input.value();
                self.arguments(place, &mut value);
                self.leaves(place, &value, "");
                *input = Json::from_value(&value);
            }
        }
    }

    fn arguments(&mut self, place: RequestPlace, value: &mut Value) {
        match value {
            Value::String(text) => self.mark(place, text),
            Value::Array(items) => {
                items.iter_mut().for_each(|item| self.arguments(place, item));
            }
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.arguments(place, member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn texts_of(&mut self, place: RequestPlace, value: &Value) {
        match value {
            Value::String(text) => self.know(place, [text]),
            Value::Array(items) => items.iter().for_each(|item| self.texts_of(place, item)),
            Value::Object(members) => {
                members.values().for_each(|member| self.texts_of(place, member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn leaves(&mut self, place: RequestPlace, value: &Value, key: &str) {
        match value {
            Value::Object(members) => {
                members.iter().for_each(|(key, member)| self.leaves(place, member, key));
            }
            Value::Array(items) => items.iter().for_each(|item| self.leaves(place, item, key)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.members.push((key.to_owned(), value.clone(), place));
            }
        }
    }

    fn know<'a>(&mut self, place: RequestPlace, texts: impl IntoIterator<Item = &'a String>) {
        for text in texts {
            self.known.entry(text.clone()).or_insert(place);
        }
    }

    /// Replaces a text by its mark. Blank texts stay: encoders leave them out.
    fn mark(&mut self, place: RequestPlace, text: &mut String) {
        if text.trim().is_empty() {
            return;
        }
        let mark = format!("{OPEN}{}{CLOSE}", self.texts.len());
        self.texts.push((place, std::mem::replace(text, mark)));
    }
}

struct Walk {
    marks: Marks,
    spans: Vec<Span>,
    at: usize,
}

impl Walk {
    /// Adds the bytes of `real`, whose counterpart in the marked body is `marked`. `key` is the name of the member
    /// that it is in, `within` the place of everything below it.
    fn value(
        &mut self,
        real: &Value,
        marked: Option<&Value>,
        key: &str,
        within: Option<RequestPlace>,
    ) {
        match real {
            Value::Object(members) => {
                self.add("{", RequestPlace::Format);
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        self.add(",", RequestPlace::Format);
                    }
                    let below = if key.is_empty() && name == "tools" {
                        Some(RequestPlace::Tools)
                    } else {
                        within
                    };
                    self.add(&format!("{}:", json(name)), below.unwrap_or(RequestPlace::Format));
                    let marked = marked.and_then(|marked| marked.get(name));
                    self.value(member, marked, name, below);
                }
                self.add("}", RequestPlace::Format);
            }
            Value::Array(items) => {
                self.add("[", RequestPlace::Format);
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.add(",", RequestPlace::Format);
                    }
                    self.value(item, marked.and_then(|marked| marked.get(index)), key, within);
                }
                self.add("]", RequestPlace::Format);
            }
            Value::String(text) => {
                let marked = marked.and_then(Value::as_str);
                self.text(text, marked, real, key, within);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.add(&real.to_string(), within.unwrap_or_else(|| self.place(real, key)));
            }
        }
    }

    fn text(
        &mut self,
        text: &str,
        marked: Option<&str>,
        real: &Value,
        key: &str,
        within: Option<RequestPlace>,
    ) {
        let pieces = marked.map(|marked| self.pieces(text, marked));
        self.add("\"", RequestPlace::Format);
        match (within, pieces) {
            (Some(place), _) => self.add(inner(&json(text)), place),
            (None, Some(Some(pieces))) => {
                for (piece, place) in pieces {
                    self.add(inner(&json(&piece)), place);
                }
            }
            // the same in both bodies
            (None, Some(None)) if marked == Some(text) => {
                let place = self.place(real, key);
                self.add(inner(&json(text)), place);
            }
            (None, _) => {
                let known = self.place(real, key);
                let place =
                    if known == RequestPlace::Format { RequestPlace::Unknown } else { known };
                self.add(inner(&json(text)), place);
            }
        }
        self.add("\"", RequestPlace::Format);
    }

    /// Cuts a text at the marks of its counterpart; `None`: there is no mark.
    fn pieces(&self, text: &str, marked: &str) -> Option<Vec<(String, RequestPlace)>> {
        let mut pieces = Vec::new();
        let (mut rest, mut left) = (marked, text);
        let mut first = None;
        while let Some((before, mark)) = rest.split_once(OPEN) {
            let (number, after) = mark.split_once(CLOSE)?;
            let (place, piece) = self.marks.texts.get(number.parse::<usize>().ok()?)?;
            first.get_or_insert(*place);
            let forms = [piece.clone(), inner(&json(piece)).to_owned(), piece.trim().to_owned()];
            let tail = left.strip_prefix(before);
            let Some((form, tail)) = tail.and_then(|tail| {
                forms.iter().find_map(|form| Some((form, tail.strip_prefix(form.as_str())?)))
            }) else {
                // the encoder has changed the text: all of it counts as the first piece
                return Some(vec![(text.to_owned(), first?)]);
            };
            pieces.push((before.to_owned(), RequestPlace::Format));
            pieces.push((form.clone(), *place));
            (rest, left) = (after, tail);
        }
        let first = first?;
        if left != rest {
            return Some(vec![(text.to_owned(), first)]);
        }
        pieces.push((left.to_owned(), RequestPlace::Format));
        Some(pieces)
    }

    /// The place of a value that is the same in both bodies.
    fn place(&self, value: &Value, key: &str) -> RequestPlace {
        let is_it =
            |(name, known, _): &&(String, Value, RequestPlace)| name == key && known == value;
        if let Some((_, _, place)) = self.marks.members.iter().find(is_it) {
            return *place;
        }
        match value {
            Value::String(text) => {
                self.marks.known.get(text).copied().unwrap_or(RequestPlace::Format)
            }
            Value::Number(number) if number.as_u64() == Some(self.marks.max_output) => {
                RequestPlace::MaxOutput
            }
            _ => RequestPlace::Format,
        }
    }

    fn add(&mut self, bytes: &str, place: RequestPlace) {
        if bytes.is_empty() {
            return;
        }
        let end = self.at + bytes.len();
        match self.spans.last_mut() {
            Some(last) if last.place == place => last.at.end = end,
            Some(_) | None => self.spans.push(Span { at: self.at..end, place }),
        }
        self.at = end;
    }
}

fn json(text: &str) -> String {
    // serialising a text to memory cannot fail
    serde_json::to_string(text).unwrap_or_default()
}

/// A JSON string without its quotes.
fn inner(json: &str) -> &str {
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json)
}
