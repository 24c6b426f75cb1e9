//! The body of a request, made from the body of the one before it as far as both are equal. Nothing but copying the bytes
//! grows with the conversation.
//!
//! Invariant: the bytes and the hash depend on the request alone, which a debug build asserts.

use leftfold_events::request::{Memo, RequestMessage};
use leftfold_events::{Request, Sha256};
use serde_json::Value;
use sha2::Digest;

use crate::config::Http;
use crate::history::History;
use crate::vendors::Vendor;

/// The beginning of a body, up to what a later message may still change.
pub(crate) struct Encoded {
    http: &'static dyn Http,
    vendor: &'static Vendor,
    /// The request with the messages that were read.
    request: Request,
    history: Box<dyn History>,
    /// The JSON of the other members and of the entries that later messages cannot change.
    json: Vec<u8>,
    /// The length of the other members.
    head: usize,
    /// Whether the history lacks thinking, on which the other members depend; `None`: they are not written yet.
    lacks_thinking: Option<bool>,
    /// The number of entries.
    entries: usize,
    /// The hash of the first bytes, and how many they are.
    sha256: (sha2::Sha256, usize),
}

impl Encoded {
    pub(crate) fn new(http: &'static dyn Http, vendor: &'static Vendor, request: &Request) -> Self {
        Self {
            http,
            vendor,
            // without the slot that it is kept in itself
            request: Request { messages: Vec::new(), encoded: Memo::default(), ..request.clone() },
            history: http.history(vendor, request),
            json: Vec::new(),
            head: 0,
            lacks_thinking: None,
            entries: 0,
            sha256: (sha2::Sha256::new(), 0),
        }
    }

    /// Whether `request` continues the one that this is of, on the same wire and at `vendor`.
    pub(crate) fn begins(&self, vendor: &Vendor, request: &Request) -> bool {
        let read = &self.request.messages;
        std::ptr::eq(self.vendor, vendor)
            && self.request.has_head_of(request)
            && read.len() <= request.messages.len()
            && read.iter().zip(&request.messages).all(|(mine, now)| mine.is_clone_of(now))
    }

    /// The number of messages that were read.
    pub(crate) fn read(&self) -> usize {
        self.request.messages.len()
    }

    /// The body of `request`, which begins with this, and its hash.
    pub(crate) fn body(&mut self, request: &Request) -> (Vec<u8>, Sha256) {
        let is_prompt = |last: &RequestMessage| matches!(last, RequestMessage::User { .. });
        // a prompt at the end may still be extended
        let closed =
            request.messages.len() - usize::from(request.messages.last().is_some_and(is_prompt));
        for message in request.messages.get(self.read()..closed).unwrap_or_default() {
            self.history.add(message);
            self.request.messages.push(message.clone());
        }
        for entry in self.history.settle() {
            write_entry(&mut self.json, self.entries, &entry);
            self.entries += 1;
        }
        let mut fork = None;
        for message in &request.messages[closed..] {
            fork.get_or_insert_with(|| self.history.fork()).add(message);
        }
        let history = fork.as_deref().unwrap_or(&*self.history);
        let (lacks_thinking, open) = (history.lacks_thinking(), history.open());
        if self.lacks_thinking.replace(lacks_thinking) != Some(lacks_thinking) {
            let head = self.head(lacks_thinking);
            let old = std::mem::replace(&mut self.head, head.len());
            self.json.splice(..old, head);
            self.sha256 = (sha2::Sha256::new(), 0);
        }
        let (sha256, hashed) = &mut self.sha256;
        sha256.update(&self.json[*hashed..]);
        *hashed = self.json.len();
        let mut sha256 = sha256.clone();

        let mut rest = Vec::new();
        for (at, entry) in (self.entries..).zip(&open) {
            write_entry(&mut rest, at, entry);
        }
        rest.extend(b"]}");
        sha256.update(&rest);
        ([&*self.json, &rest].concat(), Sha256::from_bytes(sha256.finalize().into()))
    }

    /// The other members, and the beginning of the conversation.
    fn head(&self, lacks_thinking: bool) -> Vec<u8> {
        let head = self.http.head(self.vendor, &self.request, lacks_thinking);
        // serialising values to memory cannot fail
        let mut json = serde_json::to_vec(&head).unwrap_or_default();
        json.pop();
        if !head.is_empty() {
            json.push(b',');
        }
        json.extend(format!("\"{}\":[", self.http.conversation()).as_bytes());
        json
    }
}

fn write_entry(json: &mut Vec<u8>, at: usize, entry: &Value) {
    if at > 0 {
        json.push(b',');
    }
    // serialising values to memory cannot fail
    let _ = serde_json::to_writer(json, entry);
}
